/** Limits on the decisions of a file: how often an action is chosen, or the sum of quantities. */

import { details, field, h, inUnit, put, short, table } from "./dom.js";
import { numberInput, numbersIn } from "./number.js";

const SUM = "Sum of all quantities";

/** Fields for limits; what was entered for an action stays while other actions come and go. */
export class Limits {
  /** @type {Map<string, HTMLInputElement>} */
  #inputs = new Map();
  /** @type {string[] | null} */
  #actions = [];
  #fields = h("div", { class: "fields" });

  /** @param {() => void} [changed] */
  constructor(changed) {
    this.changed = changed;
  }

  draw() {
    return details("Limits", this.#fields,
      h("small", null, "At most so much in the file as a whole; an empty field is no limit."));
  }

  /** @param {string[] | null} actions null for quantities */
  of(actions) {
    if (JSON.stringify(actions) === JSON.stringify(this.#actions)) return;
    this.#actions = actions;
    for (const name of actions ?? [SUM]) {
      if (!this.#inputs.has(name)) this.#inputs.set(name, this.#input(name));
    }
    put(this.#fields, this.#shown.map(([name, input]) => field(name, input)));
  }

  /** The limits as a request states them. @returns {Record<string, unknown>} */
  get request() {
    const limits = numbersIn(this.#shown);
    if (Object.keys(limits).length === 0) return {};
    return this.#actions ? { limits } : { sum_at_most: limits[SUM] };
  }

  /** @returns {[string, HTMLInputElement][]} */
  get #shown() {
    const names = this.#actions ?? [SUM];
    return [...this.#inputs].filter(([name]) => names.includes(name));
  }

  /** @param {string} name */
  #input(name) {
    const count = this.#actions ? { min: 0, step: 1 } : {};
    return numberInput({ ...count, "data-action": name, oninput: this.changed });
  }
}

/** What limits cost. @param {any} answer of /predict */
export function prices({ limits, total, unlimited_total: unlimited, expected_costs: costs }) {
  if (!limits) return null;
  const caption = costs ? "The shadow price is what one unit more would save"
    : "The shadow price is what one more would add to the total";
  const amounts = costs ? "Expected costs in all" : "Expected benefit in all";
  return h("div", null, table(caption, ["limit", "used", "at most", "shadow price"],
    limits.map((/** @type {any} */ limit) => [
      limit.name, short(limit.used, 9), short(limit.at_most, 9), short(limit.shadow_price)])),
  h("p", null, `${inUnit(amounts)}: ${short(total, 9)}; without limits ${short(unlimited, 9)}.`));
}
