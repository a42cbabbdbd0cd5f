/** The matrix lab: what a benefit matrix earns on rows not seen in training, while it is edited. */

import { cardOf, get, list, newest, path, Problem } from "./api.js";
import { Axis, LiveChart, whisker } from "./chart.js";
import { Decimals, first, headOf } from "./csv.js";
import { less, steps, writes } from "./compare.js";
import { button, card, facts, field, h, put, select, short, table, warned } from "./dom.js";
import { BenefitMatrix, keep, matrixOf, matrixOfCard, worded } from "./matrix.js";
import { chooser, link } from "./models.js";
import { numberInput, numbersIn } from "./number.js";
import { failed, within } from "./problems.js";
import { SavedMatrices } from "./saved.js";
import { snippets } from "./snippets.js";

const ROWS = 1000; // of a file of cases
const SHOWN = 30;

/** @typedef {import("./matrix.js").Matrix} Matrix */

/** @param {string[]} parts */
export async function view([ref]) {
  if (!ref) return chooser("Matrix lab", "lab");
  const found = await cardOf(ref);
  const head = h("h1", null, "Matrix lab: ", h("a", { href: link("models", found.name, found.version) }, ref));
  if (!found.classes || found.labels.length > 1) return h("div", null, head,
    h("p", null, "This model predicts numbers or sets of labels: it has no benefit matrix."));
  return new Lab(ref, found, (await list("models", "models")).filter((one) => one.latest !== null)).draw(head);
}

class Lab {
  editor = new BenefitMatrix();
  chart = new LiveChart();
  figures = h("div", { "aria-live": "polite" });
  details = h("div");
  problem = h("div");
  other = h("select");
  cases;
  /** The report to compare with, and the names of its actions. @type {any} */
  reference = null;
  /** @type {Promise<any> | null} */
  rival = null;
  matrix = this.editor.matrix;
  update = newest((/** @type {Matrix | null} */ matrix) => (matrix ? this.#judge(matrix) : this.#refuse()));

  /** @param {string} ref @param {any} found its card @param {any[]} models */
  constructor(ref, found, models) {
    this.ref = ref;
    this.card = found;
    this.code = snippets(ref, found);
    this.editor.of(found.classes, matrixOf(found));
    this.saved = new SavedMatrices(found, this.editor, () => this.#code());
    this.cases = new CasesThatChange(ref, found);
    this.other = select([["", "none"],
      ...models.flatMap((one) => one.versions.map((/** @type {number} */ v) => `${one.name}:${v}`))], "");
    this.other.addEventListener("change", () => { this.rival = null; this.#changed(); });
    this.editor.addEventListener("change", () => this.#changed());
  }

  /** @param {HTMLElement} head */
  draw(head) {
    this.#changed();
    return h("div", null, head, h("div", { class: "columns" },
      h("div", null,
        card("Benefit matrix", this.editor, h("div", { class: "row" },
          button("Start again", () => { this.editor.of(this.card.classes, matrixOfCard(this.card)); this.#changed(); }),
          button("Use as reference", () => { this.reference = this.cases.before = null; this.#changed(); }))),
        card("Saved matrices", this.saved.draw()), card("In a program", this.code.node)),
      card("On rows not seen in training", this.problem, this.figures, this.chart,
        h("div", { class: "row" }, field("Compare with", this.other)))),
    this.details, this.cases.draw());
  }

  #code() {
    this.code.write(this.editor.flaw ? null : this.saved.lasting);
  }

  /** Nothing that was computed stays beside a matrix that cannot be read; answers still under way come before this. */
  async #refuse() {
    const { flaw } = this.editor;
    if (flaw) this.#blank(flaw, () => {}); // else the next update follows
  }

  /** @param {unknown} error @param {() => void} again */
  #blank(error, again) {
    put(this.problem, failed(error, again));
    put(this.figures);
    put(this.details);
    this.chart.hidden = true;
  }

  #changed() {
    const matrix = this.editor.flaw ? null : this.editor.matrix;
    if (matrix) {
      const renamed = renaming(this.matrix, matrix);
      for (const one of [this.reference?.actions ?? [], this.cases.before ?? []]) one.forEach((/** @type {string} */ name,
        /** @type {number} */ i) => { one[i] = renamed.get(name) ?? name; });
      this.matrix = matrix;
      keep(this.card, matrix);
    }
    this.#code();
    this.update(matrix);
    this.cases.update(matrix);
  }

  /** @param {Matrix} matrix */
  async #judge(matrix) {
    for (const one of [this.figures, this.chart, this.details]) one.setAttribute("aria-busy", "true"); // of an older matrix
    try {
      const asked = (/** @type {string} */ ref, /** @type {object} */ sent) => get(path("models", ref, "benefit"),
        { json: { ...sent, points: 200 } });
      const [report, other] = await Promise.all([asked(this.ref, matrix), // other versions may have the classes in another order
        this.other.value ? Promise.all([this.rival ??= cardOf(this.other.value), asked(this.other.value, worded(matrix, this.card.classes))])
          .catch((error) => { this.rival = null; return error; }) : null]);
      this.reference ??= { ...report, actions: [...matrix.actions] };
      put(this.problem, other instanceof Error ? failed(other, () => this.update(matrix)) : null);
      this.#show(report, other instanceof Error ? null : other, matrix);
    } catch (error) {
      const again = () => this.#changed();
      this.#blank(error, again);
      if (error instanceof Problem && error.status === 429 && error.wait) setTimeout(again, 1000 * error.wait);
    }
  }

  /** @param {any} report @param {any} rival card and report of the version to compare with @param {Matrix} matrix */
  #show(report, rival, matrix) {
    const written = writes([report]), now = report.expected_benefit.benefit, by = now - this.reference.expected_benefit.benefit;
    const changed = Math.abs(by) < 1e-9 * Math.max(Math.abs(now), Math.abs(now - by), 1) ? "" : ` (${by > 0 ? "+" : ""}${written(by)})`;
    const [other, report2] = rival ?? [];
    put(this.figures, facts([
      ["benefit per case, by expected benefit", written(now) + changed],
      ["by the most probable class", written(report.cost_blind.benefit)], ["upper bound", written(report.upper_bound)],
      ["share of the bound", report.expected_benefit.mu === null ? "–" : `${(100 * report.expected_benefit.mu).toFixed(1)} %`],
      ["rows", `${short(report.rows, 9)} (${report.evaluation})`],
      ...(rival ? [/** @type {[string, string]} */ ([`the same by ${other.name}:${other.version}`,
        `${written(report2.expected_benefit.benefit)} of at most ${written(report2.upper_bound)}, ${short(report2.rows, 9)} rows`])] : []),
    ]), rival ? less([this.card, other], [report, report2]) : null, warned(report.warnings));
    for (const one of [this.figures, this.chart, this.details]) one.removeAttribute("aria-busy");
    this.chart.hidden = !report.curve;
    if (report.curve) this.chart.show(curve(report));
    put(this.details, h("div", { class: "columns" }, card("Rules", rules(report)),
      card("Decisions on these rows, by expected benefit", confusion(report, this.reference, matrix))));
  }
}

/** New names by old ones, where names are all that differs. @param {Matrix} before @param {Matrix} now @returns {Map<string, string>} */
function renaming(before, now) {
  const isSame = JSON.stringify(before.benefits) === JSON.stringify(now.benefits);
  return new Map(before.actions.flatMap((name, j) => (isSame && !now.actions.includes(name) && !before.actions.includes(now.actions[j])
    ? [[name, now.actions[j]]] : [])));
}

/** B(t), with the thresholds. @param {any} report @returns {import("./chart.js").Spec} */
function curve(report) {
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
    x: "threshold t on the probability of the second class", y: "benefit per case, B(t)",
    lines: [{ words: "B(t)", style: "line", steps: true, points: steps(report) }],
    across: [{ words: `upper bound ${written(report.upper_bound)}`, style: "bound", y: report.upper_bound }], marks,
  };
}

/** @param {any} report */
function rules(report) {
  const axis = Axis.around(report.rules.flatMap((/** @type {any} */ one) => one.interval), 4, 166);
  const { best } = report, written = writes([report]);
  return h("div", null,
    table("Benefit per case of each rule, with its 95 % interval", ["rule", "benefit", "95 % interval", ""],
      report.rules.map((/** @type {any} */ one) => [
      one.rule.replaceAll("_", " "), written(one.benefit), one.interval.map(written).join("\u00a0to\u00a0"),
        whisker(axis, one.benefit, one.interval, one.rule === best.rule)])),
    h("p", null, `Best: ${best.rule.replaceAll("_", " ")}. `,
      best.runner_up ? `Its lead of ${written(best.difference)} over ${best.runner_up.replaceAll("_", " ")} ${best.significant ? "is more than chance" : "may be chance"}.` : "All rules decide alike."));
}

/**
 * How often each class met each action, and how that differs from the reference.
 * @param {any} report
 * @param {any} reference
 * @param {Matrix} matrix
 */
function confusion(report, reference, matrix) {
  const before = (/** @type {number} */ k, /** @type {string} */ action) =>
    reference.expected_benefit.confusion[k][reference.actions.indexOf(action)] ?? 0;
  const removed = reference.actions.filter((/** @type {string} */ one) => !matrix.actions.includes(one)
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
  /** @type {{probabilities: number[][], classes: unknown[]} | null} */
  given = null;
  /** The action of each case under the reference. @type {string[] | null} */
  before = null;
  /** @type {Matrix | null} */
  matrix = null;
  #names = "";
  decide = newest((/** @type {Matrix | null} */ matrix) => this.#decide(matrix));

  /** @param {string} ref @param {any} found */
  constructor(ref, found) {
    this.ref = ref;
    this.card = found;
  }

  draw() {
    const file = h("input", { type: "file", accept: ".csv,.txt,text/csv" }), decimals = new Decimals(file);
    const read = () => { if (file.files?.[0]) void this.#read(file.files[0], decimals); };
    return card("Cases that change", h("div", { class: "row", onchange: read },
      field("CSV file of cases", file, `With a column for each feature; its first ${ROWS} rows are decided.`), decimals.node),
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

  /** @param {File} file @param {Decimals} decimals */
  async #read(file, decimals) {
    await within(this.result, async () => {
      this.given = null; // those of another file
      const head = await headOf(file), decimal = await decimals.chosen();
      const features = new Set(this.card.features.map((/** @type {any} */ one) => one.name));
      if (!this.matrix) throw new Problem(422, "Nothing was sent", "The matrix above cannot be read");
      const { benefits, actions } = this.matrix;
      const query = { model: this.ref, benefits, actions, decimal, record: false, delimiter: head.delimiter,
        keep: head.names.filter((name) => !features.has(name)) };
      const { probabilities, classes } = await get("predict", { body: await first(file, ROWS), type: "text/csv", query });
      Object.assign(this, { given: { probabilities, classes }, before: null });
      return null;
    });
    if (this.matrix) this.decide(this.matrix);
  }

  /** @param {Matrix | null} matrix */
  async #decide(matrix) {
    const { given } = this;
    if (!given) return;
    if (!matrix) return put(this.result, h("p", null, "The matrix above cannot be read."));
    try {
      const limits = numbersIn([...this.limits.querySelectorAll("input")].map((one) => [one.dataset.action ?? "", one]));
      const json = { ...given, ...matrix, ...(Object.keys(limits).length ? { limits } : {}) };
      const answer = await get("predict", { json });
      this.before ??= [...answer.decisions];
      put(this.result, answer.limits ? this.#prices(answer) : null, this.#changes(answer.decisions, matrix), warned(answer.warnings));
    } catch (error) {
      put(this.result, failed(error, () => this.decide(matrix)));
    }
  }

  /** @param {string[]} now the action of each case @param {Matrix} matrix */
  #changes(now, matrix) {
    const { before, given } = this;
    const changed = now.flatMap((action, i) => (before && before[i] !== action ? [i] : []));
    const name = (/** @type {string | undefined} */ one) => (one === undefined || matrix.actions.includes(one) ? one : `${one} (removed)`);
    return h("div", null, h("p", null, `${changed.length} of ${now.length} cases get another action than under the reference.`),
      changed.length ? table(`The first ${Math.min(changed.length, SHOWN)} of them`,
        ["row", "from", "to", ...(given?.classes ?? []).map((one) => `p: ${one}`)],
        changed.slice(0, SHOWN).map((i) => [i + 1, name(before?.[i]), now[i],
          ...(given?.probabilities[i] ?? []).map((p) => p.toFixed(3))])) : null);
  }

  /** @param {any} answer */
  #prices(answer) {
    return h("div", null, table("Limits: the shadow price is what one more would add to the total",
      ["action", "used", "at most", "shadow price"], answer.limits.map((/** @type {any} */ one) => [
      one.name, one.used, one.at_most, short(one.shadow_price)])),
    h("p", null, `Total ${short(answer.total)}; without limits ${short(answer.unlimited_total)}.`));
  }
}
