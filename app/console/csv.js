/** CSV files as bytes: their header, and chunks of whole records. The service parses them; here only records are found. */

import { field, h, put, select } from "./dom.js";
import { parsed, refused } from "./number.js";

const QUOTE = 0x22, NEWLINE = 0x0a;
const CHUNK = 2 ** 18; // bytes

/** @typedef {{delimiter: string, names: string[], header: Blob}} Head */

/**
 * The delimiter and the names of the columns of a file, from its first record.
 * @param {Blob} file
 * @param {string} [encoding]
 * @returns {Promise<Head>}
 */
export async function headOf(file, encoding) {
  const start = new Uint8Array(await file.slice(0, CHUNK).arrayBuffer());
  const end = ends(start, 1)[0] ?? start.length;
  const line = read(start.subarray(0, end), encoding).replace(/[\r\n]+$/, "");
  const [names, delimiter] = [",", ";", "\t", "|"].map((one) => /** @type {[string[], string]} */ ([[...records(`${line}\n`, one)].flat(), one]))
    .reduce((best, one) => (one[0].length > best[0].length ? one : best));
  return { delimiter, names, header: file.slice(0, end) };
}

/** How a file writes decimals: guessed from its numbers and stated below, to choose where they leave it open. */
export class Decimals {
  #choice = select([["", "choose"], [".", "1.5"], [",", "1,5"]], ".", { onchange: () => this.#state(this.#choice.value, null) });
  #said = h("span");
  #guessed = Promise.resolve();
  node = field("Decimals as", this.#choice, this.#said);

  /** @param {HTMLInputElement} [input] for the file */
  constructor(input) {
    input?.addEventListener("change", () => { if (input.files?.[0]) this.guess(input.files[0]); });
  }

  /** As requests state it; Problem where it is open. */
  async chosen() {
    await this.#guessed;
    if (!this.#choice.value) throw refused(this.#choice, "is not chosen");
    return this.#choice.value;
  }

  /** @param {Blob} file @param {string} [encoding] */
  guess(file, encoding) {
    this.#guessed = this.#guess(file, encoding);
  }

  /** @param {Blob} file @param {string} [encoding] */
  async #guess(file, encoding) {
    const { delimiter } = await headOf(file, encoding);
    const text = read(await file.slice(0, CHUNK).arrayBuffer(), encoding);
    const words = delimiter === "," ? [] : text.split(new RegExp(`[\\s"${delimiter}]+`));
    const [comma, point] = [",", "."].map((mark) => {
      const found = words.filter((one) => new RegExp(`^[+-]?\\d*[${mark}]\\d+$`).test(one));
      return { any: found[0], sure: found.find((one) => !/^[+-]?[1-9]\d{0,2}\D\d{3}$/.test(one)) }; // else 1,234 may be 1234
    });
    const isOpen = comma.sure ? point.sure : !point.sure && (comma.any ?? point.any);
    if (isOpen) this.#state("", `“${comma.any ?? point.any}”${comma.sure ? ` and “${point.sure}”` : ""} can be read in two ways`);
    else this.#state(comma.sure ? "," : ".", comma.sure && `guessed from “${comma.sure}”`);
  }

  /** @param {string} choice @param {import("./dom.js").Child} words */
  #state(choice, words) {
    this.#choice.value = choice;
    this.#choice.removeAttribute("aria-invalid");
    put(this.#said, words);
  }
}

/** @param {BufferSource} bytes @param {string} [encoding] as the service names it */
function read(bytes, encoding) {
  return new TextDecoder(encoding === "latin-1" ? "latin1" : encoding).decode(bytes, { stream: true }); // the end may be cut
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
 * The records of a file after its header in chunks, each with the number of its first row and the share that is read.
 * Records longer than a chunk are kept whole; of the file no more than about one chunk is in memory.
 * @param {Blob} file @param {Head} head
 * @returns {AsyncGenerator<{body: Blob, row: number, share: number}>}
 */
export async function* chunks(file, head) {
  let from = head.header.size, row = 1, size = CHUNK;
  if (from >= file.size) yield { body: file, row, share: 1 }; // without rows: the service says so
  while (from < file.size) {
    const bytes = new Uint8Array(await file.slice(from, from + size).arrayBuffer());
    const isLast = from + size >= file.size;
    const found = ends(bytes);
    const end = isLast ? bytes.length : found.at(-1);
    if (end === undefined) {
      size *= 2;
      continue;
    }
    yield { body: new Blob([head.header, file.slice(from, from + end)]), row, share: (from + end) / file.size };
    row += found.length;
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
