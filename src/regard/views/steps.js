/**
 * The five steps of one multi-head attention: words, vectors, matrices, attention of each head, output.
 *
 * `render(root, data)` takes the data that steps.py packs. Every matrix is a picture of one pixel per number; the number
 * under the pointer, or at the arrow keys' cursor, is shown next to it.
 */

import { el, onThemeChange, ordinal, themeOf, visibleText } from "./dom.js";
import { unpacked } from "./packing.js";
import { colorTable, headColor, paintedImage } from "./palette.js";

const MARGIN = 8; // between the tip and the edge of the window

export async function render(root, data) {
  const bytes = await unpacked(data.numbers);
  new StepsViewer(root, data, new Int16Array(bytes.buffer));
}

class StepsViewer {
  constructor(root, data, integers) {
    Object.assign(this, { data, integers, painters: [] });
    this.tip = el("div", { class: "steps-tip", role: "status", hidden: true });
    const { title, note, address, d_model, num_heads, head_dim } = data;
    const whole = num_heads * head_dim === d_model ? `d_model ${d_model} = ${num_heads} heads × d_k ${head_dim}` : null;
    const parts = `d_model ${d_model}, ${num_heads} ${num_heads === 1 ? "head" : "heads"} × d_k ${head_dim}`;
    this.section = el(
      "section",
      { class: "attention-steps" },
      el("header", {}, el("h1", { text: title }), note ? el("p", { class: "note", text: note }) : null),
      el("p", { class: "note" }, el("code", { text: address }), ` · ${whole ?? parts}. Point at a matrix to read its numbers.`),
      el("ol", { class: "five" }, this.words(), this.vectors(), this.matrices(), this.attention(), this.output()),
      this.tip,
    );
    root.replaceChildren(this.section);
    onThemeChange(() => this.paint());
    this.paint();
    this.section.dataset.ready = "true";
  }

  /* ---- the five steps ---- */

  words() {
    const { data } = this;
    const list = (tokens) => {
      const chips = tokens.slice(0, data.maxTokens).map((text) => el("bdi", { class: "word", text: visibleText(text) }));
      return el("p", { class: "words" }, ...chips);
    };
    const parts = data.parts.memory.length
      ? [remark("queries"), list(data.rows), remark("keys and values"), list(data.columns)]
      : [list(data.rows)];
    const most = Math.max(data.rows.length, data.columns.length);
    const cut = most > data.maxTokens ? `The first ${data.maxTokens} of ${most} tokens are drawn, here and below.` : null;
    const marks = data.wordMarks ? "A dot marks the start of a word." : null;
    return this.step(1, ["The sentence"], [cut, marks], ...parts);
  }

  vectors() {
    const { parts, embedded } = this.data;
    const title = embedded ? "Each token becomes a vector: X" : "The input is R, the output of the layer below";
    const memory = parts.memory.map((matrix) => [remark("and the encoder's output, for keys and values"), this.strip(matrix)]);
    return this.step(2, [title], [this.thinned(parts.inputs[0])], this.strip(parts.inputs[0]), ...memory.flat(), this.legend("inputs"));
  }

  matrices() {
    const { parts, num_heads } = this.data;
    const x = parts.inputs[0].name;
    const source = parts.memory.length ? parts.memory[0].name : x;
    const title = [`Split into ${num_heads} ${num_heads === 1 ? "head" : "heads"}: multiply `, symbol(x)];
    if (source !== x) title.push(" and ", symbol(source));
    title.push(" by the matrices of each");
    const formula = ["Q", "K", "V"].map((letter) => {
      const from = letter === "Q" ? x : source;
      return el("span", {}, symbol(from), " × ", symbol(["W", letter, "i"]), " = ", symbol([letter, "", "i"]));
    });
    const card = (head) => {
      const three = [0, 1, 2].map((at) => this.block(parts.matrices[at * num_heads + head], "tall"));
      return this.card(head, el("div", { class: "three" }, ...three));
    };
    return this.step(
      3,
      title,
      [this.thinned(parts.matrices[0])],
      el("p", { class: "formula" }, ...formula),
      this.cards(card),
      this.legend("matrices"),
    );
  }

  attention() {
    const { parts, head_dim } = this.data;
    const title = [`Attention in each head: A = softmax(Q Kᵀ / √${head_dim}), Z = A V`];
    const card = (head) => {
      const three = ["queries", "keys", "values"].map((part) => this.block(parts[part][head], "flat"));
      const last = el("div", { class: "gives" }, this.square(parts.weights[head]), this.block(parts.heads[head], "flat"));
      return this.card(head, ...three, last);
    };
    return this.step(
      4,
      title,
      [this.thinned(parts.queries[0])],
      this.cards(card),
      el("div", { class: "legends" }, this.legend("projected", "Q, K, V"), this.legend("weights", "A"), this.legend("heads", "Z")),
    );
  }

  output() {
    const { parts } = this.data;
    const title = ["Concatenate the heads, multiply by ", symbol(["W", "O", ""]), ": the output Z"];
    const product = el(
      "div",
      { class: "product" },
      el("span", { class: "sign", text: "×" }),
      this.block(parts.output_matrix[0], "wide"),
      el("span", { class: "sign", text: "=" }),
      this.strip(parts.output[0]),
    );
    return this.step(
      5,
      title,
      [this.thinned(parts.output_matrix[0])],
      this.joined(),
      product,
      el("div", { class: "legends" }, this.legend("heads", "joined Z"), this.legend("output matrix", symbol(["W", "O", ""])), this.legend("output", "Z")),
    );
  }

  step(number, title, remarks, ...content) {
    const said = [this.data.remarks[number], ...remarks].filter(Boolean).join(" ");
    return el(
      "li",
      { class: "panel", data: { step: number } },
      el("h2", {}, el("span", { class: "number", text: String(number) }), el("span", {}, ...title)),
      said ? el("p", { class: "quiet small", text: said }) : null,
      ...content,
    );
  }

  cards(build) {
    return el("div", { class: "head-cards" }, ...Array.from({ length: this.data.num_heads }, (_, head) => build(head)));
  }

  card(head, ...content) {
    const dot = el("i", { class: "head-dot" });
    this.painters.push(({ dark }) => dot.style.setProperty("background-color", headColor(head, dark)));
    return el("article", { class: "head-card", data: { head } }, el("h3", {}, dot, `head ${head}`), ...content);
  }

  /* ---- matrices ---- */

  /** A matrix with its name and shape above it, as a strip whose rows carry their tokens. */
  strip(matrix) {
    const tall = rowHeight(matrix.drawn[0], 20, 13);
    return el("figure", { class: "matrix" }, caption(matrix), this.labeled(matrix, tall, matrix.drawn[1], this.cells([matrix], tall)));
  }

  /** All heads side by side, with the color and the name of each below. */
  joined() {
    const { parts, num_heads, head_dim } = this.data;
    const [first] = parts.heads;
    const tall = rowHeight(first.drawn[0], 20, 13);
    const bands = parts.heads.map((matrix, head) => {
      const band = el("span", {}, symbol(matrix.name));
      this.painters.push(({ dark }) => band.style.setProperty("border-color", headColor(head, dark)));
      return band;
    });
    const last = num_heads > 1 ? [" … ", symbol(["Z", "", String(num_heads - 1)])] : [];
    const name = el("figcaption", {}, el("b", {}, symbol(first.name), ...last), ` ${first.shape[0]} × ${num_heads * head_dim}`);
    const cells = this.cells(parts.heads, tall);
    const under = el("div", { class: "bands", style: { "grid-template-columns": `repeat(${num_heads}, 1fr)` } }, ...bands);
    return el("figure", { class: "matrix" }, name, this.labeled(first, tall, num_heads * first.drawn[1], cells, under));
  }

  /** Tokens beside the cells; every column has at least a pixel, and what does not fit into the window scrolls. */
  labeled(matrix, tall, columns, cells, under = null) {
    const tokens = this.tokens(matrix.tokens[0]).slice(0, matrix.drawn[0]);
    const labels = tokens.map((text) => el("bdi", { text, title: text, style: { height: `${tall}px`, "line-height": `${tall}px` } }));
    const wide = el("div", { style: { "min-width": `${columns}px` } }, cells, under);
    const scroll = el("div", { class: "across" }, wide);
    return el("div", { class: "labeled" }, el("div", { class: "labels", "aria-hidden": "true" }, ...labels), scroll);
  }

  /** A matrix with its name and shape, without tokens. */
  block(matrix, form) {
    const tall = form === "flat" ? rowHeight(matrix.drawn[0], 14, 3) : null;
    const cells = this.cells([matrix], tall);
    return el("figure", { class: `matrix ${form}` }, caption(matrix), cells);
  }

  /** The weights of one head. */
  square(matrix) {
    const side = Math.max(2, Math.min(22, 88 / Math.max(...matrix.drawn)));
    const cells = this.cells([matrix], side);
    cells.style.setProperty("width", `${matrix.drawn[1] * side}px`);
    return el("figure", { class: "matrix square" }, caption(matrix), cells);
  }

  /** The picture of matrices that stand side by side; `tall` is the height of a row. */
  cells(group, tall) {
    const rows = group[0].drawn[0];
    const columns = group.reduce((sum, matrix) => sum + matrix.drawn[1], 0);
    const mark = el("i", { class: "cell-mark", hidden: true });
    const name = group.length > 1 ? "joined heads" : spoken(group[0].name);
    const label = `${name}, ${group[0].shape[0]} by ${group.reduce((sum, matrix) => sum + matrix.shape[1], 0)}`;
    const holder = el("div", { class: "cells", tabindex: 0, role: "img", "aria-label": label, data: { name } }, mark);
    if (tall) holder.style.setProperty("height", `${rows * tall}px`);
    this.painters.push((look) => {
      holder.querySelector("canvas")?.remove();
      holder.prepend(this.image(group, rows, columns, look));
    });
    let spot = { row: 0, column: 0 };
    const show = (row, column) => {
      spot = { row, column };
      mark.hidden = false;
      const share = (part, whole) => `${(part / whole) * 100}%`;
      mark.style.setProperty("left", share(column, columns));
      mark.style.setProperty("top", share(row, rows));
      mark.style.setProperty("width", share(1, columns));
      mark.style.setProperty("height", share(1, rows));
      this.tell(group, row, column, mark.getBoundingClientRect());
    };
    const hide = () => {
      mark.hidden = true;
      this.tip.hidden = true;
    };
    const point = (event) => {
      const box = holder.getBoundingClientRect();
      const within = (share, count) => Math.max(0, Math.min(count - 1, Math.floor(share * count)));
      show(within((event.clientY - box.top) / box.height, rows), within((event.clientX - box.left) / box.width, columns));
    };
    holder.addEventListener("pointermove", point);
    holder.addEventListener("pointerdown", point);
    holder.addEventListener("pointerleave", hide);
    holder.addEventListener("blur", hide);
    holder.addEventListener("keydown", (event) => {
      const [down, right] = { ArrowDown: [1, 0], ArrowUp: [-1, 0], ArrowRight: [0, 1], ArrowLeft: [0, -1] }[event.key] ?? [0, 0];
      if (!down && !right) return;
      event.preventDefault();
      const step = mark.hidden ? 0 : 1; // the first key shows where the mark stands
      const within = (at, count) => Math.max(0, Math.min(count - 1, at));
      show(within(spot.row + down * step, rows), within(spot.column + right * step, columns));
    });
    return holder;
  }

  number(matrix, row, column) {
    return (this.integers[matrix.start + row * matrix.drawn[1] + column] / 32767) * this.data.scales[matrix.kind].peak;
  }

  image(group, rows, columns, look) {
    const { limit } = this.data.scales[group[0].kind];
    const signed = group[0].kind !== "weights";
    const values = new Float32Array(rows * columns);
    let left = 0;
    for (const matrix of group) {
      for (let row = 0; row < rows; row += 1) {
        for (let column = 0; column < matrix.drawn[1]; column += 1) {
          const number = this.number(matrix, row, column);
          values[row * columns + left + column] = signed ? number + limit : number;
        }
      }
      left += matrix.drawn[1];
    }
    return paintedImage(values, columns, rows, signed ? look.signed : look.shares, signed ? 2 * limit : limit);
  }

  paint() {
    const { dark } = themeOf(this.section);
    const look = { dark, signed: colorTable("signed", dark), shares: colorTable("color", dark) };
    for (const painter of this.painters) painter(look);
  }

  /* ---- words ---- */

  /** Show the number of a cell next to it. */
  tell(group, row, column, box) {
    const head = group.length > 1 ? Math.floor(column / group[0].drawn[1]) : 0;
    const matrix = group[head];
    const inside = column - head * matrix.drawn[1];
    const end = (axis, index, word) => {
      const tokens = this.tokens(matrix.tokens[axis]);
      return matrix.tokens[axis] ? el("bdi", { text: visibleText(tokens[index]) }) : `${word} ${index * matrix.every[axis]}`;
    };
    const isWeight = matrix.kind === "weights";
    this.tip.replaceChildren(
      symbol(matrix.name),
      el("span", {}, end(0, row, "row"), isWeight ? " → " : ", ", end(1, inside, "column")),
      el("b", { text: this.precise(matrix, row, inside) }),
    );
    this.tip.hidden = false;
    const { offsetWidth, offsetHeight } = this.tip;
    const widest = document.documentElement.clientWidth - offsetWidth - MARGIN;
    const above = box.top - offsetHeight - MARGIN;
    const middle = box.left + box.width / 2 - offsetWidth / 2;
    this.tip.style.setProperty("left", `${Math.max(MARGIN, Math.min(widest, middle))}px`);
    this.tip.style.setProperty("top", `${above > MARGIN ? above : box.bottom + MARGIN}px`);
  }

  /** A number with as many decimals as its packed precision allows. */
  precise(matrix, row, column) {
    const error = this.data.scales[matrix.kind].peak / 65534;
    const decimals = Math.max(0, Math.min(12, Math.floor(-Math.log10(error))));
    return this.number(matrix, row, column).toFixed(decimals).replace("-", "−");
  }

  tokens(which) {
    return which === "key" ? this.data.columns : this.data.rows;
  }

  /** Which rows and columns are drawn, if not all are. */
  thinned(matrix) {
    const said = ["row", "column"]
      .map((word, axis) => [word, matrix.every[axis]])
      .filter(([, every]) => every > 1)
      .map(([word, every]) => `every ${ordinal(every)} ${word}`);
    return said.length ? `Drawn: ${said.join(" and ")}, not averaged.` : null;
  }

  /** The scale of one kind of numbers. */
  legend(kind, name = null) {
    const { limit, peak } = this.data.scales[kind];
    const ramp = el("i", { class: "ramp" });
    const signed = kind !== "weights";
    this.painters.push(({ signed: both, shares }) => ramp.style.setProperty("background", (signed ? both : shares).gradient));
    const short = (number) => String(Number(number.toPrecision(2))).replace("-", "−");
    const marks = (signed ? [-limit, 0, limit] : [0, limit / 2, limit]).map((number) => el("span", { text: short(number) }));
    const over = signed && peak > limit ? remark(`largest value ±${short(peak)}`) : null;
    const label = name ? el("span", {}, name) : null;
    return el("div", { class: "steps-legend" }, label, el("div", { class: "scale" }, ramp, ...marks), over);
  }
}

/** A name such as W with superscript Q and subscript 0. */
function symbol([letter, above, below]) {
  const raised = above ? el("sup", { text: above }) : null;
  return el("span", { class: "symbol" }, el("i", { text: letter }), raised, below !== "" ? el("sub", { text: below }) : null);
}

function spoken([letter, above, below]) {
  return `${letter}${above ? `^${above}` : ""}${below}`;
}

function caption(matrix) {
  return el("figcaption", {}, el("b", {}, symbol(matrix.name)), ` ${matrix.shape[0]} × ${matrix.shape[1]}`);
}

function remark(text) {
  return el("p", { class: "quiet small", text });
}

/** The height of a row: less with more rows, but at least `least`. */
function rowHeight(rows, most, least) {
  return Math.max(least, Math.min(most, Math.round(120 / rows)));
}
