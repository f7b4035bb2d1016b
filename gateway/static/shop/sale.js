// The live page of a sale: countdown, units and the button. It only changes what the server rendered; all texts are in
// the page.
import { grouped, now, synchronize, updateCountdowns } from "../seckill/clock.js";

const FRESH_TICKET_MS = 90_000; // a ticket is valid for two minutes
const STALE_S = 10;
const box = document.querySelector("#sale");
const form = document.querySelector("#buy");
const spoken = document.querySelector("[data-spoken]");
const staleNotice = document.querySelector("[data-stale]");
let sale = null;
let loadedAt = performance.now();
let ticketAt = form && form.elements.ticket.value ? performance.now() : -Infinity;

synchronize(Number(box.dataset.nowMs));

// The same rule as gateway/pages/sale_phase.py.
function phase() {
  const rendered = box.dataset.phase;
  const state = sale ? sale.state : ["paused", "closed"].includes(rendered) ? rendered : "open";
  if (now() >= Number(box.dataset.closesMs) || !["open", "paused"].includes(state)) return "closed";
  if (now() < Number(box.dataset.opensMs)) return "upcoming";
  if (state === "paused") return "paused";
  if (!sale) return ["upcoming", "paused"].includes(rendered) ? "open" : rendered;
  return { available: "open", all_held: "all_held" }[sale.availability] ?? "sold_out";
}

function show() {
  updateCountdowns();
  const current = phase();
  if (current !== box.dataset.phase) {
    box.dataset.phase = current;
    for (const each of box.querySelectorAll("[data-when]")) each.hidden = each.dataset.when !== current;
    spoken.textContent = box.querySelector(`p[data-when=${current}] .big`).textContent; // for screen readers
    if (form && !form.dataset.sent) form.querySelector("button").disabled = !["open", "all_held"].includes(current);
  }
  const seconds = Math.round((performance.now() - loadedAt) / 1000);
  staleNotice.hidden = seconds < STALE_S;
  const text = staleNotice.dataset.words.replace("{n}", grouped(seconds - (seconds % STALE_S))); // announced every 10 s
  if (seconds >= STALE_S && staleNotice.textContent !== text) staleNotice.textContent = text;
}

function showUnits() {
  for (const each of box.querySelectorAll("[data-value]")) each.textContent = grouped(sale[each.dataset.value]);
  const share = (number) => (sale.declared ? (100 * number) / sale.declared : 0);
  box.querySelector("[data-bar=sold]").setAttribute("width", share(sale.sold));
  box.querySelector("[data-bar=reserved]").setAttribute("x", share(sale.sold));
  box.querySelector("[data-bar=reserved]").setAttribute("width", share(sale.reserved));
}

async function loadSale() {
  if (!document.hidden) {
    try {
      const response = await fetch(box.dataset.saleUrl, { signal: AbortSignal.timeout(5000) });
      if (response.ok) {
        synchronize(Number(response.headers.get("X-Now-Ms")));
        sale = await response.json();
        box.dataset.opensMs = sale.opens_at_ms;
        box.dataset.closesMs = sale.closes_at_ms;
        loadedAt = performance.now();
        showUnits();
        show();
      }
    } catch {
      // the next attempt may succeed; meanwhile the page says how old its numbers are
    }
  } else {
    loadedAt = performance.now();
  }
  const isNearOpening = Math.abs(Number(box.dataset.opensMs) - now()) < 10_000 || phase() !== "upcoming";
  setTimeout(loadSale, (isNearOpening ? 1000 : 3000) * (0.75 + Math.random() / 2));
}

async function renewTicket() {
  const response = await fetch(form.dataset.ticketUrl, {
    method: "POST",
    headers: { "X-CSRFToken": form.elements.csrfmiddlewaretoken.value },
    signal: AbortSignal.timeout(5000),
  });
  if (response.ok && !response.redirected) form.elements.ticket.value = await response.text();
}

if (form) {
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    if (form.dataset.sent) return; // a double click sends once
    form.dataset.sent = "true";
    const button = form.querySelector("button");
    button.disabled = true;
    for (const each of button.querySelectorAll("[data-when]")) each.remove();
    button.textContent = button.dataset.asking;
    try {
      if (performance.now() - ticketAt > FRESH_TICKET_MS) await renewTicket();
    } catch {
      // without a valid ticket the answer is a page with a new one
    }
    form.submit();
  });
}

// A page from the browser's back-forward cache is reloaded, because its attempt may be over.
addEventListener("pageshow", (event) => {
  if (event.persisted) location.reload();
});

show();
setInterval(show, 250);
loadSale();
