"""Learning: advantages to tensors to loss to a step of the optimiser. Torch is loaded when a part needs it."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from dpepo.learning.samples import build_samples

if TYPE_CHECKING:
    from dpepo.learning.update import Learner, frozen_copy, supervised_config

__all__ = [
    "Learner",
    "build_samples",
    "frozen_copy",
    "supervised_config",
]

_LAZY = {"Learner", "frozen_copy", "supervised_config"}


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        return getattr(import_module("dpepo.learning.update"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
