"""Learning: advantages to tensors to loss to a step of the optimiser. Torch is loaded when a part needs it."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from dpepo.learning.samples import build_samples
from dpepo.learning.schedule import learning_rate

if TYPE_CHECKING:
    from dpepo.learning.reference import freeze, lent
    from dpepo.learning.update import Critic, Learner, supervised_config
    from dpepo.learning.values import ValueHead

__all__ = [
    "Critic",
    "Learner",
    "ValueHead",
    "build_samples",
    "freeze",
    "learning_rate",
    "lent",
    "supervised_config",
]

_LAZY = {
    "Critic": "update",
    "Learner": "update",
    "ValueHead": "values",
    "freeze": "reference",
    "lent": "reference",
    "supervised_config": "update",
}


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        return getattr(import_module(f"dpepo.learning.{_LAZY[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
