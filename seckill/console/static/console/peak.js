// The peak, absorbed: what was offered, acknowledged and decided each second, what waits, and what happened meanwhile.
import { element, grouped, id, said, words } from "./elements.js";
import uPlot from "./uplot/uPlot.esm.js";

const LAST_S = 300;
const SHORTEST_S = 60; // a board that was just opened shows less, and grows

const resolved = (name) => {
  // light-dark() is resolved by the style of an element, not by the property itself
  const probe = element("i", "", { class: "probe" });
  probe.style.color = `var(${name})`;
  document.body.append(probe);
  const found = getComputedStyle(probe).color;
  probe.remove();
  return found;
};
const ink = { line: resolved("--line"), text: resolved("--quiet"), offered: resolved("--quiet"), acknowledged: resolved("--accent"), decided: resolved("--good"), backlog: resolved("--held"), band: resolved("--bad") };

let points = [];
let marks = [];

// Axes do not jump: they grow in steps of 1, 2, 5 and shrink only when less than a third is used.
function steady() {
  let top = 10;
  return (_, __, most) => {
    const wanted = Math.max(10, most ?? 0);
    if (wanted > top || wanted < top / 3) {
      const power = 10 ** Math.floor(Math.log10(wanted));
      top = [1, 2, 5, 10].map((step) => step * power).find((step) => step >= wanted);
    }
    return [0, top];
  };
}

function axes(withTimes) {
  const both = { stroke: ink.text, grid: { stroke: ink.line, width: 1 }, ticks: { show: false }, font: "12px system-ui" };
  return [
    { ...both, show: withTimes, size: 24, values: (_, ticks) => ticks.map((at) => new Date(at * 1000).toISOString().slice(11, 19)) },
    { ...both, size: 56, values: (_, ticks) => ticks.map((n) => grouped(n)) },
  ];
}

function drawMarks(plot) {
  const { ctx, bbox } = plot;
  ctx.save();
  ctx.font = `${12 * devicePixelRatio}px system-ui`;
  ctx.textAlign = "left";
  let row = 0;
  for (const mark of marks) {
    const from = plot.valToPos(mark.at_ms / 1000, "x", true);
    const to = mark.until_ms === null ? bbox.left + bbox.width : plot.valToPos(mark.until_ms / 1000, "x", true);
    if (to < bbox.left || from > bbox.left + bbox.width) continue;
    const left = Math.max(from, bbox.left);
    if (mark.kind === "down") {
      ctx.globalAlpha = 0.15;
      ctx.fillStyle = ink.band;
      ctx.fillRect(left, bbox.top, Math.max(2, to - left), bbox.height);
      ctx.globalAlpha = 1;
    } else {
      ctx.fillStyle = mark.kind === "sold_out" ? ink.decided : ink.text;
      ctx.fillRect(left, bbox.top, devicePixelRatio, bbox.height);
    }
    ctx.fillStyle = mark.kind === "down" ? ink.band : mark.kind === "sold_out" ? ink.decided : ink.text;
    const what = mark.kind === "sold_out" ? words.wSoldout : mark.what;
    ctx.fillText(what, left + 4, bbox.top + (12 + 14 * (row++ % 5)) * devicePixelRatio);
  }
  ctx.restore();
}

function chart(box, series, withTimes, height, more = {}) {
  return new uPlot(
    {
      width: box.clientWidth,
      height,
      series: [{}, ...series],
      axes: axes(withTimes),
      scales: { x: { time: true, range: () => [from(), now()] }, y: { range: steady() } },
      cursor: { points: { show: false }, sync: { key: "peak" }, drag: { x: false, y: false } },
      legend: { show: false },
      padding: [8, 28, withTimes ? 0 : 8, 0], // room for half of the last time, and for the lowest number
      ...more,
    },
    [[], ...series.map(() => [])],
    box,
  );
}

let ahead = 0; // of the server's clock before ours
const now = () => (Date.now() + ahead) / 1000;
const from = () => Math.max(now() - LAST_S, Math.min(now() - SHORTEST_S, (points[0]?.[0] ?? Infinity) / 1000));
const rates = chart(
  id("rates"),
  ["offered", "acknowledged", "decided"].map((name) => ({
    label: words[`w${name[0].toUpperCase()}${name.slice(1)}`],
    stroke: ink[name],
    width: name === "offered" ? 1 : 2,
    dash: name === "offered" ? [4, 4] : undefined,
    points: { show: false },
  })),
  false,
  200,
  { hooks: { drawClear: [drawMarks] } },
);
const backlog = chart(
  id("backlog"),
  [{ label: words.wBacklog, stroke: ink.backlog, fill: ink.backlog, width: 1, points: { show: false } }],
  true,
  96,
);

// What has been seen since the last time, and what the server's clock says.
export function take(told) {
  ahead = told.now_ms - Date.now();
  points = [...points, ...told.points].filter((each) => each[0] > told.now_ms - LAST_S * 1000);
  marks = told.marks;
  draw();
}

export const since = () => points.at(-1)?.[0] ?? 0;

function draw() {
  const at = points.map((each) => each[0] / 1000);
  rates.setData([at, ...[1, 2, 3].map((index) => points.map((each) => each[index]))]);
  backlog.setData([at, points.map((each) => each[4])]);
  const last = points.at(-1);
  if (!last) return;
  for (const [index, name] of [[1, "offered"], [2, "acknowledged"], [3, "decided"]])
    document.querySelector(`[data-now=${name}]`).textContent = said(words.wPerS, grouped(last[index]));
  document.querySelector("[data-now=backlog]").textContent = grouped(last[4]);
}

addEventListener("resize", () => {
  rates.setSize({ width: id("rates").clientWidth, height: 200 });
  backlog.setSize({ width: id("backlog").clientWidth, height: 96 });
});
