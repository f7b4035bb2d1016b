// Countdowns of a page that needs nothing else.
import { heard, tick } from "./clock.js";

heard(Number(document.querySelector("[data-now-ms]")?.dataset.nowMs));
setInterval(tick, 250);
