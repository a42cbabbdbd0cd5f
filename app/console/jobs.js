/** Jobs: training and comparing by forms made from the schemas of learners, live progress, cancelling, and what came of it. */

import { ask, events, get, list, newId, path, Problem, schemas } from "./api.js";
import { button, card, confirmed, details, facts, field, figures, h, put, select, setUnit, short, table, time, warned } from "./dom.js";
import { Axis, whisker } from "./chart.js";
import { ruled } from "./compare.js";
import { BenefitMatrix, keep, keptOf, matrixOf } from "./matrix.js";
import { isOfRewards, link, NAME, quality } from "./models.js";
import { amountIn, numberIn, numberInput, numbersIn } from "./number.js";
import { failed, within, worded } from "./problems.js";
import { policyPictures } from "./rewards.js";

const ENDED = new Set(["succeeded", "failed", "cancelled"]);
const KINDS = ["train", "compare", "calibrate", "replay"];
const NEWEST = 200; // jobs that are listed
/** What learners are for; others are offered last. @type {[string, string[]][]} */
const PURPOSES = [["for most tables", ["auto", "logistic", "gradient_boosting", "random_forest", "kernel_logistic", "cost_naive_bayes"]],
  ["for a benefit matrix", ["benefit_logistic"]], ["for questions that cost", ["forest_chain", "budget_forest", "cost_tree"]],
  ["for rare classes", ["hierarchical_logistic"]], ["for several labels", ["multilabel_logistic", "multilabel_forest"]], ["for rewards of actions", ["rewards"]]];

/** @param {string[]} parts @param {AbortSignal} signal */
export async function view([first, second, third], signal) {
  if (first === "new") return ordering(second, third);
  return first && KINDS.includes(first) && second ? watched(first, second, signal) : all();
}

async function all() {
  const found = (await Promise.all(KINDS.map((kind) => list(kind,
    "jobs", NEWEST).then((jobs) => jobs.map((job) => ({ ...job, path: kind })))))).flat()
    .sort((a, b) => b.created_at.localeCompare(a.created_at));
  return h("div", null, h("h1", null, "Jobs"), h("p", null, found.length ? null : "There are no jobs yet. ", h("a", { href: link("jobs", "new") }, "Train or compare")),
    found.length ? table(found.length > NEWEST ? `The newest ${NEWEST}` : "Newest first", ["job", "what", "status", "stage", "started"], found.slice(0, NEWEST).map((job) => [
      h("a", { href: link("jobs", job.path, job.id) }, job.id), what(job), job.status,
        job.status === "running" ? `${Math.round(100 * job.progress)} % ${job.stage ?? ""}` : "", time(job.created_at)])) : null);
}

/** @param {any} job */
function what(job) {
  const learner = job.requested?.learner?.kind ?? job.requested?.learners?.map((/** @type {any} */ one) => one.kind).join(", ") ?? "";
  return [job.kind, job.requested?.model, learner].filter(Boolean).join(" ");
}

/** Forms to train on a data set or to compare learners on it. @param {string} [chosen] @param {string} [learner] its kind */
async function ordering(chosen, learner) {
  const [sets, { Learner: { oneOf: kinds } }] = await Promise.all([list("datasets", "datasets"), schemas()]);
  if (!sets.length) return h("div", null, h("h1", null, "Train or compare"),
    h("p", null, "Upload a table first: ", h("a", { href: "#/data" }, "Data")));
  const data = select(sets.map((one) => [one.id, `${one.name ?? one.id} (${short(one.rows, 9)} rows)`]), chosen, { onchange: () => redraw() });
  const place = h("div", null);
  const redraw = () => {
    const found = sets.find((one) => one.id === data.value) ?? sets[0];
    const stakes = new Stakes(found), fitting = kinds.filter((/** @type {any} */ kind) => fits(found, kind));
    put(place, stakes.draw(), h("div", { class: "columns" }, training(found, fitting, stakes, learner),
      found.labels.length > 1 ? null : comparing(found, fitting, stakes)));
  };
  redraw();
  return h("div", null, h("h1", null, "Train or compare"), field("Data set", data), place);
}

/** Whether a kind of learner can learn the labels of a data set. @param {any} found @param {Kind} kind */
function fits({ labels, classes }, { title, properties }) {
  const isForSeveral = title.startsWith("multilabel");
  if (title === "rewards") return labels.length === 1 && typeof (classes?.[0] ?? 0) === "number";
  return labels.length > 1 ? isForSeveral : !isForSeveral && (classes !== null || "task" in properties);
}

/** Benefits and prices, which training and comparing may use. */
class Stakes {
  matrix = new BenefitMatrix();
  uses = h("input", { type: "checkbox" });
  prices;

  /** @param {any} found the data set */
  constructor(found) {
    this.found = found;
    this.hasClasses = Boolean(found.classes) && found.labels.length === 1;
    const own = { name: found.id, classes: found.classes }; // it keeps the matrix from comparing to training
    if (this.hasClasses) this.matrix.of(found.classes, matrixOf(own));
    this.uses.checked = keptOf(own) !== null;
    this.matrix.addEventListener("change", () => {
      this.uses.checked = true;
      if (!this.matrix.flaw) keep(own, this.matrix.matrix);
    });
    this.prices = new Map(found.features.slice(0, 200).map((/** @type {any} */ one) => [one.name,
      numberInput({ min: 0 })]));
  }

  draw() {
    return h("div", null,
      this.hasClasses ? card("Benefits", h("label", null, this.uses, " Train with this matrix (a comparison always uses it)"),
        this.matrix) : null,
      card("Prices of features", h("details", null, h("summary", null, "For models that ask question by question"),
        h("div", { class: "fields" }, [...this.prices].map(([name, input]) => field(name, input))))));
  }

  /** @returns {Record<string, unknown>} */
  get benefits() {
    return this.hasClasses && this.uses.checked ? this.matrix.matrix : {};
  }

  /** @returns {Record<string, unknown>} */
  get costs() {
    const given = numbersIn(this.prices);
    return Object.keys(given).length ? { feature_costs: given } : {};
  }
}

/** @param {any} found @param {Kind[]} kinds @param {Stakes} stakes @param {string} [kind] and its parameters: rewards?action=offer */
function training(found, kinds, stakes, kind) {
  const [chosen, parameters] = (kind ?? "auto").split("?");
  const learner = new LearnerForm(kinds, chosen, taskOf(found), Object.fromEntries(new URLSearchParams(parameters)));
  const name = h("input", { required: true, pattern: NAME, value: suggested(found.name ?? "model") });
  const holdout = numberInput({ min: 0, max: 0.9, value: "0.25", needed: true });
  const split = splits(found);
  const seed = numberInput({ min: 0, step: 1, value: "0", needed: true }), unit = h("input", { maxlength: 16 });
  return ordered("Train a model", "Train", "train", [field("Name of the model", name, "a to z, digits, _ and -"), learner.draw(),
    h("div", { class: "fields" }, field("Share held out", holdout), field("Held out are", split), field("Seed", seed), field("Unit of amounts", unit, "such as EUR"))],
    () => ({ model: name.value, learner: learner.learner, data: { dataset: found.id },
      holdout: split.value ? { part: amountIn(holdout), ...JSON.parse(split.value) } : amountIn(holdout), seed: amountIn(seed), unit: unit.value.trim() || null, ...stakes.benefits, ...stakes.costs }));
}

/** Which rows to hold out: a choice of the columns that can serve. @param {any} found the data set */
function splits({ columns, labels, rows }) {
  const usable = columns.filter((/** @type {any} */ { name, missing, distinct }) => missing === 0 && distinct > 1 && !labels.includes(name));
  const by = (/** @type {string} */ by, /** @type {string} */ words, /** @type {(one: any) => boolean} */ fits) =>
    usable.filter(fits).map((/** @type {any} */ { name }) => [JSON.stringify({ by, column: name }), `${words} ${name}`]);
  const isDate = (/** @type {any} */ { form }) => form?.startsWith("date") ?? false;
  return select([["", "random rows"], ...by("time", "the last by", isDate), ...by("group", "whole groups by", (one) => one.distinct < rows && !isDate(one)),
    ...by("time", "the last by", (one) => one.type !== "categorical" && !isDate(one))]);
}

/** @param {string} name */
function suggested(name) {
  return name.toLowerCase().replace(/[^a-z0-9_-]+/g, "-").replace(/^[^a-z0-9]+|-+$/g, "").slice(0, 64) || "model";
}

/** @param {any} dataset @param {Kind[]} kinds @param {Stakes} stakes */
function comparing(dataset, kinds, stakes) {
  const usual = ["logistic", "random_forest", "gradient_boosting"];
  const boxes = kinds.filter(({ title }) => title !== "rewards").map((kind) => /** @type {const} */ ([kind.title,
    h("input", { type: "checkbox", checked: usual.includes(kind.title) })]));
  const folds = numberInput({ min: 2, max: 20, step: 1, value: "5", needed: true }), split = splits(dataset);
  const [over, under] = [1, 2].map(() => numberInput({ min: 0, value: "1", needed: true }));
  const what = stakes.hasClasses ? "; it needs benefits" : ", by what a unit too much or too few costs";
  return ordered("Compare learners", "Compare", "compare",
    [h("p", { class: "soft" }, `Every learner on the same folds, every rule on the rows outside${what}.`),
      h("div", { class: "fields" }, boxes.map(([title, box]) => h("label", null, box, ` ${title}`))),
      h("div", { class: "fields" }, field("Folds", folds), field("Judged are", split),
        stakes.hasClasses ? null : [field("A unit too much costs", over), field("A unit too few costs", under)])],
    () => ({ dataset: dataset.id, ...(split.value ? { holdout: JSON.parse(split.value) } : { folds: amountIn(folds) }),
      learners: boxes.filter(([, box]) => box.checked).map(([kind]) => ({ kind, ...taskOf(dataset) })),
      ...(stakes.hasClasses ? stakes.matrix.matrix : { unit_costs: { over: amountIn(over), under: amountIn(under) } }) }));
}

/** What learners are asked to predict where that is not classes. @param {any} dataset */
function taskOf({ classes }) {
  return classes ? {} : { task: "regression" };
}

/**
 * A form that starts a job.
 * @param {string} title
 * @param {string} action
 * @param {string} kind
 * @param {import("./dom.js").Child[]} fields
 * @param {() => unknown} body
 */
function ordered(title, action, kind, fields, body) {
  const result = h("div", { "aria-live": "polite" });
  const sent = { text: "", key: "" };
  const submit = () => {
    void within(result, async () => {
      const json = body();
      const text = JSON.stringify(json);
      if (text !== sent.text) Object.assign(sent, { text, key: newId() }); // the same order again is the same job
      const job = await get(kind, { json, headers: { "Idempotency-Key": sent.key } });
      location.hash = link("jobs", kind, job.id);
      return null;
    });
  };
  return card(title, h("form", { onsubmit: submit }, fields, h("div", { class: "row" }, h("button", { class: "main" }, action))),
    result);
}

/** @param {string} kind @param {string} id @param {AbortSignal} signal */
async function watched(kind, id, signal) {
  const place = h("div", { "aria-live": "polite" });
  const follow = async () => {
    try {
      let status = "";
      for await (const job of events(path(kind, id, "events"), signal)) {
        status = job.status;
        const hasFocus = place.contains(document.activeElement);
        put(place, state(kind, job));
        if (hasFocus) place.querySelector("button")?.focus();
      }
      if (!ENDED.has(status) && !signal.aborted) setTimeout(follow, 2000); // a service that stops ends its streams
    } catch (error) {
      if (!signal.aborted) put(place, failed(error, () => void follow()));
    }
  };
  const job = await get(path(kind, id));
  put(place, state(kind, job));
  if (!ENDED.has(job.status)) void follow();
  return h("div", null, h("h1", null, what(job)), place);
}

/** @param {string} kind @param {any} job */
function state(kind, job) {
  const outcome = h("div", null);
  const cancel = async () => {
    if (await confirmed("Cancel this job? What it computed is lost.", "Cancel the job")) void within(outcome,
      async () => { await ask(path(kind, job.id), { method: "DELETE" }); return null; });
  };
  return h("div", null, facts([["job", job.id], ["status", job.status], ["started", time(job.created_at)],
    job.attempt > 1 && ["attempt", job.attempt]]),
    ENDED.has(job.status) ? null : [h("p", null, job.stage ?? "waiting"),
      h("progress", { max: 1, value: job.progress, "aria-label": "Progress" }), button("Cancel…", () => void cancel()), outcome],
    job.error ? h("div", { class: "problem" }, worded(new Problem(0, job.error.title, job.error.detail, job.error.errors, job.requested))) : null,
    warned(job.warnings ?? []), job.model ? trained(job) : null,
      kind === "compare" && job.status === "succeeded" ? compared(job) : null);
}

/** @param {any} job */
function trained({ model, metrics, requested }) {
  const ref = `${model.name}:${model.version}`;
  setUnit(requested?.unit);
  const isByRewards = isOfRewards({ learner: requested?.learner ?? {} });
  return [card(`Published: ${ref}`, quality(metrics ?? {}),
    h("div", { class: "row" }, h("a", { href: link("cases", ref) }, "Decide cases"),
      isByRewards ? null : h("a", { href: link("lab", ref) }, "Matrix lab"), h("a", { href: link("models", model.name, model.version) }, "Card"))),
  metrics?.calibration ? policyPictures(metrics) : null];
}

/** @param {any} job */
function compared({ requested, result }) {
  const { best, table: rows, upper_bound: bound } = result;
  const intervals = rows.map((/** @type {any} */ row) => row.interval);
  const written = figures(intervals), axis = Axis.around(intervals.flat(), 4, 166);
  const train = (/** @type {string} */ learner, text = `Train ${learner}`) => h("a", {
    href: link("jobs", "new", requested.dataset, learner.split("(")[0]), "aria-label": `Train ${learner}` }, text);
  const isFirst = (/** @type {any} */ row) => row === rows.find((/** @type {any} */ other) => other.learner === row.learner);
  return card("Comparison", h("p", null, verdict(best, written)),
    best.learner ? h("p", null, train(best.learner)) : null, // none where one action for all is best
    bound === null || bound === undefined ? null : facts([["at most, by who knows every class", written(bound)]]),
    table("Benefit per row with its 95 % interval", ["learner", "rule", "benefit", "95 % interval", "", ""],
      rows.map((/** @type {any} */ row) => [row.learner ?? "–", ruled(row.rule), written(row.benefit),
        row.interval.map(written).join("\u00a0to\u00a0"),
        whisker(axis, row.benefit, row.interval, row.learner === best.learner && row.rule === best.rule),
        row.learner && isFirst(row) ? train(row.learner, "Train this one") : null])), warned(result.warnings));
}

/** @param {any} best @param {(value: number) => string} written */
function verdict(best, written) {
  const named = (/** @type {any} */ { learner, rule }) => (learner ? `${learner} with ${ruled(rule)}` : ruled(rule));
  if (!best.runner_up) return `Best: ${named(best)}. All earn the same on every row.`;
  return `Best: ${named(best)}. Its lead of ${written(best.difference)} over ${named(best.runner_up)} `
    + `${best.significant ? "is more than chance" : "may be chance"}.`;
}

/** @typedef {{title: string, description: string, properties: Record<string, any>}} Kind */

/** A learner to choose, with its parameters; those that are not changed are not sent. */
class LearnerForm {
  #kind;
  #doc = h("small", null);
  #parameters = h("div", { class: "fields" });
  #details = details("Parameters", this.#parameters);
  /** @type {Map<string, () => unknown>} */
  #values = new Map();

  /** @param {Kind[]} kinds @param {string} [chosen] @param {object} [given] parameters that are not asked for @param {Record<string, string>} [first] values to begin with */
  constructor(kinds, chosen = "auto", given = {}, first = {}) {
    this.kinds = kinds;
    this.first = first;
    this.given = given;
    const rest = kinds.map((one) => one.title), known = PURPOSES.flatMap(([, all]) => all);
    const groups = [...PURPOSES, /** @type {[string, string[]]} */ (["for other uses", rest.filter((one) => !known.includes(one))])];
    this.#kind = h("select", { onchange: () => this.#draw() }, groups.map(([label, all]) => [label, all.filter((one) => rest.includes(one))])
      .flatMap(([label, all]) => (all.length ? [h("optgroup", { label }, ...select([...all], chosen, { multiple: true }).options)] : [])));
    this.#draw();
  }

  draw() {
    return h("div", null, field("Learner", this.#kind), this.#doc, this.#details);
  }

  /** The learner as `/train` takes it. @returns {Record<string, unknown>} */
  get learner() {
    const given = [...this.#values].map(([name, value]) => [name, value()]).filter(([, value]) => value !== undefined);
    return { kind: this.#kind.value, ...Object.fromEntries(given), ...this.#fixed };
  }

  get #chosen() {
    return this.kinds.find((one) => one.title === this.#kind.value) ?? this.kinds[0];
  }

  /** What is given, where the kind takes it. */
  get #fixed() {
    return Object.fromEntries(Object.entries(this.given).filter(([name]) => name in this.#chosen.properties));
  }

  #draw() {
    const kind = this.#chosen;
    this.#details.open = kind.title === "rewards" || Object.keys(this.first).length > 0; // columns of a log have no usual names
    put(this.#doc, kind.description.replaceAll("`", ""));
    this.#values.clear();
    put(this.#parameters, Object.entries(kind.properties).filter(([name]) => name !== "kind" && !(name in this.given)).map(([name, schema]) => {
      const [input, value] = parameter(schema);
      if (name in this.first) Object.assign(input, { value: this.first[name] });
      this.#values.set(name, value);
      return field(name, input, schema.description?.replaceAll("`", ""));
    }));
  }
}

/**
 * An input for a parameter, and what it says: undefined for the default.
 * @param {any} schema
 * @returns {[HTMLElement, () => unknown]}
 */
function parameter(schema) {
  const shown = schema.default === undefined || schema.default === null ? "none" : JSON.stringify(schema.default).replaceAll('"',
    "");
  /** @type {any[]} */
  const forms = schema.anyOf ?? [schema];
  if (forms.every((form) => form.enum || form.type === "boolean" || form.type === "null")) {
    /** @type {unknown[]} */
    const values = forms.flatMap((form) => form.enum ?? (form.type === "null" ? [null] : [true, false]));
    const input = select([["", `default (${shown})`],
      ...values.map((one, i) => [String(i), one === null ? "none" : String(one)])], "");
    return [input, () => (input.value === "" ? undefined : values[Number(input.value)])];
  }
  const types = forms.map((form) => form.type ?? "object");
  if (types.every((type) => ["number", "integer", "null"].includes(type))) {
    const { minimum, maximum } = forms[0];
    const input = numberInput({ step: types.includes("number") ? null : 1, min: minimum, max: maximum,
      placeholder: `default ${shown}` });
    return [input, () => numberIn(input) ?? undefined];
  }
  const input = h("input", { placeholder: schema.default ? `default ${shown}` : null });
  return [input, () => (input.value === "" ? undefined : parsed(input.value, types))];
}

/** JSON where it is JSON, else text. @param {string} text @param {string[]} types */
function parsed(text, types) {
  if (types.length === 1 && types[0] === "string") return text;
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}
