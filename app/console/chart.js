/** Live charts, with the scales of the service's own (app/api/drawing.py). */

import { h, s } from "./dom.js";

const DAY_MS = 86_400_000;
const CHARACTER = 6.7; // mean width of a character of the 12 pixel font
const NARROWEST = 1e-9;

/** The range from `low` to `high` drawn from pixel `start` to `end`, which may be the smaller one. */
export class Axis {
  /** @param {number} low @param {number} high @param {number} start @param {number} end */
  constructor(low, high, start, end) {
    this.low = low; this.high = high; this.start = start; this.end = end;
  }

  /**
   * A range around all values, with a little room on both sides.
   * @param {number[]} values
   * @param {number} start
   * @param {number} end
   */
  static around(values, start, end, room = 0.05) {
    const low = values.reduce((a, b) => Math.min(a, b)), high = values.reduce((a, b) => Math.max(a, b));
    const size = Math.max(Math.abs(low), Math.abs(high));
    const margin = high - low <= NARROWEST * size ? size * room || 1 : (high - low) * room;
    return new Axis(low - margin, high + margin, start, end);
  }

  /** @param {number} value */
  at(value) {
    const inside = Math.min(Math.max(value, this.low), this.high);
    return this.start + (this.end - this.start) * ((inside - this.low) / (this.high - this.low));
  }

  /** Some round numbers within the range, with their labels. @returns {[number, string][]} */
  ticks(about = 6) {
    const raw = (this.high - this.low) / about;
    const power = 10 ** Math.floor(Math.log10(raw));
    const step = ([1, 2, 5, 10].find((factor) => factor * power >= raw * (1 - 1e-9)) ?? 10) * power;
    const first = Math.ceil(this.low / step - 1e-9), last = Math.floor(this.high / step + 1e-9);
    return Array.from({ length: last - first + 1 }, (_, i) => [(first + i) * step, written((first + i) * step)]);
  }
}

/** With at most twelve digits, and commas between thousands. @param {number} value */
function written(value) {
  const rounded = Number(value.toPrecision(12)), size = Math.abs(rounded);
  const text = size && (size < 1e-4 || size >= 1e12)
    ? rounded.toExponential().replace(/(\d+)$/, (end) => end.padStart(2, "0"))
    : rounded.toLocaleString("en", { maximumFractionDigits: 16 });
  return text.replaceAll("-", "−");
}

/**
 * What a chart shows; `style` is a class of style.css: line, bound, cut or posterior.
 * @typedef {object} Spec
 * @property {string} words what the chart shows, for screen readers
 * @property {string} x title of the axis
 * @property {string} y
 * @property {{words: string, style: string, points: [number, number][], steps?: boolean, band?: [number, number][], dots?: boolean}[]} lines
 *   `band`, of each point, is an area behind a line, and of `dots` their whiskers
 * @property {{words: string, style: string, y: number}[]} [across]
 * @property {{words: string, style: string, x: number, y: number}[]} [marks]
 * @property {boolean} [whole] ticks of x at integers
 * @property {boolean} [dates] x are milliseconds since 1970
 */

const HEIGHT = 270, TOP = 12, BOTTOM = HEIGHT - 26, RIGHT = 14;

/** A chart that is drawn anew for each `show`, and when its width changes. */
export class LiveChart extends HTMLElement {
  /** @type {((width: number) => Node[]) | null} */
  #drawing = null;
  #watch = new ResizeObserver(() => this.#draw());

  connectedCallback() { this.#watch.observe(this); }
  disconnectedCallback() { this.#watch.disconnect(); }

  /** @param {Spec | ((width: number) => Node[])} spec or what draws it at a width */
  show(spec) {
    this.#drawing = typeof spec === "function" ? spec : (width) => plotted(spec, width);
    this.#draw();
    return this;
  }

  #draw() {
    if (this.#drawing) this.replaceChildren(...this.#drawing(Math.max(this.clientWidth, 260)));
  }
}
customElements.define("payoff-chart", LiveChart);

/** @param {Spec | ((width: number) => Node[])} spec */
export function chart(spec) {
  return new LiveChart().show(spec);
}

/** What a chart will look like, where there is nothing to draw yet. @param {Spec} spec @param {string} words */
export function example(spec, words) {
  return h("figure", { class: "example" }, h("figcaption", null, `${words} An example:`), chart({ ...spec, words: `An example. ${spec.words}` }));
}

/** @param {Spec} spec @param {number} width @returns {Node[]} */
function plotted(spec, width) {
  const { lines, across = [], marks = [] } = spec;
  const xs = lines.flatMap((line) => line.points.map(([x]) => x));
  const ys = [...lines.flatMap(({ points, band = [] }) => [...points.map(([, y]) => y), ...band.flat()]), ...across.map((one) => one.y)];
  const y = Axis.around(ys, BOTTOM, TOP);
  const left = Math.max(...y.ticks().map(([, label]) => label.length)) * CHARACTER + 14;
  const low = Math.min(...xs), high = Math.max(...xs), end = width - (spec.dates ? 2 * RIGHT : RIGHT);
  const x = lines.some((one) => one.dots) ? Axis.around(xs, left, end, 0.03) : new Axis(low, high > low ? high : low + 1, left, end);
  return [
    h("small", null, spec.y),
    s("svg", { width, height: HEIGHT, viewBox: `0 0 ${width} ${HEIGHT}`, role: "img", "aria-label": spec.words },
      frame(x, y, spec),
      lines.map((one) => (one.dots ? null : shade(one, x, y))),
      across.map((one) => line(x.start, y.at(one.y), x.end, y.at(one.y), one.style)),
      marks.map((mark) => line(x.at(mark.x), TOP, x.at(mark.x), BOTTOM, mark.style)),
      lines.flatMap((one) => (one.dots ? dots(one, x, y) : [s("path", { class: one.style, d: path(one.points, x, y, one.steps) })])),
      marks.map((mark) => s("circle", { class: mark.style, cx: x.at(mark.x), cy: y.at(mark.y), r: 4.5 }))),
    h("small", { class: "below" }, spec.x),
    key([...lines, ...across, ...marks].map((one) => [one.words, "dots" in one ? s("circle", { class: one.style, cx: 13, cy: 5, r: 4 }) : line(0, 5, 26, 5, one.style)]))];
}

/** @param {[string, Node][]} entries words with a sample */
function key(entries) {
  return h("ul", { class: "key" }, entries.map(([words, sample]) =>
    h("li", null, s("svg", { width: 26, height: 10, "aria-hidden": "true" }, sample), ` ${words}`)));
}

/** The area of a band. @param {Spec["lines"][0]} of @param {Axis} x @param {Axis} y */
function shade({ points, band, style }, x, y) {
  if (!band) return null;
  const [low, high] = [0, 1].map((end) => points.map(([px], i) => /** @type {[number, number]} */ ([px, band[i][end]])));
  return s("path", { class: `band ${style}`, d: `${path(high, x, y)}L${path(low.reverse(), x, y).slice(1)}Z` });
}

/** @param {Spec["lines"][0]} of @param {Axis} x @param {Axis} y */
function dots({ points, band, style }, x, y) {
  return points.flatMap(([px, py], i) => [
    band ? line(x.at(px), y.at(band[i][0]), x.at(px), y.at(band[i][1]), style) : null,
    s("circle", { class: style, cx: x.at(px), cy: y.at(py), r: 4 })]);
}

/**
 * A difference with its interval, beside 0 and the differences that are tolerated.
 * @param {{mean: number, low: number | null, high: number | null, tolerance: number}} of @param {(value: number) => string} written @param {string} title
 */
export function difference({ mean, low, high, tolerance }, written, title) {
  const ends = [low ?? mean, high ?? mean], interval = low === null ? "" : `, 95 % interval ${ends.map((end) => written(end)).join(" to ")}`;
  const words = `difference ${written(mean)}${interval}`, tolerated = `tolerance: up to ${written(tolerance)} more or less`;
  return chart((width) => {
    const x = Axis.around([...ends, -tolerance, tolerance], 34, width - 34), from = x.at(-tolerance);
    return [
      s("svg", { width, height: 74, viewBox: `0 0 ${width} 74`, role: "img", "aria-label": `${words}; ${tolerated}` },
        s("rect", { class: "band", x: from, y: 4, width: x.at(tolerance) - from, height: 44 }),
        line(x.at(0), 4, x.at(0), 48, "axis"), line(x.at(ends[0]), 26, x.at(ends[1]), 26, "line"),
        s("circle", { class: "line", cx: x.at(mean), cy: 26, r: 5 }), scale(x, 48, ticksOf(x, {}))),
      h("small", { class: "below" }, title),
      key([[words, line(0, 5, 26, 5, "line")], [tolerated, s("rect", { class: "band", width: 26, height: 10 })]])];
  });
}

/**
 * @param {[number, number][]} points
 * @param {Axis} x
 * @param {Axis} y
 * @param {boolean} [steps] each value holds up to the next point
 */
function path(points, x, y, steps) {
  return points.map(([px, py], i) => {
    const across = x.at(px).toFixed(1), up = y.at(py).toFixed(1);
    return i === 0 ? `M${across} ${up}` : steps ? `H${across}V${up}` : `L${across} ${up}`;
  }).join("");
}

/** @param {number} x1 @param {number} y1 @param {number} x2 @param {number} y2 @param {string} style */
function line(x1, y1, x2, y2, style) {
  return s("line", { x1, y1, x2, y2, class: style });
}

/** @param {Axis} x @param {Axis} y @param {Spec} spec */
function frame(x, y, spec) {
  return s("g", null,
    y.ticks().map(([value, label]) => [
      line(x.start, y.at(value), x.end, y.at(value), "grid"),
      s("text", { x: x.start - 8, y: y.at(value) + 4, "text-anchor": "end" }, label)]).flat(),
    scale(x, y.start, ticksOf(x, spec)));
}

/** The line of an axis with its ticks. @param {Axis} x @param {number} bottom @param {[number, string][]} ticks */
function scale(x, bottom, ticks) {
  return [line(x.start, bottom, x.end, bottom, "axis"), ...ticks.flatMap(([value, label]) => [
    line(x.at(value), bottom, x.at(value), bottom + 4, "axis"),
    s("text", { x: x.at(value), y: bottom + 18, "text-anchor": "middle" }, label)])];
}

/** @param {Axis} x @param {{whole?: boolean, dates?: boolean}} spec @returns {[number, string][]} */
function ticksOf(x, { whole, dates }) {
  const room = Math.min(Math.max(Math.floor((x.end - x.start) / 60), 2), 10), unit = dates ? DAY_MS : 1;
  const ticks = new Axis(x.low / unit, x.high / unit, x.start, x.end).ticks(room);
  if (!whole && !dates) return ticks;
  /** @type {Intl.DateTimeFormatOptions} */
  const form = x.high - x.low > 365 * DAY_MS ? { month: "short", year: "numeric" } : { day: "numeric", month: "short" };
  return ticks.filter(([value]) => Number.isInteger(value)).map(([value]) => [value * unit,
    dates ? new Date(value * unit).toLocaleDateString("en-GB", { ...form, timeZone: "UTC" }) : String(value)]);
}

/**
 * A value with its interval, on a scale that rows of a table share.
 * @param {Axis} axis
 * @param {number} value
 * @param {[number, number]} interval
 * @param {boolean} best
 */
export function whisker(axis, value, [low, high], best) {
  return s("svg", { width: 170, height: 16, class: best ? "best" : null, "aria-hidden": "true" },
    low < 0 && high > 0 || axis.low < 0 && axis.high > 0 ? line(axis.at(0), 0, axis.at(0), 16, "axis") : null,
    line(axis.at(low), 8, axis.at(high), 8, "whisker"), s("circle", { class: "dot", cx: axis.at(value), cy: 8, r: 4 }));
}
