/**
 * Thumbnails: buttons with a small picture of one head.
 */

import { el } from "./dom.js";
import { headColor, paintedImage } from "./palette.js";

/** `look` holds the color table, whether the page is dark, the axes swapped, the scale fixed at 1. */
export function headTile(layer, head, side, look, onClick) {
  const { width, height, values } = layer.thumbnail(head, side);
  const peak = look.fixed ? 1 : values.reduce((most, weight) => Math.max(most, weight), 0) || 1;
  const image = look.transposed
    ? paintedImage(transpose(values, height, width), height, width, look.table, peak)
    : paintedImage(values, width, height, look.table, peak);
  const dot = el("i", { class: "dot", style: { "background-color": headColor(head, look.dark) } });
  const name = `${layer.map.address}, head ${head}`;
  const options = { type: "button", class: "tile", "aria-label": name, title: name, data: { head } };
  return el("button", { ...options, on: { click: onClick } }, image, el("span", {}, dot, String(head)));
}

/** The transpose of a matrix of height × width numbers. */
export function transpose(values, height, width) {
  const turned = new Float32Array(values.length);
  for (let row = 0; row < height; row += 1) {
    for (let column = 0; column < width; column += 1) turned[column * height + row] = values[row * width + column];
  }
  return turned;
}
