"""What an episode costs: tokens, turns, actions, seconds; as in the paper's Table 3."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from statistics import fmean

from dpepo.evaluation.measured import Measured
from dpepo.evaluation.result import EvalResult
from dpepo.evaluation.tables.methods import labels_of, methods_of, playing_notes
from dpepo.evaluation.tables.model import MEASURED, Column, Row, Table, number
from dpepo.evaluation.tables.published import Published

COLUMNS = (
    Column(key="success", group="", name="success, %"),
    Column(key="reply_tokens", group="an episode", name="reply tokens"),
    Column(key="prompt_tokens", group="an episode", name="prompt tokens"),
    Column(key="turns", group="an episode", name="turns"),
    Column(key="actions", group="an episode", name="actions"),
    Column(key="seconds", group="an episode", name="seconds"),
    Column(key="env_seconds", group="an episode", name="of these, worlds"),
    Column(key="actions_per_turn", group="a turn", name="actions"),
    Column(key="prompt_tokens_per_turn", group="a turn", name="prompt tokens"),
)

_VALUES: Mapping[str, tuple[Callable[[EvalResult], float], str]] = {
    "success": (lambda r: 100 * r.success_rate, "{:.1f}"),
    "reply_tokens": (lambda r: r.reply_tokens_per_episode, "{:.1f}"),
    "prompt_tokens": (lambda r: r.prompt_tokens_per_episode, "{:.1f}"),
    "turns": (lambda r: r.turns, "{:.2f}"),
    "actions": (lambda r: r.actions, "{:.2f}"),
    "seconds": (lambda r: r.seconds_per_episode, "{:.2f}"),
    "env_seconds": (lambda r: r.env_seconds_per_episode, "{:.2f}"),
    "actions_per_turn": (lambda r: r.actions_per_turn, "{:.2f}"),
    "prompt_tokens_per_turn": (lambda r: r.prompt_tokens, "{:.1f}"),
}

NOTES = (
    "Means over finished episodes, in all copies together; of several runs, the mean of their means.",
    "Tokens of agents without a tokenizer are 0. Seconds are of sampling and acting, a batch shared evenly among its "
    "episodes; they depend on machine and batch size.",
)


def cost_table(measured: Sequence[Measured], *, published: Sequence[Published] = ()) -> Table:
    """The table: a line per method and list of tasks.

    Args:
        measured: Evaluations.
        published: Tables of the paper to show beside.
    """
    methods = methods_of(measured)
    several = len({column for method in methods for column in method.by_column}) > 1
    rows = []
    for method, label in zip(methods, labels_of(methods), strict=True):
        for column, same in method.by_column.items():
            results = [one.result for one in same if one.result.n]
            cells = [
                number(fmean(value(result) for result in results) if results else None, form)
                for value, form in _VALUES.values()
            ]
            rows.append(Row(label=f"{label}; {column}" if several else label, cells=tuple(cells)))
    beside = [row for table in published for row in table.rows(COLUMNS)]
    rows = [row.model_copy(update={"group": MEASURED if beside else ""}) for row in rows] + beside
    notes = [*playing_notes(methods, measured), *NOTES] if methods else []
    notes += [f"Table {table.table}: {table.note}" for table in published]
    return Table(title="What an episode costs", columns=COLUMNS, rows=tuple(rows), notes=tuple(notes))
