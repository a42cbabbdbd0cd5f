/** The first page: a file to begin with, or sample data, and where to read on. */

import { get, mayTrain } from "./api.js";
import { upload } from "./data.js";
import { button, card, h } from "./dom.js";
import { keep } from "./matrix.js";
import { link } from "./models.js";
import { PRESETS, tableOf } from "./presets.js";
import { within } from "./problems.js";

export async function view() {
  const trains = await mayTrain();
  return h("div", null, h("h1", null, "Which action pays most?"),
    h("p", null, "Upload a table of cases with a known outcome, train a model on it, and decide new cases by what each action earns."),
    trains ? upload(() => {}) : card("Upload a table", h("p", null, "That needs a key with the scope 'train'.")),
    trains ? sample() : null,
    card("Or continue", h("ul", null,
      h("li", null, h("a", { href: "#/models" }, "Models"), ": those that are published, and what each has earned"),
      h("li", null, h("a", { href: "../docs" }, "The documentation of the API"), ", to do the same from a program"))));
}

/** Real measurements, and a simulated table for each question. */
function sample() {
  const outcome = h("div", { "aria-live": "polite" });
  const tumours = () => within(outcome, async () => {
    const { id } = await stored("tumours", "diagnosis", await (await fetch("sample.csv")).blob());
    location.hash = link("jobs", "new", id);
    return null;
  });
  const simulated = (/** @type {import("./presets.js").Preset} */ preset) => within(outcome, async () => {
    const { name, label, learner, matrix, isNumber } = preset;
    const { id, classes } = await stored(name, label, new Blob([tableOf(preset)]), isNumber ? { label_type: "number" } : {});
    if (matrix) for (const user of [id, name]) keep({ name: user, classes }, matrix);
    location.hash = link("jobs", "new", id, learner);
    return null;
  });
  return card("No table at hand?", h("p", null, "569 biopsies of breast lumps with 30 measurements of each: malignant or benign?"),
    h("div", { class: "row" }, button("Try with sample data", () => void tumours())),
    h("p", null, "Or a simulated table, with a matrix where one is needed:"),
    PRESETS.map((preset) => h("div", { class: "row" }, button(preset.title, () => void simulated(preset)), h("span", null, preset.question))), outcome);
}

/** Upload a table. @param {string} name @param {string} label @param {Blob} table @param {Record<string, string>} [fields] */
async function stored(name, label, table, fields = {}) {
  const body = new FormData();
  body.append("file", table, `${name}.csv`);
  for (const [field, value] of Object.entries({ name, label, ...fields })) body.append(field, value);
  return get("datasets", { body, patient: true });
}
