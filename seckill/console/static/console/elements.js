// Building blocks of the board: texts from the page, elements, and tables that are updated in place.
export const words = document.querySelector("#board").dataset;
export const id = (name) => document.getElementById(name);
export const grouped = (number) => Math.round(number).toLocaleString(document.documentElement.lang);
export const fill = (text, n) => text.replace("{n}", n);
export const latency = (ms) => (ms < 10_000 ? fill(words.wMs, grouped(ms)) : fill(words.wS, grouped(ms / 1000)));

export function element(tag, content = "", attributes = {}) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...[content].flat());
  return made;
}

export const svg = (tag, attributes) => {
  const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  return made;
};

// Existing rows are changed, not replaced. Otherwise the keyboard focus and a half-finished click would be lost four
// times a second.
export function updateRows(body, fresh) {
  for (const [at, row] of fresh.entries()) {
    if (at < body.children.length) update(body.children[at], row);
    else body.append(row);
  }
  while (body.children.length > fresh.length) body.lastElementChild.remove();
}

function update(old, fresh) {
  if (old.tagName !== fresh.tagName || old.children.length !== fresh.children.length) return old.replaceWith(fresh);
  for (const name of new Set([...old.getAttributeNames(), ...fresh.getAttributeNames()]))
    if (!fresh.hasAttribute(name)) old.removeAttribute(name);
    else if (old.getAttribute(name) !== fresh.getAttribute(name)) old.setAttribute(name, fresh.getAttribute(name));
  if (!fresh.children.length) {
    if (old.textContent !== fresh.textContent) old.textContent = fresh.textContent;
  } else for (const [at, each] of [...fresh.children].entries()) update(old.children[at], each);
}
