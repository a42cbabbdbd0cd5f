/** Two versions of a model on one matrix: what each rule earns on rows that its version has not seen. */

import { cardOf, get, path } from "./api.js";
import { Axis, LiveChart, whisker } from "./chart.js";
import { card, facts, field, figures, h, inUnit, select, short, table, warned } from "./dom.js";
import { inWords, matrixOf, worded } from "./matrix.js";
import { within } from "./problems.js";

/** @typedef {[number, any][]} Reports versions with their reports */

/** A form to choose two versions and a matrix; null for a model with fewer. @param {any} found the model */
export function comparison(found) {
  /** @type {number[]} */
  const versions = found.versions.map((/** @type {any} */ one) => one.version);
  if (versions.length < 2) return null;
  const first = select(versions, versions[1]), second = select(versions, versions[0]);
  const matrix = select([["", "the one of the lab, or of training"]], "");
  void get(path("models", found.name, "matrices")).then(({ matrices }) => {
    matrix.append(...matrices.map((/** @type {any} */ one) => h("option", { value: one.matrix }, `saved: ${one.matrix}`)));
  }, () => null);
  const result = h("div", { "aria-live": "polite" });
  const clear = () => result.replaceChildren();
  const compare = () => void within(result, () => compared(found.name, [Number(first.value), Number(second.value)], matrix.value));
  return card("Two versions on one matrix", h("form", { class: "row", onsubmit: compare, oninput: clear }, field("Version", first),
    field("and version", second), field("Benefit matrix", matrix), h("button", null, "Compare")), result);
}

/** @param {string} name @param {number[]} versions @param {string} saved */
async function compared(name, versions, saved) {
  const cards = await Promise.all(versions.map((one) => cardOf(`${name}:${one}`)));
  if (cards.some((one) => !one.classes || one.labels.length > 1)) return h("p", null, "A version that predicts numbers or sets of labels has no benefit matrix.");
  const own = saved ? { benefits: saved } : worded(matrixOf(cards[1]), cards[1].classes);
  const reports = await Promise.all(versions.map((one) => get(path("models", `${name}:${one}`, "benefit"), { json: own })));
  return drawn(versions.map((one, i) => [one, reports[i]]), saved ? `With the saved matrix ${saved}`
    : `With ${inWords(matrixOf(cards[1]), cards[1].classes)}`, cards);
}

const SAME = "the same rows";

/** Whether two versions were evaluated on the same rows, by their cards. @param {any[]} cards */
function alike(cards) {
  const [a, b] = cards.map(({ data, seed }) => {
    const { method, folds, rows } = data.evaluation ?? {};
    const isAll = method === "cross-validation" && rows === data.rows; // whatever the seed
    return [method, JSON.stringify([data.digest, method, rows, ...(isAll ? [] : [seed, folds, data.holdout_rows])]), data.digest];
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

/** Writes the numbers of reports alike. @param {any[]} reports */
export function writes(reports) {
  return figures(reports.flatMap(({ rules, best }) => [...rules, best].map((one) => one.interval)));
}

/** @param {Reports} both @param {string} words @param {any[]} cards */
function drawn(both, words, cards) {
  const reports = both.map(([, one]) => one), written = writes(reports);
  const axis = Axis.around(reports.flatMap((one) => one.rules.flatMap((/** @type {any} */ rule) => rule.interval)), 4, 166);
  const names = [...new Set(both.flatMap(([, one]) => one.rules.map((/** @type {any} */ rule) => rule.rule)))];
  const lines = names.flatMap((name) => both.map(([version, report]) => {
    const found = report.rules.find((/** @type {any} */ rule) => rule.rule === name);
    return [name.replaceAll("_", " "), `version ${version}`, written(found?.benefit),
      found ? found.interval.map(written).join("\u00a0to\u00a0") : "–",
      found ? whisker(axis, found.benefit, found.interval, name === report.best.rule) : null];
  }));
  return h("div", null, h("p", { class: "soft" }, words),
    facts(both.map(([version, one]) => [`version ${version}, by expected benefit`,
      `${written(one.expected_benefit.benefit)} of at most ${written(one.upper_bound)}, ${short(one.rows, 9)} rows`])),
    less(cards, reports),
    curves(both), table(`${inUnit("Benefit per case of each rule")}, with its 95 % interval`, ["rule", "", "benefit", "95 % interval", ""], lines),
    warned([...new Set(both.flatMap(([, one]) => one.warnings))]));
}

/** B(t) of both, where two classes and two actions have one. @param {Reports} both */
function curves(both) {
  if (!both.every(([, one]) => one.curve)) return null;
  const live = new LiveChart();
  const words = both.map(([version]) => `B(t) of version ${version}`);
  live.show({ words: words.join(" and "), x: "threshold t on the probability of the second class", y: "benefit per case, B(t)",
    lines: both.map(([, one], i) => ({ words: words[i], style: i ? "line" : "line other", steps: true,
      points: steps(one) })) });
  return live;
}

/** B(t) in steps, through the best cut and that of the matrix, which may be between two points. @param {any} report */
export function steps({ curve, threshold, benefit, posterior_threshold: cut, rules }) {
  const posterior = rules.find((/** @type {any} */ one) => one.rule === "threshold_posterior");
  /** @type {[number | null, number | undefined][]} */
  const places = [...curve.map((/** @type {any} */ one) => [one.threshold, one.benefit]), [threshold, benefit], [cut, posterior?.benefit]];
  const drawn = /** @type {[number, number][]} */ (places.filter(([t, value]) => t !== null && value !== undefined));
  return drawn.sort(([a], [b]) => a - b).map(([t, value]) => /** @type {[number, number]} */ ([Math.min(Math.max(t, 0), 1), value]));
}
