"""Checks of a request before anything heavy is imported: world, tasks, words, model, packages. Seconds, not minutes."""

from __future__ import annotations

import re
from collections.abc import Iterable
from importlib.util import find_spec
from pathlib import Path

from dpepo.algorithms.base import load_algorithm
from dpepo.config import Config, Form, TaskSelection
from dpepo.envs import load_world, select_tasks, world_status
from dpepo.errors import ConfigError, MissingPackage, RequestError
from dpepo.policies.models import model_folder
from dpepo.protocol import PromptBuilder

_HUB_ID = re.compile(r"[\w.-]+(/[\w.-]+)?")


def check_request(job: str, config: Config) -> None:
    """Refuse a job that cannot work.

    Args:
        job: "synth", "sft", "train" or "eval".
        config: The resolved configuration.

    Raises:
        RequestError: With a sentence that says what is wrong and what to do; nothing has been started or written.
    """
    _check_copies(job, config)
    PromptBuilder(config.prompt)
    if job == "train":
        load_algorithm(config.algorithm)
    if job in ("synth", "train", "eval"):
        _check_tasks(config, [config.tasks.eval] if job == "eval" else [config.tasks.train])
    if job in ("sft", "train") or (job == "eval" and config.eval.policy == "model"):
        check_packages(("torch", "transformers"), extra="train", needed_for=f"dpepo {job}")
        _check_model(config.model.path)


def check_packages(names: Iterable[str], *, extra: str, needed_for: str) -> None:
    """Refuse when one of the packages is not installed, without importing any.

    Raises:
        MissingPackage: With the command that installs it.
    """
    for name in names:
        if find_spec(name) is None:
            raise MissingPackage(name, extra=extra, needed_for=needed_for)


def check_world(name: str) -> None:
    """Refuse when a world cannot be used on this machine.

    Raises:
        RequestError: Saying what is missing and how to get it.
    """
    status = world_status(name)
    if not status.ready:
        raise RequestError(f"The world {name!r} cannot be used here: {status.detail}")


def _check_tasks(config: Config, selections: Iterable[TaskSelection]) -> None:
    # First the names, which need no Java; then whether the world works here.
    with load_world(config.env.world, config.env.options) as world:
        for selection in selections:
            select_tasks(world, selection, seed=config.seed)
    check_world(config.env.world)


def _check_copies(job: str, config: Config) -> None:
    """A sequential agent has one environment; the number the prompt speaks of and the number played must agree."""
    if config.prompt.form is not Form.SEQUENTIAL:
        return
    if job == "eval" and config.eval.num_envs > 1:
        raise ConfigError(f"prompt.form sequential needs one environment, got eval.num_envs {config.eval.num_envs}")
    if job == "synth" and set(config.synth.num_envs) != {1}:
        raise ConfigError(f"prompt.form sequential needs synth.num_envs [1], got {list(config.synth.num_envs)}")


def _check_model(path: str) -> None:
    folder = model_folder(path)
    if path.startswith("builtin:") or Path(folder).is_dir() or _HUB_ID.fullmatch(folder):
        return
    raise ConfigError(f"model.path: there is no folder {folder}")
