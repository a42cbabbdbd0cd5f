/** CSV files as bytes: their header, and chunks of whole records. The service parses them; here only records are found. */

import { field, h, select } from "./dom.js";
import { parsed, refused } from "./number.js";

const QUOTE = 0x22, NEWLINE = 0x0a;
const CHUNK = 2 ** 18; // bytes
/** The first line of Excel that names the delimiter. */
const SEPARATOR = /^"?sep=([,;\t|])"?\1*[ \t]*\n/i;

/** @typedef {{delimiter: string, names: string[], header: Blob}} Head */

/**
 * The delimiter and the names of the columns of a file, from its first record.
 * @param {Blob} file
 * @param {string} [encoding]
 * @returns {Promise<Head>}
 */
export async function headOf(file, encoding) {
  const start = new Uint8Array(await file.slice(0, CHUNK).arrayBuffer());
  const from = Math.max(start.findIndex((one) => one !== NEWLINE && one !== 0x0d), 0); // lines that are empty do not count
  const whole = read(start, encoding).replace(/^\n+/, ""), named = SEPARATOR.exec(whole), text = whole.slice(named?.[0].length ?? 0);
  const [names, delimiter] = (named ? [named[1]] : [",", ";", "\t", "|"]).map((one) => /** @type {[string[], string]} */ ([records(text, one).next().value ?? [""], one]))
    .reduce((best, one) => (one[0].length > best[0].length ? one : best));
  const end = ends(start.subarray(from), named ? 2 : 1).at(-1) ?? start.length;
  return { delimiter, names: names.map((one) => one.trim()), header: file.slice(0, from + end) };
}

/** The names of the columns of a file and its first rows. @param {Blob} file @param {string} [encoding] */
export async function sampleOf(file, encoding) {
  const { delimiter, names } = await headOf(file, encoding);
  const text = read(new Uint8Array(await file.slice(0, CHUNK).arrayBuffer()), encoding).replace(/^\n+/, "").replace(SEPARATOR, "");
  const [, ...rows] = [...records(text, delimiter)].filter((row) => row.length > 1 || row[0] !== "");
  if (file.size > CHUNK) rows.pop(); // which is cut
  return { delimiter, names, rows };
}

/** The encodings of files, to choose. */
export function encodings() {
  return select([["utf-8", "UTF-8"], ["latin-1", "Windows (latin-1)"], ["utf-16", "UTF-16"]], "utf-8");
}

/** How a file is written. What training read in a form of text is read in it here, too, whatever is chosen. */
export class Dialect {
  decimal = select([[".", "1.5"], [",", "1,5"]], ".");
  encoding = encodings();
  fields = [field("Decimals as", this.decimal), field("Encoding", this.encoding)];
}

/** A file of cases to choose, and which of its columns names them. */
export class CaseFile {
  #dialect = new Dialect();
  #input = h("input", { type: "file", accept: ".csv,.txt,text/csv", required: true });
  #id = h("select");
  /** The columns to choose from. @type {string[]} */
  #columns = [];

  /** @param {any} version its card */
  constructor(version) {
    /** @type {any} */
    this.version = version;
    this.#offer([]);
    for (const input of [this.#input, this.#dialect.encoding]) input.addEventListener("change", () => void this.#look());
  }

  /** @param {string} [hint] */
  fields(hint) {
    return [field("CSV file of cases", this.#input, hint), ...this.#dialect.fields,
      field("Ids of cases", this.#id, "the column that names them")];
  }

  get chosen() {
    return this.#input.files?.[0];
  }

  /** The file as it is sent, and the query: its columns that are no features come back, one of them as ids. */
  async read() {
    const chosen = /** @type {File} */ (this.chosen), file = await this.#inUtf8(chosen), head = await headOf(file);
    const columns = this.#offer(head.names), id = this.#id.value || undefined;
    const { name, version } = this.version;
    const query = { model: `${name}:${version}`, decimal: this.#dialect.decimal.value, delimiter: head.delimiter,
      id, keep: columns.filter((column) => column !== id) };
    return { name: chosen.name, file, head, query };
  }

  /** Offer the columns of the file that is chosen. */
  async #look() {
    if (this.chosen) this.#offer((await headOf(this.chosen, this.#dialect.encoding.value)).names);
  }

  /**
   * Offer those of these columns that are no features; where they are new, a column `id` is chosen.
   * @param {string[]} names @returns {string[]}
   */
  #offer(names) {
    const features = new Set(this.version.features.map((/** @type {any} */ feature) => feature.name));
    const columns = names.filter((name) => !features.has(name));
    if (!this.#id.length || JSON.stringify(columns) !== JSON.stringify(this.#columns)) {
      this.#columns = columns;
      this.#id.replaceChildren(...select([["", "no column"], ...columns.filter(Boolean)]).options);
      this.#id.value = columns.includes("id") ? "id" : "";
    }
    return columns;
  }

  /** In other encodings bytes do not show where records end. @param {File} file @returns {Promise<Blob>} */
  async #inUtf8(file) {
    const encoding = this.#dialect.encoding.value;
    if (encoding === "utf-8") return file;
    try {
      const name = decoding(new Uint8Array(await file.slice(0, 2).arrayBuffer()), encoding);
      const text = file.stream().pipeThrough(new TextDecoderStream(name, { fatal: true }));
      return await new Response(text.pipeThrough(new TextEncoderStream())).blob();
    } catch {
      throw refused(this.#dialect.encoding, "is not that of the file");
    }
  }
}

/** The name of an encoding in browsers. @param {Uint8Array} bytes the first ones @param {string} [encoding] as the service names it */
function decoding([first], encoding) {
  return encoding === "latin-1" ? "latin1" : encoding === "utf-16" && first === 0xfe ? "utf-16be" : encoding;
}

/** The text, whose lines end with LF, whatever ended them. @param {Uint8Array} bytes @param {string} [encoding] */
function read(bytes, encoding) {
  const text = new TextDecoder(decoding(bytes, encoding)).decode(bytes, { stream: true }); // the end may be cut
  return text.replace(/\r\n?/g, "\n");
}

/**
 * The service's CSV, whose text is in quotes, for spreadsheets: text that they would run as a formula begins with an apostrophe.
 * @param {string} text
 */
export function harmless(text) {
  return text.replace(/"((?:[^"]|"")*)"/g, (cell, own) => (/^[=+@\t\r\n-]/.test(own) && Number.isNaN(parsed(own)) ? `"'${own}"` : cell));
}

/** The records of a text. @param {string} text @param {string} [delimiter] @returns {Generator<string[]>} */
export function* records(text, delimiter = ",") {
  const pattern = new RegExp(`("(?:[^"]|"")*"|[^${delimiter}\n]*?)([${delimiter}]|\r?\n|$)`, "gy");
  /** @type {string[]} */
  let record = [];
  while (pattern.lastIndex < text.length) {
    const found = pattern.exec(text);
    if (!found) return;
    record.push(found[1].startsWith('"') ? found[1].slice(1, -1).replaceAll('""', '"') : found[1]);
    if (found[2] !== delimiter) { yield record; record = []; }
  }
}

/**
 * Where records end: the places after line ends outside quotes, at most `most`.
 * @param {Uint8Array} bytes @param {number} [most]
 */
export function ends(bytes, most = Infinity) {
  const found = [];
  let quoted = false, fresh = true;
  for (let i = 0; i < bytes.length && found.length < most; i += 1) {
    const one = bytes[i];
    if (quoted) {
      if (one !== QUOTE) continue;
      if (bytes[i + 1] === QUOTE) i += 1;
      else quoted = false;
    } else if (one === QUOTE && fresh) {
      quoted = true;
    } else if (one === NEWLINE) {
      found.push(i + 1);
    }
    fresh = !quoted && (one === NEWLINE || one === 0x2c || one === 0x3b || one === 0x09 || one === 0x7c);
  }
  return found;
}

/**
 * The records of a file from a place after its header in chunks, each with its end. Records longer than a chunk are
 * kept whole; of the file no more than about one chunk is in memory.
 * @param {Blob} file @param {Blob} header @param {number} from
 * @returns {AsyncGenerator<{body: Blob, end: number}>}
 */
export async function* chunks(file, header, from) {
  let size = CHUNK;
  if (from >= file.size) yield { body: file, end: from }; // without rows: the service says so
  while (from < file.size) {
    const bytes = new Uint8Array(await file.slice(from, from + size).arrayBuffer());
    const isLast = from + size >= file.size;
    const end = isLast ? bytes.length : ends(bytes).at(-1);
    if (end === undefined) {
      size *= 2;
      continue;
    }
    yield { body: new Blob([header, file.slice(from, from + end)]), end: from + end };
    from += end;
    size = CHUNK;
  }
}

/** The first `rows` rows of a file, with its header. @param {Blob} file @param {number} rows */
export async function first(file, rows) {
  const bytes = new Uint8Array(await file.slice(0, 4 * 2 ** 20).arrayBuffer());
  const found = ends(bytes, rows + 1);
  return file.slice(0, found.length > rows || file.size > bytes.length ? found.at(-1) : bytes.length);
}
