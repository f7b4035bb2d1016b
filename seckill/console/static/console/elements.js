// What the board is made of: words that stand in the page, elements, and tables that are renewed in place.
export const words = document.querySelector("#board").dataset;
export const id = (name) => document.getElementById(name);
export const grouped = (number) => Math.round(number).toLocaleString(document.documentElement.lang);
export const said = (text, n) => text.replace("{n}", n);

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

// What is there stays, and is told what has changed: else four times a second a keyboard's place and a half-done click
// would be lost.
export function rows(body, made) {
  for (const [at, fresh] of made.entries()) {
    if (at < body.children.length) renew(body.children[at], fresh);
    else body.append(fresh);
  }
  while (body.children.length > made.length) body.lastElementChild.remove();
}

function renew(old, fresh) {
  if (old.tagName !== fresh.tagName || old.children.length !== fresh.children.length) return old.replaceWith(fresh);
  for (const name of new Set([...old.getAttributeNames(), ...fresh.getAttributeNames()]))
    if (!fresh.hasAttribute(name)) old.removeAttribute(name);
    else if (old.getAttribute(name) !== fresh.getAttribute(name)) old.setAttribute(name, fresh.getAttribute(name));
  if (!fresh.children.length) {
    if (old.textContent !== fresh.textContent) old.textContent = fresh.textContent;
  } else for (const [at, each] of [...fresh.children].entries()) renew(old.children[at], each);
}
