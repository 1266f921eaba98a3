"""Learning: advantages to tensors to loss to a step of the optimiser. Torch is loaded when a part needs it."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from dpepo.learning.samples import build_samples
from dpepo.learning.schedule import learning_rate

if TYPE_CHECKING:
    from dpepo.learning.reference import freeze, lent
    from dpepo.learning.update import Learner, supervised_config

__all__ = [
    "Learner",
    "build_samples",
    "freeze",
    "learning_rate",
    "lent",
    "supervised_config",
]

_LAZY = {"Learner": "update", "freeze": "reference", "lent": "reference", "supervised_config": "update"}


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        return getattr(import_module(f"dpepo.learning.{_LAZY[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
