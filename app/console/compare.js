/** Two versions on one matrix: how far what they earn on rows that they have not seen differs. */

import { figures, h, words } from "./dom.js";

const SAME = "the same rows";

/** Whether two versions were evaluated on the same rows, by their cards. @param {any[]} cards */
function alike(cards) {
  const [a, b] = cards.map(({ data, seed }) => {
    const { method, folds, rows, by, column } = data.evaluation ?? {};
    const isAll = method === "cross-validation" && rows === data.rows; // whatever the seed
    return [method, JSON.stringify([data.digest, method, rows, by, column, ...(isAll ? [] : [seed, folds, data.holdout_rows])]), data.digest];
  });
  return a[0] && a[1] === b[1] ? SAME : a[2] === b[2] ? "different rows of the same data" : "different data";
}

/**
 * What the second version earns less the first one, and how far that can be chance. Of one version's rows the service
 * reports no values by which pairs could be formed.
 * @param {any[]} cards @param {any[]} reports
 */
export function less(cards, [a, b]) {
  const [from, to] = [a, b].map((one) => one.rules.find((/** @type {any} */ rule) => rule.rule === "expected_benefit"));
  const margin = Math.hypot(...[from, to].map(({ interval }) => (interval[1] - interval[0]) / 2));
  const difference = to.benefit - from.benefit, ends = [difference - margin, difference + margin], rows = alike(cards);
  const written = figures([/** @type {[number, number]} */ (ends)]);
  const [first, second] = cards.map((one) => `${one.name}:${one.version}`);
  return h("p", null, `By expected benefit ${second} less ${first} is ${written(difference)}, 95 % interval about ${ends.map(written).join(" to ")}. `
    + `Both were evaluated on ${rows}: ${rows === SAME ? "as they are not paired here, the interval is wider than need be as a rule."
      : "the difference is uncertain, and may come from the rows."}`);
}

/** @type {Record<string, string>} */
const RULES = {
  most_probable: "action for the most probable class",
  threshold_posterior: "threshold that the matrix gives",
  threshold_holdout: "threshold chosen on other rows",
  same_for_all: "one action for all",
  unit_costs: "quantity that costs least",
  value: "number as predicted",
};

/** A rule, in words. @param {string} name */
export function ruled(name) {
  return RULES[name] ?? words(name);
}

/** Writes the numbers of reports alike. @param {any[]} reports */
export function writes(reports) {
  return figures(reports.flatMap(({ rules, best }) => [...rules, best].map((one) => one.interval)));
}

/** B(t) in steps, through the best cut and that of the matrix, which may be between two points. @param {any} report */
export function steps({ curve, threshold, benefit, posterior_threshold: cut, rules }) {
  const posterior = rules.find((/** @type {any} */ one) => one.rule === "threshold_posterior");
  /** @type {[number | null, number | undefined][]} */
  const places = [...curve.map((/** @type {any} */ one) => [one.threshold, one.benefit]), [threshold, benefit], [cut, posterior?.benefit]];
  const drawn = /** @type {[number, number][]} */ (places.filter(([t, value]) => t !== null && value !== undefined));
  return drawn.sort(([a], [b]) => a - b).map(([t, value]) => /** @type {[number, number]} */ ([Math.min(Math.max(t, 0), 1), value]));
}
