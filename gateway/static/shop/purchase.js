// The live page of one purchase. The stream says that something changed; the text itself comes from the server.
import { grouped, now, synchronize, updateCountdowns } from "../seckill/clock.js";

const POLL_MS = 2000;
const box = document.querySelector("#purchase");
const lostNotice = document.querySelector("[data-lost]");
const spoken = document.querySelector("[data-spoken]");
let pollTimer = null;
let source = null;
const isLost = { stream: false, poll: false, network: false };

function setLost(which, value) {
  isLost[which] = value;
  lostNotice.hidden = !(isLost.stream || isLost.poll || isLost.network);
  lostNotice.querySelector("[data-offline]").hidden = !isLost.network;
  lostNotice.querySelector("[data-unreachable]").hidden = isLost.network;
  lostNotice.querySelector("[data-what-holds]").textContent = box.querySelector("[data-holds]").textContent;
}

const fragment = () => box.querySelector("[data-state]");
const isOver = (node) => "over" in node.dataset;

function readFragment() {
  synchronize(Number(fragment().dataset.nowMs));
  updateCountdowns();
  if (isOver(fragment())) stop();
}

function showPosition(status) {
  const ahead = box.querySelector("[data-ahead-words]");
  const eta = box.querySelector("[data-eta]");
  if (status.position !== null)
    ahead.textContent = status.position
      ? ahead.dataset.aheadWords.replace("{n}", grouped(status.position))
      : ahead.dataset.turnWords;
  showProgress(status.eta_ms);
  const seconds = status.eta_ms === null ? null : Math.max(1, Math.round(status.eta_ms / 1000));
  eta.textContent =
    seconds === null
      ? eta.dataset.unknown
      : seconds < 90
        ? eta.dataset.seconds.replace("{n}", seconds)
        : eta.dataset.minutes.replace("{n}", Math.round(seconds / 60));
}

// The same rule as gateway/pages/purchase_page.py: the part of the expected wait that is over.
function showProgress(etaMs) {
  const bar = box.querySelector("progress");
  const waitedMs = now() - Number(bar.dataset.sinceMs);
  if (etaMs !== null && bar.dataset.sinceMs) bar.value = (100 * waitedMs) / Math.max(1, waitedMs + etaMs);
}

async function loadFragment() {
  try {
    const response = await fetch(box.dataset.fragmentUrl, { signal: AbortSignal.timeout(8000) });
    if (response.redirected) return location.reload(); // the buyer has signed out
    if (!response.ok) throw new Error(response.status);
    const text = (await response.text()).trim();
    setLost("poll", false);
    const before = fragment().dataset.state + isOver(fragment());
    const fresh = new DOMParser().parseFromString(text, "text/html").body.firstElementChild;
    synchronize(Number(fresh.dataset.nowMs));
    const isNew = fresh.dataset.state + isOver(fresh) !== before;
    if (isNew || fresh.dataset.state === "QUEUED") box.replaceChildren(fresh);
    if (isNew) spoken.textContent = fresh.querySelector(".big").textContent; // screen readers announce changes only
    readFragment();
  } catch {
    setLost("poll", true);
  }
}

function setPolling(isOn) {
  if (isOn && pollTimer === null)
    pollTimer = setInterval(() => document.hidden || loadFragment(), POLL_MS * (0.75 + Math.random() / 2));
  if (!isOn && pollTimer !== null) pollTimer = clearInterval(pollTimer) ?? null;
}

function listen() {
  source = new EventSource(box.dataset.eventsUrl); // reconnects by itself, with Last-Event-ID
  source.addEventListener("open", () => {
    setPolling(false);
    setLost("stream", false);
    setLost("poll", false); // a poll that failed meanwhile is not repeated
  });
  source.addEventListener("purchase", (event) => {
    const status = JSON.parse(event.data);
    if (status.state === "QUEUED" && fragment().dataset.state === "QUEUED") showPosition(status);
    else loadFragment();
  });
  source.addEventListener("error", () => {
    setLost("stream", source.readyState !== EventSource.CLOSED); // closed: there is no stream, so polling replaces it
    setPolling(true);
  });
}

function stop() {
  setPolling(false);
  setLost("stream", false);
  source?.close();
}

function setNetwork(isOnline) {
  setLost("network", !isOnline);
  if (isOnline && !isOver(fragment())) loadFragment();
}

readFragment();
setInterval(updateCountdowns, 250);
if (!isOver(fragment())) {
  if (box.dataset.eventsUrl) listen();
  else setPolling(true);
}
addEventListener("offline", () => setNetwork(false));
addEventListener("online", () => setNetwork(true));
document.addEventListener("visibilitychange", () => document.hidden || isOver(fragment()) || loadFragment());
