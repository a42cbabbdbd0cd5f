/** How text stands for the numbers of a column (`app/forms.py`), in words that people read. */

import { short } from "./dom.js";

const DAY_MS = 86_400_000;
const NAMES = /** @type {Record<string, string>} */ ({
  d: "day", m: "month", b: "month", Y: "year", y: "year",
  H: "hour", I: "hour", M: "minute", S: "second", f: "fraction", p: "AM/PM",
});

/** @param {string} form @returns {boolean} whether it is one of dates and times */
const isDate = (form) => form.startsWith("date");

/** The first of several forms that fitted all values. @param {string} form */
const firstOf = (form) => form.split("|")[0];

/** What a form looks like: day/month/year, 1.234,5 €. @param {string} form */
export function looks(form) {
  const first = firstOf(form), pattern = first.replace(/^[a-z]+:?/, "");
  if (first === "number") return first;
  if (!isDate(first)) return pattern;
  if (!pattern) return "year-month-day";
  return pattern.replace(/%(\w)/g, (_, letter) => NAMES[letter] ?? letter);
}

/**
 * A number as its column has it: days since 1970 are a date.
 * @param {number} number @param {string} [form]
 */
export function inForm(number, form = "") {
  const at = new Date(Math.round(number * DAY_MS));
  if (!isDate(form) || Number.isNaN(at.getTime())) return short(number, 9);
  const two = (/** @type {number} */ part) => String(part).padStart(2, "0");
  const year = String(at.getUTCFullYear()).padStart(4, "0"), hours = at.getUTCHours();
  const parts = /** @type {Record<string, string>} */ ({
    Y: year, y: year.slice(-2), m: two(at.getUTCMonth() + 1), d: two(at.getUTCDate()),
    b: at.toLocaleString("en", { month: "short", timeZone: "UTC" }),
    H: two(hours), I: two(hours % 12 || 12), p: hours < 12 ? "AM" : "PM",
    M: two(at.getUTCMinutes()), S: two(at.getUTCSeconds()),
    f: String(at.getUTCMilliseconds() * 1000).padStart(6, "0"),
  });
  const plain = Number.isInteger(number) ? "%Y-%m-%d" : "%Y-%m-%d %H:%M";
  const pattern = firstOf(form).slice("date:".length) || plain;
  return pattern.replace(/%(\w)/g, (_, letter) => parts[letter] ?? letter);
}
