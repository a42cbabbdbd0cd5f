/** Review: the decisions that wait for a person, one at a time, first those whose truth is worth most. */

import { get, path, Problem } from "./api.js";
import { Axis } from "./chart.js";
import { card, facts, field, h, plain, put, s, select, short, table, time } from "./dom.js";
import { chooser, link, NAME } from "./models.js";
import { within } from "./problems.js";

const DAY_MS = 86_400_000;
const PAGE = 100;
const TRUTHS = [["true", "unknown"], ["false", "known"], ["any", "known or not"]];
const ORDERS = [["stake", "by stake"], ["time", "latest first"]];
const KEYS = [["k", "previous"], ["j", "next"], ["s", "skip"]];

/** What an empty page shows. */
const EXAMPLE = {
  line: { id: "claim-17", at: "2026-03-02T08:00:00Z", version: 3, action: "refer", stake: 9.4 },
  found: {
    terms: { classes: ["valid", "fake"], actions: ["pay", "reject", "refer"], benefits: [[10, -60, -5], [-40, 0, -5]] },
    probabilities: [0.44, 0.56], expected_benefits: [-18, -26.4, -5], instance: { amount: 5200, "days since start": 12 },
    explanation: null, outcome: null, key: "nightly",
  },
};

/**
 * @typedef {object} Line of the queue
 * @property {string} id
 * @property {string} at
 * @property {number} version
 * @property {string | number} action
 * @property {number | null} stake
 * @property {boolean} [known]
 */

/** @param {string[]} parts the model, and `name=value` of the queue @param {AbortSignal} signal */
export async function view([ref, ...parts], signal) {
  if (!ref) return models();
  const query = Object.fromEntries(parts.map((part) => [part.split("=")[0], part.slice(part.indexOf("=") + 1)]));
  return new Desk(ref, query, signal).draw();
}

/** Models to choose from; a key for reviews alone may not list them. */
async function models() {
  return chooser("Review", "review").catch((error) => {
    if (!(error instanceof Problem) || error.status !== 403) throw error;
    const name = h("input", { required: true, pattern: `${NAME}([:@].+)?`, autocapitalize: "off" });
    return h("div", null, h("h1", null, "Review"),
      h("form", { class: "row", onsubmit: () => { location.hash = link("review", name.value); } },
        field("Name of the model", name), h("button", { class: "main" }, "Show its queue")));
  });
}

/** The queue of a model, and the case that is shown. */
class Desk {
  /** @type {Line[]} */
  #lines = [];
  /** Truths that are known here, by id. @type {Map<string, string | number>} */
  #truths = new Map();
  /** Decisions that are read in full, by id. @type {Map<string, Promise<any>>} */
  #read = new Map();
  #at = 0;
  #busy = false;
  /** @type {string | null} */
  #token = null;
  #isComplete = true;
  #place = h("div", { class: "case" });
  #list = h("ol", { class: "queue" });
  #progress = h("progress", { "aria-label": "Done", max: 1, value: 0 });
  #count = h("div", null);
  #said = h("p", { role: "status" });
  #shortcuts = h("input", { type: "checkbox", checked: true });

  /** @param {string} ref @param {Record<string, string>} query @param {AbortSignal} signal */
  constructor(ref, query, signal) {
    this.ref = ref;
    /** @type {Record<string, string>} */
    this.query = { open: "true", ...query };
    this.signal = signal;
  }

  async draw() {
    await this.#more();
    const title = h("h1", null, "Review of ", h("a", { href: link("models", this.ref) }, this.ref));
    if (!this.#lines.length) return h("div", null, title, await this.#form(), this.#empty());
    document.addEventListener("keydown", (event) => this.#pressed(event), { signal: this.signal });
    void this.#show(0, false);
    return h("div", null, title, await this.#form(),
      this.#progress, h("div", { class: "ends" }, this.#count, h("label", null, this.#shortcuts, " Keyboard shortcuts")), this.#said,
      h("div", { class: "desk" }, this.#place, card("Queue", this.#list)));
  }

  /** Read the next page of the queue. */
  async #more() {
    const { open, ...rest } = this.query;
    const query = { ...rest, open: open === "any" ? undefined : open, page_size: String(PAGE), page_token: this.#token ?? undefined };
    const page = await get(path("models", this.ref, "decisions"), { query, signal: this.signal });
    this.#lines.push(...page.decisions);
    this.#token = page.next_page_token;
    this.#isComplete = page.complete;
  }

  /** Which decisions are in the queue. */
  async #form() {
    const { action = "", order = "stake", since = "", until = "", open } = this.query;
    const first = this.#lines[0] && await this.#decision(this.#lines[0]);
    const names = new Set([...(first?.terms.actions ?? []).map(String), ...(action ? [action] : [])]);
    const inputs = {
      action: select([["", "any action"], ...[...names].map((name) => [name, name])], action),
      open: select(TRUTHS, open),
      order: select(ORDERS, order),
      since: h("input", { type: "date", value: since.slice(0, 10) }),
      until: h("input", { type: "date", value: until && new Date(Date.parse(until) - 1).toISOString().slice(0, 10) }),
    };
    const show = () => {
      const last = inputs.until.value && new Date(Date.parse(inputs.until.value) + DAY_MS).toISOString();
      const values = Object.entries(inputs).map(([name, input]) => [name, name === "until" ? last : input.value]);
      location.hash = link("review", this.ref, ...values.flatMap(([name, value]) => (value ? [`${name}=${value}`] : [])));
    };
    return h("details", { class: "card", open: !this.#lines.length }, h("summary", null, "Which decisions"), h("form", { onsubmit: show },
      h("div", { class: "fields" }, field("Decided", inputs.action), field("Truth", inputs.open), field("Order", inputs.order),
        field("From", inputs.since, "days are those of UTC"), field("To", inputs.until, "this day included")),
      h("button", { class: "main" }, "Show")));
  }

  #empty() {
    const { line, found } = EXAMPLE;
    return h("div", null, card("No decision waits",
      h("p", null, "This page shows recorded decisions whose truth is unknown, one at a time: what the model expects, why, and what it is "
        + "worth to know the truth. Decide a file under ", h("a", { href: link("cases", this.ref) }, "Cases"),
      " with a limit, such as at most 40 referred, and record the decisions.")),
    h("div", { class: "desk" }, h("div", { class: "example", inert: true, "aria-hidden": "true" },
      h("small", null, "Example"), this.#case(line, found))));
  }

  /** All that is recorded of a decision, read once. @param {Line} line @returns {Promise<any>} */
  #decision({ id }) {
    const found = this.#read.get(id) ?? get(path("decisions", id), { signal: this.signal });
    this.#read.set(id, found);
    found.catch(() => this.#read.delete(id));
    return found;
  }

  /** Show the case at a place of the queue. @param {number} at @param {boolean} [withFocus] */
  async #show(at, withFocus = true) {
    if (at >= this.#lines.length && this.#token !== null) await this.#more();
    if (at < 0 || at >= this.#lines.length) return;
    this.#at = at;
    const line = this.#lines[at];
    this.#draw();
    await within(this.#place, async () => this.#case(line, await this.#decision(line)));
    if (!withFocus || this.#lines[this.#at] !== line) return;
    const heading = this.#place.querySelector("h2");
    heading?.focus({ preventScroll: true });
    heading?.scrollIntoView({ block: "nearest" });
  }

  /** @param {Line} line */
  #waits(line) {
    return !line.known && !this.#truths.has(line.id);
  }

  /** The queue and how far it is done. */
  #draw() {
    const all = this.#lines.length, done = this.#lines.filter((line) => !this.#waits(line)).length, more = this.#token === null ? "" : "+";
    this.#progress.max = all;
    this.#progress.value = done;
    put(this.#count, `${done} of ${all}${more} done, ${all - done}${more} wait`);
    const greatest = Math.max(...this.#lines.map((line) => line.stake ?? 0)) || 1;
    put(this.#list, this.#lines.map((line, i) => {
      const truth = this.#truths.get(line.id);
      return h("li", null, h("button", { type: "button", onclick: () => void this.#show(i), "aria-current": i === this.#at && "true" },
        h("span", null, line.id), this.#waits(line)
          ? h("small", null, h("progress", { class: "bar", max: greatest, value: line.stake ?? 0, "aria-hidden": "true" }), h("span", null, short(line.stake, 3)))
          : h("small", null, `✓ ${truth ?? "known"}`)));
    }), this.#isComplete ? null : h("li", null, h("small", null, "Earlier days were not read: choose “To” for these.")));
  }

  /** A case with the buttons for its truth. @param {Line} line @param {any} found */
  #case(line, found) {
    const { classes, actions, benefits } = found.terms, known = this.#truths.get(line.id) ?? found.outcome?.truth;
    const taken = select([["", "action as decided"], ...actions.map((/** @type {any} */ name) => [String(name), String(name)])], "", { "aria-label": "Action taken" });
    const send = (/** @type {any} */ truth) => void this.#send(line, truth, actions.find((/** @type {any} */ one) => String(one) === taken.value));
    return h("section", { class: "card", "aria-label": `Case ${line.id}` },
      h("h2", { tabindex: -1 }, `Case ${line.id}`, h("small", null, ` ${this.#at + 1} of ${Math.max(this.#lines.length, 1)}`)),
      facts([["decided", h("span", { class: "decision" }, String(line.action))],
        line.stake !== null && ["its truth is worth", short(line.stake)], ["at", time(line.at)], ["version", line.version], found.key && ["by the key", found.key]]),
      h("div", { class: "columns" },
        bars("Probabilities", "class", classes, found.probabilities, [0, 1]),
        found.expected_benefits && bars("Expected benefit of each action", "action", actions, found.expected_benefits,
          [0, ...found.expected_benefits], String(line.action))),
      why(found),
      h("div", { class: "answer", role: "group", "aria-label": "What is true?" },
        h("b", null, known === undefined ? "What is true?" : `Known: ${known}. Another truth replaces it.`),
        h("div", { class: "row" }, classes.map((/** @type {any} */ name, /** @type {number} */ k) =>
          h("button", { type: "button", "data-truth": k, class: name === known ? "main" : null, "aria-keyshortcuts": k < 9 && String(k + 1), onclick: () => send(name) },
            k < 9 ? h("kbd", { "aria-hidden": "true" }, k + 1) : null, String(name),
            benefits && h("small", null, ` ${best(actions, benefits[k])}`)))),
        h("div", { class: "row" }, taken, KEYS.map(([key, name]) =>
          h("button", { type: "button", "aria-keyshortcuts": key, onclick: () => this.#move(key) }, h("kbd", { "aria-hidden": "true" }, key), name)))));
  }

  /** Store the truth of a case, and go on to the next one that waits. @param {Line} line @param {any} truth @param {any} action */
  async #send(line, truth, action) {
    if (this.#busy) return;
    this.#busy = true;
    await within(this.#said, async () => {
      const isKnown = this.#truths.has(line.id) || (await this.#decision(line)).outcome !== null;
      const json = { outcomes: [{ id: line.id, truth, ...(action === undefined ? {} : { action }) }], correct: isKnown };
      const { unknown, conflicts: [conflict] } = await get("outcomes", { json });
      if (unknown.length) return `${line.id} is not recorded any more.`;
      this.#truths.set(line.id, conflict ? conflict.stored.truth : truth);
      if (this.#lines[this.#at] === line) this.#move("s");
      else this.#draw();
      if (conflict) return `Someone else stored that ${line.id} is ${conflict.stored.truth}: go back to it to replace that.`;
      const isLast = this.#token === null && !this.#lines.some((one) => this.#waits(one));
      return `Stored: ${line.id} is ${truth}.${isLast ? " Nothing waits any more." : ""}`;
    });
    this.#busy = false;
  }

  /** @param {string} key of `KEYS` */
  #move(key) {
    if (key === "k") return void this.#show(this.#at - 1);
    if (key === "j") return void this.#show(this.#at + 1);
    const after = this.#lines.findIndex((line, i) => i > this.#at && this.#waits(line));
    const skipped = this.#lines.findIndex((line, i) => i !== this.#at && this.#waits(line));
    if (after >= 0) void this.#show(after);
    else if (this.#token !== null) void this.#show(this.#lines.length);
    else void this.#show(skipped < 0 ? this.#at : skipped);
  }

  /** @param {KeyboardEvent} event */
  #pressed(event) {
    const target = /** @type {Element} */ (event.target);
    if (!this.#shortcuts.checked || event.ctrlKey || event.metaKey || event.altKey || target.closest("input, select, textarea, dialog, .scroll")) return;
    const key = { ArrowRight: "j", ArrowLeft: "k" }[event.key] ?? event.key;
    if (KEYS.some(([name]) => name === key)) this.#move(key);
    else if (/^[1-9]$/.test(key)) this.#place.querySelector(`[data-truth="${Number(key) - 1}"]`)?.dispatchEvent(new MouseEvent("click"));
    else return;
    event.preventDefault();
  }
}

/** Which action earns most where a class is true. @param {any[]} actions @param {number[]} benefits */
function best(actions, benefits) {
  const most = Math.max(...benefits);
  return `then ${actions[benefits.indexOf(most)]}: ${short(most)}`;
}

/**
 * Numbers as bars from zero.
 * @param {string} title @param {string} what @param {any[]} names @param {number[]} values @param {number[]} ends @param {string} [marked]
 */
function bars(title, what, names, values, ends, marked) {
  const axis = new Axis(Math.min(...ends), Math.max(...ends) || 1, 1, 169);
  return table(title, [what, ""], names.map((name, k) => [
    String(name) === marked ? h("b", null, `${name} (decided)`) : String(name), figure(axis, values[k])]));
}

/** A number and its bar. @param {Axis} axis @param {number} value */
function figure(axis, value) {
  const zero = axis.at(0), end = axis.at(value);
  return h("span", { class: "figure" }, h("span", null, short(value, 3)), s("svg", { width: 170, height: 14, "aria-hidden": "true" },
    s("rect", { class: value < 0 ? "minus" : "plus", x: Math.min(zero, end), y: 2, width: Math.abs(end - zero), height: 10 }),
    s("line", { class: "axis", x1: zero, x2: zero, y1: 0, y2: 14 })));
}

/** The instance with what each value adds, and the reasons in words. @param {any} found */
function why({ action, instance, explanation }) {
  const added = /** @type {Record<string, number>} */ (explanation?.contributions ?? {}), reasons = explanation?.reasons ?? [];
  const size = (/** @type {string} */ name) => Math.abs(added[name] ?? 0);
  const names = Object.keys({ ...instance, ...added }).sort((a, b) => size(b) - size(a));
  const greatest = Math.max(...names.map(size));
  const axis = new Axis(-greatest || -1, greatest || 1, 1, 169);
  const of = explanation?.contributions_to;
  return [explanation?.sentence ? h("p", null, explanation.sentence) : null, h("div", { class: "columns" },
    names.length ? table(of ? `The case, and what each value adds to the ${of.score.replaceAll("_", " ")} of ${of.class}` : "The case",
      ["feature", "value", ...(of ? ["adds"] : [])], names.map((name) => [name, plain(instance?.[name] ?? "missing"),
        ...(of ? [name in added ? figure(axis, added[name]) : ""] : [])]))
      : h("p", { class: "soft" }, "The case itself was not recorded: ask for ", h("code", null, '"record": {"instances": true}'), "."),
    reasons.length ? h("div", null, h("h3", null, `What counts against “${action}”`), h("ol", null, reasons.map((/** @type {any} */ one) =>
      h("li", null, one.text ?? `${one.feature}${one.direction === "any" ? "" : ` is ${one.direction}`}`)))) : null)];
}
