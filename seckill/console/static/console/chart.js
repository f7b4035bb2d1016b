// A live chart over time: lines, areas, bands and moments on axes that do not jump. It draws SVG, so the style sheet
// gives it its colours, light and dark, and a test can read what is drawn from data attributes.

const PADDING = { top: 24, bottom: 24, left: 64 };
const LABELS_PX = 104; // room at the right for the name of a line
const NARROW_PX = 560; // a narrower chart has no names at its lines; the page lists them above it
const GAP_MS = 3000; // no line is drawn across a longer silence
const LABEL_PX = 14;
const TIME_PX = 60; // the width of a time at the axis
const TOP_MIN = 10;

function svg(tag, attributes = {}, text = "") {
  const node = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  node.textContent = text;
  return node;
}

// The top of the value axis grows in steps of 1, 2, 5 and shrinks only when less than a third of it is used.
export function nextTop(top, largest) {
  const wanted = Math.max(TOP_MIN, largest);
  if (wanted <= top && wanted >= top / 3) return top;
  const power = 10 ** Math.floor(Math.log10(wanted));
  return [1, 2, 5, 10].map((step) => step * power).find((step) => step >= wanted);
}

export function valueTicks(top, height) {
  if (height < 120) return [0, top / 2, top];
  const steps = String(top)[0] === "2" ? 4 : 5;
  return Array.from({ length: steps + 1 }, (_, at) => (top * at) / steps);
}

export function timeTicks(from, to) {
  const step = [5, 10, 15, 30, 60, 120].map((seconds) => seconds * 1000).find((each) => (to - from) / each <= 7) ?? 300_000;
  const ticks = [];
  for (let at = Math.ceil(from / step) * step; at <= to; at += step) ticks.push(at);
  return ticks;
}

const MINUTE_MS = 60_000;
export const WINDOW_MS = 5 * MINUTE_MS;
const FIRST_WINDOW_MS = 2 * MINUTE_MS;

// The time axis of a chart whose first point was at `firstAt`. It stands still and fills: first two minutes, then five;
// after that it moves on by whole minutes, so that lines do not creep.
export function timeWindow(firstAt, now) {
  const from = Math.floor(firstAt / 10_000) * 10_000;
  if (now <= from + FIRST_WINDOW_MS) return { from, to: from + FIRST_WINDOW_MS };
  if (now <= from + WINDOW_MS) return { from, to: from + WINDOW_MS };
  const to = Math.ceil(now / MINUTE_MS) * MINUTE_MS;
  return { from: to - WINDOW_MS, to };
}

// Keeps labels apart: each moves down until it is clear of the one above it.
export function spread(positions, distance) {
  const order = positions.map((y, index) => ({ y, index })).sort((a, b) => a.y - b.y);
  for (let at = 1; at < order.length; at++) order[at].y = Math.max(order[at].y, order[at - 1].y + distance);
  const result = [];
  for (const each of order) result[each.index] = each.y;
  return result;
}

// Outages that overlap become one band, named after the first of them and the number of the others.
export function mergeBands(marks, now) {
  const bands = [];
  for (const mark of [...marks].sort((a, b) => a.at_ms - b.at_ms)) {
    const end = mark.until_ms ?? now;
    const last = bands.at(-1);
    if (!last || mark.at_ms > last.end) bands.push({ at: mark.at_ms, end, names: [mark.label] });
    else Object.assign(last, { end: Math.max(last.end, end), names: [...new Set([...last.names, mark.label])] });
  }
  return bands.map(({ at, end, names }) => ({ at, end, label: names.length > 1 ? `${names[0]} +${names.length - 1}` : names[0] }));
}

export class TimeChart {
  // `series`: [{ name, label, area, dashed }], in the order of the columns of a point after its time.
  constructor(box, { series, valueLabel, formatValue, formatTime }) {
    Object.assign(this, { box, series, valueLabel, formatValue, formatTime });
    this.top = TOP_MIN;
    this.data = { from: 0, to: 1, now: 1, points: [], marks: [] };
    this.root = svg("svg", { class: "chart-svg", "aria-hidden": "true" });
    this.readout = svg("g", { class: "readout" });
    box.append(this.root);
    this.root.addEventListener("pointermove", (event) => this.#point(event.offsetX));
    this.root.addEventListener("pointerleave", () => this.#point(null));
    new ResizeObserver(() => this.#draw()).observe(box);
  }

  // `points`: [[at_ms, value, …], …], oldest first. `marks`: [{ at_ms, until_ms, label, kind }]; until_ms null: it lasts.
  update(data) {
    this.data = data;
    this.#draw();
  }

  pointerX = null;
  #x = (at) => PADDING.left + ((at - this.data.from) / Math.max(1, this.data.to - this.data.from)) * this.plotWidth;
  #y = (value) => PADDING.top + (1 - value / this.top) * this.plotHeight;

  #draw() {
    const { clientWidth: width, clientHeight: height } = this.box;
    if (!width || !height) return;
    this.isNarrow = width < NARROW_PX;
    this.plotWidth = Math.max(1, width - PADDING.left - (this.isNarrow ? 16 : LABELS_PX));
    this.plotHeight = Math.max(1, height - PADDING.top - PADDING.bottom);
    const points = this.data.points.filter((point) => point[0] >= this.data.from);
    this.visible = points;
    this.top = nextTop(this.top, Math.max(0, ...points.flatMap((point) => point.slice(1))));
    this.root.setAttribute("viewBox", `0 0 ${width} ${height}`);
    this.root.dataset.points = points.length;
    this.root.dataset.top = this.top;
    this.root.replaceChildren(this.#axes(), this.#marks(), this.#lines(points), this.#labels(points), this.readout);
    if (this.pointerX !== null) this.#point(this.pointerX);
  }

  #axes() {
    const group = svg("g", { class: "axes" });
    const right = PADDING.left + this.plotWidth;
    const bottom = PADDING.top + this.plotHeight;
    for (const value of valueTicks(this.top, this.plotHeight)) {
      const y = this.#y(value);
      group.append(
        svg("line", { x1: PADDING.left, x2: right, y1: y, y2: y }),
        svg("text", { x: PADDING.left - 8, y: y + 4, "text-anchor": "end" }, this.formatValue(value)),
      );
    }
    for (const at of timeTicks(this.data.from, this.data.to)) {
      const x = this.#x(at);
      group.append(
        svg("line", { x1: x, x2: x, y1: bottom, y2: bottom + 4 }),
        svg("text", { x: Math.min(x, this.box.clientWidth - TIME_PX / 2), y: bottom + 18, "text-anchor": "middle" }, this.formatTime(at)),
      );
    }
    group.append(svg("text", { x: 0, y: 12, class: "axis-label" }, this.valueLabel));
    return group;
  }

  #marks() {
    const group = svg("g", { class: "chart-marks" });
    const right = PADDING.left + this.plotWidth;
    const { from, to, now } = this.data;
    const visible = this.data.marks.filter((mark) => mark.at_ms <= to && (mark.until_ms ?? Infinity) >= from);
    const bands = mergeBands(visible.filter((mark) => mark.kind === "down"), now);
    for (const band of bands) {
      const left = Math.max(PADDING.left, this.#x(band.at));
      const width = Math.max(2, Math.min(right, this.#x(band.end)) - left);
      group.append(this.#mark({ class: "down", "data-band": band.label }, left, width, 3, band.label));
    }
    const moments = visible.filter((mark) => mark.kind !== "down");
    for (const [row, mark] of moments.entries()) {
      const isRepeated = moments[row - 1]?.label === mark.label && mark.at_ms - moments[row - 1].at_ms < GAP_MS;
      const text = this.isNarrow || isRepeated ? "" : mark.label; // the list of events beside the chart has it
      group.append(this.#mark({ class: mark.kind, "data-moment": mark.label }, this.#x(mark.at_ms), 1, row % 3, text));
    }
    return group;
  }

  #mark(attributes, x, width, row, text) {
    const group = svg("g", attributes);
    group.append(
      svg("rect", { x, y: PADDING.top, width, height: this.plotHeight }),
      svg("text", { x: x + 4, y: PADDING.top + 12 + LABEL_PX * row }, text),
    );
    return group;
  }

  #lines(points) {
    const group = svg("g", { class: "lines" });
    for (const [index, series] of this.series.entries()) {
      const runs = [];
      for (const [at, point] of points.entries()) {
        if (!at || point[0] - points[at - 1][0] > GAP_MS) runs.push([]);
        runs.at(-1).push([this.#x(point[0]).toFixed(1), this.#y(point[index + 1]).toFixed(1)]);
      }
      const line = runs.map((run) => `M${run.map((pair) => pair.join(",")).join("L")}`).join("");
      if (series.area) {
        const base = this.#y(0);
        const closed = runs.map((run) => `M${run[0][0]},${base}L${run.map((pair) => pair.join(",")).join("L")}L${run.at(-1)[0]},${base}Z`);
        group.append(svg("path", { d: closed.join(""), class: `area ${series.name}` }));
      }
      const style = `line ${series.name}${series.dashed ? " dashed" : ""}`;
      group.append(svg("path", { d: line, class: style, "data-series": series.name }));
    }
    return group;
  }

  // The name of each line follows its end, so no legend is needed.
  #labels(points) {
    const group = svg("g", { class: "line-labels" });
    const last = points.at(-1);
    if (!last || this.isNarrow) return group;
    const x = Math.min(this.#x(last[0]), PADDING.left + this.plotWidth) + 8;
    const wanted = this.series.map((_, index) => this.#y(last[index + 1]) + 4);
    const overflow = Math.max(0, Math.max(...spread(wanted, LABEL_PX)) - (PADDING.top + this.plotHeight + 4));
    const placed = spread(wanted, LABEL_PX).map((y) => y - overflow);
    for (const [index, series] of this.series.entries())
      group.append(svg("text", { x, y: placed[index], class: series.name }, series.label));
    return group;
  }

  // Shows the values at the pointer.
  #point(x) {
    this.pointerX = x;
    const found = x === null || !this.visible?.length ? null : this.visible.reduce((a, b) => (Math.abs(this.#x(b[0]) - x) < Math.abs(this.#x(a[0]) - x) ? b : a));
    if (!found) return this.readout.replaceChildren();
    const at = this.#x(found[0]);
    const values = this.series.map((series, index) => `${series.label} ${this.formatValue(found[index + 1])}`);
    const isLeft = at > PADDING.left + this.plotWidth / 2;
    this.readout.replaceChildren(
      svg("line", { x1: at, x2: at, y1: PADDING.top, y2: PADDING.top + this.plotHeight }),
      svg("text", { x: at + (isLeft ? -6 : 6), y: PADDING.top - 6, "text-anchor": isLeft ? "end" : "start" }, [this.formatTime(found[0]), ...values].join(" · ")),
    );
  }
}
