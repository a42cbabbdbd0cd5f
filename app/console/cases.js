/** Cases: one by a form made from the model's features, question by question, or a file of them. */

import { Acquisition } from "./acquire.js";
import { ask, cardOf, get, newId, Problem } from "./api.js";
import { CaseFile, chunks, harmless, headOf, records } from "./csv.js";
import { button, card, facts, field, h, inUnit, put, save, select, setUnit, short, table, warned, words } from "./dom.js";
import { looks } from "./forms.js";
import { prices } from "./limits.js";
import { chooser, link, range } from "./models.js";
import { numberIn, numberInput } from "./number.js";
import { cleared, within } from "./problems.js";
import { drawn } from "./sets.js";
import { termsOf } from "./terms.js";

const MISSING = "";
const BEST_LABELS = { setting: "multilabel", loss: { name: "f_beta", beta: 1 }, curve: true, marginals: true };

/** @param {string[]} parts @param {AbortSignal} signal */
export async function view([ref], signal) {
  if (!ref) return chooser("Cases", "cases");
  const version = await cardOf(ref);
  setUnit(version.unit);
  const terms = termsOf(version);
  return h("div", null,
    h("h1", null, "Cases: ", h("a", { href: link("models", version.name, version.version) }, ref)),
    terms.draw(),
    h("div", { class: "columns" }, oneCase(ref, version, terms),
      version.fitted.acquire === "possible" ? new Acquisition(version, terms).draw() : null),
    version.labels.length > 1 ? null : file(version, terms, signal));
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

/** Fields for columns that cells of the matrix name; what was entered stays while others come and go. */
export class NamedColumns {
  /** @type {Map<string, HTMLInputElement | HTMLSelectElement>} */
  #inputs = new Map();
  #drawn = "[]";
  place = h("div", { class: "fields" });

  /** @param {import("./terms.js").Terms} terms @param {boolean} withFeatures whether features have a field here, too */
  constructor(terms, withFeatures) {
    this.terms = terms;
    this.withFeatures = withFeatures;
    this.draw();
  }

  /** Draw them where they are others than before: one that is drawn anew loses the focus. */
  draw() {
    const names = this.#names;
    if (JSON.stringify(names) === this.#drawn) return;
    this.#drawn = JSON.stringify(names);
    put(this.place, names.map((name) => {
      const input = this.#inputs.get(name) ?? inputOf(this.#feature(name) ?? { type: "numeric" });
      this.#inputs.set(name, input);
      return field(name, input, this.#feature(name) ? "a benefit depends on it" : "no feature: a benefit depends on it");
    }));
  }

  /** What was entered: values of features, and numbers of other columns. */
  get values() {
    /** @type {Record<"features" | "columns", Record<string, string | number>>} */
    const values = { features: {}, columns: {} };
    for (const name of this.#names) {
      const value = valueOf(/** @type {HTMLInputElement} */ (this.#inputs.get(name)));
      if (value !== null) values[this.#feature(name) ? "features" : "columns"][name] = value;
    }
    return values;
  }

  get #names() {
    return this.terms.columns.filter((name) => this.withFeatures || !this.#feature(name));
  }

  /** @param {string} name */
  #feature(name) {
    return this.terms.version.features.find((/** @type {any} */ feature) => feature.name === name);
  }
}

/** @param {string} ref @param {any} version its card @param {import("./terms.js").Terms} terms */
function oneCase(ref, version, terms) {
  const beside = new NamedColumns(terms, false);
  /** @type {[any, HTMLInputElement | HTMLSelectElement][]} */
  const inputs = version.features.map((/** @type {any} */ feature) => [feature, inputOf(feature)]);
  const result = h("div", { "aria-live": "polite", tabindex: -1 });
  const decide = () => {
    const ids = [newId()];
    void within(result, async () => {
      const values = inputs.map(([{ name }, input]) => [name, valueOf(input)]);
      const missing = values.filter(([, value]) => value === null).length;
      if (missing === inputs.length) return h("p", { role: "alert" }, "Enter at least one value: without any, nothing is known of the case.");
      const instances = [{ ...Object.fromEntries(values), ...beside.values.columns }];
      if (version.labels.length > 1) {
        return labelled(version, await get("retrieve", { json: { ...terms.request, instances, ...BEST_LABELS } }));
      }
      const { words } = terms;
      const answer = await get("predict", { json: { ...terms.ofOne(ref), instances, ids } });
      return decided(answer, version, words, missing);
    }).then(() => {
      if (!result.hasChildNodes()) return; // whoever changed the case meanwhile keeps the focus
      result.focus();
      result.scrollIntoView({ block: "nearest" });
    });
  };
  const clear = () => cleared(result);
  terms.addEventListener("change", () => { clear(); beside.draw(); });
  return card("One case", h("form", { onsubmit: decide, oninput: clear },
    h("div", { class: "fields" }, inputs.map(([feature, input]) => field(feature.name, input, hint(feature)))),
    beside.place, h("div", { class: "row" }, h("button", { class: "main" }, "Decide"), h("small", null, "Empty fields are missing values."))),
  result);
}

/** How a value is written, and between which it was in training. @param {any} feature */
function hint(feature) {
  if (feature.type !== "numeric") return null;
  return [feature.form && looks(feature.form), range(feature)].filter(Boolean).join(": ");
}

/** The labels to choose for a case. @param {any} found @param {any} answer of /retrieve */
function labelled(found, { sets: [set], labels }) {
  const selected = set.selected.map((/** @type {string} */ name) => labels.indexOf(name));
  return drawn({ ...set, selected }, labels, set.marginals, `Labels of ${found.name}`);
}

/**
 * A decision with its reasons.
 * @param {any} answer of /predict for one instance @param {any} version its card
 * @param {string} words the terms @param {number} missing values
 */
function decided(answer, version, words, missing) {
  return h("div", null, answer.values ? quantity(answer) : action(answer),
    missing ? h("p", null, `${missing} of ${version.features.length} values are missing.`) : null,
    words ? h("small", null, `Decided with ${words}`) : null,
    answer.values ? null : reasons(answer), warned(answer.warnings),
    answer.model.version === version.version ? null
      : h("p", { role: "alert" }, `Version ${answer.model.version} decided, not version ${version.version} as on this page: load it again.`));
}

/** @param {any} answer */
function action({ decisions: [decision], explanations: [why] = [] }) {
  return [h("p", { class: "decision" }, String(decision)), why ? h("p", null, why.sentence) : null];
}

/** @param {any} answer */
function reasons({ actions, expected_benefits: [benefits] = [], uplift: [uplift] = [], classes, probabilities: [shares] = [[]], explanations: [why] = [] }) {
  return [benefits ? table(inUnit("Expected benefit of each action"), ["action", "benefit", ...(uplift ? ["uplift"] : [])],
    actions.map((/** @type {string} */ name, /** @type {number} */ j) => [name, short(benefits[j]), ...(uplift ? [short(uplift[j])] : [])])) : null,
  probabilities(classes, shares), why?.contributions ? contributions(why) : null];
}

/** @param {any} answer */
function quantity({ values: [value], decisions: [amount] = [], expected_costs: [cost] = [], intervals: [interval] = [] }) {
  return [h("p", { class: "decision" }, short(amount ?? value)), facts([
    ["predicted", short(value)],
    amount !== undefined && ["quantity that costs least", short(amount)],
    cost !== undefined && [inUnit("its expected cost"), short(cost)],
    interval && ["interval", `${short(interval[0])} to ${short(interval[1])}`],
  ])];
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
 * A file of cases, sent in chunks as it is, or as a whole where limits hold for it; the answers become one file.
 * @param {any} version its card
 * @param {import("./terms.js").Terms} terms
 * @param {AbortSignal} leaving
 */
function file(version, terms, leaving) {
  const source = new CaseFile(version), result = h("div", { "aria-live": "polite" });
  let stop = new AbortController();
  const end = () => { stop.abort(); cleared(result); };
  for (const kind of ["change", "limit"]) terms.addEventListener(kind, end);
  leaving.addEventListener("abort", end);
  const send = () => {
    end();
    const { signal } = stop = new AbortController();
    /** @type {Decided | undefined} */
    let decided; // which a retry continues
    void within(result, async () => {
      try {
        const { words } = terms, limits = terms.limits.request, request = { ...terms.request, ...limits };
        const progress = h("progress", { max: 100, value: 0, "aria-label": "Progress" });
        put(result, progress, button("Cancel", () => stop.abort()));
        decided ??= new Decided(await source.read(), request, Object.keys(limits).length > 0);
        await decided.rest((share) => { progress.value = 100 * share; }, signal);
        return summary(decided, words);
      } catch (error) {
        if (signal.aborted) return h("p", null, "Cancelled.");
        throw error;
      }
    });
  };
  return card("A file of cases", h("form", { onsubmit: send }, h("div", { class: "row" }, source.fields(),
    h("button", { class: "main" }, "Decide all")), terms.limits.draw(),
  h("small", null, "With a column for each feature. Other columns come back with the answer.")), result);
}

/** @param {Decided} decided @param {string} words the terms */
function summary({ name, blobs, rows, counted, warnings, figures }, words) {
  return h("div", null, h("p", null, `${short(rows, 9)} rows decided.`),
    words ? h("small", null, `With ${words}`) : null, warned(warnings), prices(figures), counts(counted, rows),
    button("Download the results", () => save(`${name.replace(/\.\w+$/, "")}-decided.csv`, blobs, "text/csv"), { class: "main" }));
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
  /** What limits cost. @type {any} */
  figures = {};
  /** Model and columns of the answers. @type {string | undefined} */
  #form;
  #at;

  /**
   * @param {{name: string, file: Blob, head: import("./csv.js").Head, query: object}} source
   * @param {object} request @param {boolean} isWhole whether it is one request
   */
  constructor({ name, file, head, query }, request, isWhole) {
    this.name = name;
    this.file = file;
    this.header = head.header;
    this.query = { ...query, ...request };
    this.isWhole = isWhole;
    this.#at = head.header.size;
  }

  /** Decide the chunks that are left: those before one that failed may be recorded. @param {(share: number) => void} progress @param {AbortSignal} signal */
  async rest(progress, signal) {
    const parts = this.isWhole ? [{ body: this.file, end: this.file.size }] : chunks(this.file, this.header, this.#at);
    for await (const { body, end } of parts) {
      const response = await this.#sent(body, signal);
      const answer = await response.blob(), own = await headOf(answer);
      const header = await own.header.text(), text = await answer.slice(own.header.size).text();
      const { model, warnings = [], ...figures } = JSON.parse(response.headers.get("Payoff-Answer") ?? "{}");
      const form = JSON.stringify([model, own.names]), before = this.rows, isAll = !before && end >= this.file.size;
      if (form !== (this.#form ??= form)) throw new Problem(409, "The answers differ", `From row ${before + 1} on they have another model or other columns`);
      if (this.isWhole) this.figures = { ...figures, expected_costs: own.names.includes("expected_cost") };
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
