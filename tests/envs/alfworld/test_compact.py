"""Compact observations of ALFWorld: one line of what the full texts have said."""

from __future__ import annotations

import random

import pytest

from dpepo.envs import load_world
from dpepo.envs.alfworld.compact import UNKNOWN, Notebook
from dpepo.envs.alfworld.games import TASK_TYPES

INTRO = (
    "-= Welcome to TextWorld, ALFRED! =-\n\nYou are in the middle of a room. Looking quickly around you, you see a bed 1, "
    "a drawer 2, a drawer 1, and a shelf 1.\n\nYour task is to: put a mug in shelf."
)


def test_the_first_line_names_one_unseen_place_of_each_kind() -> None:
    assert Notebook(INTRO).line() == "at room : nothing | holding nothing | left : bed 1 , drawer 1 , shelf 1"


def test_what_is_seen_held_and_left_follows_from_the_texts() -> None:
    notebook = Notebook(INTRO)
    for text, line in (
        (
            "You arrive at drawer 1. The drawer 1 is closed.",
            "at drawer 1 : closed | holding nothing | left : bed 1 , drawer 1 , shelf 1",
        ),
        (
            "You open the drawer 1. The drawer 1 is open. In it, you see a mug 1, and a pen 2.",
            "at drawer 1 : mug 1 | holding nothing | left : bed 1 , drawer 2 , shelf 1",
        ),
        (
            "You pick up the mug 1 from the drawer 1.",
            "at drawer 1 : nothing | holding mug 1 | left : bed 1 , drawer 2 , shelf 1",
        ),
        (
            "You heat the mug 1 using the microwave 1.",
            "at drawer 1 : nothing | holding hot mug 1 | left : bed 1 , drawer 2 , shelf 1",
        ),
        (
            "You arrive at shelf 1. On the shelf 1, you see nothing.",
            "at shelf 1 : nothing | holding hot mug 1 | left : bed 1 , drawer 2",
        ),
        ("You move the mug 1 to the shelf 1.", "at shelf 1 : mug 1 | holding nothing | left : bed 1 , drawer 2"),
    ):
        notebook.read(text)
        assert notebook.line() == line


def test_an_action_that_does_nothing_is_said_first_and_changes_nothing() -> None:
    notebook = Notebook(INTRO)
    before = notebook.line()
    notebook.read("Nothing happens.")
    assert notebook.line(valid=False) == UNKNOWN + before


@pytest.mark.parametrize("task_type", TASK_TYPES)
def test_compact_and_full_copies_of_a_game_differ_in_their_texts_only(task_type: str) -> None:
    task_id, rng = f"alfworld/generated_train/{task_type}/3", random.Random(task_type)
    with load_world("alfworld") as full_world, load_world("alfworld", {"observation": "compact"}) as compact_world:
        full, compact = full_world.make(task_id), compact_world.make(task_id)
        seen, line = full.reset(), compact.reset()
        for _ in range(30):
            assert line.text.removeprefix(UNKNOWN).startswith("at ")
            assert seen.model_copy(update={"text": line.text}) == line
            if seen.ended:
                break
            action = rng.choice([*seen.admissible_actions, "dance"])
            seen, line = full.step(action), compact.step(action)
