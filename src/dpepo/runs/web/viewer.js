// The page: filters, list, overview and the episode that the address names.

const index = readIndex();
const store = new Store();
const byKey = new Map(index.rows.map((row) => [row.key, row]));
const groups = new Map(); // siblings: same stage, step, task and seed
for (const row of index.rows) {
  const name = JSON.stringify([row.stage, row.step, row.task, row.seed]);
  row.group = groups.get(name) || groups.set(name, []).get(name);
  row.group.push(row);
}
const $ = (id) => document.getElementById(id);
const main = $("main");
const list = new EpisodeList($("list"), $("list-space"));
let reader = null; // {show, count} of the open episode
let openKey = null;
let inGroup = null; // key of an episode whose siblings stand side by side
let turnNow = 0;
let searchRun = 0;

const outcomeOf = (row) => (row.outcome === null ? "lost to a fault" : row.success ? "success" : "not solved");
function rewardRange(row) {
  if (typeof row.reward !== "number") return "not scored";
  const tenth = Math.floor(row.reward * 10 + 1e-9);
  return row.reward === 1 ? "exactly 1" : `${(tenth / 10).toFixed(1)} to ${((tenth + 1) / 10).toFixed(1)}`;
}
const FILTERS = [
  ["stage", "Stage", (row) => row.stage],
  ["task", "Task", (row) => row.name],
  ["split", "Split", (row) => row.split || "(none)"],
  ["outcome", "Outcome", outcomeOf],
  ["stop", "Stopped by", (row) => STOPS[row.stop] || row.stop],
  ["reward", "Step reward", rewardRange],
  ["K", "K", (row) => String(row.K)],
];
const AS_RECORDED = new Set(["stage"]); // values in order of first mention; others sorted
const ORDERS = {
  "as recorded": null,
  "latest first": (a, b) => b.at - a.at,
  "most turns": (a, b) => b.turns - a.turns || a.at - b.at,
  "most tokens": (a, b) => b.tokens - a.tokens || a.at - b.at,
  "lowest step reward": (a, b) => (a.reward ?? Infinity) - (b.reward ?? Infinity) || a.at - b.at,
  "most problems": (a, b) => b.problems - a.problems || a.at - b.at,
};
index.rows.forEach((row, at) => { row.at = at; row.words = `${row.key} ${row.task} ${row.goal}`.toLowerCase(); });

function buildFilters() {
  const natural = new Intl.Collator("en", { numeric: true }).compare;
  for (const [id, label, value] of FILTERS) {
    const counts = new Map();
    for (const row of index.rows) counts.set(value(row), (counts.get(value(row)) || 0) + 1);
    if (counts.size < 2) continue; // nothing to choose
    const choices = AS_RECORDED.has(id) ? [...counts] : [...counts].sort((a, b) => natural(a[0], b[0]));
    addSelect(id, label, [["", "all"], ...choices.map(([name, count]) => [name, `${short(name, 60)} (${count.toLocaleString("en")})`])]);
  }
  if (index.rows.length > 1) addSelect("order", "Order", Object.keys(ORDERS).map((name) => [name, name]), $("order"));
}

function addSelect(id, label, options, place = $("selects")) {
  const select = el("select", "");
  select.id = `by-${id}`;
  for (const [value, text] of options) select.append(new Option(text, value));
  select.addEventListener("change", applyFilters);
  place.append(el("label", "select", el("span", "", label), select));
}

function applyFilters() {
  const run = (searchRun += 1);
  const chosen = FILTERS.map(([id, , value]) => [$(`by-${id}`)?.value || "", value]).filter(([wanted]) => wanted);
  const query = $("query").value.trim().toLowerCase();
  const kept = index.rows.filter((row) => chosen.every(([wanted, value]) => value(row) === wanted));
  const order = ORDERS[$("by-order")?.value] || null;
  const arrange = (rows) => { const sorted = [...rows].sort(order || ((a, b) => a.at - b.at)); list.set(sorted); return sorted; };
  if (!query) { arrange(kept); say(kept.length); return; }
  const hits = new Set(kept.filter((row) => row.words.includes(query)));
  arrange(hits);
  say(hits.size, "searching\u2026");
  const rest = kept.filter((row) => !hits.has(row));
  store.search(rest, query, {
    alive: () => run === searchRun,
    found: (row) => hits.add(row),
    progress: (share) => { arrange(hits); say(hits.size, share < 1 ? `searched ${Math.round(share * 100)} %` : ""); },
  }).then(() => { if (run === searchRun) { arrange(hits); say(hits.size); } }).catch(fail);
}

function say(shown, more = "") {
  const all = index.rows.length;
  const text = shown === all ? plural(all, "episode") : `${shown.toLocaleString("en")} of ${plural(all, "episode")}`;
  $("count").textContent = more ? `${text} \u00b7 ${more}` : text;
}

function fail(error) {
  main.replaceChildren(el("div", "page", el("h2", "", "This part of the page could not be read"), el("p", "", `${error.name}: ${error.message}`), el("p", "lead", "The file may be damaged, or the browser older than 2023.")));
}

function backLink() {
  const back = el("a", "back", "\u2190 list");
  back.href = "#";
  return back;
}

// ---- overview

function overview() {
  document.title = `${index.run} \u00b7 dpepo`;
  const page = el("div", "page", backLink(), el("h2", "page-title", short(index.run, 120)));
  if (index.job) page.append(el("p", "lead", `Job ${short(index.job, 60)}, ${index.state} when this page was written.`));
  if (!index.rows.length) page.append(el("p", "lead", "No episodes are recorded in this run yet. They appear here once a job has played some; write this page again then."));
  else page.append(el("p", "lead", `${plural(index.rows.length, "episode")} of ${plural(new Set(index.rows.map((row) => row.task)).size, "task")}. Choose one in the list; j and k go through them.`), stageTable());
  if (index.error) page.append(el("div", "note warn", el("b", "", "This run failed"), el("p", "", short(index.error, 2000))));
  if (!index.prompts) page.append(el("p", "note", "Prompts are left out of this page because the run is large; they are in the run folder."));
  if (index.notices.length) page.append(el("div", "note warn", el("b", "", "Some of what is recorded could not be read as it is"), el("ul", "", ...index.notices.map((line) => el("li", "", short(line, 400))))));
  main.replaceChildren(page);
  main.scrollTop = 0;
}

function stageTable() {
  const stages = new Map();
  for (const row of index.rows) (stages.get(row.stage) || stages.set(row.stage, []).get(row.stage)).push(row);
  const table = el("table", "stages", el("thead", "", el("tr", "", ...["Stage", "Episodes", "Success", "Turns", "Tokens a turn", "Over the steps"].map((name) => el("th", "", name)))));
  const body = el("tbody", "");
  for (const [stage, rows] of stages) {
    const counted = rows.filter((row) => row.outcome !== null);
    const wins = counted.filter((row) => row.success).length;
    const lost = rows.length - counted.length;
    const share = counted.length ? `${((100 * wins) / counted.length).toFixed(1)} %` : "\u2013";
    const turns = rows.reduce((sum, row) => sum + row.turns, 0);
    const tokens = rows.reduce((sum, row) => sum + row.tokens, 0);
    const button = el("button", "link", stage);
    button.type = "button";
    button.title = "Show only this stage";
    button.addEventListener("click", () => { if ($("by-stage")) { $("by-stage").value = stage; applyFilters(); } document.body.classList.remove("reading"); });
    const success = el("td", "", el("b", "", share), el("small", "", ` ${wins.toLocaleString("en")} of ${counted.length.toLocaleString("en")}${lost ? `; ${lost} lost to faults, not counted (with them ${((100 * wins) / rows.length).toFixed(1)} %)` : ""}`));
    const cells = [el("td", "", button), el("td", "", rows.length.toLocaleString("en")), success, el("td", "", (turns / rows.length).toFixed(1)), el("td", "", turns && tokens ? (tokens / turns).toFixed(0) : "\u2013"), el("td", "", sparkline(counted))];
    ["Stage", "Episodes", "Success", "Turns", "Tokens a turn", "Over the steps"].forEach((name, at) => { cells[at].dataset.name = name; });
    body.append(el("tr", "", ...cells));
  }
  table.append(body);
  return table;
}

function sparkline(rows) {
  const steps = new Map();
  for (const row of rows) { const at = steps.get(row.step) || [0, 0]; at[0] += row.success ? 1 : 0; at[1] += 1; steps.set(row.step, at); }
  if (steps.size < 3) return "";
  const points = [...steps].sort((a, b) => a[0] - b[0]).map(([, [wins, n]], at) => `${((at / (steps.size - 1)) * 96 + 2).toFixed(1)},${(22 - (wins / n) * 20).toFixed(1)}`);
  const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  svg.setAttribute("viewBox", "0 0 100 24");
  svg.setAttribute("class", "spark");
  svg.setAttribute("role", "img");
  svg.setAttribute("aria-label", `Success by step, ${steps.size} steps`);
  const line = document.createElementNS("http://www.w3.org/2000/svg", "polyline");
  line.setAttribute("points", points.join(" "));
  svg.append(line);
  return svg;
}

// ---- one episode

const linkTo = (key, turn) => `#ep=${encodeURIComponent(key)}${turn === undefined ? "" : `&turn=${turn + 1}`}`;

async function openEpisode(row, turn) {
  openKey = row.key;
  reader = null;
  turnNow = -1;
  list.select(row);
  const chunk = await store.chunk(row.chunk);
  if (openKey !== row.key) return; // another one was chosen meanwhile
  const detail = chunk.episodes[row.place];
  document.title = `${short(row.task, 80)} \u00b7 ${index.run}`;
  const page = el("article", "page episode");
  page.append(el("div", "ep-top", backLink(), outcomeMark(row), el("span", "ep-task", short(row.task, 200))), el("h2", "goal", short(detail.goal, 2000)), facts(row, detail));
  if (row.group.length > 1) page.append(siblings(row));
  main.replaceChildren(page);
  main.scrollTop = 0;
  reader = renderEpisode(page, row, detail, chunk, {
    link: (number) => linkTo(row.key, number),
    onTurn: (number) => { turnNow = number; history.replaceState(null, "", linkTo(row.key, number)); },
  });
  if (turn !== null) reader.show(turn);
}

function facts(row, detail) {
  const fact = (name, value) => el("span", "", `${name} `, el("b", "", String(value)));
  return el("div", "ep-facts", fact("ended by", STOPS[row.stop] || row.stop), fact("environments", row.K), fact("turns", `${row.turns} of ${detail.maxTurns}`), fact("actions", row.actions),
    row.tokens ? fact("tokens", row.tokens.toLocaleString("en")) : null, row.seconds ? fact("time", `${row.seconds.toFixed(1)} s`) : null,
    typeof row.reward === "number" ? fact("mean step reward", row.reward.toFixed(2)) : null, row.phi === null ? null : fact("advantage", signed(row.phi)), fact("stage", `${row.stage}, step ${row.step}`), row.split ? fact("split", row.split) : null, fact("seed", detail.seed));
}

function siblings(row) {
  const wins = row.group.filter((other) => other.success).length;
  const strip = el("div", "siblings", el("span", "", `Same task, same step: ${wins} of ${row.group.length} solved`));
  for (const other of row.group.slice(0, 200)) {
    const kind = other.outcome === null ? "lost" : other.success ? "good" : "bad";
    const chip = el("a", `chip ${kind}`, `${other.outcome === null ? "!" : other.success ? "\u2713" : "\u2717"} ${other.sibling}`);
    chip.href = linkTo(other.key);
    chip.title = `Sibling ${other.sibling}: ${outcomeOf(other)}, ${plural(other.turns, "turn")}`;
    if (other === row) chip.setAttribute("aria-current", "true");
    strip.append(chip);
  }
  const beside = el("a", "button", "side by side");
  beside.href = groupLink(row.key);
  beside.title = "All siblings side by side (g)";
  strip.append(beside);
  return strip;
}

// ---- siblings side by side

const groupLink = (key) => `#group=${encodeURIComponent(key)}`;

async function openGroup(row) {
  openKey = row.key;
  reader = null;
  list.select(row);
  const members = [...row.group].sort((a, b) => a.sibling - b.sibling || a.at - b.at);
  const shown = [];
  for (const member of members.slice(0, MAX_COLUMNS)) {
    const pool = await store.chunk(member.chunk);
    shown.push({ row: member, detail: pool.episodes[member.place], pool });
  }
  if (openKey !== row.key || inGroup !== row.key) return; // another page was chosen meanwhile
  document.title = `${short(row.task, 80)}, side by side \u00b7 ${index.run}`;
  const algorithm = shown.find(({ detail }) => detail.algorithm)?.detail.algorithm;
  const page = el("article", "page wide", el("div", "ep-top", backLink(), el("span", "ep-task", short(row.task, 200))), el("h2", "goal", short(shown[0].detail.goal, 2000)),
    el("div", "ep-facts", el("span", "", `${plural(members.length, "sibling")}: ${row.stage}, step ${row.step}, K ${row.K}`)), el("p", "lead group-how", groupWords(members, algorithm)));
  if (members.length === 1) page.append(el("p", "note", "This episode was played alone: it has no siblings to compare it with."));
  if (members.length > MAX_COLUMNS) page.append(el("p", "note", `Only the first ${MAX_COLUMNS} of ${members.length} are shown.`));
  page.append(groupTable(shown, linkTo));
  main.replaceChildren(page);
  main.scrollTop = 0;
}

// ---- address, keys

function route() {
  const asked = new URLSearchParams(location.hash.slice(1));
  const key = asked.get("ep") ?? asked.get("group");
  inGroup = asked.has("ep") ? null : asked.get("group");
  const turn = asked.has("turn") ? Number.parseInt(asked.get("turn"), 10) - 1 : null;
  document.body.classList.toggle("reading", key !== null || asked.has("overview")); // a narrow screen shows either the list or this
  if (key === null) { openKey = null; reader = null; list.select(null); overview(); return; }
  const row = byKey.get(key);
  if (!row) { openKey = null; main.replaceChildren(el("div", "page", el("h2", "page-title", "No such episode"), el("p", "lead", `This page holds no episode named \u201c${short(key, 120)}\u201d.`))); return; }
  const at = Number.isFinite(turn) ? turn : null;
  if (inGroup !== null) { openGroup(row).catch(fail); return; }
  if (openKey === key && reader) { if (at !== null) reader.show(at); return; }
  openEpisode(row, at).catch(fail);
}

function step(offset) {
  const row = list.beside(offset);
  if (row) location.hash = linkTo(row.key);
}

const KEYS = {
  j: () => step(1), k: () => step(-1),
  n: () => reader?.show(turnNow + 1), p: () => reader?.show(turnNow - 1),
  s: () => { const row = byKey.get(openKey); if (row) location.hash = linkTo(row.group[(row.group.indexOf(row) + 1) % row.group.length].key); },
  g: () => { if (byKey.has(openKey)) location.hash = inGroup === null ? groupLink(openKey) : linkTo(openKey); },
  t: () => toggleTheme(),
  "/": () => { document.body.classList.remove("reading"); $("query").focus(); $("query").select(); },
  "?": () => $("help").showModal(),
  Escape: () => { location.hash = ""; },
};

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || $("help").open) return;
  const typing = event.target.matches("input, select, textarea");
  if (typing && event.key === "Escape") { event.target.blur(); return; }
  if (typing || !Object.hasOwn(KEYS, event.key)) return;
  event.preventDefault();
  KEYS[event.key]();
});

let typing = 0;
$("query").addEventListener("input", () => { clearTimeout(typing); typing = setTimeout(applyFilters, 160); });
$("theme-button").addEventListener("click", toggleTheme);
$("help-button").addEventListener("click", () => $("help").showModal());
addEventListener("hashchange", route);
$("home").textContent = short(index.run, 60);
$("app").hidden = false;
buildFilters();
applyFilters();
route();
