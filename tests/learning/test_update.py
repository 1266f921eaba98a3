import copy
from typing import Any

import pytest
import torch
from tests.support.tiny_models import plain_logprobs, sample, tiny_model
from torch import Tensor

from dpepo.config import ActorConfig, SftConfig
from dpepo.errors import JobError
from dpepo.learning import Learner, freeze, supervised_config
from dpepo.types import TrainingSample


def _weights(model: Any) -> dict[str, Tensor]:
    return {name: tensor.clone() for name, tensor in model.state_dict().items()}


def _same(one: dict[str, Tensor], other: dict[str, Tensor], *, atol: float = 0.0) -> bool:
    return all(torch.allclose(one[name], other[name], rtol=0, atol=atol) for name in one)


def _on_policy(
    model: Any, *, temperature: float = 1.0, advantages: tuple[float, ...] = (1.0, -0.5, 0.25)
) -> list[TrainingSample]:
    """Three episodes: two siblings with one prompt, one with another; the longest reply last."""
    turns = [((1, 2, 3), (4, 5)), ((1, 2, 3), (6,)), ((7, 8), (9, 10, 11, 12))]
    return [
        sample(
            prompt,
            reply,
            advantage=advantage,
            logprobs=tuple(plain_logprobs(model, prompt, reply, temperature=temperature)),
            place=(0, number, 0),
        )
        for number, ((prompt, reply), advantage) in enumerate(zip(turns, advantages, strict=True))
    ]


def _learner(model: Any, *, temperature: float = 1.0, share_prompts: bool = True, **settings: Any) -> Learner:
    config = ActorConfig.model_validate({"lr": 1e-2, "kl_coef": 0.0, **settings})
    reference = freeze(model) if config.kl_coef else None
    return Learner(model, config=config, temperature=temperature, reference=reference, share_prompts=share_prompts)


@pytest.mark.parametrize("temperature", [0.4, 1.0, 1.7])
def test_on_the_first_update_the_ratio_is_one_at_any_temperature(temperature: float) -> None:
    """T09."""
    model = tiny_model()
    metrics = _learner(model, temperature=temperature).update(_on_policy(model, temperature=temperature))
    assert metrics["actor/ppo_kl"] == pytest.approx(0, abs=1e-5)
    # (2 x 1.0 - 1 x 0.5 + 4 x 0.25) / 7 tokens
    assert metrics["actor/pg_loss"] == pytest.approx(-2.5 / 7, abs=1e-5)
    assert metrics["actor/pg_clipfrac"] == 0


def test_greedy_sampling_counts_as_temperature_one() -> None:
    model = tiny_model()
    assert _learner(model, temperature=0.0).update(_on_policy(model))["actor/ppo_kl"] == pytest.approx(0, abs=1e-5)


@pytest.mark.parametrize("kl_coef", [0.0, 0.1])
def test_micro_batches_and_shared_prompts_change_nothing(kl_coef: float) -> None:
    """L03: the mean is over the tokens of the whole minibatch."""
    results = []
    for micro_tokens, share in ((1, False), (1000, False), (12, True), (1000, True)):
        model = tiny_model()
        samples = _on_policy(model)
        # plain descent of one step would hide behind Adam's scale: compare the gradient's norm as well
        metrics = _learner(model, kl_coef=kl_coef, micro_tokens=micro_tokens, share_prompts=share).update(samples)
        results.append((metrics, _weights(model)))
    for metrics, weights in results[1:]:
        assert metrics == pytest.approx(results[0][0], abs=1e-5)
        assert _same(weights, results[0][1], atol=1e-4)


def test_the_gradient_is_that_of_the_token_mean_computed_plainly() -> None:
    model = tiny_model()
    samples = _on_policy(model)
    plain = copy.deepcopy(model)
    loss = torch.zeros(())
    for one in samples:
        logits = plain(torch.tensor([[*one.prompt_token_ids, *one.token_ids]])).logits[0]
        rows = torch.log_softmax(logits[len(one.prompt_token_ids) - 1 : -1], dim=-1)
        for row, token, old in zip(rows, one.token_ids, one.logprobs, strict=True):
            loss = loss - one.advantage * (row[token] - old).exp() / 7
    loss.backward()  # type: ignore[no-untyped-call]
    norm = torch.cat([parameter.grad.flatten() for parameter in plain.parameters()]).norm().item()
    assert _learner(model).update(samples)["actor/grad_norm"] == pytest.approx(norm, rel=1e-4)


def test_praised_replies_become_likelier_and_blamed_ones_less_likely() -> None:
    model = tiny_model()
    samples = _on_policy(model)
    learner = _learner(model, lr=1e-3)
    for _ in range(3):
        learner.update(samples)
    moved = [sum(plain_logprobs(model, one.prompt_token_ids, one.token_ids)) - sum(one.logprobs) for one in samples[:2]]
    assert moved[0] > 0 > moved[1]


def test_groups_without_signal_leave_the_weights_alone_without_kl_and_pull_to_the_reference_with_it() -> None:
    """A22."""
    model = tiny_model()
    before = _weights(model)
    metrics = _learner(model, weight_decay=0.1).update(_on_policy(model, advantages=(0.0, 0.0, 0.0)))
    assert _same(_weights(model), before)
    assert (metrics["actor/steps"], metrics["actor/tokens"]) == (0, 7)
    learner = Learner(model, config=ActorConfig(lr=1e-2, kl_coef=0.1), reference=freeze(tiny_model(seed=1)))
    assert learner.update(_on_policy(model, advantages=(0.0, 0.0, 0.0)))["actor/kl_loss"] > 0
    assert not _same(_weights(model), before)


def test_samples_without_signal_count_in_the_mean_although_they_are_not_computed() -> None:
    model = tiny_model()
    alone = _learner(copy.deepcopy(model)).update(_on_policy(model)[:1])
    with_idle = _learner(model).update(_on_policy(model, advantages=(1.0, 0.0, 0.0)))
    assert with_idle["actor/pg_loss"] == pytest.approx(alone["actor/pg_loss"] * 2 / 7)
    assert with_idle["actor/grad_norm"] == pytest.approx(alone["actor/grad_norm"] * 2 / 7, rel=1e-4)


def test_the_kl_to_the_policy_rl_started_from_is_zero_at_the_start_and_grows() -> None:
    """L08."""
    model = tiny_model()
    learner = _learner(model, kl_coef=0.01)
    samples = _on_policy(model)
    assert learner.update(samples)["actor/kl_loss"] == pytest.approx(0, abs=1e-6)
    assert learner.update(samples)["actor/kl_loss"] > 1e-6


def test_a_kl_term_without_a_reference_is_refused_at_once() -> None:
    with pytest.raises(ValueError, match="freeze"):
        Learner(tiny_model(), config=ActorConfig(kl_coef=0.01))


def test_each_minibatch_of_whole_episodes_is_one_optimiser_step() -> None:
    model = tiny_model()
    learner = _learner(model, minibatches=2)
    assert learner.update(_on_policy(model))["actor/steps"] == 2
    assert learner.num_updates == 2


def test_a_step_that_is_not_finite_changes_nothing_and_is_counted_until_the_job_stops() -> None:
    """L06."""
    model = tiny_model()
    learner = _learner(model, max_skipped=2, micro_tokens=1)
    learner.update(_on_policy(model))
    before, optimizer = _weights(model), copy.deepcopy(learner.state_dict()["optimizer"])
    poisoned = [*_on_policy(model)[:2], sample((7, 8), (9,), logprobs=(float("nan"),), place=(0, 2, 0))]
    assert learner.update(poisoned)["actor/skipped"] == 1
    assert _same(_weights(model), before)
    after = learner.state_dict()["optimizer"]["adamw"]["state"]
    for number, state in optimizer["adamw"]["state"].items():
        assert all(torch.equal(after[number][name], tensor) for name, tensor in state.items())
    assert learner.num_skipped == 1
    with pytest.raises(JobError, match="2 optimiser steps in a row"):
        learner.update(poisoned)
    assert _same(_weights(model), before)


def test_a_good_step_resets_the_count_of_bad_ones() -> None:
    """L06."""
    model = tiny_model()
    learner = _learner(model, max_skipped=2)
    poisoned = [sample((7, 8), (9,), logprobs=(float("nan"),))]
    learner.update(poisoned)
    learner.update(_on_policy(model))
    learner.update(poisoned)
    assert (learner.num_skipped, learner.num_skipped_in_a_row) == (2, 1)


def test_nothing_to_learn_from_is_no_step_and_only_numbers() -> None:
    learner = _learner(tiny_model())
    assert learner.update([])["actor/steps"] == 0
    assert learner.supervised_step([])["sft/loss"] == 0


def test_supervised_loss_is_the_token_mean_over_replies_only() -> None:
    """L03, T02."""
    model = tiny_model()
    samples = [sample((1, 2, 3), (4, 5)), sample((7, 8), (9, 10, 11, 0))]
    values = [value for one in samples for value in plain_logprobs(model, one.prompt_token_ids, one.token_ids)]
    metrics = _learner(model).supervised_step(samples)
    assert metrics["sft/loss"] == pytest.approx(-sum(values) / 6, abs=1e-5)
    assert metrics["sft/tokens"] == 6


def test_supervised_steps_learn_a_reply_by_heart_at_a_rate_set_step_by_step() -> None:
    model = tiny_model()
    learner = Learner(model, config=supervised_config(SftConfig(lr=1e-3), micro_tokens=64))
    samples = [sample((1, 2, 3), (4, 5, 0)), sample((3, 2, 1), (6, 0))]
    first = learner.supervised_step(samples)
    for step in range(60):
        last = learner.supervised_step(samples, lr=2e-2 * (1 - step / 60))
    assert first["sft/lr"] == 1e-3
    assert last["sft/lr"] == pytest.approx(2e-2 / 60)
    assert last["sft/loss"] < 0.05 < first["sft/loss"]


def test_weight_decay_is_the_configured_one() -> None:
    plain, decayed = tiny_model(), tiny_model()
    samples = [sample((1, 2, 3), (4, 5, 0))]
    before = _weights(plain)
    _learner(plain, lr=1e-2).supervised_step(samples)
    _learner(decayed, lr=1e-2, weight_decay=0.5).supervised_step(samples)
    for name, start in before.items():
        assert torch.allclose(plain.state_dict()[name] - decayed.state_dict()[name], 1e-2 * 0.5 * start, atol=1e-6)


def test_a_resumed_learner_goes_on_as_if_it_had_not_stopped() -> None:
    model = tiny_model()
    samples = _on_policy(model)
    learner = _learner(model)
    learner.update(samples)
    resumed_model = tiny_model(seed=5)
    resumed_model.load_state_dict(model.state_dict())
    resumed = _learner(resumed_model)
    resumed.load_state_dict(copy.deepcopy(learner.state_dict()))
    learner.update(samples)
    resumed.update(samples)
    assert _same(_weights(model), _weights(resumed_model))
    assert resumed.num_updates == 2


def test_weights_that_do_not_train_stay_and_a_model_without_trainable_ones_is_refused() -> None:
    model = tiny_model()
    model.model.embed_tokens.weight.requires_grad_(False)
    before = _weights(model)
    _learner(model).update(_on_policy(model))
    assert torch.equal(model.state_dict()["model.embed_tokens.weight"], before["model.embed_tokens.weight"])
    with pytest.raises(ValueError, match="no trainable parameter"):
        _learner(model.requires_grad_(False))
