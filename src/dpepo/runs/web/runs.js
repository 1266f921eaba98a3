// The list of runs: nothing but the theme.

document.getElementById("theme-button")?.addEventListener("click", toggleTheme);
document.addEventListener("keydown", (event) => { if (event.key === "t" && !event.ctrlKey && !event.metaKey && !event.altKey) toggleTheme(); });
