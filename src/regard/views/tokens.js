/**
 * The token viewer: a text with its tokens in color, one column per tokenizer.
 *
 * `render(root, data)` takes the data that tokens.py prepares. The spans joined are the text itself; the style sheet
 * adds ids and marks, so that copying the text copies nothing else.
 */

import { el, tick, visibleText } from "./dom.js";

const COLORS = 6;

export function render(root, data) {
  const columns = data.columns.map(column);
  const show = (on) => section.classList.toggle("with-ids", on);
  const ids = tick({ label: "Show ids", name: "ids", value: false, onChange: show });
  const section = el(
    "section",
    { class: "tokens" },
    el("header", {}, el("h1", { text: data.title }), data.note ? el("p", { class: "note", text: data.note }) : null),
    el("div", { class: "tokens-bar" }, ids.element),
    el("div", { class: "token-columns" }, ...columns),
  );
  root.replaceChildren(section);
}

function column(data) {
  const report = el("p", { class: "token-report quiet", "aria-live": "polite" });
  const merges = el("div", { class: "merges" });
  const spans = data.tokens.map(tokenSpan);
  const hasMerges = data.owners.length > 0;
  const more = hasMerges ? "; click to see the merges that built its word." : ".";
  const idle = () => report.replaceChildren(`Point at a token to see its id${more}`);
  let chosen = null;
  const tell = (place) => {
    const [text, token, id] = data.tokens[place];
    const where = ` has id ${id}, token ${place + 1} of ${data.tokens.length}`;
    report.replaceChildren(el("bdi", { class: "token", text: visibleText(token) }), where);
    if (text && text !== token) report.append(", covering ", el("bdi", { class: "covered", text: visibleText(text) }));
  };
  const choose = (place) => {
    chosen = chosen === place ? null : place;
    const word = chosen === null ? undefined : data.owners[chosen];
    spans.forEach((span, other) => {
      span.setAttribute("aria-pressed", String(other === chosen));
      span.classList.toggle("same-word", word !== undefined && data.owners[other] === word);
    });
    merges.replaceChildren(...(word === undefined ? [] : mergeSteps(data.words[word])));
  };
  spans.forEach((span, place) => {
    span.addEventListener("pointerenter", () => tell(place));
    span.addEventListener("focus", () => tell(place));
    span.addEventListener("pointerleave", () => (chosen === null ? idle() : tell(chosen)));
    span.addEventListener("click", () => choose(place));
    span.addEventListener("keydown", (event) => {
      if (event.key === "Enter" || event.key === " ") {
        event.preventDefault();
        choose(place);
      }
      const next = { ArrowRight: place + 1, ArrowLeft: place - 1 }[event.key];
      if (spans[next]) spans[next].focus();
    });
  });
  idle();
  const characters = data.tokens.reduce((sum, [text]) => sum + [...text].length, 0);
  const count = data.tokens.length;
  const rate = count ? `, ${(characters / count).toFixed(2)} characters per token` : "";
  return el(
    "article",
    { class: "panel token-column" },
    el("h2", { text: data.name }),
    el("p", { class: "quiet counts", text: `${count} ${count === 1 ? "token" : "tokens"}${rate}` }),
    el("p", { class: "token-spans", dir: "auto" }, ...spans),
    report,
    merges,
  );
}

/** One token; a line break stays in the text and gets a mark. */
function tokenSpan([text, token, id], place) {
  const lineBreak = () => [el("i", { class: "line-break" }), el("span", { class: "new-line", text: "\n" })];
  const parts = text.split("\n").flatMap((part, at) => (at === 0 ? [part] : [...lineBreak(), part]));
  const label = `token ${visibleText(token)}, id ${id}`;
  return el(
    "span",
    {
      class: `token-span token-span-${place % COLORS}`,
      tabindex: 0,
      role: "button",
      "aria-pressed": "false",
      "aria-label": label,
      data: { id, token: visibleText(token) },
    },
    ...parts.filter((part) => part !== ""),
  );
}

/** The word after each merge, with the new token highlighted. */
function mergeSteps(steps) {
  const items = steps.map((step, at) => {
    const symbols = step.split(" ");
    const before = at > 0 ? steps[at - 1].split(" ") : symbols;
    const made = symbols.findIndex((symbol, place) => symbol !== before[place]);
    const chips = symbols.map((symbol, place) => {
      const isNew = at > 0 && place === made;
      return el("bdi", { class: isNew ? "symbol made" : "symbol", text: visibleText(symbol) });
    });
    return el("li", {}, ...chips);
  });
  const merges = steps.length - 1;
  const count = `${merges} ${merges === 1 ? "merge" : "merges"}, first to last`;
  const heading = merges === 0 ? "No merges: the word stays a sequence of characters or bytes" : count;
  return [el("h3", { text: heading }), el("ol", { start: 0 }, ...items)];
}
