/** Inputs for numbers, one kind for the whole console: what is shown is what is sent, and what cannot be read is not sent. */

import { Problem } from "./api.js";
import { h } from "./dom.js";

const WRITTEN = /^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$/i;

/**
 * An input for a number with a decimal point or comma. Its content is selected when it is entered, so that typing replaces it.
 * @param {Record<string, any>} [props] of the element; min and max are its bounds, `step: 1` is for whole numbers, `needed`
 *   for numbers that may not be left out
 */
export function numberInput({ needed, step, ...props } = {}) {
  let entered = false;
  const input = h("input", { inputmode: "decimal", autocomplete: "off", "aria-required": needed ? "true" : null, "data-step": step,
    onpointerdown: () => { entered = document.activeElement !== input; },
    onfocus: () => input.select(),
    onclick: () => { if (entered && input.selectionStart === input.selectionEnd) input.select(); },
    oninput: () => { if (why(input)) input.setAttribute("aria-invalid", "true"); else input.removeAttribute("aria-invalid"); },
    ...props });
  return input;
}

/** The number in an input, null where it is empty; Problem, which names the field, where it cannot be read.
 * @param {HTMLInputElement} input */
export function numberIn(input) {
  const flaw = why(input);
  if (flaw) throw refused(input, flaw);
  return input.value.trim() === "" ? null : parsed(input.value);
}

/** @param {HTMLInputElement} input that may not be empty */
export function amountIn(input) {
  return /** @type {number} */ (numberIn(input));
}

/** The numbers of those inputs that have one. @param {Iterable<[string, HTMLInputElement]>} inputs @returns {Record<string, number>} */
export function numbersIn(inputs) {
  const found = [...inputs].map(([name, input]) => /** @type {const} */ ([name, numberIn(input)]));
  return Object.fromEntries(found.flatMap(([name, value]) => (value === null ? [] : [[name, value]])));
}

/** @param {HTMLInputElement | HTMLTextAreaElement | HTMLSelectElement} input @param {string} flaw */
export function refused(input, flaw) {
  input.setAttribute("aria-invalid", "true");
  const name = input.getAttribute("aria-label") ?? input.labels?.[0]?.textContent ?? "A field";
  return new Problem(422, "Nothing was sent", "", [{ loc: "", msg: `“${name}” ${flaw}` }]);
}

/** @typedef {number | {column: string, times: number, plus: number}} Cell a benefit: a number, or one that depends on a column of the case */

const AMOUNT = String.raw`[\d.,]+(?:e[+-]?\d+)?`;
const COLUMN = String.raw`"(?:[^"]|"")+"|[\p{L}_][\p{L}\p{N}_ ]*?`; // in quotes any name
const DEPENDS = new RegExp(String.raw`^([+-]?)(?:(${AMOUNT})\s*[*·×]\s*)?(${COLUMN})\s*([+-]\s*${AMOUNT})?$`, "iu");
const PLAIN_NAME = /^[\p{L}_](?:[\p{L}\p{N}_ ]*[\p{L}\p{N}_])?$/u;

/** What a cell reads as: 5, amount, or -0.75*amount+2; null for other text. @param {string} text @returns {Cell | null} */
export function cellOf(text) {
  const number = parsed(text);
  if (!Number.isNaN(number)) return number;
  const parts = DEPENDS.exec(text.trim().replaceAll("\u2212", "-"));
  if (!parts) return null;
  const [, sign, times = "1", name, plus = "0"] = parts;
  const column = name.startsWith('"') ? name.slice(1, -1).replaceAll('""', '"') : name;
  const cell = { column, times: parsed(sign + times), plus: parsed(plus.replaceAll(" ", "")) };
  return Number.isNaN(cell.times + cell.plus) ? null : cell;
}

/** A cell of the service, in which parts may be left out, as `cellOf` gives it. @param {any} cell @returns {Cell} */
export function cellFrom(cell) {
  if (typeof cell === "number") return cell;
  const { column, times = 1, plus = 0 } = cell;
  return { column, times, plus };
}

/** The cell, as it is read. @param {Cell} cell */
export function textOf(cell) {
  if (typeof cell === "number") return String(cell);
  const name = PLAIN_NAME.test(cell.column) ? cell.column : `"${cell.column.replaceAll('"', '""')}"`;
  const times = cell.times === 1 ? "" : cell.times === -1 ? "-" : `${cell.times}*`;
  return `${times}${name}${cell.plus ? `${cell.plus > 0 ? "+" : ""}${cell.plus}` : ""}`;
}

/** @param {HTMLInputElement} input of a cell */
export function cellIn(input) {
  const flaw = why(input);
  if (flaw) throw refused(input, flaw);
  return /** @type {Cell} */ (cellOf(input.value));
}

/** What a number reads as, NaN where it is none. @param {string} text */
export function parsed(text) {
  const plain = text.trim().replace(/^\u2212/, "-").replace(/^([^.,]*),([^.,]*)$/, "$1.$2");
  const value = WRITTEN.test(plain) ? Number(plain) : NaN;
  return Number.isFinite(value) ? value : NaN;
}

/** Why an input, or a part of its text, cannot be sent. @param {HTMLInputElement} input @param {string} [text] */
export function why(input, text = input.value.trim()) {
  const value = parsed(text), shown = text.slice(0, 40);
  if (text === "") return input.getAttribute("aria-required") ? "is empty: enter a number" : "";
  if (input.dataset.cell && typeof cellOf(text) === "object") return cellOf(text) ? "" : `is “${shown}”: write it like 1234.5, or -0.75*amount+2`;
  if (Number.isNaN(value)) return `is “${shown}”, which is no number: write it like 1234.5 or 1234,5`;
  if (/^[+-\u2212]?[1-9]\d{0,2},\d{3}$/.test(text)) {
    return `is “${shown}”, which may be ${text.replace(",", "")} or ${text.replace(",", ".")}: write it without the comma`;
  }
  const least = input.getAttribute("min"), most = input.getAttribute("max");
  if (least !== null && value < Number(least)) return `is ${shown}, which is less than ${least}`;
  if (most !== null && value > Number(most)) return `is ${shown}, which is more than ${most}`;
  return input.dataset.step === "1" && !Number.isInteger(value) ? `is ${shown}, which is no whole number` : "";
}
