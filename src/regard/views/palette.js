/**
 * Colors: for weights (low to high) and for heads (easy to tell apart).
 *
 * The color map starts at the background color: light means low on a light page, dark means low on a dark one.
 * The signed map has the background color at zero: orange is below zero, violet above.
 * The gray map is the same everywhere: white is high.
 */

const STOPS = {
  color: {
    light: ["#f6f5f2", "#d5d6ee", "#a3a6e1", "#6c66c8", "#43329a", "#241957"],
    dark: ["#22242e", "#3a3468", "#6250ab", "#a06bc4", "#e39bb0", "#ffe3b8"],
  },
  signed: {
    light: ["#7a2e06", "#d9722a", "#f2c49b", "#f6f5f2", "#bdbfea", "#6c66c8", "#2f2179"],
    dark: ["#ffd0a3", "#d97a38", "#6b4226", "#22242e", "#3f3a78", "#8a7dff", "#dcd8ff"],
  },
  gray: { light: ["#000000", "#ffffff"], dark: ["#000000", "#ffffff"] },
};

const HEADS = {
  light: ["#4a5fd0", "#d9661f", "#1f8f63", "#c2417f", "#8550c9", "#9a7400", "#14859c", "#c93b3b"],
  dark: ["#8b9dff", "#ff9e5e", "#52cf9d", "#f585b9", "#bf97ff", "#d9b640", "#4cc7df", "#ff8080"],
};

/** 256 colors from low to high: their channels for images and their names for drawing. */
export function colorTable(name, dark) {
  const stops = STOPS[name][dark ? "dark" : "light"].map(channelsOf);
  const channels = new Uint8ClampedArray(256 * 3);
  const names = [];
  for (let at = 0; at < 256; at += 1) {
    const place = (at / 255) * (stops.length - 1);
    const lower = Math.min(Math.floor(place), stops.length - 2);
    for (let channel = 0; channel < 3; channel += 1) {
      const from = stops[lower][channel];
      channels[at * 3 + channel] = Math.round(from + (stops[lower + 1][channel] - from) * (place - lower));
    }
    names.push(nameOf(channels.subarray(at * 3, at * 3 + 3)));
  }
  return { channels, names, gradient: `linear-gradient(to right, ${STOPS[name][dark ? "dark" : "light"].join(", ")})` };
}

/** Which of the 256 colors a weight gets. */
export function levelOf(weight, maximum) {
  return Math.max(0, Math.min(255, Math.round((weight / maximum) * 255)));
}

/** Whether text on this color should be dark. */
export function isLight(table, level) {
  const [red, green, blue] = table.channels.subarray(level * 3, level * 3 + 3);
  return red * 0.299 + green * 0.587 + blue * 0.114 > 140;
}

/** The color of a head; beyond eight heads the hues advance by the golden angle. */
export function headColor(head, dark) {
  const named = HEADS[dark ? "dark" : "light"];
  if (head < named.length) return named[head];
  return `hsl(${Math.round((head * 137.508) % 360)} 60% ${dark ? 70 : 42}%)`;
}

/** Weights as an image of one pixel each. */
export function paintedImage(values, width, height, table, maximum) {
  const canvas = document.createElement("canvas");
  canvas.width = width;
  canvas.height = height;
  const context = canvas.getContext("2d");
  const image = context.createImageData(width, height);
  for (let at = 0; at < values.length; at += 1) {
    const level = levelOf(values[at], maximum) * 3;
    image.data[at * 4] = table.channels[level];
    image.data[at * 4 + 1] = table.channels[level + 1];
    image.data[at * 4 + 2] = table.channels[level + 2];
    image.data[at * 4 + 3] = 255;
  }
  context.putImageData(image, 0, 0);
  return canvas;
}

function channelsOf(name) {
  return [1, 3, 5].map((at) => parseInt(name.slice(at, at + 2), 16));
}

function nameOf(channels) {
  return `#${[...channels].map((channel) => channel.toString(16).padStart(2, "0")).join("")}`;
}
