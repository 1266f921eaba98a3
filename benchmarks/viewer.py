"""Whether 10,000 episodes stay usable: the viewer's page made, opened in a headless Chromium, filtered, scrolled, searched.

    python benchmarks/viewer.py [--episodes 10000] [--kind short --kind long] [--json FILE]

Short episodes are of the demo's size: K = 4, up to 3 turns, scored, in groups of 8 with advantages. Long ones have the shape of
the paper's: K = 4, 20 turns, 4 observations a turn of about 300 characters with 30 admissible actions. The page is made in a
fresh process. Times are of the processor in the page's main thread; in brackets those of the clock, which other work on the
machine lengthens. Frames are those of a list dragged from top to bottom in 240 steps; a screen at 60 Hz has one every 16.7 ms.
Needs the packages of extra ``dev`` and a Chromium (Debian: apt-get install chromium).
"""

from __future__ import annotations

import argparse
import json
import random
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # for tests.support

from tests.support.browser import Reader, browser, missing
from tests.support.sample_episodes import credited, lifespan_episode, one_turn, sample_group, scored

from dpepo.runs.advantages import episode_advantages, write_advantages
from dpepo.runs.episodes import write_episodes
from dpepo.runs.viewer import write_viewer
from dpepo.types import Episode, EpisodeGroup, Observation

SIBLINGS = 8
GROUPS_PER_STEP = 8
LONG_TURNS = 20
PLACES = tuple(
    f"{what} {number}" for what in ("cabinet", "drawer", "shelf", "countertop", "sidetable") for number in range(1, 9)
)
THINGS = tuple(f"{what} {number}" for what in ("mug", "apple", "knife", "plate", "book", "lamp") for number in range(1, 5))

# Something that changes the list at once, until the frame after it.
CHANGE = """async ([id, value]) => {
  const box = document.getElementById(id);
  box.value = value;
  box.dispatchEvent(new Event("change"));
  await new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
}"""
FRAMES = 240
SCROLL = """async (steps) => {
  const list = document.getElementById("list");
  const frames = [];
  const far = list.scrollHeight - list.clientHeight;
  let before = await new Promise(requestAnimationFrame);
  for (let step = 1; step <= steps; step += 1) {
    list.scrollTop = (far * step) / steps;
    const now = await new Promise(requestAnimationFrame);
    frames.push(now - before);
    before = now;
  }
  return frames;
}"""
SEARCHED = "/^[1-9][\\d,]* of [\\d,]+ episodes$/.test(document.getElementById('count').textContent)"


def groups_of(kind: str, episodes: int) -> Iterator[EpisodeGroup]:
    """Groups of siblings with as many episodes in all."""
    for number in range(episodes // SIBLINGS):
        if kind == "short":
            yield sample_group(number % 120, skill=0.3, seed=number, num_siblings=SIBLINGS)
        else:
            siblings = tuple(scored(long_episode(number, sibling)) for sibling in range(SIBLINGS))
            yield EpisodeGroup(task=siblings[0].episode.task, siblings=siblings)


def long_episode(number: int, sibling: int) -> Episode:
    """An episode of as many turns as the paper's agents take at most, in a house of many places."""
    short = lifespan_episode(number % 120, skill=0.0, num_envs=4, seed=number, sibling=sibling)
    rng = random.Random(f"{number}/{sibling}")
    turns = []
    for at in range(LONG_TURNS):
        actions = {env: f"go to {rng.choice(PLACES)}" for env in range(1, 5)}
        won = at == LONG_TURNS - 1 and rng.random() < 0.3
        answers = {env: answer(action, rng, won=won and env == 1) for env, action in actions.items()}
        thought = (
            f"Turn {at + 1}: the {rng.choice(THINGS)} was in no {rng.choice(PLACES)}, so look at four other places at once."
        )
        turns.append(one_turn(actions, answers, thought=thought, rng=rng))
    return short.model_copy(update={"turns": tuple(turns), "max_turns": 25})


def answer(action: str, rng: random.Random, *, won: bool) -> Observation:
    """What a place shows: some things, and what can be done there."""
    seen = rng.sample(THINGS, 6)
    text = (
        f"You arrive after you {action}. On it you see " + ", ".join(f"a {thing} that nobody has moved" for thing in seen) + "."
    )
    options = tuple([f"take {thing}" for thing in seen] + [f"go to {place}" for place in PLACES[:24]])
    return Observation(text=text, admissible_actions=options, success=won, ended=won)


def fill(run: Path, kind: str, episodes: int) -> float:
    """Record a run; returns the megabytes of its episodes."""
    groups: list[EpisodeGroup] = []
    step = 0
    for group in groups_of(kind, episodes):
        groups.append(group)
        if len(groups) == GROUPS_PER_STEP:
            step += 1
            _record(run, step, groups)
            groups = []
    _record(run, step + 1, groups)
    return sum(path.stat().st_size for path in (run / "episodes").iterdir()) / 1e6


def _record(run: Path, step: int, groups: list[EpisodeGroup]) -> None:
    write_episodes(run / "episodes", "rl", step, [sibling for group in groups for sibling in group.siblings])
    write_advantages(run, "rl", step, episode_advantages([credited(group) for group in groups], algorithm="dpepo"))


def make(run: Path) -> dict[str, float]:
    """Write the page, in this process."""
    page = write_viewer(run)
    return {
        "make_cpu_s": time.process_time(),  # of the whole process: what other work on the machine leaves alone
        "make_peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        "page_mb": page.stat().st_size / 1e6,
    }


class Meter:
    """Time of the clock, and of the processor in the page's main thread, which other work on the machine does not lengthen."""

    def __init__(self, window: Reader) -> None:
        self._cdp = window.page.context.new_cdp_session(window.page)
        self._cdp.send("Performance.enable", {"timeDomain": "threadTicks"})
        self.figures: dict[str, float] = {}

    @contextmanager
    def timed(self, name: str, *, per: int = 1) -> Iterator[None]:
        """Measure what is done inside, shared among `per` things; in milliseconds."""
        worked, began = self._worked(), time.perf_counter()
        yield
        self.figures[f"{name}_ms"] = 1000 * (time.perf_counter() - began) / per
        self.figures[f"{name}_cpu_ms"] = 1000 * (self._worked() - worked) / per

    def _worked(self) -> float:
        metrics = self._cdp.send("Performance.getMetrics")["metrics"]
        return float(next(metric["value"] for metric in metrics if metric["name"] == "TaskDuration"))


def look(page: Path, query: str) -> dict[str, float]:
    """Open the page and use it."""
    with browser() as chromium, chromium.window() as window:
        meter = Meter(window)
        with meter.timed("load"):
            window.open(page)
            window.page.wait_for_selector(".row")
        heap = window.page.evaluate("performance.memory.usedJSHeapSize / 1e6")
        for name, box, value in (("filter", "by-outcome", "success"), ("order", "by-order", "most turns")):
            with meter.timed(name):
                window.page.evaluate(CHANGE, [box, value])
            window.page.evaluate(CHANGE, [box, window.page.evaluate(f"document.getElementById('{box}').options[0].value")])
        with meter.timed("frame", per=FRAMES):
            frames = window.page.evaluate(SCROLL, FRAMES)
        with meter.timed("search"):
            window.page.fill("#query", query)
            window.until(SEARCHED, timeout_s=600)
        for name, action, selector in (
            ("episode", "location.hash = document.querySelectorAll('.row')[3].hash", ".turn .lane"),
            ("group", "location.hash = location.hash.replace('ep=', 'group=')", ".group tbody tr"),
        ):
            with meter.timed(name):
                window.page.evaluate(action)
                window.page.wait_for_selector(selector)
        assert window.complaints == [], window.complaints
    return {**meter.figures, "heap_mb": heap, "frame_p95_ms": sorted(frames)[int(0.95 * len(frames))]}


def measure(kind: str, episodes: int) -> dict[str, Any]:
    """All figures of a kind of run."""
    with tempfile.TemporaryDirectory() as place:
        run = Path(place) / "run"
        recorded = fill(run, kind, episodes)
        made = subprocess.run([sys.executable, __file__, "--make", str(run)], capture_output=True, text=True, check=True)
        seen = look(run / "viewer.html", "focus on hedgehog" if kind == "short" else "the mug 3 was in no drawer 7")
        return {"episodes": episodes, "recorded_mb": recorded, **json.loads(made.stdout), **seen}


FILES = {
    "recorded_mb": ("episode files", "{:,.0f} MB"),
    "page_mb": ("page", "{:.1f} MB"),
    "make_cpu_s": ("written with processor time of", "{:.0f} s"),
    "make_peak_mb": ("by a process of at most", "{:,.0f} MB"),
    "heap_mb": ("memory of its script when opened", "{:.0f} MB"),
    "frame_p95_ms": ("95 of 100 frames within", "{:.0f} ms"),
}
USES = {
    "load": "opened, list on screen",
    "filter": "filter by outcome",
    "order": "order by turns",
    "frame": "a frame while scrolling",
    "search": "search through all texts",
    "episode": "an episode opens",
    "group": "its siblings side by side",
}


def table(figures: dict[str, dict[str, float]]) -> str:
    """The figures for people: by kind of run, clock and processor."""
    lines = ["| | " + " | ".join(f"{kind} episodes" for kind in figures) + " |", "|---|" + "---|" * len(figures)]
    for key, (name, form) in FILES.items():
        lines.append(f"| {name} | " + " | ".join(form.format(found[key]) for found in figures.values()) + " |")
    for key, name in USES.items():
        cells = (f"{found[f'{key}_cpu_ms']:,.1f} ms ({found[f'{key}_ms']:,.0f} ms)" for found in figures.values())
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def main() -> None:
    """Measure what was asked for, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--episodes", type=int, default=10_000)
    parser.add_argument("--kind", choices=("short", "long"), action="append", help="default: both")
    parser.add_argument("--json", type=Path, help="where the figures go")
    parser.add_argument("--make", type=Path, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.make:
        print(json.dumps(make(asked.make)))
        return
    if missing():
        raise SystemExit(f"This benchmark needs a browser: {missing()}")
    figures = {kind: measure(kind, asked.episodes) for kind in asked.kind or ["short", "long"]}
    if asked.json:
        asked.json.write_text(json.dumps(figures, indent=1))
    print(table(figures))


if __name__ == "__main__":
    main()
