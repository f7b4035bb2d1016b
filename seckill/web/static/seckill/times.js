// Times in the reader's own time zone, language and region. Without scripts the page shows UTC.
const pageLanguage = document.documentElement.lang;
const isSame = (language) => language.split("-")[0].toLowerCase() === pageLanguage.split("-")[0];
const language = navigator.languages.find(isSame) ?? pageLanguage; // "en-GB" for a page in English
const two = "2-digit";
const styles = {
  time: { hour: two, minute: two, second: two, hourCycle: "h23" },
  full: { dateStyle: "medium", timeStyle: "medium", hourCycle: "h23" },
  opening: { weekday: "short", day: "numeric", month: "short", year: "numeric", hour: two, minute: two, hourCycle: "h23", timeZoneName: "short" },
  precise: { hour: two, minute: two, second: two, fractionalSecondDigits: 3, hourCycle: "h23" },
};

for (const node of document.querySelectorAll("time[data-local]")) {
  const at = new Date(node.dateTime);
  node.title = at.toLocaleString(language, { ...styles.full, timeStyle: "long" });
  if (node.dataset.local in styles) node.textContent = at.toLocaleString(language, styles[node.dataset.local]);
}
