/**
 * Two pens with the same methods: one paints on a canvas, one writes an SVG document.
 *
 * The same calls draw the screen and the exported file, so the two cannot differ.
 */

import { svg } from "./dom.js";

export const FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Liberation Sans', sans-serif";

const ruler = document.createElement("canvas").getContext("2d");
const widths = new Map();

/** How wide `text` is at `size`. */
export function textWidth(text, size) {
  const key = `${size} ${text}`;
  let width = widths.get(key);
  if (width === undefined) {
    ruler.font = `${size}px ${FONT}`;
    width = ruler.measureText(text).width;
    widths.set(key, width);
  }
  return width;
}

/** `text`, truncated if it is wider than `room` pixels. */
export function fitText(text, size, room) {
  if (textWidth(text, size) <= room) return text;
  const characters = [...text];
  while (characters.length > 1 && textWidth(`${characters.join("")}…`, size) > room) characters.pop();
  return `${characters.join("")}…`;
}

export class CanvasPen {
  constructor(context) {
    this.context = context;
  }

  rect(x, y, width, height, { fill, stroke, line = 1, radius = 0, alpha = 1 }) {
    const { context } = this;
    context.globalAlpha = alpha;
    context.beginPath();
    if (radius) context.roundRect(x, y, width, height, radius);
    else context.rect(x, y, width, height);
    if (fill) {
      context.fillStyle = fill;
      context.fill();
    }
    if (stroke) {
      context.strokeStyle = stroke;
      context.lineWidth = line;
      context.stroke();
    }
    context.globalAlpha = 1;
  }

  text(x, y, text, { fill, size, anchor = "start", angle = 0, weight = 400, alpha = 1 }) {
    const { context } = this;
    context.save();
    context.globalAlpha = alpha;
    context.translate(x, y);
    if (angle) context.rotate((angle * Math.PI) / 180);
    context.font = `${weight} ${size}px ${FONT}`;
    context.fillStyle = fill;
    context.textAlign = { start: "left", middle: "center", end: "right" }[anchor];
    context.fillText(text, 0, 0);
    context.restore();
  }

  curve(fromX, fromY, toX, toY, { stroke, line, alpha = 1 }) {
    const { context } = this;
    const middle = (fromX + toX) / 2;
    context.globalAlpha = alpha;
    context.strokeStyle = stroke;
    context.lineWidth = line;
    context.beginPath();
    context.moveTo(fromX, fromY);
    context.bezierCurveTo(middle, fromY, middle, toY, toX, toY);
    context.stroke();
    context.globalAlpha = 1;
  }

  image(canvas, x, y, width, height) {
    this.context.imageSmoothingEnabled = false;
    this.context.drawImage(canvas, x, y, width, height);
  }

  clip(x, y, width, height, draw) {
    this.context.save();
    this.context.beginPath();
    this.context.rect(x, y, width, height);
    this.context.clip();
    draw();
    this.context.restore();
  }
}

export class SvgPen {
  constructor(width, height, title, paper) {
    this.root = svg("svg", {
      xmlns: "http://www.w3.org/2000/svg",
      width: Math.ceil(width),
      height: Math.ceil(height),
      viewBox: `0 0 ${Math.ceil(width)} ${Math.ceil(height)}`,
      "font-family": FONT,
      role: "img",
    });
    this.root.append(svg("title", { text: title }), svg("rect", { width: "100%", height: "100%", fill: paper }));
  }

  rect(x, y, width, height, { fill, stroke, line = 1, radius = 0, alpha = 1 }) {
    const box = { x: short(x), y: short(y), width: short(width), height: short(height) };
    const look = { rx: radius || null, fill: fill ?? "none", stroke, "stroke-width": stroke ? line : null };
    this.root.append(svg("rect", { ...box, ...look, opacity: opacity(alpha) }));
  }

  text(x, y, text, { fill, size, anchor = "start", angle = 0, weight = 400, alpha = 1 }) {
    const turn = angle ? `rotate(${angle} ${short(x)} ${short(y)})` : null;
    const place = { x: short(x), y: short(y), "text-anchor": anchor, transform: turn };
    const look = { fill, "font-size": size, "font-weight": weight === 400 ? null : weight, opacity: opacity(alpha) };
    this.root.append(svg("text", { ...place, ...look, text }));
  }

  curve(fromX, fromY, toX, toY, { stroke, line, alpha = 1 }) {
    const middle = short((fromX + toX) / 2);
    const path = `M${short(fromX)} ${short(fromY)}C${middle} ${short(fromY)} ${middle} ${short(toY)} ${short(toX)} ${short(toY)}`;
    const look = { fill: "none", stroke, "stroke-width": short(line) };
    this.root.append(svg("path", { d: path, ...look, opacity: opacity(alpha) }));
  }

  image(canvas, x, y, width, height) {
    const box = { x: short(x), y: short(y), width: short(width), height: short(height) };
    const href = canvas.toDataURL("image/png");
    this.root.append(svg("image", { ...box, href, preserveAspectRatio: "none", "image-rendering": "pixelated" }));
  }

  clip(x, y, width, height, draw) {
    draw(); // a file shows the whole drawing, so there is nothing to clip
  }

  toString() {
    return `${new XMLSerializer().serializeToString(this.root)}\n`;
  }
}

function short(number) {
  return Math.round(number * 100) / 100;
}

function opacity(alpha) {
  return alpha === 1 ? null : short(alpha);
}
