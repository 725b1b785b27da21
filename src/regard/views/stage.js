/**
 * A viewport for a drawing that may be larger than the screen: the canvas stays in place while its space scrolls.
 *
 * A drawing provides layout, paint and hit (see heatmap.js and lines.js).
 */

import { el } from "./dom.js";
import { CanvasPen, SvgPen } from "./pens.js";

export class Stage {
  constructor({ label, onPoint, onPick }) {
    this.canvas = el("canvas", { class: "stage-canvas" });
    this.space = el("div", { class: "stage-space" }, this.canvas);
    this.element = el("div", { class: "stage", tabindex: 0, role: "group", "aria-label": label }, this.space);
    this.context = this.canvas.getContext("2d");
    this.drawing = null;
    this.waiting = false;
    this.element.addEventListener("scroll", () => {
      if (!this.revealing) onPoint(null); // what was under the pointer has moved away
      this.revealing = false;
      this.repaint();
    });
    this.canvas.addEventListener("pointermove", (event) => onPoint(this.at(event)));
    this.canvas.addEventListener("pointerleave", () => onPoint(null));
    this.canvas.addEventListener("click", (event) => onPick(this.at(event)));
    new ResizeObserver(() => this.arrange()).observe(this.element.ownerDocument.body);
    new ResizeObserver((entries) => {
      if (Math.abs(entries[0].contentRect.width - (this.knownWidth ?? 0)) > 1) this.arrange();
    }).observe(this.element);
  }

  /** Show `picture` as `drawing` draws it. */
  show(drawing, picture, zoom) {
    Object.assign(this, { drawing, picture, zoom });
    this.arrange();
  }

  /** Change the picture without a new layout, for example when hovering. */
  update(changes) {
    Object.assign(this.picture, changes);
    this.repaint();
  }

  arrange() {
    const width = this.element.clientWidth;
    if (!this.drawing || width < 60) return;
    this.knownWidth = width;
    const tallest = this.tallest();
    const geometry = this.drawing.layout(this.picture, { width, height: tallest }, this.zoom);
    this.geometry = geometry;
    // Where the cells are, for scripts that drive the page from outside.
    Object.assign(this.element.dataset, { left: geometry.left, top: geometry.top, cell: geometry.cell ?? geometry.pitch });
    this.space.style.width = `${geometry.width}px`;
    this.space.style.height = `${geometry.height}px`;
    this.element.style.height = `${Math.ceil(Math.min(geometry.height, tallest)) + (geometry.width > width ? 14 : 0)}px`;
    this.repaint();
  }

  /** The height available to the drawing: what its panel has left in a notebook's frame, else a share of the window. */
  tallest() {
    const { parentElement } = this.element;
    const style = getComputedStyle(parentElement);
    if (!style.getPropertyValue("--fills-frame")) return Math.max(340, Math.min(820, globalThis.innerHeight * 0.66));
    return parentElement.clientHeight - parseFloat(style.paddingTop) - parseFloat(style.paddingBottom);
  }

  repaint() {
    if (this.waiting || !this.geometry) return;
    this.waiting = true;
    requestAnimationFrame(() => {
      this.waiting = false;
      this.paint();
    });
  }

  paint() {
    const { element, canvas, context, geometry } = this;
    const width = Math.max(1, Math.min(element.clientWidth, Math.ceil(geometry.width)));
    const height = Math.max(1, Math.min(element.clientHeight, Math.ceil(geometry.height)));
    const dots = globalThis.devicePixelRatio || 1;
    if (canvas.width !== Math.round(width * dots) || canvas.height !== Math.round(height * dots)) {
      canvas.width = Math.round(width * dots);
      canvas.height = Math.round(height * dots);
      canvas.style.width = `${width}px`;
      canvas.style.height = `${height}px`;
    }
    context.setTransform(dots, 0, 0, dots, 0, 0);
    context.clearRect(0, 0, width, height);
    this.drawing.paint(new CanvasPen(context), this.picture, geometry, this.view());
  }

  view() {
    const { scrollLeft, scrollTop, clientWidth, clientHeight } = this.element;
    return { left: scrollLeft, top: scrollTop, width: clientWidth, height: clientHeight };
  }

  /** Scroll so that a cell of a heat map is in the window. */
  reveal({ down, across }) {
    const { element, geometry } = this;
    const { cell, left, top } = geometry;
    const into = (from, start, room) => Math.max(start + cell - room, Math.min(from, start));
    const before = [element.scrollTop, element.scrollLeft];
    element.scrollTop = into(element.scrollTop, down * cell, element.clientHeight - top);
    element.scrollLeft = into(element.scrollLeft, across * cell, element.clientWidth - left);
    this.revealing = element.scrollTop !== before[0] || element.scrollLeft !== before[1];
  }

  at(event) {
    if (!this.geometry) return null;
    const box = this.canvas.getBoundingClientRect();
    return this.drawing.hit(this.picture, this.geometry, this.view(), event.clientX - box.left, event.clientY - box.top);
  }

  /** The whole drawing, including parts scrolled out of view, as the text of an SVG file. */
  toSvg(title) {
    const { geometry, picture } = this;
    const pen = new SvgPen(geometry.width, geometry.height, title, picture.theme.paper);
    const everything = { left: 0, top: 0, width: geometry.width, height: geometry.height };
    this.drawing.paint(pen, { ...picture, hover: null }, geometry, everything);
    return pen.toString();
  }
}
