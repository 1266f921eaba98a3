"""The searching teacher of ALFWorld knows what its student knows, does what can be done, and gets there."""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from statistics import fmean

import pytest
from tests.support.alfworld_games import real_games
from tests.support.toy_jobs import Notes, open_run

from dpepo.config import Form, PromptConfig, Style
from dpepo.envs import LocalPool, load_world
from dpepo.envs.alfworld.games import TASK_TYPES
from dpepo.protocol import PromptBuilder
from dpepo.recipes import load_config
from dpepo.rollout import AgentPolicy, EpisodeRequest, PlaySettings, play_many
from dpepo.runs.rundir import RunFolder
from dpepo.synthesis import parallel_share, run_synth
from dpepo.synthesis.oracle.alfworld import SearchingAgent
from dpepo.synthesis.oracle.styles import STYLES, style_of
from dpepo.types import Episode, EpisodeView, Observation, StopReason, Task, WorldGuide

_NAME = re.compile(r"\b[a-z]+ \d+\b")


def play(
    tasks: Sequence[Task],
    *,
    style: Style = Style.MIXED,
    num_envs: int = 4,
    seed: int = 0,
    form: Form = Form.PARALLEL,
    **options: str,
) -> list[Episode]:
    def never(task_ids: Sequence[str]) -> Sequence[Sequence[str] | None]:
        raise AssertionError(f"gold actions were asked for: {task_ids}")

    with LocalPool(load_world("alfworld", options)) as pool:
        return play_many(
            [EpisodeRequest(task=task, seed=seed) for task in tasks],
            settings=PlaySettings(num_envs=num_envs, max_turns=50 if num_envs == 1 else 25, form=form),
            policy=AgentPolicy(SearchingAgent(style=style, form=form, find=never)),
            pool=pool,
            prompts=PromptBuilder(PromptConfig(form=form)),
        )


def games(numbers: Sequence[int]) -> list[Task]:
    world = load_world("alfworld", {})
    return [world.task(f"alfworld/generated_train/{kind}/{number}") for kind in TASK_TYPES for number in numbers]


@cache
def played(style: Style) -> list[Episode]:
    return play(games(range(100, 105)), style=style)


def view_at(episode: Episode, turn: int, *, blind: bool = False) -> EpisodeView:
    """The episode before a turn; ``blind``: without all that a student is not shown."""

    def shown(seen: Observation) -> Observation:
        return Observation(text=seen.text, admissible_actions=seen.admissible_actions) if blind else seen

    turns = tuple(
        tuple(step.model_copy(update={"observation": shown(step.observation)}) for step in one.steps)
        for one in episode.turns[:turn]
    )
    return EpisodeView(
        goal="" if blind else episode.goal,
        guide=WorldGuide(role="") if blind else episode.guide,
        initial=shown(episode.initial),
        turns=turns,
        num_envs=episode.num_envs,
        task_id="" if blind else episode.task.id,
        seed=7,
    )


@pytest.mark.parametrize("style", STYLES)
def test_every_style_wins_all_six_kinds_of_tasks_by_actions_that_were_offered(style: Style) -> None:
    episodes = played(style)
    assert Counter(episode.task.name for episode in episodes if episode.success) == dict.fromkeys(TASK_TYPES, 5)
    for episode in episodes:
        offered = dict.fromkeys(range(1, 5), episode.initial.admissible_actions)
        for turn in episode.turns:
            assert turn.reply.problems == ()
            for step in turn.steps:
                assert step.action in offered[step.env_id]
                offered[step.env_id] = step.observation.admissible_actions


@pytest.mark.parametrize("style", STYLES)
def test_a_thought_names_nothing_that_has_not_been_read_before(style: Style) -> None:
    for episode in played(style):
        read = set(_NAME.findall(episode.initial.text.lower()))
        for turn in episode.turns:
            named = {name for name in _NAME.findall(turn.reply.thought.lower()) if not name.startswith("environment ")}
            assert named <= read, turn.reply.thought
            read |= {name for step in turn.steps for name in _NAME.findall(step.observation.text.lower())}


def test_the_teacher_sees_texts_and_offered_actions_and_nothing_else() -> None:
    """Without score, state, task id and guide it says the same."""
    agent = SearchingAgent()
    for episode in played(Style.SEARCH)[::4]:
        for turn in range(len(episode.turns)):
            replies = {agent.reply(view_at(episode, turn, blind=blind), random.Random(turn)) for blind in (False, True)}
            assert len(replies) == 1


@pytest.mark.parametrize("style", STYLES)
def test_what_one_environment_has_read_is_not_looked_for_in_another(style: Style) -> None:
    for episode in played(style):
        first = [step.action for step in episode.turns[0].steps]
        assert len(set(first)) == len(first) == (2 if style is Style.FOCUSED else 4)
        opened = Counter(step.action for turn in episode.turns for step in turn.steps if len(turn.steps) > 2)
        assert max(opened.values(), default=1) == 1  # while all search, no place is visited twice


def test_the_work_ends_in_one_environment_and_focused_episodes_use_fewer_all_along() -> None:
    for style in STYLES:
        assert all(len(episode.turns[-1].steps) == 1 for episode in played(style))
    actions = {style: fmean(episode.num_actions for episode in played(style)) for style in STYLES}
    assert actions[Style.FOCUSED] < min(actions[Style.SEARCH], actions[Style.HYPOTHESIS])
    assert parallel_share(played(Style.SEARCH)) > 0.2


def test_a_hypothesis_is_a_kind_of_place_that_an_environment_stays_with() -> None:
    """Two turns on, an environment that had to open a cabinet opens a cabinet; different kinds are tested at once."""
    kinds = [{step.action.split()[2] for step in episode.turns[0].steps} for episode in played(Style.HYPOTHESIS)]
    searched = [{step.action.split()[2] for step in episode.turns[0].steps} for episode in played(Style.SEARCH)]
    assert fmean(map(len, kinds)) > fmean(map(len, searched))


def test_a_single_environment_is_searched_one_place_after_the_other() -> None:
    episodes = play(games(range(3)), num_envs=1, form=Form.SEQUENTIAL)
    assert sum(episode.success for episode in episodes) == len(episodes)
    assert all(len(turn.steps) == 1 and turn.reply.problems == () for episode in episodes for turn in episode.turns)
    assert not any("nvironment" in turn.reply.thought for episode in episodes for turn in episode.turns)


@pytest.mark.parametrize(("wording", "put"), [("2.1.1", r"put .+ in/on .+"), ("2.1.2", r"move .+ to .+")])
def test_both_releases_wordings_are_spoken(wording: str, put: str) -> None:
    episodes = play(games([7]), wording=wording)
    assert all(episode.success for episode in episodes)
    placing = [episode for episode in episodes if episode.task.name != "look_at_obj_in_light"]
    assert all(re.fullmatch(put, episode.turns[-1].steps[0].action) for episode in placing)


def test_seeds_change_words_and_ways_and_nothing_else_does() -> None:
    def texts(seed: int) -> list[str]:
        return [turn.completion.text for episode in play(games([3]), seed=seed) for turn in episode.turns]

    assert texts(1) == texts(1)
    one, other = set(texts(1)), set(texts(2))
    assert len(one & other) < 0.1 * len(one)
    assert Counter(style_of(Style.MIXED, seed=seed) for seed in range(300)).keys() == set(STYLES)


def test_the_real_training_games_are_won_too(tmp_path: Path) -> None:
    root = real_games(tmp_path, "valid_seen")
    tasks = load_world("alfworld", {"data_root": str(root)}).tasks("valid_seen")[::7]
    assert all(episode.success for episode in play(tasks, data_root=str(root)))


def test_a_task_in_words_of_its_own_costs_only_its_episode() -> None:
    view = EpisodeView(goal="tidy up", guide=WorldGuide(role=""), initial=Observation(text="A room."), num_envs=2)
    with pytest.raises(LookupError, match=r"states no task in ALFWorld's words .*: tidy up"):
        SearchingAgent().reply(view, random.Random(0))


def test_dpepo_synth_takes_this_teacher_for_the_oracle(tmp_path: Path) -> None:
    settings = ["env.world=alfworld", "env.workers=0", "tasks.train.split=generated_train", "tasks.train.limit=1"]
    config = load_config(None, [*settings, f"run.dir={tmp_path / 'r'}", "synth.style=focused", "synth.max_invalid=0"])
    run = open_run(config, "synth")
    try:
        assert run_synth(config, run=run, progress=Notes()).kept == 6
    finally:
        run.close()
    lines = list(RunFolder.open(tmp_path / "r").read_episodes(stage="synth", problems=[]))
    assert {line.episode.stop for line in lines} == {StopReason.SUCCESS}
    assert all(len(line.episode.turns[0].steps) <= 2 for line in lines)
