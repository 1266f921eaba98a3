"""The expert: from any state to the goal, in few actions, in the wording played."""

from __future__ import annotations

import random
from collections import deque

import pytest

from dpepo.envs.alfworld.engine import LoadedGame, Node
from dpepo.envs.alfworld.expert import expert_actions
from dpepo.envs.alfworld.games import TASK_TYPES, Wording
from dpepo.envs.alfworld.generate import generate_game


def wander(game: LoadedGame, *, seed: int, steps: int) -> Node:
    rng, node = random.Random(seed), game.start
    for _ in range(steps):
        if node.won:
            break
        lively = [
            c for c in game.admissible(node) if c.startswith(("take", "open", "move", "put", "heat", "cool", "clean", "use"))
        ]
        node, _, _ = game.step(node, rng.choice(lively if lively and rng.random() < 0.7 else game.admissible(node)))
    return node


def fits_anywhere(game: LoadedGame, thing: str) -> bool:
    kinds = {game.receptacle_types[receptacle] for receptacle in game.places}
    return any((kind, game.types[thing]) in game.problem.facts["cancontain"] for kind in kinds)


@pytest.mark.parametrize("wording", list(Wording))
@pytest.mark.parametrize("task_type", TASK_TYPES)
def test_it_wins_from_wherever_a_player_has_got_to(task_type: str, wording: Wording) -> None:
    for seed in range(8):
        game = LoadedGame(generate_game(task_type, seed=seed), wording=wording)
        node = wander(game, seed=seed, steps=40)
        actions = expert_actions(game, node)
        if actions is None:  # only with something in hand that no place of the room takes, such as a roll of paper towels
            assert node.state.held and not fits_anywhere(game, node.state.held)
            continue
        for action in actions:
            node, _, understood = game.step(node, action)
            assert understood
        assert node.won


def test_it_has_nothing_to_do_where_the_goal_is_reached() -> None:
    game = LoadedGame(generate_game(TASK_TYPES[0], seed=0))
    node = game.start
    for action in expert_actions(game) or ():
        node, _, _ = game.step(node, action)
    assert expert_actions(game, node) == []


def test_it_says_when_a_goal_cannot_be_reached() -> None:
    game = generate_game("pick_heat_then_place_in_recep", seed=0)
    nowhere = "\n".join(line for line in game.problem.splitlines() if not line.strip().startswith("(heatable"))
    assert expert_actions(LoadedGame(game.model_copy(update={"problem": nowhere}))) is None


def test_no_shorter_way_exists_in_games_small_enough_to_search() -> None:
    """Breadth-first search over everything that changes the state, up to the expert's length."""
    searched = 0
    for seed in range(40):
        game = LoadedGame(generate_game("look_at_obj_in_light", seed=seed))
        actions = expert_actions(game)
        assert actions is not None
        if len(actions) <= 4 and len(game.places) <= 12:
            assert shortest(game, at_most=len(actions)) == len(actions)
            searched += 1
    assert searched >= 3


def shortest(game: LoadedGame, *, at_most: int) -> int | None:
    seen, queue = {game.start.state}, deque([(game.start, 0)])
    while queue:
        node, depth = queue.popleft()
        if node.won:
            return depth
        if depth == at_most:
            continue
        for command in game.admissible(node):
            if command.startswith(("go", "open", "take", "use")):
                after, _, _ = game.step(node, command)
                if after.state not in seen:
                    seen.add(after.state)
                    queue.append((after, depth + 1))
    return None


def test_it_puts_down_what_is_in_the_way_and_treats_only_what_is_not_treated() -> None:
    game = LoadedGame(generate_game("pick_cool_then_place_in_recep", seed=2))
    plan = expert_actions(game)
    assert plan is not None
    cooled = next(number for number, action in enumerate(plan) if action.startswith("cool "))
    node = game.start
    for action in plan[: cooled + 1]:
        node, _, _ = game.step(node, action)
    rest = expert_actions(game, node)
    assert rest == plan[cooled + 1 :]
