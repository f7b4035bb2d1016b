// The sale, live: countdown, units, the button. Works on what the server has rendered; all words are in the page.
import { grouped, heard, now, tick } from "../seckill/clock.js";

const FRESH_TICKET_MS = 90_000; // a ticket lives for two minutes
const box = document.querySelector("#sale");
const form = document.querySelector("#buy");
const spoken = document.querySelector("[data-spoken]");
const stale = document.querySelector("[data-stale]");
let sale = null;
let heardAt = performance.now();
let ticketAt = form && form.elements.ticket.value ? performance.now() : -Infinity;

heard(Number(box.dataset.nowMs));

function kind() {
  const state = sale ? sale.state : box.dataset.kind === "paused" ? "paused" : box.dataset.kind === "closed" ? "closed" : "open";
  if (now() >= Number(box.dataset.closesMs) || !["open", "paused"].includes(state)) return "closed";
  if (now() < Number(box.dataset.opensMs)) return "upcoming";
  if (state === "paused") return "paused";
  if (!sale) return ["upcoming", "paused"].includes(box.dataset.kind) ? "open" : box.dataset.kind;
  return { available: "open", all_held: "all_held" }[sale.availability] ?? "sold_out";
}

function show() {
  tick();
  const is = kind();
  if (is !== box.dataset.kind) {
    box.dataset.kind = is;
    for (const each of box.querySelectorAll("[data-when]")) each.hidden = each.dataset.when !== is;
    spoken.textContent = box.querySelector(`p[data-when=${is}] .big`).textContent; // to a screen reader
    if (form && !form.dataset.asked) form.querySelector("button").disabled = !["open", "all_held"].includes(is);
  }
  const seconds = Math.round((performance.now() - heardAt) / 1000);
  stale.hidden = seconds < 10;
  const told = stale.dataset.words.replace("{n}", grouped(seconds - (seconds % 10))); // it is read out: not every second
  if (seconds >= 10 && stale.textContent !== told) stale.textContent = told;
}

function units() {
  for (const each of box.querySelectorAll("[data-value]")) each.textContent = grouped(sale[each.dataset.value]);
  const share = (number) => (sale.declared ? (100 * number) / sale.declared : 0);
  box.querySelector("[data-bar=sold]").setAttribute("width", share(sale.sold));
  box.querySelector("[data-bar=reserved]").setAttribute("x", share(sale.sold));
  box.querySelector("[data-bar=reserved]").setAttribute("width", share(sale.reserved));
}

async function look() {
  if (!document.hidden) {
    try {
      const answer = await fetch(box.dataset.saleUrl, { signal: AbortSignal.timeout(5000) });
      if (answer.ok) {
        heard(Number(answer.headers.get("X-Now-Ms")));
        sale = await answer.json();
        box.dataset.opensMs = sale.opens_at_ms;
        box.dataset.closesMs = sale.closes_at_ms;
        heardAt = performance.now();
        units();
        show();
      }
    } catch {
      // the next look will say; until then `stale` does
    }
  } else {
    heardAt = performance.now();
  }
  const near = Math.abs(Number(box.dataset.opensMs) - now()) < 10_000 || kind() !== "upcoming";
  setTimeout(look, (near ? 1000 : 3000) * (0.75 + Math.random() / 2));
}

async function freshTicket() {
  const answer = await fetch(form.dataset.ticketUrl, {
    method: "POST",
    headers: { "X-CSRFToken": form.elements.csrfmiddlewaretoken.value },
    signal: AbortSignal.timeout(5000),
  });
  if (answer.ok && !answer.redirected) form.elements.ticket.value = await answer.text();
}

if (form) {
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    if (form.dataset.asked) return; // a double click is one
    form.dataset.asked = "true";
    const button = form.querySelector("button");
    button.disabled = true;
    for (const each of button.querySelectorAll("[data-when]")) each.remove();
    button.textContent = button.dataset.asking;
    try {
      if (performance.now() - ticketAt > FRESH_TICKET_MS) await freshTicket();
    } catch {
      // without a ticket the answer is a page that has one
    }
    form.submit();
  });
}

// A page that comes back from the browser's memory is asked for anew: its try may be over.
addEventListener("pageshow", (event) => {
  if (event.persisted) location.reload();
});

show();
setInterval(show, 250);
look();
