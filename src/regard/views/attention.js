/**
 * The attention viewer: heat map, lines and overview of every kind, layer and head.
 *
 * `render(root, data)` takes the data that attention.py packs. Rows are queries and columns are keys; the user can
 * swap the axes. `Selection` holds the state; every control changes it and redraws.
 */

import { choice, download, el, isFramed, onThemeChange, slider, themeOf, tick } from "./dom.js";
import { heatMap } from "./heatmap.js";
import { headLines } from "./lines.js";
import { colorTable, headColor } from "./palette.js";
import { everyHead, Selection } from "./selection.js";
import { Stage } from "./stage.js";
import { headTile } from "./tiles.js";
import { WeightStore } from "./weights.js";
import {
  bestReadout,
  cellReadout,
  goldLegend,
  keyHints,
  linesLegend,
  mapLegend,
  overviewLegend,
  partnerBars,
  strongestLinks,
  wordMarkLegend,
} from "./words.js";

const MODES = [
  { value: "map", label: "Heat map" },
  { value: "lines", label: "Lines" },
  { value: "overview", label: "Overview" },
];

export function render(root, data, { heading = "h1" } = {}) {
  return new AttentionViewer(root, data, heading);
}

class AttentionViewer {
  constructor(root, data, heading) {
    this.root = root;
    this.data = data;
    this.store = new WeightStore(data);
    this.selection = new Selection(data);
    this.state = this.selection.state; // read-only here: use `change`
    this.turn = 0;
    this.build(heading);
    onThemeChange(() => this.refresh());
    this.refresh();
  }

  /* ---- page ---- */

  build(heading) {
    const { data, state } = this;
    const kinds = [...this.selection.kinds.entries()];
    this.kindChoice = choice({
      label: "Attention",
      name: "kind",
      options: kinds.map(([kind, [{ label, ends }]]) => ({ value: kind, label, hint: ends })),
      value: state.map.kind,
      onChange: (kind) => this.goTo(this.selection.nearest(kind)),
    });
    this.layerChoice = choice({
      label: "Layer",
      name: "layer",
      options: [],
      value: null,
      onChange: (layer) => this.goTo(this.selection.layers().find((map) => map.layer === Number(layer))),
    });
    this.modeChoice = choice({
      label: "Show as",
      name: "mode",
      options: MODES,
      value: state.mode,
      onChange: (mode) => this.change({ mode, zoom: 1 }),
    });
    this.stage = new Stage({
      label: "Attention weights. Arrow keys change layer and head; with Shift they move from cell to cell.",
      onPoint: (spot) => this.point(spot),
      onPick: (spot) => this.pick(spot),
    });
    this.overview = el("div", { class: "overview", hidden: true });
    this.tip = el("div", { class: "tip", hidden: true, "aria-hidden": "true" });
    this.readout = el("p", { class: "readout", "aria-live": "polite" });
    this.legend = el("div", { class: "legend" });
    this.zoomBox = this.buildZoom();
    this.steps = this.buildSteps();
    this.headsBox = el("div", { class: "heads" });
    this.details = el("div", { class: "details" });
    const frame = el("div", { class: "frame panel" }, this.stage.element, this.overview, this.tip);
    const under = el("div", { class: "under" }, this.legend, this.zoomBox);
    const main = el("div", { class: "main" }, frame, this.readout, under, this.steps.element);
    const side = el("aside", { class: "side" }, this.buildHeads(), this.buildDetails());
    this.section = el(
      "section",
      { class: isFramed() ? "attention framed" : "attention" },
      el("header", {}, el(heading, { text: data.title }), data.note ? el("p", { class: "note", text: data.note }) : null),
      el("div", { class: "bar" }, this.kindChoice.element, this.layerChoice.element, this.modeChoice.element),
      el("div", { class: "body" }, main, side, this.buildOptions(), this.buildExports()),
      el("p", { class: "keys" }, ...keyHints()),
    );
    this.section.addEventListener("keydown", (event) => this.key(event));
    this.root.replaceChildren(this.section);
    new ResizeObserver(() => this.stage.arrange()).observe(frame);
  }

  buildZoom() {
    const button = (text, label, zoom) => {
      const click = () => this.change({ zoom: zoom() });
      return el("button", { type: "button", text, "aria-label": label, title: label, on: { click } });
    };
    return el(
      "div",
      { class: "zoom" },
      button("−", "Zoom out", () => Math.max(0.25, this.state.zoom / 1.4)),
      button("Fit", "Fit to the window", () => 1),
      button("+", "Zoom in", () => Math.min(40, this.state.zoom * 1.4)),
    );
  }

  buildSteps() {
    const play = el("button", { type: "button", class: "play", on: { click: () => this.play() } });
    const range = slider({
      label: "Decoding step",
      name: "step",
      min: 1,
      max: 1,
      step: 1,
      value: 1,
      show: (step, last) => `${step} of ${last}`,
      onInput: (step) => {
        this.stop();
        this.change({ step: step >= Number(range.input.max) ? null : step });
      },
    });
    const strip = el("p", { class: "strip" });
    const element = el("div", { class: "steps panel" }, el("div", { class: "steps-row" }, play, range.element), strip);
    return { element, play, range, strip, timer: null };
  }

  buildHeads() {
    const several = tick({
      label: "select several",
      name: "several",
      value: false,
      onChange: (value) => this.selection.set({ several: value }),
    });
    this.several = several.element;
    const head = el("div", { class: "panel-head" }, el("h2", { text: "Heads" }), this.several);
    return el("div", { class: "panel" }, head, this.headsBox);
  }

  buildDetails() {
    return el("div", { class: "panel" }, this.details);
  }

  buildOptions() {
    const { state } = this;
    this.threshold = slider({
      label: "Hide weights below",
      name: "threshold",
      min: 0,
      max: 0.5,
      step: 0.005,
      value: 0,
      show: (value) => (value === 0 ? "off" : value.toFixed(3)),
      onInput: (threshold) => this.change({ threshold }),
    });
    const palette = choice({
      label: "Colors",
      name: "palette",
      options: [
        { value: "color", label: "Color" },
        { value: "gray", label: "Gray", title: "White = high" },
      ],
      value: state.palette,
      onChange: (value) => this.change({ palette: value }),
    });
    const box = (label, name, onChange) => tick({ label, name, value: false, onChange });
    this.transposeTick = box("Swap axes", "transpose", (transposed) => this.change({ transposed }));
    const fixed = box("Scale from 0 to 1", "fixed", (value) => this.change({ fixed: value }));
    const numbers = box("Numbers in cells", "numbers", (value) => this.change({ numbers: value }));
    this.cellNumbers = numbers.element;
    const ticks = el("div", { class: "ticks" }, this.transposeTick.element, fixed.element, this.cellNumbers);
    const head = el("div", { class: "panel-head" }, el("h2", { text: "Display" }), palette.element);
    return el("div", { class: "panel options" }, head, ticks, this.threshold.element);
  }

  buildExports() {
    const { selection } = this;
    const button = (name, title, type, content) => {
      const save = () => download(`${selection.fileName()}.${name.toLowerCase()}`, type, content());
      return el("button", { type: "button", text: name, title, data: { export: name }, on: { click: save } });
    };
    const buttons = [
      button("CSV", "The weights as a table", "text/csv", () => selection.csv()),
      button("JSON", "The weights with their tokens", "application/json", () => selection.json()),
      button("SVG", "The picture as shown", "image/svg+xml", () => this.stage.toSvg(selection.caption())),
    ];
    const heading = el("h2", { text: "Export" });
    return el("div", { class: "panel exports" }, heading, el("div", { class: "buttons" }, ...buttons));
  }

  /* ---- navigation ---- */

  change(changes) {
    this.selection.set(changes);
    this.refresh();
  }

  goTo(map) {
    if (!map || map === this.state.map) return;
    if (!map.grows) this.stop();
    this.selection.goTo(map);
    this.refresh();
  }

  chooseHead(head, add) {
    this.selection.chooseHead(head, add);
    this.refresh();
  }

  moveHead(by) {
    this.selection.moveHead(by);
    this.refresh();
  }

  key(event) {
    if (event.altKey || event.ctrlKey || event.metaKey) return;
    if (event.key === "Escape") {
      this.change({ pin: null, hover: null });
      return;
    }
    if (event.target.matches("input, select, textarea")) return;
    const moves = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] };
    const move = moves[event.key];
    if (move) {
      event.preventDefault();
      if (event.shiftKey) this.moveCell(...move);
      else if (move[1]) this.moveHead(move[1]);
      else this.goTo(this.selection.neighbor(-move[0]));
    } else if (event.key === "t") {
      this.transposeTick.input.click();
    } else if (event.key === "v") {
      const at = MODES.findIndex((mode) => mode.value === this.state.mode);
      this.change({ mode: MODES[(at + 1) % MODES.length].value, zoom: 1 });
    } else if (event.key === "p" && this.state.map.grows) {
      this.play();
    }
  }

  /** Move the cell cursor; it starts at the first cell and scrolls into view. */
  moveCell(down, across) {
    if (this.state.mode !== "map" || !this.selection.layer) return;
    const { picture } = this.stage;
    const { hover } = picture;
    const bounded = (index, count) => Math.max(0, Math.min(count - 1, index));
    const spot = {
      down: hover ? bounded((hover.down ?? 0) + down, picture.down.visible) : 0,
      across: hover ? bounded((hover.across ?? 0) + across, picture.across.visible) : 0,
    };
    this.stage.reveal(spot);
    this.point(spot);
  }

  play() {
    const { steps } = this;
    if (steps.timer !== null) {
      this.stop();
      this.refresh();
      return;
    }
    const last = this.data.axes[this.state.map.rows].length;
    const pause = Math.max(90, Math.min(750, 20_000 / last));
    const next = () => {
      const step = (this.state.step ?? last) + 1;
      if (step >= last) this.stop();
      this.change({ step: step >= last ? null : step });
    };
    if (this.state.step === null) this.selection.set({ step: 1 });
    steps.timer = setInterval(next, pause);
    this.refresh();
  }

  stop() {
    clearInterval(this.steps.timer);
    this.steps.timer = null;
  }

  /* ---- pointer ---- */

  point(spot) {
    const { selection } = this;
    if (!selection.layer) return;
    const hover = selection.toTokens(spot);
    if (hover?.row === this.state.hover?.row && hover?.column === this.state.hover?.column && spot) {
      return;
    }
    selection.set({ hover });
    this.stage.canvas.style.cursor = spot ? "pointer" : "default";
    this.stage.update({ hover: spot, ...selection.focus() });
    this.showTip();
    this.showReadout();
    this.showDetails();
  }

  pick(spot) {
    this.selection.pick(spot);
    this.refresh();
  }

  /* ---- drawing ---- */

  async refresh() {
    const turn = (this.turn += 1);
    this.section.dataset.ready = "false";
    this.showControls();
    const layer = await this.store.get(this.state.map);
    if (turn !== this.turn) return; // a newer refresh has started
    this.theme = themeOf(this.section);
    this.table = colorTable(this.state.palette, this.theme.dark);
    this.selection.use(layer);
    this.showHeads();
    const wide = this.state.mode === "overview";
    this.stage.element.hidden = wide;
    this.overview.hidden = !wide;
    this.tip.hidden = true;
    if (wide) await this.showOverview(turn);
    else this.stage.show(this.state.mode === "lines" ? headLines : heatMap, this.picture(), this.state.zoom);
    this.showLegend();
    this.showSteps();
    this.showReadout();
    this.showDetails();
    if (turn === this.turn) this.section.dataset.ready = "true";
  }

  picture() {
    const { selection, state, theme } = this;
    const { map, transposed } = state;
    const rows = { tokens: selection.rowLabels(), role: "query", visible: selection.visibleRows() };
    const growing = map.grows && map.rows === map.columns;
    const labels = selection.columnLabels();
    const columns = { tokens: labels, role: "key", visible: growing ? rows.visible : labels.length };
    this.shared ??= {};
    return {
      down: transposed ? columns : rows,
      across: transposed ? rows : columns,
      grid: selection.grid(),
      maximum: selection.maximum(),
      table: this.table,
      threshold: state.threshold,
      numbers: state.numbers,
      gold: map.gold ? this.data.gold.map(([row, column]) => selection.toSpot({ row, column })) : [],
      heads: state.heads,
      colorOf: (head) => headColor(head, theme.dark),
      hover: selection.toSpot(state.hover),
      theme,
      shared: this.shared,
      lines: [],
      ...selection.focus(),
    };
  }

  showControls() {
    const { state } = this;
    const layers = this.selection.layers();
    if (this.layersShown !== layers) {
      this.layersShown = layers;
      const options = layers.map((map) => ({ value: map.layer, label: String(map.layer), title: map.address }));
      this.layerChoice.fill(options, state.map.layer);
    }
    this.kindChoice.set(state.map.kind);
    this.layerChoice.set(state.map.layer);
    this.modeChoice.set(state.mode);
    // Hide or disable controls that have no effect in this mode.
    this.layerChoice.element.disabled = state.mode === "overview";
    this.threshold.element.hidden = state.mode === "overview";
    this.cellNumbers.hidden = state.mode !== "map";
    this.section.dataset.address = state.map.address;
    this.section.dataset.heads = state.heads.join(",");
    this.section.dataset.mode = state.mode;
  }

  /** How thumbnails are painted; equal looks have equal keys. */
  tileLook() {
    const { palette, fixed, transposed } = this.state;
    const { dark } = this.theme;
    return { table: this.table, fixed, transposed, dark, key: `${palette} ${fixed} ${transposed} ${dark}` };
  }

  /** Thumbnails of every head of this layer, and a button for all of them. */
  showHeads() {
    const { map, heads, mode } = this.state;
    const look = this.tileLook();
    const key = `${map.address} ${look.key}`;
    if (this.headsKey !== key) {
      this.headsKey = key;
      const pick = (head) => (event) => {
        const add = event.shiftKey || event.ctrlKey || event.metaKey || this.state.several;
        this.chooseHead(head, add);
      };
      const tiles = everyHead(map).map((head) => headTile(this.selection.layer, head, 72, look, pick(head)));
      const all = el("button", {
        type: "button",
        class: "all-heads",
        on: { click: () => this.change({ heads: everyHead(map) }) },
      });
      this.headsBox.replaceChildren(all, el("div", { class: "head-grid" }, ...tiles));
    }
    const all = this.selection.hasAllHeads();
    const single = !all || mode === "lines" || map.heads === 1; // the mean belongs to no single tile
    this.headsBox.querySelectorAll(".tile").forEach((tile, head) => press(tile, single && heads.includes(head)));
    const button = this.headsBox.querySelector(".all-heads");
    button.textContent = mode === "lines" ? "All heads" : "Mean of all heads";
    button.hidden = this.several.hidden = map.heads === 1; // nothing to choose from
    press(button, all);
  }

  /** Every head of every layer of this kind, a row per layer, the deepest layer last. */
  async showOverview(turn) {
    const look = this.tileLook();
    const key = `${this.state.map.kind} ${look.key}`;
    if (this.overviewKey !== key) {
      const layers = this.selection.layers();
      const most = Math.max(...layers.map((map) => map.heads));
      const table = el("div", { class: "overview-table", style: { "--heads": most } });
      this.overview.replaceChildren(table);
      for (const map of layers) {
        const layer = await this.store.get(map);
        if (turn !== this.turn) return; // an unfinished table gets no key, so the next call rebuilds it
        const tiles = everyHead(map).map((head) => headTile(layer, head, 96, look, () => this.open(map, head)));
        const label = el("b", { text: `Layer ${map.layer}`, title: map.address });
        table.append(el("div", { class: "overview-row", data: { address: map.address } }, label, ...tiles));
        await new Promise((resume) => requestAnimationFrame(resume)); // keep the page responsive between layers
        if (turn !== this.turn) return;
      }
      this.overviewKey = key;
    }
    const { map, heads } = this.state;
    for (const tile of this.overview.querySelectorAll(".tile")) {
      const here = tile.parentElement.dataset.address === map.address && (heads.length < map.heads || map.heads === 1);
      press(tile, here && heads.includes(Number(tile.dataset.head)));
    }
  }

  /** Open one head of the overview as a heat map. */
  open(map, head) {
    this.selection.set({ mode: "map", heads: [head] });
    if (map === this.state.map) this.refresh();
    else this.goTo(map);
  }

  showLegend() {
    const { mode, map, fixed, palette } = this.state;
    this.zoomBox.hidden = mode === "overview";
    if (mode === "overview") {
      this.legend.replaceChildren(...overviewLegend(fixed));
      return;
    }
    const ofMap = () => mapLegend(this.table.gradient, this.selection.maximum(), palette === "gray");
    const ofLines = ({ lines, found }) => linesLegend(lines.length, found);
    const parts = mode === "lines" ? ofLines(this.selection.lines()) : ofMap();
    if (map.gold && this.data.gold.length) parts.push(goldLegend());
    if (this.selection.hasWordMarks()) parts.push(wordMarkLegend());
    this.legend.replaceChildren(...parts);
  }

  showSteps() {
    const { selection, state, steps } = this;
    const rows = selection.rowLabels();
    const visible = selection.visibleRows();
    steps.element.hidden = !state.map.grows || rows.length < 2 || state.mode === "overview";
    steps.range.input.max = String(rows.length);
    steps.range.set(visible);
    const playing = steps.timer !== null;
    steps.play.classList.toggle("playing", playing);
    steps.play.setAttribute("aria-label", playing ? "Pause" : "Play decoding");
    const first = Math.max(0, Math.min(visible - 12, rows.length - 24));
    const chips = rows.slice(first, first + 24).map((label, offset) => {
      const at = first + offset;
      const look = at === visible - 1 && state.step !== null ? "now" : at >= visible ? "later" : "";
      return el("span", { class: `chip ${look}` }, el("bdi", { text: label }));
    });
    if (first > 0) chips.unshift(el("span", { class: "chip later", text: "…" }));
    if (first + 24 < rows.length) chips.push(el("span", { class: "chip later", text: "…" }));
    steps.strip.replaceChildren(...chips);
  }

  showTip() {
    const { selection } = this;
    const { hover } = this.state;
    this.tip.hidden = !selection.hasCell();
    if (this.tip.hidden) return;
    const row = el("bdi", { text: selection.rowLabels()[hover.row] });
    const column = el("bdi", { text: selection.columnLabels()[hover.column] });
    const names = el("span", { class: "tip-tokens" }, row, " → ", column);
    this.tip.replaceChildren(names, el("b", { text: selection.number(selection.weightAt(hover)) }));
    this.placeTip();
  }

  /** Above the cell, or below it if there is no room above; never over it. */
  placeTip() {
    const { geometry, picture, canvas } = this.stage;
    const frame = this.tip.parentElement.getBoundingClientRect();
    const box = canvas.getBoundingClientRect();
    const { left, top } = this.stage.view();
    const x = box.left - frame.left + geometry.left + (picture.hover.across + 0.5) * geometry.cell - left;
    const y = box.top - frame.top + geometry.top + picture.hover.down * geometry.cell - top;
    const { offsetWidth, offsetHeight } = this.tip;
    const above = y - offsetHeight - 7;
    this.tip.style.left = `${Math.max(4, Math.min(x - offsetWidth / 2, frame.width - offsetWidth - 6))}px`;
    this.tip.style.top = `${above > 2 ? above : y + geometry.cell + 7}px`;
  }

  /** One line about the cell or token under the pointer. */
  showReadout() {
    const { selection } = this;
    const { hover } = this.state;
    const parts = [el("span", { class: "where", text: selection.caption() })];
    const at = selection.inFocus();
    const [best] = at ? selection.ranked(at) : [];
    if (selection.hasCell()) {
      const weight = selection.number(selection.weightAt(hover));
      parts.push(...cellReadout(selection.rowLabels()[hover.row], selection.columnLabels()[hover.column], weight));
    } else if (best) {
      parts.push(...bestReadout(at.axis, selection.nameOf(at), best.name, best.text, selection.meanRemark()));
    }
    this.readout.replaceChildren(...parts);
  }

  /** The strongest links of the token in focus, or of the whole map. */
  showDetails() {
    const { selection } = this;
    const at = selection.inFocus();
    const release = this.state.pin ? () => this.change({ pin: null }) : null;
    const colorOf = (head) => headColor(head, this.theme.dark);
    const parts = at
      ? partnerBars(at.axis, selection.nameOf(at), selection.ranked(at), { remark: selection.meanRemark(), onRelease: release })
      : strongestLinks(selection.strongest(), colorOf);
    this.details.replaceChildren(...parts);
  }
}

function press(button, on) {
  button.setAttribute("aria-pressed", String(on));
}
