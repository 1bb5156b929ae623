// Charts as SVG, drawn for the width that they have, and again when it or the language changes.

import { fill, h, svg } from "./dom.js";
import { bind } from "./i18n.js";

const MARGIN = { left: 46, right: 14, top: 14, bottom: 40 };

// A place for a chart. `draw` gets the width and returns the parts of the picture.
function canvas(height, label, draw) {
  const node = h("div", { class: "chart" });
  let width = 0;
  const redraw = () => {
    if (width < 40) return;
    const picture = svg(
      "svg",
      { viewBox: `0 0 ${width} ${height}`, width, height, role: "img" },
      draw(width),
    );
    bind(picture, "label", () => picture.setAttribute("aria-label", label()));
    fill(node, picture);
  };
  new ResizeObserver(([entry]) => {
    const found = Math.floor(entry.contentRect.width);
    if (found === width) return;
    width = found;
    redraw();
  }).observe(node);
  bind(node, "chart", redraw);
  node.redraw = redraw;
  return node;
}

const text = (x, y, content, properties = {}) => svg("text", { x, y, ...properties }, content);

// Round numbers from 0 to `most`, about `count` of them.
export function ticks(most, count) {
  const raw = most / count;
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].map((factor) => factor * power).find((one) => one >= raw);
  return Array.from({ length: Math.floor(most / step + 1e-9) + 1 }, (_, at) => at * step);
}

// Lines over x. `series` have `name`, `className` and `points` of `[x, y, low, high]`; `y` has the
// `ticks`, the `format` of a value, and `scale` from a value to 0..1. `marks` are vertical lines with a
// label.
export function lines({ height, label, series, x, y, marks }) {
  return canvas(height, label, (width) => {
    const right = width - MARGIN.right;
    const bottom = height - MARGIN.bottom;
    const atX = (value) => MARGIN.left + ((value - x.min) / (x.max - x.min || 1)) * (right - MARGIN.left);
    const atY = (value) => bottom - y.scale(value) * (bottom - MARGIN.top);
    const grid = y.ticks.map((value) => [
      svg("line", { class: "grid", x1: MARGIN.left, x2: right, y1: atY(value), y2: atY(value) }),
      text(MARGIN.left - 8, atY(value) + 4, y.format(value), { class: "tick", "text-anchor": "end" }),
    ]);
    const foot = ticks(x.max, width < 500 ? 4 : 8)
      .filter((value) => value >= x.min)
      .map((value) =>
        text(atX(value), bottom + 18, String(value), { class: "tick", "text-anchor": "middle" }),
      );
    const shapes = series.map(({ className, points }) => {
      const path = points.map(
        ([at, value], index) => `${index ? "L" : "M"}${atX(at).toFixed(1)} ${atY(value).toFixed(1)}`,
      );
      const upper = points.map(([at, , , high]) => `${atX(at).toFixed(1)} ${atY(high).toFixed(1)}`);
      const lower = points.map(([at, , low]) => `${atX(at).toFixed(1)} ${atY(low).toFixed(1)}`).reverse();
      return [
        points[0]?.length > 2 &&
          svg("polygon", { class: `band ${className}`, points: [...upper, ...lower].join(",") }),
        svg("path", { class: `line ${className}`, d: path.join("") }),
      ];
    });
    const vertical = marks().map(({ at, name, className }, index) => {
      const isRight = atX(at) > (right + MARGIN.left) / 2;
      return [
        svg("line", { class: `mark ${className}`, x1: atX(at), x2: atX(at), y1: MARGIN.top, y2: bottom }),
        text(atX(at) + (isRight ? -6 : 6), bottom - 8 - 16 * index, name, {
          class: `marklabel ${className}`,
          "text-anchor": isRight ? "end" : "start",
        }),
      ];
    });
    return [
      grid,
      foot,
      shapes,
      vertical,
      svg("line", { class: "axis", x1: MARGIN.left, x2: right, y1: bottom, y2: bottom }),
      text(right, height - 3, x.label(), { class: "tick", "text-anchor": "end" }),
    ];
  });
}

// Columns with their labels under them and their values above them.
export function columns({ height, label, bars, format, axis }) {
  return canvas(height, label, (width) => {
    const left = 8;
    const bottom = height - MARGIN.bottom;
    const step = (width - 2 * left) / bars.length;
    const most = Math.max(1, ...bars.map((bar) => bar.value));
    const longest = Math.max(...bars.map((bar) => bar.label.length));
    const every = Math.ceil((longest * 7 + 8) / step);
    return [
      bars.map((bar, at) => {
        const tall = (bar.value / most) * (bottom - MARGIN.top - 14);
        const center = left + (at + 0.5) * step;
        const wide = Math.min(step * 0.72, 64);
        return [
          svg("rect", {
            class: "column",
            x: center - wide / 2,
            width: wide,
            y: bottom - tall,
            rx: 2,
            height: bar.value ? Math.max(tall, 1.5) : 0,
          }),
          bar.value > 0 &&
            step > 30 &&
            text(center, bottom - tall - 5, format(bar.value), {
              class: "tick",
              "text-anchor": "middle",
            }),
          at % every === 0 &&
            text(center, bottom + 18, bar.label, { class: "tick", "text-anchor": "middle" }),
        ];
      }),
      svg("line", { class: "axis", x1: left, x2: width - left, y1: bottom, y2: bottom }),
      text(width - left, height - 3, axis(), { class: "tick", "text-anchor": "end" }),
    ];
  });
}

// A small line without axes, of the newest values.
export function spark({ height, label, values, most }) {
  return canvas(height, label, (width) => {
    const shown = values();
    const top = Math.max(1e-9, ...shown);
    const at = (value, index) =>
      `${((index + most - shown.length) / (most - 1)) * width} ${height - 2 - (value / top) * (height - 6)}`;
    return [svg("polyline", { class: "line spark", points: shown.map(at).join(",") })];
  });
}
