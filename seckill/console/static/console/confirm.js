// Asks before a form whose button has a question is sent.
document.addEventListener("submit", (event) => {
  const question = event.submitter?.dataset.confirm;
  if (question && !confirm(question)) event.preventDefault();
});
