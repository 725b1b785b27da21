/**
 * The heat map: a cell for each pair of tokens, drawn only where it is visible.
 *
 * Works on a picture prepared by the viewer, in screen terms: tokens going down and tokens going across, whichever
 * of the two are the queries. Labels stay in place while the cells scroll, like frozen panes of a spreadsheet.
 */

import { fitText, textWidth } from "./pens.js";
import { isLight, levelOf, paintedImage } from "./palette.js";

const AXIS = 20; // space for the names of the axes
const LARGEST_CELL = 44;
const LABEL = { size: 13, down: 15, across: 17 }; // font size, and the cell size from which labels fit; slanted ones need more
const SMALL_LABEL = { size: 11, down: 12, across: 13 };
const TILE_CELL = 8; // cells of this size or more are drawn as tiles, smaller ones as pixels of one image
const DRAWN_ONE_BY_ONE = 12_000;

export const heatMap = { layout, paint, hit };

function layout(picture, space, zoom) {
  const usual = layoutAt(LABEL, picture, space, zoom);
  // If labels would be left out, try smaller ones.
  const smaller = usual.every.across > 1 ? layoutAt(SMALL_LABEL, picture, space, zoom) : usual;
  return smaller.every.across === 1 ? smaller : usual;
}

function layoutAt({ size, ...needs }, picture, space, zoom) {
  const { down, across } = picture;
  const longest = Math.max(48, Math.min(150, space.width * 0.24));
  const downLabels = down.tokens.map((token) => fitText(token, size, longest));
  const acrossLabels = across.tokens.map((token) => fitText(token, size, longest));
  const left = AXIS + Math.max(...downLabels.map((label) => textWidth(label, size))) + 14;
  const reach = Math.max(...acrossLabels.map((label) => textWidth(label, size))) * Math.SQRT1_2;
  const top = AXIS + 10 + reach + 10;
  const room = { width: space.width - left - reach * 0.8 - 6, height: space.height - top - 10 };
  const fit = Math.min(room.width / across.tokens.length, room.height / down.tokens.length, LARGEST_CELL);
  // Short texts may be taller than the window: cells stay large enough to read.
  const legible = Math.min(18, room.width / across.tokens.length);
  const dots = globalThis.devicePixelRatio || 1;
  const wanted = Math.max(1 / dots, Math.max(fit, down.tokens.length <= 64 ? legible : 1)) * zoom;
  const cell = Math.max(1, Math.floor(Math.min(wanted, 72) * dots) / dots); // whole device pixels stay sharp
  const slanted = (acrossLabels.length - 0.5) * cell + overhang(acrossLabels, cell, size);
  return {
    cell,
    left,
    top,
    size,
    downLabels,
    acrossLabels,
    every: { down: Math.ceil(needs.down / cell), across: Math.ceil(needs.across / cell) },
    gap: cell >= 16 ? 2 : cell >= TILE_CELL ? 1 : 0,
    width: left + Math.max(across.tokens.length * cell + 8, slanted),
    height: top + down.tokens.length * cell + 8,
  };
}

/** How far the slanted labels stick out to the right of the last column's middle. */
function overhang(labels, cell, size) {
  let most = 0;
  for (let back = 0; back < Math.min(labels.length, 40); back += 1) {
    const label = labels[labels.length - 1 - back];
    most = Math.max(most, textWidth(label, size) * Math.SQRT1_2 + 14 - back * cell);
  }
  return most;
}

function paint(pen, picture, geometry, view) {
  const { cell, left, top } = geometry;
  const { down, across, theme } = picture;
  const originX = left - view.left;
  const originY = top - view.top;
  const seen = {
    firstDown: Math.max(0, Math.floor(view.top / cell)),
    lastDown: Math.min(down.tokens.length, Math.ceil((view.top + view.height - top) / cell)),
    firstAcross: Math.max(0, Math.floor(view.left / cell)),
    lastAcross: Math.min(across.tokens.length, Math.ceil((view.left + view.width - left) / cell)),
  };
  pen.clip(left - 2, top - 2, view.width - left + 2, view.height - top + 2, () => {
    const few = (seen.lastDown - seen.firstDown) * (seen.lastAcross - seen.firstAcross) <= DRAWN_ONE_BY_ONE;
    if (cell >= TILE_CELL && few) paintTiles(pen, picture, geometry, seen, originX, originY);
    else paintPixels(pen, picture, geometry, originX, originY);
    paintFocus(pen, picture, geometry, originX, originY);
    for (const link of picture.gold) {
      if (link.down >= down.visible || link.across >= across.visible) continue;
      const side = Math.max(2, cell - 2);
      const box = [originX + link.across * cell + 1, originY + link.down * cell + 1, side, side];
      pen.rect(...box, { stroke: theme.gold, line: cell >= 12 ? 2 : 1, radius: Math.min(5, cell / 5) });
    }
    if (picture.hover) {
      const box = [originX + picture.hover.across * cell, originY + picture.hover.down * cell, cell, cell];
      pen.rect(...box, { stroke: theme.ink, line: 2, radius: Math.min(4, cell / 5) });
    }
  });
  pen.clip(0, top - 8, left, view.height - top + 8, () => paintDownLabels(pen, picture, geometry, seen, originY));
  pen.clip(left - 8, 0, view.width - left + 8, top, () => paintAcrossLabels(pen, picture, geometry, seen, originX));
  pen.text(left + 2, 14, `${across.role} →`, { fill: theme.muted, size: 12 });
  pen.text(4, top + 4, `${down.role} →`, { fill: theme.muted, size: 12, angle: 90 });
}

function paintTiles(pen, picture, geometry, seen, originX, originY) {
  const { cell, gap } = geometry;
  const { grid, maximum, table, threshold, down, across, numbers } = picture;
  const radius = cell >= 16 ? 3 : 0;
  for (let row = seen.firstDown; row < Math.min(seen.lastDown, down.visible); row += 1) {
    for (let column = seen.firstAcross; column < Math.min(seen.lastAcross, across.visible); column += 1) {
      const weight = grid[row * across.tokens.length + column];
      const level = weight < threshold ? 0 : levelOf(weight, maximum);
      const x = originX + column * cell + gap / 2;
      const y = originY + row * cell + gap / 2;
      pen.rect(x, y, cell - gap, cell - gap, { fill: table.names[level], radius });
      if (numbers && cell >= 24 && weight >= Math.max(threshold, 0.005)) {
        const text = weight >= 0.995 ? "1" : weight.toFixed(2).slice(1);
        const fill = isLight(table, level) ? "#16171d" : "#ffffff";
        const middle = (cell - gap) / 2;
        pen.text(x + middle, y + middle + 4, text, { fill, size: Math.min(12, cell * 0.36), anchor: "middle" });
      }
    }
  }
}

function paintPixels(pen, picture, geometry, originX, originY) {
  const { cell } = geometry;
  const { grid, maximum, table, threshold, down, across } = picture;
  const width = across.tokens.length;
  const height = down.tokens.length;
  const key = `${maximum} ${threshold} ${down.visible} ${across.visible} ${table.gradient}`;
  if (picture.shared.key !== key || picture.shared.grid !== grid) {
    const values = threshold > 0 ? grid.map((weight) => (weight < threshold ? 0 : weight)) : grid;
    const image = paintedImage(values, width, height, table, maximum);
    const context = image.getContext("2d");
    context.clearRect(0, down.visible, width, height - down.visible);
    context.clearRect(across.visible, 0, width - across.visible, height);
    picture.shared.image = image;
    picture.shared.key = key;
    picture.shared.grid = grid;
  }
  pen.image(picture.shared.image, originX, originY, width * cell, height * cell);
}

/** Fade all cells except the row or column in focus. */
function paintFocus(pen, picture, geometry, originX, originY) {
  const { active, down, across, theme } = picture;
  if (!active) return;
  const { cell } = geometry;
  const width = across.tokens.length * cell;
  const height = down.tokens.length * cell;
  const veil = { fill: theme.paper, alpha: 0.72 };
  const start = active.index * cell;
  if (active.axis === "down") {
    pen.rect(originX, originY, width, start, veil);
    pen.rect(originX, originY + start + cell, width, height - start - cell, veil);
  } else {
    pen.rect(originX, originY, start, height, veil);
    pen.rect(originX + start + cell, originY, width - start - cell, height, veil);
  }
}

function paintDownLabels(pen, picture, geometry, seen, originY) {
  const { cell, left, size, every, downLabels } = geometry;
  const { theme, down } = picture;
  const draw = (index) => {
    const strong = isMarked(picture, "down", index);
    const y = originY + (index + 0.5) * cell + size * 0.36;
    if (strong && every.down > 1) pen.rect(AXIS, y - size, left - AXIS - 4, size + 4, { fill: theme.paper });
    pen.text(left - 8, y, downLabels[index], labelLook(theme, size, strong, index < down.visible, "end"));
  };
  drawThinned(draw, picture, "down", Math.max(0, seen.firstDown - 1), seen.lastDown, every.down);
}

function paintAcrossLabels(pen, picture, geometry, seen, originX) {
  const { cell, top, size, every, acrossLabels } = geometry;
  const { theme, across } = picture;
  const draw = (index) => {
    const strong = isMarked(picture, "across", index);
    const look = labelLook(theme, size, strong, index < across.visible, "start");
    pen.text(originX + (index + 0.5) * cell + size * 0.16, top - 9, acrossLabels[index], { ...look, angle: -45 });
  };
  const slide = Math.ceil(top / cell); // slanted labels of columns further left reach into view
  drawThinned(draw, picture, "across", Math.max(0, seen.firstAcross - slide), seen.lastAcross, every.across);
}

/** Draw every n-th label, with space around highlighted ones. */
function drawThinned(draw, picture, axis, first, last, every) {
  const marked = [];
  for (const index of [picture.hover?.[axis], picture.active?.axis === axis ? picture.active.index : undefined]) {
    if (index !== undefined && index !== null && index >= first && index < last) marked.push(index);
  }
  for (let index = Math.ceil(first / every) * every; index < last; index += every) {
    if (!marked.some((other) => Math.abs(other - index) < every)) draw(index);
  }
  for (const index of new Set(marked)) draw(index);
}

function isMarked(picture, axis, index) {
  return picture.hover?.[axis] === index || (picture.active?.axis === axis && picture.active.index === index);
}

function labelLook(theme, size, strong, visible, anchor) {
  return { fill: strong ? theme.accent : theme.ink, weight: strong ? 650 : 400, alpha: visible ? 1 : 0.28, size, anchor };
}

/** What is at a point of the window: a cell, a label going down, a label going across, or nothing. */
function hit(picture, geometry, view, x, y) {
  const { cell, left, top } = geometry;
  const within = (index, count) => index >= 0 && index < count;
  const down = Math.floor((y + view.top - top) / cell);
  if (y < top) {
    const across = Math.floor((x - (top - 9 - y) + view.left - left) / cell);
    return x >= left - 8 && within(across, picture.across.visible) ? { across } : null;
  }
  if (!within(down, picture.down.visible)) return null;
  if (x < left) return { down };
  const across = Math.floor((x + view.left - left) / cell);
  return within(across, picture.across.visible) ? { down, across } : null;
}
