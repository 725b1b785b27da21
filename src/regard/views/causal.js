/**
 * How a language model learns from a text: the causal mask, and next to each row its target and loss.
 *
 * `render(root, data)` takes the data that tokens.py prepares. Pointing at a row, or focusing it with the keyboard,
 * explains it in a sentence.
 */

import { el } from "./dom.js";

export function render(root, data) {
  const readout = el("p", { class: "causal-readout quiet", "aria-live": "polite" });
  const highest = Math.max(...data.losses, 1e-9);
  const idle = () => readout.replaceChildren("Point at a row to see what it predicts.");
  const tell = (place) => {
    const seen = data.mask[place].reduce((sum, may) => sum + may, 0);
    const given = data.tokens.slice(0, place + 1).map((token) => el("bdi", { class: "causal-given", text: token }));
    const words = [`Position ${place} sees ${seen} ${seen === 1 ? "token" : "tokens"}: `, ...given];
    if (place < data.losses.length) {
      const share = 100 * Math.exp(-data.losses[place]);
      words.push(" and predicts ", el("bdi", { class: "causal-target", text: data.tokens[place + 1] }));
      words.push(`. The model gives this token ${share.toPrecision(3)} %: loss ${data.losses[place].toFixed(3)}.`);
    } else words.push(". The text ends here: no target, no loss.");
    readout.replaceChildren(...words);
  };
  const columns = data.tokens.slice(0, data.shown).map((text) => el("th", { scope: "col" }, el("span", { text })));
  const head = el("tr", {}, el("th", { class: "corner", text: "" }), ...columns, el("th", { class: "side-head", text: "target" }), el("th", { class: "side-head", text: "loss" }));
  const rows = data.mask.map((allowed, place) => {
    const cells = allowed.map((may, column) => {
      const kind = may ? (column === place ? "self" : "seen") : "hidden-cell";
      return el("td", { class: `cell ${kind}` });
    });
    const row = el(
      "tr",
      { tabindex: 0, data: { place } },
      el("th", { scope: "row", text: data.tokens[place] }),
      ...cells,
      ...targetCells(data, place, highest),
    );
    row.addEventListener("pointerenter", () => tell(place));
    row.addEventListener("focus", () => tell(place));
    row.addEventListener("pointerleave", idle);
    return row;
  });
  idle();
  const mean = `Mean loss ${data.loss.toFixed(3)}: the quantity that training minimizes.`;
  const cut = data.count > data.shown ? ` The first ${data.shown} of ${data.count} positions are drawn.` : "";
  root.replaceChildren(
    el(
      "section",
      { class: "causal" },
      el("header", {}, el("h1", { text: data.title }), data.note ? el("p", { class: "note", text: data.note }) : null),
      el("p", { class: "note", text: `Each row is a position: it sees the filled cells, that is, itself and all earlier tokens. ${mean}${cut}` }),
      readout,
      el("div", { class: "panel causal-box" }, el("table", {}, el("thead", {}, head), el("tbody", {}, ...rows))),
    ),
  );
}

function targetCells(data, place, highest) {
  if (place >= data.losses.length) return [el("td", { class: "target none", colspan: 2, text: "no target: the text ends" })];
  const loss = data.losses[place];
  const bar = el("i", { class: "loss-bar", style: { width: `${((100 * loss) / highest).toFixed(1)}px` } });
  return [
    el("td", { class: "target", text: data.tokens[place + 1] }),
    el("td", { class: "loss" }, bar, el("span", { text: loss.toFixed(2) })),
  ];
}
