"""The keys of a recipe as dotted names, and the nearest right one for a wrong one.

Derived from the models in `dpepo.config`, so that no list can fall out of step. Used by `dpepo.recipes`. Pure.
"""

from __future__ import annotations

import difflib
import types
import typing
from collections.abc import Iterator
from functools import cache
from typing import Any

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from dpepo.config import Config

# Names of the paper, its code and neighbouring projects that spelling alone would not lead to ours.
OTHER_NAMES = {
    "adv_estimator": "algorithm.name",
    "batch_size": "train.tasks_per_step",
    "clip_ratio_c": "actor.dual_clip",
    "clip_ratio_high": "actor.clip_high",
    "clip_ratio_low": "actor.clip_low",
    "cliprange_value": "algorithm.value_clip",
    "env_name": "env.world",
    "filter_groups": "train.refill",
    "gae_lambda": "algorithm.lam",
    "group_n": "train.group_size",
    "kl_loss_coef": "actor.kl_coef",
    "kl_loss_type": "actor.kl",
    "learning_rate": "actor.lr",
    "loss_agg_mode": "actor.loss_average",
    "max_prompt_length": "model.max_length",
    "max_response_length": "sampling.max_new_tokens",
    "max_steps": "rollout.max_turns",
    "model_path": "model.path",
    "num_parallel": "env.num_envs",
    "parallel_num": "env.num_envs",
    "rollout_n": "train.group_size",
    "step_advantage_w": "algorithm.step_weight",
    "tis_imp_ratio_cap": "actor.truncated_is",
    "total_steps": "train.steps",
    "use_kl_in_reward": "actor.kl_in",
}


def section_of(field: FieldInfo) -> type[BaseModel] | None:
    """The model behind a field that is a section of its own, else None."""
    annotation = field.annotation
    return annotation if isinstance(annotation, type) and issubclass(annotation, BaseModel) else None


def _walk(model: type[BaseModel], prefix: str) -> Iterator[tuple[str, FieldInfo]]:
    for name, field in model.model_fields.items():
        yield prefix + name, field
        section = section_of(field)
        if section is not None:
            yield from _walk(section, f"{prefix}{name}.")


@cache
def known_keys() -> dict[str, FieldInfo]:
    """Every key that exists, sections included, in the order of the models.

    >>> known_keys()["env.num_envs"].default
    4
    """
    return dict(_walk(Config, ""))


def base_types(key: str) -> set[Any]:
    """The plain types a key takes, unions taken apart: `{float, NoneType}` for an optional number.

    >>> base_types("seed")
    {<class 'int'>}
    """
    annotation: Any = known_keys()[key].annotation
    if isinstance(annotation, types.UnionType) or typing.get_origin(annotation) is typing.Union:
        return {typing.get_origin(part) or part for part in typing.get_args(annotation)}
    return {typing.get_origin(annotation) or annotation}


def key_rows() -> list[str]:
    """One table row per key that takes a value: name, default, meaning. docs/configuration.md holds them.

    >>> key_rows()[0]
    '| `seed` | 0 | Root of all randomness. |'
    """
    rows = []
    for key, field in known_keys().items():
        if section_of(field) is None:
            rows.append(f"| `{key}` | {shown_value(default_of(key))} | {field.description} |")
    return rows


def default_of(key: str) -> Any:
    """The value a key has when nobody sets it."""
    value: Any = Config()
    for part in key.split("."):
        value = getattr(value, part)
    return value


def shown_value(value: Any) -> str:
    """A value as one would write it in a recipe.

    >>> shown_value((1, None, True, "x", ""))
    "[1, null, true, x, '']"
    """
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, tuple | list):
        return "[" + ", ".join(shown_value(item) for item in value) + "]"
    return str(value) if not isinstance(value, str) or value else "''"


def nearest_key(key: str) -> str | None:
    """The key somebody most likely meant, as a dotted name; None when nothing is near.

    A right name in the wrong place comes first (``num_envs``), then a misspelling inside the same section
    (``env.num_enfs``), then another project's word for it (``num_parallel``), then a misspelling anywhere.

    >>> nearest_key("num_envs"), nearest_key("env.num_paralel"), nearest_key("zzz")
    ('env.num_envs', 'env.num_envs', None)
    """
    keys = list(known_keys())
    if key in keys:
        return key
    section, _, name = key.rpartition(".")
    same_name = [known for known in keys if known.rpartition(".")[2] == name]
    if same_name:
        return difflib.get_close_matches(key, same_name, n=1, cutoff=0)[0]
    neighbours = {known.rpartition(".")[2]: known for known in keys if known.rpartition(".")[0] == section}
    for choices, cutoff in ((neighbours, 0.7), (OTHER_NAMES, 0.8)):
        close = difflib.get_close_matches(name, choices, n=1, cutoff=cutoff)
        if close:
            return choices[close[0]]
    close = difflib.get_close_matches(key, keys, n=1, cutoff=0.7)
    if close:
        return close[0]
    anywhere = {known.rpartition(".")[2]: known for known in reversed(keys)}
    close = difflib.get_close_matches(name, anywhere, n=1, cutoff=0.7)
    return anywhere[close[0]] if close else None
