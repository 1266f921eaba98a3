"""What the demo says about its numbers."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.support.sample_episodes import lifespan_episode

from dpepo.config import Config
from dpepo.demo.story import curve
from dpepo.demo.worlds import DEMOS, blind_levels, teacher_levels
from dpepo.runs.metrics import MetricsRow
from dpepo.runs.rundir import RunFolder
from dpepo.types import Episode, Observation, ParsedReply, Step


def row(step: int, **values: float) -> MetricsRow:
    return MetricsRow("rl", step, 0.0, {name.replace("__", "/"): value for name, value in values.items()})


def test_the_curve_holds_every_measurement_and_means_of_the_training_steps() -> None:
    rows = [row(0, val__success_rate=0.25, val__n=8)]
    rows += [row(step, episode__success_rate=0.1 * (step % 2)) for step in range(1, 13)]
    rows += [MetricsRow("sft", 1, 0.0, {"episode/success_rate": 1.0}), row(13, val__n=0)]
    points = list(curve(rows, num_envs=4, tasks="dev games"))
    measured = [point for point in points if point.series == "dev games, K = 4"]
    assert [(point.step, point.value, point.n) for point in measured] == [(0, 0.25, 8)]  # nothing where nothing was measured
    trained = [point for point in points if point not in measured]
    assert [point.step for point in trained] == [10, 12]
    assert trained[0].value == pytest.approx(0.05)


def test_blind_levels_come_from_what_the_episodes_really_showed(tmp_path: Path) -> None:
    run = RunFolder.create(tmp_path / "r", config=Config(), job="demo")
    run.write_episodes("eval-rl-test-k1-t1", 0, [listing(0, things=5), listing(1, things=10)])
    levels = {reference.label: reference.value for reference in blind_levels(run)}
    assert levels["K = 1, blind choice among all listed things"] == pytest.approx((1 / 5 + 1 / 10) / 2)
    expected = ((1 - 0.8**4) + (1 - 0.9**4)) / 2
    assert levels["4 independent blind choices among all listed things"] == pytest.approx(expected)
    assert levels["K = 1, blind choice among the three animals"] == pytest.approx(1 / 3)


def listing(number: int, *, things: int) -> Episode:
    names = tuple(f"thing {n}" for n in range(things))
    seen = Observation(text=f"at outside : {' , '.join(names)}", objects=names)
    episode = lifespan_episode(number, skill=0.5, num_envs=1, seed=0)
    turn = episode.turns[0].model_copy(
        update={
            "steps": (Step(env_id=1, action="teleport to outside", observation=seen),),
            "reply": ParsedReply(thought="", actions={1: "teleport to outside"}),
        }
    )
    task = episode.task.model_copy(update={"id": f"scienceworld/lifespan-longest-lived/{number}"})
    return episode.model_copy(update={"task": task, "turns": (turn,)})


def test_without_a_list_only_the_three_animals_are_a_level(tmp_path: Path) -> None:
    run = RunFolder.create(tmp_path / "r", config=Config(), job="demo")
    assert [reference.label for reference in blind_levels(run)] == [
        "K = 1, blind choice among the three animals",
        "4 independent blind choices among the three animals",
    ]


def test_the_teachers_share_of_successes_is_a_level_for_every_number_of_copies(tmp_path: Path) -> None:
    run = RunFolder.create(tmp_path / "r", config=Config(), job="demo")
    run.metrics.log("synth", 1, {"played": 40, "succeeded": 10})
    run.metrics.log("synth", 4, {"played": 40, "succeeded": 30})
    assert [(level.label.rpartition(", ")[2], level.value) for level in teacher_levels(run)] == [
        ("K = 1", 0.25),
        ("K = 4", 0.75),
    ]


def test_the_notes_are_sentences_for_people() -> None:
    assert all(note.endswith(".") and "<" not in note for demo in DEMOS.values() for note in demo.notes)
