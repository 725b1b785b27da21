/**
 * What the attention viewer says in words: read-outs, bars, legend, key hints. Builds elements, keeps no state.
 */

import { el } from "./dom.js";

/** A weight with as many digits as its packing is good for. */
export function weightText(weight, levels) {
  if (weight === 0) return "0";
  const digits = levels > 255 ? 4 : 3;
  return weight < 0.5 * 10 ** -digits ? `<${(10 ** -digits).toFixed(digits)}` : weight.toFixed(digits);
}

/** "elle asks, rue is looked at with 0.7310" */
export function cellReadout(row, column, weight) {
  return [token(row), " asks, ", token(column), " is looked at with ", el("b", { text: weight })];
}

/** "elle looks most at rue with 0.7310", or the same from the other end. */
export function bestReadout(axis, name, other, weight) {
  const verb = axis === "row" ? " looks most at " : " is looked at most by ";
  return [token(name), verb, token(other), " with ", el("b", { text: weight })];
}

/** The strongest partners of a token; each has a name, a weight and the weight's text. */
export function partnerBars(axis, name, partners, onRelease) {
  const release = onRelease ? el("button", { type: "button", class: "unpin", text: "release" }) : null;
  release?.addEventListener("click", onRelease);
  const bars = partners.map((partner) => {
    return el("li", {}, el("bdi", { text: partner.name }), track(partner.weight), el("b", { text: partner.text }));
  });
  const verb = el("span", { text: axis === "row" ? " looks at" : " is looked at by" });
  return [el("h2", {}, token(name), verb, release), el("ol", { class: "bars" }, ...bars)];
}

/** What stands in place of a token's partners while none is pointed at: the strongest links of the map. */
export function strongestLinks(links) {
  const bars = links.map((link) => {
    const names = el("span", { class: "pair" }, el("bdi", { text: link.row }), " → ", el("bdi", { text: link.column }));
    return el("li", { class: "link" }, names, track(link.weight), el("b", { text: link.text }));
  });
  const hint = "Point at a token or a cell to see what it looks at; click to keep it.";
  return [el("h2", { text: "Strongest links" }), el("ol", { class: "bars" }, ...bars), el("p", { class: "quiet", text: hint })];
}

export function mapLegend(gradient, maximum, isGrey) {
  const bar = el("i", { class: "ramp", style: { background: gradient } });
  const marks = [0, maximum / 2, maximum].map((weight) => el("span", { text: String(Number(weight.toPrecision(2))) }));
  return [el("div", { class: "scale" }, bar, ...marks), remark(isGrey ? "weight (white = high)" : "weight")];
}

export function linesLegend(drawn, found) {
  const parts = [remark("opacity and width = weight, colour = head")];
  if (found > drawn) {
    const count = (number) => number.toLocaleString("en");
    parts.push(remark(`the strongest ${count(drawn)} of ${count(found)} lines; point at a token for all of its own`));
  }
  return parts;
}

export function overviewLegend(isFixed) {
  const scale = isFixed ? "every head from 0 to 1" : "each head on its own scale";
  return [remark(`${scale}; click one to open it`)];
}

export function goldLegend() {
  return el("span", { class: "legend-text" }, el("i", { class: "gold-mark" }), "gold alignment");
}

export function wordMarkLegend() {
  return remark("· begins a word");
}

export function keyHints() {
  const hint = (keys, meaning) => el("span", {}, ...keys.map((key) => el("kbd", { text: key })), ` ${meaning}`);
  return [
    hint(["←", "→"], "head"),
    hint(["↑", "↓"], "layer"),
    hint(["Shift", "arrows"], "cell"),
    hint(["v"], "view"),
    hint(["t"], "swap axes"),
    hint(["p"], "play"),
    hint(["Esc"], "release"),
  ];
}

function remark(text) {
  return el("span", { class: "legend-text", text });
}

/** A bar as long as its weight, from 0 to 1. */
function track(weight) {
  return el("span", { class: "track" }, el("i", { style: { width: `${Math.min(100, weight * 100)}%` } }));
}

function token(text) {
  return el("bdi", { class: "token", text });
}
