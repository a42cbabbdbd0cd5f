/** How problems look, with a way to continue; and the key, whose absence is the most frequent one. */

import { hasKey, Problem, setKey } from "./api.js";
import { button, field, h, put } from "./dom.js";
import { looks } from "./forms.js";

/** @type {WeakMap<HTMLElement, object>} */
const newest = new WeakMap();

/** Empty `target`, and drop what is still under way for it. @param {HTMLElement} target */
export function cleared(target) {
  newest.delete(target);
  target.removeAttribute("aria-busy");
  put(target);
}

/**
 * Draw what `work` returns into `target`, or what went wrong there, unless `target` is used anew or cleared before.
 * @param {HTMLElement} target @param {() => Promise<import("./dom.js").Child>} work
 */
export async function within(target, work) {
  const own = {};
  newest.set(target, own);
  target.setAttribute("aria-busy", "true");
  const found = await work().catch((error) => failed(error, () => void within(target, work)));
  if (newest.get(target) !== own) return;
  put(target, found);
  target.removeAttribute("aria-busy");
}

/**
 * What went wrong, where, and what to do.
 * @param {unknown} error @param {() => void} retry @returns {HTMLElement}
 */
export function failed(error, retry) {
  const problem = error instanceof Problem ? error : new Problem(500, "The console failed", String(error));
  const again = problem.status === 0 || problem.status === 429 || problem.status >= 500;
  return h("div", { class: "problem", role: "alert" }, worded(problem),
    h("p", null, problem.fix),
    again ? button("Retry", retry) : null,
    problem.status === 401 ? button("Enter a key", enterKey) : null);
}

/** What is wrong, each thing once: the detail may be the first flaw or the title. @param {Problem} problem */
export function worded({ title, detail, flaws, sent }) {
  const isTold = [title, ...flaws.map(({ msg }) => msg)].includes(detail);
  return [h("strong", null, title), detail && !isTold ? h("p", null, inForms(detail)) : null,
    flaws.length ? h("ul", null, flaws.map(({ loc, msg }) => h("li", null, place(loc, sent), inForms(msg)))) : null];
}

/** The fields and words of the console instead of the parameters of a request. @param {string} text */
export function inForms(text) {
  return text.replace(/send \?(decimal|encoding)=\S+/, (_, name) => `change “${name === "decimal" ? "Decimals as" : "Encoding"}”`)
    .replace(/types=\{".*?": "(.*?)"\}/g, (_, form) => looks(form));
}

/** A JSON pointer in words, with the value that was sent there. @param {string} pointer @param {unknown} sent */
function place(pointer, sent) {
  if (!pointer) return null;
  const parts = pointer.slice(1).split("/").map((part) => part.replaceAll("~1", "/").replaceAll("~0", "~"));
  let value = /** @type {any} */ (sent);
  for (const part of parts) value = value !== null && typeof value === "object" && Object.hasOwn(value,
    part) ? value[part] : undefined;
  const shown = value === undefined || typeof value === "object" ? "" : ` (${JSON.stringify(value).slice(0, 60)})`;
  return h("b", null, `${parts.join(" > ")}${shown}: `);
}

/** Ask for a key; it is kept until this tab is closed. */
export function enterKey() {
  const use = (/** @type {string} */ key) => { setKey(key); dialog.close(); window.dispatchEvent(new Event("hashchange")); };
  const input = h("input", { type: "password", autocomplete: "off", spellcheck: "false" });
  const form = h("form", { onsubmit: () => use(input.value.trim()) },
    h("h2", null, "API key"),
    field("Key", input, "Sent with each request to this service only, and kept until this tab is closed."),
    h("div", { class: "row" }, button("Cancel", () => dialog.close()),
      hasKey() ? button("Forget the key", () => use("")) : null,
      h("button", { class: "main" }, "Use this key")));
  const dialog = h("dialog", { "aria-label": "API key", onclose: () => dialog.remove() }, form);
  document.body.append(dialog);
  dialog.showModal();
}
