"""The teacher and the made-up households of the ALFWorld demo."""

from __future__ import annotations

import random
from collections import Counter
from itertools import islice
from pathlib import Path

import pytest
import torch

from dpepo.config import ModelConfig, TaskSelection
from dpepo.demo.base import as_samples, create_model, household_turns, train_base
from dpepo.demo.household import TASK, Names
from dpepo.demo.household_teacher import HouseholdTeacher, Seen, choose, read
from dpepo.demo.household_words import FOUND, THOUGHTS, household_tokenizer, household_vocabulary, things
from dpepo.envs import World, load_world, select_tasks
from dpepo.envs.alfworld.observed import Asked
from dpepo.policies import load_hf
from dpepo.protocol import parse_reply
from dpepo.rollout import AgentPolicy, play_episode
from dpepo.types import Episode

GOAL = Asked(task_type=TASK, target="mug", place="desk")


@pytest.fixture(scope="module")
def world() -> World:
    return load_world("alfworld", {"observation": "compact"})


def seen(here: str = "room", *things: str, closed: bool = False, held: str = "nothing", left: tuple[str, ...] = ()) -> Seen:
    return Seen(here, closed, things, held, left)


def test_it_searches_unseen_places_and_opens_what_is_closed() -> None:
    copies = {1: seen(left=("bed 1", "desk 1")), 2: seen("drawer 1", closed=True, left=("bed 1",))}
    _, actions = choose(copies, GOAL, random.Random(0))
    assert actions == {1: "go to bed 1", 2: "open drawer 1"}  # what is looked for does not lie where it shall go


def test_the_copy_that_found_the_thing_takes_it_while_the_others_go_on_looking() -> None:
    copies = {1: seen("bed 1", "pillow 1", left=("shelf 1",)), 2: seen("shelf 1", "pen 1", "mug 2", left=("bed 1",))}
    assert choose(copies, GOAL, random.Random(0)) == (FOUND, {1: "go to shelf 1", 2: "take mug 2 from shelf 1"})


@pytest.mark.parametrize(
    ("copy", "action"),
    [
        (seen("shelf 1", held="mug 2"), "go to desk 1"),
        (seen("desk 1", closed=True, held="mug 2"), "open desk 1"),
        (seen("desk 1", "mug 1", held="mug 2"), "move mug 2 to desk 1"),
    ],
)
def test_it_brings_the_thing_to_its_place(copy: Seen, action: str) -> None:
    assert choose({1: copy}, GOAL, random.Random(0))[1] == {1: action}


def test_a_text_that_is_not_compact_is_refused_with_the_option_that_makes_it_so() -> None:
    with pytest.raises(ValueError, match="observation=compact"):
        read("You arrive at shelf 1. On the shelf 1, you see a mug 1.")


def test_it_plays_real_generated_games_by_what_is_shown_and_more_copies_find_more(world: World) -> None:
    tasks = select_tasks(world, TaskSelection(names=(TASK,), split="generated_train", limit=40), seed=0)
    played: dict[int, list[Episode]] = {
        num_envs: [
            play_episode(
                task,
                policy=AgentPolicy(HouseholdTeacher()),
                num_envs=num_envs,
                max_turns=5,
                seed=n,
                world=world,
            )
            for n, task in enumerate(tasks)
        ]
        for num_envs in (1, 4)
    }
    won = {num_envs: sum(episode.success for episode in episodes) for num_envs, episodes in played.items()}
    assert 0 < won[1] < won[4] < len(tasks)
    steps = [step for episodes in played.values() for episode in episodes for turn in episode.turns for step in turn.steps]
    understood = Counter(step.observation.valid for step in steps)
    assert understood[True] > 0.98 * len(steps)  # two places can be reached from one spot, and then "go to" does nothing


def test_the_exchange_of_names_can_be_undone() -> None:
    names = Names.draw(random.Random(3))
    text = "at shelf 1 : mug 2 , pen 1 | holding pillow 1 | left : bed 1"
    exchanged = names.apply(text)
    assert exchanged != text and names.back().apply(exchanged) == text
    assert exchanged.startswith("at shelf 1 : ") and exchanged.endswith("left : bed 1")  # places keep their names


def test_what_a_thing_is_called_says_nothing_about_where_it_lies(world: World) -> None:
    """The base must not learn what RL is to learn: no name is taken from one kind of place much more often than the others."""
    turns = islice(household_turns(world, seed=1), 4000)
    taken = Counter(
        action for _, reply in turns for action in parse_reply(reply, num_envs=4).actions.values() if action[:4] == "take"
    )
    kinds = Counter(action.split()[1] for action in taken.elements())
    assert len(kinds) > 0.9 * len(things())
    assert max(kinds.values()) < 0.08 * sum(kinds.values())


def test_replies_of_made_up_households_are_read_back_and_every_word_is_known(world: World) -> None:
    tokenizer = household_tokenizer()
    words = household_vocabulary()
    assert len(words) == len(set(words)) == len(tokenizer)
    for view, reply in islice(household_turns(world, seed=2), 200):
        ids = tokenizer.encode(f"{reply} {view.goal} {view.initial.text}", add_special_tokens=False)
        assert tokenizer.unk_token_id not in ids
        read_back = parse_reply(
            str(tokenizer.decode(tokenizer.encode(reply, add_special_tokens=False))), num_envs=view.num_envs
        )
        assert not read_back.problems and read_back.thought in THOUGHTS
        assert read_back.actions == parse_reply(reply, num_envs=view.num_envs).actions


def test_a_base_is_made_from_households_and_loads_as_an_ordinary_model(tmp_path: Path, world: World) -> None:
    create_model(tmp_path, tokenizer=household_tokenizer())
    before = load_hf(ModelConfig(path=str(tmp_path)))[0].state_dict()
    (last,) = train_base(tmp_path, household_turns(world, seed=5), steps=2, batch=4)
    after = load_hf(ModelConfig(path=str(tmp_path)))[0].state_dict()
    assert last.step == 2
    assert any(not torch.equal(before[name], after[name]) for name in before)


def test_the_shipped_base_takes_the_thing_that_a_made_up_goal_asks_for(world: World) -> None:
    model, tokenizer = load_hf(ModelConfig(path="builtin:household-base"))
    take = tokenizer.convert_tokens_to_ids("take")
    asked = right = 0
    for sample in islice(as_samples(household_turns(world, seed=20_261_201), tokenizer), 150):
        ids = (*sample.prompt_token_ids, *sample.token_ids)
        with torch.no_grad():
            best = model(torch.tensor([ids])).logits[0].argmax(-1).tolist()
        named = [place for place in range(len(sample.prompt_token_ids), len(ids)) if ids[place - 1] == take]
        asked += len(named)
        right += sum(best[place - 1] == ids[place] for place in named)
    assert asked >= 10
    assert right / asked > 0.9
