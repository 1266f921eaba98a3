"""Who answers a prompt: a script, or a language model.

`HfPolicy` and `load_hf` need torch and transformers, which are imported when they are first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from dpepo.policies.base import Policy
from dpepo.policies.models import BUILTIN_MODELS, base_folder, load_hf, model_folder
from dpepo.policies.scripted import ScriptedPolicy

if TYPE_CHECKING:
    from dpepo.policies.hf import HfPolicy

__all__ = ["BUILTIN_MODELS", "HfPolicy", "Policy", "ScriptedPolicy", "base_folder", "load_hf", "model_folder"]


def __getattr__(name: str) -> Any:
    if name == "HfPolicy":
        return import_module("dpepo.policies.hf").HfPolicy
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
