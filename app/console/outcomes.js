/** Outcomes: what recorded decisions earned, against what was expected of them. */

import { cardOf, get, newest, path } from "./api.js";
import { chart, difference } from "./chart.js";
import { Dialect, headOf } from "./csv.js";
import { about, amounts, card, facts, field, figures, h, inUnit, money, plain, put, select, setUnit, share, short, table, time, warned, words } from "./dom.js";
import { chooser, link } from "./models.js";
import { earnings, earningsToCome } from "./pictures.js";
import { within } from "./problems.js";
import { earned } from "./rewards.js";

/** @typedef {import("./dom.js").Child} Child */

const DAY_MS = 86_400_000;
const GROUPS = ["day", "week", "action", "version", "key"];
/** @type {Record<string, [string, string]>} */
const VERDICTS = {
  within_10_percent: ["As promised, within 10 %", "The decisions earn what the model expected of them: a difference above a tenth of it is excluded."],
  over_promises: ["The model promises too much", "The decisions earn less than the model expected of them."],
  under_promises: ["The model promises too little", "The decisions earn more than the model expected of them."],
  undecided: ["Undecided", ""],
};
/** @type {Record<string, string>} */
const CHALLENGED = { better: "earns more", worse: "earns less", undecided: "undecided" };
/** @type {Record<string, string>} */
const WAYS = { without_exploration: "as now, without drawing", most_probable: "best action for the most probable class" };
/** @type {Record<string, string>} */
const RIGHT = { people: "People were right: the other actions earned more.", decisions: "The decisions were right: the other actions earned less.",
  undecided: "It is undecided who was right." };

/** Sections of the report, in their order. */
const SECTIONS = [summary, progress, maturing, selective, bounds, alternatives, overrides, exploration, priors, drift, challengers, groups];

/** @param {string[]} parts @param {AbortSignal} signal */
export async function view([ref], signal) {
  if (!ref) return chooser("Outcomes", "outcomes", earningsToCome);
  const [name] = ref.split(/[:@]/);
  const [found, { unit }] = await Promise.all([get(path("models", name), { signal }), cardOf(ref)]);
  setUnit(unit);
  return h("div", null, h("h1", null, "Outcomes of ", h("a", { href: link("models", name) }, name)),
    form(found, ref, signal));
}

/** A file of what became of decisions. @param {() => void} sent */
function sending(sent) {
  const dialect = new Dialect(), result = h("div", { "aria-live": "polite" });
  const input = h("input", { type: "file", accept: ".csv,.txt,text/csv", required: true });
  const send = () => void within(result, async () => {
    const [file] = /** @type {FileList} */ (input.files), encoding = dialect.encoding.value;
    const query = { decimal: dialect.decimal.value, encoding, delimiter: (await headOf(file, encoding)).delimiter };
    const { unknown, conflicts, ...counts } = await get("outcomes", { body: file, type: "text/csv", query, patient: true });
    sent();
    return facts(Object.entries({ ...counts, "of unknown decisions": unknown.length, "contradict what is stored": conflicts.length })
      .map(([name, count]) => [name, short(count, 9)]));
  });
  return h("details", { class: "card" }, h("summary", null, "Report what became of decisions"), h("form", { onsubmit: send },
    h("div", { class: "row" }, field("CSV file", input, "with columns id and truth, perhaps action and benefit"), dialect.fields,
      h("button", null, "Send"))), result);
}

/** What the report is about, and the report. @param {any} model @param {string} ref @param {AbortSignal} signal */
function form(model, ref, signal) {
  const { name } = model;
  const one = select([[name, "all versions"], ...model.versions.map((/** @type {any} */ own) =>
    [`${name}:${own.version}`, `version ${own.version}`]),
    ...Object.entries(model.aliases ?? {}).map(([alias, version]) => [`${name}@${alias}`, `${alias} → ${version}`])], ref);
  const first = h("input", { type: "date" }), last = h("input", { type: "date" });
  const by = select([["", "no groups"], ...GROUPS], "");
  const result = h("div", null), said = h("p", { role: "status", class: "soft" });
  const chosen = () => [one, first, last, by].map((input) => input.value).join(" ");
  const stale = () => { put(result); put(said, "Show the report for what is chosen now."); };
  const show = newest(() => within(result, async () => {
    const asked = chosen(), ref = one.value;
    put(said, "The report is made…");
    const query = { series: true, since: first.value || undefined, by: by.value || undefined,
      until: last.value ? new Date(Date.parse(last.value) + DAY_MS).toISOString() : undefined };
    const found = await get(path("models", ref, "outcomes"), { query, signal }).catch((error) => { put(said); throw error; });
    if (chosen() !== asked) return null;
    put(said, `The report of ${ref} is below.`);
    return drawn(found, ref);
  }));
  show(null);
  return h("div", null, card("Decisions", h("form", { oninput: stale,
    onsubmit: () => show(null) },
    h("div", { class: "fields" }, field("Made by", one), field("From", first, "days are those of UTC"),
      field("To", last, "this day included"), field("Also by", by)), h("button", { class: "main" }, "Show the report")), said),
  sending(() => show(null)), result);
}

/** @param {any} report @param {string} ref */
function drawn(report, ref) {
  const byRewards = report.rewards ? earned(report.rewards, VERDICTS) : [];
  return h("div", { class: "report" }, warned(report.warnings ?? []),
    report.decisions !== 0 ? null : h("p", null, "No decision of this period is recorded. Tick “Record decisions” under ",
      h("a", { href: link("cases", ref) }, "Cases"), "."),
    "decisions" in report ? [...SECTIONS.map((section) => section(report, ref)).flat(), ...byRewards]
      : byRewards.length ? [...byRewards, maturing(report)] // of these and of quantities the report is short
      : Object.keys(report).filter((name) => report[name] !== null && name !== "warnings").map((name) => card(words(name), plain(report[name]))));
}

/** The cases of a figure. @param {string} ref @param {any} report @param {string} text @param {...string} parts of the queue, `name=value` */
function cases(ref, { since, until }, text, ...parts) {
  const ends = Object.entries({ since, until }).flatMap(([name, end]) => (end ? [`${name}=${end}`] : []));
  return h("a", { href: link("review", ref, ...parts, ...ends) }, text);
}

/** @param {any} report @param {string} ref */
function summary(report, ref) {
  const { difference: { mean, low, high, tolerance } } = report;
  const [verdict, meaning] = VERDICTS[report.verdict] ?? [words(String(report.verdict)), ""];
  return card("The verdict",
    h("p", { class: "decision" }, verdict),
    h("p", null, report.verdict === "undecided" ? why(report) : meaning,
      report.selective?.is ? " This is about the decisions with known truth alone." : null),
    mean === null || tolerance === null ? null
      : difference(report.difference, figures([[low, high]]), inUnit("earned by what was decided, less what was promised, per decision")),
    report.advice?.length ? h("div", null, h("h3", null, "What to do"),
      h("ul", null, ...report.advice.map((/** @type {any} */ one) => h("li", null, String(one))))) : null,
    facts([["decisions", short(report.decisions, 9)], ["truth known", `${short(report.known, 9)} (${share(report.coverage)})`],
      report.known < report.decisions && ["unknown", cases(ref, report, short(report.decisions - report.known, 9), "open=true")],
      ["version", report.model?.version ?? "all"],
      ...["since", "until"].map((end) => report[end] && [end, time(report[end])])]));
}

/** Promised and realised benefit: over time, and in figures. @param {any} report */
function progress(report) {
  const { series } = report;
  return card("Promised and realised", series ? chart(earnings(series)) : earningsToCome(),
    report.decisions ? [amounts("Benefit of the decisions with known truth", [["promised", report.promised], ["realised", report.realised],
      ["difference: decided less promised", report.difference]]), amounts("All decisions", [["promised", report.expected]])] : null);
}

/** @param {any} report */
function why({ known, difference, expected }) {
  if (!known) return "No outcome of these decisions is known yet: open “Report what became of decisions” above.";
  if (!expected.cases) return "No decision has a benefit matrix, so nothing was promised.";
  if (difference.reason) return `There is no interval: ${difference.reason}.`;
  return `The interval of the difference contains 0, and also differences above the tolerance of ${short(difference.tolerance)} `
    + `(${difference.basis}). More outcomes make it narrower.`;
}

/** @param {any} report @param {string} ref */
function selective(report, ref) {
  const { selective: found } = report;
  const shares = table("Known truth after each action", ["action", "decisions", "known", "share", "unknown"],
    found.actions.map((/** @type {any} */ one) => [one.action, short(one.decisions, 9), short(one.known, 9), share(one.coverage),
      cases(ref, report, short(one.decisions - one.known, 9), `action=${one.action}`)]));
  if (found.is) return card("Truth is known more often after some actions",
    h("p", null, `Amounts about known cases are no estimates for all decisions (p = ${short(found.p_value, 2)}). `
      + "The column \"about\" has what each amount is about; the bounds hold for all decisions."), shares);
  return found.actions.length ? h("details", { class: "card" }, h("summary", null, "Known truth by action"), shares) : null;
}

/** @param {any} report */
function bounds({ bounds: found }) {
  const { if_probabilities_hold: held, ...range } = found;
  if (found.cases === 0 || found.unknown === 0) return null;
  return card("All decisions, known or not", h("p", null, `The truth of ${short(found.unknown, 9)} of ${short(found.cases, 9)} is unknown.`),
    table("Bounds", ["", "per decision", "total", "about"], [
      ["at least", short(range.mean_low), short(range.low), range.basis],
      ["if the probabilities hold", short(held?.mean), short(held?.total), held?.basis ?? ""],
      ["at most", short(range.mean_high), short(range.high), range.basis]]));
}

/** @param {any} report */
function alternatives({ alternatives: found }) {
  if (!found) return null;
  const rows = Object.entries(found).filter(([, one]) => one);
  const title = (/** @type {string} */ name, /** @type {any} */ one) => words(name) + ("action" in one ? `: ${one.action}` : "");
  return card("What else would have been earned", amounts("On the same cases", rows.map(([name, one]) => [title(name, one), one])),
    amounts("Less what was decided", rows.filter(([, one]) => one.gain).map(([name, one]) => [title(name, one), one.gain])));
}

/** @param {any} report */
function overrides({ overrides: found, told_benefits: told }) {
  if (found.differing === 0 && told.differing === 0) return null;
  return card("What people did otherwise", found.differing
    ? h("p", null, `${short(found.differing, 9)} cases differ. ${RIGHT[found.right] ?? words(String(found.right))}`) : null,
    amounts("Differences", [["other actions less the decisions", found], ["benefits reported less those of the matrix", told]]));
}

/** @param {any} report */
function exploration({ exploration: found }) {
  if (!found) return null;
  const ways = Object.entries(found.ways);
  const lines = ways.flatMap(([name, way]) => [["weighted outcomes (IPS)", way.ips], ["with the model where unknown (doubly robust)", way.dr]]
    .map(([estimate, one]) => [WAYS[name] ?? words(name), estimate, money(way.usable && found.known ? one : null), about([one])]));
  const poor = ways.filter(([, way]) => !way.usable);
  return card("What other ways to decide would earn", h("p", null, `The action was drawn at random in ${share(found.epsilon)} of `
    + `${short(found.cases, 9)} decisions; the truth of ${short(found.known, 9)} is known.`),
    poor.length ? warned(poor.map(([name, way]) => `${WAYS[name] ?? words(name)}: ${short(way.effective_cases)} cases count, too few to use the estimate`)) : null,
    table("Estimates for all decisions", ["way to decide", "estimate", "per decision (95 % interval)", "about"], lines),
    h("details", null, h("summary", null, "Weights"), table("How many cases count", ["way to decide", "effective cases", "largest weight", "usable"],
      ways.map(([name, way]) => [WAYS[name] ?? words(name), short(way.effective_cases), short(way.largest_weight, 3), way.usable ? "yes" : "no"]))));
}

/** @param {any} report */
function priors({ priors: found }) {
  if (!found?.versions.length) return null;
  const changed = (/** @type {boolean | null} */ one) =>
    (one === null ? "whether the shares changed is not answered" : one ? "the shares have changed" : "no change is proved");
  return card("Classes that occurred", ...found.versions.map((/** @type {any} */ one) => h("div", null,
    table(`Version ${one.version}: ${changed(one.changed)}; ${found.basis}`, ["class", "cases", "share", "share in training"],
      one.classes.map((/** @type {any} */ own) => [own.class, short(own.cases, 9), share(own.observed), share(own.trained)])))));
}

/** What drifted, and all on request. @param {any} report */
function drift({ drift: { scores, features, not_compared: others } }) {
  const all = [...scores, ...features], drifted = all.filter((one) => one.drifted);
  if (!all.length && !others.length) return null;
  const line = (/** @type {any} */ one) => [one.feature === undefined ? `probability of ${one.class}, version ${one.version}`
    : `${one.feature}, ${one.of}`,
  short(one.psi, 3), short(one.ks, 3), short(one.adjusted_p_value, 2), one.drifted ? "yes" : "no"];
  const head = ["of", "PSI", "KS distance", "corrected p", "drifted"];
  return card("Scores and features", drifted.length ? table("Drifted", head, drifted.map(line))
    : all.length ? h("p", null, "None of those compared has drifted.") : null,
  others.length ? h("p", null, `Not compared, for too few values or numbers beside text: ${others.map((/** @type {any} */ one) => one.feature).join(", ")}.`) : null,
  all.length ? h("details", null, h("summary", null, `All ${all.length} comparisons`), table("All comparisons", head, all.map(line))) : null);
}

/** @param {any} report */
function challengers({ shadow: found }) {
  if (!found?.length) return null;
  return card("Challengers", h("p", { class: "soft" }, "What they would have earned, less what was decided. These intervals may be looked at every day."),
    table("Less what was decided", ["challenger", "verdict", "per decision (95 % confidence sequence)", "cases", "decided otherwise", "about"],
      found.map((/** @type {any} */ one) => [one.challenger, CHALLENGED[one.verdict] ?? words(one.verdict), money(one.gain),
        short(one.cases, 9), short(one.differing, 9), about([one.gain])])),
    ...found.filter((/** @type {any} */ one) => one.reason).map((/** @type {any} */ one) => h("p", null, `${one.challenger}: ${one.reason}.`)));
}

/** Which truths are not used yet. @param {any} report */
function maturing({ maturing: found }) {
  if (!found?.since && !found?.reason && !found?.lags_by_class_differ) return null;
  return card("Truths that are still to come",
    found.since ? h("p", null, `Decisions since ${found.since} are left out: as many truths of the same days are still to come. `
      + `${short(found.known_left_out, 9)} known truths are not used yet.`) : null,
    found.lags_by_class_differ ? h("p", null, `Some classes become known later than others (p = ${short(found.p_value, 2)}).`) : null,
    found.reason ? h("p", null, `${found.reason}.`) : null);
}

/** @param {any} report @param {string} ref */
function groups(report, ref) {
  const { groups: found, by } = report;
  if (!found) return null;
  /** @type {Record<string, (group: any) => HTMLElement>} */
  const ways = {
    action: (group) => cases(ref, report, group, `action=${group}`, "open=any"),
    version: (group) => cases(`${ref.split(/[:@]/)[0]}:${group}`, report, group, "open=any"),
    day: (group) => cases(ref, { since: group, until: new Date(Date.parse(group) + DAY_MS).toISOString() }, group, "open=any"),
  };
  return card(`By ${by}`, table(`Means per decision (95 % interval); ${about(found.map((/** @type {any} */ one) => one.difference))}`,
    [by, "decisions", "truth known", "promised", "realised", "difference", "verdict"],
    found.map((/** @type {any} */ one) => [ways[by]?.(one.group) ?? one.group ?? "none", short(one.decisions, 9), share(one.coverage),
      short(one.promised?.mean), money(one.realised), money(one.difference), VERDICTS[one.verdict]?.[0] ?? one.verdict])));
}
