/** The matrix lab: what a benefit matrix earns on rows not seen in training, while it is edited. */

import { cardOf, get, list, newest, path, Problem } from "./api.js";
import { Axis, LiveChart, whisker } from "./chart.js";
import { CaseFile, first } from "./csv.js";
import { less, steps, writes } from "./compare.js";
import { button, card, facts, field, h, inUnit, put, select, setUnit, short, table, warned, words } from "./dom.js";
import { BenefitMatrix, keep, matrixOf, matrixOfCard, snippets, worded } from "./matrix.js";
import { chooser, link } from "./models.js";
import { numberInput, numbersIn } from "./number.js";
import { failed, within } from "./problems.js";
import { SavedMatrices } from "./saved.js";

const ROWS = 1000; // of a file of cases
const SHOWN = 30;

/** @typedef {import("./matrix.js").Matrix} Matrix */

/** @param {string[]} parts */
export async function view([ref]) {
  if (!ref) return chooser("Matrix lab", "lab");
  const found = await cardOf(ref);
  setUnit(found.unit);
  const head = h("h1", null, "Matrix lab: ", h("a", { href: link("models", found.name, found.version) }, ref));
  if (!found.classes || found.labels.length > 1) return h("div", null, head,
    h("p", null, "This model predicts numbers or sets of labels: it has no benefit matrix."));
  return new Lab(ref, found, (await list("models", "models")).filter((one) => one.latest !== null)).draw(head);
}

class Lab {
  editor = new BenefitMatrix();
  matrix = this.editor.matrix;
  chart = new LiveChart();
  figures = h("div", { "aria-live": "polite" });
  details = h("div");
  problem = h("div");
  other = h("select");
  cases;
  /** The matrix to compare with, and its report once there is one. @type {{matrix: Matrix, report?: any}} */
  reference = { matrix: this.matrix };
  /** @type {Promise<any> | null} */
  rival = null;
  update = newest((/** @type {Matrix | null} */ matrix) => this.#judge(matrix));

  /** @param {string} ref @param {any} found its card @param {any[]} models */
  constructor(ref, found, models) {
    this.ref = `${found.name}:${found.version}`; // whose classes are in this order
    this.card = found;
    this.code = snippets(ref, found);
    this.editor.of(found.classes, matrixOf(found));
    this.saved = new SavedMatrices(found, this.editor, () => this.#code());
    this.cases = new CasesThatChange(found);
    this.other = select([["", "none"],
      ...models.flatMap((one) => one.versions.map((/** @type {number} */ v) => `${one.name}:${v}`))], "");
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
        card("Saved matrices", this.saved.draw()), card("In a program", this.code.node)),
      card("On rows not seen in training", this.problem, this.figures, this.chart,
        h("div", { class: "row" }, field("Compare with", this.other, "another version, on this matrix")))),
    this.details, this.cases.draw());
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
    put(this.figures, facts([
      [`${inUnit("benefit per case")}, by expected benefit`, written(now) + changed],
      ["by the most probable class", written(report.cost_blind.benefit)], ["upper bound", written(report.upper_bound)],
      ["share of the bound", report.expected_benefit.mu === null ? "–" : `${(100 * report.expected_benefit.mu).toFixed(1)} %`],
      ["rows", `${short(report.rows, 9)} (${report.evaluation})`],
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

/** New names by old ones, where names are all that differs. @param {Matrix} before @param {Matrix} now @returns {Map<string, string>} */
function renaming(before, now) {
  const isSame = JSON.stringify(before.benefits) === JSON.stringify(now.benefits);
  return new Map(before.actions.flatMap((name, j) => (isSame && !now.actions.includes(name) && !before.actions.includes(now.actions[j])
    ? [[name, now.actions[j]]] : [])));
}

/** B(t), with the thresholds. @param {any} report @param {any} [rival] that of another version @returns {import("./chart.js").Spec} */
function curve(report, rival) {
  const cut = report.posterior_threshold;
  const written = writes([report]);
  const [posterior, tuned] = ["threshold_posterior", "threshold_holdout"].map((name) => report.rules.find((/** @type {any} */ one) => one.rule === name));
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
    words: `Mean benefit at each threshold. ${marks.map((mark) => mark.words).join(". ")}`,
    x: "threshold t on the probability of the second class", y: `${inUnit("benefit per case")}, B(t)`,
    lines: [{ words: "B(t)", style: "line", steps: true, points: steps(report) },
      ...(rival?.curve ? [{ words: "B(t) of the other version", style: "line other", steps: true, points: steps(rival) }] : [])],
    across: [{ words: `upper bound ${written(report.upper_bound)}`, style: "bound", y: report.upper_bound }], marks,
  };
}

/** @param {any} report */
function rules(report) {
  const axis = Axis.around(report.rules.flatMap((/** @type {any} */ one) => one.interval), 4, 166);
  const { best } = report, written = writes([report]);
  return h("div", null,
    table(`${inUnit("Benefit per case of each rule")}, with its 95 % interval`, ["rule", "benefit", "95 % interval", ""],
      report.rules.map((/** @type {any} */ one) => [
      words(one.rule), written(one.benefit), one.interval.map(written).join("\u00a0to\u00a0"),
        whisker(axis, one.benefit, one.interval, one.rule === best.rule)])),
    h("p", null, `Best: ${words(best.rule)}. `,
      best.runner_up ? `Its lead of ${written(best.difference)} over ${words(best.runner_up)} ${best.significant ? "is more than chance" : "may be chance"}.` : "All rules decide alike."));
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
  limits = h("div", { class: "fields" });
  result = h("div", { "aria-live": "polite" });
  /** Of the file that is chosen: what is known of it, and the place of each case's action under a reference. @type {any} */
  file = null;
  /** @type {Matrix | null} */
  matrix = null;
  #names = "";
  decide = newest((/** @type {Matrix | null} */ matrix) => this.#decide(matrix));

  /** @type {Matrix | null} */
  reference = null;

  /** @param {any} found */
  constructor(found) {
    this.source = new CaseFile(found);
  }

  draw() {
    return card("Cases that change", h("div", { class: "row", onchange: () => { if (this.source.chosen) this.#read(); } },
      this.source.fields(`With a column for each feature; its first ${ROWS} rows are decided.`)),
      h("details", null, h("summary", null, "Limits"), h("p", { class: "soft" }, "At most so many of these cases get an action."),
        this.limits), this.result);
  }

  /** @param {Matrix | null} matrix null where it cannot be read */
  update(matrix) {
    this.matrix = matrix;
    if (matrix && this.#names !== JSON.stringify(matrix.actions)) {
      this.#names = JSON.stringify(matrix.actions);
      put(this.limits, matrix.actions.map((action) => field(action, numberInput({ min: 0, step: 1, "data-action": action,
        oninput: () => this.decide(this.matrix) }))));
    }
    this.decide(matrix);
  }

  #read() {
    void within(this.result, async () => {
      /** @type {any} */
      const own = this.file = {}; // what still comes for another file does not count
      const { file, query } = await this.source.read();
      const { probabilities, classes } = await get("predict", { body: await first(file, ROWS), type: "text/csv",
        query: { ...query, ...this.reference } });
      own.given = { probabilities, classes };
      setTimeout(() => this.decide(this.matrix)); // when this one is drawn
      return null;
    });
  }

  /** @param {Matrix | null} matrix */
  async #decide(matrix) {
    const { file, reference } = this;
    if (!file?.given || !reference) return;
    if (!matrix) return put(this.result, h("p", null, "The matrix above cannot be read."));
    const asked = (/** @type {object} */ sent) => get("predict", { json: { ...file.given, ...sent } });
    try {
      if (file.reference !== reference) {
        const actions = [...reference.actions]; // which may be renamed meanwhile
        const { decisions } = await asked(reference);
        Object.assign(file, { reference, before: decisions.map((/** @type {string} */ one) => actions.indexOf(one)) });
      }
      const limits = numbersIn([...this.limits.querySelectorAll("input")].map((one) => [one.dataset.action ?? "", one]));
      const answer = await asked({ ...matrix, ...(Object.keys(limits).length ? { limits } : {}) });
      if (file === this.file) put(this.result, answer.limits ? this.#prices(answer) : null, this.#changes(file, answer.decisions, matrix), warned(answer.warnings));
    } catch (error) {
      if (file === this.file) put(this.result, failed(error, () => this.decide(matrix)));
    }
  }

  /** @param {any} file @param {string[]} now the action of each case @param {Matrix} matrix */
  #changes({ reference, before, given }, now, matrix) {
    const from = (/** @type {number} */ i) => reference.actions[before[i]];
    const changed = now.flatMap((action, i) => (from(i) === action ? [] : [i]));
    return h("div", null, h("p", null, `${changed.length} of ${now.length} cases get another action than under the reference.`),
      changed.length ? table(`The first ${Math.min(changed.length, SHOWN)} of them`,
        ["row", "from", "to", ...given.classes.map((/** @type {string} */ one) => `p: ${one}`)],
        changed.slice(0, SHOWN).map((i) => [i + 1, from(i) + (matrix.actions.includes(from(i)) ? "" : " (removed)"), now[i],
          ...given.probabilities[i].map((/** @type {number} */ p) => p.toFixed(3))])) : null);
  }

  /** @param {any} answer */
  #prices(answer) {
    return h("div", null, table("Limits: the shadow price is what one more would add to the total",
      ["action", "used", "at most", "shadow price"], answer.limits.map((/** @type {any} */ one) => [
      one.name, one.used, one.at_most, short(one.shadow_price)])),
    h("p", null, `Total ${short(answer.total, 9)}; without limits ${short(answer.unlimited_total, 9)}.`));
  }
}
