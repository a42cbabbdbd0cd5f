/** Benefit matrices that the service keeps for a model by name and version: choosing, saving, their history, deleting. */

import { get, list, mayTrain, newest, path } from "./api.js";
import { button, confirmed, field, h, put, table, time } from "./dom.js";
import { fromWords, inWords, keptOf, matrixOf, worded } from "./matrix.js";
import { NAME } from "./models.js";
import { within } from "./problems.js";

const SHOWN = 20; // versions of a history
const MODELS = 50; // whose matrices are offered

/** @typedef {import("./matrix.js").Matrix} Matrix */
/** @typedef {{name: string, version: number, newest: number, matrix: Matrix, by: import("./dom.js").Child}} Opened */

/** The name and version of what the editor shows, as long as it is not edited. */
export class SavedMatrices {
  /** @type {any[]} */
  #lines = [];
  /** @type {Opened | null} */
  #opened = null;
  #choice = h("select", { onchange: () => this.#open(this.#choice.value) });
  #state = h("p", { role: "status", class: "soft" });
  #problem = h("div", { "aria-live": "polite" });
  #name = h("input", { required: true, pattern: NAME, size: 14 });
  #manage = h("div");
  #open = newest((/** @type {string} */ reference) => within(this.#problem, () => this.#read(reference)));

  /** @param {any} found the card @param {import("./matrix.js").BenefitMatrix} editor @param {() => void} [renamed] */
  constructor(found, editor, renamed = () => {}) {
    this.found = found;
    this.editor = editor;
    this.renamed = renamed;
    editor.addEventListener("change", () => this.#tell());
    this.#kept();
  }

  /** The matrix as requests may state it: the version that is open, or the matrix itself. @returns {any} */
  get request() {
    return this.#isOpen() ? { benefits: `${this.#opened?.name}:${this.#opened?.version}` } : this.editor.matrix;
  }

  /** The same for programs: where the newest version is open its name alone, which follows later versions. @returns {any} */
  get lasting() {
    const isNewest = this.#opened?.version === this.#opened?.newest;
    return this.#isOpen() && isNewest ? { benefits: this.#opened?.name } : this.request;
  }

  /** The matrices of other models with the same classes, to use here. */
  async #others() {
    const models = (await list("models", "models", MODELS)).filter((one) => one.latest !== null && one.name !== this.found.name);
    const cards = await Promise.all(models.map((one) => get(path("models", one.name, "versions", one.latest))));
    const found = cards.flatMap((one) => {
      const own = one.classes && one.labels.length === 1 && (keptOf(one) || one.benefits) && worded(matrixOf(one), one.classes);
      const matrix = own && fromWords(own, this.found.classes);
      return matrix ? [[one.name, matrix]] : [];
    });
    return found.length ? found.map(([name, matrix]) => h("p", null, button(`Use that of ${name}`, () => {
      this.editor.of(this.found.classes, matrix);
      this.editor.dispatchEvent(new Event("change"));
    }), h("small", null, ` ${inWords(matrix, this.found.classes)}`))) : [h("p", null, "No other model has a matrix for these classes.")];
  }

  /** @param {boolean} [isWhole] with saving, history and deleting */
  draw(isWhole = true) {
    void within(this.#problem, async () => {
      await this.#list();
      if (isWhole) await this.#draw();
      return null;
    });
    const place = h("div");
    return h("div", { class: "saved" }, field("Saved matrix", this.#choice), this.#state, this.#problem, this.#manage,
      h("details", { ontoggle: () => { if (!place.hasChildNodes()) void within(place, async () => h("div", null, await this.#others())); } },
        h("summary", null, "Matrices of other models"), place));
  }

  #isOpen() {
    return this.#opened !== null && !this.editor.flaw && same(this.#opened.matrix, this.editor.matrix);
  }

  async #list() {
    this.#lines = (await get(path("models", this.found.name, "matrices"))).matrices;
    const line = this.#lines.find((one) => one.matrix === this.#opened?.name);
    if (this.#opened) this.#opened = line ? { ...this.#opened, newest: line.version } : null;
    put(this.#choice, h("option", { value: "" }, this.#lines.length ? "choose one" : "none is saved yet"),
      this.#lines.map((one) => h("option", { value: one.matrix }, one.matrix)));
    this.#tell();
    this.renamed();
  }

  /** @param {string} reference */
  async #read(reference) {
    if (!reference) return null;
    const found = await get(path("models", this.found.name, "matrices", reference));
    const matrix = fromWords(found, this.found.classes);
    if (!matrix) return h("p", { role: "alert" }, `${reference} has other classes than this version of the model.`);
    this.#opened = { name: found.matrix, version: found.version, newest: Math.max(...found.versions), matrix, by: saver(found) };
    this.editor.of(this.found.classes, matrix);
    this.editor.dispatchEvent(new Event("change"));
    if (this.#manage.hasChildNodes()) await this.#draw();
    return null;
  }

  async #draw() {
    const trains = await mayTrain();
    const name = this.#opened?.name;
    if (name) this.#name.value = name;
    const history = h("details", { ontoggle: () => { if (history.open && !place.hasChildNodes()) void within(place, () => this.#versions()); } },
      h("summary", null, `Versions of ${name}`));
    const place = h("div");
    history.append(place);
    put(this.#manage, trains ? h("form", { class: "row", onsubmit: () => void this.#save() },
    field("Name", this.#name), h("button", null, "Save"),
    name ? button("Delete…", () => void this.#delete(name), { "aria-label": `Delete the saved matrix ${name}` }) : null)
      : h("small", null, "This key opens matrices. Saving and deleting them need a key with the scope 'train'."),
    name ? history : null);
  }

  async #versions() {
    const name = this.#opened?.name ?? "";
    const at = (/** @type {number | string} */ version) => path("models", this.found.name, "matrices", `${name}:${version}`);
    const all = (await get(path("models", this.found.name, "matrices", name))).versions;
    const found = await Promise.all(all.slice(-SHOWN).reverse().map((/** @type {number} */ one) => get(at(one))));
    return table(`${all.length > SHOWN ? `The last ${SHOWN} of ${all.length} versions` : "Versions"}, newest first`,
      ["version", "saved", "matrix", ""], found.map((one) => {
      const matrix = fromWords(one, this.found.classes);
      return [one.version, h("span", null, saver(one)), matrix ? inWords(matrix, this.found.classes) : "has other classes than this model version",
        matrix ? button("Open", () => this.#open(`${name}:${one.version}`), { "aria-label": `Open version ${one.version}` }) : null];
    }));
  }

  async #save() {
    await within(this.#problem, async () => {
      const before = this.#lines.find((one) => one.matrix === this.#name.value);
      const { matrix } = this.editor;
      const found = await get(path("models", this.found.name, "matrices", this.#name.value),
        { method: "PUT", json: worded(matrix, this.found.classes) });
      this.#opened = { name: found.matrix, version: found.version, newest: found.version, matrix, by: saver(found) };
      await this.#list();
      await this.#draw();
      return h("p", { role: "status" }, found.version === before?.version ? `Version ${found.version} of ${found.matrix} has this matrix already.`
        : `Saved as version ${found.version} of ${found.matrix}.`);
    });
  }

  /** @param {string} name */
  async #delete(name) {
    const count = this.#lines.find((one) => one.matrix === name)?.versions ?? "all";
    if (!(await confirmed(`Delete ${name} with ${count === 1 ? "its version" : `its ${count} versions`}? `
      + "Requests that name it are refused within a second. The table above keeps the values.", "Delete"))) return;
    await within(this.#problem, async () => {
      await get(path("models", this.found.name, "matrices", name), { method: "DELETE" });
      this.#opened = null;
      await this.#list();
      await this.#draw();
      return h("p", { role: "status" }, `${name} is deleted.`);
    });
  }

  #tell() {
    const { name, version, newest: last, matrix, by } = this.#opened ?? {};
    this.#choice.value = name ?? "";
    sessionStorage.setItem(this.#key(), JSON.stringify({ name, version, newest: last, matrix, classes: this.found.classes }));
    put(this.#state, !name ? null : this.#isOpen()
      ? [`${name}, version ${version}${version === last ? ", the newest" : ` of ${last}`}. `, by]
      : `Edited since version ${version} of ${name}. Requests contain the numbers of the table.`);
  }

  #key() {
    return `payoff-saved ${this.found.name}`;
  }

  /** What another view of this tab has opened. */
  #kept() {
    const { classes, ...kept } = JSON.parse(sessionStorage.getItem(this.#key()) ?? "{}");
    const fits = kept.name && JSON.stringify(classes) === JSON.stringify(this.found.classes);
    if (fits && same(kept.matrix, this.editor.matrix)) this.#opened = { ...kept, by: null };
  }
}

/** @param {any} one @returns {import("./dom.js").Child} */
function saver(one) {
  return h("span", null, "Saved ", time(one.created_at), ` by ${one.who}.`);
}

/** @param {Matrix} a @param {Matrix} b */
function same(a, b) {
  return JSON.stringify([a.actions, a.benefits]) === JSON.stringify([b.actions, b.benefits]);
}
