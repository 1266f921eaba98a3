"""The ScienceWorld oracle: plans made from gold paths, and real episodes in which nothing is used before it was shown."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest

from dpepo.config import Form, Style
from dpepo.envs import Bundle, World, load_world
from dpepo.rollout import AgentPolicy, play_episode
from dpepo.synthesis.oracle.scienceworld import ScienceWorldOracle
from dpepo.synthesis.oracle.scienceworld_answers import animals, find_planes, verdict
from dpepo.synthesis.oracle.scienceworld_plan import PlanStep, arguments, rewrite
from dpepo.synthesis.oracle.scienceworld_seen import Seen, fragments_of, rooms_named, survey
from dpepo.synthesis.oracle.scienceworld_words import SENTENCES, Wording
from dpepo.types import Episode, EpisodeView, StopReason

TASKS = (
    "find-living-thing/0",
    "lifespan-shortest-lived/0",
    "inclined-plane-determine-angle/0",
    "test-conductivity/0",
    "power-component/0",
    "mendelian-genetics-known-plant/0",
)


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    with load_world("scienceworld", {}) as opened:
        yield opened


def play(world: World, task: str, *, style: Style = Style.MIXED, num_envs: int = 4, seed: int = 0) -> Episode:
    def find(task_ids: Sequence[str]) -> list[list[str] | None]:
        return [world.expert(task_id) for task_id in task_ids]

    oracle = ScienceWorldOracle(style=style, form=Form.PARALLEL, find=find)
    task_id = f"scienceworld/{task}"
    return play_episode(task_id, policy=AgentPolicy(oracle), num_envs=num_envs, max_turns=25, seed=seed, world=world)


@pytest.mark.parametrize("task", TASKS)
def test_an_episode_succeeds_honestly_and_replays(task: str, world: World) -> None:
    episode = play(world, task)
    assert episode.stop is StopReason.SUCCESS
    assert not any(turn.reply.problems for turn in episode.turns)
    assert all(len(turn.reply.thought.split()) > 3 for turn in episode.turns)
    assert len(episode.turns[0].steps) > 1
    assert_nothing_is_used_before_it_was_shown(episode)
    bundle = Bundle(world, episode.task.id, episode.num_envs)
    assert bundle.reset().initial == episode.initial
    for turn in episode.turns:
        assert bundle.step(turn.reply.actions) == {step.env_id: step.observation for step in turn.steps}
    bundle.close()


def assert_nothing_is_used_before_it_was_shown(episode: Episode) -> None:
    for number, turn in enumerate(episode.turns):
        seen = survey(view_before(episode, number))
        for step in turn.steps:
            if step.action.startswith("teleport to "):
                assert step.action.removeprefix("teleport to ") in seen.rooms
            else:
                assert [name for name in arguments(step.action) if not seen.has(name)] == []


def view_before(episode: Episode, number: int) -> EpisodeView:
    return EpisodeView(
        goal=episode.goal,
        guide=episode.guide,
        initial=episode.initial,
        turns=tuple(turn.steps for turn in episode.turns[:number]),
        num_envs=episode.num_envs,
        task_id=episode.task.id,
    )


def test_one_environment_is_searched_and_used_one_step_after_the_other(world: World) -> None:
    episode = play(world, "inclined-plane-determine-angle/0", num_envs=1, seed=1)
    assert all(len(turn.steps) == 1 for turn in episode.turns)
    assert not any("nvironment" in turn.reply.thought for turn in episode.turns)
    assert_nothing_is_used_before_it_was_shown(episode)
    crossing = play(world, "mendelian-genetics-known-plant/0", num_envs=1)
    assert crossing.stop is StopReason.POLICY_FAILED  # two copies could test both answers; one could only guess
    assert "guessed" in crossing.error


def test_seeds_change_the_way_and_the_words_and_a_seed_fixes_both(world: World) -> None:
    def replies(seed: int) -> tuple[str, ...]:
        return tuple(turn.completion.text for turn in play(world, "find-living-thing/0", seed=seed).turns)

    assert len({replies(seed) for seed in range(4)}) == 4
    assert replies(0) == replies(0)


def test_a_hypothesis_tries_both_boxes_and_the_focused_agent_measures_first(world: World) -> None:
    tested = play(world, "test-conductivity/0", style=Style.HYPOTHESIS)
    assert {step.observation.score for step in tested.turns[-1].steps} == {100.0, -100.0}
    measured = play(world, "test-conductivity/0", style=Style.FOCUSED)
    actions = [step.action for turn in measured.turns for step in turn.steps]
    assert sum(action.startswith("connect") for action in actions) == 6
    assert measured.success


def test_a_search_rules_animals_out_and_says_so(world: World) -> None:
    episode = play(world, "lifespan-shortest-lived/0", style=Style.SEARCH)
    lost = [step.action for turn in episode.turns for step in turn.steps if step.observation.score < 0]
    assert episode.success
    assert lost
    assert all(action in episode.turns[-1].reply.thought for action in lost)


def test_a_plan_is_the_gold_path_without_walks_and_doubles() -> None:
    gold = [
        *(
            "open door to kitchen",
            "go to kitchen",
            "look around",
            "pick up metal pot",
            "move metal pot to sink",
            "activate sink",
        ),
        *("deactivate sink", "pick up metal pot", "move metal pot to sink", "activate sink", "deactivate sink"),
        *("pick up metal pot", "pour metal pot into metal pot", "pick up metal pot"),
    ]
    plan = rewrite(gold, start_room="hallway")
    assert [step.action for step in plan] == [
        *("pick up metal pot", "move metal pot to sink", "activate sink", "deactivate sink", "pick up metal pot"),
    ]
    assert {step.room for step in plan} == {"kitchen"}


def test_many_readings_become_some_with_waits_between() -> None:
    gold = ["examine tin", "use thermometer in inventory on tin"] * 12
    plan = rewrite(gold, start_room="kitchen")
    assert [step.action for step in plan].count("wait") == 3
    assert plan[0] == plan[-1] == PlanStep("use thermometer in inventory on tin", "kitchen")


def test_what_was_shown_counts_by_words_that_stood_together() -> None:
    seen = Seen(goal="")
    seen.fragments |= fragments_of("a frog egg\n\ta red box (containing nothing)\nIt names the common toad.")
    assert seen.has("red box")
    assert not seen.has("red egg")
    assert seen.has("egg toad")  # a stage of life may stand apart
    assert rooms_named("The boxes are around the living room.") == ["living room"]


def test_planes_are_judged_by_readings_that_differ() -> None:
    goal = "which of the two inclined planes (B, G) has the shallowest angle"
    planes = find_planes(["move brick to inclined plane b", "move brick to inclined plane g"], goal)
    assert planes is not None
    assert verdict(planes, {"inclined plane b": 61, "inclined plane g": 42}) == "inclined plane g"
    assert verdict(planes, {"inclined plane b": 61, "inclined plane g": 60}) is None
    assert verdict(planes, {"inclined plane b": 61}) is None


def test_furniture_is_no_candidate_for_an_animal() -> None:
    listed = ("agent", "axe", "baby baby wolf", "dove", "door to kitchen", "fire pit", "kitchen", "substance in fountain")
    assert animals(listed, but="baby baby wolf") == ["dove"]


def test_every_sentence_can_be_said_with_its_fields() -> None:
    names = "thing room env witness which what text list first second first_name second_name answer"
    fields = dict.fromkeys(names.split(), "tin")
    for kind in SENTENCES:
        for seed in range(5):
            said = Wording(seed, num_envs=1 if kind.endswith("_one") else 4).say(kind, **fields)
            assert said.endswith((".", "!", "?"))
            assert said[0] == said[0].upper()
