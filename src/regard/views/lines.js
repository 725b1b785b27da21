/**
 * The lines: two columns of tokens, joined by a curve for each weight; stronger weights are more opaque.
 *
 * Works on the same picture as the heat map: tokens going down stand on the left, tokens going across on the
 * right. Only curves that reach into the window are drawn.
 */

import { fitText, textWidth } from "./pens.js";

const HEADER = 34;
const FAINTEST_SHARE = 0.06; // of the strongest weight; weaker stripes would look like noise

export const headLines = { layout, paint, hit };

function layout(picture, space, zoom) {
  const size = 14;
  const longest = Math.max(56, Math.min(170, space.width * 0.3));
  const downLabels = picture.down.tokens.map((token) => fitText(token, size, longest));
  const acrossLabels = picture.across.tokens.map((token) => fitText(token, size, longest));
  const widest = (labels) => Math.max(84, ...labels.map((label) => textWidth(label, size))) + 20;
  const leftWidth = widest(downLabels);
  const rightWidth = widest(acrossLabels);
  const count = Math.max(downLabels.length, acrossLabels.length);
  const fit = Math.max(22, Math.min(34, (space.height - HEADER - 10) / count));
  const pitch = Math.max(14, Math.min(60, Math.round(fit * zoom)));
  const between = Math.max(90, Math.min(440, space.width - leftWidth - rightWidth - 8));
  const start = Math.max(0, (space.width - leftWidth - rightWidth - between) / 2);
  return {
    size,
    pitch,
    downLabels,
    acrossLabels,
    leftWidth,
    rightWidth,
    leftEdge: start + leftWidth,
    rightEdge: start + leftWidth + between,
    top: HEADER,
    width: start * 2 + leftWidth + between + rightWidth,
    height: HEADER + count * pitch + 10,
  };
}

function paint(pen, picture, geometry, view) {
  const { top, leftEdge, rightEdge, pitch, size } = geometry;
  const { theme, down, across } = picture;
  const middle = (index) => top + (index + 0.5) * pitch - view.top;
  const shift = -view.left;
  pen.clip(0, top, view.width, view.height - top, () => {
    for (const link of picture.gold) {
      if (link.down >= down.visible || link.across >= across.visible || !concerns(picture.active, link)) continue;
      const look = { stroke: theme.gold, line: Math.min(12, pitch * 0.45), alpha: 0.25 };
      pen.curve(leftEdge + shift + 3, middle(link.down), rightEdge + shift - 3, middle(link.across), look);
    }
    for (const line of picture.lines) paintLine(pen, picture, geometry, view, line, middle, shift);
    paintShares(pen, picture, geometry, middle, shift);
    const first = Math.max(0, Math.floor(view.top / pitch));
    const last = Math.ceil((view.top + view.height) / pitch);
    for (let index = first; index < Math.min(last, down.tokens.length); index += 1) {
      const look = tokenLook(picture, "down", index, size);
      pen.text(leftEdge + shift - 10, middle(index) + size * 0.36, geometry.downLabels[index], { ...look, anchor: "end" });
    }
    for (let index = first; index < Math.min(last, across.tokens.length); index += 1) {
      const look = tokenLook(picture, "across", index, size);
      pen.text(rightEdge + shift + 10, middle(index) + size * 0.36, geometry.acrossLabels[index], look);
    }
  });
  pen.text(leftEdge + shift - 10, 17, down.role, { fill: theme.muted, size: 12, anchor: "end" });
  pen.text(rightEdge + shift + 10, 17, across.role, { fill: theme.muted, size: 12 });
}

function paintLine(pen, picture, geometry, view, line, middle, shift) {
  const { active, down, across, maximum } = picture;
  if (line.down >= down.visible || line.across >= across.visible || !concerns(active, line)) return;
  const from = middle(line.down);
  const to = middle(line.across);
  const margin = geometry.pitch;
  if (Math.max(from, to) < geometry.top - margin || Math.min(from, to) > view.height + margin) return;
  const strength = Math.min(1, line.weight / maximum);
  if (strength < 0.012) return;
  const look = { stroke: picture.colorOf(line.head), line: 1 + strength * (active ? 3 : 2), alpha: strength };
  // Heads are drawn side by side, so that equal links stay visible.
  const { heads } = picture;
  const aside = (heads.indexOf(line.head) - (heads.length - 1) / 2) * Math.min(3, (geometry.pitch * 0.6) / heads.length);
  pen.curve(geometry.leftEdge + shift + 3, from + aside, geometry.rightEdge + shift - 3, to + aside, look);
}

/** Behind the tokens linked to the active one: a stripe per head, as opaque as its weight. */
function paintShares(pen, picture, geometry, middle, shift) {
  const { active, theme, heads, maximum } = picture;
  const height = geometry.pitch - 4;
  if (!active) return;
  const ownX = active.axis === "down" ? geometry.leftEdge - geometry.leftWidth : geometry.rightEdge;
  const ownWidth = active.axis === "down" ? geometry.leftWidth : geometry.rightWidth;
  const ownBox = [ownX + shift + 2, middle(active.index) - height / 2, ownWidth - 4, height];
  pen.rect(...ownBox, { stroke: theme.accent, line: 1.5, radius: 5 });
  const otherX = (active.axis === "down" ? geometry.rightEdge : geometry.leftEdge - geometry.leftWidth) + shift + 2;
  const stripe = ((active.axis === "down" ? geometry.rightWidth : geometry.leftWidth) - 4) / heads.length;
  for (const line of picture.lines) {
    if (!concerns(active, line) || line.down >= picture.down.visible || line.across >= picture.across.visible) continue;
    const strength = Math.min(1, line.weight / maximum);
    if (strength < FAINTEST_SHARE) continue;
    const index = active.axis === "down" ? line.across : line.down;
    const x = otherX + heads.indexOf(line.head) * stripe;
    const look = { fill: picture.colorOf(line.head), alpha: strength * 0.45 };
    pen.rect(x, middle(index) - height / 2, stripe, height, look);
  }
}

function concerns(active, line) {
  return !active || line[active.axis] === active.index;
}

function tokenLook(picture, axis, index, size) {
  const strong = picture.active?.axis === axis && picture.active.index === index;
  const alpha = index < picture[axis].visible ? 1 : 0.28;
  return { fill: strong ? picture.theme.accent : picture.theme.ink, weight: strong ? 650 : 400, alpha, size };
}

/** The token at a point of the window, on either side, or nothing. */
function hit(picture, geometry, view, x, y) {
  const index = Math.floor((y + view.top - geometry.top) / geometry.pitch);
  if (y < geometry.top || index < 0) return null;
  const reach = (geometry.rightEdge - geometry.leftEdge) * 0.2; // pointing near the end of a line selects its token
  if (x + view.left < geometry.leftEdge + reach) return index < picture.down.visible ? { down: index } : null;
  if (x + view.left > geometry.rightEdge - reach) return index < picture.across.visible ? { across: index } : null;
  return null;
}
