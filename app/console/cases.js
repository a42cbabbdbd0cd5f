/** Cases: one by a form made from the model's features, question by question, or a file of them. */

import { Acquisition } from "./acquire.js";
import { ask, cardOf, get, newId, Problem } from "./api.js";
import { CaseFile, chunks, harmless, headOf, records } from "./csv.js";
import { button, card, field, h, inUnit, put, save, select, setUnit, short, table, warned, words } from "./dom.js";
import { BenefitMatrix, columnsOf, inWords, keep, matrixOf, worded } from "./matrix.js";
import { chooser, link, range } from "./models.js";
import { numberIn, numberInput, numbersIn } from "./number.js";
import { cleared, within } from "./problems.js";
import { SavedMatrices } from "./saved.js";
import { drawn } from "./sets.js";

const MISSING = "";
const BEST_LABELS = { setting: "multilabel", loss: { name: "f_beta", beta: 1 }, curve: true, marginals: true };

/** @param {string[]} parts @param {AbortSignal} signal */
export async function view([ref], signal) {
  if (!ref) return chooser("Cases", "cases");
  const found = await cardOf(ref);
  setUnit(found.unit);
  const hasLabels = found.labels.length > 1;
  const editor = found.classes && !hasLabels ? matrixEditor(found) : null;
  const saved = editor && new SavedMatrices(found, editor);
  const record = h("input", { type: "checkbox" });
  const body = () => ({ model: `${found.name}:${found.version}`, ...saved?.request, ...(record.checked ? { record: true } : {}) });
  const stated = () => (editor ? `${saved?.request.actions ? "" : `${saved?.request.benefits}, which has `}${inWords(editor.matrix, found.classes)}` : "");
  const columns = () => (editor && !editor.flaw ? columnsOf(editor.matrix, found) : []);
  const changed = new EventTarget(); // the matrix: what was decided with another one must not stay
  editor?.addEventListener("change", () => changed.dispatchEvent(new Event("change")));
  return h("div", null, h("h1", null, "Cases: ", h("a", { href: link("models", found.name, found.version) }, ref)),
    editor ? h("details", { class: "card", open: !found.benefits }, h("summary", null, "Benefit matrix"), saved?.draw(false), editor) : null,
    editor ? h("p", null, h("label", null, record, " Record decisions"), " ", h("small", null, "each under an id, with which you report under Outcomes what became of it")) : null,
    h("div", { class: "columns" }, one(ref, found, body, stated, columns, changed), found.fitted.acquire === "possible" ? new Acquisition(found, body, changed).draw() : null),
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
  if (feature.form) return h("input", { "data-form": feature.form });
  if (feature.type !== "categorical") return numberInput();
  const options = feature.categories.map((/** @type {string} */ one) => [`=${one}`, one]);
  return select([[MISSING, "(missing)"], ...options], MISSING);
}

/** What was entered, null for nothing. @param {HTMLInputElement | HTMLSelectElement} input */
export function valueOf(input) {
  if (!(input instanceof HTMLSelectElement)) return input.dataset.form ? input.value.trim() || null : numberIn(input);
  return input.value === MISSING ? null : input.value.slice(1);
}

/** @param {string} ref @param {any} found @param {() => any} body @param {() => string} stated the matrix in words @param {() => string[]} columns that it needs @param {EventTarget} changed */
function one(ref, found, body, stated, columns, changed) {
  /** @type {Map<string, HTMLInputElement>} */
  const others = new Map(), beside = h("div", { class: "fields" });
  const draw = () => {
    for (const name of columns()) if (!others.has(name)) others.set(name, numberInput());
    put(beside, columns().map((name) => field(name, /** @type {any} */ (others.get(name)), "no feature: a benefit depends on it")));
  };
  /** @type {[any, HTMLInputElement | HTMLSelectElement][]} */
  const inputs = found.features.map((/** @type {any} */ feature) => [feature, inputOf(feature)]);
  const result = h("div", { "aria-live": "polite", tabindex: -1 });
  const decide = () => {
    const ids = [newId()];
    void within(result, async () => {
      const instance = Object.fromEntries(inputs.map(([{ name }, input]) => [name, valueOf(input)]));
      const missing = Object.values(instance).filter((value) => value === null).length;
      if (missing === inputs.length) return h("p", { role: "alert" }, "Enter at least one value: without any, nothing is known of the case.");
      for (const [name, value] of Object.entries(numbersIn(others))) if (columns().includes(name)) instance[name] = value;
      const json = { ...body(), instances: [instance] }, words = stated();
      if (found.labels.length > 1) return labelled(found, await get("retrieve", { json: { ...json, ...BEST_LABELS } }));
      // the reference itself, whose challengers decide, too; by names, as it may mean another version by now
      if (json.benefits) Object.assign(json, { model: ref, ids, explain: true }, json.actions && worded(json, found.classes));
      return explained(await get("predict", { json }), found, words, missing);
    }).then(() => {
      if (!result.hasChildNodes()) return; // whoever changed the case meanwhile keeps the focus
      result.focus();
      result.scrollIntoView({ block: "nearest" });
    });
  };
  const clear = () => cleared(result);
  changed.addEventListener("change", () => { clear(); draw(); });
  draw();
  return card("One case", h("form", { onsubmit: decide, oninput: clear },
    h("div", { class: "fields" }, inputs.map(([feature, input]) => field(feature.name, input,
      feature.form ? `as ${feature.form.split("|")[0].replace(/^[a-z]*:/, "")}` : feature.type === "numeric" ? range(feature) : null))), beside,
    h("div", { class: "row" }, h("button", { class: "main" }, "Decide"), h("small", null, "Empty fields are missing values."))),
      result);
}

/** The labels to choose for a case. @param {any} found @param {any} answer of /retrieve */
function labelled(found, { sets: [set], labels }) {
  const selected = set.selected.map((/** @type {string} */ name) => labels.indexOf(name));
  return drawn({ ...set, selected }, labels, set.marginals, `Labels of ${found.name}`);
}

/** A decision with its reasons. @param {any} answer of /predict for one instance @param {any} found @param {string} words @param {number} missing */
function explained(answer, found, words, missing) {
  if (answer.values) return h("p", { class: "decision" }, short(answer.values[0]));
  const decision = answer.decisions?.[0];
  const why = answer.explanations?.[0];
  return h("div", null, h("p", { class: "decision" }, Array.isArray(decision) ? decision.join(", ") : String(decision)),
    why ? h("p", null, why.sentence) : null,
    missing ? h("p", null, `${missing} of ${found.features.length} values are missing.`) : null,
    words ? h("small", null, `Decided with ${words}`) : null,
    answer.expected_benefits ? table(inUnit("Expected benefit of each action"), ["action", "benefit"],
      answer.actions.map((/** @type {string} */ name, /** @type {number} */ j) => [name,
      short(answer.expected_benefits[0][j])])) : null,
    probabilities(answer.classes ?? answer.labels ?? [], answer.probabilities?.[0] ?? []),
    why?.contributions ? contributions(why) : null, warned(answer.warnings),
    answer.model.version === found.version ? null
      : h("p", { role: "alert" }, `Version ${answer.model.version} decided, not version ${found.version} as on this page: load it again.`));
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
  return table(`What each feature adds to the ${words(of.score)} of ${of.class}, from ${short(why.base_value, 3)}`,
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
  const source = new CaseFile(found), result = h("div", { "aria-live": "polite" });
  let stop = new AbortController();
  const end = () => { stop.abort(); cleared(result); };
  changed.addEventListener("change", end);
  leaving.addEventListener("abort", end);
  const send = () => {
    end();
    const { signal } = stop = new AbortController();
    /** @type {Decided | undefined} */
    let decided; // which a retry continues
    void within(result, async () => {
      try {
        const asked = body(), words = stated();
        const progress = h("progress", { max: 100, value: 0, "aria-label": "Progress" });
        put(result, progress, button("Cancel", () => stop.abort()));
        decided ??= new Decided(await source.read(), asked);
        await decided.rest((share) => { progress.value = 100 * share; }, signal);
        const { name, blobs, rows, counted, warnings } = decided;
        return h("div", null, h("p", null, `${short(rows, 9)} rows decided.`),
          words ? h("small", null, `With ${words}`) : null, warned(warnings), counts(counted, rows),
          button("Download the results", () => save(`${name.replace(/\.\w+$/, "")}-decided.csv`, blobs, "text/csv"), { class: "main" }));
      } catch (error) {
        if (signal.aborted) return h("p", null, "Cancelled.");
        throw error;
      }
    });
  };
  return card("A file of cases", h("form", { onsubmit: send }, h("div", { class: "row" }, source.fields(),
    h("button", { class: "main" }, "Decide all")),
  h("small", null, "With a column for each feature. Other columns come back with the answer.")), result);
}

/** What is decided of a file. */
class Decided {
  /** @type {Blob[]} */
  blobs = [];
  /** How often each decision came. @type {Map<string, number>} */
  counted = new Map();
  /** @type {string[]} */
  warnings = [];
  rows = 0;
  /** Model and columns of the answers. @type {string | undefined} */
  #form;
  #at;

  /** @param {{name: string, file: Blob, head: import("./csv.js").Head, query: object}} source @param {object} asked */
  constructor({ name, file, head, query }, asked) {
    this.name = name;
    this.file = file;
    this.header = head.header;
    this.query = { ...query, ...asked };
    this.#at = head.header.size;
  }

  /** Decide the chunks that are left: those before one that failed may be recorded. @param {(share: number) => void} progress @param {AbortSignal} signal */
  async rest(progress, signal) {
    for await (const { body, end } of chunks(this.file, this.header, this.#at)) {
      const response = await this.#sent(body, signal);
      const answer = await response.blob(), own = await headOf(answer);
      const header = await own.header.text(), text = await answer.slice(own.header.size).text();
      const { model, warnings = [] } = JSON.parse(response.headers.get("Payoff-Answer") ?? "{}");
      const form = JSON.stringify([model, own.names]), before = this.rows, isAll = !before && end >= this.file.size;
      if (form !== (this.#form ??= form)) throw new Problem(409, "The answers differ", `From row ${before + 1} on they have another model or other columns`);
      const place = own.names.lastIndexOf("decision");
      for (const { [place]: decision } of records(text)) {
        this.rows += 1;
        if (place >= 0) this.counted.set(decision, (this.counted.get(decision) ?? 0) + 1);
      }
      this.blobs.push(new Blob([harmless(this.blobs.length ? text : header + text)]));
      this.warnings.push(...warnings.map((/** @type {string} */ one) => (isAll ? one : `Rows ${before + 1} to ${this.rows}: ${one}`)));
      this.#at = end;
      progress(end / this.file.size);
    }
  }

  /** The answer to a chunk; a rate limit is waited for. @param {Blob} body @param {AbortSignal} signal @returns {Promise<Response>} */
  async #sent(body, signal) {
    try {
      return await ask("predict", { body, type: "text/csv", accept: "text/csv", query: this.query, signal });
    } catch (error) {
      if (!(error instanceof Problem) || signal.aborted) throw error;
      if (error.status === 429 && error.wait && error.wait <= 60) {
        await new Promise((resolve) => { setTimeout(resolve, 1000 * error.wait); });
        return this.#sent(body, signal);
      }
      if (this.rows) error.detail += ` (rows are counted from row ${this.rows + 1} of the file; those before it are decided)`;
      throw error;
    }
  }
}

/** @param {Map<string, number>} found @param {number} rows */
function counts(found, rows) {
  return found.size && found.size <= 100 ? table("Decisions", ["decision", "rows", "share"],
    [...found].sort(([, a], [, b]) => b - a).map(([name, count]) => [name, short(count, 9),
    `${(100 * count / rows).toFixed(1)} %`])) : null;
}
