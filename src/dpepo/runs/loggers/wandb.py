"""Weights & Biases, offline: ``RUN/wandb/offline-run-*``, to be uploaded with ``wandb sync`` by who wants to.

Nothing leaves the machine unless the environment variable WANDB_MODE says so. A step that is done again after a resume keeps
the numbers of the first time: W&B takes steps in rising order only.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

from dpepo.runs.files import write_atomic
from dpepo.runs.loggers.base import Note, TrackedRun, Tracker

os.environ.setdefault("WANDB_ERROR_REPORTING", "false")  # read when wandb is imported: no crash reports

import wandb
from wandb.sdk.lib.runid import generate_id

_FLUSH_EVERY_S = 1.0  # what a killed process may lose; W&B's own 15 would be several steps


class WandbTracker(Tracker):
    """One W&B run per stage, grouped by run folder; later sessions carry the same id."""

    def __init__(self, run: TrackedRun, note: Note) -> None:
        super().__init__(run, note)
        folder = run.folder.absolute()
        (folder / "wandb").mkdir(exist_ok=True)
        self._file = folder / "wandb" / f"{run.stage}.json"
        state = json.loads(self._file.read_text(encoding="utf-8")) if self._file.exists() else {}
        self._id = str(state.get("id") or generate_id())
        self._last = int(state.get("step", -1))
        _keep_inside(folder / "wandb")
        self._run: Any = wandb.init(
            id=self._id,
            resume="allow",
            name=run.name,
            group=run.folder.name,
            project=os.environ.get("WANDB_PROJECT", "dpepo"),
            config=json.loads(json.dumps(run.settings, default=str)),
            dir=folder,
            mode=cast(Any, os.environ.get("WANDB_MODE", "offline")),
            reinit="create_new",
            settings=wandb.Settings(
                console="off",
                silent=True,
                disable_git=True,
                disable_code=True,
                save_code=False,
                x_disable_stats=True,
                x_transaction_log_flush_interval=_FLUSH_EVERY_S,
            ),
        )
        self._remember(self._last)

    @property
    def last_step(self) -> int | None:
        """The last step that earlier sessions wrote."""
        return self._last

    def log(self, step: int, time: float, values: Mapping[str, float]) -> None:
        """Write the numbers, and note up to where they go."""
        self._run.log({**values, "_timestamp": time}, step=step, commit=True)
        self._remember(step)

    def close(self) -> None:
        """Finish this session's file."""
        self._run.finish()

    def _remember(self, step: int) -> None:
        write_atomic(self._file, json.dumps({"id": self._id, "step": step}) + "\n")


def _keep_inside(folder: Path) -> None:
    """Where W&B would write into the home folder, let it write into the run folder; what a person has set stays."""
    for name in ("CACHE", "CONFIG", "DATA", "ARTIFACT"):
        os.environ.setdefault(f"WANDB_{name}_DIR", str(folder / name.lower()))
