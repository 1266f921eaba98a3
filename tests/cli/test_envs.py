"""``dpepo envs``: listing, checking, fetching."""

from __future__ import annotations

from pathlib import Path

import pytest

from dpepo.cli import main

TINY = """
from dpepo.envs import TextEnv, World
from dpepo.types import Observation, Task, WorldGuide


class Coin(TextEnv):
    goal = "Say heads."

    def reset(self):
        return Observation(text="A coin lies before you.", admissible_actions=("heads", "tails"))

    def step(self, action):
        known = action in ("heads", "tails")
        won = action == "heads"
        said = f"You say {action}."
        return Observation(text=said, admissible_actions=("heads", "tails"), success=won, ended=won, valid=known)


class CoinWorld(World):
    name = "coin"
    splits = ("train",)
    guide = WorldGuide(role="You guess.")

    def make(self, task_id):
        self.task(task_id)
        return Coin()

    def tasks(self, split):
        self.check_split(split)
        return [Task(id="coin/only", world="coin", name="only", split=split)]
"""


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.syspath_prepend(tmp_path)
    return tmp_path


def test_a_world_of_ones_own_that_keeps_its_promises_is_told_so(module: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (module / "good_coin.py").write_text(TINY)
    assert main(["envs", "check", "good_coin:CoinWorld"]) == 0
    assert "good_coin:CoinWorld keeps its promises (1 task," in capsys.readouterr().out


def test_what_a_world_breaks_is_named_and_the_exit_code_says_so(module: Path, capsys: pytest.CaptureFixture[str]) -> None:
    broken = TINY.replace("You say {action}.", "{id(self)} hears {action}.").replace("valid=known", "valid=True")
    (module / "bad_coin.py").write_text(broken)
    assert main(["envs", "check", "bad_coin:CoinWorld", "--task", "coin/only"]) == 1
    shown = capsys.readouterr().err
    assert "breaks" in shown and "calls the nonsense" in shown and "copies answer" in shown


def test_what_hangs_on_hashing_is_found_by_another_process(module: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Case E08."""
    words = '"a", "b", "c", "d", "e", "f", "g", "h"'
    shuffled = TINY.replace('"A coin lies before you."', f'"Before you: " + " ".join({{{words}}})')
    (module / "shuffled_coin.py").write_text(shuffled)
    assert main(["envs", "check", "shuffled_coin:CoinWorld"]) == 1
    assert "coin/only differs in another process" in capsys.readouterr().err


def test_a_world_that_takes_any_option_is_told_so(module: Path, capsys: pytest.CaptureFixture[str]) -> None:
    careless = TINY + "\n    def __init__(self, **options):\n        pass\n"
    (module / "careless_coin.py").write_text(careless)
    assert main(["envs", "check", "careless_coin:CoinWorld"]) == 1
    assert "options: an unknown one is not refused" in capsys.readouterr().err


def test_worlds_and_tasks_are_listed_with_options(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["envs"]) == 0
    shown = capsys.readouterr().out
    assert all(name in shown for name in ("alfworld", "gymnasium", "scienceworld", "textworld", "toy"))
    assert main(["envs", "gymnasium", "env_id=NumberGame-v0"]) == 0
    assert "NumberGame-v0" in capsys.readouterr().out
    assert main(["envs", "toy", "colour=red"]) == 2
    assert "colour" in capsys.readouterr().err


def test_splits_whose_files_are_missing_are_said_below_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("ALFWORLD_DATA", str(tmp_path))
    assert main(["envs", "alfworld"]) == 0
    shown = capsys.readouterr().out
    assert "generated_train" in shown and "valid_seen: ALFWorld's games of the split 'valid_seen' are not in" in shown


@pytest.mark.parametrize(
    "words", [["check"], ["fetch"], ["fetch", "toy"], ["toy", "toy"], ["check", "toys"], ["check", "no_module:X"]]
)
def test_a_request_that_makes_no_sense_is_a_wrong_one(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["envs", *words]) == 2
    assert capsys.readouterr().err


def test_fetching_without_a_network_says_what_to_place_where(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("dpepo.envs.alfworld.fetch.fetch_games.__kwdefaults__", {"url": "http://127.0.0.1:9/x.zip"})
    assert main(["envs", "fetch", "alfworld", "--data-root", str(tmp_path)]) == 1
    assert "by hand" in capsys.readouterr().err
