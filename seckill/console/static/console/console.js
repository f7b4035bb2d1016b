// The board. It loads the state of the sale four times a second and shows it; all texts are in the page.
import { element, fill, grouped, id, svg, updateRows, words } from "./elements.js";
import { newestAt, showTraffic } from "./traffic.js";

const LOAD_INTERVAL_MS = 250;
const LATE_LAG = 1000;
const LATE_PARTITION_LAG = 100;
const SALES_MAX = 5;
const board = document.querySelector("#board");

const cell = (content, attributes) => element("td", content, attributes);
const number = (content) => cell(content, { class: "number" });
const shortened = (text) => `${text.slice(0, 8)}…${text.slice(-4)}`;

function duration(ms) {
  const seconds = Math.max(0, Math.round(ms / 1000));
  const two = (n) => String(n).padStart(2, "0");
  return `${Math.floor(seconds / 3600)}:${two(Math.floor(seconds / 60) % 60)}:${two(seconds % 60)}`;
}

const latency = (ms) => (ms === null || ms === undefined ? "–" : fill(words.wMs, grouped(ms)));

// ── verdict ─────────────────────────────────────────────────────────────────────────────────────

const STATES = {
  holds: { mark: "holds", tone: "good", name: words.wHolds, verdict: () => words.wAllHold },
  "in flight": { mark: "flight", tone: "good", name: words.wFlight, verdict: () => words.wSomeFlight },
  broken: {
    mark: "broken",
    tone: "bad",
    name: words.wBroken,
    verdict: (books) => fill(words.wSomeBroken, violated(books).join(", ")),
  },
  unknown: { mark: "unknown", tone: "wait", name: words.wUnknown, verdict: () => words.wNotKnown },
};

const violated = (books) =>
  books.invariants.filter((each) => each.state === "broken").map((each) => `${each.name} ${each.title}`);

function setVerdict(text, tone) {
  if (id("verdict").textContent !== text) id("verdict").textContent = text;
  id("verdict").className = `big ${tone}`;
}

function showVerdict(books, source) {
  if (!books) return;
  const worst = STATES[books.worst];
  if (source.is_stale) setVerdict(words.wNotKnown, "wait"); // what held a while ago is not a verdict
  else setVerdict(worst.verdict(books), worst.tone);
  updateRows(
    id("invariants"),
    books.invariants.map((each) => {
      const residual = each.residual === null ? "?" : grouped(each.residual);
      return element("li", `${each.name} ${each.title}: ${residual}`, { class: STATES[each.state].mark, title: STATES[each.state].name });
    }),
  );
}

// ── sales ───────────────────────────────────────────────────────────────────────────────────────

const allUnits = (sale) => sale.declared + sale.adjusted;

function saleState(sale, nowMs) {
  if (sale.state === "closed") return words.wClosed;
  if (nowMs >= sale.closes_at_ms) return words.wOver;
  if (nowMs < sale.opens_at_ms) return fill(words.wBegins, duration(sale.opens_at_ms - nowMs));
  const left = fill(words.wEnds, duration(sale.closes_at_ms - nowMs));
  return `${sale.state === "paused" ? words.wPaused : words.wOpen} · ${left}`;
}

function saleStrip(sale, nowMs) {
  const percent = (units) => (100 * units) / Math.max(1, allUnits(sale));
  const bar = svg("svg", { class: "units", viewBox: "0 0 100 1", preserveAspectRatio: "none", "aria-hidden": "true" });
  bar.append(
    svg("rect", { class: "sold", width: percent(sale.sold), height: 1 }),
    svg("rect", { class: "held", x: percent(sale.sold), width: percent(sale.reserved), height: 1 }),
  );
  const keys = id("keys").content.cloneNode(true);
  for (const name of ["available", "reserved", "sold"]) keys.querySelector(`[data-key=${name}]`).textContent = grouped(sale[name]);
  keys.querySelector("[data-key=whole]").textContent = grouped(allUnits(sale));
  const title = element("div", [element("strong", `${sale.id} ${sale.name}`), ` ${saleState(sale, nowMs)}`]);
  return element("div", [title, element("div", [bar, keys])], { class: "strip" });
}

function showSales(sales, nowMs) {
  if (!sales) return;
  const empty = board.querySelector("[data-empty]");
  empty.hidden = sales.length > 0;
  id("sales").replaceChildren(empty, ...sales.slice(0, SALES_MAX).map((sale) => saleStrip(sale, nowMs)));
  const choice = id("sale");
  if (!choice || choice.options.length === sales.length) return; // without the permission there is no choice
  const chosen = choice.value;
  choice.replaceChildren(...sales.map((sale) => element("option", `${sale.id} ${sale.name} (${sale.sku})`, { value: sale.id })));
  if (chosen) choice.value = chosen;
}

// ── flow ────────────────────────────────────────────────────────────────────────────────────────

const RATE_WINDOW_MS = 2000;
const totals = {}; // by group: its latest totals
let openGroup = null;

function ratePerSecond(hop, nowMs) {
  const recent = (totals[hop.group] ??= [{ at: nowMs, total: hop.total }]);
  recent.push({ at: nowMs, total: hop.total });
  while (recent.length > 1 && recent[0].at < nowMs - RATE_WINDOW_MS) recent.shift();
  const seconds = (nowMs - recent[0].at) / 1000;
  return seconds > 0 ? Math.max(0, hop.total - recent[0].total) / seconds : 0;
}

function showFlow(hops, nowMs) {
  if (!hops) return;
  updateRows(
    id("hops"),
    hops.map((hop) => {
      const isOpen = String(openGroup === hop.group);
      const button = element("button", hop.title, { type: "button", class: "plain", title: hop.group, "aria-expanded": isOpen, "data-hop": hop.group });
      const rate = fill(words.wPerS, grouped(ratePerSecond(hop, nowMs)));
      const cells = [cell(button), number(rate), number(latency(hop.p50_ms)), number(latency(hop.p99_ms)), number(grouped(hop.lag))];
      return element("tr", cells, hop.lag > LATE_LAG ? { class: "late" } : {});
    }),
  );
  const hop = hops.find((each) => each.group === openGroup);
  id("partitions").hidden = !hop;
  if (hop) showPartitions(hop);
}

function showPartitions(hop) {
  id("partitions-title").textContent = `${hop.title} · ${hop.group}`;
  updateRows(
    id("partition-rows"),
    hop.partitions.map((each) => {
      const progress = each.moved_s === null ? "–" : fill(words.wAgo, grouped(each.moved_s));
      const cells = [cell(`${each.topic}-${each.partition}`), cell(each.consumer || "–"), number(grouped(each.offset)), number(grouped(each.end)), number(grouped(each.lag)), number(progress)];
      return element("tr", cells, each.lag > LATE_PARTITION_LAG ? { class: "late" } : {});
    }),
  );
}

id("hops").addEventListener("click", (event) => {
  const group = event.target.closest("[data-hop]")?.dataset.hop;
  if (!group) return;
  openGroup = openGroup === group ? null : group;
  load(true);
});

// ── outcomes, unfinished work, processes ────────────────────────────────────────────────────────

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

function showUnfinished(unfinished) {
  if (!unfinished) return;
  for (const each of board.querySelectorAll("[data-unfinished]")) each.textContent = grouped(unfinished[each.dataset.unfinished]);
}

function showProcesses(processes) {
  if (!processes || !id("processes")) return;
  updateRows(
    id("processes"),
    processes.map((each) => {
      const restarts = each.restarts ? ` ↻ ${each.restarts}` : "";
      return element("li", `${each.name} ${each.state}${restarts}`, { class: each.is_up ? "holds" : "broken", title: each.missing });
    }),
  );
  const names = [...new Set(processes.flatMap((each) => [each.name, each.name.replace(/\.\d+$/, "")]))];
  if (id("names") && id("names").options.length !== names.length)
    id("names").replaceChildren(...names.map((name) => element("option", "", { value: name })));
}

function showReplicas(partitions) {
  if (!partitions || !id("replicas")) return;
  const brokers = [...new Set(partitions.flatMap((each) => Object.keys(each.ends)))].sort((a, b) => a - b);
  const heads = id("replica-heads");
  while (heads.children.length < 4 + brokers.length) {
    const broker = brokers[heads.children.length - 4];
    heads.append(element("th", fill(id("replicas").dataset.head, broker), { scope: "col", class: "number" }));
  }
  updateRows(
    id("replicas"),
    partitions.map((each) => {
      const ends = brokers.map((broker) => {
        const end = each.ends[broker];
        const isOut = broker in each.ends && !each.in_sync.includes(Number(broker));
        return cell(end === null || end === undefined ? "–" : grouped(end), { class: isOut ? "number late" : "number" });
      });
      const cells = [cell(`${each.topic}-${each.partition}`), number(each.leader < 0 ? "–" : each.leader), number(each.leader_epoch), cell(each.in_sync.join(", ")), ...ends];
      const isWhole = each.leader >= 0 && each.in_sync.length === Object.keys(each.ends).length;
      return element("tr", cells, isWhole ? {} : { class: "late" });
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

// ── loading ─────────────────────────────────────────────────────────────────────────────────────

const LOST_S = 3;
let answeredAt = performance.now();
let isLoading = false;

async function load(isForced) {
  if (isLoading || (document.hidden && !isForced)) return;
  isLoading = true;
  try {
    const response = await fetch(`${words.liveUrl}?since=${newestAt()}`, { headers: { Accept: "application/json" }, signal: AbortSignal.timeout(5000) });
    if (response.status === 401) return location.reload(); // signed out
    if (!response.ok) throw new Error(response.status);
    show(await response.json());
    answeredAt = performance.now();
  } catch {
    // showLoss says so, with the time since the last answer
  } finally {
    isLoading = false;
  }
  showLoss();
}

function show(answer) {
  showTraffic(answer);
  showAges(answer.sources);
  showVerdict(answer.books, answer.sources.books);
  showSales(answer.sales, answer.now_ms);
  showFlow(answer.hops, answer.now_ms);
  showOutcomes(answer.outcomes);
  showUnfinished(answer.unfinished);
  if (answer.switched_off && id("off")) id("off").textContent = answer.switched_off.join(", ") || "–";
  showProcesses(answer.processes);
  showReplicas(answer.replicas);
}

function showLoss() {
  const seconds = Math.round((performance.now() - answeredAt) / 1000);
  id("no-answer").hidden = seconds < LOST_S;
  if (seconds < LOST_S) return;
  const text = fill(words.wNoAnswer, grouped(Math.max(LOST_S, seconds - (seconds % 10)))); // announced every ten seconds
  if (id("no-answer").textContent !== text) id("no-answer").textContent = text;
  setVerdict(words.wNotKnown, "wait");
}

document.querySelector("[data-sale-form]")?.addEventListener("submit", (event) => {
  const question = event.submitter?.dataset.confirm;
  if (question && !confirm(question)) return event.preventDefault();
  event.target.action = event.target.action.replace(/\d+$/, id("sale").value);
});

load();
setInterval(load, LOAD_INTERVAL_MS);
