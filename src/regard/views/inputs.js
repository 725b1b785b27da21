/**
 * The input of BERT: below each token its token, segment and position vectors, their sum, and the normalized sum.
 *
 * `render(root, data)` takes the data that tokens.py prepares. Every vector is a strip of colors. Pointing at a token,
 * or selecting it with the keyboard, shows its numbers and their sums in the panel below.
 */

import { el, onThemeChange, ordinal, themeOf, visibleText } from "./dom.js";
import { colorTable, paintedImage } from "./palette.js";

const LISTED = 10; // numbers of a vector that the panel lists

export function render(root, data) {
  const strips = [];
  const panel = el("div", { class: "panel input-sum", "aria-live": "polite" });
  const heads = data.tokens.map((token, place) => head(data, token, place));
  const rows = data.rows.map((row) => vectorRow(data, row, strips));
  const table = el(
    "table",
    { class: "inputs-figure" },
    el("thead", {}, el("tr", {}, el("td", {}), ...heads)),
    el("tbody", {}, ...rows),
  );
  const section = el(
    "section",
    { class: "inputs" },
    el("header", {}, el("h1", { text: data.title }), el("p", { class: "note", text: explanation(data) })),
    data.note ? el("p", { class: "note", text: data.note }) : null,
    el("div", { class: "inputs-across", tabindex: 0, role: "region", "aria-label": "tokens and their vectors" }, table),
    panel,
  );
  const choose = (place) => {
    heads.forEach((cell, at) => cell.firstChild.setAttribute("aria-pressed", String(at === place)));
    for (const { cell, token } of strips) cell.classList.toggle("chosen", token === place);
    panel.replaceChildren(...sum(data, place));
  };
  heads.forEach((cell, place) => {
    const button = cell.firstChild;
    button.addEventListener("click", () => choose(place));
    button.addEventListener("pointerenter", () => choose(place));
    button.addEventListener("focus", () => choose(place));
    button.addEventListener("keydown", (event) => {
      const next = { ArrowRight: place + 1, ArrowLeft: place - 1 }[event.key];
      if (!heads[next]) return;
      event.preventDefault(); // otherwise the figure scrolls as well
      heads[next].firstChild.focus();
    });
  });
  for (const { cell, token } of strips) cell.addEventListener("pointerenter", () => choose(token));
  root.replaceChildren(section);
  const paint = () => {
    const colors = colorTable("signed", themeOf(section).dark);
    for (const { cell, numbers, limit } of strips) {
      cell.querySelector("canvas")?.remove();
      const shifted = Float32Array.from(numbers, (number) => number + limit);
      cell.append(paintedImage(shifted, numbers.length, 1, colors, 2 * limit));
    }
  };
  onThemeChange(paint);
  paint();
  choose(Math.min(1, data.tokens.length - 1));
}

function explanation(data) {
  const thinned = data.every > 1 ? `; every ${ordinal(data.every)} is drawn` : "";
  const cut = data.count > data.tokens.length ? ` The first ${data.tokens.length} of ${data.count} tokens are drawn.` : "";
  const two = data.segments.includes("B") ? " The first text, including its [SEP], is segment A; the second is segment B." : "";
  return `The input of BERT is the normalized sum of three vectors: token, segment and position.${two} Each has ${data.width} numbers${thinned}.${cut}`;
}

/** A token above its column, in the color of its segment. */
function head(data, token, place) {
  const kind = `segment-${data.segments[place].toLowerCase()}`;
  const label = `${visibleText(token)}, segment ${data.segments[place]}, position ${place}`;
  const button = el(
    "button",
    { type: "button", class: `input-token ${kind}`, "aria-pressed": "false", "aria-label": label },
    el("bdi", { text: visibleText(token) }),
    el("small", { text: String(data.ids[place]) }),
  );
  return el("th", { scope: "col" }, button);
}

function vectorRow(data, row, strips) {
  const sign = el("b", { class: "sign", text: row.sign });
  const length = el("small", { class: "quiet", text: `mean norm ${row.length}` });
  const cells = row.vectors.map((numbers, token) => {
    const cell = el("td", { class: "vector" }, symbol(data, row.name, token));
    strips.push({ cell, token, numbers, limit: row.limit });
    return cell;
  });
  return el("tr", { data: { row: row.name } }, el("th", { scope: "row" }, sign, el("span", { text: row.name }), length), ...cells);
}

/** E with its index: of a token, a segment or a position. */
function symbol(data, name, token) {
  const index = { token: data.tokens[token], segment: data.segments[token], position: String(token) }[name];
  return el("span", { class: "symbol" }, ...(index === undefined ? ["\u00a0"] : ["E", el("sub", { text: visibleText(index) })]));
}

/** The first numbers of a token's vectors, added up. */
function sum(data, place) {
  const numbered = Array.from({ length: Math.min(LISTED, data.rows[0].vectors[place].length) }, (_, at) => at);
  const title = el(
    "h2",
    {},
    el("bdi", { text: visibleText(data.tokens[place]) }),
    ` is token ${data.ids[place]}, in segment ${data.segments[place]}, at position ${place}`,
  );
  const header = el("tr", {}, el("th", { text: "dimension" }), ...numbered.map((at) => el("th", { text: String(at * data.every) })));
  const lines = data.rows.map((row) => {
    const cells = numbered.map((at) => el("td", { text: decimal(row.vectors[place][at]) }));
    return el("tr", { data: { row: row.name } }, el("th", { scope: "row", text: `${row.sign} ${row.name}` }), ...cells);
  });
  const table = el("table", {}, el("thead", {}, header), el("tbody", {}, ...lines));
  return [title, el("div", { class: "inputs-across" }, table)];
}

function decimal(number) {
  return number.toFixed(3).replace("-", "−");
}
