"""The paper's evaluation protocol stands in two recipes, and means the lists of tasks that the paper names."""

from __future__ import annotations

from pathlib import Path

import pytest

from dpepo.config import Memory, OverLimit
from dpepo.envs.alfworld.world import AlfWorld
from dpepo.envs.scienceworld import ScienceWorld
from dpepo.evaluation.conditions import conditions_of, names_limit
from dpepo.evaluation.tables.columns import SPLIT_NOTES
from dpepo.protocol import PromptBuilder
from dpepo.recipes import load_config

RECIPES = Path(__file__).parents[2] / "recipes"


@pytest.mark.parametrize(("world", "split"), [("alfworld", "valid_seen"), ("scienceworld", "L0_test")])
def test_the_protocol_is_that_of_the_paper(world: str, split: str) -> None:
    """V07: T = 25, temperature 0.4, K = 4 with the limit sentence, above K the trial fails, each task once."""
    config = load_config(RECIPES / world / "eval_paper.yaml")
    played = conditions_of(config)
    assert (played.world, played.split, played.num_envs, played.max_turns, played.temperature) == (world, split, 4, 25, 0.4)
    assert (played.over_limit, played.memory, played.names) == (OverLimit.FAIL, Memory.COMPACT, ())
    assert (config.eval.episodes_per_task, config.tasks.eval.limit, config.model.max_length) == (1, 0, 10_240 + 2_048)
    assert names_limit(PromptBuilder(config.prompt), 4)


def test_the_lists_have_the_sizes_of_the_paper() -> None:
    """V04, V05: and the table says which L1 is meant."""
    alfworld, scienceworld = AlfWorld(), ScienceWorld()
    assert [alfworld.expected(split) for split in ("valid_seen", "valid_unseen")] == [140, 134]
    assert [len(scienceworld.tasks(split)) for split in ("L0_test", "L1_test", "L2_test", "L1_only_test")] == [
        1661,
        1684,
        549,
        1135,
    ]
    assert "1,684" in SPLIT_NOTES["L1_test"] and "549" in SPLIT_NOTES["L1_test"] and "1,135" in SPLIT_NOTES["L1_only_test"]
