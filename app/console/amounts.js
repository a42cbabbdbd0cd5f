/** Parts of reports on outcomes: amounts with their intervals and what they are about, and values of any form. */

import { facts, figures, h, short, table } from "./dom.js";

/** @typedef {import("./dom.js").Child} Child */

/** Amounts, each with the decisions that it is about. @param {string} caption @param {[string, any][]} rows */
export function amounts(caption, rows) {
  return table(caption, ["", "per decision (95 % interval)", "total", "cases", "about"], rows.filter(([, one]) => one).map(([name, one]) =>
    [name, money(one), short(one.total), short(one.cases, 9), one.basis ?? "not stated by the service"]));
}

/** @param {any} one */
export function money(one) {
  if (one?.mean === null || one?.mean === undefined) return "–";
  if (!("low" in one)) return short(one.mean);
  if (one.low === null) return `${short(one.mean)} (no interval)`;
  const written = figures([[one.low, one.high]]);
  return `${written(one.mean)} (${written(one.low)} … ${written(one.high)})`;
}

/** What these amounts are about. @param {any[]} rows */
export function about(rows) {
  return [...new Set(rows.map((one) => one?.basis ?? "not stated by the service"))].join("; ");
}

/** What else an object has, apart from `known`. @param {string} title @param {any} value @param {string[]} known */
export function more(title, value, known) {
  const others = Object.fromEntries(Object.entries(value ?? {}).filter(([name]) => !known.includes(name)));
  return Object.keys(others).length ? h("details", null, h("summary", null, title), plain(others)) : null;
}

/** Any value of the report. @param {any} value @returns {Child} */
export function plain(value, depth = 0) {
  if (typeof value === "number") return short(value, 6);
  if (value === null || value === undefined || typeof value !== "object") return String(value ?? "–");
  if (depth > 2) return JSON.stringify(value).slice(0, 300);
  if (!Array.isArray(value)) return facts(Object.entries(value).map(([name, one]) => pair(words(name), plain(one, depth + 1))));
  const names = [...new Set(value.flatMap((one) => Object.keys(one !== null && typeof one === "object" ? one : { value: one })))];
  return value.length ? table(`${value.length} entries`, names.map(words), value.slice(0, 1000).map((one) =>
    names.map((name) => plain(one !== null && typeof one === "object" ? one[name] : one, depth + 1)))) : "none";
}

/** @param {string} name @param {Child} value @returns {[string, Child]} */
export function pair(name, value) {
  return [name, value];
}

/** @param {string} name of a field */
export function words(name) {
  return name.replaceAll("_", " ");
}

/** @param {number | null | undefined} value */
export function share(value) {
  return value === null || value === undefined ? "–" : `${short(100 * value, 3)} %`;
}
