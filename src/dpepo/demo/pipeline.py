"""The demo from cold start to report, in one run folder; `dpepo.demo.stages` does the work.

Importing this is cheap: a wrong request is refused before torch is loaded.
"""

from __future__ import annotations

import time
from pathlib import Path

from dpepo.demo.worlds import find_demo
from dpepo.errors import RunFolderError
from dpepo.recipes import load_config
from dpepo.runs.progress import Progress
from dpepo.runs.rundir import RunFolder
from dpepo.runs.stats import wilson_interval
from dpepo.runs.summary import ResultRow, Summary
from dpepo.types import Record


class DemoResult(Record):
    """What the demo brought."""

    report: str  # the page to open
    summary: Summary
    minutes: float  # of this session

    def as_text(self, *, command: str = "dpepo") -> str:
        """The table, the levels to compare with, and what to try next.

        Args:
            command: How a person starts this program here.
        """
        lines = ["", *format_table(self.summary.table), ""]
        lines += [f"{level.label}: {level.value:.2f}" for level in self.summary.references]
        lines += ["", f"Done in {self.minutes:.1f} minutes. Read the report: {self.report}", "Next:"]
        return "\n".join([*lines, *(f"  {command}{line.removeprefix('dpepo')}" for line in self.summary.commands)])


def run_demo(
    out: Path, *, seed: int, resume: bool, progress: Progress, world: str = "scienceworld", recipe: Path | None = None
) -> DemoResult:
    """Run the demo, or go on with it.

    Args:
        out: The run folder.
        seed: Root of all randomness.
        resume: Go on with the demo in the folder instead of refusing it.
        progress: Who shows how far it is.
        world: Whose demo it is, a key of `dpepo.demo.worlds.DEMOS`.
        recipe: Other settings than the demo's own.

    Raises:
        RequestError: There is no such demo, the folder holds something else, or the world cannot be used here.
    """
    demo = find_demo(world)
    began = time.monotonic()
    settings = [f"seed={seed}", f"run.dir={out}", f"run.resume={str(resume).lower()}", f"sft.demonstrations={out}"]
    config = load_config(recipe or demo.recipe, settings)
    try:
        run = RunFolder.create(out, config=config, job="demo")
    except RunFolderError as error:
        # the demo's folder is an option of its own, not a setting
        raise RunFolderError(str(error).replace("run.resume=true", "--resume").replace("run.dir", "--out")) from None
    run.notes_to(progress.note)
    try:
        from dpepo.demo.stages import play_stages

        report, summary = play_stages(config, demo=demo, run=run, progress=progress, began=began)
        run.finish({f"{row.label}, {_how(row)}": row.rate for row in summary.table})
    except KeyboardInterrupt:
        run.record(interrupted=True)
        raise
    finally:
        run.close()
    return DemoResult(report=str(report), summary=summary, minutes=(time.monotonic() - began) / 60.0)


def format_table(rows: tuple[ResultRow, ...]) -> list[str]:
    """Results as lines of text: how it was played, then a column per policy with its 95 % interval and n."""
    labels = list(dict.fromkeys(row.label for row in rows))
    cells = {(_how(row), row.label): _rate(row) for row in rows}
    ways = list(dict.fromkeys(_how(row) for row in rows))
    table = [
        ["success rate [95 % interval]", *labels],
        *([way, *(cells.get((way, label), "") for label in labels)] for way in ways),
    ]
    widths = [max(len(line[column]) for line in table) for column in range(len(labels) + 1)]
    return ["  ".join(text.ljust(width) for text, width in zip(line, widths, strict=True)).rstrip() for line in table]


def _how(row: ResultRow) -> str:
    sampling = "greedy" if row.temperature == 0 else f"temperature {row.temperature:g}"
    tries = "" if row.tries == 1 else f", best of {row.tries} (pass@{row.tries})"
    return f"{row.split}, K = {row.num_envs}{tries}, {sampling}"


def _rate(row: ResultRow) -> str:
    low, high = wilson_interval(row.successes, row.n)
    lost = f", {row.lost} lost" if row.lost else ""
    return f"{row.rate or 0.0:.3f} [{low:.2f}, {high:.2f}] n={row.n}{lost}"
