"""From run folders to a table of one kind."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from dpepo.errors import RequestError, did_you_mean
from dpepo.evaluation.measured import Measured, find_measured, sweep_baseline
from dpepo.evaluation.tables.columns import TYPE_CHOICES
from dpepo.evaluation.tables.cost import cost_table
from dpepo.evaluation.tables.dynamics import dynamics_table
from dpepo.evaluation.tables.model import Table
from dpepo.evaluation.tables.published import published_tables
from dpepo.evaluation.tables.rates import RateOptions, rates_table


class Kind(NamedTuple):
    """A kind of table."""

    shape: str  # which of the paper's tables it has the shape of
    title: str


KINDS: Mapping[str, Kind] = {
    "results": Kind("Tables 1 and 7", "Success by list of tasks and task type"),
    "ablation": Kind("Tables 2 and 4", "Ablation"),
    "cost": Kind("Table 3", "What an episode costs"),
    "dynamics": Kind("Table 5", "Training dynamics"),
    "no-cold-start": Kind("Table 6", "Reinforcement learning without a cold start"),
    "memory": Kind("Table 8", "Memory of the prompt"),
}


class TableRequest(NamedTuple):
    """What is asked for."""

    sources: Sequence[str] = ()  # run folders and folders of runs
    kind: str = "results"
    labels: Sequence[str] = ()  # one per source, or none
    only: Sequence[str] = ()  # patterns of evaluations
    types: str = "first"  # whose task types have columns
    tries: Sequence[int] = (1,)  # k of pass@k
    baseline: str = ""  # method that an ablation compares with; empty: the first
    window: int = 0  # RL steps to a line of "dynamics"; 0: a tenth
    published: bool = False  # the paper's numbers as well


def build_table(request: TableRequest) -> Table:
    """Read the runs and make the table; what is damaged, unfinished or left out stands in its notes.

    Raises:
        RequestError: A kind or choice does not exist, or there is nothing to show.
    """
    if request.kind not in KINDS:
        raise RequestError(f"--kind: there is no {request.kind!r}. {did_you_mean(request.kind, KINDS)}")
    if request.types not in TYPE_CHOICES:
        raise RequestError(f"--types: {request.types!r} is none of {', '.join(TYPE_CHOICES)}")
    if not request.sources and not request.published:
        raise RequestError("Nothing to show: name a run folder, or --published for the paper's numbers alone")
    notes: list[str] = []
    table = _table(request, notes.append)
    return table.model_copy(update={"notes": (*table.notes, *dict.fromkeys(notes))})


def _table(request: TableRequest, note: Callable[[str], None]) -> Table:
    published = published_tables(request.kind) if request.published else []
    if request.kind == "dynamics":
        return dynamics_table(
            request.sources, labels=request.labels, only=request.only, window=request.window, note=note, published=published
        )
    measured: list[Measured] = []
    if request.sources:
        measured = find_measured(request.sources, labels=request.labels, only=request.only, note=note)
    if request.kind == "cost":
        return cost_table(measured, published=published)
    if request.kind == "memory":
        measured = sorted(measured, key=_memory_order)
    labels = {one.label for one in measured}
    if request.baseline and request.baseline not in labels:
        raise RequestError(f"--baseline: there is no {request.baseline!r}. {did_you_mean(request.baseline, labels)}")
    options = RateOptions(
        title=KINDS[request.kind].title,
        types=request.types,
        tries=tuple(request.tries) or (1,),
        differences=request.kind == "ablation",
        baseline=request.baseline or sweep_baseline(request.sources),
        always=("memory",) if request.kind == "memory" else (),
    )
    return rates_table(measured, options, published=published)


def _memory_order(one: Measured) -> tuple[int, int]:
    """Windows by size, then compact, then full."""
    memory = one.conditions.memory.value
    return ("window", "compact", "full").index(memory), one.conditions.window or 0
