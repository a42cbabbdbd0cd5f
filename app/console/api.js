/** Requests to the service, with the key of this session; answers, problems and events. */

const ROOT = new URL("..", import.meta.url);
const KEY = "payoff-key";
const SLOW_MS = 3000;
const TIMEOUT_MS = 120_000;

/** @typedef {{loc: string, msg: string}} Flaw */
/**
 * @typedef {object} Options
 * @property {string} [method]
 * @property {unknown} [json] the body, as JSON
 * @property {BodyInit} [body]
 * @property {string} [type] of `body`
 * @property {string} [accept]
 * @property {Record<string, unknown>} [query] each but text as JSON; undefined is left out
 * @property {Record<string, string>} [headers]
 * @property {AbortSignal} [signal]
 * @property {boolean} [patient] no timeout and no word about slowness: events and uploads
 */

/** Why there is no answer that can be used: what the service reported, or status 0 where it did not answer. */
export class Problem extends Error {
  /**
   * @param {number} status
   * @param {string} title
   * @param {string} detail
   * @param {Flaw[]} [flaws]
   * @param {unknown} [sent]
   * @param {number} [wait] seconds
   * @param {any[]} [columns] how those of a refused table were read
   */
  constructor(status, title, detail, flaws = [], sent = undefined, wait = 0, columns = []) {
    super(detail || title);
    this.status = status; this.title = title; this.detail = detail; this.flaws = flaws; this.sent = sent; this.wait = wait; this.columns = columns;
  }

  /** What the user can do about it. */
  get fix() {
    if (this.status === 0) return "Check that the service runs and that this computer reaches it, then retry.";
    if (this.status === 401) return hasKey() ? "The service does not accept this key. Enter another one." : "Enter an API key.";
    if (this.status === 403) return "This key may not do that. Other views go on working; ask for a key with the scope above.";
    if (this.status === 404) return "It may have been deleted. Go back to the list.";
    if (this.status === 413) return "Send less at once, or ask the operator to raise the limit.";
    if (this.status === 429) return `Too many requests: wait ${this.wait || "a few"} seconds, then retry.`;
    if (this.status >= 500) return "This is temporary or a fault of the service: retry, and if it stays ask the operator.";
    return "Correct what is named above and send it again.";
  }
}

/** @param {string} key */
export function setKey(key) {
  if (key !== sessionStorage.getItem(KEY)) sessionStorage.clear(); // matrices, too: they are of whoever entered the last one
  if (key) sessionStorage.setItem(KEY, key);
  training = undefined;
}

export function hasKey() {
  return sessionStorage.getItem(KEY) !== null;
}

/** @type {Set<AbortController>} */
const running = new Set();

/** End all requests that the user waits for. */
export function stopWaiting() {
  for (const one of running) one.abort(new Problem(0, "Stopped", "You stopped waiting for the answer"));
}

/**
 * The answer to a request; Problem where it is none.
 * @param {string} path below the service's root, without a leading slash @param {Options} [options]
 * @returns {Promise<Response>}
 */
export async function ask(path, options = {}) {
  const stop = new AbortController();
  options.signal?.throwIfAborted();
  options.signal?.addEventListener("abort", () => stop.abort(options.signal?.reason));
  const late = () => stop.abort(new Problem(0, "No answer", `The service did not answer within ${TIMEOUT_MS / 1000} seconds`));
  const timers = options.patient ? [] : [setTimeout(() => announce(true), SLOW_MS), setTimeout(late, TIMEOUT_MS)];
  if (!options.patient) running.add(stop);
  try {
    const response = await fetch(address(path, options.query), { ...written(options), signal: stop.signal, cache: "no-store" });
    if (!response.ok) throw await problem(response, options.json);
    return options.patient ? response : await complete(response);
  } catch (error) {
    if (error instanceof Problem) throw error;
    if (options.signal?.aborted) throw error;
    throw new Problem(0, "The service does not answer", error instanceof Error ? error.message : String(error));
  } finally {
    timers.forEach(clearTimeout);
    running.delete(stop);
    if (!running.size) announce(false);
  }
}

/** The same response, its body read: a service may stop in the middle of it. @param {Response} response */
async function complete(response) {
  const body = response.status === 204 ? null : await response.arrayBuffer();
  return new Response(body, { status: response.status, headers: response.headers });
}

/** @param {boolean} slow */
function announce(slow) {
  document.dispatchEvent(new CustomEvent("payoff-slow", { detail: slow }));
}

/** @param {string} path @param {Record<string, unknown>} [query] */
function address(path, query = {}) {
  const url = new URL(path, ROOT);
  if (url.href !== ROOT.href + path) throw new Problem(404, "Not found", "The address names nothing of the service");
  for (const [name, value] of Object.entries(query)) {
    if (value !== undefined) url.searchParams.set(name, typeof value === "string" ? value : JSON.stringify(value));
  }
  return url;
}

/** @param {Options} options @returns {RequestInit} */
function written(options) {
  const headers = new Headers(options.headers);
  headers.set("Accept", options.accept ?? "application/json");
  const key = sessionStorage.getItem(KEY);
  if (key) headers.set("X-API-Key", key);
  if (options.json !== undefined) headers.set("Content-Type", "application/json");
  else if (options.type) headers.set("Content-Type", options.type);
  const body = options.json !== undefined ? JSON.stringify(options.json) : options.body;
  return { method: options.method ?? (body === undefined ? "GET" : "POST"), headers, body };
}

/** @param {Response} response @param {unknown} sent @returns {Promise<Problem>} */
async function problem(response, sent) {
  const wait = Number(response.headers.get("Retry-After")) || 0;
  const text = await response.text();
  try {
    const { title, detail, errors, columns } = JSON.parse(text);
    return new Problem(response.status, title ?? response.statusText, detail ?? "", errors ?? [], sent, wait, columns);
  } catch {
    return new Problem(response.status, response.statusText || `Status ${response.status}`, text.slice(0, 300), [], sent, wait);
  }
}

/** A UUID whose order is that of time (version 7): a request that is repeated with it records nothing twice. */
export function newId() {
  const random = Array.from(crypto.getRandomValues(new Uint8Array(9)), (one) => one.toString(16).padStart(2, "0")).join("");
  return `${Date.now().toString(16).padStart(12, "0")}7${random.slice(3)}`.replace(/(.{8})(.{4})(.{4})/, `$1-$2-$3-8${random.slice(0, 3)}-`);
}

/** The JSON of an answer. @param {string} path @param {Options} [options] @returns {Promise<any>} */
export async function get(path, options) {
  const response = await ask(path, options);
  return response.status === 204 ? null : response.json();
}

/** @type {Promise<Record<string, any>> | undefined} */
let documented;

/** What the service documents, by name: which learners there are, and which losses. */
export function schemas() {
  documented ??= get("openapi.json").then((document) => document.components.schemas);
  documented.catch(() => { documented = undefined; });
  return documented;
}

/** A path, each part of it encoded. @param {...(string | number)} parts */
export function path(...parts) {
  return parts.map((part) => encodeURIComponent(String(part))).join("/");
}

/** The card of the version that a reference means. @param {string} ref @returns {Promise<any>} */
export async function cardOf(ref) {
  const found = await get(path("models", ref));
  if (!("alias_history" in found)) return found;
  if (found.latest === null) throw new Problem(404, "Not found", `The model '${ref}' has no versions`);
  return get(path("models", ref, "versions", found.latest));
}

/** The first entries of a list, at most `most`. @param {string} path @param {string} name @param {number} [most] @returns {Promise<any[]>} */
export async function list(path, name, most = Infinity) {
  const found = [];
  /** @type {string | undefined} */
  let token;
  do {
    const page = await get(path, { query: { page_size: "100", page_token: token } });
    found.push(...page[name]);
    token = page.next_page_token ?? undefined;
  } while (token && found.length < most);
  return found.slice(0, most);
}

/**
 * The objects of an event stream, one after the other.
 * @param {string} path
 * @param {AbortSignal} signal
 * @returns {AsyncGenerator<any>}
 */
export async function* events(path, signal) {
  const response = await ask(path, { accept: "text/event-stream", signal, patient: true });
  const reader = /** @type {ReadableStream<Uint8Array>} */ (response.body).getReader();
  const decoder = new TextDecoder();
  let text = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    const parts = (text + decoder.decode(value, { stream: true })).split(/\r?\n\r?\n/);
    text = parts.pop() ?? "";
    for (const part of parts) {
      const data = part.split(/\r?\n/).filter((line) => line.startsWith("data:")).map((line) => line.slice(5)).join("\n");
      if (data) yield JSON.parse(data);
    }
  }
}

/** @type {Promise<boolean> | undefined} */
let training;

/** Whether this key may use data sets and jobs. @returns {Promise<boolean>} */
export function mayTrain() {
  training ??= ask("datasets", { query: { page_size: "1" } }).then(() => true, (error) => {
    if (error instanceof Problem && error.status === 403) return false;
    training = undefined;
    throw error;
  });
  return training;
}

/**
 * Call `work` with the newest value only: while one call runs, later values replace one another, so that an answer is
 * never followed by that of an older question.
 * @template T @param {(value: T) => Promise<void>} work @returns {(value: T) => void}
 */
export function newest(work) {
  /** @type {{value: T} | null} */
  let next = null;
  let busy = false;
  return async (value) => {
    next = { value };
    if (busy) return;
    busy = true;
    while (next) {
      const { value: current } = next;
      next = null;
      await work(current).catch(reportError);
    }
    busy = false;
  };
}
