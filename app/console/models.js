/** Models: their versions, aliases and history; the card of a version with its charts; moving an alias. */

import { cardOf, get, list, mayTrain, path } from "./api.js";
import { chart } from "./chart.js";
import { card, confirmed, facts, field, h, put, select, setUnit, short, some, table, time, warned, words } from "./dom.js";
import { inForm, looks } from "./forms.js";
import { matrixOfCard } from "./matrix.js";
import { calibration, decisionsToCome } from "./pictures.js";
import { within } from "./problems.js";
import { policy, policyPictures } from "./rewards.js";

export const NAME = "[a-z0-9][a-z0-9_\\-]{0,63}"; // of a model or an alias

/** The address of a view. @param {string} view @param {...(string | number)} parts */
export function link(view, ...parts) {
  return `#/${[view, ...parts].map((part) => encodeURIComponent(String(part))).join("/")}`;
}

/** @param {string[]} parts */
export async function view([name, version]) {
  if (!name) return all();
  if (version) return one(name, Number(version));
  if (!/[:@]/.test(name)) return model(name);
  const found = await cardOf(name);
  return one(found.name, found.version);
}

async function all() {
  /** @type {any[]} */
  const models = await list("models", "models");
  const place = h("div", null);
  const form = h("details", { class: "card", ontoggle: () => { if (!place.hasChildNodes()) void within(place, importing); } },
    h("summary", null, "Import a model"), place);
  return h("div", null, h("h1", null, "Models"),
    models.length
      ? table("Published models", ["name", "latest", "versions", "aliases", ""], models.map((one) => [
        h("a", { href: link("models", one.name) }, one.name), one.latest, one.versions.length,
        Object.entries(one.aliases).map(([alias, version]) => `${alias} → ${version}`).join(", "), uses(one.name)]))
      : nothing(decisionsToCome), form);
}

/** A model made elsewhere, evaluated on a data set here. */
async function importing() {
  const sets = await list("datasets", "datasets");
  const name = h("input", { required: true, pattern: NAME });
  const file = h("input", { type: "file", required: true });
  const format = select(["onnx", "joblib"], "onnx");
  const data = select(sets.map((one) => [one.id, one.name ?? one.id]), null, { required: true });
  const calibration = select(["none", "sigmoid", "isotonic", "auto"], "none");
  const result = h("div", null);
  const send = () => {
    void within(result, async () => {
      const form = new FormData();
      for (const [key, value] of Object.entries({ format: format.value, dataset: data.value,
        calibration: calibration.value })) form.append(key, value);
      if (file.files?.[0]) form.append("file", file.files[0]);
      const job = await get(path("models", name.value, "versions"), { body: form, patient: true });
      location.hash = link("jobs", "train", job.id);
      return null;
    });
  };
  return h("form", { onsubmit: send }, h("div", { class: "fields" }, field("Name of the model", name),
    field("File of the model", file), field("Format", format, "a joblib file runs the code in it"),
    field("Data set", data, "labelled rows that it was not trained on"), field("Calibration", calibration)),
      h("button", null, "Import"), result);
}

/** @param {() => Node} toCome draws what there will be */
function nothing(toCome) {
  return h("div", null, h("p", null, "There are no models yet. ", h("a", { href: "#/start" }, "Upload a table, or try with sample data"), "."), toCome());
}

/** Models to choose from, for another view. @param {string} title @param {string} view @param {() => Node} [toCome] draws what there will be */
export async function chooser(title, view, toCome = decisionsToCome) {
  const models = (await list("models", "models")).filter((one) => one.latest !== null);
  return h("div", null, h("h1", null, title),
    models.length ? h("p", null, "Choose a model:") : nothing(toCome),
    h("ul", null, models.flatMap((one) => [one.name, ...Object.keys(one.aliases).map((alias) => `${one.name}@${alias}`)])
      .map((ref) => h("li", null, h("a", { href: link(view, ref) }, ref)))));
}

/** What can be done with a model. @param {string} ref */
function uses(ref, hasLab = true) {
  return h("span", { class: "uses" }, hasLab ? [h("a", { href: link("lab", ref), "aria-label": `Matrix lab of ${ref}` }, "Matrix lab"), " · "] : null,
    h("a", { href: link("cases", ref), "aria-label": `Cases of ${ref}` }, "Cases"), " · ",
    h("a", { href: link("outcomes", ref), "aria-label": `Outcomes of ${ref}` }, "Outcomes"));
}

/** @param {string} name */
async function model(name) {
  const [found, trains] = await Promise.all([get(path("models", name)), mayTrain()]);
  const measures = [...new Set(found.versions.flatMap((/** @type {any} */ one) => Object.keys(one.metrics)))].slice(0, 5);
  const move = h("section", { class: "card" });
  put(move, ...aliases(found, trains));
  return h("div", null, h("h1", null, name), h("p", null, uses(name)),
    card("Versions", table("Versions, newest first",
      ["version", "learner", "made", ...measures.map(words), ""],
      found.versions.map((/** @type {any} */ one) => [
        h("a", { href: link("models", name, one.version) }, one.version), one.kind, time(one.created_at),
        ...measures.map((measure) => short(one.metrics[measure])), uses(`${name}:${one.version}`)]))),
    move,
    card("Alias history", table("Oldest first", ["when", "key", "alias", "from", "to"],
      found.alias_history.map((/** @type {any} */ one) => [time(one.at), one.who, one.alias, one.from_version ?? "new",
        one.to_version ?? "deleted"]))));
}

/** @param {any} found the model @param {boolean} trains */
function aliases(found, trains) {
  const names = Object.keys(found.aliases);
  const shown = [
    h("h2", null, "Aliases"),
    names.length ? facts(names.map((alias) => [alias, `version ${found.aliases[alias]}`])) : h("p", null, "None"),
  ];
  if (!trains) return [...shown, h("small", null, "Moving an alias needs a key with the scope 'train'.")];
  const alias = h("input", { value: names[0] ?? "champion", required: true, pattern: NAME, list: "aliases" });
  const version = select(found.versions.map((/** @type {any} */ one) => one.version), found.latest);
  const outcome = h("div", null);
  const submit = async () => {
    const before = found.aliases[alias.value];
    const now = before ? `answered by version ${before}` : "not answered";
    const question = `Requests to ${found.name}@${alias.value} are ${now} now. Shall version ${version.value} answer them?`
      + " The audit log keeps who moved it.";
    if (!(await confirmed(question, "Move the alias"))) return;
    await within(outcome, async () => {
      await get(path("models", found.name, "aliases", alias.value), { method: "PUT", json: { version: Number(version.value) } });
      window.dispatchEvent(new Event("hashchange"));
      return h("p", { role: "status" }, "Moved.");
    });
  };
  return [...shown, h("form", { class: "row", onsubmit: submit }, field("Alias", alias),
    h("datalist", { id: "aliases" }, names.map((one) => h("option", { value: one }))),
    field("Version", version), h("button", null, "Move…")), outcome];
}

/** @param {string} name @param {number} version */
async function one(name, version) {
  const found = await get(path("models", name, "versions", version));
  const ref = `${name}:${version}`, pictures = h("div", null), isJudged = Boolean(found.classes) && found.labels.length === 1 && !isOfRewards(found);
  setUnit(found.unit);
  if (isJudged) void within(pictures, () => curves(found, ref));
  if (found.metrics.calibration) put(pictures, policyPictures(found.metrics));
  return h("div", null, h("h1", null, h("a", { href: link("models", name) }, name), ` version ${version}`),
    h("p", null, uses(ref, isJudged)),
    warned(found.warnings),
    h("div", { class: "columns" },
      card("Model", facts([["learner", found.learner.kind], found.classes && [isOfRewards(found) ? "actions" : "classes", found.classes.join(", ")],
        ["made", time(found.created_at)], found.unit && ["amounts in", found.unit],
        ["rows", short(found.data.rows, 9)],
          ["evaluated on", found.data.evaluation ? found.data.evaluation.in_words ?? found.data.evaluation.method : `${found.data.holdout_rows} held-out rows`]]),
      h("details", null, h("summary", null, "Parameters and origin"), facts([
        ...Object.entries(found.learner.parameters).map(([key, value]) => [key, JSON.stringify(value)]),
        ["data set", found.data.dataset ?? "–"], ...[["digest", found.data.digest], ["SHA-256 of the model", Object.values(found.sha256)[0]]]
          .map(([name, value]) => [name, `${value.slice(0, 16)}…`])]))),
      card("Quality on rows not seen in training", quality(found.metrics), perClass(found.metrics.per_class))),
    pictures,
    card("Features", table("As in training", ["feature", "type", "values", "price"],
      found.features.map((/** @type {any} */ feature) => [
      feature.name, feature.form ? looks(feature.form) : feature.type, range(feature), price(found.feature_costs, feature.name)]))));
}

/** The decision curve and the calibration curve of a version. @param {any} found its card @param {string} ref */
async function curves(found, ref) {
  const { curve } = await import("./lab.js"); // which imports this module
  const report = await get(path("models", ref, "benefit"), { json: matrixOfCard(found) });
  return h("div", { class: "columns" },
    card("Decision curve", report.curve ? chart({ ...curve(report), ...(found.benefits ? {} : { y: "share of right decisions" }) }) : h("p", null, "A decision curve needs two classes and two actions."),
      h("p", null, found.benefits ? "With the matrix of its training" : "The model has no matrix: a right decision counts 1",
        ". Try others in the ", h("a", { href: link("lab", ref) }, "Matrix lab"), ".")),
    card("Calibration curve", chart(calibration(report.calibration_curve,
      report.classes.length > 2 ? "the most probable class" : `“${report.classes[1]}”`))));
}

/** The values in training, written as there. @param {any} feature */
export function range({ type, categories, low, high, form }) {
  if (type === "categorical") return some(categories, 30);
  return low === null ? "" : `${inForm(low, form)} to ${inForm(high, form)}`;
}

/** @param {any[] | null} costs @param {string} name */
export function price(costs, name) {
  const found = costs?.find((one) => one.feature === name);
  if (!found) return "";
  return short(found.cost, 9) + (found.group ? `, then ${short(found.discounted_cost, 9)} (${found.group})` : "");
}

/** Whether a version learned from rewards: it has actions in place of classes, and no matrix. @param {any} version its card */
export function isOfRewards({ learner }) {
  return learner.kind === "rewards";
}

/** Of a card or job: what a policy earns, or those that are single values. @param {Record<string, any>} metrics */
export function quality(metrics) {
  return metrics.calibration ? policy(metrics) : measures(metrics);
}

/** Those that are single values. @param {Record<string, any>} metrics */
function measures(metrics) {
  return facts(Object.entries(metrics).filter(([, value]) => typeof value === "number")
    .map(([name, value]) => [words(name), short(value)]));
}

/** @param {Record<string, any> | undefined} classes */
function perClass(classes) {
  if (!classes) return null;
  return table("By class", ["class", "rows", "precision", "recall"], Object.entries(classes).map(([name, one]) => [
    name, one.rows, short(one.precision), short(one.recall)]));
}
