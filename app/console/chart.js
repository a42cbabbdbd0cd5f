/** Live charts, with the scales of the service's own (app/api/drawing.py). */

import { h, s } from "./dom.js";

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
 * @property {{words: string, style: string, points: [number, number][], steps?: boolean}[]} lines
 * @property {{words: string, style: string, y: number}[]} [across]
 * @property {{words: string, style: string, x: number, y: number}[]} [marks]
 * @property {boolean} [whole] ticks of x at integers
 */

const HEIGHT = 270, TOP = 12, BOTTOM = HEIGHT - 26, RIGHT = 14;

/** A chart that is drawn anew for each `show`, and when its width changes. */
export class LiveChart extends HTMLElement {
  /** @type {Spec | null} */
  #spec = null;
  #watch = new ResizeObserver(() => this.#draw());

  connectedCallback() { this.#watch.observe(this); }
  disconnectedCallback() { this.#watch.disconnect(); }

  /** @param {Spec} spec */
  show(spec) {
    this.#spec = spec;
    this.#draw();
  }

  #draw() {
    const spec = this.#spec, width = Math.max(this.clientWidth, 260);
    if (!spec) return;
    const { lines, across = [], marks = [] } = spec;
    const xs = lines.flatMap((line) => line.points.map(([x]) => x));
    const ys = [...lines.flatMap((line) => line.points.map(([, y]) => y)), ...across.map((one) => one.y)];
    const y = Axis.around(ys, BOTTOM, TOP);
    const left = Math.max(...y.ticks(5).map(([, label]) => label.length)) * CHARACTER + 14;
    const low = Math.min(...xs), high = Math.max(...xs);
    const x = new Axis(low, high > low ? high : low + 1, left, width - RIGHT);
    const key = [...lines, ...across, ...marks];
    this.replaceChildren(
      h("small", null, spec.y),
      s("svg", { width, height: HEIGHT, viewBox: `0 0 ${width} ${HEIGHT}`, role: "img", "aria-label": spec.words },
        frame(x, y, spec),
        across.map((one) => line(x.start, y.at(one.y), x.end, y.at(one.y), one.style)),
        marks.map((mark) => line(x.at(mark.x), TOP, x.at(mark.x), BOTTOM, mark.style)),
        lines.map((one) => s("path", { class: one.style, d: path(one.points, x, y, one.steps) })),
        marks.map((mark) => s("circle", { class: mark.style, cx: x.at(mark.x), cy: y.at(mark.y), r: 4.5 }))),
      h("small", { class: "below" }, spec.x),
      h("ul", { class: "key" }, key.map((one) => h("li", null,
        s("svg", { width: 26, height: 10, "aria-hidden": "true" }, line(0, 5, 26, 5, one.style)), ` ${one.words}`))));
  }
}
customElements.define("payoff-chart", LiveChart);

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
  const room = Math.max(Math.floor((x.end - x.start) / 60), 2);
  const ticks = x.ticks(Math.min(room, 10)).filter(([value]) => !spec.whole || Number.isInteger(value));
  return s("g", null,
    y.ticks(5).map(([value, label]) => [
      line(x.start, y.at(value), x.end, y.at(value), "grid"),
      s("text", { x: x.start - 8, y: y.at(value) + 4, "text-anchor": "end" }, label)]).flat(),
    ticks.map(([value, label]) => [
      line(x.at(value), y.start, x.at(value), y.start + 4, "axis"),
      s("text", { x: x.at(value), y: y.start + 18, "text-anchor": "middle" }, spec.whole ? String(value) : label)]).flat(),
    line(x.start, y.start, x.end, y.start, "axis"));
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
