/** What the charts of a model and of its outcomes show; also as examples, where there is nothing to show yet. */

import { example } from "./chart.js";
import { inUnit, short } from "./dom.js";

/** @typedef {import("./chart.js").Spec} Spec */

const DAY_MS = 86_400_000;

/** Promised and realised benefit, added up by day. @param {any} series @returns {Spec} */
export function earnings({ day, promised, realised, low, high }) {
  const ends = day.map((/** @type {string} */ date) => Date.parse(date));
  /** From 0, the day before. @template T @param {T[]} values @param {T} zero @returns {T[]} */
  const from = (values, zero) => [zero, ...values];
  const times = from(ends, ends[0] - DAY_MS);
  const points = (/** @type {number[]} */ sums) => times.map((time, i) => /** @type {[number, number]} */ ([time, from(sums, 0)[i]]));
  const band = low[0] === null ? undefined : from(low.map((/** @type {number} */ end, /** @type {number} */ i) => /** @type {[number, number]} */ ([end, high[i]])), /** @type {[number, number]} */ ([0, 0]));
  return {
    words: `Benefit up to ${day.at(-1)}: promised ${short(promised.at(-1))}, realised ${short(realised.at(-1))}`,
    x: "day of the decision", y: inUnit("benefit, added up"), dates: true,
    lines: [{ words: band ? "realised, with its 95 % interval" : "realised", style: "line", points: points(realised), band },
      { words: "promised", style: "line other", points: points(promised) }],
  };
}

/** How often what was stated with a probability was true. @param {any[]} points @param {string} about what was stated @returns {Spec} */
export function calibration(points, about) {
  const ends = points.flatMap(({ stated, interval }) => [stated, ...interval]), low = Math.min(...ends), high = Math.max(...ends);
  return {
    words: `Calibration curve, ${points.map(({ stated, occurred }) => `${short(stated, 2)}: ${short(occurred, 2)}`).join(", ")}`,
    x: `probability of ${about}`, y: "share of rows in which it was true",
    lines: [{ words: "as often as stated", style: "bound", points: [[low, low], [high, high]] },
      { words: "rows of about the same probability, with the 95 % interval of the share", style: "line", dots: true,
        points: points.map(({ stated, occurred }) => [stated, occurred]), band: points.map(({ interval }) => interval) }],
  };
}

/** The outcomes of a fortnight. */
export function earningsToCome() {
  const days = Array.from({ length: 14 }, (_, i) => i + 1);
  const realised = days.map((i) => 38 * i + 40 * Math.sin(i));
  const reach = (/** @type {number} */ sign) => days.map((i, at) => realised[at] + sign * 30 * Math.sqrt(i));
  return example(earnings({ day: days.map((i) => `2026-03-${String(i).padStart(2, "0")}`), promised: days.map((i) => 40 * i), realised,
    low: reach(-1), high: reach(1) }), "Once outcomes are known, this is what the decisions earned beside what the model promised.");
}

/** The decision curve of a model. */
export function decisionsToCome() {
  const points = Array.from({ length: 51 }, (_, i) => /** @type {[number, number]} */ ([i / 50, 2.4 - 9 * (i / 50 - 0.35) ** 2]));
  return example({ words: "Mean benefit at each threshold", x: "probability at which the action changes", y: "benefit per case",
    lines: [{ words: "decision curve: mean benefit", style: "line", points }],
    marks: [{ words: "best threshold", style: "cut", x: 0.35, y: 2.4 }] },
  "Once a model is trained, this is what it earns on rows not seen in training, whatever the threshold.");
}
