// For a page that needs only its countdowns to run.
import { synchronize, updateCountdowns } from "./clock.js";

synchronize(Number(document.querySelector("[data-now-ms]")?.dataset.nowMs));
setInterval(updateCountdowns, 250);
