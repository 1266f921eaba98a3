"""``dpepo view RUN``: one self-contained HTML page with every episode of a run, to read, filter and search.

Reads ``episodes/*.jsonl`` and, where they are there, ``advantages/`` and ``run.json``; so it works on a run that is still
going, was killed, or came from another machine. The page holds a small row per episode, and the episodes themselves in
compressed chunks that are unpacked when one is opened, so that 10,000 episodes stay usable.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

from dpepo.errors import RunFolderError
from dpepo.runs.advantages import EpisodeAdvantages, EpisodeName, read_advantages
from dpepo.runs.episode_page import Pool, episode_detail, episode_row
from dpepo.runs.episodes import EpisodeLine, read_episodes
from dpepo.runs.state import order_stages, read_state
from dpepo.runs.web_page import json_for_script, packed, render_page, write_page

CHUNK_EPISODES = 64  # episodes unpacked together
CHUNK_CHARS = 1_000_000  # about as much text a chunk may hold before the next one starts
PROMPT_BYTES = 300_000_000  # size of the recorded episodes above which prompts are left out of the page
MAX_NOTICES = 200  # damaged lines named one by one
MAX_ERROR = 2000  # characters shown of what made a run fail


class _Packed(NamedTuple):
    """All episodes of a run, ready for the page."""

    rows: list[dict[str, Any]]
    chunks: list[str]
    problems: list[str]


def write_viewer(run: Path, out: Path | None = None, *, prompts: bool | None = None) -> Path:
    """Write the viewer page of a run.

    Args:
        run: the run folder.
        out: the page to write; default ``viewer.html`` in the run folder.
        prompts: whether the page holds the prompts too, usually most of the text; default: yes, unless the recorded episodes
            exceed `PROMPT_BYTES`.

    Returns:
        The path of the page.

    Raises:
        RunFolderError: `run` is not a folder, or the page cannot be written.
    """
    if not run.is_dir():
        raise RunFolderError(f"{run} is not a folder. Give the folder of a run, the one that holds its episodes.")
    if prompts is None:
        prompts = sum(path.stat().st_size for path in (run / "episodes").glob("*.jsonl")) <= PROMPT_BYTES
    state = read_state(run)
    content = _pack(run, prompts=prompts)
    name = run.resolve().name
    problems = [*state.notices, *content.problems]
    notices = problems[:MAX_NOTICES]
    if len(problems) > MAX_NOTICES:
        notices.append(f"... and {len(problems) - MAX_NOTICES:,} more damaged lines")
    places = {stage: n for n, stage in enumerate(order_stages(run, {r["stage"] for r in content.rows}, known=state.stages))}
    index = {
        "run": name,
        "job": state.job,
        "state": state.state,
        "error": state.error[:MAX_ERROR],
        "rows": sorted(content.rows, key=lambda row: places[row["stage"]]),
        "notices": notices,
        "prompts": prompts,
        "chunkCount": len(content.chunks),
    }
    page = render_page(
        "viewer.html.j2",
        styles=("base.css", "lanes.css", "viewer.css", "siblings.css"),
        scripts=("lanes.js", "store.js", "list.js", "siblings.js", "viewer.js"),
        title=name,
        index=json_for_script(index),
        chunks=content.chunks,
    )
    return write_page(page, out if out is not None else run / "viewer.html")


def _pack(run: Path, *, prompts: bool) -> _Packed:
    rows: list[dict[str, Any]] = []
    chunks: list[str] = []
    problems: list[str] = []
    places: Counter[tuple[str, int]] = Counter()
    pool, details = Pool(), list[dict[str, Any]]()
    here, phis = ("", 0), dict[EpisodeName, EpisodeAdvantages]()
    for line in read_episodes(run / "episodes", problems=problems, lenient=True):
        if here != (line.stage, line.step):
            here = (line.stage, line.step)
            phis = read_advantages(run, line.stage, line.step, problems=problems)
        key = episode_key(line, places)
        own = phis.get(EpisodeName.of(line.episode))
        row = episode_row(key, line.record, stage=line.stage, step=line.step, advantages=own)
        details.append(episode_detail(key, line.record, pool=pool, prompts=prompts, advantages=own))
        rows.append(row | {"chunk": len(chunks), "place": len(details) - 1})
        if len(details) >= CHUNK_EPISODES or pool.chars >= CHUNK_CHARS:
            chunks.append(packed({"texts": pool.texts, "lists": pool.lists, "episodes": details}))
            pool, details = Pool(), []
    if details:
        chunks.append(packed({"texts": pool.texts, "lists": pool.lists, "episodes": details}))
    return _Packed(rows, chunks, problems)


def episode_key(line: EpisodeLine, places: Counter[tuple[str, int]]) -> str:
    """The name of an episode in links: stage, step and its place there, from 1; the same however far the run has got.

    Args:
        line: the recorded episode.
        places: episodes seen so far by stage and step; counted up here.
    """
    places[line.stage, line.step] += 1
    return f"{line.stage}-{line.step:04d}.{places[line.stage, line.step]}"
