"""The engine against the package's own player, byte by byte; and what it promises beyond that."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import pytest
from tests.support.alfworld_games import StockPlayer, differences, patched, real_games, write_game

from dpepo.envs.alfworld.engine import NOTHING_HAPPENS, LoadedGame
from dpepo.envs.alfworld.expert import expert_actions
from dpepo.envs.alfworld.games import TASK_TYPES, Wording, read_game
from dpepo.envs.alfworld.generate import generate_game
from dpepo.envs.alfworld.pddl import PddlError, parse_problem
from dpepo.errors import TaskError


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return real_games(tmp_path_factory.mktemp("alfworld"))


def by_type(root: Path) -> dict[str, list[Path]]:
    games: dict[str, list[Path]] = defaultdict(list)
    for path in sorted((root / "json_2.1.1" / "valid_seen").glob("*/*/game.tw-pddl")):
        games[path.parts[-3].partition("-")[0]].append(path)
    return games


@pytest.mark.parametrize(
    "task_type", ["look_at_obj_in_light", "pick_two_obj_and_place"]
)  # bedrooms: the package is quick there
def test_a_real_game_plays_as_in_the_package_byte_for_byte(root: Path, task_type: str) -> None:
    path = min(by_type(root)[task_type], key=lambda path: path.stat().st_size)
    assert differences(path, seed=0, steps=12) == []


@pytest.mark.slow
@pytest.mark.parametrize("task_type", TASK_TYPES)
def test_many_real_games_play_as_in_the_package(root: Path, task_type: str) -> None:
    for path in random.Random(1).sample(by_type(root)[task_type], 10):
        assert differences(path, seed=1, steps=40) == []


@pytest.mark.slow
@pytest.mark.parametrize("task_type", TASK_TYPES)
def test_real_games_play_as_in_the_package_in_the_later_wording_too(root: Path, tmp_path: Path, task_type: str) -> None:
    for number, path in enumerate(random.Random(2).sample(by_type(root)[task_type], 3)):
        game = read_game(path)
        later = write_game(game, tmp_path / f"trial_{number}" / "game.tw-pddl")
        assert differences(later, seed=2, steps=30) == []
        ours, theirs = LoadedGame(game, wording=Wording.V2_1_2), LoadedGame(read_game(later))
        assert ours.intro == theirs.intro and ours.admissible(ours.start) == theirs.admissible(theirs.start)


@pytest.mark.parametrize(
    "task_type",
    [
        "look_at_obj_in_light",
        *(pytest.param(other, marks=pytest.mark.slow) for other in TASK_TYPES if other != "look_at_obj_in_light"),
    ],
)
def test_a_generated_game_plays_in_the_package_as_it_does_here(tmp_path: Path, task_type: str) -> None:
    path = write_game(generate_game(task_type, seed=5), tmp_path / task_type / "trial" / "game.tw-pddl")
    assert differences(path, seed=0, steps=12) == []


def test_a_file_of_release_2_1_2_plays_as_in_the_package(root: Path, tmp_path: Path) -> None:
    first = min(by_type(root)["look_at_obj_in_light"], key=lambda path: path.stat().st_size)
    path = patched(first, tmp_path / "trial" / "game.tw-pddl")
    stock, game = StockPlayer(path, alone=True), LoadedGame(read_game(path))
    assert game.wording is Wording.V2_1_2
    node = game.start
    for command in ("help", game.admissible(node)[1], "help", "look"):
        shown = stock.step(command)
        node, text, _ = game.step(node, command)
        assert (text, list(game.admissible(node))) == (shown.text, shown.commands)


def test_rules_that_differ_in_nothing_that_is_played_are_known(tmp_path: Path) -> None:
    path = write_game(generate_game("pick_and_place_simple", seed=0), tmp_path / "game.tw-pddl")
    parts = json.loads(path.read_text())
    domain = parts["pddl_domain"].replace(";(receptacleType ?r SinkType)", "(receptacleType ?r SinkType)")
    path.write_text(json.dumps({**parts, "pddl_domain": f"; of another release\n{domain}"}))
    assert domain != parts["pddl_domain"] and read_game(path).wording is Wording.V2_1_2


def test_an_action_in_the_other_wording_does_nothing_and_counts_as_invalid(root: Path) -> None:
    """Case E01."""
    path = by_type(root)["pick_and_place_simple"][0]
    for wording, ours, theirs in ((None, "put", "move"), (Wording.V2_1_2, "move", "put")):
        game = LoadedGame(read_game(path), wording=wording)
        plan = expert_actions(game)
        assert plan is not None and plan[-1].startswith(ours)
        node = game.start
        for command in plan[:-1]:
            node, _, valid = game.step(node, command)
            assert valid
        _, thing, place = (plan[-1].replace(" in/on ", "|").replace(" to ", "|").replace(f"{ours} ", "|", 1)).split("|")
        other = f"move {thing} to {place}" if theirs == "move" else f"put {thing} in/on {place}"
        assert plan[-1] in game.admissible(node) and other not in game.admissible(node)
        assert game.step(node, other) == (node, NOTHING_HAPPENS, False)
        assert game.step(node, plan[-1])[0].won


def test_going_where_one_stands_does_nothing_as_in_the_package(root: Path) -> None:
    """Case E03, in the real world: the place of a receptacle may be that of another."""
    game = LoadedGame(read_game(by_type(root)["pick_and_place_simple"][0]))
    command = next(command for command in game.admissible(game.start) if command.startswith("go to"))
    node, _, _ = game.step(game.start, command)
    assert game.step(node, command) == (node, NOTHING_HAPPENS, False)


def test_the_expert_solves_every_seen_game(root: Path) -> None:
    for paths in by_type(root).values():
        for path in paths:
            game = LoadedGame(read_game(path))
            plan = expert_actions(game)
            assert plan, path
            node = game.start
            for command in plan:
                node, _, _ = game.step(node, command)
            assert node.won


def test_copies_share_all_work_and_forgetting_changes_nothing() -> None:
    game = generate_game("pick_two_obj_and_place", seed=1)
    roomy, tight = LoadedGame(game), LoadedGame(game, max_states=3)
    rng = random.Random(0)
    first, second = roomy.start, tight.start
    for _ in range(200):
        command = rng.choice(roomy.admissible(first))
        first, text, _ = roomy.step(first, command)
        second, other, _ = tight.step(second, command)
        assert (text, first.code, roomy.admissible(first)) == (other, second.code, tight.admissible(second))
    again = roomy.start
    for command in ("look", "inventory"):
        assert roomy.step(again, command)[0] is again


def test_a_fingerprint_is_the_same_in_another_process_and_differs_between_states() -> None:
    code = (
        "from dpepo.envs.alfworld.engine import LoadedGame\n"
        "from dpepo.envs.alfworld.generate import generate_game\n"
        "game = LoadedGame(generate_game('pick_and_place_simple', seed=3)); node = game.start\n"
        "codes = [node.code]\n"
        "for command in game.admissible(node)[1:4]:\n"
        "    codes.append(game.step(node, command)[0].code)\n"
        "print(codes)"
    )
    runs = {
        subprocess.run(
            [sys.executable, "-c", code], env={"PYTHONHASHSEED": seed}, capture_output=True, text=True, check=True
        ).stdout
        for seed in ("0", "1")
    }
    [codes] = runs
    assert len(set(codes.strip("[]\n").split(", "))) >= 2


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"pddl_domain": "(define (domain other))"}, "neither those of ALFWorld"),
        ({"pddl_domain": "(define"}, "neither those of ALFWorld"),
        ({"grammar": "no task"}, "states no task"),
        ({"solvable": False}, "cannot be solved"),
        ({"pddl_problem": 7}, "are no texts"),
    ],
)
def test_a_game_that_would_be_played_wrongly_is_refused(tmp_path: Path, change: dict[str, object], says: str) -> None:
    path = write_game(generate_game("pick_and_place_simple", seed=0), tmp_path / "game.tw-pddl")
    path.write_text(json.dumps({**json.loads(path.read_text()), **change}))
    with pytest.raises(TaskError, match=says):
        read_game(path)


@pytest.mark.parametrize(
    ("part", "old", "new"),
    [
        ("pddl_domain", "(not (holdsAny ?a))  ; agent's hands are empty.\n            ;", ";"),
        ("pddl_domain", "(:action help", "(:action assist"),
        ("grammar", "You open the {r.name}.", "You pull the {r.name} open."),
        ("grammar", "clean {o} with {r}", "wash {o} in {r}"),
        ("grammar", "holdsany(a:agent)", "checked(a:agent)"),
    ],
)
def test_a_game_with_one_rule_or_sentence_of_its_own_is_refused(tmp_path: Path, part: str, old: str, new: str) -> None:
    path = write_game(generate_game("pick_and_place_simple", seed=0), tmp_path / "game.tw-pddl")
    parts = json.loads(path.read_text())
    assert old in parts[part]
    path.write_text(json.dumps({**parts, part: parts[part].replace(old, new, 1)}))
    with pytest.raises(TaskError, match="would be played wrongly"):
        read_game(path)


@pytest.mark.parametrize("text", ["", "{", "[]", '{"grammar": 1}'])
def test_a_file_that_is_no_game_is_named(tmp_path: Path, text: str) -> None:
    (tmp_path / "game.tw-pddl").write_text(text)
    with pytest.raises(TaskError, match=r"game\.tw-pddl"):
        read_game(tmp_path / "game.tw-pddl")


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("(:init", "(:init (holds agent1 nothing)", "at most one thing in hand"),
        ("(atLocation agent1 ", "(atLocation agent2 ", "one agent, agent1"),
        ("(:init", "(:init (objectType {thing} OtherType)", "objecttype twice"),
        ("(inReceptacle ?o ?r)", "(checked ?r)", "goal about checked"),
        ("(inReceptacle ?o ?r)", "(or (inReceptacle ?o ?r))", "a goal with 'or'"),
        ("(:goal", "(:aim", "no section :goal"),
    ],
)
def test_a_problem_that_the_rules_here_would_play_otherwise_is_refused(old: str, new: str, says: str) -> None:
    game = generate_game("pick_and_place_simple", seed=0)
    thing = min(name for name, _ in parse_problem(game.problem).facts["objecttype"])
    changed = game.model_copy(update={"problem": game.problem.replace(old, new.format(thing=thing) if "{" in new else new)})
    with pytest.raises(PddlError, match=says):
        LoadedGame(changed)


def test_variables_of_one_name_in_two_parts_of_a_goal_are_two() -> None:
    text = "(define (:objects a - object) (:init) (:goal (and (exists (?o - object) (p ?o)) (exists (?o - object) (q ?o)))))"
    first, second = parse_problem(text).goal
    assert first.arguments != second.arguments


def test_states_beyond_the_limit_are_really_forgotten() -> None:
    game = LoadedGame(generate_game("pick_two_obj_and_place", seed=1), max_states=20)
    rng, node = random.Random(0), game.start
    reached: set[int] = set()
    for _ in range(600):
        node, _, _ = game.step(node, rng.choice(game.admissible(node)))
        reached.add(node.code)
    assert len(reached) > 5 * 20 and game.num_states <= 20
    held, waiting = {id(game.start)}, [game.start, node]
    while waiting:
        for other, _ in waiting.pop().edges.values():
            if id(other) not in held:
                held.add(id(other))
                waiting.append(other)
    assert len(held) <= 2 * 20
