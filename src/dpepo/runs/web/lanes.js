"use strict";
// One episode as lanes. Recorded text only ever enters the page as text nodes: nothing here parses markup.

const LONG = { lane: 900, page: 6000 }; // characters shown at once; longer texts get a button
const HUES = [200, 24, 275, 140, 330, 55, 235, 95];

const plural = (number, word, words) => `${number.toLocaleString("en")} ${number === 1 ? word : words || word + "s"}`;
const hueOf = (env) => (env <= HUES.length ? HUES[env - 1] : Math.round((env * 137.5) % 360));

function el(tag, classes, ...children) {
  const node = document.createElement(tag);
  if (classes) node.className = classes;
  for (const child of children) if (child !== null && child !== undefined && child !== "") node.append(child);
  return node;
}

// Characters that would be invisible, break the layout or reorder the line are shown for what they are.
function clean(text) {
  return text
    .replace(/\r\n/g, "\n")
    .replace(/[\u0000-\u0008\u000b-\u001f]/g, (c) => String.fromCharCode(0x2400 + c.charCodeAt(0)))
    .replace(/\u007f/g, "\u2421")
    .replace(/[\u0080-\u009f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]/g, (c) => `\u27e8U+${c.charCodeAt(0).toString(16).toUpperCase().padStart(4, "0")}\u27e9`)
    .replace(/[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/g, "\ufffd");
}

function short(text, length) {
  const shown = clean(text);
  return shown.length > length ? shown.slice(0, length - 1) + "\u2026" : shown;
}

// A block of recorded text; very long ones start cut, with a button that shows the rest.
function textBlock(tag, classes, text, { long = LONG.lane, tags = false } = {}) {
  const node = el(tag, classes);
  node.dir = "auto";
  const fill = (shown) => {
    node.replaceChildren();
    if (!tags) { node.append(shown); return; }
    for (const part of shown.split(/(<\/?[A-Za-z_0-9]{1,24}>)/)) node.append(part.startsWith("<") && part.endsWith(">") ? el("span", "tag", part) : part);
  };
  if (text.length <= long) { fill(clean(text)); return node; }
  fill(clean(text.slice(0, long)) + "\u2026");
  const more = el("button", "more", `Show all ${text.length.toLocaleString("en")} characters`);
  more.type = "button";
  more.addEventListener("click", () => { fill(clean(text)); more.remove(); });
  const holder = el("div", "", node, more);
  return holder;
}

function fold(label, build) {
  const details = el("details", "fold", el("summary", "", label));
  details.addEventListener("toggle", () => { if (details.open && details.childElementCount === 1) details.append(build()); });
  return details;
}

const STOPS = {
  success: "goal reached", all_ended: "every environment ended", max_turns: "turn limit", context_full: "context full",
  over_limit: "asked for too many environments", env_failed: "an environment broke", policy_failed: "the policy could not answer",
};
const PROBLEMS = {
  no_action: "no usable action", unclosed_think: "thought not closed", multiple_think: "several thoughts", missing_think: "no thought",
  missing_parallel: "no <parallel> block", multiple_parallel: "several <parallel> blocks", unclosed_parallel: "<parallel> not closed",
  unclosed_env: "environment tag not closed", duplicate_env: "environment addressed twice", bad_env_id: "impossible environment number",
  over_limit: "environment above the limit", empty_action: "empty action", stray_text: "text outside the tags",
};

function outcomeMark(row) {
  if (row.outcome === null) return el("span", "mark lost", "! lost to a fault");
  if (row.success) return el("span", "mark good", "\u2713 success");
  if (row.outcome > 0 && row.outcome < 1) return el("span", "mark warn", `partial ${row.outcome}`);
  return el("span", "mark bad", "\u2717 not solved");
}

// What happened in one environment at one turn, in a word; decides colours of cards and map alike.
function stepState(step, reward) {
  const seen = step.observation;
  if (seen.failure) return "broke";
  if (seen.success) return "success";
  if (seen.ended) return "failed";
  if (!seen.valid) return "invalid";
  if (reward && (reward.cDepth[step.env] || 0) > 0) return "repeat";
  return "plain";
}

function lanesOf(row, detail) {
  const used = new Set();
  for (const turn of detail.turns) for (const step of turn.steps) used.add(step.env);
  const all = Array.from({ length: Math.min(row.K, 8) }, (_, index) => index + 1);
  return row.K <= 8 ? [...new Set([...all, ...used])].sort((a, b) => a - b) : [...used].sort((a, b) => a - b);
}

function endings(detail) {
  const ended = new Map();
  detail.turns.forEach((turn, index) => {
    for (const step of turn.steps) if (step.observation.ended || step.observation.success) ended.set(step.env, { turn: index, step });
  });
  return ended;
}

function episodeMap(row, detail, lanes, goto) {
  const map = el("div", "map");
  map.setAttribute("role", "group");
  map.setAttribute("aria-label", "Environments over turns");
  const ended = endings(detail);
  map.append(el("div", "map-head", ...detail.turns.map((_, index) => el("span", "", String(index + 1)))));
  const signs = { success: "\u2713", failed: "\u2717", broke: "!", invalid: "?", none: "\u00b7" };
  const shown = new Set();
  for (const env of lanes) {
    const cells = el("div", "map-cells");
    detail.turns.forEach((turn, index) => {
      const step = turn.steps.find((candidate) => candidate.env === env);
      const end = ended.get(env);
      const state = step ? stepState(step, turn.reward) : end && end.turn < index ? "over" : "none";
      shown.add(state);
      const cell = el("button", `cell ${state}`, signs[state] || "");
      cell.type = "button";
      cell.tabIndex = -1;
      const what = step ? short(step.action, 120) : "nothing done";
      cell.title = `Environment ${env}, turn ${index + 1}: ${what}`;
      cell.setAttribute("aria-label", cell.title);
      cell.addEventListener("click", () => goto(index));
      cells.append(cell);
    });
    const line = el("div", "map-row", el("span", "badge", String(env)), cells);
    line.style.setProperty("--hue", hueOf(env));
    map.append(line);
  }
  const words = { plain: "acted", repeat: "repeated its own action", invalid: "not understood", none: "left alone", success: "reached the goal", failed: "ended without it", broke: "broke" };
  const key = el("div", "map-key");
  for (const [state, word] of Object.entries(words)) {
    if (shown.has(state)) key.append(el("span", "", el("i", `cell ${state}`, signs[state] || ""), word));
  }
  return el("div", "", map, key);
}

// Sentences that say which counts lie behind a step reward.
function reasons(reward) {
  if (reward.actions === 0) return ["The reply held no usable action: the fixed value for that case."];
  const lines = [];
  if (reward.cWidth > 0) lines.push(`${plural(reward.cWidth, "action")} of this turn ${reward.cWidth === 1 ? "repeats" : "repeat"} what another environment did in the same turn (width).`);
  const each = (counts, say) => { for (const [env, count] of Object.entries(counts)) if (count > 0) lines.push(say(env, plural(count, "time"))); };
  each(reward.cDepth, (env, times) => `Environment ${env} had done this action ${times} before (depth).`);
  each(reward.mDepth, (env, times) => `Environment ${env} had met this transition, same state and same action, ${times} before.`);
  each(reward.mWidth, (env, times) => `Environment ${env} did what others also did in the same state: ${times}.`);
  if (reward.invalid) lines.push(`${plural(reward.invalid, "action")} not understood by the world.`);
  return lines.length ? lines : ["Nothing was repeated: no action twice in an environment, none shared between environments."];
}

// A number with a sign in front, for advantages; words (a number that was not finite) stay as they are.
const signed = (value) => (typeof value === "number" ? (value > 0 ? "+" : value < 0 ? "\u2212" : "") + Math.abs(value).toFixed(2) : String(value));
const rewardText = (reward) => (typeof reward.value === "number" ? reward.value.toFixed(2) : reward.value);

// A pill that opens what stands behind its value.
function pillWithWhy(section, kind, name, value, why) {
  why.hidden = true;
  const pill = el("button", `pill ${kind}`, `${name} `, el("b", "", value));
  pill.type = "button";
  pill.title = "Why this value?";
  pill.setAttribute("aria-expanded", "false");
  pill.addEventListener("click", () => { why.hidden = !why.hidden; pill.setAttribute("aria-expanded", String(!why.hidden)); });
  section.append(why);
  return pill;
}

function rewardPills(row, detail, turn, section) {
  const pills = [];
  if (turn.reward) {
    const why = el("div", "why", el("p", "", `Step reward on the scale \u201c${turn.reward.scale}\u201d, over ${plural(turn.reward.actions, "action")}. Repeating lowers it.`), el("ul", "", ...reasons(turn.reward).map((line) => el("li", "", line))));
    pills.push(pillWithWhy(section, "", "step reward", rewardText(turn.reward), why));
  }
  if (turn.advantage !== null) {
    const kind = turn.advantage > 0 ? "up" : turn.advantage < 0 ? "down" : "";
    pills.push(pillWithWhy(section, kind, "advantage", signed(turn.advantage), el("div", "why", el("p", "", advantageWords(row, detail, turn)))));
  }
  return pills;
}

// Where an advantage comes from. The rule of the algorithm `dpepo` is told only where it gives the recorded value.
function advantageWords(row, detail, turn) {
  const phi = row.phi;
  if (phi === null) return `Recorded by the algorithm \u201c${short(detail.algorithm, 80)}\u201d.`;
  const whole = `The episode\u2019s advantage, its outcome relative to its siblings, is ${signed(phi)}`;
  const reward = turn.reward ? turn.reward.value : null;
  const factor = phi > 0 ? reward : 2 - reward;
  if (detail.algorithm !== "dpepo" || typeof reward !== "number" || Math.abs(phi * factor - turn.advantage) > 0.002) return `${whole}; this turn\u2019s is what the algorithm \u201c${short(detail.algorithm, 80)}\u201d made of it.`;
  if (phi === 0) return `${whole}: all siblings ended alike, so there is nothing to learn from.`;
  const how = phi > 0 ? "the step reward: a turn that repeats is praised less" : `2 minus the step reward ${rewardText(turn.reward)}: a turn that repeats is blamed more`;
  return `${whole}. This turn: ${signed(phi)} \u00d7 ${factor.toFixed(2)} = ${signed(turn.advantage)}. The factor is ${how}.`;
}

function laneCard(step, turn, pool, scoreBefore) {
  const seen = step.observation;
  const state = stepState(step, turn.reward);
  const top = el("div", "lane-top", el("span", "badge", String(step.env)));
  if (state === "success") top.append(el("span", "mark good", "\u2713 goal reached"));
  if (state === "failed") top.append(el("span", "mark bad", "\u2717 ended"));
  if (state === "broke") top.append(el("span", "mark lost", "! broke"));
  if (!seen.valid) top.append(el("span", "mark warn", "? not understood"));
  const before = turn.reward ? turn.reward.cDepth[step.env] || 0 : 0;
  if (before > 0) top.append(el("span", "mark plain", `\u21bb done ${before} \u00d7 before`));
  if (seen.score !== scoreBefore) top.append(el("span", "score", `score ${String(seen.score).replace("-", "\u2212")}`));
  const card = el("div", `lane ${state}`, top, textBlock("div", "action", step.action));
  if (seen.text >= 0) card.append(textBlock("div", "answer", pool.texts[seen.text]));
  if (seen.failure) card.append(textBlock("div", "answer", seen.failure));
  const options = admissible(seen, pool);
  if (options) card.append(options);
  return card;
}

function admissible(seen, pool) {
  const actions = seen.admissible >= 0 ? pool.lists[seen.admissible] : [];
  const objects = seen.objects >= 0 ? pool.lists[seen.objects] : [];
  if (!actions.length && !objects.length) return null;
  const parts = [actions.length && plural(actions.length, "admissible action"), objects.length && plural(objects.length, "object")].filter(Boolean);
  return fold(parts.join(", "), () => {
    const holder = el("div", "");
    for (const items of [actions, objects]) if (items.length) holder.append(el("ul", "options", ...items.slice(0, 500).map((item) => el("li", "", short(item, 400)))));
    return holder;
  });
}

function idleCard(env, index, turn, ended) {
  const end = ended.get(env);
  const over = end && end.turn < index;
  const card = el("div", "lane idle", el("span", "badge", String(env)), over ? `ended at turn ${end.turn + 1}` : "left alone");
  const asked = turn.skipped[env];
  if (asked !== undefined) card.append(" \u00b7 asked for, not done: ", el("s", "", short(asked, 200)));
  return card;
}

function fillTurn(section, row, detail, pool, index, lanes, ended) {
  const turn = detail.turns[index];
  section.append(turn.thought >= 0 ? textBlock("div", "thought", pool.texts[turn.thought], { long: LONG.page }) : el("div", "thought empty", "no thought"));
  if (turn.problems.length || turn.error) {
    const lines = turn.messages.length ? turn.messages : turn.problems.map((problem) => PROBLEMS[problem] || problem);
    section.append(el("ul", "problems", ...lines.slice(0, 50).map((line) => el("li", "", short(line, 600))), turn.error ? el("li", "", short(turn.error, 2000)) : null));
  }
  const grid = el("div", "lanes");
  const here = [...new Set([...lanes, ...Object.keys(turn.skipped).map(Number)])].sort((a, b) => a - b);
  grid.style.setProperty("--lanes", Math.max(here.length, 1));
  for (const env of here) {
    const step = turn.steps.find((candidate) => candidate.env === env);
    const card = step ? laneCard(step, turn, pool, scoreBefore(detail, index, env)) : idleCard(env, index, turn, ended);
    card.style.setProperty("--hue", hueOf(env));
    grid.append(card);
  }
  section.append(grid);
  const folds = el("div", "folds");
  if (turn.raw >= 0) folds.append(fold("reply as written", () => textBlock("pre", "text", pool.texts[turn.raw], { long: LONG.page, tags: true })));
  if (turn.prompt) folds.append(fold("prompt", () => el("div", "", ...turn.prompt.flatMap((message) => [el("div", "role", message.role), textBlock("pre", "text", message.text >= 0 ? pool.texts[message.text] : "", { long: LONG.page, tags: true })]))));
  section.append(folds);
}

function scoreBefore(detail, index, env) {
  for (let earlier = index - 1; earlier >= 0; earlier -= 1) {
    const step = detail.turns[earlier].steps.find((candidate) => candidate.env === env);
    if (step) return step.observation.score;
  }
  return detail.initial.score;
}

function turnSection(row, detail, index, link) {
  const turn = detail.turns[index];
  const section = el("section", "turn");
  const name = `Turn ${index + 1}`;
  const title = link ? el("a", "turn-link", name) : name;
  if (link) title.href = link(index);
  const meta = [
    turn.tokens ? plural(turn.tokens, "token") : "", turn.promptTokens ? `prompt ${turn.promptTokens.toLocaleString("en")}` : "",
    turn.logprob !== null ? `mean log-prob ${typeof turn.logprob === "number" ? turn.logprob.toFixed(2).replace("-", "\u2212") : turn.logprob}` : "", turn.seconds ? `${turn.seconds.toFixed(2)} s${turn.envSeconds ? ` (${turn.envSeconds.toFixed(2)} s in environments)` : ""}` : "",
    turn.finish === "stop" ? "" : turn.finish === "length" ? "reply cut at the token limit" : turn.finish.replace("_", " "),
  ].filter(Boolean).join(" \u00b7 ");
  const head = el("div", "turn-head", el("h3", "", title), el("span", "turn-meta", meta));
  section.append(head);
  head.append(el("span", "pills", ...rewardPills(row, detail, turn, section)));
  return section;
}

function startSection(row, detail, pool) {
  const text = detail.initial.text >= 0 ? textBlock("div", "answer", pool.texts[detail.initial.text], { long: LONG.page }) : null;
  const failure = detail.initial.failure ? el("div", "ep-error", short(detail.initial.failure, 2000)) : null;
  const head = el("div", "turn-head", el("h3", "", "Start"), el("span", "turn-meta", row.K === 1 ? "" : `the same for all ${row.K} environments`));
  return el("section", "start", head, el("div", "initial", text, failure, admissible(detail.initial, pool)));
}

// Fill `root` with an episode; returns {show(turn), count}. With `lazy`, turns are built when they come near the screen.
function renderEpisode(root, row, detail, pool, { link = null, map = true, lazy = true, onTurn = null } = {}) {
  const lanes = lanesOf(row, detail);
  const ended = endings(detail);
  const sections = detail.turns.map((_, index) => turnSection(row, detail, index, link));
  const filled = new Set();
  const fill = (index) => {
    if (filled.has(index)) return;
    filled.add(index);
    sections[index].style.minHeight = "";
    fillTurn(sections[index], row, detail, pool, index, lanes, ended);
  };
  const near = new IntersectionObserver((entries) => {
    for (const entry of entries) if (entry.isIntersecting) { near.unobserve(entry.target); fill(sections.indexOf(entry.target)); }
  }, { rootMargin: "600px" });
  const show = (index) => {
    const at = Math.min(Math.max(index, 0), sections.length - 1);
    if (at < 0) return;
    fill(at);
    sections.forEach((section, number) => section.classList.toggle("here", number === at));
    sections[at].scrollIntoView({ block: "start" });
    if (onTurn) onTurn(at);
  };
  if (detail.error) root.append(el("div", "ep-error", short(detail.error, 4000)));
  if (map && detail.turns.length && lanes.length) root.append(episodeMap(row, detail, lanes, show));
  if (row.K > 8 && lanes.length < row.K) root.append(el("p", "turn-meta", `${plural(row.K - lanes.length, "environment was", "environments were")} never used and ${row.K - lanes.length === 1 ? "is" : "are"} not shown.`));
  root.append(startSection(row, detail, pool));
  if (!detail.turns.length) root.append(el("p", "turn-meta", "This episode ended before its first turn."));
  sections.forEach((section, index) => {
    root.append(section);
    if (!lazy) { fill(index); return; }
    section.style.minHeight = "180px";
    near.observe(section);
  });
  return { show, count: sections.length };
}
