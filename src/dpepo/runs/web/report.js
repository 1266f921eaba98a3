// The report's episodes, drawn with the same lanes as the viewer.

const recorded = JSON.parse(document.getElementById("episodes").textContent);
const hasViewer = document.querySelector('a[href="viewer.html"]') !== null;

recorded.examples.forEach(({ row, detail }, number) => {
  const root = document.getElementById(`example-${number}`);
  const task = hasViewer ? el("a", "", short(row.task, 200)) : el("span", "", short(row.task, 200));
  if (hasViewer) task.href = `viewer.html#ep=${encodeURIComponent(row.key)}`;
  root.append(
    el("p", "goal", short(detail.goal, 1000)),
    el("div", "ep-facts", outcomeMark(row), task, el("span", "", "ended by ", el("b", "", STOPS[row.stop] || row.stop)), el("span", "", "turns ", el("b", "", `${row.turns} of ${detail.maxTurns}`))),
  );
  renderEpisode(root, row, detail, recorded, { map: row.turns > 3, lazy: row.turns > 30 });
});

document.getElementById("theme-button").addEventListener("click", toggleTheme);
document.addEventListener("keydown", (event) => { if (event.key === "t" && !event.ctrlKey && !event.metaKey && !event.altKey) toggleTheme(); });
