// The list of episodes: only the rows on screen exist, however many there are.

const ROW_HEIGHT = 64;
const OVERSCAN = 8;

class EpisodeList {
  constructor(box, space) {
    this.box = box;
    this.space = space;
    this.rows = [];
    this.current = null;
    this.drawn = new Map(); // position -> node
    this.waiting = false;
    const redraw = () => {
      if (this.waiting) return;
      this.waiting = true;
      requestAnimationFrame(() => { this.waiting = false; this.draw(); });
    };
    box.addEventListener("scroll", redraw, { passive: true });
    new ResizeObserver(redraw).observe(box);
  }

  set(rows) {
    this.rows = rows;
    this.space.style.height = `${rows.length * ROW_HEIGHT}px`;
    this.clear();
    this.draw();
  }

  clear() {
    for (const node of this.drawn.values()) node.remove();
    this.drawn.clear();
  }

  draw() {
    const first = Math.max(0, Math.floor(this.box.scrollTop / ROW_HEIGHT) - OVERSCAN);
    const last = Math.min(this.rows.length, Math.ceil((this.box.scrollTop + this.box.clientHeight) / ROW_HEIGHT) + OVERSCAN);
    for (const [position, node] of this.drawn) if (position < first || position >= last) { node.remove(); this.drawn.delete(position); }
    for (let position = first; position < last; position += 1) {
      if (this.drawn.has(position)) continue;
      const node = this.node(this.rows[position]);
      node.style.top = `${position * ROW_HEIGHT}px`;
      this.drawn.set(position, node);
      this.space.append(node);
    }
  }

  node(row) {
    const sign = row.outcome === null ? "!" : row.success ? "\u2713" : "\u2717";
    const word = row.outcome === null ? "lost to a fault" : row.success ? "success" : "not solved";
    const kind = row.outcome === null ? "lost" : row.success ? "good" : "bad";
    const dot = el("span", `dot ${kind}`, sign);
    dot.title = word;
    const where = `${row.stage} ${row.step} \u00b7 #${row.sibling} \u00b7 K ${row.K} \u00b7 ${plural(row.turns, "turn")} \u00b7 ${plural(row.actions, "action")}${row.problems ? ` \u00b7 ${plural(row.problems, "problem")}` : ""}`;
    const node = el("a", "row", dot, el("span", "row-text", el("span", "row-task", short(row.task, 200)), el("span", "row-where", where)), el("span", "visually-hidden", word));
    node.href = `#ep=${encodeURIComponent(row.key)}`;
    if (row === this.current) node.setAttribute("aria-current", "true");
    return node;
  }

  select(row) {
    this.current = row;
    const position = this.rows.indexOf(row);
    if (position >= 0) {
      const top = position * ROW_HEIGHT;
      if (top < this.box.scrollTop) this.box.scrollTop = top;
      if (top + ROW_HEIGHT > this.box.scrollTop + this.box.clientHeight) this.box.scrollTop = top + ROW_HEIGHT - this.box.clientHeight;
    }
    this.clear();
    this.draw();
  }

  beside(offset) {
    const at = this.rows.indexOf(this.current);
    return this.rows[at < 0 ? 0 : Math.min(Math.max(at + offset, 0), this.rows.length - 1)];
  }
}
