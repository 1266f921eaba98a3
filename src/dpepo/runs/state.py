"""What a run folder says of itself, for people: job, state, success, stages in order. Never raises on a damaged folder."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeGuard

from dpepo.runs.episodes import parse_file_name
from dpepo.runs.metrics import read_metrics

FORMAT = 1  # of run.json, as this version writes it


@dataclass(frozen=True, kw_only=True)
class RunState:
    """A run as its run.json and metrics tell it."""

    job: str = ""  # empty where unknown
    state: str = "unknown"  # "finished", "running", "interrupted", "not finished", "failed" or "unknown"
    error: str = ""  # what made it fail
    started: str = ""  # first session, ISO time
    success: float | None = None  # in [0, 1]; the newest rate that the run recorded
    success_of: str = ""  # where that rate stands, e.g. "rl, step 120"; empty for the result of the job
    stages: tuple[str, ...] = ()  # in the order in which they first wrote episodes, as far as recorded
    notices: tuple[str, ...] = field(default=())  # what is damaged or from another version


def read_state(run: Path) -> RunState:
    """Read what is known of a run; whatever cannot be read is unknown, and said in a notice."""
    path = run / "run.json"
    if not path.is_file():
        return RunState()
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        sessions = [dict(session) for session in content["sessions"]]
        job, number = str(content["job"]), content.get("format")
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        return RunState(notices=(f"run.json cannot be read ({type(error).__name__}), so job and state are unknown",))
    notices = () if number == FORMAT else (f"run.json is of format {number!r}, this version of dpepo knows {FORMAT}",)
    last = sessions[-1] if sessions else {}
    rate, where = _success(run, last)
    return RunState(
        job=job,
        state=_state(run, last),
        error=str(last.get("failed", "")),
        started=str(sessions[0].get("started", "")) if sessions else "",
        success=rate,
        success_of=where,
        stages=_stages(sessions),
        notices=notices,
    )


def order_stages(run: Path, stages: Iterable[str], *, known: tuple[str, ...]) -> list[str]:
    """Stages in the order in which they were played.

    Args:
        run: The run folder.
        stages: Those that have episodes.
        known: `RunState.stages`. Stages that are not among them are from a version that did not record the order, thus
            earlier: they come first, by the time of their oldest file.
    """
    oldest: dict[str, int] = {}
    for path in (run / "episodes").glob("*.jsonl"):
        name = parse_file_name(path.name)
        if name is not None:
            written = path.stat().st_mtime_ns
            oldest[name.stage] = min(written, oldest.get(name.stage, written))
    places = {stage: place for place, stage in enumerate(known)}
    return sorted(set(stages), key=lambda stage: (places.get(stage, -1), oldest.get(stage, 0), stage))


def _state(run: Path, session: dict[str, Any]) -> str:
    if "finished" in session:
        return "finished"
    if "failed" in session:
        return "failed"
    if session.get("interrupted"):
        return "interrupted"
    return "running" if _locked(run / ".lock") else "not finished"


def _locked(path: Path) -> bool:
    """Whether some process holds the run, as far as the system tells; asking takes no lock, so that no job is disturbed."""
    try:
        number = str(path.stat().st_ino)
        lines = Path("/proc/locks").read_text(encoding="ascii", errors="replace").splitlines()
    except OSError:
        return False
    return any("FLOCK" in line and f":{number} " in line for line in lines)


def _success(run: Path, session: dict[str, Any]) -> tuple[float | None, str]:
    result = session.get("result")
    rate = result.get("success_rate") if isinstance(result, dict) else None
    if _is_rate(rate):
        return rate, ""
    metrics = run / "metrics.jsonl"
    for row in reversed(read_metrics(metrics).rows if metrics.is_file() else ()):
        for name in ("val/success_rate", "eval/success_rate", "episode/success_rate"):
            if _is_rate(value := row.values.get(name)):
                return value, f"{row.stage}, step {row.step}"
    return None, ""


def _is_rate(value: Any) -> TypeGuard[float]:
    return isinstance(value, float | int) and not isinstance(value, bool) and 0.0 <= value <= 1.0


def _stages(sessions: list[dict[str, Any]]) -> tuple[str, ...]:
    lists = [session.get("stages") for session in sessions]
    return tuple(dict.fromkeys(str(stage) for stages in lists if isinstance(stages, list) for stage in stages))
