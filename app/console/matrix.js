/** The benefit matrix as a table that can be edited, in words and in code, and where this session keeps it for each model. */

import { button, h, inUnit, put, short } from "./dom.js";
import { inForm } from "./forms.js";
import { cellFrom, cellIn, numberInput, parsed, refused, textOf } from "./number.js";

/** @typedef {import("./api.js").Problem} Problem */
/** @typedef {{benefits: import("./number.js").Cell[][], actions: string[]}} Matrix a row for each class, a column for each action */

/** The matrix last used with a model, else that of its card. @param {any} card @returns {Matrix} */
export function matrixOf(card) {
  return keptOf(card) ?? matrixOfCard(card);
}

/** @param {any} card @returns {Matrix | null} that of this session */
export function keptOf(card) {
  const { classes, ...matrix } = JSON.parse(sessionStorage.getItem(`payoff-matrix ${card.name}`) ?? "{}");
  return classes && JSON.stringify(classes) === JSON.stringify(card.classes) ? matrix : null;
}

/** The matrix that a card has, else 1 for the right class. @param {any} card @returns {Matrix} */
export function matrixOfCard({ classes, benefits, case_benefits: byCase, actions }) {
  const rows = byCase ?? benefits; // where cells name columns, `benefits` are their means
  if (!rows) return identity(classes);
  return { benefits: rows.map((/** @type {unknown[]} */ row) => row.map(cellFrom)), actions: actions ?? classes.map(String) };
}

/** @param {unknown[]} classes @returns {Matrix} */
export function identity(classes) {
  return { benefits: classes.map((_, k) => classes.map((__, j) => Number(k === j))), actions: classes.map(String) };
}

/** @param {any} card @param {Matrix} matrix */
export function keep(card, matrix) {
  sessionStorage.setItem(`payoff-matrix ${card.name}`, JSON.stringify({ classes: card.classes, ...matrix }));
}

const FITS = 8; // characters of a cell that is not long

/** Fires `change` whenever it is edited. What it holds is what its inputs show; where one cannot be read, `matrix` throws. */
export class BenefitMatrix extends HTMLElement {
  /** @type {string[]} */
  #classes = [];
  /** @type {HTMLInputElement[]} the names of the actions */
  #heads = [];
  /** @type {HTMLInputElement[][]} a row for each class */
  #cells = [];
  /** @type {[number, number]} */
  #cell = [0, 0];
  #slider = h("input", { type: "range", step: "any", oninput: () => this.#slide() });
  #label = h("label", null);
  #caption = h("caption", null);

  /** @param {unknown[]} classes @param {Matrix} matrix */
  of(classes, matrix) {
    this.#classes = classes.map(String);
    this.#draw(matrix.actions, matrix.benefits.map((row) => row.map((cell) => textOf(cell))));
    return this;
  }

  /** Problem where a number or a name cannot be sent. @returns {Matrix} */
  get matrix() {
    const actions = this.#heads.map((one) => one.value.trim());
    actions.forEach((name, j) => {
      if (!name || actions.indexOf(name) !== j) throw refused(this.#heads[j], name ? `is “${name}”, as is another one` : "is empty");
    });
    return { benefits: this.#cells.map((row) => row.map(cellIn)), actions };
  }

  /** Why `matrix` throws. @returns {Problem | null} */
  get flaw() {
    try {
      void this.matrix;
      return null;
    } catch (error) {
      return /** @type {Problem} */ (error);
    }
  }

  /** @param {string[]} actions @param {string[][]} texts of the cells */
  #draw(actions, texts) {
    this.#cell = [0, 0];
    this.#heads = actions.map((action, j) => h("input", { value: action, "aria-label": `Name of action ${j + 1}`, maxlength: 200, size: 10,
      onchange: () => this.#rename() }));
    this.#cells = texts.map((row, k) => row.map((value, j) => numberInput({ value, needed: true, inputmode: "text",
      class: value.length > FITS ? "long" : null, "data-cell": `${k} ${j}` })));
    this.#cells.forEach((row, k) => row.forEach((input, j) => {
      input.addEventListener("focus", () => this.#choose(k, j));
      input.addEventListener("input", () => { input.classList.toggle("long", input.value.length > FITS); this.#choose(k, j); this.#changed(); });
    }));
    const heads = this.#heads.map((input, j) => h("th", { scope: "col" }, input,
      actions.length > 2 ? button("×", () => this.#remove(j), { class: "small" }) : null));
    this.#slider.id ||= `slider${Math.random().toString(36).slice(2)}`;
    this.#label.htmlFor = this.#slider.id;
    this.replaceChildren(
      h("div", { class: "scroll", tabindex: 0, role: "group", "aria-label": "Benefit matrix" }, h("table", { class: "matrix" },
        this.#caption,
        h("thead", null, h("tr", null, h("th", { scope: "col" }, "true class"), heads)), h("tbody", null,
          this.#classes.map((name, k) => h("tr", null, h("th", { scope: "row" }, name), this.#cells[k].map((one) => h("td", null, one))))))),
      h("div", { class: "row" }, button("Add an action", () => this.#add()), h("span", { class: "slider" }, this.#label,
        this.#slider)));
    this.#name();
  }

  /** @param {number} k @param {number} j */
  #choose(k, j) {
    this.#cell = [k, j];
    const numbers = this.#cells.flat().map((one) => parsed(one.value)).filter((one) => !Number.isNaN(one));
    const reach = Math.max(10, ...numbers.map((value) => 2 * Math.abs(value)));
    Object.assign(this.#slider, { min: String(-reach), max: String(reach) });
    const value = parsed(this.#cells[k][j].value);
    this.#slider.disabled = Number.isNaN(value); // a formula is typed
    this.#slider.value = String(value || 0);
    this.#label.replaceChildren(`${this.#classes[k]} × ${this.#heads[j].value}`);
  }

  #slide() {
    const [k, j] = this.#cell;
    const input = this.#cells[k][j];
    input.value = String(Number(Number(this.#slider.value).toPrecision(3)));
    input.removeAttribute("aria-invalid");
    this.#changed();
  }

  #rename() {
    for (const one of this.#heads) one.removeAttribute("aria-invalid");
    this.#name();
    this.#changed();
  }

  /** Name the inputs for screen readers; without drawing them anew, which would take the focus away. */
  #name() {
    const isUnnamed = this.#heads.map((one) => one.value).join("\n") === this.#classes.join("\n");
    put(this.#caption, `${inUnit("Benefit of each action (column) for each true class (row)")}; costs are negative`,
      isUnnamed ? ". The actions are called as the classes: enter what you do, and what it is worth" : null);
    this.#cells.forEach((row, k) => row.forEach((input, j) => input.setAttribute("aria-label",
      `Benefit of ${this.#heads[j].value} if the class is ${this.#classes[k]}`)));
    this.querySelectorAll("thead button").forEach((one, j) => one.setAttribute("aria-label", `Remove action ${this.#heads[j].value}`));
    this.#choose(...this.#cell);
  }

  #add() {
    const actions = this.#heads.map((one) => one.value);
    let number = actions.length + 1;
    while (actions.includes(`action ${number}`)) number += 1;
    this.#draw([...actions, `action ${number}`], this.#cells.map((row) => [...row.map((one) => one.value), "0"]));
    this.#heads.at(-1)?.select();
    this.#changed();
  }

  /** @param {number} j */
  #remove(j) {
    const rest = (/** @type {HTMLInputElement[]} */ row) => row.toSpliced(j, 1).map((one) => one.value);
    this.#draw(rest(this.#heads), this.#cells.map(rest));
    this.#heads[Math.min(j, this.#heads.length - 1)].focus();
    this.#changed();
  }

  #changed() {
    this.dispatchEvent(new Event("change"));
  }
}
customElements.define("payoff-matrix", BenefitMatrix);

/** The matrix, for reading: ill: wait costs 10, treat brings 5. @param {Matrix} matrix @param {unknown[]} classes */
export function inWords({ benefits, actions }, classes) {
  const row = (/** @type {number} */ k) => actions.map((action, j) => `${action} ${effect(benefits[k][j])}`).join(", ");
  return classes.map((name, k) => `${name}: ${row(k)}`).join("; ");
}

/** A cell in the words of the service. @param {import("./number.js").Cell} cell */
function effect(cell) {
  const amount = (/** @type {number} */ value) => short(Math.abs(value), 15);
  if (typeof cell === "number") return `${cell < 0 ? "costs" : "brings"} ${amount(cell)}`;
  const { column, times, plus } = cell, part = `${amount(times)} times ${column}`;
  if (plus === 0) return `${times < 0 ? "costs" : "brings"} ${part}`;
  return `brings ${short(plus, 15)} ${times < 0 ? "less" : "plus"} ${part}`;
}

/** The columns that cells name. @param {Matrix} matrix */
export function columnsOf({ benefits }) {
  return [...new Set(benefits.flat().flatMap((cell) => (typeof cell === "number" ? [] : [cell.column])))];
}

/** Those that are no features. @param {Matrix} matrix @param {any} card */
export function columnsBeside(matrix, { features }) {
  return columnsOf(matrix).filter((name) => features.every((/** @type {any} */ feature) => feature.name !== name));
}

/** The matrix by names, which a service understands whatever the order of a version's classes. @param {Matrix} matrix @param {unknown[]} classes */
export function worded({ benefits, actions }, classes) {
  const row = (/** @type {number} */ k) => Object.fromEntries(actions.map((action, j) => [action, benefits[k][j]]));
  return { benefits: Object.fromEntries(classes.map((name, k) => [String(name), row(k)])), actions };
}

/**
 * The matrix of names in the order of `classes`; null where its classes are others.
 * @param {{benefits: Record<string, Record<string, number>>, actions: string[] | null}} found @param {unknown[]} classes
 * @returns {Matrix | null}
 */
export function fromWords({ benefits, actions }, classes) {
  const names = classes.map(String), found = Object.keys(benefits);
  if (found.length !== names.length || !names.every((name) => Object.hasOwn(benefits, name))) return null;
  const own = Object.keys(benefits[names[0]]);
  const isSquare = own.length === names.length && names.every((name) => own.includes(name));
  const columns = actions ?? (isSquare ? names : own);
  return { benefits: names.map((name) => columns.map((action) => cellFrom(benefits[name][action]))), actions: columns };
}

/** Elements that show a request as a command and as a program, never with the key, and a function that writes them for a matrix, by names: the order of classes is that of a version. @param {string} ref @param {any} card */
export function snippets(ref, card) {
  const curl = copied("Copy as curl"), python = copied("Copy as Python");
  const write = (/** @type {Matrix | null} */ matrix) => {
    [curl.shown.textContent, python.shown.textContent] = matrix ? requests(ref, card, matrix) : ["The matrix cannot be read.", "The matrix cannot be read."];
  };
  return { node: h("div", null, curl.node, python.node), write };
}

/** @param {string} ref @param {any} card @param {Matrix} matrix */
function requests(ref, card, matrix) {
  const instance = Object.fromEntries(card.features.map((/** @type {any} */ one) => [one.name,
    one.type === "categorical" ? one.categories[0] ?? "" : middle(one)]));
  if (matrix.actions) for (const name of columnsBeside(matrix, card)) instance[name] = 0;
  const benefits = matrix.actions ? worded(matrix, card.classes) : matrix;
  const json = JSON.stringify({ model: ref, instances: [instance], ...benefits });
  const url = new URL("..", import.meta.url).href;
  const curl = `curl -s ${url}predict -H "X-API-Key: $PAYOFF_KEY" -H 'Content-Type: application/json' \\\n  -d '${json.replaceAll("'", "'\\''")}'`;
  const given = Object.entries(benefits).map(([name, value]) => `    ${name}=${JSON.stringify(value)},\n`).join("");
  const python = `from payoff_client import Payoff\n\nclient = Payoff("${url}")  # with the key in PAYOFF_KEY\nprint(client.model("${ref}").decide(\n    [${JSON.stringify(instance)}],\n${given}))`;
  return [curl, python];
}

/** @param {any} feature */
function middle({ low, high, form }) {
  if (low === null) return 0;
  if (form?.startsWith("date")) return inForm(Math.round((low + high) / 2), form);
  return Number(((low + high) / 2).toPrecision(3));
}

/** @param {string} title */
function copied(title) {
  const shown = h("pre", { tabindex: 0 });
  const state = h("span", { role: "status" });
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(shown.textContent ?? "");
      state.textContent = "Copied.";
    } catch { // without TLS a browser allows it on this machine only
      getSelection()?.selectAllChildren(shown);
      state.textContent = "Selected: copy it with the keyboard.";
    }
  };
  const node = h("details", null, h("summary", null, title.replace("Copy as ", "")),
    h("div", { class: "row" }, button(title, () => void copy()), state), shown);
  return { node, shown };
}
