"""A line per step for people: the numbers one looks at first. All of them are in ``metrics.jsonl``."""

from __future__ import annotations

from collections.abc import Mapping

from dpepo.runs.loggers.base import Tracker

SHOWN = {
    "episode/success_rate": "success",
    "val/success_rate": "val success",
    "val/loss": "val loss",
    "episode/turns": "turns",
    "episode/actions_per_turn": "actions a turn",
    "group/frac_zero_advantage": "groups without signal",
    "actor/pg_loss": "pg loss",
    "actor/kl_loss": "kl",
    "actor/entropy": "entropy",
    "actor/grad_norm": "grad norm",
    "sft/loss": "loss",
    "sft/grad_norm": "grad norm",
    "response_length/mean": "reply tokens",
    "timing_s/step": "s",
}


class ConsoleTracker(Tracker):
    """Says the line where progress is shown; nothing of the steps of earlier sessions."""

    wants_history = False

    def log(self, step: int, time: float, values: Mapping[str, float]) -> None:
        """Say the line."""
        shown = [f"{label} {values[name]:.4g}" for name, label in SHOWN.items() if name in values]
        self.note(f"{self.run.stage} {step}: {', '.join(shown)}")
