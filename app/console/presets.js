/** Tables to begin with, simulated here: one for each question that the service answers. */

import { identity } from "./matrix.js";

/**
 * A table, what is asked of it, and with which learner.
 * @typedef {object} Preset
 * @property {string} name of the data set and the model
 * @property {string} title
 * @property {string} question
 * @property {string} label the column to predict
 * @property {string} learner its kind, and its parameters as a query
 * @property {string[]} columns
 * @property {number} rows
 * @property {(draw: Draw) => (string | number)[]} row
 * @property {boolean} [isNumber] whether the label is a number
 * @property {import("./matrix.js").Matrix} [matrix] a row for each class, in alphabetical order
 */

/** @type {Preset[]} */
export const PRESETS = [
  {
    name: "credit", title: "Credit", question: "Which loans to grant, where a large one that defaults costs more than ten small ones earn?",
    label: "ended", learner: "auto", rows: 2000, columns: ["income", "amount", "late_payments", "home", "ended"],
    row: (draw) => {
      const income = rounded(30_000 * Math.exp(0.4 * draw.normal()), 100), amount = rounded(income * Math.exp(0.6 * draw.normal() - 1.2), 100);
      const late = draw.count(0.6), home = draw.of(["rents", "owns", "with parents"]);
      const isLost = draw.chance(2.2 * amount / income + 0.55 * late - (home === "owns" ? 0.6 : 0) - 3.2);
      return [income, amount, late, home, isLost ? "defaults" : "repays"];
    },
    matrix: { actions: ["refuse", "grant"], benefits: [[0, { column: "amount", times: -0.45, plus: 0 }], [0, { column: "amount", times: 0.12, plus: 0 }]] },
  },
  {
    name: "triage", title: "Triage", question: "Which test to order next for this patient, and when is enough known?",
    label: "state", learner: "forest_chain", rows: 1000, columns: ["age", "pulse", "lactate", "scan", "state"],
    row: (draw) => {
      const age = 20 + Math.floor(70 * draw.uniform()), illness = draw.normal() + (age - 55) / 40;
      const measured = (/** @type {number} */ mean, /** @type {number} */ scale, /** @type {number} */ noise) => rounded(mean + scale * (illness + noise * draw.normal()), 0.1);
      return [age, measured(85, 12, 1.2), measured(1.8, 0.6, 0.7), measured(0, 1, 0.3), draw.chance(3 * illness - 2.5) ? "ill" : "healthy"];
    },
    matrix: { actions: ["wait", "treat"], benefits: [[0, -1], [-10, 5]] },
  },
  {
    name: "search", title: "Search", question: "Which set of items to return, neither too many nor too few?",
    label: "relevant", learner: "auto", rows: 2000, columns: ["words_in_common", "clicks", "days_old", "relevant"],
    row: (draw) => {
      const common = draw.count(2.5), clicks = draw.count(4), days = Math.floor(400 * draw.uniform());
      return [common, clicks, days, draw.chance(0.7 * common + 0.25 * clicks - days / 150 - 3.2) ? "yes" : "no"];
    },
    matrix: identity(["no", "yes"]),
  },
  {
    name: "loaves", title: "Inventory", question: "How many to order, where one too many costs less than one too few?",
    label: "sold", isNumber: true, learner: "random_forest", rows: 1500, columns: ["usual", "weekend", "rain", "sold"],
    row: (draw) => {
      const usual = rounded(60 * Math.exp(0.4 * draw.normal()), 1), weekend = draw.of(["yes", "no", "no"]), rain = draw.of(["yes", "no", "no"]);
      return [usual, weekend, rain, draw.count(usual * (weekend === "yes" ? 1.4 : 1) * (rain === "yes" ? 0.8 : 1) * Math.exp(0.25 * draw.normal()))];
    },
  },
  {
    name: "calls", title: "Call list", question: "Which customers to call, when the log has only the reward of what was done?",
    label: "profit", isNumber: true, learner: "rewards?action=action&baseline=none", rows: 3000, columns: ["visits", "spent", "region", "action", "profit"],
    row: (draw) => {
      const visits = draw.count(3), spent = rounded(80 * Math.exp(0.8 * draw.normal()), 1), region = draw.of(["north", "south"]);
      const action = draw.of(["none", "mail", "call"]), gain = { none: 0, mail: 0.2, call: visits > 3 ? 1.2 : -0.2 }[action] ?? 0;
      return [visits, spent, region, action, draw.chance(0.1 * visits + gain - 2) ? rounded(20 + 0.3 * spent, 0.01) : 0];
    },
  },
  {
    name: "posts", title: "Moderation", question: "Which posts to publish unread, with a guarantee, and which must a person read?",
    label: "truth", learner: "logistic", rows: 4000, columns: ["account_days", "links", "reports", "score", "truth"],
    row: (draw) => {
      const days = Math.floor(-300 * Math.log(draw.uniform())), links = draw.count(0.7), reports = draw.count(0.3), score = rounded(draw.normal(), 0.01);
      return [days, links, reports, score, draw.chance(1.3 * score + 0.5 * links + 0.8 * reports - days / 300 - 3.4) ? "harmful" : "harmless"];
    },
    matrix: { actions: ["publish", "remove", "read"], benefits: [[-12, 6, 0.4], [1, -4, 0.4]] },
  },
];

/** The table as CSV, the same every time. @param {Preset} preset */
export function tableOf({ columns, rows, row }) {
  const draw = new Draw();
  return [columns, ...Array.from({ length: rows }, () => row(draw))].map((cells) => cells.join(",")).join("\n");
}

/** @param {number} value @param {number} unit */
function rounded(value, unit) {
  return Number((Math.round(value / unit) * unit).toFixed(2));
}

/** Random numbers from one seed: the minimal standard generator of Park and Miller. */
class Draw {
  #state = 20_261;

  /** Above 0, below 1. */
  uniform() {
    this.#state = (this.#state * 48_271) % 2_147_483_647;
    return this.#state / 2_147_483_647;
  }

  normal() {
    return Math.sqrt(-2 * Math.log(this.uniform())) * Math.cos(2 * Math.PI * this.uniform());
  }

  /** A Poisson number, by the exponential times between events. @param {number} mean */
  count(mean) {
    let number = -1;
    for (let time = 0; time < mean; number += 1) time -= Math.log(this.uniform());
    return Math.max(number, 0);
  }

  /** @param {number} logOdds */
  chance(logOdds) {
    return this.uniform() < 1 / (1 + Math.exp(-logOdds));
  }

  /** @param {string[]} values */
  of(values) {
    return values[Math.floor(values.length * this.uniform())];
  }
}
