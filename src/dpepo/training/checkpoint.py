"""What a training checkpoint holds: ``model/`` (an ordinary Hugging Face folder) and ``learner.pt`` (optimiser and counters).

Randomness needs no state of its own: every draw is derived from the seed and the step. The policy that KL is
measured against is not stored either; it is ``model.path`` of the run.
"""

from __future__ import annotations

from pathlib import Path
from pickle import UnpicklingError
from typing import TYPE_CHECKING

from dpepo.config import ModelConfig
from dpepo.errors import JobError
from dpepo.policies import load_hf
from dpepo.runs.checkpoints import Checkpoint
from dpepo.runs.progress import Progress
from dpepo.runs.rundir import RunFolder

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

    from dpepo.learning import Learner

MODEL_FOLDER, LEARNER_FILE = "model", "learner.pt"


def write_training_state(folder: Path, *, learner: Learner, tokenizer: PreTrainedTokenizerBase) -> None:
    """Put everything that a resumed job needs into an empty folder."""
    import torch

    learner.model.save_pretrained(folder / MODEL_FOLDER)
    tokenizer.save_pretrained(folder / MODEL_FOLDER)
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
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise JobError(f"The checkpoint {checkpoint.path} does not fit this run: {reason}") from error


def find_checkpoint(run: RunFolder, *, progress: Progress) -> Checkpoint | None:
    """The checkpoint to go on from; None at the start of a run. Damaged ones are named and passed over."""
    latest = run.latest_checkpoint()
    for problem in latest.problems:
        progress.note(problem)
    return latest.checkpoint


def load_trained(config: ModelConfig, checkpoint: Checkpoint | None) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    """The model to go on training: from the checkpoint, or ``model.path`` at the start of a run."""
    path = config.path if checkpoint is None else str(checkpoint.path / MODEL_FOLDER)
    return load_hf(config.model_copy(update={"path": path}))
