/** What is at stake where cases are decided: a matrix between classes, or what a quantity costs. */

import { card, field, h, put, select } from "./dom.js";
import { Limits } from "./limits.js";
import { BenefitMatrix, columnsOf, identity, inWords, keep, matrixOf, worded } from "./matrix.js";
import { isOfRewards } from "./models.js";
import { numberIn, numberInput, numbersIn, parsed, refused, why } from "./number.js";
import { SavedMatrices } from "./saved.js";

/** @typedef {Record<string, unknown>} Fields of a request */

/** The terms of a version; fires `change` when they are edited. */
export class Terms extends EventTarget {
  #record = h("input", { type: "checkbox" });
  limits = new Limits(() => this.dispatchEvent(new Event("limit")));

  /** @param {any} version its card */
  constructor(version) {
    super();
    this.version = version;
  }

  /**
   * What requests state of many cases; of a version, since a matrix goes by the order of its classes.
   * @returns {any}
   */
  get request() {
    const record = this.#record.checked ? { record: true } : {};
    return { model: `${this.version.name}:${this.version.version}`, ...this.stakes, ...record };
  }

  /** @returns {Fields} */
  get stakes() {
    return {};
  }

  /** The same of one case. @param {string} _ref as the page names the model @returns {any} */
  ofOne(_ref) {
    return this.request;
  }

  /** The terms, for reading. */
  get words() {
    return "";
  }

  /** The columns that a case must have. @returns {string[]} */
  get columns() {
    return [];
  }

  /** @returns {Node | null} */
  draw() {
    return null;
  }

  recording() {
    return h("p", null, h("label", null, this.#record, " Record decisions"), " ",
      h("small", null, "each under an id, with which you report under Outcomes what became of it"));
  }

  changed() {
    this.dispatchEvent(new Event("change"));
  }
}

/** A benefit matrix. */
class MatrixTerms extends Terms {
  /** @param {any} version */
  constructor(version) {
    super(version);
    this.editor = new BenefitMatrix().of(version.classes, matrixOf(version));
    this.editor.addEventListener("change", () => {
      if (!this.editor.flaw) keep(version, this.editor.matrix);
    });
    this.saved = new SavedMatrices(version, this.editor);
    this.editor.addEventListener("change", () => { this.#limit(); this.changed(); });
    this.#limit();
  }

  /** @returns {any} */
  get stakes() {
    return this.saved.request;
  }

  /**
   * To the reference itself, whose challengers decide, too; by names, as it may mean another version by now.
   * @param {string} ref
   */
  ofOne(ref) {
    const { request } = this;
    const names = request.actions ? worded(request, this.version.classes) : {};
    return { ...request, ...names, model: ref, explain: true };
  }

  get words() {
    const { benefits, actions } = this.stakes;
    const saved = actions ? "" : `${benefits}, which has `;
    return saved + inWords(this.editor.matrix, this.version.classes);
  }

  get columns() {
    return this.editor.flaw ? [] : columnsOf(this.editor.matrix);
  }

  draw() {
    return h("div", null, h("details", { class: "card", open: !this.version.benefits },
      h("summary", null, "Benefit matrix"), this.saved.draw(false), this.editor), this.recording());
  }

  #limit() {
    if (!this.editor.flaw) this.limits.of(this.editor.matrix.actions);
  }
}

/** Costs of a unit too much and too few and an interval, or bands and a matrix between them. */
class NumberTerms extends Terms {
  #over = numberInput({ min: 0 });
  #under = numberInput({ min: 0 });
  #coverage = numberInput({ min: 0, max: 1 });
  #bands = h("input", { autocomplete: "off" });
  #editor = new BenefitMatrix();
  #place = h("div");
  /** @type {string[]} */
  #names = [];

  /** @param {any} version */
  constructor(version) {
    super(version);
    this.limits.of(null);
    this.#bands.addEventListener("input", () => this.#draw());
    this.#editor.addEventListener("change", () => { this.#limit(); this.changed(); });
  }

  /** @returns {any} */
  get stakes() {
    const bands = cutsIn(this.#bands);
    if (bands.length) return { bands, ...this.#editor.matrix };
    const [over, under, coverage] = [this.#over, this.#under, this.#coverage].map(numberIn);
    if (over !== null && under === null) throw refused(this.#under, "is empty: both costs decide");
    if (over === null && under !== null) throw refused(this.#over, "is empty: both costs decide");
    return {
      ...(over === null ? {} : { unit_costs: { over, under } }),
      ...(coverage === null ? {} : { coverage }),
    };
  }

  /** @param {string} ref */
  ofOne(ref) {
    const { request } = this;
    return { ...request, model: ref, ...(request.bands ? { explain: true } : {}) };
  }

  get words() {
    const { bands, unit_costs: costs } = this.stakes;
    if (bands) return inWords(this.#editor.matrix, this.#names);
    if (!costs) return "";
    return `costs of ${costs.over} for a unit too much and ${costs.under} for a unit too few`;
  }

  get columns() {
    return this.#names.length && !this.#editor.flaw ? columnsOf(this.#editor.matrix) : [];
  }

  draw() {
    const fields = h("div", { class: "fields", oninput: () => this.changed() },
      field("A unit too much costs", this.#over,
        "with both costs, the quantity that costs least is decided"),
      field("A unit too few costs", this.#under),
      field("Share within the interval", this.#coverage,
        "such as 0.9: nine of ten numbers are within it"),
      field("Bands begin at", this.#bands,
        "instead, such as 500; 900: a matrix decides between the bands"));
    return h("div", null, card("Quantities and bands", fields, this.#place), this.recording());
  }

  /** A matrix between the bands; what it has for as many bands stays. */
  #draw() {
    const names = namesOf(this.#bands.value), before = this.#names;
    const hasBands = names.length > 0;
    for (const input of [this.#over, this.#under, this.#coverage]) input.disabled = hasBands;
    if (JSON.stringify(names) === JSON.stringify(before)) return;
    this.#names = names;
    if (names.length) this.#editor.of(names, this.#matrixFor(names, before));
    put(this.#place, names.length ? this.#editor : null);
    this.#limit();
  }

  /** @param {string[]} names @param {string[]} before */
  #matrixFor(names, before) {
    if (names.length !== before.length || this.#editor.flaw) return identity(names);
    const { benefits, actions } = this.#editor.matrix;
    return { benefits, actions: actions.map((action) => names[before.indexOf(action)] ?? action) };
  }

  #limit() {
    if (!this.#names.length) this.limits.of(null);
    else if (!this.#editor.flaw) this.limits.of(this.#editor.matrix.actions);
  }
}

/** Costs of actions whose rewards a model learned, and the action that the others are compared with. */
class RewardTerms extends Terms {
  #baseline;
  #costs;

  /** @param {any} version */
  constructor(version) {
    super(version);
    const names = version.classes.map(String);
    this.limits.of(names);
    this.#baseline = select([["", "no uplift"], ...names.map((/** @type {string} */ name) => [name, name])], version.learner.parameters.baseline ?? "");
    this.#costs = new Map(names.map((/** @type {string} */ name) => [name, numberInput()]));
  }

  /** @returns {any} */
  get stakes() {
    const costs = numbersIn(this.#costs), baseline = this.#baseline.value;
    return { ...(Object.keys(costs).length ? { costs } : {}), ...(baseline ? { baseline } : {}) };
  }

  get words() {
    const costs = Object.entries(this.stakes.costs ?? {});
    return costs.map(([name, cost]) => `costs of ${cost} for ${name}`).join(", ");
  }

  draw() {
    const fields = h("div", { class: "fields", oninput: () => this.changed() },
      field("Uplift over", this.#baseline), [...this.#costs].map(([name, input]) => field(`Cost of ${name}`, input)));
    return h("div", null, card("Costs of actions", h("p", null, "The action with the largest expected reward less its cost is decided."), fields), this.recording());
  }
}

/** @param {any} version its card @returns {Terms} */
export function termsOf(version) {
  if (isOfRewards(version)) return new RewardTerms(version);
  if (version.labels.length > 1) return new Terms(version);
  return version.classes ? new MatrixTerms(version) : new NumberTerms(version);
}

/** @param {string} text */
const parts = (text) => text.split(/[;\s]+/).filter(Boolean);

/** Where bands begin. @param {HTMLInputElement} input @returns {number[]} */
function cutsIn(input) {
  return parts(input.value).map((text) => {
    const flaw = why(input, text);
    if (flaw) throw refused(input, flaw);
    return parsed(text);
  });
}

/** The bands as the service names them; none where a number cannot be read. @param {string} text */
function namesOf(text) {
  const cuts = parts(text).map(parsed);
  if (!cuts.length || cuts.some(Number.isNaN)) return [];
  const between = cuts.slice(1).map((cut, i) => `from ${cuts[i]} to below ${cut}`);
  return [`below ${cuts[0]}`, ...between, `from ${cuts.at(-1)}`];
}
