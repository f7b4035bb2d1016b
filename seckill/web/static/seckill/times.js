// Times in the reader's own time zone and language. Without scripts the page shows UTC.
const language = document.documentElement.lang;
const styles = {
  time: { hour: "2-digit", minute: "2-digit", second: "2-digit", hour12: false },
  full: { dateStyle: "medium", timeStyle: "medium", hour12: false },
  precise: { hour: "2-digit", minute: "2-digit", second: "2-digit", fractionalSecondDigits: 3, hour12: false },
};

for (const node of document.querySelectorAll("time[data-local]")) {
  const at = new Date(node.dateTime);
  node.title = at.toLocaleString(language, { ...styles.full, timeStyle: "long" });
  if (node.dataset.local in styles) node.textContent = at.toLocaleString(language, styles[node.dataset.local]);
}
