/**
 * The attention viewer: heat map, lines and overview of every kind, layer and head, in one place.
 *
 * `render(root, data)` takes what attention.py packs. Rows of the data ask, columns are looked at; the reader
 * may transpose them. The state lives in one object; every control changes it and calls for a new picture.
 */

import { choice, download, el, onThemeChange, shown, slider, themeOf, tick } from "./dom.js";
import { heatMap } from "./heatmap.js";
import { headLines } from "./lines.js";
import { asCsv, asJson, tableOf } from "./numbers.js";
import { colourTable, headColour } from "./palette.js";
import { Stage } from "./stage.js";
import { headTile, transpose } from "./tiles.js";
import { WeightStore } from "./weights.js";
import {
  bestReadout,
  cellReadout,
  goldLegend,
  keyHints,
  linesLegend,
  mapLegend,
  noPartners,
  overviewLegend,
  partnerBars,
  weightText,
} from "./words.js";

const MODES = [
  { value: "map", label: "Heat map" },
  { value: "lines", label: "Lines" },
  { value: "overview", label: "All heads" },
];
const MOST_LINES = 6000;
const LISTED = 7;

export function render(root, data, { heading = "h1" } = {}) {
  return new AttentionViewer(root, data, heading);
}

class AttentionViewer {
  constructor(root, data, heading) {
    this.root = root;
    this.data = data;
    this.store = new WeightStore(data);
    this.kinds = groupByKind(data.maps);
    this.labels = data.axes.map((tokens) => tokens.map(shown));
    const first = data.maps.find((map) => map.address === data.initial.address);
    this.state = {
      map: first,
      heads: data.initial.head === null ? everyHead(first) : [data.initial.head],
      mode: "map",
      transposed: false,
      palette: "colour",
      fixed: false,
      several: false,
      numbers: false,
      threshold: 0,
      zoom: 1,
      step: null, // how many rows have been decoded; null when all have
      pin: null, // {axis: "row" | "column", index}
      hover: null, // {row, column}, either may be missing
    };
    this.turn = 0;
    this.build(heading);
    onThemeChange(() => this.refresh());
    this.refresh();
  }

  /* ---- what stands on the page ---- */

  build(heading) {
    const { data, state } = this;
    this.kindChoice = choice({
      label: "Attention",
      name: "kind",
      options: [...this.kinds.entries()].map(([kind, maps]) => ({ value: kind, label: maps[0].label, hint: maps[0].ends })),
      value: state.map.kind,
      onChange: (kind) => this.goTo(nearestLayer(this.kinds.get(kind), this.state.map.layer)),
    });
    this.layerChoice = choice({
      label: "Layer",
      name: "layer",
      options: [],
      value: null,
      onChange: (layer) => this.goTo(this.layers().find((map) => map.layer === Number(layer))),
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
    const panels = [this.buildHeads(), this.buildDetails(), this.buildOptions(), this.buildExports()];
    const side = el("aside", { class: "side" }, ...panels);
    this.section = el(
      "section",
      { class: "attention" },
      el("header", {}, el(heading, { text: data.title }), data.note ? el("p", { class: "note", text: data.note }) : null),
      el("div", { class: "bar" }, this.kindChoice.element, this.layerChoice.element, this.modeChoice.element),
      el("div", { class: "body" }, el("div", { class: "main" }, frame, this.readout, under, this.steps.element), side),
      el("p", { class: "keys" }, ...keyHints()),
    );
    this.section.addEventListener("keydown", (event) => this.key(event));
    this.root.replaceChildren(this.section);
  }

  buildZoom() {
    const button = (text, label, zoom) => {
      const click = () => this.change({ zoom: zoom() });
      return el("button", { type: "button", text, "aria-label": label, title: label, on: { click } });
    };
    return el(
      "div",
      { class: "zoom" },
      button("−", "Smaller", () => Math.max(0.25, this.state.zoom / 1.4)),
      button("Fit", "Fit to the window", () => 1),
      button("+", "Larger", () => Math.min(40, this.state.zoom * 1.4)),
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
      label: "pick several",
      name: "several",
      value: false,
      onChange: (value) => {
        this.state.several = value;
      },
    });
    const head = el("div", { class: "panel-head" }, el("h2", { text: "Heads" }), several.element);
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
      show: (value) => (value === 0 ? "nothing" : value.toFixed(3)),
      onInput: (threshold) => this.change({ threshold }),
    });
    const palette = choice({
      label: "Colours",
      name: "palette",
      options: [
        { value: "colour", label: "Colour" },
        { value: "grey", label: "Grey", title: "White is high" },
      ],
      value: state.palette,
      onChange: (value) => this.change({ palette: value }),
    });
    const box = (label, name, onChange) => tick({ label, name, value: false, onChange });
    this.transposeTick = box("Swap axes", "transpose", (transposed) => this.change({ transposed }));
    const fixed = box("Scale from 0 to 1", "fixed", (value) => this.change({ fixed: value }));
    const numbers = box("Numbers in cells", "numbers", (value) => this.change({ numbers: value }));
    const ticks = el("div", { class: "ticks" }, this.transposeTick.element, fixed.element, numbers.element);
    return el("div", { class: "panel options" }, palette.element, ticks, this.threshold.element);
  }

  buildExports() {
    const button = (name, title, type, content) => {
      const save = () => download(`${this.fileName()}.${name.toLowerCase()}`, type, content());
      return el("button", { type: "button", text: name, title, data: { export: name }, on: { click: save } });
    };
    const buttons = [
      button("CSV", "The matrix as a table", "text/csv", () => this.csv()),
      button("JSON", "The matrix with its tokens", "application/json", () => this.json()),
      button("SVG", "The picture", "image/svg+xml", () => this.stage.toSvg(this.caption())),
    ];
    const heading = el("h2", { text: "Save what is shown" });
    return el("div", { class: "panel exports" }, heading, el("div", { class: "buttons" }, ...buttons));
  }

  /* ---- moving about ---- */

  layers() {
    return this.kinds.get(this.state.map.kind);
  }

  change(changes) {
    Object.assign(this.state, changes);
    this.refresh();
  }

  /** Look at another layer or kind; keep what still makes sense there. */
  goTo(map) {
    if (!map || map === this.state.map) return;
    const before = this.state.map;
    const all = this.state.heads.length === before.heads;
    const kept = this.state.heads.filter((head) => head < map.heads);
    const sameRows = map.rows === before.rows;
    if (!map.grows) this.stop();
    this.change({
      map,
      heads: all || kept.length === 0 ? everyHead(map) : kept,
      pin: sameRows && map.columns === before.columns ? this.state.pin : null,
      hover: null,
      step: this.state.step !== null && this.state.step < this.data.axes[map.rows].length ? this.state.step : null,
    });
  }

  chooseHead(head, add) {
    const { heads, map } = this.state;
    if (!add) return this.change({ heads: [head] });
    const chosen = heads.includes(head) ? heads.filter((other) => other !== head) : [...heads, head];
    return this.change({ heads: chosen.length ? chosen.sort((one, other) => one - other) : everyHead(map) });
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
      else this.goTo(this.layers()[this.layers().indexOf(this.state.map) - move[0]]);
    } else if (event.key === "t") {
      this.transposeTick.input.click();
    } else if (event.key === "v") {
      const at = MODES.findIndex((mode) => mode.value === this.state.mode);
      this.change({ mode: MODES[(at + 1) % MODES.length].value, zoom: 1 });
    } else if (event.key === "p" && this.state.map.grows) {
      this.play();
    }
  }

  /** Step through the heads; before the first and after the last comes the mean of all. */
  moveHead(by) {
    const { map, heads } = this.state;
    const all = heads.length === map.heads && map.heads > 1;
    const next = all ? (by > 0 ? 0 : map.heads - 1) : heads[0] + by;
    this.change({ heads: next < 0 || next >= map.heads ? everyHead(map) : [next] });
  }

  /** Walk from cell to cell; the walk starts at the first one, and the window follows. */
  moveCell(down, across) {
    if (this.state.mode !== "map" || !this.layer) return;
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
    if (this.state.step === null) this.state.step = 1;
    steps.timer = setInterval(next, pause);
    this.refresh();
  }

  stop() {
    clearInterval(this.steps.timer);
    this.steps.timer = null;
  }

  /* ---- pointing ---- */

  /** A spot of the drawing (down, across) as tokens (row, column), and back. */
  toTokens(spot) {
    if (!spot) return null;
    return this.state.transposed ? { row: spot.across, column: spot.down } : { row: spot.down, column: spot.across };
  }

  toSpot(tokens) {
    if (!tokens) return null;
    return this.state.transposed ? { down: tokens.column, across: tokens.row } : { down: tokens.row, across: tokens.column };
  }

  point(spot) {
    if (!this.layer) return;
    const hover = this.toTokens(spot);
    if (hover?.row === this.state.hover?.row && hover?.column === this.state.hover?.column && spot) {
      return;
    }
    this.state.hover = hover;
    this.stage.canvas.style.cursor = spot ? "pointer" : "default";
    this.stage.update({ hover: spot, ...this.focus() });
    this.showTip();
    this.showReadout();
    this.showDetails();
  }

  pick(spot) {
    const tokens = this.toTokens(spot);
    const axis = tokens?.row !== undefined ? "row" : "column";
    const same = tokens && this.state.pin?.axis === axis && this.state.pin.index === tokens[axis];
    this.change({ pin: !tokens || same ? null : { axis, index: tokens[axis] } });
  }

  /** The token whose weights stand out: the pinned one, or among lines the one pointed at. */
  active() {
    const { pin, hover, mode } = this.state;
    return pin ?? (mode === "lines" ? tokenOf(hover) : null);
  }

  /** What the drawing needs to know about the active token. */
  focus() {
    const active = this.active();
    const { transposed, heads, threshold, mode } = this.state;
    const downAxis = transposed ? "column" : "row";
    const turned = active && { axis: active.axis === downAxis ? "down" : "across", index: active.index };
    if (mode !== "lines") return { active: turned };
    const raw = active ? this.layer.meeting(heads, active.axis, active.index, threshold) : this.allLines().lines;
    const lines = raw.map((line) => ({ ...line, ...this.toSpot(line) }));
    return { active: turned, lines };
  }

  allLines() {
    const { heads, threshold } = this.state;
    const key = `${this.layer.map.address} ${heads} ${threshold}`;
    if (this.linesKey !== key) {
      this.linesKey = key;
      this.linesFound = this.layer.strongest(heads, threshold, MOST_LINES);
    }
    return this.linesFound;
  }

  /* ---- drawing ---- */

  async refresh() {
    const turn = (this.turn += 1);
    this.section.dataset.ready = "false";
    this.showControls();
    const layer = await this.store.get(this.state.map);
    if (turn !== this.turn) return; // the reader has moved on meanwhile
    const theme = themeOf(this.section);
    this.theme = theme;
    this.layer = layer;
    this.table = colourTable(this.state.palette, theme.dark);
    this.prepare();
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

  /** The mean of the chosen heads, and its scale. */
  prepare() {
    const { heads, map, fixed } = this.state;
    const key = `${map.address} ${heads}`;
    if (this.meanKey !== key) {
      this.meanKey = key;
      this.mean = this.layer.mean(heads);
      this.turnedMean = null;
      this.peak = this.mean.reduce((most, weight) => Math.max(most, weight), 0) || 1;
    }
    this.maximum = fixed ? 1 : this.peak;
  }

  grid() {
    if (!this.state.transposed) return this.mean;
    this.turnedMean ??= transpose(this.mean, this.layer.rows.length, this.layer.columns.length);
    return this.turnedMean;
  }

  picture() {
    const { state, data, theme } = this;
    const { map, transposed } = state;
    const rows = { tokens: this.labels[map.rows], role: "asks", visible: this.visibleRows() };
    const growing = map.grows && map.rows === map.columns;
    const columns = {
      tokens: this.labels[map.columns],
      role: "is looked at",
      visible: growing ? rows.visible : this.labels[map.columns].length,
    };
    this.shared ??= {};
    return {
      down: transposed ? columns : rows,
      across: transposed ? rows : columns,
      grid: this.grid(),
      maximum: state.mode === "lines" ? this.lineMaximum() : this.maximum,
      table: this.table,
      threshold: state.threshold,
      numbers: state.numbers,
      gold: map.gold ? data.gold.map(([row, column]) => this.toSpot({ row, column })) : [],
      heads: state.heads,
      colourOf: (head) => headColour(head, theme.dark),
      hover: this.toSpot(state.hover),
      theme,
      shared: this.shared,
      lines: [],
      ...this.focus(),
    };
  }

  /** Lines of several heads are compared by single weights, not by their mean. */
  lineMaximum() {
    if (this.state.fixed) return 1;
    return this.allLines().lines.at(-1)?.weight ?? 1;
  }

  visibleRows() {
    const { map, step } = this.state;
    return map.grows && step !== null ? step : this.data.axes[map.rows].length;
  }

  showControls() {
    const { state } = this;
    const layers = this.layers();
    if (this.layersShown !== layers) {
      this.layersShown = layers;
      const options = layers.map((map) => ({ value: map.layer, label: String(map.layer), title: map.address }));
      this.layerChoice.fill(options, state.map.layer);
    }
    this.kindChoice.set(state.map.kind);
    this.layerChoice.set(state.map.layer);
    this.modeChoice.set(state.mode);
    this.section.dataset.address = state.map.address;
    this.section.dataset.heads = state.heads.join(",");
    this.section.dataset.mode = state.mode;
  }

  /** How thumbnails look now; two that look the same have the same key. */
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
      const tiles = everyHead(map).map((head) => headTile(this.layer, head, 72, look, pick(head)));
      const all = el("button", {
        type: "button",
        class: "all-heads",
        text: "All heads",
        title: "The mean of all heads in the heat map, the lines of all heads among lines",
        on: { click: () => this.change({ heads: everyHead(map) }) },
      });
      this.headsBox.replaceChildren(all, el("div", { class: "head-grid" }, ...tiles));
    }
    const all = heads.length === map.heads;
    const single = !all || mode === "lines" || map.heads === 1; // the mean of all belongs to no single tile
    this.headsBox.querySelectorAll(".tile").forEach((tile, head) => press(tile, single && heads.includes(head)));
    press(this.headsBox.querySelector(".all-heads"), all);
  }

  /** Every head of every layer of this kind, a row per layer, the deepest layer last. */
  async showOverview(turn) {
    const look = this.tileLook();
    const key = `${this.state.map.kind} ${look.key}`;
    if (this.overviewKey !== key) {
      const most = Math.max(...this.layers().map((map) => map.heads));
      const table = el("div", { class: "overview-table", style: { "--heads": most } });
      this.overview.replaceChildren(table);
      for (const map of this.layers()) {
        const layer = await this.store.get(map);
        if (turn !== this.turn) return; // half a table keeps no key, so the next visit starts again
        const tiles = everyHead(map).map((head) => headTile(layer, head, 96, look, () => this.open(map, head)));
        const label = el("b", { text: String(map.layer), title: map.address });
        table.append(el("div", { class: "overview-row", data: { address: map.address } }, label, ...tiles));
        await new Promise((resume) => requestAnimationFrame(resume)); // let the page breathe between layers
        if (turn !== this.turn) return;
      }
      this.overviewKey = key;
    }
    const { map, heads } = this.state;
    for (const tile of this.overview.querySelectorAll(".tile")) {
      const here = tile.parentElement.dataset.address === map.address && heads.length < map.heads;
      press(tile, here && heads.includes(Number(tile.dataset.head)));
    }
  }

  /** Open one head of the overview as a heat map. */
  open(map, head) {
    Object.assign(this.state, { mode: "map", heads: [head] });
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
    const ofMap = () => mapLegend(this.table.gradient, this.maximum, palette === "grey");
    const ofLines = () => linesLegend(this.allLines().lines.length, this.allLines().found);
    const parts = mode === "lines" ? ofLines() : ofMap();
    if (map.gold && this.data.gold.length) parts.push(goldLegend());
    this.legend.replaceChildren(...parts);
  }

  showSteps() {
    const { state, steps, data } = this;
    const rows = data.axes[state.map.rows];
    steps.element.hidden = !state.map.grows || rows.length < 2 || state.mode === "overview";
    steps.range.input.max = String(rows.length);
    steps.range.set(this.visibleRows());
    const playing = steps.timer !== null;
    steps.play.classList.toggle("playing", playing);
    steps.play.setAttribute("aria-label", playing ? "Pause" : "Play decoding");
    const visible = this.visibleRows();
    const first = Math.max(0, Math.min(visible - 12, rows.length - 24));
    const chips = this.labels[state.map.rows].slice(first, first + 24).map((label, offset) => {
      const at = first + offset;
      const look = at === visible - 1 && state.step !== null ? "now" : at >= visible ? "later" : "";
      return el("span", { class: `chip ${look}` }, el("bdi", { text: label }));
    });
    if (first > 0) chips.unshift(el("span", { class: "chip later", text: "…" }));
    if (first + 24 < rows.length) chips.push(el("span", { class: "chip later", text: "…" }));
    steps.strip.replaceChildren(...chips);
  }

  showTip() {
    const { hover, mode } = this.state;
    this.tip.hidden = mode !== "map" || !isCell(hover);
    if (this.tip.hidden) return;
    const row = el("bdi", { text: this.rowLabel(hover.row) });
    const column = el("bdi", { text: this.columnLabel(hover.column) });
    const names = el("span", { class: "tip-tokens" }, row, " → ", column);
    this.tip.replaceChildren(names, el("b", { text: this.number(this.weightAt(hover)) }));
    this.placeTip();
  }

  /** Above the cell, or below it where there is no room; never over it. */
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

  /** One line that says in words what is pointed at. */
  showReadout() {
    const { hover, mode } = this.state;
    const parts = [el("span", { class: "where", text: this.caption() })];
    const at = this.inFocus();
    const [best] = at ? this.ranked(at) : [];
    if (mode === "map" && isCell(hover)) {
      const weight = this.number(this.weightAt(hover));
      parts.push(...cellReadout(this.rowLabel(hover.row), this.columnLabel(hover.column), weight));
    } else if (best) {
      parts.push(...bestReadout(at.axis, this.nameOf(at), best.name, best.text));
    }
    this.readout.replaceChildren(...parts);
  }

  /** The strongest partners of the token in focus, as bars. */
  showDetails() {
    const at = this.inFocus();
    const release = this.state.pin ? () => this.change({ pin: null }) : null;
    const parts = at ? partnerBars(at.axis, this.nameOf(at), this.ranked(at), release) : noPartners();
    this.details.replaceChildren(...parts);
  }

  /** The token that read-out and bars are about: the pinned one, or the one pointed at. */
  inFocus() {
    const { pin, hover, mode } = this.state;
    if (mode === "overview") return null;
    return pin ?? tokenOf(hover);
  }

  ranked({ axis, index }) {
    const count = axis === "row" ? this.layer.columns.length : this.visibleRows();
    const list = [];
    for (let other = 0; other < count; other += 1) {
      const weight = this.weightAt(axis === "row" ? { row: index, column: other } : { row: other, column: index });
      if (weight > 0) list.push({ index: other, weight });
    }
    const strongest = list.sort((one, other) => other.weight - one.weight).slice(0, LISTED);
    const otherAxis = axis === "row" ? "column" : "row";
    return strongest.map((one) => ({
      name: this.nameOf({ axis: otherAxis, index: one.index }),
      weight: one.weight,
      text: this.number(one.weight),
    }));
  }

  weightAt({ row, column }) {
    return this.mean[row * this.layer.columns.length + column];
  }

  /* ---- words and files ---- */

  rowLabel(index) {
    return this.labels[this.state.map.rows][index];
  }

  columnLabel(index) {
    return this.labels[this.state.map.columns][index];
  }

  nameOf({ axis, index }) {
    return axis === "row" ? this.rowLabel(index) : this.columnLabel(index);
  }

  number(weight) {
    return weightText(weight, this.data.levels);
  }

  headsInWords() {
    const { heads, map } = this.state;
    if (heads.length === 1) return `head ${heads[0]}`;
    const which = heads.length === map.heads ? "all heads" : `heads ${heads.join(", ")}`;
    return this.state.mode === "lines" ? which : `mean of ${which}`;
  }

  caption() {
    if (this.state.mode === "overview") return `${this.state.map.label}, all layers and heads`;
    return `${this.state.map.address} · ${this.headsInWords()}`;
  }

  fileName() {
    const { heads, map } = this.state;
    return `${map.address}.${heads.length === map.heads ? "all-heads" : `head-${heads.join("-")}`}`;
  }

  csv() {
    const { rows, columns } = this.layer;
    const visible = this.visibleRows();
    const table = tableOf(this.mean, columns.length, visible);
    return asCsv(table, rows.slice(0, visible), columns, this.state.transposed);
  }

  json() {
    const { rows, columns, levels } = this.layer;
    const { map, heads } = this.state;
    const visible = this.visibleRows();
    const table = tableOf(this.mean, columns.length, visible);
    return asJson(table, rows.slice(0, visible), columns, { address: map.address, heads, levels });
  }
}

function groupByKind(maps) {
  const kinds = new Map();
  for (const map of maps) kinds.set(map.kind, [...(kinds.get(map.kind) ?? []), map]);
  for (const layers of kinds.values()) layers.sort((one, other) => one.layer - other.layer);
  return kinds;
}

function nearestLayer(maps, layer) {
  return maps.reduce((best, map) => (Math.abs(map.layer - layer) < Math.abs(best.layer - layer) ? map : best));
}

function everyHead(map) {
  return Array.from({ length: map.heads }, (_, head) => head);
}

/** The token of a spot that is pointed at, its row before its column. */
function tokenOf(hover) {
  if (hover?.row !== undefined) return { axis: "row", index: hover.row };
  return hover?.column !== undefined ? { axis: "column", index: hover.column } : null;
}

function isCell(hover) {
  return hover?.row !== undefined && hover?.column !== undefined;
}

function press(button, on) {
  button.setAttribute("aria-pressed", String(on));
}
