"""Options of the update that combine with any algorithm."""

from __future__ import annotations

import pytest
import torch
from tests.support.tiny_models import plain_logprobs, tiny_model

from dpepo.config import ActorConfig, LossTraits
from dpepo.learning import Learner
from dpepo.types import TrainingSample

REPLIES = [((1, 2, 3), (4, 5)), ((1, 2, 3), (6,)), ((7, 8), (9, 10, 11))]


def samples(*, shift: float = 0.0) -> list[TrainingSample]:
    model = tiny_model(seed=0)
    return [
        TrainingSample(
            prompt_token_ids=prompt,
            token_ids=reply,
            logprobs=tuple(value + shift for value in plain_logprobs(model, prompt, reply)),
            advantage=1.0 - place,
            sibling=place,
        )
        for place, (prompt, reply) in enumerate(REPLIES)
    ]


def learner(**settings: object) -> Learner:
    return Learner(tiny_model(seed=0), config=ActorConfig.model_validate({"kl_coef": 0, "lr": 1e-3, **settings}))


def weights(one: Learner) -> torch.Tensor:
    return torch.cat([parameter.detach().flatten() for parameter in one.model.parameters()])


def test_a_sampler_that_agrees_with_the_trainer_is_not_corrected() -> None:
    plain, corrected = learner(), learner(truncated_is=2.0)
    plain.update(samples())
    metrics = corrected.update(samples())
    assert metrics["actor/is_weight"] == pytest.approx(1.0, abs=1e-4) and metrics["actor/is_truncated"] == 0
    assert torch.allclose(weights(plain), weights(corrected), atol=1e-5)


def test_a_sampler_that_differs_is_corrected_up_to_the_bound_and_the_first_ratio_is_one() -> None:
    """The sampler says every token was half as likely as the trainer does: weight 2, held at 1.5."""
    metrics = learner(truncated_is=1.5).update(samples(shift=-0.6931))
    assert metrics["actor/is_weight"] == pytest.approx(1.5) and metrics["actor/is_truncated"] == 1.0
    assert metrics["actor/ppo_kl"] == pytest.approx(0.0, abs=1e-4)
    free = learner(truncated_is=9.0).update(samples(shift=-0.6931))
    assert free["actor/is_weight"] == pytest.approx(2.0, abs=1e-3) and free["actor/is_truncated"] == 0


@pytest.mark.parametrize("average", ["tokens", "turns", "episodes", "constant"])
def test_the_result_does_not_depend_on_how_it_is_cut_or_ordered(average: str) -> None:
    settings = {"loss_average": average, "loss_length": 8, "dual_clip": 3.0, "clip_high": 0.28}
    whole = learner(**settings).update(samples(shift=0.2))
    cut = learner(**settings, micro_tokens=1).update(list(reversed(samples(shift=0.2))))
    assert cut == pytest.approx(whole, rel=1e-5, abs=1e-6)


def test_averages_differ_where_replies_differ_in_length() -> None:
    results = []
    for average in ("tokens", "turns", "constant"):
        one = learner(loss_average=average, loss_length=8)
        one.update(samples(shift=0.1))
        results.append(one.update(samples(shift=0.1))["actor/grad_norm"])
    assert len({round(norm, 6) for norm in results}) == 3


def test_a_sequence_ratio_changes_the_update_once_ratios_differ() -> None:
    norms = []
    wide = ActorConfig(kl_coef=0, lr=1e-3, clip_low=0.9, clip_high=9)
    uneven = [sample.model_copy(update={"logprobs": (sample.logprobs[0] - 1, *sample.logprobs[1:])}) for sample in samples()]
    for sequence in (False, True):
        one = Learner(tiny_model(seed=0), config=wide, traits=LossTraits(sequence_ratio=sequence))
        norms.append(one.update(uneven)["actor/grad_norm"])
    assert norms[0] != pytest.approx(norms[1], rel=1e-3)
