// The operator's own time zone, unless the form already names another one than the server's.
const field = document.querySelector("[name=time_zone]");
const own = Intl.DateTimeFormat().resolvedOptions().timeZone;
const isKnown = [...document.querySelectorAll("#time-zones option")].some((each) => each.value === own);
if (field.value === "UTC" && isKnown) field.value = own;
