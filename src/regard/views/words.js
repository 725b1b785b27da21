/**
 * Texts of the attention viewer: readout, bars, legends, key hints. Builds elements, holds no state.
 */

import { el } from "./dom.js";

/** A weight with as many digits as its packed precision allows. */
export function weightText(weight, levels) {
  if (weight === 0) return "0";
  const digits = levels > 255 ? 4 : 3;
  return weight < 0.5 * 10 ** -digits ? `<${(10 ** -digits).toFixed(digits)}` : weight.toFixed(digits);
}

/** "elle attends to rue with weight 0.7310" */
export function cellReadout(row, column, weight) {
  return [token(row), " attends to ", token(column), " with weight ", el("b", { text: weight })];
}

/** "elle attends most to rue with weight 0.7310", or the same seen from the key. */
export function bestReadout(axis, name, other, weight, comment) {
  const verb = axis === "row" ? " attends most to " : " is attended to most by ";
  return [token(name), verb, token(other), " with weight ", el("b", { text: weight }), comment ? ` (${comment})` : ""];
}

/** The strongest links of one token; each has a name, a weight and the weight as text. */
export function partnerBars(axis, name, partners, { remark: comment, onRelease }) {
  const release = onRelease ? el("button", { type: "button", class: "unpin", text: "unpin" }) : null;
  release?.addEventListener("click", onRelease);
  const bars = partners.map((partner) => {
    return el("li", {}, el("bdi", { text: partner.name }), track(partner.weight), el("b", { text: partner.text }));
  });
  const verb = el("span", { text: axis === "row" ? " attends to" : " is attended to by" });
  const under = comment ? [el("p", { class: "quiet", text: `Weights are the ${comment}.` })] : [];
  return [el("h2", {}, token(name), verb, release), el("ol", { class: "bars" }, ...bars), ...under];
}

/** The strongest links of the map, shown while no token is pointed at; a link of a single head names that head. */
export function strongestLinks(links, colorOf) {
  const bars = links.map((link) => {
    const title = `${link.row} → ${link.column}`;
    const names = el("span", { class: "pair", title }, el("bdi", { text: link.row }), " → ", el("bdi", { text: link.column }));
    const between = link.head === null ? track(link.weight) : headName(link.head, colorOf(link.head));
    return el("li", { class: "link" }, names, between, el("b", { text: link.text }));
  });
  const hint = "Point at a token or a cell to see what it attends to; click to pin it.";
  return [el("h2", { text: "Strongest links" }), el("ol", { class: "bars" }, ...bars), el("p", { class: "quiet", text: hint })];
}

export function mapLegend(gradient, maximum, isGray) {
  const bar = el("i", { class: "ramp", style: { background: gradient } });
  const marks = [0, maximum / 2, maximum].map((weight) => el("span", { text: String(Number(weight.toPrecision(2))) }));
  return [el("div", { class: "scale" }, bar, ...marks), remark(isGray ? "weight (white = high)" : "weight")];
}

export function linesLegend(drawn, found) {
  const parts = [remark("opacity and width = weight, color = head")];
  if (found > drawn) {
    const count = (number) => number.toLocaleString("en");
    parts.push(remark(`the strongest ${count(drawn)} of ${count(found)} lines; point at a token to see all of its lines`));
  }
  return parts;
}

export function overviewLegend(isFixed) {
  const scale = isFixed ? "every head from 0 to 1" : "each head on its own scale";
  return [remark(`${scale}; click a head to open it`)];
}

export function goldLegend() {
  return el("span", { class: "legend-text" }, el("i", { class: "gold-mark" }), "gold alignment");
}

export function wordMarkLegend() {
  return remark("· starts a word");
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
    hint(["Esc"], "unpin"),
  ];
}

function remark(text) {
  return el("span", { class: "legend-text", text });
}

/** A bar as long as its weight, from 0 to 1. */
function track(weight) {
  return el("span", { class: "track" }, el("i", { style: { width: `${Math.min(100, weight * 100)}%` } }));
}

function headName(head, color) {
  return el("span", { class: "head-name" }, el("i", { class: "dot", style: { "background-color": color } }), `head ${head}`);
}

function token(text) {
  return el("bdi", { class: "token", text });
}
