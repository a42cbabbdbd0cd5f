/** The shell: navigation by the address's fragment, slow answers, and the views. */

import { mayTrain, Problem, stopWaiting } from "./api.js";
import { button, h, put } from "./dom.js";
import { enterKey, failed } from "./problems.js";

/**
 * A view draws itself into a new element; `path` is what follows its name in the address.
 * @typedef {(path: string[], signal: AbortSignal) => Promise<Node>} View
 * @type {Record<string, {title: string, load: () => Promise<{view: View}>, train?: boolean}>}
 */
const VIEWS = {
  start: { title: "Start", load: () => import("./start.js") },
  models: { title: "Models", load: () => import("./models.js") },
  lab: { title: "Matrix lab", load: () => import("./lab.js") },
  cases: { title: "Cases", load: () => import("./cases.js") },
  sets: { title: "Sets", load: () => import("./sets.js") },
  data: { title: "Data", load: () => import("./data.js"), train: true },
  jobs: { title: "Jobs", load: () => import("./jobs.js"), train: true },
  outcomes: { title: "Outcomes", load: () => import("./outcomes.js"), train: true },
  review: { title: "Review", load: () => import("./review.js") },
};

const main = /** @type {HTMLElement} */ (document.querySelector("main"));
const nav = /** @type {HTMLElement} */ (document.querySelector("nav"));
const slow = /** @type {HTMLElement} */ (document.querySelector("#slow"));
let leaving = new AbortController();

/** Draw the view of the address. */
async function show() {
  const [name = "start", ...path] = location.hash.slice(1).split("/").filter(Boolean).map(decoded);
  const chosen = VIEWS[Object.hasOwn(VIEWS, name) ? name : "start"];
  leaving.abort();
  leaving = new AbortController();
  const { signal } = leaving;
  for (const link of nav.querySelectorAll("a")) {
    if (link.hash === `#/${name}`) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  document.title = `${chosen.title} · Payoff`;
  main.setAttribute("aria-busy", "true");
  try {
    if (chosen.train && !(await mayTrain())) throw new Problem(403, "Not allowed",
      "This view needs a key with the scope 'train'");
    const node = await (await chosen.load()).view(path, signal);
    if (!signal.aborted) put(main, node);
  } catch (error) {
    if (!signal.aborted) put(main, h("h1", null, chosen.title), failed(error, show));
  }
  if (!signal.aborted) main.removeAttribute("aria-busy");
}

/** @param {string} part */
function decoded(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

document.addEventListener("payoff-slow", (event) => {
  const late = /** @type {CustomEvent<boolean>} */ (event).detail;
  put(slow, late ? h("span", null, "The service is slow to answer. ") : null, late ? button("Stop waiting", stopWaiting) : null);
});
document.querySelector("#key")?.addEventListener("click", enterKey);
document.querySelector(".skip")?.addEventListener("click", (event) => { event.preventDefault(); main.focus(); });
put(nav, Object.entries(VIEWS).map(([name, { title }]) => h("a", { href: `#/${name}` }, title)));
window.addEventListener("hashchange", () => { void show(); main.focus({ preventScroll: true }); });
void show();
