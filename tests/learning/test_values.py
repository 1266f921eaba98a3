"""The value head: read at the right place, learnt, and kept."""

from __future__ import annotations

import torch
from tests.support.tiny_models import tiny_model

from dpepo.config import ActorConfig
from dpepo.learning import Critic, Learner, ValueHead
from dpepo.learning.values import prompt_values, value_loss
from dpepo.types import TrainingSample

PROMPTS = [(1, 2, 3), (4, 5, 6, 7, 8), (9,), (1, 2, 3, 4)]


def learner(*, seed: int = 0) -> Learner:
    model = tiny_model(seed=seed)
    head = ValueHead(model)
    return Learner(model, config=ActorConfig(kl_coef=0, lr=1e-2), critic=Critic(head, clip=9.0, lr=1e-2))


def samples(targets: list[float]) -> list[TrainingSample]:
    return [
        TrainingSample(
            prompt_token_ids=prompt, token_ids=(2, 3), logprobs=(-1.0, -1.0), advantage=0.0, sibling=place, value_target=target
        )
        for place, (prompt, target) in enumerate(zip(PROMPTS, targets, strict=True))
    ]


def test_a_fresh_head_says_nothing_and_padding_has_no_effect() -> None:
    one = learner()
    assert one.values(PROMPTS) == [0.0] * 4
    torch.nn.init.normal_(one.critic.head.weight)  # type: ignore[union-attr]
    together = one.values(PROMPTS)
    assert torch.allclose(torch.tensor(together), torch.tensor([one.values([prompt])[0] for prompt in PROMPTS]), atol=1e-5)
    model, head = one.model, one.critic.head  # type: ignore[union-attr]
    parts = list(prompt_values(model, head, PROMPTS, max_tokens=4))
    assert sorted(place for places, _ in parts for place in places) == [0, 1, 2, 3] and len(parts) > 1


def test_values_move_to_their_targets_by_the_update_although_no_advantage_does_anything() -> None:
    one = learner()
    targets = [1.0, 0.0, 0.5, -0.5]
    first = one.update(samples(targets))
    for _ in range(60):
        last = one.update(samples(targets))
    assert last["critic/loss"] < 0.05 * first["critic/loss"]
    assert torch.allclose(torch.tensor(one.values(PROMPTS)), torch.tensor(targets), atol=0.2)


def test_the_clipped_loss_is_the_larger_of_both() -> None:
    now, old, targets = torch.tensor([1.0, 0.1]), torch.zeros(2), torch.tensor([1.0, 1.0])
    assert torch.allclose(value_loss(now, old_B=old, targets_B=targets, clip=0.2), torch.tensor([0.5 * 0.64, 0.5 * 0.81]))


def test_a_learner_that_is_resumed_has_its_head_again() -> None:
    one, other = learner(), learner()
    one.update(samples([1.0, 0.0, 0.5, -0.5]))
    other.model.load_state_dict(one.model.state_dict())
    other.load_state_dict(one.state_dict())
    assert other.values(PROMPTS) == one.values(PROMPTS) != [0.0] * 4
