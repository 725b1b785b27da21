/**
 * Pre-trained versus from scratch: two curves over the number of labels, and a table.
 *
 * `render(root, data)` takes the data that studies.py prepares.
 */

import { chart } from "./charts.js";
import { el } from "./dom.js";

export function render(root, data) {
  const header = el("header", {}, el("h1", { text: data.title }), el("p", { class: "note", text: data.note }));
  const head = el("tr", {}, ...data.columns.map((text) => el("th", { scope: "col", text })));
  const rows = data.rows.map(([size, ...cells]) => el("tr", {}, el("th", { scope: "row", text: size }), ...cells.map((text) => el("td", { text }))));
  const table = el("table", {}, el("thead", {}, head), el("tbody", {}, ...rows));
  root.replaceChildren(el("section", { class: "transfer" }, header, chart({ ...data.chart, axis: "labels" }), el("div", { class: "panel" }, table)));
}
