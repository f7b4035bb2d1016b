// Dialogs of the board, and the keyboard.
import "./confirm.js";
import { id } from "./elements.js";

const STORED = "console.keys"; // "off": shortcuts of a single key are not used
const PLACES = { l: "[data-hop]", p: "#brokers button, #processes button", e: ".events" };

export function openDialog(name) {
  id(name)?.showModal(); // the browser moves the focus into it, and back when it closes
}

document.addEventListener("click", (event) => {
  const opener = event.target.closest("[data-opens]");
  if (opener) openDialog(opener.dataset.opens);
  if (event.target.closest("[data-cancel]")) event.target.closest("dialog").close();
});
for (const opener of document.querySelectorAll("[data-opens]")) opener.disabled = false;

const toggle = id("use-keys");
try {
  toggle.checked = localStorage.getItem(STORED) !== "off";
} catch {
  // a browser without storage: shortcuts are used
}
toggle.addEventListener("change", () => {
  try {
    localStorage.setItem(STORED, toggle.checked ? "on" : "off");
  } catch {
    // it lasts until the page is left
  }
});

document.addEventListener("keydown", (event) => {
  if (!toggle.checked || event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return;
  if (document.querySelector("dialog[open]") || event.target.closest("input, select, textarea")) return;
  const opener = [...document.querySelectorAll("[data-key]")].find((each) => each.dataset.key === event.key);
  const place = PLACES[event.key] && document.querySelector(PLACES[event.key]);
  if (!opener && !place) return;
  event.preventDefault();
  if (opener) opener.click();
  else place.focus();
});
