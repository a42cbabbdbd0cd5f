/** What a model learned from rewards would earn: its policy beside the log and single actions, calibration, uplift. */

import { Axis, chart, whisker } from "./chart.js";
import { amounts, card, facts, field, figures, h, inUnit, money, put, select, share, short, table, words } from "./dom.js";

/** @typedef {{mean: number | null, low: number | null, high: number | null}} Interval */

/** @type {Record<string, string>} */
const VERDICTS = {
  better: "The policy earns more than what was done",
  worse: "The policy earns less than what was done",
  undecided: "It is undecided whether the policy earns more than what was done",
  cannot_be_judged: "The policy cannot be judged",
};

/** What a policy earns. @param {any} metrics of its card */
export function policy({ verdict, reason, value, logged, gain, effective, expected_effective: promised }) {
  return [h("p", { class: "decision" }, VERDICTS[verdict] ?? words(verdict)), reason ? h("p", null, `${reason}.`) : null,
    facts([[inUnit("the policy earns per case"), between(value)], ["the log earned", figures([ends(value)])(logged)], ["gain", between(gain)],
      ["effective rows", short(effective, 3)], ["effective rows expected", short(promised, 3)]])];
}

/** @param {any} metrics */
function ways({ value, logged, gain, actions }) {
  const ranges = [value, ...actions.map((/** @type {any} */ one) => one.value)].map(ends);
  const written = figures(ranges), axis = Axis.around([...ranges.flatMap((one) => one ?? []), logged], 4, 166);
  const line = (/** @type {string} */ name, /** @type {Interval} */ one, /** @type {Interval | null} */ by, isBest = false) => {
    const range = ends(one);
    return [name, written(one.mean), range ? range.map(written).join("\u00a0to\u00a0") : "",
      range ? whisker(axis, Number(one.mean), range, isBest) : "", by ? between(by) : "", by ? leads(by) : ""];
  };
  return card("Ways to decide", table(`${inUnit("Reward per case")} on rows not seen in training, if all had been decided so`,
    ["way", "reward", "95 % interval", "", "the policy earns more by", "which is"],
    [line("the policy", value, null, true), line("the log", { mean: logged, low: null, high: null }, gain),
      ...actions.map((/** @type {any} */ one) => line(`always ${one.action}`, one.value, one.gain_over))]), actionTable(actions));
}

/** @param {any[]} actions */
function actionTable(actions) {
  const rows = actions.reduce((total, one) => total + one.rows, 0);
  return table("Actions in these rows", ["action", "rows", "of the log", "mean reward", "of the policy"],
    actions.map((one) => [one.action, short(one.rows, 9), share(one.rows / rows), short(one.mean_reward), share(one.chosen)]));
}

/** Pictures of a card. @param {any} metrics */
export function policyPictures(metrics) {
  const { calibration, actions, uplift } = metrics;
  /** @type {[string, any][]} */
  const promised = [["the actions of the policy", calibration], ...actions.map((/** @type {any} */ one) => [`always ${one.action}`, one.calibration])];
  /** @type {[string, any][]} */
  const curves = uplift && [...(uplift.treatments.length > 1 ? [["the best treatment of each case", uplift.best]] : []),
    ...uplift.treatments.map((/** @type {any} */ one) => [one.action, one])];
  return h("div", null, ways(metrics), h("div", { class: "columns" },
    card("Expected and observed rewards", choice("Of", promised, calibrated)),
    card("Uplift", uplift ? choice(`Instead of ${uplift.baseline}`, curves, curve)
      : h("p", null, "Train with a baseline, such as “none”, for curves of what treating the right cases earns over it."))));
}

/** A choice of what a picture shows. @param {string} label @param {[string, any][]} shown @param {(one: any) => (Node | null)[]} draw */
function choice(label, shown, draw) {
  const place = h("div"), input = select(shown.map(([name], i) => [String(i), name]), "0", { onchange: () => put(place, draw(shown[Number(input.value)][1])) });
  put(place, draw(shown[0][1]));
  return [field(label, input), place];
}

/** @param {any[]} bins */
function calibrated(bins) {
  const points = bins.map(({ predicted, observed }) => /** @type {[number, number]} */ ([predicted, observed.mean]));
  const band = bins.map(({ observed }) => ends(observed) ?? /** @type {[number, number]} */ ([observed.mean, observed.mean]));
  const [low, high] = [Math.min(...points.flat()), Math.max(...points.flat())];
  return [chart({ words: `Observed rewards: ${points.map(([x, y]) => `${short(y, 3)} where ${short(x, 3)} was expected`).join(", ")}`,
    x: inUnit("expected reward"), y: inUnit("observed reward"),
    lines: [{ words: "as expected", style: "bound", points: [[low, low], [high, high]] },
      { words: "observed, with its 95 % interval", style: "line", points, band, dots: true }] }),
  bins.some(({ observed }) => observed.low === null) ? h("small", null, "Dots without an interval have too few rows in which the log took these actions.") : null];
}

/** @param {any} of */
function curve({ area, reason, curve: all }) {
  const points = all.filter((/** @type {any} */ one) => reason || ends(one));
  const line = points.map((/** @type {any} */ one) => [one.share, one.mean]);
  const band = reason ? undefined : points.map(ends);
  const end = line.at(-1)[1], best = line.reduce((/** @type {any} */ a, /** @type {any} */ b) => (b[1] > a[1] ? b : a));
  return [chart({ words: `Treating ${share(best[0])} earns most: ${short(best[1], 3)} per case; treating all ${short(end, 3)}`,
    x: "share of cases treated, largest uplift first", y: inUnit("gain per case"),
    lines: [{ words: "by uplift, with its 95 % interval", style: "line", points: line, band },
      { words: "as many at random", style: "bound", points: [[0, 0], [1, end]] }] }),
  h("p", null, reason ? `There is no interval: ${reason}.` : `Area over random (Qini): ${between(area)}. `
    + (area.low > 0 ? "Whom to treat matters." : area.high < 0 ? "The ranking is worse than random." : "It is not shown that whom to treat matters."))];
}

/** @param {Interval} one @returns {[number, number] | null} */
function ends({ low, high }) {
  return low === null || high === null ? null : [low, high];
}

/** @param {Interval} one */
function between(one) {
  const range = ends(one), written = figures([range]);
  return `${written(one.mean)} (${range ? range.map(written).join("\u00a0to\u00a0") : "no interval"})`;
}

/** @param {Interval} gain of the policy */
function leads({ low, high }) {
  if (low === null || high === null) return "not judged";
  return low > 0 ? "more than chance" : high < 0 ? "a loss" : "perhaps chance";
}

/** What decisions by rewards earned. @param {any} rewards of a report on outcomes @param {Record<string, [string, string]>} verdicts in words */
export function earned({ decisions, known, overridden, promised, realised, difference, verdict, policy, challengers, groups }, verdicts) {
  const named = (/** @type {string} */ one) => verdicts[one]?.[0] ?? words(one);
  return [card("The verdict", amounts("Reward of the decisions whose reward is known, less costs", [["promised", promised], ["realised", realised],
    ["difference: realised less promised", difference]]), h("p", { class: "decision" }, named(verdict)), h("p", null, verdicts[verdict]?.[1]),
    facts([["decisions", short(decisions, 9)], ["reward known", short(known, 9)], ["another action was carried out", short(overridden, 9)]])),
  policy ? card("The policy without exploration", h("p", { class: "decision" }, VERDICTS[policy.verdict] ?? words(policy.verdict)),
    policy.reason ? h("p", null, `${policy.reason}.`) : null, gains(policy),
    facts([["cases", short(policy.cases, 9)], ["effective cases", short(policy.effective, 3)], ["promised by the chances", short(policy.expected_effective, 3)]])) : null,
  challengers?.length ? card("Challengers", table("Less what the policy earns", ["challenger", "gain", "which is", "cases", "decided otherwise"],
    challengers.map((/** @type {any} */ one) => [one.challenger, between(one.over_policy), leads(one.over_policy), short(one.cases, 9), short(one.over_policy.differing, 9)]))) : null,
  groups ? card("Groups", table("Reward per decision", ["group", "decisions", "promised", "realised", "verdict"],
    groups.map((/** @type {any} */ one) => [one.group ?? "none", short(one.decisions, 9), short(one.promised?.mean), money(one.realised), named(one.verdict)]))) : null];
}

/** @param {any} policy */
function gains({ gain, single_actions: singles }) {
  const rows = [{ name: "all that was decided", one: gain }, ...singles.map((/** @type {any} */ { action, gain_over: one }) => ({ name: `always ${action}`, one }))];
  const axis = Axis.around([0, ...rows.flatMap(({ one }) => ends(one) ?? [])], 4, 166);
  return table(inUnit("What the policy earns more per case"), ["than", "gain", "", "which is"], rows.map(({ name, one }) => {
    const range = ends(one);
    return [name, between(one), range ? whisker(axis, one.mean, range, false) : "", leads(one)];
  }));
}
