from __future__ import annotations

import pytest

from dpepo.config import Form, OverLimit, PromptConfig
from dpepo.envs import BundleStart, LocalPool
from dpepo.envs.toy import ToyWorld, layout_of
from dpepo.errors import TaskError
from dpepo.policies import ScriptedPolicy
from dpepo.protocol import PromptBuilder
from dpepo.protocol.reply import format_reply
from dpepo.rollout import EpisodeRequest, EpisodeState, PlaySettings, broken_environments, play_episode, reply_seed
from dpepo.types import Completion, FinishReason, Observation, ReplyProblem, Step, StopReason, Task, WorldGuide

TASK = "toy/room/0"  # one room, three containers: everything is in reach
START = BundleStart(goal="find it", guide=WorldGuide(role="r"), initial=Observation(text="a room"))


def trap() -> list[str]:
    """The actions that lose in `TASK`."""
    layout = layout_of(ToyWorld().task(TASK))
    container = next(name for name, thing in layout.contents.items() if thing == layout.trap)
    return [f"open {container}", f"take {layout.trap}"]


def win() -> list[str]:
    return ToyWorld().expert(TASK)


def script(*turns: dict[int, str]) -> ScriptedPolicy:
    return ScriptedPolicy([format_reply("t", actions) for actions in turns])


def done(steps: tuple[Step, ...]) -> list[tuple[int, str]]:
    return [(step.env_id, step.action) for step in steps]


def state(**settings: object) -> EpisodeState:
    task = Task(id="made/up/0", world="made", name="up")
    full = PlaySettings.model_validate({"num_envs": 2, "max_turns": 3, **settings})
    return EpisodeState.begin(EpisodeRequest(task=task, seed=0), settings=full, start=START)


def take(before: EpisodeState, text: str, observations: dict[int, Observation]) -> EpisodeState:
    completion = Completion(text=text, finish=FinishReason.STOP)
    asked = before.ask(PromptBuilder(PromptConfig()))
    return before.take(asked, completion=completion, reply=before.read(completion), observations=observations)


def test_an_episode_stops_at_the_first_success() -> None:
    first, second = win()
    episode = play_episode(
        TASK, policy=script({1: first, 2: "look"}, {1: second, 2: "look"}, {2: "look"}), num_envs=2, max_turns=5
    )
    assert episode.stop is StopReason.SUCCESS
    assert episode.success
    assert episode.outcome == 1.0
    assert [done(turn.steps) for turn in episode.turns] == [[(1, first), (2, "look")], [(1, second), (2, "look")]]


def test_an_environment_that_ended_is_never_stepped_again() -> None:
    """E17, E12: env 2 loses at turn 2; addressed at turn 3 it is not called, its history stays, and the model is told."""
    first, second = trap()
    policy = script({2: first}, {2: second}, {1: "look", 2: "look"}, {2: "look"})
    episode = play_episode(TASK, policy=policy, num_envs=2, max_turns=4)
    assert [done(turn.steps) for turn in episode.turns] == [[(2, first)], [(2, second)], [(1, "look")], []]
    assert dict(episode.turns[2].reply.actions) == {1: "look", 2: "look"}
    assert episode.turns[1].steps[0].observation.score == -100.0
    assert episode.outcome == 0.0
    assert episode.stop is StopReason.MAX_TURNS
    words = episode.turns[2].prompt.messages[-1].content
    assert "Environment 2" in words
    assert "ended" in words


def test_all_environments_lost_is_a_failed_episode_that_counts() -> None:
    """E12: R_traj is 0, not -100."""
    first, second = trap()
    episode = play_episode(TASK, policy=script({1: first, 2: first}, {1: second, 2: second}), num_envs=2, max_turns=9)
    assert episode.stop is StopReason.ALL_ENDED
    assert episode.outcome == 0.0
    assert len(episode.turns) == 2


def test_success_in_one_environment_counts_though_another_was_lost() -> None:
    """E12: env 1 at -100, env 3 wins: R_traj is 1."""
    lose, won = trap(), win()
    episode = play_episode(TASK, policy=script({1: lose[0], 3: won[0]}, {1: lose[1]}, {3: won[1]}), num_envs=3, max_turns=9)
    assert episode.stop is StopReason.SUCCESS
    assert episode.outcome == 1.0


def test_a_broken_environment_leaves_the_others_going() -> None:
    """E04: env 2 raises at its third action; it is marked with the message, envs 1 and 3 go on, the episode counts."""
    world = ToyWorld(fail_at=3)
    policy = script({1: "look", 2: "look"}, {2: "look", 3: "look"}, {2: "look", 3: "look"}, {1: "look", 2: "look"})
    episode = play_episode(TASK, policy=policy, num_envs=3, max_turns=4, world=world)
    assert broken_environments(episode) == {2: "IndexError: toy fault at action 3"}
    assert done(episode.turns[3].steps) == [(1, "look")]
    assert episode.stop is StopReason.MAX_TURNS
    assert episode.outcome == 0.0
    assert episode.error == ""


def test_an_episode_without_environments_left_is_lost_when_one_broke() -> None:
    """E04: it is left out of all statistics, and says what broke."""
    policy = script(*[{1: "look", 2: "look"}] * 3)
    episode = play_episode(TASK, policy=policy, num_envs=2, max_turns=9, world=ToyWorld(fail_at=2))
    assert episode.stop is StopReason.ENV_FAILED
    assert episode.outcome is None
    assert episode.error == "environment 1: IndexError: toy fault at action 2; environment 2: IndexError: toy fault at action 2"


def test_a_task_that_cannot_start_is_lost_before_its_first_turn() -> None:
    """E04: nothing is asked of the policy."""

    def never(*_: object) -> str:
        raise AssertionError("asked")

    episode = play_episode(TASK, policy=ScriptedPolicy(never), num_envs=2, max_turns=9, world=ToyWorld(fail_at=0))
    assert (episode.stop, episode.turns) == (StopReason.ENV_FAILED, ())
    assert "toy fault at action 0" in episode.error


@pytest.mark.parametrize("bad", ["0", "5", "-1", "99999999999999999999", "01", "x", "1.5"])
def test_ids_outside_the_limit_are_dropped_under_ignore(bad: str) -> None:
    """P10: only env 2 runs, nothing raises, the message names 1 and 4."""
    reply = f"<think>t</think><parallel><env_{bad}>look</env_{bad}><env_2>look</env_2></parallel>"
    policy = ScriptedPolicy([reply])
    episode = play_episode(TASK, policy=policy, num_envs=4, max_turns=1, over_limit=OverLimit.IGNORE)
    assert done(episode.turns[0].steps) == [(2, "look")]
    assert episode.stop is StopReason.MAX_TURNS
    assert any("1 to 4" in message for message in episode.turns[0].reply.messages)


@pytest.mark.parametrize("bad", ["5", "99999999999999999999"])
def test_an_id_above_the_limit_ends_the_episode_under_fail(bad: str) -> None:
    """P10: nothing of that turn is done, not even an action that would win; it counts as failed."""
    first, second = win()
    reply = f"<think>t</think><parallel><env_{bad}>look</env_{bad}><env_2>{second}</env_2></parallel>"
    policy = ScriptedPolicy([format_reply("t", {2: first}), reply])
    episode = play_episode(TASK, policy=policy, num_envs=4, max_turns=9)
    assert (episode.stop, episode.outcome) == (StopReason.OVER_LIMIT, 0.0)
    assert [done(turn.steps) for turn in episode.turns] == [[(2, first)], []]


@pytest.mark.parametrize("bad", ["0", "-1", "01"])
def test_an_id_that_is_no_number_from_one_on_never_ends_an_episode(bad: str) -> None:
    """P10: `fail` is about asking for more copies than there are."""
    policy = ScriptedPolicy([f"<think>t</think><parallel><env_{bad}>look</env_{bad}></parallel>"])
    assert play_episode(TASK, policy=policy, num_envs=4, max_turns=2).stop is StopReason.MAX_TURNS


@pytest.mark.parametrize("text", ["", "   ", "nothing to say", "<think>plan <parallel><env_1>look</env_1></parallel>"])
def test_a_reply_without_a_usable_action_is_a_turn_without_steps(text: str) -> None:
    """T07, P04: empty and broken replies cost a turn; the outcome comes from the episode, not from tokens."""
    episode = play_episode(TASK, policy=ScriptedPolicy([text, text]), num_envs=2, max_turns=2)
    assert [turn.steps for turn in episode.turns] == [(), ()]
    assert all(ReplyProblem.NO_ACTION in turn.reply.problems for turn in episode.turns)
    assert (episode.stop, episode.outcome, episode.num_actions) == (StopReason.MAX_TURNS, 0.0, 0)


def test_a_full_context_ends_the_episode_without_a_turn() -> None:
    """B08: it counts as failed, and its earlier turns stay."""

    def answer(_: object, turn: int) -> str | Completion:
        return "" if turn == 0 else Completion(text="", finish=FinishReason.CONTEXT_FULL, prompt_token_ids=(1, 2))

    episode = play_episode(TASK, policy=ScriptedPolicy(answer), num_envs=1, max_turns=9)
    assert (episode.stop, episode.outcome, len(episode.turns)) == (StopReason.CONTEXT_FULL, 0.0, 1)


def test_a_policy_that_cannot_answer_loses_the_episode() -> None:
    gone = Completion(text="<env_1>look</env_1>", finish=FinishReason.ERROR, error="server gave up")
    episode = play_episode(TASK, policy=ScriptedPolicy([gone]), num_envs=1, max_turns=9)
    assert (episode.stop, episode.outcome, episode.error, episode.turns) == (
        StopReason.POLICY_FAILED,
        None,
        "server gave up",
        (),
    )


def test_the_token_ids_sampled_reach_the_record_unchanged() -> None:
    """T01: the ids of "he" and "llo" stay two ids with two log-probs, whatever "hello" would encode to."""
    sampled = Completion(
        text="hello", finish=FinishReason.STOP, prompt_token_ids=(9,), token_ids=(5, 6), logprobs=(-0.5, -0.25)
    )
    episode = play_episode(TASK, policy=ScriptedPolicy([sampled]), num_envs=1, max_turns=1)
    assert episode.turns[0].completion == sampled


def test_without_a_limit_copies_open_on_demand() -> None:
    episode = play_episode(TASK, policy=script({7: "look"}, {2: "look", 7: "look"}), num_envs=None, max_turns=2)
    assert [done(turn.steps) for turn in episode.turns] == [[(7, "look")], [(2, "look"), (7, "look")]]
    assert episode.num_envs == 7


def test_a_sequential_agent_plays_one_copy() -> None:
    policy = ScriptedPolicy([f"<think>t</think><action>{action}</action>" for action in win()])
    episode = play_episode(TASK, policy=policy, num_envs=1, max_turns=3, form=Form.SEQUENTIAL)
    assert episode.stop is StopReason.SUCCESS


def test_an_episode_plays_in_a_pool_or_a_world_and_leaves_it_open() -> None:
    world = ToyWorld()
    pool = LocalPool(world)
    played = [
        play_episode(TASK, policy=script({1: "look"}), num_envs=1, max_turns=1, world=place) for place in (pool, world, None)
    ]
    bare = [episode.model_copy(update={"turns": [turn.steps for turn in episode.turns]}) for episode in played]
    assert bare[0] == bare[1] == bare[2]
    [(handle, _)] = pool.open_many([(TASK, 1)])
    assert handle == 1


def test_an_unknown_task_is_a_wrong_request() -> None:
    with pytest.raises(TaskError, match="toy/room"):
        play_episode("toy/rom/0", policy=script(), num_envs=1, max_turns=1)


def test_a_success_beats_everything_else_that_happens_in_the_same_turn() -> None:
    won = Observation(text="won", success=True, ended=True)
    broke = Observation(text="", ended=True, failure="OSError: gone")
    after = take(state(max_turns=1), format_reply("t", {1: "a", 2: "b"}), {1: broke, 2: won})
    assert after.stop is StopReason.SUCCESS
    assert after.episode().error == ""
    assert broken_environments(after.episode()) == {1: "OSError: gone"}


def test_a_state_never_changes_and_a_running_episode_is_no_record() -> None:
    before = state()
    after = take(before, format_reply("t", {1: "a"}), {1: Observation(text="x")})
    assert (len(before.turns), len(after.turns), after.finished) == (0, 1, False)
    with pytest.raises(ValueError, match="still running"):
        after.episode()


def test_reply_seeds_are_the_same_on_every_machine_and_differ_everywhere_else() -> None:
    """T08: pinned, because `hash()` would differ between processes."""
    assert reply_seed(0, task_id="toy/room/0", sibling=0, turn=0) == 5998206571461162438
    seeds = {
        reply_seed(seed, task_id=task_id, sibling=sibling, turn=turn)
        for seed in (0, 1)
        for task_id in ("a/b/1", "a/b/11")
        for sibling in range(3)
        for turn in range(3)
    }
    assert len(seeds) == 36
