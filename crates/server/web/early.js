// Before anything is drawn, so that nobody who chose dark sees a white flash; and the server is asked while the rest of
// the page is on its way.
"use strict";
try {
  const chosen = localStorage.getItem("tidegate-theme");
  if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
} catch { /* a browser that keeps nothing follows the system */ }

/** The stream of events, and how to end it. */
globalThis.listen = () => {
  const stop = new AbortController();
  const answer = fetch("/v1/live", { signal: stop.signal });
  // Whoever waits for it hears of trouble; until then it is nobody's.
  answer.catch(() => {});
  return { answer, stop };
};
globalThis.early = globalThis.listen();
