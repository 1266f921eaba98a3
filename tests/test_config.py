"""Combinations of settings that cannot be meant."""

from __future__ import annotations

import pytest

from dpepo.config import TasksConfig, TaskSelection
from dpepo.errors import ConfigError
from dpepo.recipes import load_config


@pytest.mark.parametrize("override", ["tasks.eval.names=[room]", "tasks.eval.limit=3", "tasks.eval={names: [room]}"])
def test_naming_tasks_to_evaluate_on_does_not_turn_them_into_training_tasks(override: str) -> None:
    config = load_config(None, [override])
    assert (config.tasks.eval.split, config.tasks.train.split) == ("dev", "train")


def test_another_list_to_evaluate_on_can_be_chosen() -> None:
    assert load_config(None, ["tasks.eval.split=test", "tasks.eval.limit=3"]).tasks.eval.split == "test"
    assert TasksConfig(eval=TaskSelection(split="test")).eval.split == "test"


def test_a_scale_of_invalid_actions_alone_needs_their_base() -> None:
    with pytest.raises(ConfigError, match=r"step_reward\.invalid=0\.5"):
        load_config(None, ["step_reward.scale=reference_invalid_only"])
    config = load_config(None, ["step_reward.scale=reference_invalid_only", "step_reward.invalid=0.5"])
    assert config.step_reward.invalid == 0.5
