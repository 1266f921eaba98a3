"use strict";
// Before the first paint: the theme last chosen here, else the system's.
(() => {
  let chosen = null;
  try { chosen = localStorage.getItem("dpepo-theme"); } catch { /* storage is off: the system's theme it is */ }
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const apply = () => { document.documentElement.dataset.theme = chosen || (dark.matches ? "dark" : "light"); };
  dark.addEventListener("change", apply);
  apply();
  globalThis.toggleTheme = () => {
    chosen = document.documentElement.dataset.theme === "dark" ? "light" : "dark";
    try { localStorage.setItem("dpepo-theme", chosen); } catch { /* kept for this visit only */ }
    apply();
  };
})();
