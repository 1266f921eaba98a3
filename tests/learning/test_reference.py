"""The policy that KL is measured against."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from tests.support.families import FAMILIES, logits, shake, write_family
from tests.support.tiny_models import plain_logprobs, sample, tiny_model

from dpepo.config import ActorConfig, LoraConfig, ModelConfig
from dpepo.learning import Learner, freeze
from dpepo.policies import load_hf


def _trained(path: Path, **changes: Any) -> Any:
    lora = LoraConfig(rank=4, alpha=8, targets=("q_proj", "down_proj"))
    return load_hf(ModelConfig(path=str(path), device="cpu", lora=lora, **changes), train=True)[0]


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("again", [False, True])
def test_kl_to_the_adapter_rl_started_from_is_zero_at_first_and_the_trained_adapter_is_left_alone(
    tmp_path: Path, family: str, again: bool
) -> None:
    """Case L08. The adapter already says something else than the base; nothing of the base is there twice."""
    model = _trained(write_family(tmp_path / "base", family), gradient_checkpointing=again)
    shake(model)
    start = logits(model)
    reference = freeze(model)
    with reference() as lent:
        assert lent is model
    learner = Learner(model, config=ActorConfig(lr=1e-2, kl_coef=0.05), reference=reference)
    samples = [
        sample(prompt, reply, advantage=advantage, logprobs=tuple(plain_logprobs(model, prompt, reply)), place=(0, number, 0))
        for number, (prompt, reply, advantage) in enumerate([((5, 6, 7), (8, 9), 1.0), ((5, 6), (7, 8, 9), -1.0)])
    ]
    first = learner.update(samples)
    assert abs(first["actor/kl_loss"]) < 1e-6
    assert abs(first["actor/ppo_kl"]) < 1e-5
    assert not torch.allclose(logits(model), start, atol=1e-3)
    with reference() as lent:
        assert torch.equal(logits(lent), start)
    moved = logits(model)
    assert not torch.allclose(moved, start, atol=1e-3)
    assert learner.update(samples)["actor/kl_loss"] > 1e-6


def test_the_gradient_with_a_lent_adapter_is_that_with_a_second_model(tmp_path: Path) -> None:
    base = write_family(tmp_path / "base", "qwen2")
    weights = []
    for copied in (False, True):
        model = _trained(base)
        shake(model)
        if copied:
            other = _trained(base)
            shake(other)
            reference = freeze(other.merge_and_unload().requires_grad_(True))
        else:
            reference = freeze(model)
        shake(model, seed=2)  # away from the reference, so that KL has a gradient
        learner = Learner(model, config=ActorConfig(lr=1e-3, kl_coef=0.5), reference=reference)
        metrics = learner.update([sample((5, 6, 7), (8, 9), advantage=0.5)])
        weights.append((metrics, [p.detach().clone() for p in model.parameters() if p.requires_grad]))
    assert weights[0][0] == pytest.approx(weights[1][0], rel=1e-4)
    assert all(torch.allclose(one, two, atol=1e-6) for one, two in zip(weights[0][1], weights[1][1], strict=True))


def test_a_model_that_is_trained_whole_is_copied() -> None:
    model = tiny_model()
    with freeze(model)() as lent:
        assert lent is not model
        assert not any(parameter.requires_grad for parameter in lent.parameters())


def test_an_error_while_the_reference_is_lent_gives_the_trained_adapter_back(tmp_path: Path) -> None:
    model = _trained(write_family(tmp_path / "base", "qwen2"))
    reference = freeze(model)
    shake(model)
    before = logits(model)
    with pytest.raises(RuntimeError, match="stop"), reference():
        raise RuntimeError("stop")
    assert torch.equal(logits(model), before)
