/** A case question by question: what to ask next, what it costs, and when to stop. */

import { get, newId } from "./api.js";
import { inputOf, NamedColumns, probabilities, valueOf } from "./cases.js";
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
  /** What the matrix needs of a case, before the questions. */
  #named;
  #id = "";
  #isDecided = false;
  #place = h("div", { "aria-live": "polite" });
  #budget = numberInput({ min: 0 });
  #stops = h("input", { type: "checkbox", checked: true });

  /** @param {any} version its card @param {import("./terms.js").Terms} terms */
  constructor(version, terms) {
    this.version = version;
    this.terms = terms;
    this.#named = new NamedColumns(terms, true);
    const again = () => { if (this.#place.hasChildNodes()) this.#step(true); };
    terms.addEventListener("change", () => this.#named.draw());
    for (const source of [terms, this.#named.place, this.#budget, this.#stops]) source.addEventListener("change", again);
  }

  draw() {
    return card("Question by question",
      h("p", { class: "soft" }, "The model asks for one value after the other, as long as that pays."),
      h("div", { class: "row" }, field("Budget", this.#budget, "empty: no limit"),
        h("div", { class: "field" }, h("label", null, this.#stops, " Stop when a question costs more than it gains"),
          h("small", null, "Benefits and prices in the same unit"))), this.#named.place,
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
      const { model, benefits, actions, record } = this.terms.request;
      const stakes = this.#stops.checked ? { benefits, actions, ...listed(this.#named.values.columns) } : {};
      const json = { model, instances: [this.#values], ids: [this.#id], budget: numberIn(this.#budget),
        unavailable: this.#unavailable, ...(isTrial ? {} : { record }), ...stakes };
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
    const input = inputOf(this.version.features.find((/** @type {any} */ one) => one.name === feature));
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

  /** All that is known of the case: what the matrix needs of it, and the answers. @returns {Record<string, any>} */
  get #values() {
    return { ...this.#named.values.features, ...this.#known };
  }

  #answers() {
    const values = Object.entries(this.#values);
    return values.length || this.#unavailable.length ? table("Known so far", ["feature", "value", "price"], [
      ...values.map(([name, value]) => [name, String(value), price(this.version.feature_costs, name)]),
        ...this.#unavailable.map((name) => [name, "cannot be obtained", ""])]) : null;
  }
}

/** The columns of one case, as requests have them. @param {Record<string, unknown>} values */
function listed(values) {
  const columns = Object.entries(values).map(([name, value]) => [name, [value]]);
  return columns.length ? { columns: Object.fromEntries(columns) } : {};
}
