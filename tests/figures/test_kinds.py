"""The numbers of every picture, from recorded episodes."""

from __future__ import annotations

import json
from pathlib import Path
from statistics import fmean

import pytest
from tests.support.figure_runs import eval_run, learning_rows, play, train_run
from tests.support.sample_episodes import one_turn

from dpepo.config import StepRewardConfig
from dpepo.errors import ConfigError
from dpepo.figures import KINDS, Band, NothingToShow, Options, find_material, make_picture
from dpepo.figures.facts import episode_facts
from dpepo.figures.picture import Histogram, Line, Lines, Picture, Rows, Scatter, Stacks
from dpepo.figures.size import count_parameters
from dpepo.rewards import score_episode
from dpepo.types import Observation


def picture(kind: str, *folders: Path, **options: object) -> Picture:
    return make_picture(kind, find_material([str(folder) for folder in folders]), Options.model_validate(options))


def lines_of(made: Picture, panel: int = 0) -> tuple[Line, ...]:
    lines = made.panels[panel]
    assert isinstance(lines, Lines)
    return lines.lines


def test_counts_of_an_episode_are_those_of_its_step_rewards() -> None:
    seen = Observation(text="a room")
    turns = (
        one_turn({1: "look", 2: "Look", 3: "go north"}, {1: seen, 2: seen, 3: seen}),
        one_turn({1: "look", 2: "go north"}, {1: seen, 2: seen}),
    )
    episode = play(3, skill=0.5, tasks=1, tries=1)[0].model_copy(update={"turns": turns})
    facts = episode_facts(episode)
    assert (facts.actions, facts.distinct) == ((3, 2), 2)  # letter case makes no other action
    assert (facts.repeats_width, facts.repeats_depth) == (1, 1)
    rewards = score_episode(episode, StepRewardConfig()).step_rewards
    assert facts.repeats_width == sum(reward.c_width for reward in rewards)
    assert facts.repeats_depth == sum(count > 0 for reward in rewards for count in reward.c_depth.values())


def test_success_against_turns_has_a_point_per_method_with_both_intervals(sweep: Path) -> None:
    made = picture("turns", sweep)
    [plane] = made.panels
    assert isinstance(plane, Scatter)
    assert [mark.name for mark in plane.marks] == ["cold start only", "DPEPO, K = 1", "DPEPO, K = 4"]
    assert plane.key == (("K = 1", 0), ("K = 4", 1))
    best = plane.marks[2]
    episodes = [play(4, skill=0.5, seed=seed) for seed in (0, 1)]
    assert best.y.each == tuple(fmean(one.success for one in some) for some in episodes)
    assert best.x.value == pytest.approx(fmean(fmean(len(one.turns) for one in some) for some in episodes))
    for part in ("n = 20 episodes per point and seed", "the values of two seeds", f"Source: {sweep}"):
        assert part in made.caption


def test_copies_joins_what_was_trained_at_each_k_and_shows_pass_at_k_of_one_copy_beside_it(sweep: Path) -> None:
    made = picture("copies", sweep)
    parallel, single = lines_of(made)
    assert (parallel.name, single.name) == ("DPEPO: K copies", "DPEPO: one copy, best of K tries")
    assert [point.x for point in parallel.points] == [1, 4]  # the cold start is another agent
    assert [point.x for point in single.points] == [1, 2]  # two tries a task were played
    assert single.dashed and single.points[0].y == parallel.points[0].y
    tokens, tries = lines_of(made, 1)
    assert tries.points[1].y == pytest.approx(2 * tokens.points[0].y)
    assert "pass@K" in made.caption


def test_copies_joins_runs_of_one_name_and_untrained_agents(tmp_path: Path) -> None:
    one, four = eval_run(tmp_path / "a", play(1, skill=0.5), "env.num_envs=1"), eval_run(tmp_path / "b", play(4, skill=0.5))
    made = make_picture("copies", find_material([f"ours={one}", f"ours={four}"]), Options())
    assert [line.name for line in lines_of(made)] == ["ours: K copies", "ours: one copy, best of K tries"]
    with pytest.raises(NothingToShow, match="two numbers of copies"):
        picture("copies", four)


def test_diversity_has_the_shares_of_every_method(tmp_path: Path) -> None:
    episodes = play(4, skill=0.5)
    made = picture("diversity", eval_run(tmp_path / "run", episodes))
    [rows] = made.panels
    assert isinstance(rows, Rows)
    facts = [episode_facts(episode) for episode in episodes]
    actions, _, explored, length = rows.columns
    assert [dots.name for dots in actions.dots] == ["in width", "in depth"]
    width, distinct, turns = (one.values[0] for one in (actions.dots[0], explored.dots[0], length.dots[0]))
    assert width is not None and width.value == pytest.approx(fmean(f.repeats_width / f.num_actions for f in facts))
    assert distinct is not None and distinct.value == pytest.approx(fmean(f.distinct / f.num_actions for f in facts))
    assert turns is not None and turns.value == pytest.approx(fmean(f.turns for f in facts))


def test_parallel_actions_are_means_over_the_episodes_that_reached_the_turn(tmp_path: Path) -> None:
    episodes = play(4, skill=0.5)
    [line] = lines_of(picture("parallel", eval_run(tmp_path / "run", episodes)))
    second = [len(episode.turns[1].steps) for episode in episodes if len(episode.turns) > 1]
    assert line.points[1].y == pytest.approx(fmean(second))


def test_many_methods_get_a_panel_each_with_the_others_in_grey(tmp_path: Path) -> None:
    runs = [eval_run(tmp_path / f"run-{number}", play(2, skill=0.5)) for number in range(7)]
    made = picture("parallel", *runs)
    assert len(made.panels) == 7
    own = [line for line in lines_of(made, 3) if not line.context]
    assert len(own) == 1 and len(lines_of(made, 3)) == 7


def test_time_sums_stages_and_the_parts_of_a_step_make_up_the_step(demo: Path) -> None:
    made = picture("time", demo)
    total, step = made.panels
    assert isinstance(total, Stacks) and isinstance(step, Stacks)
    assert total.parts[0].name == "demonstrations"
    assert {part.name: part.values for part in step.parts} == {
        "RL: sampling": (2.0,),
        "RL: environments": (1.0,),
        "RL: rest of the rollout": (0.5,),
        "RL: update": (4.0,),
    }


def test_prompts_are_built_again_under_both_memories(tmp_path: Path) -> None:
    episodes = play(4, skill=0.2)
    run = eval_run(tmp_path / "run", episodes)
    made = picture("prompts", run)
    shapes, _ = made.panels
    assert isinstance(shapes, Histogram)
    compact, full = shapes.amounts
    assert len(compact.values) == len(full.values) == sum(len(episode.turns) for episode in episodes)
    assert sum(compact.values) < sum(full.values)
    assert shapes.x.label == "prompt length in words"
    same = picture("prompts", run, templates="compact")
    assert "memory changes nothing" in same.caption


def test_prompt_lengths_are_in_tokens_where_a_tokenizer_is_named(tmp_path: Path) -> None:
    made = picture(
        "prompts", eval_run(tmp_path / "run", play(2, skill=0.2, tasks=2)), tokenizer="builtin:search-base", episodes=2
    )
    shapes, _ = made.panels
    assert isinstance(shapes, Histogram) and shapes.x.label == "prompt length in tokens"
    assert "2 episodes" in made.caption and "tokens of builtin:search-base" in made.caption


def test_size_counts_parameters_from_the_headers_of_weight_files(tmp_path: Path) -> None:
    def model(name: str, width: int) -> Path:
        folder = tmp_path / name
        folder.mkdir()
        header = json.dumps({"__metadata__": {}, "a": {"shape": [width, 3]}, "b": {"shape": [2]}}).encode()
        (folder / "model.safetensors").write_bytes(len(header).to_bytes(8, "little") + header)
        (folder / "config.json").write_text("{}")
        return folder

    small, large = model("small", 10), model("large", 100)
    assert count_parameters(small) == 32
    runs = [eval_run(tmp_path / f"run-{folder.name}", play(4, skill=0.4), f"model.path={folder}") for folder in (small, large)]
    [line] = lines_of(picture("size", *runs))
    assert [point.x for point in line.points] == [32, 302]
    with pytest.raises(NothingToShow, match="one size, 32 parameters"):
        picture("size", runs[0])
    with pytest.raises(NothingToShow, match="random is no model"):
        picture("size", eval_run(tmp_path / "random", play(4, skill=0.4), "eval.policy=random"))


def test_learning_curves_are_means_over_seeds_with_their_range_or_t_interval(tmp_path: Path) -> None:
    runs = [
        train_run(tmp_path / f"{seed}" / "dpepo", learning_rows([v, v + 0.2]), f"seed={seed}")
        for seed, v in enumerate((0.1, 0.2, 0.6))
    ]
    [line] = lines_of(picture("learning", *runs, smooth=1))
    first, second = line.points
    assert (first.x, first.y, first.low, first.high) == pytest.approx((1, 0.3, 0.1, 0.6))
    assert (second.x, second.y, second.low, second.high) == pytest.approx((2, 0.5, 0.3, 0.8))
    made = picture("learning", *runs, smooth=2, band=Band.T)
    [line] = lines_of(made)
    assert (line.points[0].x, line.points[0].low) == (1.5, 0.0)  # rates do not go below 0
    assert "3 seeds per method" in made.caption and "95 % t-interval" in made.caption and "up to 2 steps" in made.caption


def test_a_metric_that_was_not_recorded_gets_the_closest_name(tmp_path: Path) -> None:
    run = train_run(tmp_path / "run", learning_rows([0.5]))
    with pytest.raises(NothingToShow, match="Did you mean 'episode/success_rate'"):
        picture("learning", run, metric="episode/sucess_rate")
    with pytest.raises(NothingToShow, match="no training is recorded"):
        picture("learning", eval_run(tmp_path / "eval", play(1, skill=0.1)))


def test_an_unknown_picture_gets_the_closest_name(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="Did you mean 'turns'"):
        picture("turn", eval_run(tmp_path / "run", play(1, skill=0.1)))


@pytest.mark.parametrize("kind", ["turns", "diversity", "parallel", "prompts", "time"])
def test_one_episode_without_success_is_shown_for_what_it_is(kind: str, tmp_path: Path) -> None:
    made = picture(kind, eval_run(tmp_path / "run", play(2, skill=-1.0, tasks=1, tries=1)))
    assert made.caption
    if kind == "turns":
        assert "No episode was solved." in made.caption and "n = 1 episodes" in made.caption


def test_every_kind_says_what_it_shows() -> None:
    assert all(kind.shows for kind in KINDS.values())
