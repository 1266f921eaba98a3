from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from dpepo.config import TaskSelection
from dpepo.envs import load_world, make, select_tasks
from dpepo.envs.check import check_world
from dpepo.envs.scienceworld.gateway import JavaDied
from dpepo.envs.scienceworld.guide import templates
from dpepo.envs.scienceworld.simulators import SimulatorError
from dpepo.envs.scienceworld.world import ScienceWorld
from dpepo.errors import ConfigError, TaskError


@pytest.mark.parametrize("mode", ["full", "compact"])
def test_the_world_keeps_the_promises_of_a_world(mode: str, request: pytest.FixtureRequest) -> None:
    world: ScienceWorld = request.getfixturevalue(mode)
    assert check_world(world, ["scienceworld/lifespan-longest-lived/3", "scienceworld/find-plant/7"], steps=8) == []


@pytest.mark.parametrize(
    ("options", "hint"),
    [
        ({"simplification": "easy"}, "Did you mean 'simplifications'"),
        ({"simplifications": "eazy"}, "Did you mean 'easy'"),
        ({"simplifications": "easy,openContainers"}, "preset and stands alone"),
        ({"simplifications": "opendoors"}, "Did you mean 'openDoors'"),
        ({"simplifications": ["easy"]}, "must be text"),
        ({"observation": "short"}, "full, compact"),
        ({"valid_actions": True}, "templates, list, none"),
        ({"max_heap": "512"}, "512m"),
        ({"max_heap": 512}, "512m"),
        ({"max_simulators": 0}, "at least 1"),
        ({"max_results": 1.5}, "whole number"),
    ],
)
def test_a_wrong_option_is_refused_by_name(options: dict[str, Any], hint: str) -> None:
    """F02"""
    with pytest.raises(ConfigError, match=hint):
        load_world("scienceworld", options)


def test_templates_equal_the_package(plain_package: Callable[[list[dict[str, Any]]], Any]) -> None:
    cases = [
        ("boil", "easy"),
        ("test-conductivity", "easy"),
        ("power-component", ""),
        ("boil", ""),
        ("boil", "teleportAction,noElectricalAction"),
        ("boil", "openDoors"),
    ]
    answers = plain_package([{"templates": task, "simplifications": simplifications} for task, simplifications in cases])
    for (task, simplifications), answer in zip(cases, answers, strict=True):
        assert list(templates(simplifications, task_name=task)) == answer, (task, simplifications)


def test_the_guide_explains_every_form_of_action() -> None:
    forms = {item.template: item.help for item in ScienceWorld().guide.action_templates}
    assert set(templates("easy", task_name="boil")) | set(templates("easy", task_name="power-component")) == set(forms)
    assert all(forms.values())
    assert "electricity" in forms["connect OBJ to OBJ"]
    assert "teleport OBJ" not in {item.template for item in ScienceWorld(simplifications="").guide.action_templates}


def test_a_task_that_needs_electricity_is_refused_where_it_is_taken_away() -> None:
    world = ScienceWorld(simplifications="noElectricalAction,openDoors")
    with pytest.raises(TaskError, match="electrical"):
        world.make("scienceworld/power-component/1")


def test_tasks_that_the_simplifications_rule_out_are_named_before_anything_starts() -> None:
    world = ScienceWorld(simplifications="noElectricalAction")
    with pytest.raises(TaskError, match=r"power-component.*test-conductivity.* need electrical actions.*simplifications=easy"):
        select_tasks(world, TaskSelection(split="dev", limit=1), seed=0)
    assert select_tasks(world, TaskSelection(names=("boil",), limit=1), seed=0)


def test_an_unknown_split_names_the_nearest() -> None:
    with pytest.raises(TaskError, match="Did you mean 'train'"):
        ScienceWorld().tasks("trian")


def test_the_expert_reaches_the_goal_and_stops_there(full: ScienceWorld) -> None:
    task_id = "scienceworld/lifespan-shortest-lived/3"
    actions = full.expert(task_id)
    assert actions is not None
    with full.make(task_id) as env:
        seen = [env.reset()] + [env.step(action) for action in actions]
    assert [observation.success for observation in seen] == [False] * len(actions) + [True]
    actions.clear()
    assert full.expert(task_id)  # what a caller does with its list is its own business


@pytest.mark.parametrize("error", [JavaDied("gone"), SimulatorError("odd data")])
def test_a_solver_that_ends_java_means_no_gold_actions_and_no_end_of_the_job(
    full: ScienceWorld, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def fails(key: object) -> list[str]:
        raise error

    monkeypatch.setattr(full.memo, "gold_actions", fails)
    assert full.expert(f"scienceworld/boil/{1 + isinstance(error, JavaDied)}") is None


def test_metadata_names_versions_and_the_rule_of_hashing(full: ScienceWorld) -> None:
    full.make("scienceworld/boil/0").reset()
    facts = full.metadata()
    assert facts["hashing"] == "-XX:hashCode=2"
    assert facts["simplifications"] == "easy"
    assert {"scienceworld", "py4j", "java"} <= set(facts)
    assert ScienceWorld().metadata() == facts  # a run writes it down before Java starts


def test_a_single_environment_by_id_plays_and_ends_its_java() -> None:
    with make("scienceworld/lifespan-longest-lived/3", observation="compact") as env:
        assert env.reset().text.startswith("at ")
        assert env.step("teleport to outside").valid


def test_step_before_reset_is_refused(full: ScienceWorld) -> None:
    with pytest.raises(RuntimeError, match="reset"):
        full.make("scienceworld/boil/0").step("look around")


@pytest.mark.parametrize("action", ["\ud800", "focus on \udfff", "(*[", "🙂" * 300])
def test_text_that_no_simulator_knows_is_answered(full: ScienceWorld, action: str) -> None:
    env = full.make("scienceworld/boil/0")
    env.reset()
    assert not env.step(action).valid
