"""What a training checkpoint holds, and how a job begins or goes on.

``model/`` is an ordinary Hugging Face folder, or the adapter alone as PEFT writes it; ``learner.pt`` holds the optimiser (with
the float32 masters of bfloat16 weights) and counters. Nothing else has a state: learning rates, the tasks of a step and every
draw of randomness follow from the seed and the step, and of several lines for a step in metrics.jsonl the last counts. The
policy that KL is measured against is not stored either; it is ``model.path`` of the run, checked to be the same as before.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping
from pathlib import Path
from pickle import UnpicklingError
from typing import TYPE_CHECKING, Any, NamedTuple

from dpepo.config import Config, ModelConfig
from dpepo.errors import ConfigError, JobError
from dpepo.learning import freeze, lent
from dpepo.policies import base_folder, load_hf, model_folder
from dpepo.policies.lora import is_adapter, read_adapter_weights, save_adapter
from dpepo.runs.checkpoints import Checkpoint
from dpepo.runs.demonstrated import write_demonstrated
from dpepo.runs.progress import Progress
from dpepo.runs.rundir import RunFolder

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

    from dpepo.learning import Learner
    from dpepo.learning.reference import Reference

MODEL_FOLDER, LEARNER_FILE = "model", "learner.pt"
_SAMPLED_BYTES = 1 << 20


class Beginning(NamedTuple):
    """What a job trains, and what it started from."""

    model: Any  # of transformers, or wrapped by PEFT
    tokenizer: PreTrainedTokenizerBase
    reference: Reference | None  # the policy the run started from, for the KL term
    identity: Mapping[str, str]  # of the model the run started from; goes into every checkpoint


def begin(config: Config, checkpoint: Checkpoint | None, *, with_reference: bool = False) -> Beginning:
    """Load ``model.path`` to be trained, and bring it to where a checkpoint left it.

    Args:
        config: Sections ``model`` and ``seed``.
        checkpoint: Where to go on; None at the start of a run.
        with_reference: Whether the policy the run started from is needed as well.

    Raises:
        ConfigError: The model cannot be loaded, or is not the one the run started from.
        JobError: The checkpoint does not fit the model.
    """
    identity = model_identity(config.model)
    if checkpoint is None:
        model, tokenizer = load_hf(config.model, train=True, seed=config.seed)
        return Beginning(model, tokenizer, freeze(model) if with_reference else None, identity)
    _check_identity(config.model, checkpoint.metadata.get("model", identity), identity)
    folder = checkpoint.path / MODEL_FOLDER
    if config.model.lora.rank:
        model, tokenizer = load_hf(config.model, train=True, seed=config.seed)
        reference = freeze(model) if with_reference else None
        try:
            read_adapter_weights(model, folder)
        except (ValueError, RuntimeError, OSError) as error:
            raise JobError(_does_not_fit(checkpoint, error)) from error
        return Beginning(model, tokenizer, reference, identity)
    reference = lent(load_hf(config.model)[0]) if with_reference else None
    model, tokenizer = load_hf(config.model.model_copy(update={"path": str(folder)}), train=True)
    return Beginning(model, tokenizer, reference, identity)


def model_identity(config: ModelConfig) -> dict[str, str]:
    """What tells a model from another that has taken its place: per weight file a digest of its size, beginning and end.

    Whole files are not read: those of a large model take longer than the rest of a start. A hub id stands for itself.
    """
    folders = dict.fromkeys([model_folder(config.path), base_folder(config)])
    identity = {}
    for folder in folders:
        if not Path(folder).is_dir():
            identity["hub"] = folder
        kind = "adapter" if is_adapter(folder) else "base"
        for file in sorted(Path(folder).glob("*.safetensors")):
            identity[f"{kind}/{file.name}"] = _digest(file)
    return identity


def _digest(file: Path) -> str:
    size = file.stat().st_size
    digest = hashlib.sha256(str(size).encode())
    with file.open("rb") as content:
        digest.update(content.read(_SAMPLED_BYTES))
        content.seek(max(0, size - _SAMPLED_BYTES))
        digest.update(content.read())
    return digest.hexdigest()


def _check_identity(config: ModelConfig, before: Mapping[str, str], now: Mapping[str, str]) -> None:
    differs = sorted(name for name in {*before, *now} if before.get(name) != now.get(name))
    if differs:
        raise ConfigError(
            f"model.path {config.path} is no longer the model this run started from: {', '.join(differs)} differ. Put the "
            "old one back, or start a new run with another run.dir"
        )


def _does_not_fit(checkpoint: Checkpoint, error: Exception) -> str:
    reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
    return f"The checkpoint {checkpoint.path} does not fit this run: {reason}"


def write_training_state(
    folder: Path, *, learner: Learner, tokenizer: PreTrainedTokenizerBase, demonstrated: Collection[str] = ()
) -> None:
    """Put everything that a resumed job needs into an empty folder.

    Args:
        folder: Where.
        learner: Model and optimiser.
        tokenizer: Kept with the model.
        demonstrated: Ids of the tasks whose demonstrations the model has learnt from; kept with the model, too.
    """
    import torch

    if hasattr(learner.model, "peft_config"):
        save_adapter(learner.model, folder / MODEL_FOLDER)
    else:
        learner.model.save_pretrained(folder / MODEL_FOLDER)
    tokenizer.save_pretrained(folder / MODEL_FOLDER)
    write_demonstrated(folder / MODEL_FOLDER, demonstrated)
    torch.save(learner.state_dict(), folder / LEARNER_FILE)


def read_learner_state(checkpoint: Checkpoint, *, learner: Learner) -> None:
    """Bring optimiser and counters back to where they were.

    Raises:
        JobError: The file cannot be read, or does not fit this model.
    """
    import torch

    try:
        learner.load_state_dict(torch.load(checkpoint.path / LEARNER_FILE, map_location="cpu", weights_only=True))
    except (ValueError, KeyError, TypeError, RuntimeError, OSError, EOFError, UnpicklingError) as error:
        raise JobError(_does_not_fit(checkpoint, error)) from error


def find_checkpoint(run: RunFolder, *, progress: Progress) -> Checkpoint | None:
    """The checkpoint to go on from; None at the start of a run. Damaged ones are named and passed over."""
    latest = run.latest_checkpoint()
    for problem in latest.problems:
        progress.note(problem)
    return latest.checkpoint
