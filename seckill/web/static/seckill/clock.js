// The server's time: the device's own clock is never asked. Of several samples the least delayed is the largest.
let ahead = -Infinity;

export function heard(nowMs) {
  if (Number.isFinite(nowMs) && nowMs > 0) ahead = Math.max(ahead, nowMs - performance.now());
}

export function now() {
  return ahead + performance.now();
}

export function left(untilMs) {
  const seconds = Math.max(0, Math.ceil((untilMs - now()) / 1000));
  const two = (number) => String(number).padStart(2, "0");
  const minutes = Math.floor(seconds / 60);
  return minutes < 60
    ? `${minutes}:${two(seconds % 60)}`
    : `${Math.floor(minutes / 60)}:${two(minutes % 60)}:${two(seconds % 60)}`;
}

export function tick() {
  for (const each of document.querySelectorAll("[data-until-ms]")) {
    const text = left(Number(each.dataset.untilMs));
    if (each.textContent !== text) each.textContent = text;
  }
}

export function grouped(number) {
  return number.toLocaleString(document.documentElement.lang);
}
