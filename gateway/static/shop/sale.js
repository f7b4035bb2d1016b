// The live page of a sale: countdown, units and the buttons. It only changes what the server rendered; all texts are in
// the page.
import { grouped, now, synchronize, updateCountdowns } from "../seckill/clock.js";

const FRESH_TICKET_MS = 90_000; // a ticket is valid for two minutes
const STALE_S = 10;
const MINE_MS = 5000;
const box = document.querySelector("#sale");
const cards = [...box.querySelectorAll("[data-article]")];
const forms = [...box.querySelectorAll("form.buy")];
const spoken = document.querySelector("[data-spoken]");
const staleNotice = document.querySelector("[data-stale]");
let sale = null;
let isSent = false;
let loadedAt = performance.now();
let ticketAt = forms[0]?.elements.ticket.value ? performance.now() : -Infinity;

synchronize(Number(box.dataset.nowMs));

// ── what is shown ───────────────────────────────────────────────────────────────────────────────

// The same rules as gateway/pages/sale_phase.py. Before the first load, the rendered phase says what the stock is like.
const BY_AVAILABILITY = { available: "open", all_held: "all_held", sold_out: "sold_out" };
const BEST_FIRST = ["open", "all_held", "sold_out"];

function phaseOfSale() {
  const rendered = box.dataset.phase;
  const state = sale ? sale.state : ["paused", "closed"].includes(rendered) ? rendered : "open";
  if (now() >= Number(box.dataset.closesMs) || !["open", "paused"].includes(state)) return "closed";
  if (now() < Number(box.dataset.opensMs)) return "upcoming";
  return state === "paused" ? "paused" : null; // null: each article has its own
}

function phaseOfArticle(card) {
  const article = sale?.articles.find((each) => each.sku === card.dataset.article);
  if (article) return BY_AVAILABILITY[article.availability];
  return BEST_FIRST.includes(card.dataset.phase) ? card.dataset.phase : "open";
}

function setPhase(node, phase, ofNode) {
  node.dataset.phase = phase;
  for (const each of node.querySelectorAll("[data-when]")) if (ofNode(each)) each.hidden = each.dataset.when !== phase;
}

function show() {
  updateCountdowns();
  const common = phaseOfSale();
  const phases = cards.map((card) => common ?? phaseOfArticle(card));
  const whole = common ?? BEST_FIRST.find((each) => phases.includes(each));
  cards.forEach((card, number) => {
    if (card.dataset.phase === phases[number]) return;
    setPhase(card, phases[number], () => true);
    const button = card.querySelector("form.buy button");
    if (button && !isSent) button.disabled = !["open", "all_held"].includes(phases[number]);
  });
  if (whole !== box.dataset.phase) {
    setPhase(box, whole, (each) => !each.closest("[data-article]"));
    spoken.textContent = box.querySelector(`p[data-when=${whole}] .big`).textContent; // for screen readers
  }
  showAge();
}

function showAge() {
  const seconds = Math.round((performance.now() - loadedAt) / 1000);
  staleNotice.hidden = navigator.onLine && seconds < STALE_S;
  if (staleNotice.hidden) return;
  const words = navigator.onLine ? staleNotice.dataset.words : staleNotice.dataset.offlineWords;
  const text = words.replace("{n}", grouped(seconds - (seconds % STALE_S))); // announced every 10 s
  if (staleNotice.textContent !== text) staleNotice.textContent = text;
}

function showUnits() {
  for (const article of sale.articles) {
    const card = cards.find((each) => each.dataset.article === article.sku);
    if (!card) continue;
    for (const each of card.querySelectorAll("[data-value]")) each.textContent = grouped(article[each.dataset.value]);
    const share = (number) => (article.declared ? (100 * number) / article.declared : 0);
    card.querySelector("[data-bar=sold]").setAttribute("width", share(article.sold));
    card.querySelector("[data-bar=reserved]").setAttribute("x", share(article.sold));
    card.querySelector("[data-bar=reserved]").setAttribute("width", share(article.reserved));
  }
}

// ── loading ─────────────────────────────────────────────────────────────────────────────────────

async function loadSale() {
  if (document.hidden) return void (loadedAt = performance.now());
  try {
    const response = await fetch(box.dataset.saleUrl, { signal: AbortSignal.timeout(5000) });
    if (!response.ok) return;
    synchronize(Number(response.headers.get("X-Now-Ms")));
    sale = await response.json();
  } catch {
    return; // the next attempt may succeed; meanwhile the page says how old its numbers are
  }
  box.dataset.opensMs = sale.opens_at_ms;
  box.dataset.closesMs = sale.closes_at_ms;
  loadedAt = performance.now();
  showUnits();
  show();
}

async function keepLoading() {
  await loadSale();
  const isNearOpening = Math.abs(Number(box.dataset.opensMs) - now()) < 10_000 || box.dataset.phase !== "upcoming";
  setTimeout(keepLoading, (isNearOpening ? 1000 : 3000) * (0.75 + Math.random() / 2));
}

// A running request also changes in other tabs. Another state changes the buttons, so the page is loaded again.
async function checkMine() {
  const mine = document.querySelector("[data-mine]");
  if (!mine || document.hidden || !navigator.onLine || isSent) return;
  try {
    const response = await fetch(location.pathname, { signal: AbortSignal.timeout(5000) });
    const text = await response.text();
    const fresh = new DOMParser().parseFromString(text, "text/html");
    if (fresh.querySelector("#sale")?.dataset.saleUrl !== box.dataset.saleUrl) return; // an error, or another sale
    if (fresh.querySelector("[data-mine]")?.dataset.mine !== mine.dataset.mine) location.reload();
  } catch {
    // the next check may succeed
  }
}

// ── buying ──────────────────────────────────────────────────────────────────────────────────────

async function renewTicket(form) {
  const response = await fetch(form.dataset.ticketUrl, {
    method: "POST",
    headers: { "X-CSRFToken": form.elements.csrfmiddlewaretoken.value },
    signal: AbortSignal.timeout(5000),
  });
  if (response.ok && !response.redirected) form.elements.ticket.value = await response.text();
}

async function buy(form) {
  const unsent = form.closest("[data-article]").querySelector(".unsent");
  unsent.hidden = navigator.onLine;
  if (!navigator.onLine || isSent) return; // a double click sends once
  isSent = true;
  for (const each of forms) each.querySelector("button").disabled = true;
  const button = form.querySelector("button");
  for (const each of button.querySelectorAll("[data-when]")) each.remove();
  button.textContent = button.dataset.asking;
  try {
    if (performance.now() - ticketAt > FRESH_TICKET_MS) await renewTicket(form);
  } catch {
    // without a valid ticket the answer is a page with a new one
  }
  form.submit();
}

for (const form of forms)
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    buy(form);
  });

// A page from the browser's back-forward cache is reloaded, because its attempt may be over.
addEventListener("pageshow", (event) => {
  if (event.persisted) location.reload();
});
addEventListener("offline", showAge);
addEventListener("online", () => {
  for (const each of box.querySelectorAll(".unsent")) each.hidden = true;
  loadSale();
});

show();
setInterval(show, 250);
setInterval(checkMine, MINE_MS);
keepLoading();
