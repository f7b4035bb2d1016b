// The pipeline: the rate and the lag on each arrow, latency and processes at each stage, and the partitions of one hop.
import { element, fill, grouped, id, latency, updateRows, words } from "./elements.js";

const RATE_WINDOW_MS = 2000;
const LATE_LAG = 1000;
const LATE_PARTITION_LAG = 100;
const totals = {}; // by group: its latest totals
let openGroup = null;

const cell = (content, attributes) => element("td", content, attributes);
const number = (content) => cell(content, { class: "number" });

export function perSecond(recent, nowMs, total) {
  recent.push({ at: nowMs, total });
  while (recent.length > 1 && recent[0].at < nowMs - RATE_WINDOW_MS) recent.shift();
  const seconds = (nowMs - recent[0].at) / 1000;
  return seconds > 0 ? Math.max(0, total - recent[0].total) / seconds : 0;
}

export function showFlow(hops, nowMs) {
  if (!hops) return;
  for (const hop of hops) {
    const edge = document.querySelector(`[data-hop="${hop.group}"]`);
    const rate = perSecond((totals[hop.group] ??= []), nowMs, hop.total);
    setText(edge.querySelector(".rate"), fill(words.wPerS, grouped(rate)));
    setText(edge.querySelector(".lag"), fill(words.wLag, grouped(hop.lag)));
    edge.classList.toggle("late", hop.lag > LATE_LAG);
    edge.classList.toggle("moving", rate >= 1);
    edge.setAttribute("aria-expanded", String(openGroup === hop.group));
    edge.setAttribute("aria-label", `${hop.title}: ${edge.querySelector(".rate").textContent}, ${edge.querySelector(".lag").textContent}`);
    const p99 = document.querySelector(`[data-stage="${hop.group}"] .p99`);
    setText(p99, hop.p99_ms === null || hop.p99_ms === undefined ? "" : fill(words.wP99, latency(hop.p99_ms)));
  }
  const hop = hops.find((each) => each.group === openGroup);
  id("partitions").hidden = !hop;
  if (hop) showPartitions(hop);
}

// How many processes of each stage are up.
export function showStages(processes) {
  for (const stage of document.querySelectorAll("[data-stage]")) {
    const own = (processes ?? []).filter((each) => each.service === stage.dataset.stage);
    const up = own.filter((each) => each.is_up).length;
    stage.classList.toggle("down", own.length > 0 && !up);
    const note = stage.querySelector("[data-up]");
    if (note) setText(note, own.length ? fill(words.wUp, up).replace("{all}", own.length) : "");
  }
}

function setText(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

function showPartitions(hop) {
  setText(id("partitions-title"), `${hop.title} · ${hop.group}`);
  updateRows(
    id("partition-rows"),
    hop.partitions.map((each) => {
      const progress = each.moved_s === null ? "–" : fill(words.wAgo, grouped(each.moved_s));
      const cells = [cell(`${each.topic}-${each.partition}`), cell(each.consumer || "–"), number(grouped(each.offset)), number(grouped(each.end)), number(grouped(each.lag)), number(progress)];
      return element("tr", cells, each.lag > LATE_PARTITION_LAG ? { class: "late" } : {});
    }),
  );
}

// `reload` shows the state at once instead of a quarter of a second later.
export function watchFlow(reload) {
  document.querySelector(".pipeline").addEventListener("click", (event) => {
    const group = event.target.closest("[data-hop]")?.dataset.hop;
    if (!group) return;
    openGroup = openGroup === group ? null : group;
    reload();
  });
  document.addEventListener("keydown", (event) => {
    if (event.key !== "Escape" || !openGroup || document.querySelector("dialog[open]")) return;
    openGroup = null;
    reload();
  });
}
