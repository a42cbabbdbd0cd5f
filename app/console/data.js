/** Data: uploading a table with a report on its columns, and the tables that are there. */

import { get, list, path } from "./api.js";
import { Dialect, headOf } from "./csv.js";
import { button, card, confirmed, facts, field, h, put, select, short, some, table, time, warned } from "./dom.js";
import { link } from "./models.js";
import { within } from "./problems.js";

export async function view() {
  const place = h("div", null, h("p", null, "…"));
  const redraw = () => within(place, () => listed(redraw));
  void redraw();
  return h("div", null, h("h1", null, "Data"), upload(redraw), card("Data sets", place));
}

/** @param {() => void} redraw */
async function listed(redraw) {
  const found = await list("datasets", "datasets");
  if (!found.length) return h("p", null, "There are none yet.");
  const outcome = h("div", null);
  const remove = async (/** @type {any} */ one) => {
    if (!(await confirmed(`Delete the data set ${one.name ?? one.id}? Models made from it stay.`, "Delete"))) return;
    await within(outcome, async () => { await get(path("datasets", one.id), { method: "DELETE" }); redraw(); return null; });
  };
  return h("div", null, table("Newest first", ["name", "rows", "features", "target", "classes", "uploaded", "", ""],
    found.map((one) => [
    one.name ?? one.id, short(one.rows, 9), one.features.length, one.labels.join(", "),
      one.classes ? some(one.classes, 8) : "numbers", time(one.created_at),
    h("a", { href: link("jobs", "new", one.id), "aria-label": `Train on ${one.name ?? one.id}` }, "Train"),
    button("Delete…", () => void remove(one), { "aria-label": `Delete ${one.name ?? one.id}` })])), outcome);
}

/** A file to choose or to drop, what it contains, and then the service's report. @param {() => void} uploaded */
export function upload(uploaded) {
  const input = h("input", { type: "file", accept: ".csv,.txt,.gz,.parquet",
    onchange: () => take(input.files?.[0]) });
  const next = h("div", { "aria-live": "polite" });
  const take = (/** @type {File | undefined} */ file) => { if (file) void within(next, () => chosen(file, uploaded)); };
  const drop = h("label", {
    class: "drop",
    ondragover: (/** @type {DragEvent} */ event) => { event.preventDefault(); drop.classList.add("over"); },
    ondragleave: () => drop.classList.remove("over"),
    ondrop: (/** @type {DragEvent} */ event) => { event.preventDefault(); drop.classList.remove("over"); take(event.dataTransfer?.files[0]); },
  }, "Drop a CSV or Parquet file here, or choose one: ", input);
  return card("Upload a table", drop, next);
}

/** @param {File} file @param {() => void} uploaded */
async function chosen(file, uploaded) {
  const isText = /\.(csv|txt|tsv)$/i.test(file.name);
  const head = isText ? await headOf(file) : { delimiter: ",", names: [] };
  const { names } = head;
  const label = isText ? select(names, names.at(-1)) : h("input", { required: true });
  const more = select(names, null, { multiple: true, size: 4 });
  const name = h("input", { value: file.name.replace(/\.(csv|txt|tsv|gz|parquet)+$/gi, "").slice(0, 200),
    maxlength: 200 });
  const dialect = new Dialect();
  if (isText) dialect.guess(file);
  dialect.encoding.addEventListener("change", async () => {
    const { names } = await headOf(file, dialect.encoding.value);
    const chosen = label instanceof HTMLSelectElement ? label.selectedIndex : -1;
    for (const one of [label, more]) one.replaceChildren(...select(names, null, { multiple: true }).options); // none selected
    if (label instanceof HTMLSelectElement) label.selectedIndex = chosen;
  });
  const kind = select([["auto", "words and integers are classes"], ["number", "numbers to predict"]], "auto");
  const report = h("div", null);
  const send = (/** @type {Record<string, string>} */ types) => void within(report, async () => {
    put(report, h("p", null, "Uploading…"), h("progress", { "aria-label": "Uploading" }));
    const form = new FormData();
    const fields = { label: label.value, name: name.value, label_type: kind.value, delimiter: head.delimiter,
      decimal: await dialect.decimal(), encoding: dialect.encoding.value, types: JSON.stringify(types) };
    for (const [key, value] of Object.entries(fields)) if (value && (isText || !["delimiter", "decimal",
      "encoding"].includes(key))) form.append(key, value);
    for (const { value } of more.selectedOptions) if (value !== label.value) form.append("label", value);
    form.append("file", file);
    const found = await get("datasets", { body: form, patient: true });
    uploaded();
    return columns(found, types, send);
  });
  return h("form", { onsubmit: () => send({}) },
    h("p", null, `${file.name}, ${short(file.size / 1000, 3)} kB`, isText ? `, ${names.length} columns` : ""),
    h("div", { class: "fields" }, field("Column to predict", label), field("Name of the data set", name),
      field("It contains", kind),
      isText ? dialect.fields : null),
    isText ? h("details", null, h("summary", null, "Several labels"),
      field("More columns to predict", more, "For models that select a set of labels")) : null,
    h("button", { class: "main" }, "Upload"), report);
}

/**
 * The column report, in which types can be changed.
 * @param {any} found the data set
 * @param {Record<string, string>} types
 * @param {(types: Record<string, string>) => void} again
 */
function columns(found, types, again) {
  const inputs = new Map([...found.features.map((/** @type {any} */ one) => one.name), ...found.ignored].map((name) =>
    [name, select([["", "as found"], ["number", "number"], ["category", "category"], ["ignore", "ignore"]], types[name] ?? "",
      { "aria-label": `Read ${name} as` })]));
  const read = () => again(Object.fromEntries([...inputs].map(([name, input]) => [name,
    input.value]).filter(([, value]) => value)));
  const type = new Map(found.features.map((/** @type {any} */ one) => [one.name, one.type]));
  return h("div", { class: "report" }, h("h3", null, "Uploaded"),
    facts([["rows", short(found.rows, 9)], ["target", found.labels.join(", ")],
      ["classes", found.classes ? some(found.classes, 20) : "numbers"]]),
    warned(found.warnings),
    h("div", { class: "row" }, h("a", { href: link("jobs", "new", found.id) }, "Train a model on it")),
    h("details", null, h("summary", null, "Columns"), table("How each column was read", ["column", "type", "read as"],
      [...inputs].map(([name, input]) => [name, String(type.get(name) ?? "ignored"), input])),
      button("Upload again with these types", read)));
}
