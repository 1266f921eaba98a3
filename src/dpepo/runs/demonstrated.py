"""Which tasks a model has been shown by demonstrations: a list of ids that goes with the model, so that RL can avoid them.

``dpepo synth`` writes it into its run folder, ``dpepo sft`` into the model folder of every checkpoint, and jobs that go on from
that model hand it on.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from dpepo.config import Config, ModelConfig
from dpepo.envs.task_lists import DEMONSTRATED_TASKS, refuse_overlap
from dpepo.policies.models import base_folder, model_folder
from dpepo.runs.files import write_atomic
from dpepo.types import Task


def write_demonstrated(folder: Path, task_ids: Iterable[str]) -> None:
    """Write the list into a folder; nothing where there are no ids."""
    ids = sorted(set(task_ids))
    if ids:
        write_atomic(folder / DEMONSTRATED_TASKS, "".join(f"{task_id}\n" for task_id in ids))


def read_demonstrated(config: ModelConfig) -> tuple[str, ...]:
    """Tasks that ``model.path``, and the base model below it, have been shown; none where nobody wrote them down.

    Raises:
        ConfigError: There is no such model.
    """
    texts = [file.read_text(encoding="utf-8") for file in _files(config)]
    return tuple(dict.fromkeys(task_id for text in texts for task_id in text.split("\n") if task_id))


def refuse_demonstrated(config: Config, tasks: Sequence[Task]) -> None:
    """Refuse to train on tasks that the model's demonstrations show, unless ``train.allow_overlap`` says so.

    Args:
        config: Sections ``model`` and ``train``.
        tasks: Those of ``tasks.train``.

    Raises:
        TaskError: With their number, the first of them, and how to leave them out.
        ConfigError: There is no such model.
    """
    if config.train.allow_overlap:
        return
    shown = [Task(id=task_id, world="", name="") for task_id in read_demonstrated(config.model)]
    files = ", ".join(map(str, _files(config.model)))
    refuse_overlap(
        shown,
        tasks,
        keys=("the demonstrations of model.path", "tasks.train"),
        allow=f"train.allow_overlap=true. To leave them out: tasks.train.exclude={files}",
    )


def _files(config: ModelConfig) -> list[Path]:
    folders = dict.fromkeys([model_folder(config.path), base_folder(config)])
    return [file for folder in folders if (file := Path(folder) / DEMONSTRATED_TASKS).is_file()]
