// Runs before the first paint: applies the saved theme without a flash, and opens the live feed while modules load.
"use strict";
try {
  const saved = localStorage.getItem("tidegate-theme");
  if (saved === "light" || saved === "dark") document.documentElement.dataset.theme = saved;
} catch { /* without storage, the theme follows the system */ }

/** Opens the event stream: the pending response, and the controller that aborts it. */
globalThis.openStream = () => {
  const abort = new AbortController();
  const response = fetch("/v1/live", { signal: abort.signal });
  // feed.js handles the error once it is loaded; until then an error must not count as unhandled.
  response.catch(() => {});
  return { response, abort };
};
globalThis.firstStream = globalThis.openStream();
