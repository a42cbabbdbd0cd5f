/** A case question by question: what to ask next, what it costs, and when to stop. */

import { get, newId } from "./api.js";
import { inputOf, probabilities, valueOf } from "./cases.js";
import { button, card, facts, field, h, inUnit, short, table, warned } from "./dom.js";
import { price } from "./models.js";
import { numberIn, numberInput } from "./number.js";
import { within } from "./problems.js";

const REASONS = /** @type {Record<string, string>} */ ({
  resolved: "every tree of the model has its answer",
  vote_settled: "no further value can change the vote of the trees",
  not_worth_it: "the next question costs more than it is expected to gain",
  budget: "no remaining question is within the budget",
  unavailable: "what it would need cannot be obtained",
});

export class Acquisition {
  /** @type {Record<string, string | number | null>} */
  #known = {};
  /** @type {string[]} */
  #unavailable = [];
  #id = "";
  #isDecided = false;
  #place = h("div", { "aria-live": "polite" });
  #budget = numberInput({ min: 0 });
  #stops = h("input", { type: "checkbox", checked: true });

  /** @param {any} found the card @param {() => any} body model and benefits @param {EventTarget} changed the benefits */
  constructor(found, body, changed) {
    this.found = found;
    this.body = body;
    const again = () => { if (this.#place.hasChildNodes()) this.#step(true); };
    for (const one of [changed, this.#budget, this.#stops]) one.addEventListener("change", again);
  }

  draw() {
    return card("Question by question",
      h("p", { class: "soft" }, "The model asks for one value after the other, as long as that pays."),
      h("div", { class: "row" }, field("Budget", this.#budget, "empty: no limit"),
        h("div", { class: "field" }, h("label", null, this.#stops, " Stop when a question costs more than it gains"),
          h("small", null, "Benefits and prices in the same unit"))),
      h("div", { class: "row" }, button("Start", () => this.#start(), { class: "main" })), this.#place);
  }

  #start() {
    this.#known = {};
    this.#unavailable = [];
    this.#id = newId();
    this.#isDecided = false;
    this.#step();
  }

  /** @param {boolean} [isTrial] with other settings: of a case one decision is recorded at most */
  #step(isTrial = this.#isDecided) {
    void within(this.#place, async () => {
      const { model, benefits, actions, record } = this.body();
      const json = { model, instances: [this.#known], ids: [this.#id], budget: numberIn(this.#budget), unavailable: this.#unavailable,
        ...(isTrial ? {} : { record }), ...(this.#stops.checked ? { benefits, actions } : {}) };
      const { results: [state], warnings } = await get("acquire", { json }), isDecided = state.status === "decided";
      this.#isDecided ||= isDecided && !isTrial;
      return this.#shown({ ...state, warnings }, isDecided && isTrial);
    });
  }

  /** @param {any} answer @param {boolean} isTrial */
  #shown(answer, isTrial) {
    return h("div", null, answer.status === "acquire" ? this.#question(answer) : h("p", { class: "decision" },
      String(answer.decision ?? answer.prediction)),
      answer.reason ? h("p", null, `It stops here: ${REASONS[answer.reason] ?? answer.reason}.`) : null,
      isTrial ? h("p", null, "This is a trial, which is not recorded.") : null,
      facts([["spent", short(answer.spent, 9)], ["remaining", short(answer.remaining, 9)],
        answer.expected_gain !== undefined && ["continuing is worth", short(answer.expected_gain)],
        ["trees with an answer", `${answer.trees_resolved} of ${answer.trees}`],
          ["most probable now", String(answer.prediction)]]),
      answer.expected_benefits ? table(inUnit("Expected benefit of each action now"), ["action", "benefit"],
        Object.entries(answer.expected_benefits).map(([name, value]) => [name, short(/** @type {number} */ (value))])) : null,
      probabilities(Object.keys(answer.probabilities ?? {}), Object.values(answer.probabilities ?? {})),
      answer.frontier?.length ? table("What can be asked", ["feature", "price", "trees that wait for it"],
        answer.frontier.map((/** @type {any} */ one) => [one.feature, short(one.cost, 9), one.waiting])) : null,
      this.#answers(), warned(answer.warnings ?? []));
  }

  /** @param {any} answer */
  #question(answer) {
    const { feature, cost } = answer.next;
    const input = inputOf(this.found.features.find((/** @type {any} */ one) => one.name === feature));
    const state = h("div", { role: "status" });
    const submit = () => {
      void within(state, async () => {
        const value = valueOf(input);
        if (value === null) return "Enter a value, or choose “Cannot be obtained”.";
        this.#known = { ...this.#known, [feature]: value };
        void this.#step();
        return null;
      });
    };
    setTimeout(() => input.focus()); // when it is in the page
    return h("form", { onsubmit: submit }, field(`${feature}?`, input, `price ${short(cost, 9)}`),
      h("div", { class: "row" }, h("button", { class: "main" }, "Answer"),
        button("Cannot be obtained", () => { this.#unavailable.push(feature); this.#step(); }), state));
  }

  #answers() {
    const found = Object.entries(this.#known);
    return found.length || this.#unavailable.length ? table("Known so far", ["feature", "value", "price"], [
      ...found.map(([name, value]) => [name, String(value), price(this.found.feature_costs, name)]),
        ...this.#unavailable.map((name) => [name, "cannot be obtained", ""])]) : null;
  }
}
