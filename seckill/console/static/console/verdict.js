// The verdict as four cards, and the sale above them.
import { element, fill, grouped, id, updateRows, words } from "./elements.js";

const MARKS = { holds: "holds", "in flight": "flight", broken: "broken", unknown: "unknown" };
const NAMES = { holds: words.wHolds, "in flight": words.wFlight, broken: words.wBroken, unknown: words.wUnknown };
const BY_GRAVITY = ["broken", "unknown", "in flight", "holds"];

export function setVerdict(text, tone) {
  if (id("verdict").textContent !== text) id("verdict").textContent = text;
  id("verdict").className = tone;
}

function headline(books) {
  switch (books.worst) {
    case "holds":
      return [words.wAllHold, "good"];
    case "in flight":
      return [words.wSomeFlight, "good"];
    case "broken":
      return [fill(words.wSomeBroken, grouped(books.invariants.filter((each) => each.state === "broken").length)), "bad"];
    default:
      return [words.wNotKnown, "wait"];
  }
}

const residual = (each) => (each.residual === null ? "?" : grouped(each.residual));
const line = (each) => `${each.name}: ${residual(each)} ${each.title}`;

function showCard(card, invariants, isStale) {
  const count = (state) => invariants.filter((each) => each.state === state).length;
  const worst = isStale ? "unknown" : BY_GRAVITY.find(count);
  const texts = {
    holds: words.wCardHolds.replaceAll("{n}", count("holds")),
    "in flight": fill(words.wCardFlight, count("in flight")),
    broken: fill(words.wCardBroken, count("broken")),
    unknown: fill(words.wCardUnknown, isStale ? invariants.length : count("unknown")),
  };
  card.className = `judge ${MARKS[worst]}`;
  card.querySelector(".count").textContent = texts[worst];
  const first = worst === "holds" || isStale ? null : invariants.find((each) => each.state === worst);
  const note = card.querySelector(".worst");
  note.textContent = first ? line(first) : isStale ? words.wUnknown : words.wNothing;
  note.title = note.textContent;
  updateRows(
    card.querySelector("ul"),
    invariants.map((each) => element("li", line(each), { class: isStale ? "unknown" : MARKS[each.state], title: isStale ? words.wUnknown : NAMES[each.state] })),
  );
}

export function showVerdict(books, source) {
  if (!books) return;
  if (source.is_stale) setVerdict(words.wNotKnown, "wait"); // what held a while ago is not a verdict
  else setVerdict(...headline(books));
  for (const card of id("invariants").children)
    showCard(card, books.invariants.filter((each) => each.group === card.dataset.group), source.is_stale);
}

// ── the sale ────────────────────────────────────────────────────────────────────────────────────

function duration(ms) {
  const seconds = Math.max(0, Math.round(ms / 1000));
  const two = (n) => String(n).padStart(2, "0");
  const days = Math.floor(seconds / 86_400);
  const text = `${Math.floor(seconds / 3600) % 24}:${two(Math.floor(seconds / 60) % 60)}:${two(seconds % 60)}`;
  return days ? `${fill(words.wDays, days)} ${text}` : text;
}

// In words, and the class that gives them their colour.
function saleState(sale, nowMs) {
  if (sale.state === "closed") return [words.wClosed, "over"];
  if (nowMs >= sale.closes_at_ms) return [words.wEnded, "over"];
  if (nowMs < sale.opens_at_ms) return [`${words.wScheduled} · ${fill(words.wStarts, duration(sale.opens_at_ms - nowMs))}`, "later"];
  const left = fill(words.wEnds, duration(sale.closes_at_ms - nowMs));
  if (sale.state === "paused") return [`${words.wPaused} · ${left}`, "wait"];
  if (!sale.available && sale.reserved) return [`${words.wAllReserved} · ${left}`, "wait"];
  if (!sale.available) return [`${words.wSoldOut} · ${left}`, "over"];
  return [`${words.wOpen} · ${left}`, "good"];
}

const allUnits = (sale) => sale.declared + sale.adjusted;

function showUnits(sale) {
  const percent = (units) => (100 * units) / Math.max(1, allUnits(sale));
  const [sold, held] = id("sale-units").querySelectorAll("rect");
  sold.setAttribute("width", percent(sale.sold));
  held.setAttribute("x", percent(sale.sold));
  held.setAttribute("width", percent(sale.reserved));
  for (const each of document.querySelectorAll("[data-units]"))
    each.textContent = grouped(each.dataset.units === "whole" ? allUnits(sale) : sale[each.dataset.units]);
}

const UNITS = ["declared", "adjusted", "available", "reserved", "sold"];

// One row for all articles of a sale.
function together(articles) {
  const sum = (name) => articles.reduce((total, each) => total + each[name], 0);
  const units = Object.fromEntries(UNITS.map((name) => [name, sum(name)]));
  return { ...articles[0], ...units, sku: articles.map((each) => each.sku).join(", ") };
}

export function showSales(sales, nowMs) {
  if (!sales) return;
  const articles = sales.filter((each) => each.id === sales[0].id);
  const others = articles.length > 1 ? sales : sales.slice(1); // several articles are also listed one by one
  id("no-sale").hidden = sales.length > 0;
  id("sale-units").hidden = !sales.length;
  id("other-sales").hidden = !others.length;
  if (!sales.length) return;
  const sale = together(articles);
  const [text, tone] = saleState(sale, nowMs);
  id("sale-title").textContent = `${sale.id} ${sale.name} · ${sale.sku}`;
  id("sale-state").textContent = text;
  id("sale-state").className = `state ${tone}`;
  showUnits(sale);
  id("other-count").textContent = grouped(others.length);
  updateRows(
    id("others"),
    others.map((each) => element("li", `${each.id} ${each.name} · ${each.sku} · ${saleState(each, nowMs)[0]} · ${grouped(each.sold)} / ${grouped(allUnits(each))}`)),
  );
  showChoice(sales);
}

function showChoice(sales) {
  const choice = id("sale");
  const wanted = JSON.stringify(sales.map((sale) => [sale.id, sale.sku]));
  if (!choice || choice.dataset.sales === wanted) return; // without the permission there is no choice
  const chosen = choice.selectedOptions[0]?.textContent;
  choice.dataset.sales = wanted;
  choice.replaceChildren(...sales.map((sale) => element("option", `${sale.id} ${sale.name} (${sale.sku})`, { value: sale.id, "data-sku": sale.sku })));
  const before = [...choice.options].find((each) => each.textContent === chosen);
  if (before) before.selected = true;
}

document.querySelector("[data-sale-form]")?.addEventListener("submit", (event) => {
  event.target.action = event.target.action.replace(/\d+$/, id("sale").value);
  event.target.elements.sku.value = id("sale").selectedOptions[0].dataset.sku;
});
