"""The toy recipe, run with the real command: demonstrations, evaluation and page, without a model."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from dpepo.cli import app
from dpepo.runs import RunFolder

TOY = str(Path(__file__).parents[2] / "recipes" / "toy" / "dpepo.yaml")


@pytest.mark.parametrize("words", [("synth",), ("eval", "eval.policy=oracle"), ("eval", "eval.policy=random")])
def test_the_toy_recipe_runs_and_can_be_viewed(tmp_path: Path, words: tuple[str, ...]) -> None:
    result = CliRunner().invoke(app, [words[0], TOY, *words[1:], f"run.dir={tmp_path / 'r'}"])
    assert result.exit_code == 0, result.output
    run = RunFolder.open(tmp_path / "r")
    problems: list[str] = []
    episodes = [line.episode for line in run.read_episodes(problems=problems)]
    assert len(episodes) == (20 if words[0] == "synth" else 10)
    assert problems == []
    assert all(episode.num_envs == 4 and episode.max_turns == 6 for episode in episodes)
    if "random" not in words[-1]:
        assert all(episode.success for episode in episodes)
    assert run.sessions[-1]["result"]
    viewed = CliRunner().invoke(app, ["view", str(tmp_path / "r")])
    assert viewed.exit_code == 0, viewed.output
    assert list((tmp_path / "r").glob("*.html"))


def test_an_evaluation_gives_the_same_numbers_twice(tmp_path: Path) -> None:
    results = []
    for name in ("a", "b"):
        assert CliRunner().invoke(app, ["eval", TOY, "eval.policy=random", f"run.dir={tmp_path / name}"]).exit_code == 0
        results.append(RunFolder.open(tmp_path / name).sessions[-1]["result"])
    clock = ("seconds_per_episode", "env_seconds_per_episode")
    assert all(result.pop(name) >= 0 for result in results for name in clock)
    assert results[0] == results[1]
