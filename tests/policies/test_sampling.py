from __future__ import annotations

import math

import pytest
import torch

from dpepo.policies.sampling import draw, uniforms


def test_uniforms_depend_on_seed_and_position_only() -> None:
    together = uniforms([3, 4, -1, 2**80], 5)
    assert torch.equal(together[1:2], uniforms([4], 5))
    assert torch.equal(together[:, :2], uniforms([3, 4, -1, 2**80], 2))
    assert len(set(together.flatten().tolist())) == 20


def test_uniforms_look_uniform_along_seeds_and_along_positions() -> None:
    for numbers in (uniforms(range(20_000), 1), uniforms([7], 20_000)):
        assert float(numbers.min()) > 0
        assert float(numbers.max()) < 1
        assert float(numbers.mean()) == pytest.approx(0.5, abs=0.01)
        assert float(numbers.var()) == pytest.approx(1 / 12, abs=0.005)
    pair = uniforms(range(20_000), 2)
    assert abs(float(torch.corrcoef(pair.T)[0, 1])) < 0.03


def test_logprobs_are_taken_after_temperature() -> None:
    """T09: logits [2, 1, 0] at T = 0.4 give token 0 a log-probability of -0.0851, not -0.4076."""
    drawn = draw(torch.tensor([[2.0, 1.0, 0.0]]), torch.tensor([0.5], dtype=torch.float64), temperature=0.4)
    assert drawn.ids_B.tolist() == [0]
    assert float(drawn.logprobs_B) == pytest.approx(-0.0851, abs=5e-5)


def test_a_uniform_number_picks_the_token_whose_share_it_falls_into() -> None:
    logits = torch.tensor([0.2, 0.0, 0.5, 0.3]).log().expand(5, 4)  # token 1 has probability 0
    picked = draw(logits, torch.tensor([1e-9, 0.19, 0.21, 0.69, 1 - 2**-33], dtype=torch.float64), temperature=1.0)
    assert picked.ids_B.tolist() == [0, 0, 2, 2, 3]
    assert picked.logprobs_B.exp().tolist() == pytest.approx([0.2, 0.2, 0.5, 0.5, 0.3])


def test_the_extreme_uniform_numbers_never_pick_an_impossible_token() -> None:
    logits = torch.full((2, 50_000), -math.inf)
    logits[:, 20_000:20_010] = 0.0
    picked = draw(logits, torch.tensor([2.0**-33, 1 - 2.0**-33], dtype=torch.float64), temperature=0.7)
    assert picked.ids_B.tolist() == [20_000, 20_009]


def test_greedy_takes_the_best_token_and_reports_temperature_one() -> None:
    drawn = draw(torch.tensor([[1.0, 3.0, 2.0]]), torch.tensor([0.99], dtype=torch.float64), temperature=0)
    assert drawn.ids_B.tolist() == [1]
    assert float(drawn.logprobs_B) == pytest.approx(float(torch.log_softmax(torch.tensor([1.0, 3.0, 2.0]), -1)[1]))


def test_top_p_cuts_what_is_drawn_and_not_the_logprob() -> None:
    """T09 with a nucleus: the learner's log-probability is over the whole vocabulary, so must be the sampler's."""
    logits = torch.tensor([0.5, 0.3, 0.15, 0.05]).log().expand(1000, 4)
    drawn = draw(logits, uniforms(range(1000), 1)[:, 0], temperature=1.0, top_p=0.6)
    assert set(drawn.ids_B.tolist()) == {0, 1}
    assert sorted(set(drawn.logprobs_B.exp().tolist())) == pytest.approx([0.3, 0.5])
    assert float((drawn.ids_B == 0).float().mean()) == pytest.approx(0.5 / 0.8, abs=0.05)


def test_a_tiny_top_p_still_leaves_the_best_token() -> None:
    drawn = draw(torch.tensor([[0.0, 1.0]]), torch.tensor([0.999], dtype=torch.float64), temperature=1.0, top_p=1e-9)
    assert drawn.ids_B.tolist() == [1]


def test_scores_that_are_not_finite_show_in_the_logprob_and_do_not_crash() -> None:
    logits = torch.tensor([[math.nan, 0.0], [0.0, 0.0]])
    for temperature in (0.0, 1.0):
        drawn = draw(logits, torch.tensor([0.5, 0.2], dtype=torch.float64), temperature=temperature, top_p=0.9)
        assert math.isnan(drawn.logprobs_B[0])
        assert math.isfinite(drawn.logprobs_B[1])
