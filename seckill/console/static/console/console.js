// The board. It loads the state of the sale four times a second and shows it; all texts are in the page.
import "./dialogs.js";
import { element, fill, grouped, id, updateRows, words } from "./elements.js";
import { showFlow, showStages, watchFlow } from "./flow.js";
import { showProcesses, showReplicas } from "./tiles.js";
import { newestAt, showTraffic } from "./traffic.js";
import { setVerdict, showSales, showVerdict } from "./verdict.js";

const LOAD_INTERVAL_MS = 250;
const LOST_S = 3;
const EVENTS_MAX = 60;
let answeredAt = performance.now();
let isLoading = false;

const cell = (content, attributes) => element("td", content, attributes);
const number = (content) => cell(content, { class: "number" });
const shortened = (text) => `${text.slice(0, 8)}…${text.slice(-4)}`;

function showOutcomes(outcomes) {
  if (!outcomes) return;
  id("no-outcomes").hidden = outcomes.length > 0;
  updateRows(
    id("outcomes"),
    outcomes.map((each) => {
      const link = element("a", shortened(each.example), { href: `${words.traceUrl}?id=${each.example}`, title: each.example });
      const share = each.share.toLocaleString(document.documentElement.lang, { style: "percent", minimumFractionDigits: 1 });
      return element("tr", [cell(each.label, { title: each.state }), number(grouped(each.requests)), number(share), cell(link)]);
    }),
  );
}

function showUnfinished(answer) {
  if (!answer.unfinished) return;
  for (const each of document.querySelectorAll("[data-unfinished]")) each.textContent = grouped(answer.unfinished[each.dataset.unfinished]);
  id("off").textContent = answer.switched_off.join(", ") || "–";
}

function showEvents(events) {
  id("no-events").hidden = events.length > 0;
  const language = document.documentElement.lang;
  updateRows(
    id("events"),
    events.slice(-EVENTS_MAX).reverse().map((each) => {
      const at = new Date(each.at_ms);
      const time = element("time", at.toLocaleTimeString(language, { hour12: false }), { datetime: at.toISOString(), title: at.toLocaleString(language) });
      return element("li", [time, element("span", each.text)], { class: `${each.kind}${each.until_ms === null ? " lasting" : ""}` });
    }),
  );
}

function showAges(sources) {
  for (const each of document.querySelectorAll("[data-source]")) {
    const source = sources[each.dataset.source];
    let text = "";
    if (source.age_s === null) text = source.fault || words.wLoading;
    else if (source.is_stale) text = `${fill(words.wStale, grouped(source.age_s))} ${source.fault}`;
    each.classList.toggle("old", Boolean(source.is_stale || source.fault));
    if (each.textContent !== text) each.textContent = text;
  }
}

function show(answer) {
  showTraffic(answer);
  showEvents(answer.events);
  showAges(answer.sources);
  showVerdict(answer.books, answer.sources.books);
  showSales(answer.sales, answer.now_ms);
  showFlow(answer.hops, answer.now_ms);
  showStages(answer.processes);
  showOutcomes(answer.outcomes);
  showUnfinished(answer);
  showProcesses(answer.processes, answer.replicas);
  showReplicas(answer.replicas);
}

// ── loading ─────────────────────────────────────────────────────────────────────────────────────

// Null without an answer; showLoss says so, with the time since the last one.
async function fetchState() {
  try {
    const response = await fetch(`${words.liveUrl}?since=${newestAt()}`, { headers: { Accept: "application/json" }, signal: AbortSignal.timeout(5000) });
    if (response.status === 401) location.reload(); // signed out
    return response.ok ? await response.json() : null;
  } catch {
    return null;
  }
}

async function load(isForced) {
  if (isLoading || (document.hidden && !isForced)) return;
  isLoading = true;
  const answer = await fetchState();
  isLoading = false;
  if (!answer) return;
  answeredAt = performance.now();
  show(answer);
}

function showLoss() {
  const seconds = Math.round((performance.now() - answeredAt) / 1000);
  id("no-answer").hidden = seconds < LOST_S;
  id("board").classList.toggle("old", seconds >= LOST_S);
  if (seconds < LOST_S) return;
  const text = fill(words.wNoAnswer, grouped(Math.max(LOST_S, seconds - (seconds % 10)))); // announced every ten seconds
  if (id("no-answer").textContent !== text) id("no-answer").textContent = text;
  setVerdict(words.wSilent, "wait");
}

document.addEventListener("visibilitychange", () => {
  if (!document.hidden) answeredAt = performance.now(); // a hidden page does not ask, so it is not missing an answer
});
watchFlow(() => load(true));
load();
setInterval(() => {
  showLoss();
  load();
}, LOAD_INTERVAL_MS);
