/** A guarantee for one action of the matrix in the lab: certified on the rows not seen in training, and saved. */

import { get, path } from "./api.js";
import { writes } from "./compare.js";
import { card, facts, field, h, put, share, short } from "./dom.js";
import { NAME } from "./models.js";
import { within } from "./problems.js";

const LEVEL = 0.95;

/** @typedef {import("./matrix.js").Matrix} Matrix */

export class Guarantee {
  #action = h("select");
  #otherwise = h("select");
  #wrong = h("select");
  #most = h("input", { type: "number", min: 0.1, max: 99, step: "any", value: 10, required: true });
  #name = h("input", { pattern: NAME, size: 14, value: "careful", required: true });
  #result = h("div", { "aria-live": "polite" });
  /** @type {Matrix | null} */
  #matrix = null;

  /** @param {any} version its card */
  constructor(version) {
    this.version = version;
    this.ref = `${version.name}:${version.version}`;
    offer(this.#wrong, version.classes, version.classes[0]);
  }

  draw() {
    if (this.version.data.refit) return card("Guarantee", h("p", null, "A guarantee is about the model that was evaluated. ",
      "This version was fitted again on all rows: train one without that."));
    return card("Guarantee",
      h("form", { class: "row", onsubmit: (/** @type {Event} */ event) => { event.preventDefault(); this.#certify(); } },
        field("Action", this.#action), field("wrong for", this.#wrong), field("at most (%)", this.#most), field("otherwise", this.#otherwise),
        h("button", null, "Certify")),
      h("p", { class: "soft" }, `With ${100 * LEVEL} % confidence.`), this.#result);
  }

  /** @param {Matrix | null} matrix null where it cannot be read */
  update(matrix) {
    const [action, otherwise] = [this.#action.value, this.#otherwise.value];
    this.#matrix = matrix;
    put(this.#result); // it was about another matrix
    if (!matrix) return;
    const { actions } = matrix, last = /** @type {string} */ (actions.at(-1));
    offer(this.#action, actions, actions.includes(action) ? action : last);
    offer(this.#otherwise, actions, actions.includes(otherwise) ? otherwise : actions[0]);
  }

  get #request() {
    const guarantee = { action: this.#action.value, otherwise: this.#otherwise.value, wrong: [this.#wrong.value],
      at_most: Number(this.#most.value) / 100, confidence: LEVEL };
    return { ...this.#matrix, guarantee };
  }

  #certify() {
    if (!this.#matrix) return put(this.#result, h("p", null, "The matrix above cannot be read."));
    const json = this.#request;
    void within(this.#result, async () => {
      const report = await get(path("models", this.ref, "benefit"), { json }), { guarantee: found } = report;
      if (found.cut === null) return h("p", null, `Nothing is certified: ${found.reason}.`);
      const written = writes([report]), state = h("div", { role: "status" });
      return h("div", null, facts([
        [`rows that get “${found.action}”`, `${short(found.cases, 9)} (${share(found.share)}) instead of ${short(found.unrestricted_cases, 9)}`],
        ["wrong among them", `${share(found.risk)}, bound ${share(found.bound)}`], ["cut of the score", short(found.cut)],
        ["benefit per case", `${written(found.benefit)} instead of ${written(found.unrestricted_benefit)}`],
      ]), h("form", { class: "row", onsubmit: (/** @type {Event} */ event) => { event.preventDefault(); this.#save(json, state); } },
        field("Name of the guarantee", this.#name), h("button", null, "Save the guarantee")), state);
    });
  }

  /** @param {object} json @param {HTMLElement} state */
  #save(json, state) {
    void within(state, async () => {
      const saved = await get(path("models", this.ref, "guarantees", this.#name.value), { method: "PUT", json });
      return h("p", null, "Saved: ask for ", h("code", null, JSON.stringify(saved.request)), ".");
    });
  }
}

/** @param {HTMLSelectElement} control @param {(string | number)[]} names @param {string | number} chosen */
function offer(control, names, chosen) {
  put(control, names.map((name) => h("option", null, String(name))));
  control.value = String(chosen);
}
