"""Checks of a request before anything heavy is imported: world, tasks, words, model, packages. Seconds, not minutes."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from importlib.util import find_spec
from pathlib import Path

from dpepo.algorithms.base import load_algorithm
from dpepo.config import Config, Form, ModelConfig, TaskSelection
from dpepo.envs import load_world, refuse_overlap, select_tasks, world_status
from dpepo.errors import ConfigError, MissingPackage, RequestError, did_you_mean
from dpepo.policies.models import check_model
from dpepo.protocol import PromptBuilder
from dpepo.rollout.casting import OPENAI, ORACLE, RANDOM
from dpepo.runs.demonstrated import refuse_demonstrated

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
    if job == "synth":
        _check_player(config.synth.teacher, config=config, key="synth.teacher")
    if job == "eval" and config.eval.policy != "model":
        _check_player(config.eval.policy, config=config, key="eval.policy")
    _check_tasks(job, config, _selections(job, config))
    if job in ("sft", "train") or (job == "eval" and config.eval.policy == "model"):
        check_packages(("torch", "transformers"), extra="train", needed_for=f"dpepo {job}")
        _check_model(config.model, train=job != "eval")
    if job == "sft":
        _check_demonstrations(config.sft.demonstrations)


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


def _selections(job: str, config: Config) -> list[TaskSelection]:
    if job == "eval":
        return [config.tasks.eval]
    if job == "sft":
        return [config.tasks.eval] if config.sft.eval_every else []
    both = job == "train" and config.train.eval_every > 0
    return [config.tasks.train, config.tasks.eval] if both else [config.tasks.train]


def _check_player(name: str, *, config: Config, key: str) -> None:
    module, colon, _ = name.partition(":")
    if name in (ORACLE, RANDOM):
        return
    if name == OPENAI:
        check_packages(("openai",), extra="openai", needed_for=f"{key} openai")
        for part in ("base_url", "model"):
            if not getattr(config.server, part):
                raise ConfigError(f"server.{part} is empty, and {key} is openai. Try: server.base_url=http://127.0.0.1:8000/v1")
        return
    if not colon:
        known = (OPENAI, ORACLE, RANDOM) if key == "synth.teacher" else (OPENAI, ORACLE, RANDOM, "model")
        raise ConfigError(f"{key}: there is no {name!r}. {did_you_mean(name, known)} An agent of your own: module:Class.")
    try:
        found = find_spec(module) is not None
    except (ImportError, ValueError):
        found = False
    if not found:
        raise ConfigError(f"{key}: there is no module {module!r}; is its folder on PYTHONPATH?")


def _check_demonstrations(source: str) -> None:
    if not source:
        raise ConfigError("sft.demonstrations is empty. Make some with dpepo synth, then: sft.demonstrations=RUN_FOLDER")
    path = Path(source)
    if not path.exists():
        raise ConfigError(f"sft.demonstrations: there is no {source}")
    if path.is_dir() and not any((path / "episodes").glob("*.jsonl")):
        raise ConfigError(f"sft.demonstrations: the folder {source} holds no episodes/*.jsonl, so it is no run of dpepo synth")


def _check_tasks(job: str, config: Config, selections: Sequence[TaskSelection]) -> None:
    if not selections:
        return
    # First the names, which need no Java; then whether the world works here.
    with load_world(config.env.world, config.env.options) as world:
        chosen = [select_tasks(world, selection, seed=config.seed) for selection in selections]
    if len(chosen) > 1 and not config.tasks.allow_overlap:
        refuse_overlap(*chosen, keys=("tasks.train", "tasks.eval"), allow="tasks.allow_overlap=true")
    if job == "train":
        refuse_demonstrated(config, chosen[0])
    check_world(config.env.world)


def _check_copies(job: str, config: Config) -> None:
    """A sequential agent has one environment; the number the prompt speaks of and the number played must agree."""
    if config.prompt.form is not Form.SEQUENTIAL:
        return
    if job == "eval" and config.eval.num_envs > 1:
        raise ConfigError(f"prompt.form sequential needs one environment, got eval.num_envs {config.eval.num_envs}")
    if job == "synth" and set(config.synth.num_envs) != {1}:
        raise ConfigError(f"prompt.form sequential needs synth.num_envs [1], got {list(config.synth.num_envs)}")


def _check_model(model: ModelConfig, *, train: bool) -> None:
    for folder in check_model(model, train=train):
        if not Path(folder).is_dir() and not _HUB_ID.fullmatch(folder):
            raise ConfigError(f"model.path: there is no folder {folder}")
