// The siblings of a group side by side: a column for each, a line for every turn.

const MAX_COLUMNS = 64;
const MAX_ACTIONS = 16; // of one turn, shown in a cell

function groupTable(shown, link) {
  const head = el("tr", "", el("th", "corner", "Turn"), ...shown.map(({ row }) => columnHead(row, link)));
  const about = el("tr", "group-about", el("th", "", ""), ...shown.map(({ row, detail }) => columnFacts(row, detail)));
  const body = el("tbody", "", about);
  const turns = Math.max(...shown.map(({ detail }) => detail.turns.length), 0);
  for (let at = 0; at < turns; at += 1) {
    const line = el("tr", "", el("th", "", String(at + 1)));
    line.firstChild.scope = "row";
    for (const { row, detail, pool } of shown) line.append(el("td", "", turnCell(row, detail, pool, at, link)));
    body.append(line);
  }
  const table = el("table", "group", el("thead", "", head), body);
  return el("div", "group-box", table);
}

function columnHead(row, link) {
  const name = el("a", "group-name", `Sibling ${row.sibling}`);
  name.href = link(row.key);
  const head = el("th", "", el("div", "group-top", name, outcomeMark(row)));
  head.scope = "col";
  return head;
}

function columnFacts(row, detail) {
  const fact = (word, value) => el("div", "", el("dt", "", word), el("dd", "", value));
  const facts = el("dl", "group-facts",
    row.outcome === null ? null : fact("outcome", String(row.outcome)),
    fact("turns", `${row.turns} of ${detail.maxTurns}`),
    fact("actions", String(row.actions)),
    row.reward === null ? null : fact("step reward", typeof row.reward === "number" ? `mean ${row.reward.toFixed(2)}` : row.reward),
    row.phi === null ? null : fact("advantage", signed(row.phi)),
    row.tokens ? fact("tokens", row.tokens.toLocaleString("en")) : null,
    fact("ended by", STOPS[row.stop] || row.stop));
  return el("td", "", facts, detail.error ? el("div", "ep-error", short(detail.error, 300)) : null);
}

function turnCell(row, detail, pool, at, link) {
  const turn = detail.turns[at];
  if (!turn) return at === detail.turns.length ? el("span", "group-end", detail.turns.length ? "ended" : "no turn") : null;
  const cell = el("a", "group-cell");
  cell.href = link(row.key, at);
  if (turn.thought >= 0) cell.title = short(pool.texts[turn.thought], 400);
  const numbers = el("span", "group-numbers", turn.reward ? el("span", "", `step reward ${rewardText(turn.reward)}`) : null);
  if (turn.advantage !== null) {
    const advantage = el("b", turn.advantage > 0 ? "up" : turn.advantage < 0 ? "down" : "", el("span", "visually-hidden", "advantage "), signed(turn.advantage));
    advantage.title = "advantage";
    numbers.append(advantage);
  }
  if (numbers.childElementCount) cell.append(numbers);
  for (const step of turn.steps.slice(0, MAX_ACTIONS)) cell.append(actionLine(step, turn));
  if (turn.steps.length > MAX_ACTIONS) cell.append(el("span", "group-end", `and ${turn.steps.length - MAX_ACTIONS} more`));
  if (!turn.steps.length) cell.append(el("span", "group-end", "no action done"));
  if (turn.problems.length) cell.append(el("span", "group-end warn", turn.problems.map((problem) => PROBLEMS[problem] || problem).join(", ")));
  return cell;
}

const STATE_SIGNS = { success: ["\u2713", "reached the goal"], failed: ["\u2717", "ended without it"], broke: ["!", "broke"], invalid: ["?", "not understood"], repeat: ["\u21bb", "repeated its own action"] };

function actionLine(step, turn) {
  const state = stepState(step, turn.reward);
  const line = el("span", `group-action ${state}`, el("span", "badge", String(step.env)), el("span", "group-words", short(step.action, 160)));
  if (STATE_SIGNS[state]) {
    const [sign, word] = STATE_SIGNS[state];
    const mark = el("span", "group-sign", sign);
    mark.title = word;
    line.append(mark, el("span", "visually-hidden", word));
  }
  line.style.setProperty("--hue", hueOf(step.env));
  return line;
}

// How the advantages of a group come about, in words, as far as it was recorded.
function groupWords(rows, algorithm) {
  const counted = rows.filter((row) => row.outcome !== null);
  const lost = rows.length - counted.length;
  const mean = counted.reduce((sum, row) => sum + row.outcome, 0) / Math.max(counted.length, 1);
  const words = [`${counted.filter((row) => row.success).length} of ${counted.length} solved${lost ? `, ${lost} lost to faults and left out` : ""}; mean outcome ${mean.toFixed(2)}.`];
  if (!algorithm) words.push("No advantages are recorded for these episodes.");
  else if (algorithm === "dpepo" && rows.every((row) => !row.phi)) words.push("All ended alike: there is nothing to learn from.");
  else if (algorithm === "dpepo") words.push("An episode\u2019s advantage is its outcome relative to the group; each turn gets it times its step reward (times 2 minus the step reward where it is negative).");
  else words.push(`Advantages are those of the algorithm \u201c${short(algorithm, 80)}\u201d.`);
  return words.join(" ");
}
