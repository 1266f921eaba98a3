"""What a finished run says about itself, for people: ``summary.json``, read by the report page and by tables.

A job writes it once, at its end, with `write_summary`; `dpepo.runs.report` turns it into a page. Everything here is plain data:
proportions are in [0, 1], counts are integers, texts are plain words (never markup).
"""

from __future__ import annotations

from pathlib import Path
from typing import Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from dpepo.errors import RunFolderError
from dpepo.runs.files import write_atomic

SUMMARY_FILE = "summary.json"


class SummaryRecord(BaseModel):
    """Base of the records of a summary: immutable, unknown fields refused."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class CurvePoint(SummaryRecord):
    """One measured proportion on the learning curve."""

    step: float  # position on the horizontal axis, e.g. the RL step; may be negative for what came before step 0
    series: str  # which line it belongs to, e.g. "K = 4, training"; lines appear in order of first mention
    value: float = Field(ge=0, le=1)
    n: int = Field(0, ge=0)  # episodes behind the value; 0: unknown, then no interval is drawn


class ResultRow(SummaryRecord):
    """One cell of the results table: a policy, a way of playing, and how often it succeeded.

    Rows with equal (split, temperature, num_envs, tries, max_turns) stand on one line of the table, a column per `label`, in
    order of first mention. The first row decides what the headline of the report is about.
    """

    label: str  # the column: which policy, e.g. "after cold start", "after RL"
    stage: str = ""  # stage name of its episode files, so that the report can show episodes; empty: none
    split: str  # e.g. "test"; shown as given
    num_envs: int = Field(ge=1)  # K
    tries: int = Field(1, ge=1)  # k of pass@k: independent episodes of which the best counts; 1 is plain success
    temperature: float = Field(ge=0)  # 0 is greedy
    max_turns: int | None = Field(None, ge=1)  # T
    successes: int = Field(ge=0)
    n: int = Field(ge=0)  # what `successes` is counted over: episodes, or groups of `tries` episodes; lost ones left out
    lost: int = Field(0, ge=0)  # episodes left out because an environment or the policy broke
    value: float | None = Field(None, ge=0, le=1)  # the proportion, where it is an estimate other than successes / n
    interval: tuple[float, float] | None = None  # 95 % bounds in [0, 1], where Wilson's do not fit; default: Wilson

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.successes > self.n:
            raise ValueError(f"successes ({self.successes}) cannot exceed n ({self.n})")
        return self

    @property
    def rate(self) -> float | None:
        """The proportion in [0, 1]; None where nothing was counted."""
        if self.value is not None:
            return self.value
        return self.successes / self.n if self.n else None


class Reference(SummaryRecord):
    """A level to compare with, e.g. what blind choice would reach: a dashed line on the curve and a line under the table."""

    label: str
    value: float = Field(ge=0, le=1)
    note: str = ""


class Fact(SummaryRecord):
    """A name and a value for the last section, e.g. ("seed", "0") or ("time", "11 min 20 s")."""

    name: str
    value: str


class Summary(SummaryRecord):
    """All a report says beyond the episodes themselves."""

    title: str
    subtitle: str = ""  # one sentence under the title
    notes: tuple[str, ...] = ()  # plain-words paragraphs: what was done, what the numbers do and do not show
    curve: tuple[CurvePoint, ...] = ()
    curve_axis: str = "optimisation step"  # what `CurvePoint.step` counts
    table: tuple[ResultRow, ...] = ()
    references: tuple[Reference, ...] = ()
    facts: tuple[Fact, ...] = ()
    commands: tuple[str, ...] = ()  # commands to try next, one line each


def write_summary(run: Path, summary: Summary) -> Path:
    """Write ``summary.json`` into the run folder, whole or not at all, and return its path."""
    path = run / SUMMARY_FILE
    write_atomic(path, summary.model_dump_json(indent=1) + "\n")
    return path


def read_summary(run: Path) -> Summary:
    """Read ``summary.json`` of a run folder.

    Raises:
        RunFolderError: the file is missing (the run is unfinished, or its job writes none), or no summary this version reads.
    """
    path = run / SUMMARY_FILE
    try:
        return Summary.model_validate_json(path.read_bytes())
    except FileNotFoundError:
        raise RunFolderError(
            f"{path} does not exist: the run is unfinished, or its job writes no summary. Try: dpepo view {run}"
        ) from None
    except OSError as error:
        raise RunFolderError(f"{path} cannot be read: {error.strerror or error}") from None
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(str(part) for part in first["loc"]) or "the file as a whole"
        raise RunFolderError(f"{path} is not a summary that this version of dpepo reads ({where}: {first['msg']})") from None
