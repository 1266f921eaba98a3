"""The value head: read at the right place, learnt, and kept."""

from __future__ import annotations

import copy

import pytest
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
    for share in (False, True):
        parts = list(prompt_values(model, head, PROMPTS, max_tokens=4, share_prompts=share))
        assert sorted(place for places, _ in parts for place in places) == [0, 1, 2, 3] and len(parts) > 1
        found = dict(pair for places, values_B in parts for pair in zip(places, values_B.tolist(), strict=True))
        assert [found[place] for place in range(4)] == pytest.approx(together, abs=1e-5)
    hidden = model(torch.tensor([PROMPTS[1]]), output_hidden_states=True).hidden_states[-1][0, -1]
    assert together[1] == pytest.approx(head(hidden).item(), abs=1e-5)


def test_values_move_to_their_targets_by_the_update_although_no_advantage_does_anything() -> None:
    one = learner()
    targets = [1.0, 0.0, 0.5, -0.5]
    first = one.update(samples(targets))
    for _ in range(60):
        last = one.update(samples(targets))
    assert last["critic/loss"] < 0.05 * first["critic/loss"]
    assert torch.allclose(torch.tensor(one.values(PROMPTS)), torch.tensor(targets), atol=0.2)


def test_equal_prompts_are_learnt_from_as_often_as_they_are_there() -> None:
    one = learner()
    twice = [PROMPTS[1], PROMPTS[0], PROMPTS[1]]
    [(places, values_B)] = prompt_values(one.model, one.critic.head, twice, max_tokens=99, share_prompts=True)  # type: ignore[union-attr]
    values_B.sum().backward()  # type: ignore[no-untyped-call]
    assert sorted(places) == [0, 1, 2]
    assert one.critic.head.bias.grad.item() == 3  # type: ignore[union-attr]


def test_the_head_learns_at_a_rate_of_its_own_and_a_step_that_is_not_finite_leaves_it_alone() -> None:
    model = tiny_model()
    slow = Learner(model, config=ActorConfig(kl_coef=0, lr=1e-9), critic=Critic(ValueHead(model), lr=1e-2))
    before = [parameter.detach().clone() for parameter in model.parameters()]
    slow.update(samples([1.0] * 4))
    head = slow.critic.head  # type: ignore[union-attr]
    assert head.bias.item() == pytest.approx(1e-2, rel=1e-3)
    assert all(torch.allclose(p, old, atol=1e-8) for p, old in zip(model.parameters(), before, strict=True))
    kept = head.weight.detach().clone()
    metrics = slow.update(samples([1.0, float("nan"), 0.0, 0.0]))
    assert metrics["actor/skipped"] == 1
    assert torch.equal(head.weight, kept)


def test_forward_passes_of_any_size_give_the_same_gradient() -> None:
    """With advantages of 0 the gradient is that of the value loss alone, a mean over prompts however they are cut."""
    norms = []
    for micro_tokens in (1, 8, 1000):
        model = tiny_model()
        head = ValueHead(model)
        torch.manual_seed(0)
        torch.nn.init.normal_(head.weight)
        config = ActorConfig(kl_coef=0, micro_tokens=micro_tokens)
        metrics = Learner(model, config=config, critic=Critic(head)).update(samples([1.0, 0.0, 0.5, -0.5]))
        norms.append((metrics["actor/grad_norm"], metrics["critic/loss"]))
    assert norms[0][0] > 1e-3
    assert norms[1] == pytest.approx(norms[0], rel=1e-4)
    assert norms[2] == pytest.approx(norms[0], rel=1e-4)


def test_the_clipped_loss_is_the_larger_of_both() -> None:
    now, old, targets = torch.tensor([1.0, 0.1]), torch.zeros(2), torch.tensor([1.0, 1.0])
    assert torch.allclose(value_loss(now, old_B=old, targets_B=targets, clip=0.2), torch.tensor([0.5 * 0.64, 0.5 * 0.81]))


def test_a_learner_that_is_resumed_has_its_head_again() -> None:
    one, other = learner(), learner()
    one.update(samples([1.0, 0.0, 0.5, -0.5]))
    other.model.load_state_dict(one.model.state_dict())
    other.load_state_dict(copy.deepcopy(one.state_dict()))
    assert other.values(PROMPTS) == one.values(PROMPTS) != [0.0] * 4
    for each in (one, other):
        each.update(samples([1.0, 0.0, 0.5, -0.5]))
    assert other.values(PROMPTS) == one.values(PROMPTS)  # with the head's moments
