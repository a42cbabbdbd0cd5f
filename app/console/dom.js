/** Elements, and how values are written; without markup: all text is set as text, so what a server or a file contains cannot become an element. */

/** @typedef {Node | string | number | null | undefined | false} Child */

const PROPERTIES = new Set(["value", "checked", "disabled", "selected", "open"]);

/**
 * An element. Of `props`, names that begin with "on" are listeners; null, undefined and false are left out. No form leads
 * to another page.
 * @template {keyof HTMLElementTagNameMap} K
 * @param {K} tag
 * @param {Record<string, any> | null} [props]
 * @param {...(Child | Child[])} children
 * @returns {HTMLElementTagNameMap[K]}
 */
export function h(tag, props, ...children) {
  return filled(document.createElement(tag), props, children);
}

/**
 * An element of SVG.
 * @param {string} tag
 * @param {Record<string, any> | null} [props]
 * @param {...(Child | Child[])} children
 * @returns {SVGElement}
 */
export function s(tag, props, ...children) {
  return filled(/** @type {SVGElement} */ (document.createElementNS("http://www.w3.org/2000/svg", tag)), props, children);
}

/**
 * @template {Element} E
 * @param {E} element
 * @param {Record<string, any> | null | undefined} props
 * @param {(Child | Child[])[]} children
 * @returns {E}
 */
function filled(element, props, children) {
  for (const [name, value] of Object.entries(props ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name === "onsubmit") element.addEventListener("submit", (event) => event.preventDefault());
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (PROPERTIES.has(name) && !("ownerSVGElement" in element)) /** @type {any} */ (element)[name] = value;
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  element.append(...nodes(children));
  return element;
}

/** @param {(Child | Child[])[]} children @returns {(Node | string)[]} */
function nodes(children) {
  return children.flat().flatMap((child) =>
    child === null || child === undefined || child === false ? [] : [child instanceof Node ? child : String(child)]);
}

/** Replace what an element contains; where that had the focus, the element has it then. @param {HTMLElement} element @param {...(Child | Child[])} children */
export function put(element, ...children) {
  const hadFocus = element.contains(document.activeElement);
  element.replaceChildren(...nodes(children));
  if (!hadFocus || element.contains(document.activeElement)) return;
  element.tabIndex = -1;
  element.focus({ preventScroll: true });
}

/**
 * A table with a caption for screen readers. Cells are text or nodes; the first of each row is its header.
 * @param {string} caption @param {Child[]} head @param {Child[][]} rows
 */
export function table(caption, head, rows) {
  return h("div", { class: "scroll", tabindex: 0, role: "group", "aria-label": caption },
    h("table", null, h("caption", null, caption),
      h("thead", null, h("tr", null, head.map((cell) => (cell === "" ? h("td") : h("th", { scope: "col" }, cell))))),
      h("tbody", null, rows.map(([first, ...rest]) =>
        h("tr", null, h("th", { scope: "row" }, first), rest.map((cell, j) => h("td", { "data-head": head[j + 1] || null }, cell)))))));
}

let labels = 0;

/**
 * A field with its label and, below it, a hint.
 * @template {HTMLElement} E
 * @param {string} label @param {E} input @param {Child} [hint]
 */
export function field(label, input, hint) {
  input.id ||= `f${++labels}`;
  const note = hint ? h("small", { id: `${input.id}-hint` }, hint) : null;
  if (note) input.setAttribute("aria-describedby", note.id);
  return h("div", { class: "field" }, h("label", { for: input.id }, label), input, note);
}

/**
 * @param {(string | number | string[])[]} options values, or values with their text
 * @param {string | number | null} [chosen] @param {Record<string, any>} [props]
 */
export function select(options, chosen, props) {
  return h("select", props ?? null, options.map((option) => {
    const [value, text] = Array.isArray(option) ? option : [String(option), String(option)];
    return h("option", { value, selected: value === String(chosen) }, text);
  }));
}

/** @param {string} text @param {() => void} action @param {Record<string, any>} [props] */
export function button(text, action, props) {
  return h("button", { type: "button", onclick: action, ...props }, text);
}

/** A section with a heading. @param {string} title @param {...(Child | Child[])} children */
export function card(title, ...children) {
  return h("section", { class: "card" }, h("h2", null, title), ...children);
}

/** What is shown on request. @param {string} title @param {...(Child | Child[])} children */
export function details(title, ...children) {
  return h("details", null, h("summary", null, title), ...children);
}

/** A list of names with values. @param {(Child[] | false | null)[]} pairs of which some may be left out */
export function facts(pairs) {
  return h("dl", null, pairs.flatMap((pair) => pair ? [pair] : []).map(([name, value]) => h("div", null, h("dt", null, name), h("dd", null, value))));
}

/** The first ones of a list, at most `most`. @param {unknown[]} values @param {number} most */
export function some(values, most) {
  return values.slice(0, most).join(", ") + (values.length > most ? ", …" : "");
}

/** @param {string[]} warnings */
export function warned(warnings) {
  return warnings.length ? h("ul", { class: "warnings", "aria-label": "Warnings" },
    warnings.map((one) => h("li", null, one))) : null;
}

/**
 * A number with `digits` significant digits and a real minus sign.
 * @param {number | null | undefined} value
 * @param {number} [digits]
 */
export function short(value, digits = 4) {
  if (value === null || value === undefined) return "–";
  const rounded = Number(value.toPrecision(digits));
  const plain = rounded === 0 || (Math.abs(rounded) >= 1e-4 && Math.abs(rounded) < 1e9);
  return (plain ? rounded.toLocaleString("en", { maximumFractionDigits: 12 }) : rounded.toExponential()).replaceAll("-", "−");
}

/**
 * Writes the numbers of a report alike: values, ends of intervals and differences, with the decimals of the narrowest interval.
 * @param {([number, number] | null | undefined)[]} intervals @returns {(value: number | null | undefined) => string}
 */
export function figures(intervals) {
  const widths = intervals.flatMap((one) => (one && one[1] - one[0] > 1e-12 * Math.max(...one.map(Math.abs)) ? [one[1] - one[0]] : []));
  const power = Math.floor(Math.log10(Math.min(...widths))) - 2; // three digits of it
  return (value) => (Number.isFinite(power) && value !== null && value !== undefined ? rounded(value, power) : short(value));
}

/** @param {number} value @param {number} power of 10 that it is rounded to */
function rounded(value, power) {
  const found = power > 0 ? Math.round(value / 10 ** power) * 10 ** power : value;
  const decimals = Math.max(-power, 0), digits = Math.floor(Math.log10(Math.abs(found))) - power;
  const text = Math.abs(found) < 1e9 && decimals < 10
    ? found.toLocaleString("en", { minimumFractionDigits: decimals, maximumFractionDigits: decimals })
    : digits < 0 ? "0" : found.toExponential(Math.min(digits, 15));
  return text.replace(/^-(?=[0.]*$)/, "").replaceAll("-", "−");
}

let unit = "";

/** @param {string | null} [text] the unit of all amounts of the model that is shown */
export function setUnit(text) {
  unit = text ?? "";
}

/** Words about amounts, with their unit. @param {string} words */
export function inUnit(words) {
  return unit ? `${words} in ${unit}` : words;
}

/** Amounts, with the decisions that they are about: once, or each its own. @param {string} caption @param {[string, any][]} pairs */
export function amounts(caption, pairs) {
  const rows = pairs.filter(([, one]) => one), bases = new Set(rows.map(([, one]) => one.basis));
  const lines = rows.map(([name, one]) => [name, money(one), short(one.total), short(one.cases, 9), ...(bases.size > 1 ? [about([one])] : [])]);
  return table(inUnit(caption) + (bases.size > 1 ? "" : `: ${about(rows.map(([, one]) => one))}`),
    ["", "per decision (95 % interval)", "total", "cases", ...(bases.size > 1 ? ["about"] : [])], lines);
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

/** Any value of the report. @param {any} value @returns {Child} */
export function plain(value, depth = 0) {
  const isObject = (/** @type {any} */ one) => one !== null && typeof one === "object";
  if (typeof value === "number") return short(value, 9);
  if (!isObject(value)) return String(value ?? "–");
  if (depth > 2) return JSON.stringify(value);
  if (!Array.isArray(value)) return facts(Object.entries(value).map(([name, one]) => [words(name), plain(one, depth + 1)]));
  const names = [...new Set(value.flatMap((one) => Object.keys(isObject(one) ? one : { value: one })))];
  return value.length ? table(`${value.length} entries`, names.map(words), value.map((one) =>
    names.map((name) => plain(isObject(one) ? one[name] : one, depth + 1)))) : "none";
}

/** @param {string} name of a field */
export function words(name) {
  return name.replaceAll("_", " ");
}

/** @param {number | null | undefined} value */
export function share(value) {
  return value === null || value === undefined ? "–" : `${short(100 * value, 3)} %`;
}

/** A time in the reader's own zone. @param {string} at */
export function time(at) {
  return h("time", { datetime: at }, new Date(at).toLocaleString("en-GB", { dateStyle: "medium", timeStyle: "short" }));
}

/**
 * Ask before something is changed. @param {string} question @param {string} action what the button reads
 * @returns {Promise<boolean>}
 */
export function confirmed(question, action) {
  return new Promise((resolve) => {
    const dialog = h("dialog", { "aria-label": action,
      onclose: () => { resolve(dialog.returnValue === "yes"); dialog.remove(); } },
      h("p", null, question),
      h("div", { class: "row" }, button("Cancel", () => dialog.close("no")), button(action, () => dialog.close("yes"),
        { class: "main" })));
    document.body.append(dialog);
    dialog.showModal();
  });
}

/** Offer a file to save. @param {string} name @param {BlobPart[]} parts @param {string} type */
export function save(name, parts, type) {
  const url = URL.createObjectURL(new Blob(parts, { type }));
  h("a", { href: url, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(url), 60_000);
}
