"""Knowledge from texts alone, held against the state of the game that wrote them."""

from __future__ import annotations

import random

import pytest

from dpepo.envs.alfworld.engine import LoadedGame, Node
from dpepo.envs.alfworld.expert import expert_actions
from dpepo.envs.alfworld.games import TASK_TYPES, Wording
from dpepo.envs.alfworld.generate import generate_game
from dpepo.envs.alfworld.observed import Asked, Knowledge, asked, contents, listed
from dpepo.envs.alfworld.problem import SENTENCES


@pytest.mark.parametrize("wording", list(Wording))
@pytest.mark.parametrize("task_type", TASK_TYPES)
def test_what_the_texts_said_is_true_after_every_action(task_type: str, wording: Wording) -> None:
    for seed in range(3):
        game = LoadedGame(generate_game(task_type, seed=seed), wording=wording)
        known = Knowledge.from_start(game.intro)
        assert sorted(known.places) == sorted(game.names[receptacle] for receptacle in game.places)
        rng, node = random.Random(seed), game.start
        for _ in range(60):
            command = rng.choice(game.admissible(node))
            node, text, _ = game.step(node, command)
            known.update(text)
            assert_true(known, game, node)


def assert_true(known: Knowledge, game: LoadedGame, node: Node) -> None:
    state = node.state
    assert known.held == (game.names[state.held] if state.held else "")
    held_now: dict[str, set[str]] = {game.names[receptacle]: set() for receptacle in game.places}
    for thing, receptacle in state.inside:
        held_now[game.names[receptacle]].add(game.names[thing])
    for place, things in known.inside.items():
        assert set(things) == held_now[place]
    opened = {game.names[thing] for flag, thing in state.marks if flag == "opened"}
    assert not known.closed & opened


def test_following_the_expert_the_texts_name_the_target_where_it_is_taken_and_what_was_done_to_it() -> None:
    game = LoadedGame(generate_game("pick_heat_then_place_in_recep", seed=1))
    known = Knowledge.from_start(game.intro)
    node = game.start
    for command in expert_actions(game) or ():
        if command.startswith("take "):
            thing, place = command.removeprefix("take ").split(" from ")
            assert known.goal is not None
            assert (thing, place) in known.where(known.goal.target)
            assert place not in known.unseen()
        node, text, _ = game.step(node, command)
        known.update(text)
    assert node.won
    assert known.qualities[thing] == {"hot"}


def test_heating_ends_being_cool_and_the_other_way_round() -> None:
    known = Knowledge()
    for text, qualities in (
        ("You clean the mug 1 using the sinkbasin 1.", {"clean"}),
        ("You cool the mug 1 using the fridge 1.", {"clean", "cool"}),
        ("You heat the mug 1 using the microwave 1.", {"clean", "hot"}),
    ):
        known.update(text)
        assert known.qualities["mug 1"] == qualities


@pytest.mark.parametrize(("task_type", "number"), [(task_type, number) for task_type in SENTENCES for number in (0, 1)])
def test_every_sentence_of_the_real_games_is_understood(task_type: str, number: int) -> None:
    sentence = SENTENCES[task_type][number].format(target="soapbar", place="toilet")
    assert asked(sentence) == Asked(task_type, "soapbar", "toilet")
    assert asked(f"-= Welcome =-\n\nYou see it.\n\nYour task is to: {sentence}") == Asked(task_type, "soapbar", "toilet")


def test_sentences_and_texts_in_other_words_are_not_guessed_at() -> None:
    assert asked("Your task is to: Put a warm mug to the left of the toaster.") is None
    for text in ("Nothing happens.", "You turn on the desklamp 1.", "You are not carrying anything.", ""):
        assert contents(text) is None
    assert listed("nothing") == ()


def test_an_answer_without_news_changes_nothing() -> None:
    known = Knowledge.from_start(LoadedGame(generate_game(TASK_TYPES[0], seed=0)).intro)
    before = repr(known)
    known.update("Nothing happens.")
    assert repr(known) == before
