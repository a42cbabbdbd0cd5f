/** Data: uploading a table with a report on its columns, and the tables that are there. */

import { get, list, path, Problem } from "./api.js";
import { encodings, sampleOf } from "./csv.js";
import { button, card, confirmed, facts, field, h, put, select, short, some, table, time } from "./dom.js";
import { looks } from "./forms.js";
import { link } from "./models.js";
import { cleared, inForms, within } from "./problems.js";

const SHOWN = 5, MOST_COLUMNS = 200, MOST_TICKS = 20;
const READ_AS = [["", "as found"], ["number", "number"], ["category", "category"], ["value", "value for a matrix"],
  ["weight", "weight of the row"], ["ignore", "ignore"],
  ["number:1,234.5", "1,234.5"], ["number:1.234,5", "1.234,5"], ["date", "date (2026-01-31)"],
  ["date:%d/%m/%Y", "day/month/year"], ["date:%m/%d/%Y", "month/day/year"]];
/** Types of columns that are no features and are used. */
const BESIDE = new Set(["value", "weight"]);
/** As the service has them. */
const MISSING = new Set(["", "NA", "N/A", "n/a", "#N/A", "NaN", "nan", "null", "NULL", "None", "?"]);

export async function view() {
  const place = h("div", null, h("p", null, "…"));
  const redraw = () => within(place, () => listed(redraw));
  void redraw();
  return h("div", null, h("h1", null, "Data"), upload(redraw), card("Data sets", place));
}

/** @param {() => void} redraw */
async function listed(redraw) {
  const found = await list("datasets", "datasets");
  if (!found.length) return h("p", null, "There are none yet: choose a file above, or ", h("a", { href: "#/start" }, "try with sample data"), ".");
  const outcome = h("div", null);
  const remove = async (/** @type {any} */ one) => {
    if (!(await confirmed(`Delete the data set ${one.name ?? one.id}? Models made from it stay.`, "Delete"))) return;
    await within(outcome, async () => { await get(path("datasets", one.id), { method: "DELETE" }); redraw(); return null; });
  };
  return h("div", null, table("Newest first", ["name", "rows × features", "target", "classes", "uploaded", ""],
    found.map((one) => [
    one.name ?? one.id, `${short(one.rows, 9)} × ${one.features.length}`, one.labels.join(", "),
      one.classes ? some(one.classes, 8) : "numbers", time(one.created_at),
    h("span", { class: "uses" }, h("a", { href: link("jobs", "new", one.id), "aria-label": `Train on ${one.name ?? one.id}` }, "Train"), " ",
      button("Delete…", () => void remove(one), { "aria-label": `Delete ${one.name ?? one.id}` }))])), outcome);
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
  const isText = /\.(csv|txt|tsv)$/i.test(file.name), encoding = encodings();
  const types = new Types(), preview = h("div", null), size = h("span");
  let sample = { delimiter: ",", names: /** @type {string[]} */ ([]), rows: /** @type {string[][]} */ ([]) };
  const label = isText ? h("select", { onchange: () => counted() }) : h("input", { required: true });
  const more = select([], null, { multiple: true, size: 4 }), counts = h("p", { class: "soft" });
  const drops = h("input", { type: "checkbox" });
  const spare = h("div", { role: "group", "aria-label": "Classes to leave out" }, classesToLeaveOut([]));
  const counted = () => {
    const values = valueCounts(sample, label.value);
    put(counts, values.length ? `In the first ${sample.rows.length} rows: ${some(values.map(([value, count]) => `${value || "(empty)"}: ${count}`), SHOWN)}` : null);
    put(spare, classesToLeaveOut(values.map(([value]) => value).filter((value) => !MISSING.has(value))));
  };
  const header = select([["first", "names of columns"], ["none", "values"]], "first");
  const look = async () => {
    sample = await sampleOf(file, encoding.value);
    if (header.value === "none") {
      const { names, rows } = sample;
      sample = { ...sample, names: names.map((_, j) => `column_${j + 1}`), rows: [names, ...rows] };
    }
    const { names, rows } = sample, at = label instanceof HTMLSelectElement ? label.selectedIndex : -1;
    for (const one of [label, more]) one.replaceChildren(...select(names, null, { multiple: true }).options); // none selected
    if (label instanceof HTMLSelectElement) label.selectedIndex = at < 0 ? names.length - 1 : at;
    put(size, `, ${names.length} columns`);
    counted();
    cleared(report);
    types.ofFile(sample);
    const first = table(`The first ${Math.min(rows.length, SHOWN)} rows`, names, rows.slice(0, SHOWN));
    first.classList.add("raw"); // a record of many columns is read across
    return first;
  };
  const report = h("div", { tabindex: -1 });
  const name = h("input", { value: file.name.replace(/\.(csv|txt|tsv|gz|parquet)+$/gi, "").slice(0, 200),
    maxlength: 200 });
  if (isText) {
    const [first, second] = new Uint8Array(await file.slice(0, 2).arrayBuffer());
    if (first + second === 0xff + 0xfe) encoding.value = "utf-16"; // as Excel marks it
    for (const one of [encoding, header]) one.addEventListener("change", () => void within(preview, look));
    put(preview, await look());
  }
  const kind = select([["auto", "words and integers are classes"], ["number", "numbers to predict"]], "auto");
  const send = () => void within(report, async () => {
    report.focus();
    put(report, h("p", null, "Uploading…"), h("progress", { "aria-label": "Uploading" }));
    const form = new FormData();
    const written = isText ? { delimiter: sample.delimiter, encoding: encoding.value, header: header.value } : {};
    const fields = { label: label.value, name: name.value, label_type: kind.value, types: JSON.stringify(types.chosen),
      drop_unlabelled: String(drops.checked), ...written };
    for (const [key, value] of Object.entries(fields)) if (value) form.append(key, value);
    for (const { type, checked, value } of spare.querySelectorAll("input")) if (type === "checkbox" ? checked : value) form.append("drop_classes", value);
    for (const { value } of more.selectedOptions) if (value !== label.value) form.append("label", value);
    form.append("file", file);
    try {
      const found = await get("datasets", { body: form, patient: true });
      uploaded();
      types.ofReport(found.columns, found.ignored);
      return stored(found);
    } catch (error) {
      if (error instanceof Problem && error.columns.length) types.ofReport(error.columns);
      throw error;
    }
  }).then(() => report.scrollIntoView({ block: "nearest" }));
  return h("form", { onsubmit: send },
    h("p", null, `${file.name}, ${short(file.size / 1000, 3)} kB`, size),
    h("div", { class: "fields" }, field("Column to predict", label), field("Name of the data set", name),
      field("It contains", kind),
      isText ? [field("Encoding", encoding), field("The first line has", header)] : null),
    h("p", null, h("label", null, drops, " Leave rows out in which it is empty")), spare, counts,
    isText ? h("details", null, h("summary", null, "Several labels"),
      field("More columns to predict", more, "For models that select a set of labels")) : null,
    preview, report, types.place, h("button", { class: "main" }, "Upload"));
}

/**
 * How often the first rows have each value, the most frequent first.
 * @param {{names: string[], rows: string[][]}} sample @param {string} label @returns {[string, number][]}
 */
function valueCounts({ names, rows }, label) {
  const counts = new Map(), j = names.indexOf(label);
  for (const row of rows) counts.set(row[j], (counts.get(row[j]) ?? 0) + 1);
  return [...counts].sort(([, a], [, b]) => b - a);
}

/** A tick for each class, or a field where there are none to choose from, or too many. @param {string[]} classes */
function classesToLeaveOut(classes) {
  if (!classes.length || classes.length > MOST_TICKS) return field("Class to leave out", h("input", null));
  return ["Leave these rows out: ", ...classes.map((value) => h("label", null, h("input", { type: "checkbox", value }), ` ${value} `))];
}

/** How the columns are to be read, to choose in one table: of the file, then of the service's answer. */
class Types {
  /** @type {Map<string, HTMLSelectElement>} */
  #inputs = new Map();
  place = h("div", null);

  /** @returns {Record<string, string>} */
  get chosen() {
    return Object.fromEntries([...this.#inputs].map(([name, input]) => [name, input.value]).filter(([, value]) => value));
  }

  /** What the first rows say of each column, to choose. @param {{names: string[], rows: string[][]}} sample */
  ofFile({ names, rows }) {
    put(this.place, table(`Columns, by the first ${rows.length} rows`, ["column", "values", "missing", "different", "read as"],
      names.slice(0, MOST_COLUMNS).map((name, j) => {
        const values = rows.map((row) => (row[j] ?? "").trim()), known = values.filter((one) => !MISSING.has(one));
        const different = [...new Set(known)];
        return [name, some(different, 3), values.length - known.length, different.length, this.#select(name)];
      })));
  }

  /** How the service read them, those first that are to be changed. @param {any[]} columns @param {Record<string, string>} [ignored] */
  ofReport(columns, ignored = {}) {
    const all = [...columns].sort((a, b) => Number(!a.advice) - Number(!b.advice));
    put(this.place, table(all.length > MOST_COLUMNS ? `The first ${MOST_COLUMNS} of ${all.length} columns` : "How each column was read",
      ["column", "was read as", "examples", "missing", "different", "what to change", "read as"],
      all.slice(0, MOST_COLUMNS).map(({ name, type, form, examples, missing, distinct, advice }) => [name,
        Object.hasOwn(ignored, name) && !BESIDE.has(type) ? "left out" : readAs(type, form), examples?.join(", "),
        missing ?? "–", distinct ?? "–", advice && inForms(advice), this.#select(name)])));
  }

  /** @param {string} name @returns {HTMLSelectElement} that of the last table takes its place */
  #select(name) {
    const input = select(READ_AS,
      this.#inputs.get(name)?.value ?? "", { "aria-label": `Read ${name} as` });
    this.#inputs.set(name, input);
    return input;
  }
}

/** How the service read a column, in words. @param {string | null} type @param {string | null} form */
function readAs(type, form) {
  if (type && BESIDE.has(type)) return type;
  return form ? looks(form) : type || "–";
}

/** @param {any} found the data set */
function stored(found) {
  return h("div", { class: "report" }, h("h3", null, "Uploaded"),
    facts([["rows", short(found.rows, 9)], ["target", found.labels.join(", ")],
      ["classes", found.classes ? some(found.classes, 20) : "numbers"]]),
    h("div", { class: "row" }, h("a", { href: link("jobs", "new", found.id) }, "Train a model on it")));
}
