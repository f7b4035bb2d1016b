// The peak: requests offered, acknowledged and decided each second, how many wait, and what happened meanwhile.
import { TimeChart } from "./chart.js";
import { fill, grouped, id, words } from "./elements.js";

const WINDOW_MS = 300_000;
const WINDOW_MS_MIN = 60_000; // a board that was just opened shows one minute and grows from there
const COLUMNS = ["offered", "acknowledged", "decided", "backlog"]; // of a point, after its time

const axes = {
  timeLabel: words.wTime,
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

// The time of the newest point, so that the next answer contains only newer ones.
export const newestAt = () => points.at(-1)?.[0] ?? 0;

export function showTraffic(answer) {
  const to = answer.now_ms;
  points = [...points, ...answer.points].filter((point) => point[0] > to - WINDOW_MS);
  const oldest = points[0]?.[0] ?? to;
  const from = Math.max(to - WINDOW_MS, Math.min(to - WINDOW_MS_MIN, oldest));
  rates.update({ from, to, points: points.map((point) => point.slice(0, 4)), marks: answer.marks });
  backlog.update({ from, to, points: points.map((point) => [point[0], point[4]]), marks: [] });
  showNumbers();
}

// The same numbers as text: they are read by people who cannot see the picture.
function showNumbers() {
  const last = points.at(-1);
  if (!last) return;
  for (const [column, name] of COLUMNS.entries()) {
    const text = grouped(last[column + 1]);
    const node = document.querySelector(`[data-now=${name}]`);
    node.textContent = name === "backlog" ? text : fill(words.wPerS, text);
  }
}
