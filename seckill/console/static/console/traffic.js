// The peak: requests offered, acknowledged and decided each second, how many wait, and what happened meanwhile.
import { TimeChart, timeWindow, WINDOW_MS } from "./chart.js";
import { fill, grouped, id, words } from "./elements.js";

const COLUMNS = ["offered", "acknowledged", "decided", "backlog"]; // of a point, after its time

const axes = {
  formatValue: grouped,
  formatTime: (at) => new Date(at).toLocaleTimeString(document.documentElement.lang, { hour12: false }),
};
const rates = new TimeChart(id("rates"), {
  ...axes,
  valueLabel: words.wPerSecond,
  series: ["offered", "acknowledged", "decided"].map((name) => ({ name, label: words[name], dashed: name === "offered" })),
});
const backlog = new TimeChart(id("backlog"), {
  ...axes,
  valueLabel: words.wWaiting,
  series: [{ name: "backlog", label: words.backlog, area: true }],
});

let points = [];
let firstAt; // the time axis begins here until it is full

// The time of the newest point, so that the next answer contains only newer ones.
export const newestAt = () => points.at(-1)?.[0] ?? 0;

export function showTraffic(answer) {
  const now = answer.now_ms;
  points = [...points, ...answer.points].filter((point) => point[0] > now - WINDOW_MS);
  firstAt ??= points[0]?.[0];
  const { from, to } = timeWindow(firstAt ?? now, now);
  rates.update({ from, to, now, points: points.map((point) => point.slice(0, 4)), marks: answer.events });
  backlog.update({ from, to, now, points: points.map((point) => [point[0], point[4]]), marks: [] });
  showNumbers(answer.totals);
}

// The same numbers as text: they are read by people who cannot see the picture.
function showNumbers(totals) {
  if (totals) document.querySelector("[data-total]").textContent = fill(words.wTotal, grouped(totals.offered));
  const last = points.at(-1);
  if (!last) return;
  for (const [column, name] of COLUMNS.entries()) {
    const text = grouped(last[column + 1]);
    const node = document.querySelector(`[data-now=${name}]`);
    node.textContent = name === "backlog" ? text : fill(words.wPerS, text);
    if (name === "offered") document.querySelector("[data-rate=offered]").textContent = node.textContent;
  }
}
