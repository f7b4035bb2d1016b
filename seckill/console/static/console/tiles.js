// Brokers and services as tiles. A tile opens the dialog in which its process is started, stopped, scaled or killed.
import { openDialog } from "./dialogs.js";
import { element, fill, grouped, id, updateRows, words } from "./elements.js";

const BROKER = "mqcore";
let latest = [];

function tile(process, notes) {
  const restarts = process.restarts ? ` · ↻ ${grouped(process.restarts)}` : "";
  const parts = [
    element("b", process.name),
    element("span", `${process.state}${restarts}`, { class: "state", ...(process.restarts ? { title: fill(words.wRestarts, process.restarts) } : {}) }),
    ...notes.map((note) => element("small", note)),
  ];
  const mark = `tile ${process.is_up ? "up" : process.is_starting ? "soon" : "bad"}`;
  const box = "hasProcessDialog" in words && !process.is_outside
    ? element("button", parts, { type: "button", class: mark, "data-process": process.name, "aria-haspopup": "dialog" })
    : element("div", parts, { class: mark, ...(process.missing ? { title: process.missing } : {}) });
  return element("li", [box]);
}

// What a broker leads, and how many of its copies are in sync; nothing for a single broker.
function brokerNotes(name, replicas) {
  if (!replicas?.length) return [];
  const broker = Number(name.split(".").at(-1));
  const copies = replicas.filter((each) => String(broker) in each.ends);
  const inSync = copies.filter((each) => each.in_sync.includes(broker)).length;
  const leads = copies.filter((each) => each.leader === broker).length;
  return [fill(words.wLeads, grouped(leads)), fill(words.wInSync, grouped(inSync)).replace("{all}", grouped(copies.length))];
}

export function showProcesses(processes, replicas) {
  if (!processes || !id("processes")) return;
  latest = processes;
  const brokers = processes.filter((each) => each.service === BROKER);
  const others = processes.filter((each) => each.service !== BROKER);
  if (id("brokers")) updateRows(id("brokers"), brokers.map((each) => tile(each, brokerNotes(each.name, replicas))));
  updateRows(id("processes"), others.map((each) => tile(each, [])));
  const up = processes.filter((each) => each.is_up).length;
  const text = fill(words.wUp, grouped(up)).replace("{all}", grouped(processes.length));
  if (id("up-count").textContent !== text) id("up-count").textContent = text;
}

document.addEventListener("click", (event) => {
  const name = event.target.closest("[data-process]")?.dataset.process;
  const process = latest.find((each) => each.name === name);
  const dialog = id("d-process");
  if (!process || !dialog) return;
  id("t-process").textContent = process.name;
  id("process-state").textContent = process.state;
  id("process-missing").textContent = process.missing;
  dialog.querySelector("[name=name]").value = process.name;
  for (const each of dialog.querySelectorAll("[data-when]")) each.hidden = (each.dataset.when === "up") !== process.is_up;
  const scale = dialog.querySelector("[data-scale]");
  if (scale) {
    scale.hidden = process.service === process.name || process.service === BROKER;
    scale.querySelector("[name=name]").value = process.service;
    id("count").value = latest.filter((each) => each.service === process.service).length;
  }
  openDialog("d-process");
});

// ── replicas ────────────────────────────────────────────────────────────────────────────────────

const cell = (content, attributes) => element("td", content, attributes);
const number = (content) => cell(content, { class: "number" });

export function showReplicas(partitions) {
  if (!partitions || !id("replica-details")?.open) return;
  const brokers = [...new Set(partitions.flatMap((each) => Object.keys(each.ends)))].sort((a, b) => a - b);
  const heads = id("replica-heads");
  while (heads.children.length < 4 + brokers.length) {
    const broker = brokers[heads.children.length - 4];
    heads.append(element("th", fill(id("replicas").dataset.head, broker), { scope: "col", class: "number" }));
  }
  updateRows(
    id("replicas"),
    partitions.map((each) => {
      const ends = brokers.map((broker) => {
        const end = each.ends[broker];
        const isOut = broker in each.ends && !each.in_sync.includes(Number(broker));
        return cell(end === null || end === undefined ? "–" : grouped(end), { class: isOut ? "number late" : "number" });
      });
      const cells = [cell(`${each.topic}-${each.partition}`), number(each.leader < 0 ? "–" : each.leader), number(each.leader_epoch), cell(each.in_sync.join(", ")), ...ends];
      const isWhole = each.leader >= 0 && each.in_sync.length === Object.keys(each.ends).length;
      return element("tr", cells, isWhole ? {} : { class: "late" });
    }),
  );
}
