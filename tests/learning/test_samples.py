import subprocess
import sys

import pytest

from dpepo.learning import build_samples
from dpepo.types import (
    Completion,
    Episode,
    EpisodeGroup,
    FinishReason,
    Observation,
    ParsedReply,
    Prompt,
    ScoredEpisode,
    StepReward,
    StopReason,
    Task,
    Turn,
    TurnAdvantages,
    WorldGuide,
)

TASK = Task(id="toy/a/0", world="toy", name="a")


def _turn(token_ids: tuple[int, ...], logprobs: tuple[float, ...] | None = None) -> Turn:
    completion = Completion(
        text="whatever these ids mean",
        finish=FinishReason.STOP,
        prompt_token_ids=(7, 8),
        token_ids=token_ids,
        logprobs=(-0.5,) * len(token_ids) if logprobs is None else logprobs,
    )
    return Turn(prompt=Prompt(messages=()), completion=completion, reply=ParsedReply(thought="", actions={}), steps=())


def _group(*siblings: tuple[tuple[Turn, ...], tuple[float, ...] | None]) -> TurnAdvantages:
    scored = []
    for turns, phis in siblings:
        episode = Episode(
            task=TASK,
            goal="find it",
            guide=WorldGuide(role="a seeker"),
            num_envs=1,
            max_turns=9,
            seed=0,
            initial=Observation(text="a hall"),
            turns=turns,
            stop=StopReason.ENV_FAILED if phis is None else StopReason.MAX_TURNS,
        )
        rewards = tuple(StepReward(value=1.0, scale="reference", num_actions=1) for _ in turns)
        scored.append(ScoredEpisode(episode=episode, outcome=episode.outcome, step_rewards=rewards))
    return TurnAdvantages(
        group=EpisodeGroup(task=TASK, siblings=tuple(scored)),
        trajectory=tuple(None if phis is None else (phis[0] if phis else 0.0) for _, phis in siblings),
        turns=tuple(phis or () for _, phis in siblings),
    )


def test_the_ids_trained_on_are_the_ids_sampled() -> None:
    """T01."""
    (sample,) = build_samples([_group(((_turn((11, 12), (-1.0, -2.0)),), (0.7,)))])
    assert (sample.prompt_token_ids, sample.token_ids, sample.logprobs) == ((7, 8), (11, 12), (-1.0, -2.0))
    assert sample.advantage == 0.7


def test_an_empty_reply_gives_no_sample_and_moves_nobody_elses_advantage() -> None:
    """T07."""
    samples = build_samples([_group(((_turn(()), _turn((3,))), (10.0, 0.5)), ((_turn((4,)),), (-0.5,)))])
    assert [(sample.sibling, sample.turn, sample.advantage) for sample in samples] == [(0, 1, 0.5), (1, 0, -0.5)]


def test_a_lost_episode_gives_no_samples() -> None:
    """A09."""
    samples = build_samples([_group(((_turn((3,)),), None), ((_turn((4,)),), (0.5,)))])
    assert [sample.sibling for sample in samples] == [1]


def test_groups_are_numbered_by_place_even_when_the_task_is_the_same() -> None:
    """A07."""
    group = _group(((_turn((3,)),), (0.5,)))
    assert [sample.group for sample in build_samples([group, group])] == [0, 1]


def test_turns_without_signal_are_kept_unless_told_otherwise() -> None:
    group = _group(((_turn((3,)), _turn((4,))), (0.0, 0.5)))
    assert len(build_samples([group])) == 2
    assert [sample.turn for sample in build_samples([group], keep_zero=False)] == [1]


def test_log_probabilities_that_do_not_match_the_ids_are_refused_with_the_place() -> None:
    with pytest.raises(ValueError, match="toy/a/0, sibling 0, turn 0: 1 log-probabilities for 2 token ids"):
        build_samples([_group(((_turn((3, 4), (-1.0,)),), (0.5,)))])


def test_learning_and_algorithms_can_be_imported_without_torch() -> None:
    code = "import sys, dpepo.learning, dpepo.rewards, dpepo.algorithms; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
