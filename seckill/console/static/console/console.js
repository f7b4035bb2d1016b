// The board: asks four times a second what has been seen, and shows it. All words are in the page.
import { element, grouped, id, rows, said, svg, words } from "./elements.js";
import { since, take } from "./peak.js";

const EVERY_MS = 250;
const board = document.querySelector("#board");

const cell = (content, attributes) => element("td", content, attributes);
const number = (content) => cell(content, { class: "number" });
const shortened = (text) => `${text.slice(0, 8)}…${text.slice(-4)}`;

function duration(ms) {
  const seconds = Math.max(0, Math.round(ms / 1000));
  const two = (n) => String(n).padStart(2, "0");
  return `${Math.floor(seconds / 3600)}:${two(Math.floor(seconds / 60) % 60)}:${two(seconds % 60)}`;
}

function took(ms) {
  return ms === null || ms === undefined ? "–" : said(words.wMs, grouped(ms));
}

function uncertain() {
  // what held some seconds ago is no verdict
  if (id("verdict").textContent !== words.wNotKnown) id("verdict").textContent = words.wNotKnown;
  id("verdict").className = "big wait";
}

function verdict(books, source) {
  if (!books) return;
  const classes = { holds: "holds", "in flight": "flight", broken: "broken", unknown: "unknown" };
  const names = { holds: words.wHolds, "in flight": words.wFlight, broken: words.wBroken, unknown: words.wUnknown };
  const broken = books.marks.filter((mark) => mark.state === "broken");
  const text = { holds: words.wAllHold, "in flight": words.wSomeFlight, broken: said(words.wSomeBroken, broken.map((mark) => `${mark.name} ${mark.title}`).join(", ")), unknown: words.wNotKnown }[books.worst];
  const told = id("verdict");
  if (source.stale) uncertain();
  else if (told.textContent !== text) told.textContent = text;
  if (!source.stale) told.className = `big ${{ holds: "good", "in flight": "good", broken: "bad", unknown: "wait" }[books.worst]}`;
  rows(
    id("invariants"),
    books.marks.map((mark) =>
      element("li", `${mark.name} ${mark.title}: ${mark.residual === null ? "?" : grouped(mark.residual)}`, { class: classes[mark.state], title: names[mark.state] }),
    ),
  );
}

function strips(sales, nowMs) {
  if (!sales) return;
  const empty = board.querySelector("[data-empty]");
  empty.hidden = sales.length > 0;
  const whole = (sale) => Math.max(1, sale.declared + sale.adjusted);
  const state = (sale) => {
    if (sale.state === "closed" || nowMs >= sale.closes_at_ms) return sale.state === "closed" ? words.wClosed : words.wOver;
    if (nowMs < sale.opens_at_ms) return said(words.wBegins, duration(sale.opens_at_ms - nowMs));
    const left = said(words.wEnds, duration(sale.closes_at_ms - nowMs));
    return `${sale.state === "paused" ? words.wPaused : words.wOpen} · ${left}`;
  };
  const shown = sales.slice(0, 5).map((sale) => {
    const bar = svg("svg", { class: "units", viewBox: "0 0 100 1", preserveAspectRatio: "none", "aria-hidden": "true" });
    const sold = (100 * sale.sold) / whole(sale);
    bar.append(svg("rect", { class: "sold", width: sold, height: 1 }), svg("rect", { class: "held", x: sold, width: (100 * sale.reserved) / whole(sale), height: 1 }));
    const template = id("keys").content.cloneNode(true);
    for (const name of ["available", "reserved", "sold"]) template.querySelector(`[data-key=${name}]`).textContent = grouped(sale[name]);
    template.querySelector("[data-key=whole]").textContent = grouped(sale.declared + sale.adjusted);
    return element("div", [element("div", [element("strong", `${sale.id} ${sale.name}`), ` ${state(sale)}`]), element("div", [bar, template])], { class: "strip" });
  });
  id("sales").replaceChildren(empty, ...shown);
  const choice = id("sale");
  if (!choice) return; // this operator may not operate
  if (choice.options.length !== sales.length) {
    const chosen = choice.value; // a new sale is nobody's choice
    choice.replaceChildren(...sales.map((sale) => element("option", `${sale.id} ${sale.name} (${sale.sku})`, { value: sale.id })));
    if (chosen) choice.value = chosen;
  }
}

let before = {};
let opened = null;

function flow(hops, nowMs) {
  if (!hops) return;
  rows(
    id("hops"),
    hops.map((hop) => {
      const earlier = before[hop.group] ?? [{ at: nowMs, total: hop.total }];
      earlier.push({ at: nowMs, total: hop.total });
      while (earlier.length > 1 && earlier[0].at < nowMs - 2000) earlier.shift();
      before[hop.group] = earlier;
      const seconds = (nowMs - earlier[0].at) / 1000;
      const perSecond = seconds > 0 ? Math.max(0, hop.total - earlier[0].total) / seconds : 0;
      const open = element("button", hop.title, { type: "button", class: "plain", title: hop.group, "aria-expanded": String(opened === hop.group), "data-hop": hop.group });
      return element("tr", [cell(open), number(said(words.wPerS, grouped(perSecond))), number(took(hop.p50_ms)), number(took(hop.p99_ms)), number(grouped(hop.lag))], hop.lag > 1000 ? { class: "late" } : {});
    }),
  );
  const hop = hops.find((each) => each.group === opened);
  id("partitions").hidden = !hop;
  if (!hop) return;
  id("partitions-title").textContent = `${hop.title} · ${hop.group}`;
  rows(
    id("partition-rows"),
    hop.partitions.map((each) =>
      element("tr", [cell(`${each.topic}-${each.partition}`), cell(each.consumer || "–"), number(grouped(each.reached)), number(grouped(each.end)), number(grouped(each.lag)), number(each.moved_s === null ? "–" : said(words.wAgo, grouped(each.moved_s)))], each.lag > 100 ? { class: "late" } : {}),
    ),
  );
}

id("hops").addEventListener("click", (event) => {
  const hop = event.target.closest("[data-hop]")?.dataset.hop;
  if (hop) opened = opened === hop ? null : hop;
  if (hop) look(true);
});

function outcomes(found) {
  if (!found) return;
  id("no-outcomes").hidden = found.length > 0;
  rows(
    id("outcomes"),
    found.map((each) =>
      element("tr", [cell(each.words, { title: each.state }), number(grouped(each.count)), number(`${(100 * each.share).toFixed(1)} %`), cell(element("a", shortened(each.example), { href: `${words.traceUrl}?id=${each.example}`, title: each.example }))]),
    ),
  );
}

function waiting(found) {
  if (!found) return;
  for (const each of board.querySelectorAll("[data-waiting]")) each.textContent = grouped(found[each.dataset.waiting]);
}

function processes(found) {
  if (!found || !id("processes")) return;
  rows(
    id("processes"),
    found.map((each) =>
      element("li", `${each.name} ${each.state === "up" ? words.wUp : each.state}${each.restarts ? ` ↻ ${each.restarts}` : ""}`, { class: each.state === "up" ? "holds" : "broken", title: each.missing }),
    ),
  );
  const names = [...new Set(found.flatMap((each) => [each.name, each.name.replace(/\.\d+$/, "")]))];
  if (id("names") && id("names").options.length !== names.length) id("names").replaceChildren(...names.map((name) => element("option", "", { value: name })));
}

function ages(sources) {
  for (const each of document.querySelectorAll("[data-source]")) {
    const source = sources[each.dataset.source];
    const text = source.age_s === null ? source.fault || words.wLoading : source.stale ? `${said(words.wStale, grouped(source.age_s))} ${source.fault}` : "";
    each.classList.toggle("old", Boolean(source.stale || source.fault));
    if (each.textContent !== text) each.textContent = text;
  }
}

// ── asking ──────────────────────────────────────────────────────────────────────────────────────

let heardAt = performance.now();
let asking = false;

async function look(again) {
  if (asking || (document.hidden && !again)) return;
  asking = true;
  try {
    const answer = await fetch(`${words.liveUrl}?since=${since()}`, { headers: { Accept: "application/json" }, signal: AbortSignal.timeout(5000) });
    if (answer.status === 401) return location.reload(); // signed out
    if (!answer.ok) throw new Error(answer.status);
    const told = await answer.json();
    heardAt = performance.now();
    take(told);
    ages(told.sources);
    verdict(told.books, told.sources.books);
    strips(told.sales, told.now_ms);
    flow(told.hops, told.now_ms);
    outcomes(told.outcomes);
    waiting(told.waiting);
    if (told.off && id("off")) id("off").textContent = told.off.join(", ") || "–";
    processes(told.stack);
  } catch {
    // said below, with its age
  } finally {
    asking = false;
  }
  const seconds = Math.round((performance.now() - heardAt) / 1000);
  id("no-answer").hidden = seconds < 3;
  if (seconds < 3) return;
  const text = said(words.wNoAnswer, grouped(Math.max(3, seconds - (seconds % 10))));
  if (id("no-answer").textContent !== text) id("no-answer").textContent = text; // it is read out: not every second
  uncertain();
}

document.querySelector("[data-sale-form]")?.addEventListener("submit", (event) => {
  const question = event.submitter?.dataset.confirm;
  if (question && !confirm(question)) return event.preventDefault();
  event.target.action = event.target.action.replace(/\d+$/, id("sale").value);
});

look();
setInterval(look, EVERY_MS);
