"""The words of the demo's model: every name one token, every reply readable again."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
from transformers import AutoTokenizer

from dpepo.config import PromptConfig
from dpepo.demo.base import ROOMS
from dpepo.demo.search import draw_problem, play_problem
from dpepo.demo.words import UNKNOWN, build_tokenizer, vocabulary
from dpepo.protocol import PromptBuilder, encode_prompt, parse_reply

NAMES = ("axe", "dove", "dove egg", "baby elephant", "egg", "giant tortoise", "ant", "wood", "wooden bowl")


@pytest.fixture(scope="module")
def tokenizer() -> Any:
    return build_tokenizer(NAMES, rooms=ROOMS)


def test_every_entry_of_the_vocabulary_is_one_token(tokenizer: Any) -> None:
    words = vocabulary(NAMES, rooms=ROOMS)
    assert len(words) == len(set(words)) == len(tokenizer)
    for word in words[4:]:
        assert tokenizer.convert_ids_to_tokens(tokenizer.encode(word, add_special_tokens=False)) == [word]


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("dove egg , dove", ["dove egg", ",", "dove"]),
        ("<env_1>focus on wooden bowl</env_1>", ["<env_1>", "focus on", "wooden bowl", "</env_1>"]),
        ("giant ant", [UNKNOWN, "ant"]),
        ("antler", [UNKNOWN]),
        ("'outside' location.", ["'", "outside", "'", "location."]),
    ],
)
def test_the_longest_whole_word_wins(tokenizer: Any, text: str, tokens: list[str]) -> None:
    assert tokenizer.convert_ids_to_tokens(tokenizer.encode(text, add_special_tokens=False)) == tokens


def test_everything_made_up_problems_say_is_known_and_reads_back(tokenizer: Any) -> None:
    prompts = PromptBuilder(PromptConfig(templates="compact"))
    unknown = tokenizer.convert_tokens_to_ids(UNKNOWN)
    rng = random.Random(1)
    for _ in range(50):
        for view, reply in play_problem(draw_problem(rng, names=NAMES, rooms=ROOMS), rng, rooms=ROOMS):
            assert unknown not in encode_prompt(tokenizer, prompts.build(view))
            ids = tokenizer.encode(reply, add_special_tokens=False)
            assert unknown not in ids
            before, after = (parse_reply(text, num_envs=view.num_envs) for text in (reply, tokenizer.decode(ids)))
            assert (before.actions, before.problems) == (after.actions, after.problems)


def test_a_saved_tokenizer_is_the_same_when_it_is_loaded(tokenizer: Any, tmp_path: Path) -> None:
    tokenizer.save_pretrained(tmp_path)
    text = "turn 2 <env_1> did teleport to outside | at outside : axe , dove egg </env_1> goal : Focus on the dove egg"
    loaded: Any = AutoTokenizer.from_pretrained(tmp_path)
    assert loaded.encode(text) == tokenizer.encode(text)
    assert loaded.chat_template == tokenizer.chat_template
