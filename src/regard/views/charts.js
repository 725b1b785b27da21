/**
 * Line charts: curves over steps or another `axis`, with the values at the pointer and an optional logarithmic scale.
 *
 * With `logAcross` the x axis is logarithmic and labels every point; a series may have a `spread` of [x, low, high].
 */

import { el, svg, tick } from "./dom.js";

const HEIGHT = 250;
const MARGIN = { left: 54, right: 22, top: 10, bottom: 38 };
const SMOOTHED_FROM = 60; // points; shorter curves are not smoothed
const NOISE = 4; // a curve is noisy if its steps add up to more than this many times its range

/** A number in few digits, for axes and legends. */
export function short(number, digits = 4) {
  if (number === 0) return "0";
  const size = Math.abs(number);
  if (size >= 1e4) return new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 2 }).format(number);
  if (size < 1e-3) return String(number.toExponential(digits - 2)).replace(/\.?0+e/, "e");
  return String(Number(number.toPrecision(digits)));
}

/** A chart element that redraws when its width changes. */
export function chart({ title, series, axis = "step", logAcross = false }) {
  const values = series.flatMap((line) => line.points.map(([, value]) => value).filter((value) => value !== null));
  const state = { log: false, logAcross, smooth: series.some(isNoisy), cursor: null };
  const drawing = svg("svg", { class: "chart-drawing", height: HEIGHT, role: "img", "aria-label": describe(title, series, axis) });
  const legend = el("div", { class: "chart-legend" });
  const redraw = () => draw(drawing, legend, series, state, axis);
  const box = (name) => {
    const onChange = (on) => {
      state[name] = on;
      redraw();
    };
    return tick({ label: name, name, value: state[name], onChange }).element;
  };
  const boxes = [];
  if (values.length > 1 && values.every((value) => value > 0)) {
    boxes.push(box("log"));
  }
  if (state.smooth) {
    boxes.push(box("smooth"));
  }
  const point = (event) => {
    state.cursor = event === null ? null : event.clientX - drawing.getBoundingClientRect().left;
    redraw();
  };
  drawing.addEventListener("pointermove", point);
  drawing.addEventListener("pointerleave", () => point(null));
  const head = el("div", { class: "chart-head" }, el("h3", { text: title }), ...boxes);
  const element = el("figure", { class: "panel chart", data: { chart: title } }, head, legend, drawing);
  new ResizeObserver(redraw).observe(drawing);
  return element;
}

function describe(title, series, axis) {
  const parts = series.map((line) => {
    const last = line.points.findLast(([, value]) => value !== null);
    return last ? `${line.name} ends at ${short(last[1])} at ${axis} ${short(last[0])}` : `${line.name} has no values`;
  });
  return `${title}: ${parts.join("; ")}`;
}

function draw(drawing, legend, series, state, axis) {
  const width = drawing.clientWidth;
  if (width < 80) return;
  const points = series.flatMap((line) => line.points.filter(([, value]) => value !== null));
  if (points.length === 0) {
    drawing.replaceChildren(svg("text", { x: 8, y: 24, class: "axis-text", text: "no finite values" }));
    return;
  }
  const box = { left: MARGIN.left, right: width - MARGIN.right, top: MARGIN.top, bottom: HEIGHT - MARGIN.bottom };
  const spreads = series.flatMap((line) => (line.spread ?? []).flatMap(([, low, high]) => [low, high]));
  const across = scale(points.map(([step]) => step), box.left, box.right, state.logAcross);
  const up = scale([...points.map(([, value]) => value), ...spreads], box.bottom, box.top, state.log);
  if (state.logAcross) across.ticks = [...new Set(points.map(([step]) => step))];
  const parts = [];
  const write = (x, y, anchor, text, kind = "") => {
    parts.push(svg("text", { class: `axis-text ${kind}`, x, y, "text-anchor": anchor, text }));
  };
  const rule = (x1, y1, x2, y2, kind) => parts.push(svg("line", { class: kind, x1, x2, y1, y2 }));
  const spot = ([step, value], at) => {
    parts.push(svg("circle", { class: `spot series-${at % 6}`, cx: across.place(step), cy: up.place(value), r: 4 }));
  };
  for (const value of up.ticks) {
    const y = up.place(value);
    rule(box.left, y, box.right, y, "grid-line");
    write(box.left - 8, y + 4, "end", short(value, 3));
  }
  for (const step of across.ticks) write(across.place(step), box.bottom + 18, "middle", short(step, 4));
  series.forEach((line, at) => {
    const smooth = state.smooth && isNoisy(line);
    const trace = (line, look) => {
      parts.push(svg("path", { class: `curve series-${at % 6} ${look}`, d: path(line, across, up) }));
    };
    for (const [step, low, high] of line.spread ?? []) {
      rule(across.place(step), up.place(low), across.place(step), up.place(high), `whisker series-${at % 6}`);
    }
    trace(line.points, smooth ? "faint" : "");
    if (line.spread) line.points.forEach((point) => spot(point, at));
    if (smooth) trace(smoothed(line.points), "");
    if (line.points.length === 1 && line.points[0][1] !== null) spot(line.points[0], at);
  });
  const near = state.cursor === null ? null : nearest(points, across, state.cursor);
  if (near !== null) rule(across.place(near), box.top, across.place(near), box.bottom, "cursor-line");
  const entries = series.map((line, at) => {
    const found = near === null ? line.points.findLast(([, value]) => value !== null) : closest(line.points, near);
    if (near !== null && found) spot(found, at);
    const value = el("b", { text: found ? short(found[1]) : "none" });
    const name = series.length > 1 ? line.name : near === null ? "last" : ""; // the title already names a single series
    return el("span", { class: "entry" }, el("i", { class: `swatch series-${at % 6}` }), `${name} `, value);
  });
  const caption = near === null ? axis : `${axis} ${near.toLocaleString("en")}`;
  write(box.right, box.bottom + 34, "end", caption, "axis-caption");
  legend.replaceChildren(...entries);
  drawing.replaceChildren(...parts);
}

function path(points, across, up) {
  let text = "";
  let drawing = false;
  for (const [step, value] of points) {
    if (value === null) drawing = false;
    else {
      text += `${drawing ? "L" : "M"}${across.place(step).toFixed(1)} ${up.place(value).toFixed(1)}`;
      drawing = true;
    }
  }
  return text;
}

function isNoisy({ points }) {
  const values = points.map(([, value]) => value).filter((value) => value !== null);
  if (values.length < SMOOTHED_FROM) return false;
  const travelled = values.reduce((sum, value, at) => sum + (at ? Math.abs(value - values[at - 1]) : 0), 0);
  const [low, high] = ends(values);
  return travelled > NOISE * (high - low);
}

/** A centred moving mean over a thirtieth of the curve. */
function smoothed(points) {
  const reach = Math.max(2, Math.round(points.length / 60));
  return points.map(([step, value], at) => {
    if (value === null) return [step, null];
    const near = points.slice(Math.max(0, at - reach), at + reach + 1).filter((point) => point[1] !== null);
    return [step, near.reduce((sum, point) => sum + point[1], 0) / near.length];
  });
}

/** Maps numbers to screen positions, with round numbers as ticks; a linear scale starts at a tick. */
function scale(values, from, to, log) {
  let [low, high] = ends(values);
  if (low === high) {
    const spread = Math.abs(low) / 2 || 0.5; // keeps positive numbers positive, as a logarithm needs
    [low, high] = [low - spread, high + spread];
  }
  const step = roundStep(low, high, Math.abs(to - from) > 330 ? 6 : 4);
  if (!log) low = Math.floor(low / step + 1e-9) * step;
  const turn = log ? Math.log10 : (value) => value;
  const [start, end] = [turn(low), turn(high)];
  const place = (value) => from + ((turn(value) - start) / (end - start)) * (to - from);
  return { place, ticks: log ? logTicks(low, high) : evenTicks(low, high, step) };
}

function ends(values) {
  return values.reduce(([low, high], value) => [Math.min(low, value), Math.max(high, value)], [Infinity, -Infinity]);
}

/** A round number that fits about `about` times between `low` and `high`. */
function roundStep(low, high, about) {
  const rough = (high - low) / about;
  const unit = 10 ** Math.floor(Math.log10(rough));
  return [1, 2, 5, 10].map((factor) => factor * unit).find((size) => size >= rough * 0.999);
}

function evenTicks(low, high, step) {
  const ticks = [];
  for (let index = Math.ceil(low / step - 1e-9); index * step <= high + step * 1e-9; index += 1) {
    ticks.push(Number((index * step).toPrecision(12)));
  }
  return ticks;
}

function logTicks(low, high) {
  const ticks = [];
  for (let power = Math.floor(Math.log10(low)); power <= Math.ceil(Math.log10(high)); power += 1) {
    for (const factor of [1, 2, 5]) ticks.push(Number((factor * 10 ** power).toPrecision(12)));
  }
  const inside = ticks.filter((value) => value >= low * 0.999 && value <= high * 1.001);
  const whole = inside.filter((value) => Number.isInteger(Math.round(Math.log10(value) * 1e9) / 1e9));
  if (inside.length > 8) return whole;
  return inside.length >= 2 ? inside : evenTicks(low, high, roundStep(low, high, 4));
}

/** The step nearest to the pointer. */
function nearest(points, across, place) {
  const away = ([step]) => Math.abs(across.place(step) - place);
  return points.reduce((best, point) => (away(point) < away(best) ? point : best))[0];
}

function closest(points, step) {
  const valued = points.filter(([, value]) => value !== null);
  const away = (point) => Math.abs(point[0] - step);
  return valued.length ? valued.reduce((best, point) => (away(point) < away(best) ? point : best)) : null;
}
