/**
 * The training report: scores, curves, samples, attention, automatic choices and settings.
 *
 * `render(root, data)` takes the data that report.py arranges. Attention is shown by the attention viewer.
 */

import { render as renderAttention } from "./attention.js";
import { chart } from "./charts.js";
import { choice, el } from "./dom.js";

const SAMPLES_FIRST = 8;

export function render(root, data) {
  const parts = [
    el("header", {}, el("h1", { text: data.title }), data.note ? el("p", { class: "note", text: data.note }) : null),
    scores(data.scores),
    section("Curves", data.charts.length, () => el("div", { class: "charts" }, ...data.charts.map(chart))),
    section("Samples", data.samples.length, () => samples(data)),
    section("Attention", data.attention.length, () => attention(data.attention)),
    section("Automatic choices", data.notes.length, () => notes(data.notes)),
    section("Settings", data.settings.length, () => settings(data.settings)),
  ];
  root.replaceChildren(el("div", { class: "report" }, ...parts.filter(Boolean)));
}

function section(title, count, build) {
  if (!count) return null;
  return el("section", { data: { section: title } }, el("h2", { class: "section-title", text: title }), build());
}

function scores(list) {
  if (!list.length) return null;
  const cards = list.map(({ name, value, remark }) => {
    const small = remark ? el("dd", { class: "remark", text: remark }) : null;
    return el("div", { class: "panel score" }, el("dt", { text: name }), el("dd", { class: "score-value", text: value }), small);
  });
  return el("dl", { class: "scores" }, ...cards);
}

/** The samples as a table; the reference column appears only if there are references. */
function samples({ samples: list, sampleNames, compared: comparable, mistakesFirst }) {
  const [sourceName, referenceName, outputName] = sampleNames;
  const withReference = list.filter(({ reference }) => reference !== "");
  const compared = comparable ? withReference : [];
  const columns = [["source", sourceName], ["reference", referenceName], ["output", outputName]];
  const shown = columns.filter(([part]) => part !== "reference" || withReference.length);
  const row = (sample) => sampleRow(sample, shown, comparable);
  const body = el("tbody", {}, ...list.slice(0, SAMPLES_FIRST).map(row));
  const head = el("thead", {}, el("tr", {}, ...shown.map(([, text]) => el("th", { scope: "col", text }))));
  const same = compared.filter(({ reference, output }) => reference === output).length;
  const order = mistakesFirst ? " Mistakes are listed first, so this fraction is not the accuracy." : "";
  const words = `${same} of these ${compared.length} samples match their reference.${order}`;
  const caption = compared.length ? el("caption", { text: words }) : null;
  const box = el("div", { class: "panel samples" }, el("table", {}, caption, head, body));
  if (list.length > SAMPLES_FIRST) {
    const more = el("button", { type: "button", text: `Show all ${list.length}` });
    more.addEventListener("click", () => {
      body.append(...list.slice(SAMPLES_FIRST).map(row));
      more.remove();
    });
    box.append(more);
  }
  return box;
}

function sampleRow({ source, reference, output }, columns, comparable) {
  const content = { source: [source], reference: [reference], output: [output] };
  if (comparable && reference !== "") {
    const same = reference === output;
    const meaning = same ? "matches the reference" : "differs from the reference";
    const mark = el("span", { class: same ? "mark same" : "mark", text: same ? "✓" : "≠", title: meaning });
    content.output = [mark, ...(same ? [output] : marked(reference, output))];
  }
  return el("tr", {}, ...columns.map(([part, name]) => el("td", { data: { name }, dir: "auto" }, ...content[part])));
}

/** The output, with words marked that are not in the longest common subsequence with the reference. */
function marked(reference, output) {
  const wanted = reference.split(/\s+/);
  const words = output.split(/\s+/);
  if (wanted.length * words.length > 250_000) return [output]; // a table this large would stall the page
  const common = Array.from({ length: wanted.length + 1 }, () => new Uint16Array(words.length + 1));
  for (let at = wanted.length - 1; at >= 0; at -= 1) {
    for (let other = words.length - 1; other >= 0; other -= 1) {
      const without = Math.max(common[at + 1][other], common[at][other + 1]);
      common[at][other] = wanted[at] === words[other] ? common[at + 1][other + 1] + 1 : without;
    }
  }
  const parts = [];
  let at = 0;
  words.forEach((word, other) => {
    // Skip reference words that the common subsequence does not need, but never this word.
    while (at < wanted.length && wanted[at] !== word && common[at + 1][other] === common[at][other]) at += 1;
    const shared = at < wanted.length && wanted[at] === word;
    if (shared) at += 1;
    parts.push(other ? " " : "", shared ? word : el("mark", { text: word }));
  });
  return parts;
}

/** One attention viewer at a time; each is built when first opened. */
function attention(list) {
  const box = el("div", { class: "attention-box" });
  const built = new Map();
  const open = (index) => {
    if (!built.has(index)) {
      const holder = el("div");
      built.set(index, holder);
      box.append(holder);
      renderAttention(holder, list[index].data, { heading: "h3" });
    }
    for (const [other, holder] of built) holder.hidden = other !== index;
  };
  const tabs = choice({
    label: "Sentence",
    name: "sentence",
    options: list.map(({ title }, index) => ({ value: index, label: title })),
    value: 0,
    onChange: (index) => open(Number(index)),
  });
  open(0);
  return el("div", {}, list.length > 1 ? tabs.element : null, box);
}

function notes(list) {
  return el("ul", { class: "panel notes" }, ...list.map((text) => el("li", { text })));
}

function settings(list) {
  const line = ([name, value]) => el("div", { class: "setting" }, el("dt", { text: name }), el("dd", { text: value }));
  const lines = list.map(line);
  return el("dl", { class: "panel settings" }, ...lines);
}
