/** The first page: a file to begin with, or sample data, and where to read on. */

import { get, mayTrain } from "./api.js";
import { upload } from "./data.js";
import { button, card, h } from "./dom.js";
import { link } from "./models.js";
import { within } from "./problems.js";

export async function view() {
  const trains = await mayTrain();
  return h("div", null, h("h1", null, "Which action pays most?"),
    h("p", null, "Upload a table of cases with a known outcome, train a model on it, and decide new cases by what each action earns."),
    trains ? upload(() => {}) : card("Upload a table", h("p", null, "That needs a key with the scope 'train'.")),
    trains ? sample() : null,
    card("Or go on", h("ul", null,
      h("li", null, h("a", { href: "#/models" }, "Models"), ": those that are published, and what each has earned"),
      h("li", null, h("a", { href: "../docs" }, "The documentation of the API"), ", to do the same from a program"))));
}

/** The table of the demo. */
function sample() {
  const outcome = h("div", { "aria-live": "polite" });
  const take = () => within(outcome, async () => {
    const body = new FormData();
    body.append("file", await (await fetch("sample.csv")).blob(), "sample.csv");
    body.append("label", "diagnosis");
    body.append("name", "tumours");
    const { id } = await get("datasets", { body, patient: true });
    location.hash = link("jobs", "new", id);
    return null;
  });
  return card("No table at hand?", h("p", null, "569 biopsies of breast lumps with 30 measurements of each: malignant or benign?"),
    h("div", { class: "row" }, button("Try with sample data", () => void take())), outcome);
}
