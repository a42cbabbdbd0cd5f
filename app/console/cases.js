/** Cases: one by a form made from the model's features, question by question, or a file of them. */

import { Acquisition } from "./acquire.js";
import { ask, cardOf, get, Problem } from "./api.js";
import { chunks, Decimals, harmless, headOf, records } from "./csv.js";
import { button, card, field, h, put, save, select, short, table, warned } from "./dom.js";
import { BenefitMatrix, inWords, keep, matrixOf } from "./matrix.js";
import { chooser, link, range } from "./models.js";
import { numberIn, numberInput } from "./number.js";
import { cleared, failed, within } from "./problems.js";
import { SavedMatrices } from "./saved.js";
import { drawn } from "./sets.js";

const MISSING = "";
const BEST_LABELS = { setting: "multilabel", loss: { name: "f_beta", beta: 1 }, curve: true, marginals: true };

/** @param {string[]} parts @param {AbortSignal} signal */
export async function view([ref], signal) {
  if (!ref) return chooser("Cases", "cases");
  const found = await cardOf(ref);
  const hasLabels = found.labels.length > 1;
  const editor = found.classes && !hasLabels ? matrixEditor(found) : null;
  const saved = editor && new SavedMatrices(found, editor);
  const body = () => ({ model: ref, ...saved?.request });
  const stated = () => (editor ? `${saved?.request.actions ? "" : `${saved?.request.benefits}, which has `}${inWords(editor.matrix, found.classes)}` : "");
  const changed = new EventTarget(); // the matrix: what was decided with another one must not stay
  editor?.addEventListener("change", () => changed.dispatchEvent(new Event("change")));
  return h("div", null, h("h1", null, "Cases: ", h("a", { href: link("models", found.name, found.version) }, ref)),
    editor ? h("details", { class: "card", open: !found.benefits }, h("summary", null, "Benefit matrix"), saved?.draw(false), editor) : null,
    h("div", { class: "columns" }, one(found, body, stated, changed), found.fitted.acquire === "possible" ? new Acquisition(found, body, changed).draw() : null),
    hasLabels ? null : file(found, body, stated, changed, signal));
}

/** @param {any} found the card */
function matrixEditor(found) {
  const editor = new BenefitMatrix().of(found.classes, matrixOf(found));
  editor.addEventListener("change", () => { if (!editor.flaw) keep(found, editor.matrix); });
  return editor;
}

/** An input for a feature; empty is a missing value. @param {any} feature */
export function inputOf(feature) {
  if (feature.type !== "categorical") return numberInput();
  const options = feature.categories.map((/** @type {string} */ one) => /** @type {[string, string]} */ ([`=${one}`, one]));
  return select([[MISSING, "(missing)"], ...options], MISSING);
}

/** What was entered, null for nothing. @param {HTMLInputElement | HTMLSelectElement} input */
export function valueOf(input) {
  if (!(input instanceof HTMLSelectElement)) return numberIn(input);
  return input.value === MISSING ? null : input.value.slice(1);
}

/** @param {any} found @param {() => any} body @param {() => string} stated the matrix in words @param {EventTarget} changed */
function one(found, body, stated, changed) {
  const inputs = found.features.map((/** @type {any} */ feature) => /** @type {const} */ ([feature.name, inputOf(feature)]));
  const result = h("div", { "aria-live": "polite" });
  const decide = (/** @type {Event} */ event) => {
    event.preventDefault();
    void within(result, async () => {
      const instance = Object.fromEntries(inputs.map((/** @type {any} */ [name, input]) => [name, valueOf(input)]));
      const missing = inputs.filter((/** @type {any} */ [name]) => instance[name] === null).length;
      if (missing === inputs.length) return h("p", { role: "alert" }, "Enter at least one value: without any, nothing is known of the case.");
      const json = { ...body(), instances: [instance] }, words = stated();
      if (found.labels.length > 1) return labelled(found, await get("retrieve", { json: { ...json, ...BEST_LABELS } }));
      return explained(await get("predict", { json: { ...json, ...(json.benefits ? { explain: true } : {}) } }), found, words, missing);
    });
  };
  const clear = () => cleared(result);
  changed.addEventListener("change", clear);
  return card("One case", h("form", { onsubmit: decide, oninput: clear },
    h("div", { class: "fields" }, found.features.map((/** @type {any} */ feature, /** @type {number} */ i) => field(feature.name,
      inputs[i][1], feature.type === "numeric" ? range(feature) : null))),
    h("div", { class: "row" }, h("button", { class: "main" }, "Decide"), h("small", null, "Empty fields are missing values."))),
      result);
}

/** The labels to choose for a case. @param {any} found @param {any} answer of /retrieve */
function labelled(found, { sets: [set], labels }) {
  const values = set.selected.map((/** @type {string} */ name) => set.marginals[labels.indexOf(name)]);
  return drawn({ ...set, selected: set.selected.map((/** @type {string} */ _, /** @type {number} */ i) => i) }, set.selected,
    values, `Labels of ${found.name}`);
}

/** A decision with its reasons. @param {any} answer of /predict for one instance @param {any} found @param {string} words @param {number} missing */
function explained(answer, found, words, missing) {
  if (answer.values) return h("p", { class: "decision" }, short(answer.values[0]));
  const decision = answer.decisions?.[0];
  const why = answer.explanations?.[0];
  return h("div", null, h("p", { class: "decision" }, Array.isArray(decision) ? decision.join(", ") : String(decision)),
    why ? h("p", null, reason(why, decision)) : null,
    missing ? h("p", null, `${missing} of ${found.features.length} values are missing.`) : null,
    words ? h("small", null, `Decided with ${words}`) : null,
    answer.expected_benefits ? table("Expected benefit of each action", ["action", "benefit"],
      answer.actions.map((/** @type {string} */ name, /** @type {number} */ j) => [name,
      short(answer.expected_benefits[0][j])])) : null,
    probabilities(answer.classes ?? answer.labels ?? [], answer.probabilities?.[0] ?? []),
    why?.contributions ? contributions(why) : null, warned(answer.warnings));
}

/** @param {any} why @param {string} decision */
function reason(why, decision) {
  const words = [];
  const { runner_up: next, flips_at: flips, matrix_flip: flip } = why;
  if (next !== null && next !== undefined) words.push(`${short(why.margin)} more than ${next}, the next best.`);
  if (flips) {
    const at = Object.entries(flips.probabilities).map(([name, p]) => `${name} ${short(/** @type {number} */ (p), 3)}`);
    words.push(`${flips.action} earns as much as ${decision} at ${at.join(", ")}.`);
  }
  if (flip) words.push(`So it does if the benefit of ${flip.action} for ${flip.class} changes by ${short(flip.change, 3)}.`);
  return words.join(" ");
}

/** @param {unknown[]} classes @param {number[]} values */
export function probabilities(classes, values) {
  return values.length ? table("Probabilities", ["class", "probability", ""],
    classes.map((name, k) => [String(name), values[k].toFixed(3), bar(values[k])])) : null;
}

/** @param {any} why */
function contributions(why) {
  const least = 1e-9 * Math.max(1, Math.abs(why.base_value)); // below it is rounding
  const all = Object.entries(/** @type {Record<string, number>} */ (why.contributions));
  const found = all.filter(([, value]) => Math.abs(value) > least);
  found.sort(([, a], [, b]) => Math.abs(b) - Math.abs(a));
  const largest = Math.abs(found[0]?.[1] ?? 0) || 1;
  const of = why.contributions_to;
  return table(`What each feature adds to the ${of.score.replaceAll("_", " ")} of ${of.class}, from ${short(why.base_value, 3)}`,
    ["feature", "adds", ""],
    found.map(([name, value]) => [name, short(value, 3), bar(value / largest)]));
}

/** A bar for a share between −1 and 1. @param {number} share */
function bar(share) {
  const size = Math.min(Math.abs(share), 1) * 100;
  return h("progress", { class: share < 0 ? "bar minus" : "bar", max: 100, value: size, "aria-hidden": "true" });
}

/**
 * A file of cases, sent in chunks as it is; the answers become one file.
 * @param {any} found
 * @param {() => any} body
 * @param {() => string} stated
 * @param {EventTarget} changed the matrix
 * @param {AbortSignal} leaving
 */
function file(found, body, stated, changed, leaving) {
  const input = h("input", { type: "file", accept: ".csv,.txt,text/csv", required: true }), decimals = new Decimals(input);
  const encoding = select([["utf-8", "UTF-8"], ["latin-1", "Windows (latin-1)"]], "utf-8");
  const result = h("div", { "aria-live": "polite" });
  const send = async (/** @type {Event} */ event) => {
    event.preventDefault();
    const [chosen] = input.files ?? [];
    if (!chosen) return;
    const stop = new AbortController();
    leaving.addEventListener("abort", () => stop.abort());
    changed.addEventListener("change", () => { stop.abort(); put(result); }, { once: true });
    try {
      const asked = body(), words = stated();
      const progress = h("progress", { max: 100, value: 0, "aria-label": "Progress" });
      put(result, progress, button("Cancel", () => stop.abort()));
      const parts = await decided(chosen, found, { ...asked, decimal: await decimals.chosen(), encoding: encoding.value },
        (share) => { progress.value = 100 * share; }, stop.signal);
      const name = `${chosen.name.replace(/\.\w+$/, "")}-decided.csv`;
      put(result, h("p", null, `${short(parts.rows, 9)} rows decided.`),
        words ? h("small", null, `With ${words}`) : null, warned(parts.warnings), counts(parts.counts, parts.rows),
        button("Download the results", () => save(name, parts.blobs, "text/csv"), { class: "main" }));
    } catch (error) {
      put(result, stop.signal.aborted ? h("p", null, "Cancelled.") : failed(error, () => void send(event)));
    }
  };
  return card("A file of cases", h("form", { onsubmit: send }, h("div", { class: "row" },
    field("CSV file of cases", input), decimals.node, field("Encoding", encoding),
    h("button", { class: "main" }, "Decide all")),
  h("small", null, "With a column for each feature. Other columns come back with the answer.")), result);
}

/**
 * @param {File} chosen @param {any} found @param {Record<string, any>} fields @param {(share: number) => void} progress @param {AbortSignal} signal
 */
async function decided(chosen, found, { model, benefits, actions, ...dialect }, progress, signal) {
  const head = await headOf(chosen, dialect.encoding);
  const features = new Set(found.features.map((/** @type {any} */ one) => one.name));
  const query = { model, benefits, actions, ...dialect, delimiter: head.delimiter,
    keep: head.names.filter((name) => name && !features.has(name)) };
  /** @type {Blob[]} */
  const blobs = [];
  /** @type {Map<string, number>} */
  const counted = new Map();
  /** @type {string[]} */
  const warnings = [];
  let rows = 0;
  for await (const chunk of chunks(chosen, head)) {
    const response = await sent(chunk, query, signal);
    const answer = await response.blob();
    const own = await headOf(answer);
    blobs.push(new Blob([harmless(await (blobs.length ? answer.slice(own.header.size) : answer).text())]));
    const before = rows, more = JSON.parse(response.headers.get("Payoff-Answer") ?? "{}").warnings ?? [];
    rows += await tally(answer, own, counted);
    warnings.push(...more.map((/** @type {string} */ one) => (before || chunk.share < 1 ? `Rows ${before + 1} to ${rows}: ${one}` : one)));
    progress(chunk.share);
  }
  return { blobs, rows, counts: counted, warnings };
}

/**
 * The answer to a chunk; a rate limit is waited for.
 * @param {{body: Blob, row: number}} chunk
 * @param {Record<string, any>} query
 * @param {AbortSignal} signal
 * @returns {Promise<Response>}
 */
async function sent({ body, row }, query, signal) {
  try {
    return await ask("predict", { body, type: "text/csv", accept: "text/csv", query, signal });
  } catch (error) {
    if (!(error instanceof Problem) || signal.aborted) throw error;
    if (error.status === 429 && error.wait && error.wait <= 60) {
      await new Promise((resolve) => { setTimeout(resolve, 1000 * error.wait); });
      return sent({ body, row }, query, signal);
    }
    if (row > 1) error.detail += ` (rows are counted from row ${row} of the file; the rows before it were decided, and are lost)`;
    throw error;
  }
}

/**
 * How often each decision came; returns the number of rows.
 * @param {Blob} answer
 * @param {import("./csv.js").Head} head
 * @param {Map<string, number>} counted
 */
async function tally(answer, head, counted) {
  const place = head.names.lastIndexOf("decision");
  let rows = 0;
  for (const record of records(await answer.slice(head.header.size).text())) {
    rows += 1;
    if (place >= 0) counted.set(record[place] ?? "", (counted.get(record[place] ?? "") ?? 0) + 1);
  }
  return rows;
}

/** @param {Map<string, number>} found @param {number} rows */
function counts(found, rows) {
  return found.size && found.size <= 100 ? table("Decisions", ["decision", "rows", "share"],
    [...found].sort(([, a], [, b]) => b - a).map(([name, count]) => [name, short(count, 9),
    `${(100 * count / rows).toFixed(1)} %`])) : null;
}
