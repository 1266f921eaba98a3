"""Weights, gradients and moments in float32 under a model that computes in bfloat16."""

from __future__ import annotations

import copy
import gc
from typing import Any

import pytest
import torch
from tests.support.tiny_models import plain_logprobs, sample, tiny_model

from dpepo.config import ActorConfig
from dpepo.learning import Learner
from dpepo.learning.optimizer import MasterAdamW


def _parameter(dtype: torch.dtype) -> torch.nn.Parameter:
    return torch.nn.Parameter(torch.full((4,), 0.01, dtype=dtype))


def _steps(parameter: torch.nn.Parameter, optimizer: Any, number: int) -> None:
    for _ in range(number):
        parameter.sum().backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        optimizer.zero_grad()


def test_small_steps_on_bfloat16_weights_are_not_lost() -> None:
    """At 1e-6 a step, a bfloat16 weight of 0.01 (its neighbours are 6e-5 away) never moves by itself; 100 steps are 1e-4."""
    alone = _parameter(torch.bfloat16)
    plain = torch.optim.AdamW([alone], lr=1e-6, weight_decay=0.0)
    _steps(alone, plain, 100)
    assert float(alone[0].detach()) == float(torch.tensor(0.01, dtype=torch.bfloat16))
    rounded, exact = _parameter(torch.bfloat16), _parameter(torch.float32)
    with torch.no_grad():
        exact.copy_(rounded)
    _steps(rounded, MasterAdamW([rounded], lr=1e-6, weight_decay=0.0), 100)
    _steps(exact, torch.optim.AdamW([exact], lr=1e-6, weight_decay=0.0), 100)
    assert float(exact[0].detach()) < 0.00992
    assert torch.equal(rounded.detach(), exact.detach().bfloat16())


def test_gradients_of_many_micro_batches_are_summed_in_float32() -> None:
    """1 + 1/512 is 1 in bfloat16, 512 times over."""
    parameter = torch.nn.Parameter(torch.zeros(1, dtype=torch.bfloat16))
    optimizer = MasterAdamW([parameter], lr=1e-3, weight_decay=0.0)
    parameter.sum().backward()  # type: ignore[no-untyped-call]
    for _ in range(512):
        (parameter.sum() / 512).backward()  # type: ignore[no-untyped-call]
    assert parameter.grad is None
    assert optimizer.clip(100.0) == pytest.approx(2.0)
    optimizer.zero_grad()
    assert optimizer.clip(100.0) == 0.0


def test_float32_weights_are_their_own_masters() -> None:
    parameter = _parameter(torch.float32)
    optimizer = MasterAdamW([parameter], lr=1e-3, weight_decay=0.0)
    assert optimizer.state_dict()["masters"] == []
    other = _parameter(torch.float32)
    _steps(parameter, optimizer, 3)
    _steps(other, torch.optim.AdamW([other], lr=1e-3, weight_decay=0.0, fused=True), 3)
    assert torch.equal(parameter, other)


def test_a_model_may_get_a_new_optimiser_after_the_old_one_is_gone() -> None:
    parameter = _parameter(torch.bfloat16)
    _steps(parameter, MasterAdamW([parameter], lr=1e-3, weight_decay=0.0), 1)
    gc.collect()
    before = parameter.detach().clone()
    _steps(parameter, MasterAdamW([parameter], lr=1e-2, weight_decay=0.0), 1)
    assert not torch.equal(parameter.detach(), before)


def test_a_bfloat16_learner_goes_on_exactly_from_its_state() -> None:
    model = tiny_model().bfloat16()
    learner = Learner(model, config=ActorConfig(lr=1e-5, kl_coef=0.0))
    samples = [sample((1, 2, 3), (4, 5, 0)), sample((3, 2, 1), (6, 0))]
    for _ in range(3):
        learner.supervised_step(samples)
    state = copy.deepcopy(learner.state_dict())
    other = Learner(copy.deepcopy(model), config=learner.config)  # its masters begin as the rounded weights
    other.load_state_dict(state)
    for _ in range(20):
        learner.supervised_step(samples)
        other.supervised_step(samples)
    for one, two in zip(learner.state_dict()["optimizer"]["masters"], other.state_dict()["optimizer"]["masters"], strict=True):
        assert torch.equal(one, two)
    assert all(torch.equal(one, two) for one, two in zip(model.parameters(), other.model.parameters(), strict=True))


def test_the_state_of_another_type_is_refused() -> None:
    state = MasterAdamW([_parameter(torch.float32)], lr=1e-3, weight_decay=0.0).state_dict()
    with pytest.raises(ValueError, match=r"model\.dtype"):
        MasterAdamW([_parameter(torch.bfloat16)], lr=1e-3, weight_decay=0.0).load_state_dict(state)


def test_a_bfloat16_model_learns_at_a_rate_that_its_own_type_would_swallow() -> None:
    model = tiny_model().bfloat16()
    start = copy.deepcopy(model)
    learner = Learner(model, config=ActorConfig(lr=1e-6, kl_coef=0.0))
    for _ in range(200):
        learner.supervised_step([sample((1, 2, 3), (4, 5, 0))])
    moved = sum(int((one != two).sum()) for one, two in zip(model.parameters(), start.parameters(), strict=True))
    assert moved > 100
    assert sum(plain_logprobs(model, (1, 2, 3), (4, 5, 0))) != sum(plain_logprobs(start, (1, 2, 3), (4, 5, 0)))


@pytest.mark.parametrize("attention", ["sdpa", "eager"])
def test_layers_that_are_computed_again_give_the_same_gradients_and_are_computed_again(attention: str) -> None:
    """Also in RL, where dropout is off and the model is in evaluation mode, in which transformers would skip it."""
    samples = [sample((1, 2, 3), (4, 5), logprobs=(-3.0, -3.0)), sample((7, 8), (9, 10), advantage=-1.0)]
    results = []
    for again in (False, True):
        model = tiny_model(attention=attention, attention_dropout=0.5)
        if again:
            model.activation_checkpointing_enable({"use_reentrant": False})
        learner = Learner(model, config=ActorConfig(lr=1e-2, kl_coef=0.0))
        calls: list[int] = []
        model.model.layers[0].mlp.register_forward_pre_hook(lambda *_, calls=calls: calls.append(1))
        metrics = learner.update(samples)
        results.append((metrics, len(calls), [parameter.detach().clone() for parameter in model.parameters()]))
    (plain, once, left), (repeated, twice, right) = results
    assert twice == 2 * once
    assert repeated == pytest.approx(plain, abs=1e-6)
    assert all(torch.allclose(one, two, atol=1e-6) for one, two in zip(left, right, strict=True))
