/** Sets: which items to retrieve, from their probabilities and a loss, and the curve that has its minimum there. */

import { get, schemas } from "./api.js";
import { LiveChart } from "./chart.js";
import { harmless } from "./csv.js";
import { button, card, facts, field, h, save, select, short, table, warned } from "./dom.js";
import { amountIn, numberInput, numbersIn, parsed, refused } from "./number.js";
import { cleared, within } from "./problems.js";

const EXAMPLE = "0.9, 0.8, 0.55, 0.4, 0.2, 0.1";
const SHOWN = 200, SETS = 50;

export async function view() {
  const text = h("textarea", { rows: 6, spellcheck: "false", value: EXAMPLE });
  const input = h("input", { type: "file", accept: ".csv,.txt,text/csv,text/plain",
    onchange: async () => { const file = input.files?.[0]; if (file) text.value = await file.text(); } });
  const setting = select([["binary", "one set"], ["multilabel", "a set a line: labels"],
    ["multiclass", "a set a line: classes"]], "binary");
  const loss = select(["f_beta", ...(await schemas()).PlainLoss.properties.name.enum], "f_beta");
  const beta = numberInput({ min: 0, value: "1", needed: true });
  const empty = select([["0", "0"], ["1", "1"]], "0");
  const limits = { k_min: numberInput({ min: 0, step: 1 }), k_max: numberInput({ min: 0, step: 1 }) };
  const result = h("div", { "aria-live": "polite" });
  const choose = () => {
    void within(result, async () => {
      if (isAmbiguous(text.value)) throw refused(text, "has commas that may be decimal ones: write 0.5, or separate by semicolons");
      const { names, rows } = read(text.value, setting.value === "binary");
      const json = {
        probabilities: setting.value === "binary" ? rows.flat() : rows, setting: setting.value, curve: true,
        loss: loss.value === "f_beta" ? { name: loss.value, beta: amountIn(beta) } : { name: loss.value },
          empty: Number(empty.value),
        ...numbersIn(Object.entries(limits)),
      };
      const answer = await get("retrieve", { json });
      return h("div", null, warned(answer.warnings),
        answer.sets.slice(0, SETS).map((/** @type {any} */ one, /** @type {number} */ i) =>
        drawn(one, names, setting.value === "binary" ? rows.flat() : rows[i],
          answer.sets.length > 1 ? `Set ${i + 1}` : "The set")),
        answer.sets.length > SETS ? h("p", null, `These are the first ${SETS} of ${short(answer.sets.length, 9)} sets.`) : null);
    });
  };
  return h("div", null, h("h1", null, "Sets"),
    h("p", { class: "soft" }, "Which items to select, so that the expected loss against the unknown relevant ones is smallest."),
    card("Probabilities", h("form", { onsubmit: choose, oninput: () => cleared(result) },
      field("Probability of each item", text,
        "Separated by commas or lines. A first line of words names the items; or each line is a name and a probability."),
      field("or a file of them", input),
      h("div", { class: "fields" }, field("Read as", setting, "labels are independent; of classes one is true"), field("Loss", loss), field("beta (of f_beta)", beta),
        field("Loss if all is empty", empty, "nothing is relevant, nothing selected"),
        field("At least this many items", limits.k_min), field("At most", limits.k_max)),
      h("button", { class: "main" }, "Choose the set"))), result);
}

/** Whether a comma may be that of a decimal or one between numbers. @param {string} text */
function isAmbiguous(text) {
  if (/[.;\t]/.test(text)) return false;
  return /^(\s*\d,\d+\s*)+$/.test(text) || (/\d,\d/.test(text) && /\d,\s/.test(text));
}

/**
 * Numbers of a text, a list for each line, with the names of the items where it has them; what is no number is sent as
 * it is, so that the service says what is wrong with it.
 * @param {string} text @param {boolean} isOne
 * @returns {{names: string[] | null, rows: (number | string)[][]}}
 */
export function read(text, isOne) {
  const lines = text.split(/\r?\n/).filter((line) => line.trim()).map((line) =>
    line.split(/[;\t]/.test(text) && /\d,\d/.test(text) ? /[;\t]/ : /[,;\t]/).map((one) => one.trim().replace(/^"(.*)"$/, "$1")).filter((one) => one !== ""));
  const isNumber = (/** @type {string | undefined} */ one) => one !== undefined && !Number.isNaN(parsed(one));
  const values = (/** @type {string[]} */ line) => line.map((one) => (isNumber(one) ? parsed(one) : one));
  const [head = [], ...rest] = lines;
  if (isOne && lines.length > 1 && rest.every((line) => line.length === 2 && isNumber(line[1]) && !isNumber(line[0]))) {
    const pairs = head.length === 2 && isNumber(head[1]) ? lines : rest;
    return { names: pairs.map(([name]) => name), rows: pairs.map(([, p]) => [parsed(p)]) };
  }
  if (rest.length && head.length && !head.some(isNumber)) return { names: isOne && head.length === 1 ? null : head,
    rows: rest.map(values) };
  return { names: null, rows: lines.map(values) };
}

/** @param {any} found @param {string[] | null} names @param {(number | string)[]} probabilities @param {string} title */
export function drawn(found, names, probabilities, title) {
  const name = (/** @type {number | string} */ item) => (typeof item === "number" ? names?.[item] ?? `item ${item + 1}` : item);
  /** @type {[string, number][]} */
  const rows = found.selected.map((/** @type {number} */ item) => [name(item), Number(probabilities[item])]);
  const live = new LiveChart();
  if (found.curve) {
    live.show({
      words: `Expected loss of the best sets of each size; smallest at ${found.k} items`, x: "number of items in the set",
        y: "expected loss", whole: true,
      lines: [{ words: "expected loss of the best set of that size", style: "line",
        points: found.curve.map((/** @type {number} */ value, /** @type {number} */ k) => [k, value]) }],
      marks: [{ words: `chosen: ${found.k} items, ${short(found.expected_loss)}`, style: "cut", x: found.k,
        y: found.expected_loss }],
    });
  }
  return h("div", { class: "columns" },
    card(title, facts([["items", short(found.k, 9)], ["expected loss", short(found.expected_loss)],
    ...(found.expected_recall === undefined ? [] : [["expected recall", short(found.expected_recall)],
      ["expected precision", short(found.expected_precision)]])]),
  table("Best first", ["item", "probability"], rows.slice(0, SHOWN).map(([item, p]) => [item, short(p)])),
    rows.length > SHOWN ? h("p", null, `and ${short(rows.length - SHOWN, 9)} more`) : null,
  button("Download the set", () => save("set.csv", [harmless(asCsv(rows))], "text/csv"))),
  found.curve ? card("Expected loss by size", live) : null);
}

/** @param {[string, number][]} rows */
function asCsv(rows) {
  return `item,probability\n${rows.map(([item, p]) => `"${item.replaceAll('"', '""')}",${p}\n`).join("")}`;
}
