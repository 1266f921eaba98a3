"""Generated games: the same everywhere, always solvable, in rooms and words of the real ones."""

from __future__ import annotations

import json
import os
import re
import statistics
import subprocess
import sys
from collections import defaultdict
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from pathlib import Path

import pytest
from tests.support.alfworld_games import StockPlayer, real_games, write_game

from dpepo.envs.alfworld import rooms
from dpepo.envs.alfworld.engine import LoadedGame
from dpepo.envs.alfworld.expert import expert_actions
from dpepo.envs.alfworld.games import TASK_TYPES, Game, Wording, read_game
from dpepo.envs.alfworld.generate import draw_layout, generate_game
from dpepo.envs.alfworld.generated import SPLITS, generated_game, generated_tasks
from dpepo.envs.alfworld.index import list_games
from dpepo.envs.alfworld.problem import SENTENCES, pddl_name
from dpepo.envs.alfworld.rooms import UNSEEN_ROOMS, all_rooms, seen_rooms
from dpepo.errors import TaskError

DIGEST = "1a5e5cfe5bd6c779"
"""Of six games. Where it changes, task ids name other games than in runs recorded before: the changelog has to say so."""

PRINT_DIGEST = """
import hashlib
from dpepo.envs.alfworld.games import TASK_TYPES
from dpepo.envs.alfworld.generate import generate_game
games = [generate_game(task_type, seed=number) for number, task_type in enumerate(TASK_TYPES)]
print(hashlib.sha256("".join(game.problem + game.sentence for game in games).encode()).hexdigest()[:16])
"""


@pytest.fixture(scope="session")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return real_games(tmp_path_factory.mktemp("alfworld"))


def room_of(game: Game) -> int:
    """The floor plan, by its receptacles."""
    names = set(re.findall(r"^ +(\w+) - receptacle", game.problem, re.MULTILINE))
    [number] = [room.number for room in all_rooms().values() if names == {pddl_name(r.name) for r in room.receptacles}]
    return number


def assert_wins(game: Game) -> None:
    loaded = LoadedGame(game)
    actions = expert_actions(loaded)
    assert actions
    node = loaded.start
    for action in actions:
        assert not node.won
        node, _, understood = loaded.step(node, action)
        assert understood
    assert node.won


@pytest.mark.parametrize("hash_seed", ["0", "77"])
def test_a_seed_gives_the_same_game_in_every_process(hash_seed: str) -> None:
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
    shown = subprocess.run([sys.executable, "-c", PRINT_DIGEST], env=environment, capture_output=True, text=True, check=True)
    assert shown.stdout.strip() == DIGEST


def test_generating_needs_no_package_of_alfworld_or_textworld() -> None:
    program = (
        PRINT_DIGEST
        + "import sys\nprint([name for name in ('alfworld', 'textworld', 'numpy', 'torch') if name in sys.modules])"
    )
    shown = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert shown.stdout.splitlines()[1] == "[]"


def test_other_seeds_types_and_rooms_give_other_games() -> None:
    games = [generate_game(task_type, seed=seed).problem for task_type in TASK_TYPES for seed in range(10)]
    games += [generate_game(TASK_TYPES[0], seed=seed, rooms=UNSEEN_ROOMS).problem for seed in range(10)]
    assert len(set(games)) == len(games)


@pytest.mark.parametrize("task_type", TASK_TYPES)
def test_every_game_can_be_won_and_is_not_won_at_the_start(task_type: str) -> None:
    for seed in range(60):
        game = generate_game(task_type, seed=seed, rooms=UNSEEN_ROOMS if seed % 6 == 0 else None)
        assert_wins(game)


@pytest.mark.slow
@pytest.mark.parametrize("split", SPLITS)
def test_every_game_of_a_split_can_be_won(split: str) -> None:
    for task in generated_tasks(split)[:: 6 if split == "generated_train" else 1]:
        assert_wins(generated_game(task.id))


def test_the_package_of_alfworld_wins_a_game_in_an_unseen_room_with_the_experts_actions(tmp_path: Path) -> None:
    game = generate_game("pick_two_obj_and_place", seed=3, rooms=(308,))
    stock = StockPlayer(write_game(game, tmp_path / "game.tw-pddl"))
    for action in expert_actions(LoadedGame(game)) or ():
        assert action in stock.shown.commands
        stock.step(action)
    assert stock.shown.won


@pytest.mark.parametrize("task_type", TASK_TYPES)
def test_first_draws_are_nearly_always_good(task_type: str) -> None:
    draws = [draw_layout(task_type, seed=seed) for seed in range(40)]
    assert sum(layout is None for layout in draws) <= 2


@pytest.mark.parametrize("task_type", TASK_TYPES)
def test_a_game_begins_as_real_ones_do(task_type: str) -> None:
    """In the middle of the room, hands empty, everything that opens closed, no target where it shall go."""
    for seed in range(10):
        game = generate_game(task_type, seed=seed)
        loaded = LoadedGame(game)
        assert "You are in the middle of a room." in loaded.intro
        assert loaded.intro.endswith(f"Your task is to: {game.sentence}")
        assert loaded.start.state.held == ""
        assert not any(flag == "opened" for flag, _ in loaded.start.state.marks)
        [goal] = [layout.goal for layout in [draw_layout(task_type, seed=seed)] if layout]
        words = {"target": goal.target.lower(), "place": goal.place.lower()}
        assert game.sentence in [template.format(**words) for template in SENTENCES[task_type]]
        if task_type in ("pick_and_place_simple", "pick_two_obj_and_place"):
            homes = {
                loaded.receptacle_types[r] for o, r in loaded.start.state.inside if loaded.types[o] == f"{words['target']}type"
            }
            assert f"{words['place']}type" not in homes


def test_things_are_named_and_numbered_as_in_real_games() -> None:
    position = r"_bar_((_minus_|_plus_)\d\d_dot_\d\d|00_dot_00)" * 3
    for seed in range(5):
        game = generate_game("pick_clean_then_place_in_recep", seed=seed)
        for name in re.findall(r"^ +(\w+) - (?:object|receptacle)$", game.problem, re.MULTILINE):
            assert re.fullmatch(rf"[A-Za-z]+{position}(_bar_(Sink|Bathtub)Basin)?", name), name
        for place in re.findall(r"^ +(\w+) - location$", game.problem, re.MULTILINE):
            assert re.fullmatch(r"loc(_bar_(_minus_)?\d+){4}", place), place
        numbers: dict[str, list[int]] = defaultdict(list)
        for name in LoadedGame(game).names.values():
            kind, _, number = name.rpartition(" ")
            if number:
                numbers[kind].append(int(number))
        for own in numbers.values():
            assert sorted(own) == list(range(1, len(own) + 1))


def test_no_game_is_in_two_splits_and_test_rooms_are_unseen_in_training() -> None:
    problems: dict[str, set[str]] = {}
    played: dict[str, set[int]] = {}
    for split in SPLITS:
        games = [generated_game(task.id) for task in generated_tasks(split)[::25]]
        problems[split] = {game.problem for game in games}
        played[split] = {room_of(game) for game in games}
        assert len(problems[split]) == len(games)
    assert played["generated_test"] <= set(UNSEEN_ROOMS)
    assert not (played["generated_train"] | played["generated_dev"]) & set(UNSEEN_ROOMS)
    assert not problems["generated_train"] & problems["generated_dev"]


def test_there_are_120_rooms_and_the_unseen_ones_are_those_of_no_real_game(root: Path) -> None:
    assert list(all_rooms()) == [*range(1, 31), *range(201, 231), *range(301, 331), *range(401, 431)]
    assert len(seen_rooms()) == 108
    played = {int(task_id.split("/")[2].rpartition("-")[2]) for task_id in list_games(root, "valid_seen")}
    assert not played & set(UNSEEN_ROOMS)


def test_a_real_game_has_the_receptacles_of_its_room_where_the_room_has_them(root: Path) -> None:
    for task_id in list_games(root, "valid_seen")[::3]:
        _, split, name, trial = task_id.split("/")
        facts = LoadedGame(read_game(root / "json_2.1.1" / split / name / trial / "game.tw-pddl")).problem.facts
        room = all_rooms()[int(name.rpartition("-")[2])]
        places = {(pddl_name(r.name).lower(), pddl_name(f"loc|{r.place}").lower()) for r in room.receptacles}
        assert facts["receptacleatlocation"] == places
        assert facts.get("openable", set()) == {(pddl_name(r.name).lower(),) for r in room.receptacles if r.openable}


def test_generated_games_are_as_large_as_real_ones(root: Path) -> None:
    """Per task type, means of what a player reads; the full comparison is benchmarks/alfworld_distributions.py."""
    real: dict[str, list[LoadedGame]] = defaultdict(list)
    for task_id in list_games(root, "valid_seen"):
        _, split, name, trial = task_id.split("/")
        game = read_game(root / "json_2.1.1" / split / name / trial / "game.tw-pddl")
        real[game.task_type].append(LoadedGame(game, wording=Wording.V2_1_2))
    for task_type, games in real.items():
        made = [LoadedGame(generate_game(task_type, seed=seed)) for seed in range(60)]
        for measure in (
            lambda g: len(g.places),
            lambda g: len({o for o, _ in g.start.state.inside}),
            lambda g: len(g.intro.split()),
        ):
            ours, theirs = (statistics.fmean(map(measure, side)) for side in (made, games))
            assert ours == pytest.approx(theirs, rel=0.35), task_type


def test_what_holds_what_and_what_can_be_done_is_what_the_package_says() -> None:
    specification = find_spec("alfworld")
    if specification is None or not specification.submodule_search_locations:
        pytest.skip("the package alfworld is not installed")
    path = Path(specification.submodule_search_locations[0]) / "gen" / "constants.py"
    found = spec_from_file_location("alfworld_constants", path)
    assert found is not None and found.loader is not None
    constants = module_from_spec(found)
    found.loader.exec_module(constants)
    known = rooms.statistics()
    assert {n for n in known.containers} == set(constants.MOVABLE_RECEPTACLES)
    for kind, held in known.can_hold.items():
        assert held == constants.VAL_RECEPTACLE_OBJECTS[kind] & (set(known.movable) | held)
    for name, suited in known.properties.items():
        assert suited <= constants.VAL_ACTION_OBJECTS[name.capitalize()]
        assert suited >= constants.VAL_ACTION_OBJECTS[name.capitalize()] & set(known.movable)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"task_type": "pick_and_place"}, "pick_and_place_simple"),
        ({"task_type": "pick_and_place_simple", "rooms": (31,)}, "no floor plan 31"),
        ({"task_type": "pick_heat_then_place_in_recep", "rooms": (401,)}, "can hold a game"),
        ({"task_type": "pick_heat_then_place_in_recep", "rooms": ()}, "can hold a game"),
    ],
)
def test_what_cannot_be_generated_is_a_wrong_request(arguments: dict[str, object], says: str) -> None:
    with pytest.raises(TaskError, match=says):
        generate_game(seed=0, **arguments)  # type: ignore[arg-type]


def test_the_data_are_one_readable_file_of_bounded_size() -> None:
    path = Path(rooms.__file__).with_name("rooms.json")
    assert path.stat().st_size < 300_000
    assert json.loads(path.read_text(encoding="utf-8"))["note"].startswith("by benchmarks/alfworld_rooms.py")
