import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from dpepo.config import ActorConfig, KlEstimator, KlPlace, LossAverage, LossTraits
from dpepo.learning.losses import (
    Objective,
    actor_loss,
    kl_per_token,
    policy_loss,
    sample_weights,
    sequence_log_ratios,
)
from dpepo.types import TrainingSample


def _loss_and_gradient(log_ratio: float, advantage: float, *, dual_clip: float | None = None) -> tuple[float, float]:
    new_N = torch.tensor([log_ratio], requires_grad=True)
    loss_N = policy_loss(new_N, advantages_N=torch.tensor([advantage]), dual_clip=dual_clip)
    (gradient,) = torch.autograd.grad(loss_N.sum(), new_N)
    return loss_N.item(), gradient.item()


@pytest.mark.parametrize(
    ("ratio", "advantage", "dual_clip", "loss", "gradient"),
    [
        (1.5, 1.0, None, -1.2, 0.0),
        (1.5, -1.0, None, 1.5, 1.5),
        (0.5, 1.0, None, -0.5, -0.5),
        (0.5, -1.0, None, 0.8, 0.0),
        (10.0, -1.0, None, 10.0, 10.0),
        (10.0, -1.0, 3.0, 3.0, 0.0),
        (10.0, 1.0, 3.0, -1.2, 0.0),
        (1.0, 2.0, None, -2.0, -2.0),
    ],
)
def test_the_clipped_loss_by_hand(
    ratio: float, advantage: float, dual_clip: float | None, loss: float, gradient: float
) -> None:
    """L05."""
    found = _loss_and_gradient(math.log(ratio), advantage, dual_clip=dual_clip)
    # at ratio 1 both branches are equal and torch halves the gradient between them
    assert found == pytest.approx((loss, gradient), abs=1e-5)


@pytest.mark.parametrize("log_ratio", [100.0, -100.0, 1e30])
@pytest.mark.parametrize("advantage", [1.0, -1.0])
@pytest.mark.parametrize("dual_clip", [None, 3.0])
def test_a_huge_log_ratio_leaves_loss_and_gradient_finite(log_ratio: float, advantage: float, dual_clip: float | None) -> None:
    """L01."""
    loss, gradient = _loss_and_gradient(log_ratio, advantage, dual_clip=dual_clip)
    assert math.isfinite(loss)
    assert gradient == 0.0


def test_the_values_of_a_huge_log_ratio() -> None:
    """L01."""
    assert _loss_and_gradient(100.0, 1.0)[0] == pytest.approx(-1.2)
    assert _loss_and_gradient(100.0, -1.0, dual_clip=3.0)[0] == pytest.approx(3.0)


def test_k3_by_hand_and_without_difference() -> None:
    new_N = torch.tensor([-1.0, -1.0, -1.0])
    kl_N = kl_per_token(new_N, reference_N=torch.tensor([-1.0, -2.0, 2.0]), estimator=KlEstimator.K3)
    assert kl_N.tolist() == pytest.approx([0.0, math.exp(-1), math.exp(3) - 4], rel=1e-6)


@settings(deadline=None)
@given(new=st.floats(-200, 0), reference=st.floats(-200, 0))
def test_k3_is_never_negative_and_its_gradient_is_finite(new: float, reference: float) -> None:
    new_N = torch.tensor([new], requires_grad=True)
    kl_N = kl_per_token(new_N, reference_N=torch.tensor([reference]), estimator=KlEstimator.K3)
    (gradient,) = torch.autograd.grad(kl_N.sum(), new_N)
    assert kl_N.item() >= -1e-6
    assert torch.isfinite(gradient).all()


def sample(length: int, *, group: int = 0, sibling: int = 0, turn: int = 0) -> TrainingSample:
    ids = (0,) * length
    return TrainingSample(
        prompt_token_ids=(1,), token_ids=ids, logprobs=(0.0,) * length, advantage=1.0, group=group, sibling=sibling, turn=turn
    )


@pytest.mark.parametrize(
    ("average", "expected"),
    [("tokens", 3.4), ("turns", 5.5), ("episodes", 5.5), ("constant", (4 * 2 + 9) / (2 * 10))],
)
def test_what_the_loss_is_a_mean_of(average: str, expected: float) -> None:
    """Case L03: 4 tokens of 2 and 1 token of 9: token mean 3.4, mean of the replies' means 5.5."""
    objective = Objective.of(ActorConfig.model_validate({"kl_coef": 0, "loss_average": average, "loss_length": 10}))
    samples = [sample(4), sample(1, sibling=1)]
    weights = sample_weights(samples, objective=objective)
    terms = actor_loss(
        torch.zeros(5),
        old_N=torch.zeros(5),
        advantages_N=torch.tensor([-2.0] * 4 + [-9.0]),
        weights_N=torch.tensor([weights[0]] * 4 + [weights[1]]),
        reference_N=None,
        lengths=[4, 1],
        objective=objective,
    )
    assert terms.loss.item() == pytest.approx(expected)


def test_every_episode_counts_alike_however_many_turns_it_has() -> None:
    samples = [sample(3), sample(1, turn=1), sample(2, sibling=1)]
    weights = sample_weights(samples, objective=Objective(loss_average=LossAverage.EPISODES))
    assert weights == pytest.approx([1 / 8, 1 / 8, 1 / 4])
    assert sum(w * len(s.token_ids) for w, s in zip(weights, samples, strict=True)) == pytest.approx(1.0)


def test_a_constant_mean_needs_its_constant() -> None:
    with pytest.raises(ValueError, match="loss_length"):
        Objective.of(ActorConfig(loss_average=LossAverage.CONSTANT))


def test_what_is_configured_wins_over_the_traits_of_an_algorithm() -> None:
    traits = LossTraits(sequence_ratio=True, clip_low=3e-4, kl_in=KlPlace.REWARD)
    objective = Objective.of(ActorConfig(kl_coef=0.5, clip_high=0.28, kl_in=KlPlace.LOSS, dual_clip=3.0), traits)
    assert objective == Objective(
        sequence_ratio=True, clip_low=3e-4, clip_high=0.28, kl_in=KlPlace.LOSS, dual_clip=3.0, kl_coef=0.5
    )


def test_a_sequence_ratio_is_the_geometric_mean_of_its_tokens_ratios() -> None:
    log_ratios_N = torch.tensor([0.3, 0.1, -1.0])
    assert torch.allclose(sequence_log_ratios(log_ratios_N, lengths=[2, 1]), torch.tensor([0.2, 0.2, -1.0]))


@pytest.mark.parametrize(("estimator", "expected"), [("k1", -0.5), ("k2", 0.125), ("k3", math.exp(0.5) - 1.5)])
def test_the_three_estimators_of_kl(estimator: str, expected: float) -> None:
    kl_N = kl_per_token(torch.tensor([-2.0]), reference_N=torch.tensor([-1.5]), estimator=KlEstimator(estimator))
    assert kl_N.item() == pytest.approx(expected)


def test_kl_in_the_reward_is_taken_off_the_advantage_of_the_tokens_before_it() -> None:
    old_N, reference_N = torch.tensor([-1.0, -2.0, -1.0]), torch.tensor([-1.5, -2.0, -3.0])
    new_N = old_N.clone().requires_grad_()
    objective = Objective(kl_coef=0.1, kl=KlEstimator.K1, kl_in=KlPlace.REWARD)
    terms = actor_loss(
        new_N,
        old_N=old_N,
        advantages_N=torch.ones(3),
        weights_N=torch.ones(3),
        reference_N=reference_N,
        lengths=[2, 1],
        objective=objective,
    )
    # k1 of the tokens: 0.5, 0, 2; to go within each reply: 0.5, 0, 2
    assert terms.loss.item() == pytest.approx(-(0.95 + 1.0 + 0.8))
    terms.loss.backward()  # type: ignore[no-untyped-call]
    assert new_N.grad is not None and torch.allclose(new_N.grad, -torch.tensor([0.95, 1.0, 0.8]))


def test_metrics_count_clipped_and_capped_tokens_by_sign() -> None:
    new_N = torch.tensor([math.log(1.5), math.log(1.5), math.log(0.5), math.log(0.5), 30.0])
    terms = actor_loss(
        new_N,
        old_N=torch.zeros(5),
        advantages_N=torch.tensor([1.0, -1.0, 1.0, -1.0, 0.0]),
        weights_N=torch.ones(5),
        lengths=[5],
        reference_N=new_N - 1,
        objective=Objective(kl_coef=0.5),
    )
    assert terms.sums["actor/pg_clipfrac"] == 2
    assert terms.sums["actor/ratio_capped"] == 1
    assert terms.sums["actor/kl_loss"] == pytest.approx(5 * math.exp(-1))
    assert terms.loss.item() == pytest.approx(terms.sums["actor/pg_loss"] + 0.5 * terms.sums["actor/kl_loss"])
