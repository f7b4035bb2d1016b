// The server's time. The device's own clock is never used. The least delayed answer gives the largest offset.
let offsetMs = -Infinity;

export function synchronize(nowMs) {
  if (Number.isFinite(nowMs) && nowMs > 0) offsetMs = Math.max(offsetMs, nowMs - performance.now());
}

export function now() {
  return offsetMs + performance.now();
}

export function timeLeft(untilMs) {
  const seconds = Math.max(0, Math.ceil((untilMs - now()) / 1000));
  const two = (number) => String(number).padStart(2, "0");
  const minutes = Math.floor(seconds / 60);
  return minutes < 60
    ? `${minutes}:${two(seconds % 60)}`
    : `${Math.floor(minutes / 60)}:${two(minutes % 60)}:${two(seconds % 60)}`;
}

export function updateCountdowns() {
  for (const each of document.querySelectorAll("[data-until-ms]")) {
    const text = timeLeft(Number(each.dataset.untilMs));
    if (each.textContent !== text) each.textContent = text;
  }
}

export function grouped(number) {
  return number.toLocaleString(document.documentElement.lang);
}
