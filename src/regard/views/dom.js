/**
 * Helpers for building pages: elements, controls, downloads, labels.
 *
 * Text enters the document only through text nodes and styles only through the CSSOM, so that pages work under a
 * content security policy without inline scripts or styles.
 */

const SVG_NAMES = "http://www.w3.org/2000/svg";
let serial = 0;

/** An HTML element; options are attributes, plus `text`, `on` (listeners), `style` and `data`. */
export function el(tag, options = {}, ...children) {
  return withOptions(document.createElement(tag), options, children);
}

/** The same for an SVG element. */
export function svg(tag, options = {}, ...children) {
  return withOptions(document.createElementNS(SVG_NAMES, tag), options, children);
}

function withOptions(node, options, children) {
  for (const [name, value] of Object.entries(options)) {
    if (value === undefined || value === null || value === false) continue;
    if (name === "text") node.textContent = value;
    else if (name === "on") each(value, (event, listener) => node.addEventListener(event, listener));
    else if (name === "style") each(value, (property, setting) => node.style.setProperty(property, setting));
    else if (name === "data") Object.assign(node.dataset, value);
    else node.setAttribute(name, value === true ? "" : String(value));
  }
  node.append(...children.filter((child) => child !== null && child !== undefined));
  return node;
}

function each(pairs, visit) {
  for (const [name, value] of Object.entries(pairs)) visit(name, value);
}

/** A row of buttons with one selected: native radio buttons, which support the keyboard. */
export function choice({ label, name, options, value, onChange }) {
  const group = `choice-${name}-${(serial += 1)}`;
  const buttons = el("div", { class: "segments" });
  const element = el("fieldset", { class: "choice", data: { choice: name } }, el("legend", { text: label }), buttons);
  const set = (chosen) => {
    for (const input of buttons.querySelectorAll("input")) input.checked = input.value === String(chosen);
  };
  const fill = (list, chosen) => {
    buttons.replaceChildren(
      ...list.map((option) => {
        const input = el("input", { type: "radio", name: group, value: option.value });
        input.addEventListener("change", () => onChange(option.value));
        const text = el("span", {}, option.label, option.hint ? el("small", { text: option.hint }) : null);
        return el("label", { title: option.title }, input, text);
      }),
    );
    element.classList.toggle("single", list.length < 2);
    set(chosen);
  };
  fill(options, value);
  return { element, set, fill };
}

/** A slider with its value next to it. */
export function slider({ label, name, min, max, step, value, show, onInput }) {
  const id = `slider-${name}-${(serial += 1)}`;
  const input = el("input", { type: "range", id, min, max, step, data: { slider: name } });
  const output = el("output", { for: id });
  const set = (number) => {
    input.value = String(number);
    const words = show(Number(number), Number(input.max));
    output.textContent = words;
    input.setAttribute("aria-valuetext", words);
  };
  input.addEventListener("input", () => {
    set(input.value);
    onInput(Number(input.value));
  });
  set(value);
  const element = el("div", { class: "slider" }, el("label", { for: id, text: label }), output, input);
  return { element, input, set };
}

/** A labeled checkbox. */
export function tick({ label, name, value, onChange }) {
  const input = el("input", { type: "checkbox", data: { tick: name } });
  input.checked = value;
  input.addEventListener("change", () => onChange(input.checked));
  return { element: el("label", { class: "tick" }, input, el("span", { text: label })), input };
}

/** Offer `text` as a file. */
export function download(filename, type, text) {
  const address = URL.createObjectURL(new Blob([text], { type }));
  const link = el("a", { href: address, download: filename });
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(address), 10_000);
}

/** A token as a label: blanks and control characters are visible, characters that XML forbids are replaced. */
export function visibleText(token) {
  if (token === "") return "∅";
  if (/^ +$/.test(token)) return "␣".repeat(token.length);
  return token
    .replace(/\n/g, "⏎")
    .replace(/\t/g, "⇥")
    .replace(/[\u0000-\u001f]/g, (control) => String.fromCharCode(0x2400 + control.charCodeAt(0)))
    .replace(/[\u007f-\u009f\ufffe\uffff]/g, "\ufffd")
    .replace(/\p{Surrogate}/gu, "\ufffd"); // with the u flag only lone halves match
}

/** An ordinal number: 2nd, 13th. */
export function ordinal(number) {
  const tens = number % 100;
  const ending = tens > 10 && tens < 14 ? "th" : ({ 1: "st", 2: "nd", 3: "rd" }[number % 10] ?? "th");
  return `${number}${ending}`;
}

/** The colors and sizes that drawings need, read from the theme that applies to `node`. */
export function themeOf(node) {
  const style = getComputedStyle(node);
  const read = (name) => style.getPropertyValue(`--${name}`).trim();
  return {
    dark: read("scheme") === "dark",
    ink: read("ink"),
    muted: read("muted"),
    paper: read("panel"),
    rule: read("rule"),
    accent: read("accent"),
    gold: read("gold"),
  };
}

/** Whether the page is shown inside another one, as in a notebook. */
export function isFramed() {
  return globalThis.parent !== globalThis;
}

/** Call `listener` when the color scheme switches between light and dark. */
export function onThemeChange(listener) {
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", listener);
}
