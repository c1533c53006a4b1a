// Before anything is drawn, so that nobody who chose dark sees a white flash.
"use strict";
try {
  const chosen = localStorage.getItem("tidegate-theme");
  if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
} catch { /* a browser that keeps nothing follows the system */ }
