/**
 * The state of an attention viewer, and the numbers and texts derived from it.
 *
 * All state is in one object, `state`; methods that change it draw nothing. A *spot* is a position in the drawing
 * (down, across), *tokens* are positions in the matrix (row, column): they differ when the axes are swapped.
 * attention.js builds the page and draws.
 */

import { visibleText } from "./dom.js";
import { asCsv, asJson, tableOf } from "./numbers.js";
import { transpose } from "./tiles.js";
import { weightText } from "./words.js";

const MOST_LINES = 6000;
const LISTED = 7; // links of one token
const PAIRS = 6; // links of a whole map

// Many vocabularies mark the start of a word with "▁". On an axis a dot is easier to read.
const SPACE_MARK = "▁";
const WORD_MARK = "·";

export class Selection {
  constructor(data) {
    this.data = data;
    this.kinds = groupByKind(data.maps);
    this.labels = data.axes.map((tokens) => tokens.map(labelOf));
    this.layer = null; // the weights of state.map, once they are unpacked
    const first = data.maps.find((map) => map.address === data.initial.address);
    this.state = {
      map: first,
      heads: data.initial.head === null ? everyHead(first) : [data.initial.head],
      mode: "map",
      transposed: false,
      palette: "color",
      fixed: false,
      several: false,
      numbers: false,
      threshold: 0,
      zoom: 1,
      step: null, // how many rows have been decoded; null when all have
      pin: null, // {axis: "row" | "column", index}
      hover: null, // {row, column}, either may be missing
    };
  }

  /* ---- navigation ---- */

  layers() {
    return this.kinds.get(this.state.map.kind);
  }

  set(changes) {
    Object.assign(this.state, changes);
  }

  /** Switch to another layer or kind; carry over what applies there. */
  goTo(map) {
    const { map: before, heads, pin, step } = this.state;
    const all = heads.length === before.heads;
    const shared = heads.filter((head) => head < map.heads);
    this.set({
      map,
      heads: all || shared.length === 0 ? everyHead(map) : shared,
      pin: map.rows === before.rows && map.columns === before.columns ? pin : null,
      hover: null,
      step: step !== null && step < this.data.axes[map.rows].length ? step : null,
    });
  }

  /** The layer of another kind nearest to this one. */
  nearest(kind) {
    const { layer } = this.state.map;
    const away = (map) => Math.abs(map.layer - layer);
    return this.kinds.get(kind).reduce((best, map) => (away(map) < away(best) ? map : best));
  }

  /** The map `by` layers deeper, if there is one. */
  neighbor(by) {
    return this.layers()[this.layers().indexOf(this.state.map) + by];
  }

  chooseHead(head, add) {
    const { heads, map } = this.state;
    if (!add) return this.set({ heads: [head] });
    const chosen = heads.includes(head) ? heads.filter((other) => other !== head) : [...heads, head];
    return this.set({ heads: chosen.length ? chosen.sort((one, other) => one - other) : everyHead(map) });
  }

  /** Step through the heads; before the first and after the last comes the mean of all. */
  moveHead(by) {
    const { map, heads } = this.state;
    const next = this.hasAllHeads() && map.heads > 1 ? (by > 0 ? 0 : map.heads - 1) : heads[0] + by;
    this.set({ heads: next < 0 || next >= map.heads ? everyHead(map) : [next] });
  }

  hasAllHeads() {
    return this.state.heads.length === this.state.map.heads;
  }

  /** Whether several heads are drawn one by one, not as their mean. */
  showsEachHead() {
    return this.state.mode === "lines" && this.state.heads.length > 1;
  }

  /** Pin the token at a spot; unpin it if it is pinned already. */
  pick(spot) {
    const tokens = this.toTokens(spot);
    const axis = tokens?.row !== undefined ? "row" : "column";
    const same = tokens && this.state.pin?.axis === axis && this.state.pin.index === tokens[axis];
    this.set({ pin: !tokens || same ? null : { axis, index: tokens[axis] } });
  }

  /* ---- pointer ---- */

  toTokens(spot) {
    if (!spot) return null;
    return this.state.transposed ? { row: spot.across, column: spot.down } : { row: spot.down, column: spot.across };
  }

  toSpot(tokens) {
    if (!tokens) return null;
    const { row, column } = tokens;
    return this.state.transposed ? { down: column, across: row } : { down: row, across: column };
  }

  /** Whether a single cell is pointed at, not a label or a line. */
  hasCell() {
    const { hover, mode } = this.state;
    return mode === "map" && hover?.row !== undefined && hover?.column !== undefined;
  }

  /** The token that readout and bars describe: the pinned one, or the one pointed at. */
  inFocus() {
    const { pin, hover, mode } = this.state;
    if (mode === "overview") return null;
    return pin ?? tokenOf(hover);
  }

  /** What the drawing highlights: the pinned token or, among lines, the one pointed at. */
  focus() {
    const { pin, hover, transposed, heads, threshold, mode } = this.state;
    const active = pin ?? (mode === "lines" ? tokenOf(hover) : null);
    const downAxis = transposed ? "column" : "row";
    const turned = active && { axis: active.axis === downAxis ? "down" : "across", index: active.index };
    if (mode !== "lines") return { active: turned };
    const raw = active ? this.layer.meeting(heads, active.axis, active.index, threshold) : this.lines().lines;
    const lines = raw.map((line) => ({ ...line, ...this.toSpot(line) }));
    return { active: turned, lines };
  }

  /* ---- numbers ---- */

  /** Use the unpacked weights of a layer; the mean of the selected heads is computed once. */
  use(layer) {
    this.layer = layer;
    const { heads, map } = this.state;
    const key = `${map.address} ${heads}`;
    if (this.meanKey === key) return;
    this.meanKey = key;
    this.mean = layer.mean(heads);
    this.turnedMean = null;
    this.peak = this.mean.reduce((most, weight) => Math.max(most, weight), 0) || 1;
  }

  /** The matrix in the orientation in which it is drawn. */
  grid() {
    if (!this.state.transposed) return this.mean;
    this.turnedMean ??= transpose(this.mean, this.layer.rows.length, this.layer.columns.length);
    return this.turnedMean;
  }

  /** The weight with the strongest color. Lines of several heads are compared by single weights, not by their mean. */
  maximum() {
    if (this.state.fixed) return 1;
    return this.state.mode === "lines" ? (this.lines().lines.at(-1)?.weight ?? 1) : this.peak;
  }

  /** The strongest weights of the selected heads, and how many there are in total. */
  lines() {
    const { heads, threshold } = this.state;
    const key = `${this.layer.map.address} ${heads} ${threshold}`;
    if (this.linesKey !== key) {
      this.linesKey = key;
      this.linesFound = this.layer.strongest(heads, threshold, MOST_LINES);
    }
    return this.linesFound;
  }

  /** How many rows are shown: all, or those decoded so far. */
  visibleRows() {
    const { map, step } = this.state;
    return map.grows && step !== null ? step : this.data.axes[map.rows].length;
  }

  weightAt({ row, column }) {
    return this.mean[row * this.layer.columns.length + column];
  }

  /** The strongest links of a token, each with the other token's name, the weight and the weight as text. */
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

  /** The strongest links, strongest first. Lines of several heads are ranked one by one, each with its head. */
  strongest() {
    const width = this.layer.columns.length;
    const cells = this.visibleRows() * width;
    const best = [];
    const collect = (matrix, head) => {
      for (let at = 0; at < cells; at += 1) {
        const weight = matrix(at);
        if (weight <= (best.length < PAIRS ? 0 : best.at(-1).weight)) continue;
        best.splice(best.findLastIndex((link) => link.weight >= weight) + 1, 0, { at, weight, head });
        best.length = Math.min(best.length, PAIRS);
      }
    };
    if (this.showsEachHead()) for (const head of this.state.heads) collect((at) => this.layer.weightAt(head, at), head);
    else collect((at) => this.mean[at], null);
    return best.map(({ at, weight, head }) => ({
      row: this.rowLabels()[Math.floor(at / width)],
      column: this.columnLabels()[at % width],
      head,
      weight,
      text: this.number(weight),
    }));
  }

  /* ---- text and files ---- */

  rowLabels() {
    return this.labels[this.state.map.rows];
  }

  columnLabels() {
    return this.labels[this.state.map.columns];
  }

  nameOf({ axis, index }) {
    return (axis === "row" ? this.rowLabels() : this.columnLabels())[index];
  }

  /** Whether a label on either axis begins with the dot that marks the start of a word. */
  hasWordMarks() {
    return [...this.rowLabels(), ...this.columnLabels()].some((label) => label.startsWith(WORD_MARK) && label.length > 1);
  }

  number(weight) {
    return weightText(weight, this.data.levels);
  }

  headsInWords() {
    const { heads } = this.state;
    if (heads.length === 1) return `head ${heads[0]}`;
    const which = this.hasAllHeads() ? "all heads" : `heads ${heads.join(", ")}`;
    return this.showsEachHead() ? which : `mean of ${which}`;
  }

  /** A remark beside numbers that are means where the drawing shows each head. */
  meanRemark() {
    return this.showsEachHead() ? `mean of ${this.headsInWords()}` : null;
  }

  caption() {
    if (this.state.mode === "overview") return `${this.state.map.label}, all layers and heads`;
    return `${this.state.map.address} · ${this.headsInWords()}`;
  }

  fileName() {
    const { heads, map } = this.state;
    return `${map.address}.${this.hasAllHeads() && heads.length > 1 ? "all-heads" : `head-${heads.join("-")}`}`;
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

export function everyHead(map) {
  return Array.from({ length: map.heads }, (_, head) => head);
}

function labelOf(token) {
  const begins = token.startsWith(SPACE_MARK) && token.length > 1;
  return visibleText(begins ? WORD_MARK + token.slice(1) : token);
}

function groupByKind(maps) {
  const kinds = new Map();
  for (const map of maps) kinds.set(map.kind, [...(kinds.get(map.kind) ?? []), map]);
  for (const layers of kinds.values()) layers.sort((one, other) => one.layer - other.layer);
  return kinds;
}

/** The token pointed at: that of the row, or else that of the column. */
function tokenOf(hover) {
  if (hover?.row !== undefined) return { axis: "row", index: hover.row };
  return hover?.column !== undefined ? { axis: "column", index: hover.column } : null;
}
