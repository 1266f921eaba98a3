import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from dpepo.config import ActorConfig
from dpepo.learning.losses import actor_loss, k3_kl, policy_loss


def _loss_and_gradient(log_ratio: float, advantage: float, *, dual_clip: float | None = None) -> tuple[float, float]:
    new_N = torch.tensor([log_ratio], requires_grad=True)
    loss_N = policy_loss(new_N, old_N=torch.zeros(1), advantages_N=torch.tensor([advantage]), dual_clip=dual_clip)
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
    kl_N = k3_kl(new_N, reference_N=torch.tensor([-1.0, -2.0, 2.0]))
    assert kl_N.tolist() == pytest.approx([0.0, math.exp(-1), math.exp(3) - 4], rel=1e-6)


@settings(deadline=None)
@given(new=st.floats(-200, 0), reference=st.floats(-200, 0))
def test_k3_is_never_negative_and_its_gradient_is_finite(new: float, reference: float) -> None:
    new_N = torch.tensor([new], requires_grad=True)
    kl_N = k3_kl(new_N, reference_N=torch.tensor([reference]))
    (gradient,) = torch.autograd.grad(kl_N.sum(), new_N)
    assert kl_N.item() >= -1e-6
    assert torch.isfinite(gradient).all()


def test_sums_divided_by_all_tokens_are_the_token_mean() -> None:
    """L03: 4 tokens of 2 and 1 token of 9 make 3.4, not 5.5."""
    advantages_N = torch.tensor([-2.0] * 4 + [-9.0])
    terms = actor_loss(
        torch.zeros(5), old_N=torch.zeros(5), advantages_N=advantages_N, reference_N=None, config=ActorConfig(kl_coef=0)
    )
    assert terms.loss.item() / 5 == pytest.approx(3.4)


def test_metrics_count_clipped_and_capped_tokens_by_sign() -> None:
    new_N = torch.tensor([math.log(1.5), math.log(1.5), math.log(0.5), math.log(0.5), 30.0])
    terms = actor_loss(
        new_N,
        old_N=torch.zeros(5),
        advantages_N=torch.tensor([1.0, -1.0, 1.0, -1.0, 0.0]),
        reference_N=new_N - 1,
        config=ActorConfig(kl_coef=0.5),
    )
    assert terms.sums["actor/pg_clipfrac"] == 2
    assert terms.sums["actor/ratio_capped"] == 1
    assert terms.sums["actor/kl_loss"] == pytest.approx(5 * math.exp(-1))
    assert terms.loss.item() == pytest.approx(terms.sums["actor/pg_loss"] + 0.5 * terms.sums["actor/kl_loss"])
