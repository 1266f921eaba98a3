from __future__ import annotations

from itertools import islice
from pathlib import Path

import torch

from dpepo.config import ModelConfig
from dpepo.demo.base import ROOMS, as_samples, create_model, search_turns, train_base
from dpepo.demo.words import build_tokenizer, vocabulary
from dpepo.policies import load_hf

NAMES = (
    "axe",
    "baby ant",
    "baby beaver",
    "chair",
    "desk",
    "fire pit",
    "fountain",
    "jug",
    "oven",
    "parrot egg",
    "shovel",
    "sink",
)


def test_the_shipped_base_copies_the_name_that_a_made_up_goal_asks_for() -> None:
    model, tokenizer = load_hf(ModelConfig(path="builtin:search-base"))
    focus = tokenizer.convert_tokens_to_ids("focus on")
    asked = right = 0
    for sample in islice(as_samples(search_turns(NAMES, seed=20_261_201), tokenizer), 60):
        goal = str(tokenizer.decode(list(sample.prompt_token_ids))).partition("goal :")[2]
        ids = (*sample.prompt_token_ids, *sample.token_ids)
        with torch.no_grad():
            best = model(torch.tensor([ids])).logits[0].argmax(-1).tolist()
        named = [place for place in range(len(sample.prompt_token_ids), len(ids)) if ids[place - 1] == focus]
        if "animal" not in goal:  # those goals leave the choice open
            asked += len(named)
            right += sum(best[place - 1] == ids[place] for place in named)
    assert asked >= 10
    assert right / asked > 0.9


def test_the_shipped_base_knows_the_words_of_its_tokenizer_and_no_unknown_ones_in_made_up_problems() -> None:
    _, tokenizer = load_hf(ModelConfig(path="builtin:search-base"))
    assert set(vocabulary(NAMES, rooms=ROOMS)) <= set(tokenizer.get_vocab())
    for sample in islice(as_samples(search_turns(NAMES, seed=1), tokenizer), 20):
        assert tokenizer.unk_token_id not in (*sample.prompt_token_ids, *sample.token_ids)


def test_a_base_is_made_from_names_alone_and_loads_as_an_ordinary_model(tmp_path: Path) -> None:
    create_model(tmp_path, tokenizer=build_tokenizer(NAMES, rooms=ROOMS))
    before = load_hf(ModelConfig(path=str(tmp_path)))[0].state_dict()
    (last,) = train_base(tmp_path, search_turns(NAMES, seed=5), steps=2, batch=4)
    after = load_hf(ModelConfig(path=str(tmp_path)))[0].state_dict()
    assert last.step == 2
    assert any(not torch.equal(before[name], after[name]) for name in before)
