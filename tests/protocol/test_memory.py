"""What is remembered of an episode."""

from dpepo.config import Memory
from dpepo.protocol import recall
from dpepo.types import EpisodeView, Observation, Step, WorldGuide


def view(*turns: tuple[tuple[int, str], ...]) -> EpisodeView:
    """An episode from (env id, action) pairs per turn."""
    steps = tuple(
        tuple(Step(env_id=env_id, action=action, observation=Observation(text=f"after {action}")) for env_id, action in turn)
        for turn in turns
    )
    start = Observation(text="start")
    return EpisodeView(goal="goal", guide=WorldGuide(role="role"), initial=start, turns=steps, num_envs=4)


def test_actions_are_numbered_within_their_environment() -> None:
    memories = recall(
        view(((1, "a"), (3, "b")), ((3, "c"),), ((1, "d"), (3, "e"))), memory=Memory.COMPACT, window=1
    ).environments
    assert [(memory.env_id, memory.latest.number, memory.latest.action) for memory in memories] == [(1, 2, "d"), (3, 3, "e")]
    assert [step.action for step in memories[1].history] == ["b", "c"]


def test_an_environment_not_addressed_last_turn_has_all_its_steps_in_the_history() -> None:
    recollection = recall(view(((1, "a"), (2, "b")), ((1, "c"),)), memory=Memory.COMPACT, window=1)
    first, second = recollection.environments
    assert ([step.action for step in first.history], first.latest_is_current) == (["a"], True)
    assert ([step.action for step in second.history], second.latest_is_current) == (["b"], False)
    assert recollection.current == (first,)


def test_the_window_counts_turns_and_says_what_it_leaves_out() -> None:
    episode = view(((1, "a"), (2, "x")), ((1, "b"),), ((1, "c"),), ((1, "d"),))
    first, second = recall(episode, memory=Memory.WINDOW, window=2).environments
    assert ([step.action for step in first.history], first.num_omitted, first.latest.action) == (["c"], 2, "d")
    assert ([step.action for step in second.history], second.num_omitted, second.latest.action) == ([], 1, "x")


def test_turns_without_a_step_keep_the_last_actions_in_view() -> None:
    for memory in Memory:
        recollection = recall(view(((1, "a"),), ((1, "b"),), (), ()), memory=memory, window=1)
        assert recollection.last_turn_idle
        assert [step.latest.action for step in recollection.current] == ["b"]


def test_before_the_first_turn_nothing_is_remembered() -> None:
    recollection = recall(view(), memory=Memory.COMPACT, window=1)
    assert (recollection.environments, recollection.last_turn_idle) == ((), False)


def test_a_broken_environment_counts_as_ended() -> None:
    broken = Observation(text="", failure="Error: gone")
    episode = view(((1, "a"),)).model_copy(update={"turns": ((Step(env_id=1, action="a", observation=broken),),)})
    memory = recall(episode, memory=Memory.FULL, window=1).environments[0]
    assert memory.ended
    assert memory.broken
