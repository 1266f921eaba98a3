"""What the update must not depend on: how samples are cut, ordered, shared, dealt to processes, and what lies beside them."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.tiny_models import tiny_model

from dpepo.config import ActorConfig
from dpepo.learning import Learner, freeze
from dpepo.learning.losses import Objective, sample_weights
from dpepo.learning.update import Rollout
from dpepo.types import TrainingSample

TOLERANCE = {torch.float64: 1e-6, torch.float32: 1e-5}
PROMPTS = ((1, 2, 3), (1, 2, 3, 4, 5), (9,), (7, 8, 2, 2))

ids = st.integers(0, 22)
objectives = st.fixed_dictionaries(
    {
        "loss_average": st.sampled_from(["tokens", "turns", "episodes", "constant"]),
        "loss_length": st.just(8),
        "kl_coef": st.sampled_from([0.0, 0.3]),
        "kl": st.sampled_from(["k1", "k2", "k3"]),
        "kl_in": st.sampled_from(["loss", "reward"]),
        "clip_high": st.sampled_from([0.2, 0.5]),
        "dual_clip": st.sampled_from([None, 3.0]),
        "truncated_is": st.sampled_from([None, 1.1]),
    }
)


@st.composite
def batches(draw: st.DrawFn) -> list[TrainingSample]:
    """Up to two groups of siblings with turns of their own; some turns have no advantage."""
    samples = []
    for group in range(draw(st.integers(1, 2))):
        for sibling in range(draw(st.integers(1, 3))):
            for turn in range(draw(st.integers(1, 2))):
                reply = tuple(draw(st.lists(ids, min_size=1, max_size=5)))
                samples.append(
                    TrainingSample(
                        prompt_token_ids=draw(st.sampled_from(PROMPTS)),
                        token_ids=reply,
                        logprobs=tuple(draw(st.floats(-6, -0.125, width=32)) for _ in reply),
                        advantage=draw(st.sampled_from([0.0, 1.0, -0.5, 1.7])),
                        group=group,
                        sibling=sibling,
                        turn=turn,
                    )
                )
    return samples


class Result(NamedTuple):
    """What one update computed."""

    gradient: torch.Tensor
    metrics: dict[str, float]


class Watched(Learner):
    """A learner whose gradient can be seen, and which can be several processes whose gradients are added up."""

    gradient: torch.Tensor | None = None
    num_ranks = 1

    def _accumulate(self, samples: Sequence[TrainingSample], weights: dict[int, float], rollout: Rollout) -> dict[str, float]:
        sums: Counter[str] = Counter()
        for rank in range(self.num_ranks):
            sums.update(super()._accumulate(samples[rank :: self.num_ranks], weights, rollout))
        return dict(sums)

    def _step(self, *, finite: bool) -> float:
        grads = [torch.zeros_like(one) if one.grad is None else one.grad for one in self.model.parameters()]
        self.gradient = torch.cat([grad.flatten() for grad in grads])
        return super()._step(finite=finite)


def updated(
    samples: Sequence[TrainingSample],
    *,
    dtype: torch.dtype = torch.float64,
    ranks: int = 1,
    share: bool = True,
    **settings: Any,
) -> Result:
    model = tiny_model(seed=0).to(dtype)
    reference = freeze(tiny_model(seed=1).to(dtype))
    config = ActorConfig.model_validate({"lr": 1e-4, "max_grad_norm": 1e9, **settings})
    learner = Watched(model, config=config, temperature=0.7, reference=reference, share_prompts=share)
    learner.num_ranks = ranks
    metrics = learner.update(list(samples))
    if learner.gradient is None:  # nothing to learn from, so no step was made
        learner.gradient = torch.zeros(1)
    return Result(learner.gradient, metrics)


def assert_same(one: Result, other: Result, *, dtype: torch.dtype) -> None:
    size = max(1.0, float(one.gradient.abs().max()))
    assert torch.allclose(one.gradient, other.gradient, rtol=0, atol=TOLERANCE[dtype] * size)
    assert one.metrics == pytest.approx(other.metrics, rel=1e-4, abs=1e-5)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=["float64", "float32"])
@settings(max_examples=15, deadline=None)
@given(samples=batches(), objective=objectives, micro_tokens=st.sampled_from([1, 12, 30]), seed=st.integers(0, 9))
def test_cuts_padding_shared_prompts_and_order_change_nothing(
    dtype: torch.dtype, samples: list[TrainingSample], objective: dict[str, Any], micro_tokens: int, seed: int
) -> None:
    """Every sample alone against all of them together, padded and packed; 1e-6 in float64, 1e-5 in float32."""
    alone = updated(samples, dtype=dtype, micro_tokens=1, share=False, **objective)
    shuffled = random.Random(seed).sample(samples, len(samples))
    for share, tokens in ((False, 1000), (True, micro_tokens), (True, 1000)):
        assert_same(updated(shuffled, dtype=dtype, micro_tokens=tokens, share=share, **objective), alone, dtype=dtype)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=["float64", "float32"])
@settings(max_examples=15, deadline=None)
@given(samples=batches(), objective=objectives, ranks=st.integers(2, 5))
def test_gradients_of_processes_add_up_to_that_of_one(
    dtype: torch.dtype, samples: list[TrainingSample], objective: dict[str, Any], ranks: int
) -> None:
    """What a token counts is known from the whole minibatch, so that a process needs to see no other's samples."""
    one, several = (updated(samples, dtype=dtype, ranks=count, **objective) for count in (1, ranks))
    assert_same(several, one, dtype=dtype)


def test_the_update_does_depend_on_what_it_should() -> None:
    """Else the tests above would say nothing."""
    samples = [
        TrainingSample(prompt_token_ids=(1, 2), token_ids=reply, logprobs=(-2.0,) * len(reply), advantage=1.0, sibling=place)
        for place, reply in enumerate([(3, 4, 5), (6,)])
    ]
    base = updated(samples, kl_coef=0).gradient
    for different in (
        updated(samples[:1], kl_coef=0),
        updated(samples, kl_coef=0, loss_average="turns"),
        updated(samples, kl_coef=0.3),
        updated([sample.model_copy(update={"advantage": 2.0}) for sample in samples], kl_coef=0),
    ):
        assert not torch.allclose(base, different.gradient, atol=1e-3)


def test_nan_where_nothing_is_learnt_from_has_no_effect() -> None:
    """Numbers of turns without advantage are masked: they may hold anything."""
    taught = TrainingSample(prompt_token_ids=(1, 2), token_ids=(3, 4), logprobs=(-2.0, -1.0), advantage=1.0)
    masked = taught.model_copy(update={"advantage": 0.0, "sibling": 1, "logprobs": (float("nan"), float("inf"))})
    clean = masked.model_copy(update={"logprobs": (-1.0, -1.0)})
    found, expected = (updated([taught, other], kl_coef=0) for other in (masked, clean))
    assert torch.equal(found.gradient, expected.gradient)
    assert found.metrics == expected.metrics and found.metrics["actor/steps"] == 1


def test_what_padding_holds_has_no_effect() -> None:
    """Padding is token 0; whatever it is embedded as, nothing of a shorter row shows it."""
    samples = [
        TrainingSample(prompt_token_ids=prompt, token_ids=(3, 4), logprobs=(-2.0, -1.0), advantage=1.0, sibling=place)
        for place, prompt in enumerate([(1, 2), (5, 6, 7, 8, 9)])
    ]
    gradients = []
    for content in (0.0, 1e4):
        model = tiny_model(seed=0).to(torch.float64)
        model.lm_head.weight = torch.nn.Parameter(model.lm_head.weight.detach().clone())  # the output side keeps its row
        with torch.no_grad():
            model.model.embed_tokens.weight[0] = content
        learner = Watched(model, config=ActorConfig(kl_coef=0, max_grad_norm=1e9), share_prompts=False)
        learner.update(samples)
        assert learner.gradient is not None
        gradients.append(learner.gradient)
    assert torch.allclose(gradients[0], gradients[1], rtol=0, atol=1e-12)


@settings(deadline=None)
@given(samples=batches(), average=st.sampled_from(["tokens", "turns", "episodes"]))
def test_what_tokens_count_adds_up_to_one(samples: list[TrainingSample], average: str) -> None:
    objective = Objective.of(ActorConfig.model_validate({"loss_average": average}))
    weights = sample_weights(samples, objective=objective)
    total = sum(weight * len(sample.token_ids) for weight, sample in zip(weights, samples, strict=True))
    assert total == pytest.approx(1.0)
