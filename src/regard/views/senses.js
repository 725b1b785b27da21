/**
 * Word senses: how often the nearest sentence has the same sense, by layer, and every sentence as a point on a map.
 *
 * `render(root, data)` takes the data that studies.py prepares. Pointing at a point shows its sentence and the nearest
 * ones.
 */

import { chart } from "./charts.js";
import { choice, el, slider, svg } from "./dom.js";

const HEIGHT = 420;
const MARGIN = 26;
const COLORS = 6;

export function render(root, data) {
  const place = el("div", {});
  const words = choice({
    label: "Word",
    name: "word",
    options: data.words.map(({ word, count }, index) => ({ value: index, label: word, hint: `${count} sentences` })),
    value: 0,
    onChange: (index) => place.replaceChildren(study(data.words[Number(index)])),
  });
  place.replaceChildren(study(data.words[0]));
  const header = el("header", {}, el("h1", { text: data.title }), el("p", { class: "note", text: data.note }));
  root.replaceChildren(el("section", { class: "senses" }, header, words.element, place));
}

/** One word: its chart, its map with a slider over the layers, and the sentence pointed at. */
function study(word) {
  const state = { layer: word.best, pinned: null };
  const drawing = svg("svg", { class: "map-drawing", height: HEIGHT, role: "group", "aria-label": `sentences with ${word.word}` });
  const details = el("div", { class: "sentence-details", "aria-live": "polite" });
  const numbers = el("p", { class: "quiet numbers" });
  const legend = el("div", { class: "chart-legend" }, ...word.senses.map((sense, number) => entry(sense, word.counts[number], number)));
  const tell = (place) => details.replaceChildren(...sentence(word, state.layer, place));
  const idle = () => {
    if (state.pinned === null) details.replaceChildren(el("p", { class: "quiet", text: "Point at a dot to read its sentence and the nearest ones. Click to pin it." }));
    else tell(state.pinned);
  };
  const redraw = () => {
    const { name, accuracy, within, across } = word.layers[state.layer];
    const share = `${(100 * accuracy).toFixed(1)} % correct (majority baseline ${(100 * word.majority).toFixed(1)} %)`;
    numbers.textContent = `${title(name)}: ${share}; mean cosine within a sense ${within.toFixed(3)}, across senses ${across.toFixed(3)}.`;
    draw(drawing, word, state, { tell, idle, pin: (place) => { state.pinned = state.pinned === place ? null : place; redraw(); idle(); } });
  };
  const layers = slider({
    label: "Layer",
    name: "layer",
    min: 0,
    max: word.layers.length - 1,
    step: 1,
    value: state.layer,
    show: (index) => title(word.layers[index].name),
    onInput: (index) => {
      state.layer = index;
      redraw();
      idle();
    },
  });
  new ResizeObserver(redraw).observe(drawing);
  redraw();
  idle();
  const left = word.count > word.texts.length ? el("p", { class: "quiet", text: `${word.texts.length} of ${word.count} sentences are drawn.` }) : null;
  const map = el("figure", { class: "panel map" }, el("div", { class: "chart-head" }, el("h3", { text: `“${word.word}” in its sentences` })), legend, layers.element, numbers, drawing, left);
  return el("div", { class: "study" }, el("div", { class: "charts" }, chart({ ...word.chart, axis: "layer" }), el("div", { class: "panel" }, details)), map);
}

function title(name) {
  if (name === "static") return "static: embeddings only";
  return name === "0" ? "0: embeddings with positions" : name;
}

function entry(sense, count, number) {
  return el("span", { class: "entry" }, el("i", { class: `swatch series-${number % COLORS}` }), `${sense} `, el("b", { text: String(count) }));
}

function draw(drawing, word, state, { tell, idle, pin }) {
  const width = drawing.clientWidth;
  if (width < 80) return;
  const { positions, near } = word.layers[state.layer];
  const [across, up] = [0, 1].map((axis) => positions.map((point) => point[axis]));
  const middle = [across, up].map((values) => (Math.min(...values) + Math.max(...values)) / 2);
  const spans = [across, up].map((values) => Math.max(...values) - Math.min(...values));
  // One scale for both axes: distances on the map stay comparable.
  const scale = Math.min((width - 2 * MARGIN) / (spans[0] || 1e-9), (HEIGHT - 2 * MARGIN) / (spans[1] || 1e-9), 1e6);
  const at = positions.map(([x, y]) => [width / 2 + (x - middle[0]) * scale, HEIGHT / 2 - (y - middle[1]) * scale]);
  const lines = state.pinned === null ? [] : near[state.pinned].filter(([other]) => other >= 0).map(([other]) => {
    const [[x1, y1], [x2, y2]] = [at[state.pinned], at[other]];
    return svg("line", { class: "cursor-line", x1, y1, x2, y2 });
  });
  const spots = at.map(([cx, cy], place) => {
    const [text, , sense] = word.texts[place];
    const wrong = near[place].length > 0 && near[place][0][2] !== sense;
    const kind = `spot point series-${sense % COLORS}${wrong ? " wrong" : ""}${state.pinned === place ? " pinned" : ""}`;
    const spot = svg("circle", { class: kind, cx, cy, r: state.pinned === place ? 8 : 5.5, tabindex: 0, role: "button", "aria-label": `${word.senses[sense]}: ${text}` });
    spot.addEventListener("pointerenter", () => tell(place));
    spot.addEventListener("pointerleave", idle);
    spot.addEventListener("focus", () => tell(place));
    spot.addEventListener("click", () => pin(place));
    spot.addEventListener("keydown", (event) => {
      if (event.key === "Enter") pin(place);
    });
    return spot;
  });
  drawing.replaceChildren(...lines, ...spots);
}

/** A sentence with its word marked, and the nearest others with their senses and cosines. */
function sentence(word, layer, place) {
  const [text, start, sense] = word.texts[place];
  const rows = word.layers[layer].near[place].map(([, other, meant, cosine]) =>
    el("li", { class: meant === sense ? "" : "differs" }, sign(word, meant), el("bdi", { text: other }), el("span", { class: "quiet cosine", text: cosine.toFixed(3) })),
  );
  const letters = [...text]; // positions count characters, as Python does
  const cut = (from, to) => letters.slice(from, to).join("");
  const end = start + [...word.word].length;
  const marked = el("p", { class: "sentence" }, sign(word, sense), el("bdi", {}, cut(0, start), el("b", { text: cut(start, end) }), cut(end)));
  return [marked, el("h3", { text: "Nearest sentences, by cosine" }), el("ol", { class: "nearest" }, ...rows)];
}

function sign(word, sense) {
  return el("span", { class: "sign" }, el("i", { class: `swatch series-${sense % COLORS}` }), word.senses[sense]);
}
