/** A request as a command and as a program, to copy. The key is never part of it. */

import { button, h } from "./dom.js";

/** Elements that show both, and a function that writes them for a matrix. @param {string} ref @param {any} card */
export function snippets(ref, card) {
  const curl = copied("Copy as curl"), python = copied("Copy as Python");
  const write = (/** @type {import("./matrix.js").Matrix | null} */ matrix) => {
    [curl.shown.textContent, python.shown.textContent] = matrix ? requests(ref, card, matrix) : ["The matrix cannot be read.", "The matrix cannot be read."];
  };
  return { node: h("div", null, curl.node, python.node), write };
}

/** @param {string} ref @param {any} card @param {import("./matrix.js").Matrix} matrix */
function requests(ref, card, matrix) {
  const instance = Object.fromEntries(card.features.map((/** @type {any} */ one) => [one.name,
    one.type === "categorical" ? one.categories[0] ?? "" : middle(one)]));
  const json = JSON.stringify({ model: ref, instances: [instance], ...matrix });
  const url = new URL("..", import.meta.url).href;
  const curl = `curl -s ${url}predict -H "X-API-Key: $PAYOFF_KEY" -H 'Content-Type: application/json' \\\n  -d '${json.replaceAll("'", "'\\''")}'`;
  const given = Object.entries(matrix).map(([name, value]) => `    ${name}=${JSON.stringify(value)},\n`).join("");
  const python = `from payoff_client import Payoff\n\nclient = Payoff("${url}")  # with the key in PAYOFF_KEY\nprint(client.model("${ref}").decide(\n    [${JSON.stringify(instance)}],\n${given}))`;
  return [curl, python];
}

/** @param {any} feature */
function middle(feature) {
  return feature.low === null ? 0 : Number(((feature.low + feature.high) / 2).toPrecision(3));
}

/** @param {string} title */
function copied(title) {
  const shown = h("pre", { tabindex: 0 });
  const state = h("span", { role: "status" });
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(shown.textContent ?? "");
      state.textContent = "Copied.";
    } catch { // without TLS a browser allows it on this machine only
      getSelection()?.selectAllChildren(shown);
      state.textContent = "Selected: copy it with the keyboard.";
    }
  };
  const node = h("details", null, h("summary", null, title.replace("Copy as ", "")),
    h("div", { class: "row" }, button(title, () => void copy()), state), shown);
  return { node, shown };
}
