/** The matrix lab: what a benefit matrix earns on rows not seen in training, while it is edited. */

import { cardOf, get, list, newest, path, Problem } from "./api.js";
import { Axis, LiveChart, whisker } from "./chart.js";
import { less, ruled, steps, writes } from "./compare.js";
import { CaseFile, first } from "./csv.js";
import { button, card, details, facts, field, h, inUnit, put, select, setUnit, short, table, warned } from "./dom.js";
import { Guarantee } from "./guarantee.js";
import { Limits, prices } from "./limits.js";
import { BenefitMatrix, keep, matrixOf, matrixOfCard, snippets, worded } from "./matrix.js";
import { chooser, isOfRewards, link } from "./models.js";
import { failed, within } from "./problems.js";
import { SavedMatrices } from "./saved.js";

const ROWS = 1000; // of a file of cases
const SHOWN = 30;
const MOST_CARDS = 200; // of versions that are looked at, for one to compare with

/** @typedef {import("./matrix.js").Matrix} Matrix */

/** @param {string[]} parts */
export async function view([ref]) {
  if (!ref) return chooser("Matrix lab", "lab");
  const found = await cardOf(ref);
  setUnit(found.unit);
  const head = h("h1", null, "Matrix lab: ", h("a", { href: link("models", found.name, found.version) }, ref));
  if (!found.classes || found.labels.length > 1 || isOfRewards(found)) return h("div", null, head,
    h("p", null, "This model predicts numbers, sets of labels or rewards: it has no benefit matrix. ",
      h("a", { href: link("cases", ref) }, "Decide cases"), "."));
  return new Lab(ref, found).draw(head);
}

class Lab {
  editor = new BenefitMatrix();
  matrix = this.editor.matrix;
  chart = new LiveChart();
  figures = h("div", { "aria-live": "polite" });
  details = h("div");
  problem = h("div");
  other = select([["", "none"]], "");
  cases;
  /** The matrix to compare with, and its report once there is one. @type {{matrix: Matrix, report?: any}} */
  reference = { matrix: this.matrix };
  /** @type {Promise<any> | null} */
  rival = null;
  update = newest((/** @type {Matrix | null} */ matrix) => this.#judge(matrix));

  /** @param {string} ref @param {any} found its card */
  constructor(ref, found) {
    this.ref = `${found.name}:${found.version}`; // whose classes are in this order
    this.card = found;
    this.code = snippets(ref, found);
    this.editor.of(found.classes, matrixOf(found));
    this.saved = new SavedMatrices(found, this.editor, () => this.#code());
    this.guarantee = new Guarantee(found);
    this.cases = new CasesThatChange(found);
    this.other.addEventListener("change", () => { this.rival = null; this.#changed(); });
    this.editor.addEventListener("change", () => this.#changed());
  }

  /** @param {HTMLElement} head */
  draw(head) {
    this.#changed(true);
    return h("div", null, head, h("div", { class: "columns" },
      h("div", null,
        card("Benefit matrix", this.editor, h("div", { class: "row" },
          button("Start again", () => { this.editor.of(this.card.classes, matrixOfCard(this.card)); this.#changed(); }),
          button("Use as reference", () => this.#changed(true)))),
        card("Saved matrices", this.saved.draw()), this.guarantee.draw(), card("In a program", this.code.node)),
      card("On rows not seen in training", this.problem, this.figures, this.chart, this.#rivals())),
    this.details, this.cases.draw());
  }

  /** The versions that have the same classes, listed once this is opened. */
  #rivals() {
    const state = h("div");
    const node = details("Another version on this matrix", state);
    node.addEventListener("toggle", () => {
      if (state.hasChildNodes()) return;
      void within(state, async () => {
        const versions = await alikes(this.card);
        this.other.append(...select(versions.map(({ name, version }) => `${name}:${version}`), null, { multiple: true }).options);
        return versions.length ? field("Compare with", this.other) : "No other version has these classes.";
      });
    });
    return node;
  }

  #code() {
    this.code.write(this.editor.flaw ? null : this.saved.lasting);
  }

  #changed(isReference = false) {
    const matrix = this.editor.flaw ? null : this.editor.matrix;
    if (matrix) {
      if (isReference) this.reference = { matrix: this.cases.reference = matrix };
      const renamed = renaming(this.matrix, matrix);
      const { actions } = this.reference.matrix;
      actions.forEach((name, j) => { actions[j] = renamed.get(name) ?? name; });
      this.matrix = matrix;
      keep(this.card, matrix);
    }
    this.#code();
    this.update(matrix);
    this.guarantee.update(matrix);
    this.cases.update(matrix);
  }

  /** @param {Matrix | null} readable */
  async #judge(readable) {
    try {
      const matrix = readable ?? this.editor.matrix; // which throws why it cannot be read
      for (const one of [this.figures, this.chart, this.details]) one.setAttribute("aria-busy", "true"); // of an older matrix
      const asked = (/** @type {string} */ ref, /** @type {object} */ sent) => get(path("models", ref, "benefit"),
        { json: { ...sent, points: 200 } });
      const [report, found] = await Promise.all([asked(this.ref, matrix), // other versions may have the classes in another order
        this.other.value ? Promise.all([this.rival ??= cardOf(this.other.value), asked(this.other.value, worded(matrix, this.card.classes))])
          .catch((error) => { this.rival = null; return error; }) : null]);
      const { reference } = this;
      reference.report ??= reference.matrix === matrix ? report : await asked(this.ref, reference.matrix);
      const isFailed = found instanceof Error;
      put(this.problem, isFailed ? failed(found, () => this.update(matrix)) : null);
      this.#show(report, isFailed ? null : found, matrix, reference);
    } catch (error) {
      const again = () => this.#changed();
      put(this.problem, failed(error, again));
      put(this.figures);
      put(this.details);
      this.chart.hidden = true;
      if (error instanceof Problem && error.status === 429 && error.wait) setTimeout(again, 1000 * error.wait);
    }
  }

  /** @param {any} report @param {any} rival card and report of the version to compare with @param {Matrix} matrix @param {any} reference */
  #show(report, rival, matrix, reference) {
    const written = writes([report]), now = report.expected_benefit.benefit, by = now - reference.report.expected_benefit.benefit;
    const changed = Math.abs(by) < 1e-9 * Math.max(Math.abs(now), Math.abs(now - by), 1) ? "" : ` (${by > 0 ? "+" : ""}${written(by)})`;
    const [other, report2] = rival ?? [];
    put(this.figures, sentences(report), facts([
      [`${inUnit("benefit per case")}, by expected benefit`, written(now) + changed],
      ["by the most probable class", written(report.cost_blind.benefit)], ["upper bound", written(report.upper_bound)],
      ["share of the bound", report.expected_benefit.mu === null ? "–" : `${(100 * report.expected_benefit.mu).toFixed(1)} %`],
      ["rows", report.rows_in_words ?? `${short(report.rows, 9)} (${report.evaluation})`],
      rival && [`the same by ${other.name}:${other.version}`,
        `${written(report2.expected_benefit.benefit)} of at most ${written(report2.upper_bound)}, ${short(report2.rows, 9)} rows`],
    ]), rival ? less([this.card, other], [report, report2]) : null, warned(report.warnings));
    for (const one of [this.figures, this.chart, this.details]) one.removeAttribute("aria-busy");
    this.chart.hidden = !report.curve;
    if (report.curve) this.chart.show(curve(report, report2));
    put(this.details, h("div", { class: "columns" }, card("Rules", rules(report)),
      card("Decisions on these rows, by expected benefit", confusion(report, reference, matrix))));
  }
}

/** What the service takes the matrix for; of a large one it has no words. @param {any} report */
function sentences({ matrix_in_words: words }) {
  return h("ul", { "aria-label": "The matrix in words" }, words.map((/** @type {string} */ sentence) => h("li", null, sentence)));
}

/** The cards of other versions with the same classes, in any order. @param {any} version */
async function alikes({ name, version, classes }) {
  const refs = (await list("models", "models")).flatMap((model) =>
    model.versions.map((/** @type {number} */ number) => path("models", model.name, "versions", number)));
  const cards = await Promise.all(refs.slice(0, MOST_CARDS).map((ref) => get(ref)));
  const sorted = (/** @type {unknown[]} */ names) => JSON.stringify(names.map(String).sort());
  return cards.filter((card) => card.classes && card.labels.length === 1 && sorted(card.classes) === sorted(classes)
    && (card.name !== name || card.version !== version));
}

/** New names by old ones, where names are all that differs. @param {Matrix} before @param {Matrix} now @returns {Map<string, string>} */
function renaming(before, now) {
  const isSame = JSON.stringify(before.benefits) === JSON.stringify(now.benefits);
  return new Map(before.actions.flatMap((name, j) => (isSame && !now.actions.includes(name) && !before.actions.includes(now.actions[j])
    ? [[name, now.actions[j]]] : [])));
}

/** The decision curve: what each threshold earns. @param {any} report @param {any} [rival] that of another version @returns {import("./chart.js").Spec} */
export function curve(report, rival) {
  const cut = report.posterior_threshold;
  const written = writes([report]);
  const [posterior, tuned, same] = ["threshold_posterior", "threshold_holdout", "same_for_all"].map((name) => report.rules.find((/** @type {any} */ one) => one.rule === name));
  /** @type {import("./chart.js").Spec["marks"]} */
  const marks = [];
  if (report.threshold !== null) {
    const words = `best threshold ${short(report.threshold, 3)}, chosen on these rows: ${written(report.benefit)}${
      tuned ? `, cross-validated ${written(tuned.benefit)}` : ""}`;
    marks.push({ words, style: "cut", x: report.threshold, y: report.benefit });
  }
  if (cut !== null && cut >= 0 && cut <= 1 && posterior) {
    const words = `threshold of the matrix ${short(cut, 3)}: ${written(posterior.benefit)}`;
    marks.push({ words, style: "posterior", x: cut, y: posterior.benefit });
  }
  return {
    words: `Decision curve: mean benefit at each threshold. ${marks.map((mark) => mark.words).join(". ")}`,
    x: `probability of “${report.classes[1]}” at which the action changes`, y: inUnit("benefit per case"),
    lines: [{ words: "decision curve: mean benefit", style: "line", steps: true, points: steps(report) },
      ...(rival?.curve ? [{ words: "that of the other version", style: "line other", steps: true, points: steps(rival) }] : [])],
    across: [{ words: `upper bound ${written(report.upper_bound)}`, style: "bound", y: report.upper_bound },
      { words: `one action for all ${written(same.benefit)}`, style: "plain", y: same.benefit }], marks,
  };
}

/** @param {any} report */
function rules(report) {
  const axis = Axis.around(report.rules.flatMap((/** @type {any} */ one) => one.interval), 4, 166);
  const { best } = report, written = writes([report]);
  return h("div", null,
    table(`${inUnit("Benefit per case of each rule")}, with its 95 % interval`, ["rule", "benefit", "95 % interval", ""],
      report.rules.map((/** @type {any} */ one) => [
      ruled(one.rule), written(one.benefit), one.interval.map(written).join("\u00a0to\u00a0"),
        whisker(axis, one.benefit, one.interval, one.rule === best.rule)])),
    h("p", null, `Best: ${ruled(best.rule)}. `,
      best.runner_up ? `Its lead of ${written(best.difference)} over ${ruled(best.runner_up)} ${best.significant ? "is more than chance" : "may be chance"}.` : "All rules decide alike."));
}

/**
 * How often each class met each action, and how that differs from the reference.
 * @param {any} report
 * @param {any} reference
 * @param {Matrix} matrix
 */
function confusion(report, { report: past, matrix: { actions } }, matrix) {
  const before = (/** @type {number} */ k, /** @type {string} */ action) =>
    past.expected_benefit.confusion[k][actions.indexOf(action)] ?? 0;
  const removed = actions.filter((/** @type {string} */ one) => !matrix.actions.includes(one)
    && report.classes.some((/** @type {any} */ _, /** @type {number} */ k) => before(k, one)));
  return table("Rows of each true class by action; in brackets the change since the reference",
    ["true class", ...matrix.actions, ...removed.map((/** @type {string} */ one) => `${one} (removed)`)],
    report.classes.map((/** @type {any} */ name, /** @type {number} */ k) => [
    String(name), ...[...matrix.actions, ...removed].map((action, j) => {
      const count = report.expected_benefit.confusion[k][j] ?? 0, by = count - before(k, action);
      return `${short(count, 9)}${by ? ` (${by > 0 ? "+" : "−"}${Math.abs(by)})` : ""}`;
    })]));
}

/** Which cases of a file get another action than under the reference, and what limits do. */
class CasesThatChange {
  limits = new Limits(() => this.decide(this.matrix));
  result = h("div", { "aria-live": "polite" });
  /** The file that is chosen: its first rows, how they are sent, and what the reference decided of them. @type {any} */
  file = null;
  /** @type {Matrix | null} */
  matrix = null;
  decide = newest((/** @type {Matrix | null} */ matrix) => this.#decide(matrix));

  /** @type {Matrix | null} */
  reference = null;

  /** @param {any} version its card */
  constructor(version) {
    this.source = new CaseFile(version);
  }

  draw() {
    const fields = h("div", { class: "row", onchange: () => { if (this.source.chosen) this.#read(); } },
      this.source.fields(`With a column for each feature; its first ${ROWS} rows are decided.`));
    return card("Cases that change", fields, this.limits.draw(), this.result);
  }

  /** @param {Matrix | null} matrix null where it cannot be read */
  update(matrix) {
    this.matrix = matrix;
    if (matrix) this.limits.of(matrix.actions);
    this.decide(matrix);
  }

  #read() {
    void within(this.result, async () => {
      /** @type {any} */
      const file = this.file = {}; // what still comes for another file does not count
      const source = await this.source.read();
      Object.assign(file, { body: await first(source.file, ROWS), query: source.query });
      setTimeout(() => this.decide(this.matrix)); // when this one is drawn
      return null;
    });
  }

  /** @param {Matrix | null} matrix */
  async #decide(matrix) {
    const { file, reference } = this;
    if (!file?.body || !reference) return;
    if (!matrix) return put(this.result, h("p", null, "The matrix above cannot be read."));
    const answer = (/** @type {object} */ stakes) =>
      get("predict", { body: file.body, type: "text/csv", query: { ...file.query, ...stakes } });
    try {
      if (file.reference !== reference) {
        const actions = [...reference.actions]; // which may be renamed meanwhile
        const { decisions } = await answer(reference);
        Object.assign(file, { reference, before: decisions.map((/** @type {string} */ action) => actions.indexOf(action)) });
      }
      const now = await answer({ ...matrix, ...this.limits.request });
      if (file === this.file) put(this.result, prices(now), this.#changes(file, now, matrix), warned(now.warnings));
    } catch (error) {
      if (file === this.file) put(this.result, failed(error, () => this.decide(matrix)));
    }
  }

  /** @param {any} file @param {any} answer under the matrix @param {Matrix} matrix */
  #changes({ reference, before }, { decisions, classes, probabilities, ids }, matrix) {
    const from = (/** @type {number} */ i) => reference.actions[before[i]];
    const places = decisions.flatMap((/** @type {string} */ action, /** @type {number} */ i) => (from(i) === action ? [] : [i]));
    const row = (/** @type {number} */ i) => [ids ? String(ids[i]) : i + 1,
      from(i) + (matrix.actions.includes(from(i)) ? "" : " (removed)"), decisions[i],
      ...probabilities[i].map((/** @type {number} */ p) => p.toFixed(3))];
    return h("div", null,
      h("p", null, `${places.length} of ${decisions.length} cases get another action than under the reference.`),
      places.length ? table(`The first ${Math.min(places.length, SHOWN)} of them`,
        [ids ? "id" : "row", "from", "to", ...classes.map((/** @type {string} */ name) => `p: ${name}`)],
        places.slice(0, SHOWN).map(row)) : null);
  }
}
