"""What a training checkpoint holds, and what happens when it is not that."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from tests.support.toy_jobs import write_model

from dpepo.config import ActorConfig, Config, ModelConfig
from dpepo.errors import JobError
from dpepo.learning import Learner
from dpepo.policies import load_hf
from dpepo.runs.checkpoints import Checkpoint
from dpepo.training.checkpoint import begin, read_learner_state, write_training_state
from dpepo.types import TrainingSample


def make_learner(folder: Path) -> tuple[Learner, object]:
    model, tokenizer = load_hf(ModelConfig(path=str(folder), device="cpu"))
    return Learner(model, config=ActorConfig(lr=1e-2, kl_coef=0.0)), tokenizer


def test_a_learner_goes_on_from_its_files_as_if_nothing_had_happened(tmp_path: Path) -> None:
    learner, tokenizer = make_learner(write_model(tmp_path / "model"))
    batch = [TrainingSample(prompt_token_ids=(5, 6, 7), token_ids=(8, 3), logprobs=(0.0, 0.0), advantage=1.0)]
    for _ in range(3):
        learner.supervised_step(batch)
    (tmp_path / "saved").mkdir()
    write_training_state(tmp_path / "saved", learner=learner, tokenizer=tokenizer)  # type: ignore[arg-type]
    checkpoint = Checkpoint(3, tmp_path / "saved", {})
    model, again, _, _ = begin(Config(model=ModelConfig(path=str(tmp_path / "model"), device="cpu")), checkpoint)
    assert again.encode("open box , take it") == tokenizer.encode("open box , take it")  # type: ignore[attr-defined]
    other = Learner(model, config=learner.config)
    read_learner_state(checkpoint, learner=other)
    assert other.num_updates == 3
    assert learner.supervised_step(batch) == other.supervised_step(batch)
    pairs = zip(learner.model.parameters(), other.model.parameters(), strict=True)
    assert all(torch.equal(one, two) for one, two in pairs)


@pytest.mark.parametrize("content", [b"", b"not a learner", b"PK\x03\x04 cut"])
def test_an_unreadable_learner_state_is_one_sentence(tmp_path: Path, content: bytes) -> None:
    learner, _ = make_learner(write_model(tmp_path / "model"))
    (tmp_path / "learner.pt").write_bytes(content)
    with pytest.raises(JobError, match="does not fit this run") as caught:
        read_learner_state(Checkpoint(1, tmp_path, {}), learner=learner)
    assert "\n" not in str(caught.value)


def test_the_state_of_another_kind_of_model_is_refused(tmp_path: Path) -> None:
    learner, _ = make_learner(write_model(tmp_path / "model"))
    torch.save({"optimizer": {"state": {}, "param_groups": []}, "num_updates": 0}, tmp_path / "learner.pt")
    with pytest.raises(JobError, match="does not fit this run"):
        read_learner_state(Checkpoint(1, tmp_path, {}), learner=learner)
