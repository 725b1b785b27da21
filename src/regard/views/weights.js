/**
 * Packed attention weights → numbers, one layer at a time, on demand.
 *
 * A layer arrives as packed integers q with weight (q / levels)².
 */

import { unpacked } from "./packing.js";

const CACHE_BYTES = 96e6; // unpacked layers in memory; the least recently used is dropped first

/** The layers of a view; `get(map)` unpacks a layer and caches it. */
export class WeightStore {
  constructor(data) {
    this.data = data;
    this.cache = new Map();
  }

  get(map) {
    const found = this.cache.get(map.address) ?? this.unpack(map);
    this.cache.delete(map.address); // put it last: the order of the map is the order of use
    this.cache.set(map.address, found);
    this.evict();
    return found;
  }

  async unpack(map) {
    const { axes, levels } = this.data;
    const bytes = await unpacked(map.weights);
    const integers = levels > 255 ? new Uint16Array(bytes.buffer) : bytes;
    return new Layer(map, axes[map.rows], axes[map.columns], integers, levels);
  }

  evict() {
    const size = (address) => {
      const map = this.data.maps.find((one) => one.address === address);
      const cells = map.heads * this.data.axes[map.rows].length * this.data.axes[map.columns].length;
      return cells * (this.data.levels > 255 ? 2 : 1);
    };
    let total = [...this.cache.keys()].reduce((sum, address) => sum + size(address), 0);
    for (const address of [...this.cache.keys()].slice(0, -1)) {
      if (total <= CACHE_BYTES) break;
      total -= size(address);
      this.cache.delete(address);
    }
  }
}

/** The unpacked weights of one layer: heads × rows × columns. */
class Layer {
  constructor(map, rows, columns, integers, levels) {
    Object.assign(this, { map, rows, columns, integers, levels });
    this.cells = rows.length * columns.length;
  }

  weight(head, row, column) {
    return this.weightAt(head, row * this.columns.length + column);
  }

  /** The weight at one place of the matrix, counted row by row. */
  weightAt(head, at) {
    const root = this.integers[head * this.cells + at] / this.levels;
    return root * root;
  }

  /** The mean over `heads` as rows × columns numbers. */
  mean(heads) {
    const matrix = new Float32Array(this.cells);
    const scale = 1 / (this.levels * this.levels * heads.length);
    for (const head of heads) {
      const start = head * this.cells;
      for (let at = 0; at < this.cells; at += 1) {
        const root = this.integers[start + at];
        matrix[at] += root * root * scale;
      }
    }
    return matrix;
  }

  /** A small square-ish picture of one head: the largest weight under each of at most `side` × `side` spots. */
  thumbnail(head, side) {
    const height = Math.min(side, this.rows.length);
    const width = Math.min(side, this.columns.length);
    const peaks = new Uint16Array(height * width);
    let at = head * this.cells;
    for (let row = 0; row < this.rows.length; row += 1) {
      const line = Math.floor((row * height) / this.rows.length) * width;
      for (let column = 0; column < this.columns.length; column += 1, at += 1) {
        const spot = line + Math.floor((column * width) / this.columns.length);
        if (this.integers[at] > peaks[spot]) peaks[spot] = this.integers[at];
      }
    }
    const values = Float32Array.from(peaks, (root) => (root / this.levels) ** 2);
    return { width, height, values };
  }

  /** The weights of `heads` that one row or one column takes part in, at or above `threshold`, weakest first. */
  meeting(heads, axis, index, threshold) {
    const lines = [];
    const count = axis === "row" ? this.columns.length : this.rows.length;
    for (const head of heads) {
      for (let other = 0; other < count; other += 1) {
        const [row, column] = axis === "row" ? [index, other] : [other, index];
        const weight = this.weight(head, row, column);
        if (weight > 0 && weight >= threshold) lines.push({ head, row, column, weight });
      }
    }
    return lines.sort((one, other) => one.weight - other.weight);
  }

  /** The strongest weights of `heads` at or above `threshold`, at most `limit`, weakest first. */
  strongest(heads, threshold, limit) {
    const lowest = Math.max(1, Math.ceil(Math.sqrt(threshold) * this.levels - 1e-9));
    const shift = this.levels > 255 ? 8 : 0; // 256 bins are enough to find where to cut
    const bins = new Uint32Array(256);
    let found = 0;
    const each = (visit) => {
      for (const head of heads) {
        const start = head * this.cells;
        for (let at = 0; at < this.cells; at += 1) {
          const root = this.integers[start + at];
          if (root >= lowest) visit(head, at, root);
        }
      }
    };
    each((head, at, root) => {
      bins[root >> shift] += 1;
      found += 1;
    });
    let cut = 255;
    for (let held = bins[255]; cut > 0 && held + bins[cut - 1] <= limit; cut -= 1) held += bins[cut - 1];
    const lines = [];
    const columns = this.columns.length;
    each((head, at, root) => {
      if (root >> shift >= cut && lines.length < limit) {
        lines.push({ head, row: Math.floor(at / columns), column: at % columns, weight: (root / this.levels) ** 2 });
      }
    });
    lines.sort((one, other) => one.weight - other.weight);
    return { lines, found };
  }
}
