/**
 * The rank of the OV matrices: singular values of each head, and the loss of a text by rank.
 *
 * `render(root, data)` takes the data that studies.py prepares.
 */

import { chart } from "./charts.js";
import { choice, el } from "./dom.js";

export function render(root, data) {
  const place = el("div", {});
  const show = (address) => {
    const spectrum = data.spectra.find((candidate) => candidate.address === address);
    place.replaceChildren(chart({ ...spectrum, axis: "singular value" }));
  };
  const options = data.spectra.map(({ address }) => ({ value: address, label: address }));
  const chosen = choice({ label: "Attention", name: "attention", options, value: options[0].value, onChange: show });
  show(options[0].value);
  const losses = el("div", {}, chart({ ...data.losses, axis: "rank" }));
  const header = el("header", {}, el("h1", { text: data.title }), el("p", { class: "note", text: data.note }));
  root.replaceChildren(
    el("section", { class: "ranks" }, header, chosen.element, el("div", { class: "charts" }, place, losses)),
  );
}
