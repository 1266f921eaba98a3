from collections import Counter

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.tiny_models import plain_logprobs, sample, tiny_model

from dpepo.learning.batching import build_batches, split_minibatches
from dpepo.learning.forward import score_tokens
from dpepo.types import TrainingSample

ids = st.integers(0, 22)
prompts = st.lists(ids, min_size=1, max_size=12).map(tuple)
replies = st.lists(ids, min_size=1, max_size=6).map(tuple)
some_samples = st.lists(
    st.builds(sample, st.one_of(prompts, st.sampled_from([(1, 2, 3), (4,)])), st.one_of(replies, st.just((5, 6)))),
    min_size=1,
    max_size=8,
)


def _scores(samples: list[TrainingSample], *, max_tokens: int, share: bool) -> list[float]:
    """Log-probabilities in the order of `samples`, whatever the order of the batches."""
    model = tiny_model()
    found: dict[int, list[float]] = {}
    for batch in build_batches(samples, max_tokens=max_tokens, share_prompts=share):
        with torch.no_grad():
            flat = iter(score_tokens(model, batch, temperature=0.7).logprobs_N.tolist())
        for one in batch.samples:
            found[id(one)] = [next(flat) for _ in one.token_ids]
    return [logprob for one in samples for logprob in found[id(one)]]


@pytest.mark.parametrize("share", [False, True])
@settings(max_examples=25, deadline=None)
@given(samples=some_samples, max_tokens=st.sampled_from([1, 20, 60, 1000]))
def test_no_cut_into_batches_changes_a_log_probability(share: bool, samples: list[TrainingSample], max_tokens: int) -> None:
    """T05, T09: against each sequence alone, in float64 after the model."""
    model = tiny_model()
    alone = [value for one in samples for value in plain_logprobs(model, one.prompt_token_ids, one.token_ids, temperature=0.7)]
    assert _scores(samples, max_tokens=max_tokens, share=share) == pytest.approx(alone, abs=1e-4)


def test_a_shared_beginning_and_an_equal_reply_are_computed_once() -> None:
    samples = [sample((1, 2, 3, 4), reply) for reply in ((5, 6, 7), (5, 6, 7), (8, 9))] + [sample((1, 2, 9), (3, 3))]
    (batch,) = build_batches(samples, max_tokens=100, share_prompts=True)
    assert batch.input_ids_BL.tolist() == [[1, 2, 3, 4, 5, 6, 8, 9, 3]]
    assert batch.position_ids_BL is not None
    assert batch.position_ids_BL.tolist() == [[0, 1, 2, 3, 4, 5, 4, 2, 3]]
    assert batch.target_N.tolist() == [5, 6, 7, 5, 6, 7, 8, 9, 3, 3]
    assert batch.keep_S[batch.nodes_U[batch.node_N]].tolist() == [3, 4, 5, 3, 4, 5, 3, 6, 7, 8]


def test_only_positions_that_predict_a_reply_token_are_kept() -> None:
    """T02: an end token equal to the padding id keeps its place; padding has none."""
    (batch,) = build_batches([sample((1, 2, 3), (4, 0)), sample((1,), (4, 5, 0))], max_tokens=100, share_prompts=False)
    assert batch.keep_S.tolist() == [0, 1, 2, 3]
    assert batch.nodes_U.tolist() == [0, 1, 2, 6, 7]  # of two rows of four positions kept
    assert sorted(batch.target_N.tolist()) == [0, 0, 4, 4, 5]


@given(samples=some_samples, max_tokens=st.integers(1, 80), share=st.booleans())
@settings(max_examples=50, deadline=None)
def test_every_sample_is_in_one_batch_and_batches_of_several_rows_keep_to_the_budget(
    samples: list[TrainingSample], max_tokens: int, share: bool
) -> None:
    batches = build_batches(samples, max_tokens=max_tokens, share_prompts=share)
    assert Counter(id(one) for batch in batches for one in batch.samples) == Counter(id(one) for one in samples)
    assert all(batch.input_ids_BL.numel() <= max_tokens or batch.input_ids_BL.shape[0] == 1 for batch in batches)
    assert sum(batch.target_N.numel() for batch in batches) == sum(len(one.token_ids) for one in samples)


def test_a_sample_without_prompt_or_reply_is_refused_with_its_place() -> None:
    with pytest.raises(ValueError, match="group 1, sibling 2, turn 3"):
        build_batches([sample((), (1,), place=(1, 2, 3))], max_tokens=10, share_prompts=False)


@settings(deadline=None)
@given(
    episodes=st.lists(st.integers(1, 3), max_size=12),
    num_minibatches=st.integers(1, 5),
)
def test_minibatches_hold_whole_episodes_of_nearly_equal_number(episodes: list[int], num_minibatches: int) -> None:
    samples = [
        sample((1,), (2,), place=(number // 4, number % 4, turn))
        for number, turns in enumerate(episodes)
        for turn in range(turns)
    ]
    parts = split_minibatches(samples, num_minibatches=num_minibatches)
    sizes = [len({(one.group, one.sibling) for one in part}) for part in parts]
    assert sum(sizes) == len(episodes)
    assert len(parts) == min(num_minibatches, len(episodes))
    assert not sizes or max(sizes) - min(sizes) <= 1
    assert sum(len(part) for part in parts) == len(samples)
