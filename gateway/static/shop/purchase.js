// One purchase, live. The stream says that something has changed; the words come from the server, so nothing is guessed.
import { grouped, heard, tick } from "../seckill/clock.js";

const POLL_MS = 2000;
const box = document.querySelector("#purchase");
const lost = document.querySelector("[data-lost]");
const spoken = document.querySelector("[data-spoken]");
let polling = null;
let source = null;
const away = { stream: false, poll: false };

function tellLost(which, is) {
  away[which] = is;
  lost.hidden = !(away.stream || away.poll);
}

const part = () => box.querySelector("[data-state]");

function read() {
  heard(Number(part().dataset.nowMs));
  tick();
  if ("over" in part().dataset) end();
}

function place(told) {
  const ahead = box.querySelector("[data-ahead-words]");
  const eta = box.querySelector("[data-eta]");
  if (told.position !== null)
    ahead.textContent = told.position
      ? ahead.dataset.aheadWords.replace("{n}", grouped(told.position))
      : ahead.dataset.turnWords;
  const seconds = told.eta_ms === null ? null : Math.max(1, Math.round(told.eta_ms / 1000));
  eta.textContent =
    seconds === null
      ? eta.dataset.unknown
      : seconds < 90
        ? eta.dataset.seconds.replace("{n}", seconds)
        : eta.dataset.minutes.replace("{n}", Math.round(seconds / 60));
}

async function look() {
  try {
    const answer = await fetch(box.dataset.fragmentUrl, { signal: AbortSignal.timeout(8000) });
    if (answer.redirected) return location.reload(); // signed out meanwhile
    if (!answer.ok) throw new Error(answer.status);
    const text = (await answer.text()).trim();
    tellLost("poll", false);
    const before = part().dataset.state + ("over" in part().dataset);
    const fresh = new DOMParser().parseFromString(text, "text/html").body.firstElementChild;
    heard(Number(fresh.dataset.nowMs));
    const isNew = fresh.dataset.state + ("over" in fresh.dataset) !== before;
    if (isNew || fresh.dataset.state === "QUEUED") box.replaceChildren(fresh);
    if (isNew) spoken.textContent = fresh.querySelector(".big").textContent; // to a screen reader: news only
    read();
  } catch {
    tellLost("poll", true);
  }
}

function poll(on) {
  if (on && polling === null) polling = setInterval(() => document.hidden || look(), POLL_MS * (0.75 + Math.random() / 2));
  if (!on && polling !== null) polling = clearInterval(polling) ?? null;
}

function listen() {
  source = new EventSource(box.dataset.eventsUrl); // comes back by itself, with Last-Event-ID
  source.addEventListener("open", () => {
    poll(false);
    tellLost("stream", false);
  });
  source.addEventListener("purchase", (event) => {
    const told = JSON.parse(event.data);
    if (told.state === "QUEUED" && part().dataset.state === "QUEUED") place(told);
    else look();
  });
  source.addEventListener("error", () => {
    tellLost("stream", source.readyState !== EventSource.CLOSED); // closed: no stream for us, the page asks
    poll(true); // until the stream is back, or for good
  });
}

function end() {
  poll(false);
  tellLost("stream", false);
  source?.close();
}

read();
setInterval(tick, 250);
if (!("over" in part().dataset)) {
  if (box.dataset.eventsUrl) listen();
  else poll(true);
}
document.addEventListener("visibilitychange", () => document.hidden || "over" in part().dataset || look());
