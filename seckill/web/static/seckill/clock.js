// The server's time. The device's own clock is never used. The least delayed answer gives the largest offset.
let offsetMs = -Infinity;

export function synchronize(nowMs) {
  if (Number.isFinite(nowMs) && nowMs > 0) offsetMs = Math.max(offsetMs, nowMs - performance.now());
}

export function now() {
  return offsetMs + performance.now();
}

// h:mm:ss, with the days before it if there are any. `inDays` is "{n} d" in the reader's language.
export function timeLeft(untilMs, inDays) {
  const seconds = Math.max(0, Math.ceil((untilMs - now()) / 1000));
  const two = (number) => String(number).padStart(2, "0");
  const minutes = Math.floor(seconds / 60) % 60;
  const hours = Math.floor(seconds / 3600) % 24;
  const days = Math.floor(seconds / 86_400);
  const text = seconds < 3600 ? `${minutes}:${two(seconds % 60)}` : `${hours}:${two(minutes)}:${two(seconds % 60)}`;
  return days ? `${inDays.replace("{n}", days)} ${text}` : text;
}

export function updateCountdowns() {
  for (const each of document.querySelectorAll("[data-until-ms]")) {
    const text = timeLeft(Number(each.dataset.untilMs), each.dataset.days);
    if (each.textContent !== text) each.textContent = text;
  }
}

export function grouped(number) {
  return number.toLocaleString(document.documentElement.lang);
}
