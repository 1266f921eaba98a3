// The recorded episodes: compressed chunks inside this page, unpacked when needed and kept for a while.

const KEPT = 12; // unpacked chunks held at once

function readIndex() {
  return JSON.parse(document.getElementById("index").textContent);
}

class Store {
  constructor() { this.kept = new Map(); }

  chunk(number) {
    const known = this.kept.get(number);
    if (known) { this.kept.delete(number); this.kept.set(number, known); return known; }
    const loading = this.unpack(number);
    this.kept.set(number, loading);
    if (this.kept.size > KEPT) this.kept.delete(this.kept.keys().next().value);
    return loading;
  }

  async unpack(number) {
    const binary = atob(document.getElementById(`chunk-${number}`).textContent);
    const bytes = new Uint8Array(binary.length);
    for (let at = 0; at < binary.length; at += 1) bytes[at] = binary.charCodeAt(at);
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
    return JSON.parse(await new Response(stream).text());
  }

  // Rows among `rows` whose texts hold `query` (lower case), chunk by chunk: calls found(row) and, now and then, progress(share).
  // Stops when alive() says so.
  async search(rows, query, { found, progress, alive }) {
    const byChunk = new Map();
    for (const row of rows) (byChunk.get(row.chunk) || byChunk.set(row.chunk, []).get(row.chunk)).push(row);
    let done = 0;
    for (const [number, members] of byChunk) {
      const chunk = this.kept.has(number) ? await this.chunk(number) : await this.unpack(number); // a scan must not push out what is being read
      if (!alive()) return;
      const hits = new Set();
      chunk.texts.forEach((text, index) => { if (text.toLowerCase().includes(query)) hits.add(index); });
      for (const row of members) if (holds(chunk.episodes[row.place], query, hits)) found(row);
      done += 1;
      if (done % 8 === 0 || done === byChunk.size) progress(done / byChunk.size);
    }
  }
}

// Prompts are left out: they repeat what the episode says anyway, and the same words in every episode.
function holds(detail, query, hits) {
  if (detail.goal.toLowerCase().includes(query) || hits.has(detail.initial.text) || detail.error.toLowerCase().includes(query)) return true;
  return detail.turns.some((turn) => hits.has(turn.thought) || hits.has(turn.raw)
    || turn.steps.some((step) => step.action.toLowerCase().includes(query) || hits.has(step.observation.text) || step.observation.failure.toLowerCase().includes(query)));
}
