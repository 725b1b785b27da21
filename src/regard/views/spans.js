/**
 * The answer to a question in its passage: start and end probabilities of every token, and other candidates.
 *
 * `render(root, data)` takes the data that tokens.py prepares. The text of the passage is unchanged and can be copied.
 */

import { el } from "./dom.js";

const percent = (share) => `${(100 * share).toFixed(share < 0.01 && share > 0 ? 2 : 1)} %`;

export function render(root, data) {
  const letters = [...data.passage]; // positions count characters, as Python does
  const cut = (start, end) => letters.slice(start, end).join("");
  const report = el("p", { class: "mark-report quiet", "aria-live": "polite" });
  const idle = () => report.replaceChildren("Point at a token to see the probability that the answer starts or ends there.");
  const tell = ([start, end, begins, ends]) =>
    report.replaceChildren(
      el("bdi", { class: "token", text: cut(start, end) }),
      `: the answer starts here with ${percent(begins)} and ends here with ${percent(ends)}`,
    );
  const tokens = data.marks.map((mark) => token(cut, mark, tell, idle));
  const rows = data.candidates.map((candidate, number) => row(cut, candidate, number, () => choose(number)));
  const choose = (number) => {
    const [start, end] = data.candidates[number];
    rows.forEach((button, other) => button.setAttribute("aria-pressed", String(other === number)));
    tokens.forEach((node, at) => {
      const [from, to] = data.marks[at];
      node.classList.toggle("answer", from >= start && to <= end && to > from);
    });
  };
  const passage = el("p", { class: "passage", dir: "auto" }, ...between(data.marks, tokens, cut));
  idle();
  choose(0);
  root.replaceChildren(
    el(
      "section",
      { class: "spans" },
      el("header", {}, el("h1", { text: data.title }), data.note ? el("p", { class: "note", text: data.note }) : null),
      el(
        "div",
        { class: "span-panels" },
        el("article", { class: "panel" }, passage, report, legend()),
        el("aside", { class: "panel" }, el("h2", { text: "Answers" }), el("div", { class: "candidates" }, ...rows)),
      ),
    ),
  );
}

/** A token between its two bars. */
function token(cut, mark, tell, idle) {
  const [start, end, begins, ends] = mark;
  const bar = (kind, share) => el("i", { class: kind, style: { "--share": String(share) } });
  return el(
    "span",
    { class: "mark", tabindex: 0, on: { pointerenter: () => tell(mark), focus: () => tell(mark), pointerleave: idle } },
    bar("begins", begins),
    cut(start, end),
    bar("ends", ends),
  );
}

/** The tokens and the text between them, so that the passage can be read and copied as a whole. */
function between(marks, tokens, cut) {
  const parts = [];
  let at = 0;
  marks.forEach(([start, end], number) => {
    parts.push(cut(at, start), tokens[number]);
    at = Math.max(at, end);
  });
  parts.push(cut(at));
  return parts.filter((part) => part !== "");
}

/** A candidate answer; an empty span means no answer. */
function row(cut, [start, end, probability], number, choose) {
  return el(
    "button",
    {
      class: "candidate",
      type: "button",
      "aria-pressed": "false",
      on: { click: choose },
      style: { "--share": String(probability) },
    },
    el("span", { class: "rank", text: `${number + 1}` }),
    el("bdi", { class: end > start ? "said" : "said quiet", text: cut(start, end) || "no answer" }),
    el("span", { class: "probability", text: percent(probability) }),
  );
}

function legend() {
  const swatch = (kind, text) => el("span", {}, el("i", { class: `swatch ${kind}` }), text);
  const swatches = [swatch("begins", "probability that the answer starts here"), swatch("ends", "probability that it ends here")];
  return el("p", { class: "quiet span-legend" }, ...swatches);
}
