"""Made-up search problems: fair, varied, and played by a teacher that copies from what it sees."""

from __future__ import annotations

import random
from collections import Counter

from dpepo.demo.base import ROOMS
from dpepo.demo.search import MAX_TURNS, NUM_ENVS, Problem, draw_problem, play_problem
from dpepo.protocol import parse_reply
from dpepo.rollout import latest_observations

NAMES = tuple(f"thing {letter}" for letter in "abcdefghijklmnop")


def problems(count: int) -> list[tuple[Problem, random.Random]]:
    drawn = []
    for seed in range(count):
        rng = random.Random(seed)
        drawn.append((draw_problem(rng, names=NAMES, rooms=ROOMS), rng))
    return drawn


def test_every_problem_can_be_solved_where_its_goal_says() -> None:
    kinds: Counter[bool] = Counter()
    for problem, _ in problems(200):
        assert problem.winner in problem.contents[problem.room]
        assert f"'{problem.room}' location" in problem.goal
        assert problem.wanted in ("", problem.winner)
        assert (problem.winner in problem.goal) is bool(problem.wanted)  # a life-span goal gives nothing away
        kinds[bool(problem.wanted)] += 1
    assert min(kinds.values()) > 60


def test_the_same_randomness_plays_the_same_problem() -> None:
    def played(seed: int) -> list[str]:
        rng = random.Random(seed)
        return [reply for _, reply in play_problem(draw_problem(rng, names=NAMES, rooms=ROOMS), rng, rooms=ROOMS)]

    assert [played(seed) for seed in range(20)] == [played(seed) for seed in range(20)]
    assert len({str(played(seed)) for seed in range(20)}) > 15


def test_the_teacher_names_only_what_it_can_see_and_never_an_ended_copy() -> None:
    copies: Counter[int] = Counter()
    for problem, rng in problems(200):
        turns = list(play_problem(problem, rng, rooms=ROOMS))
        assert 1 <= len(turns) <= MAX_TURNS
        assert turns[0][0].num_envs is not None
        copies[turns[0][0].num_envs] += 1
        for number, (view, reply) in enumerate(turns):
            said = parse_reply(reply, num_envs=view.num_envs)
            assert said.problems == () and len(view.turns) == number
            latest = latest_observations(view)
            assert set(said.actions) == {env for env, seen in latest.items() if not seen.ended}
            for env, action in said.actions.items():
                if action.startswith("focus on "):
                    assert action.removeprefix("focus on ") in latest[env].text
                else:
                    assert action == f"teleport to {problem.room}"
    assert set(copies) == set(NUM_ENVS)


def test_an_answer_ends_its_copy_and_success_ends_the_problem() -> None:
    wins = 0
    for problem, rng in problems(200):
        for view, _ in play_problem(problem, rng, rooms=ROOMS):
            steps = [step for turn in view.turns for step in turn]
            assert not any(step.observation.success for step in steps)  # nothing is asked after a success
            for step in steps:
                focused = step.action.startswith("focus on") and step.observation.valid
                assert step.observation.ended is focused
            wins += 1
    assert wins > 200
