"""``dpepo plot``: files, what was left out, and wrong requests."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from tests.support.figure_runs import eval_run, play

from dpepo.cli import main

pytest.importorskip("matplotlib")


def test_one_picture_is_written_where_it_is_wanted(sweep: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plot", "turns", str(sweep), "--only", "DPEPO*", "--out", str(tmp_path / "deep" / "one.svg")]) == 0
    assert "Success against average turns" in capsys.readouterr().out
    content = (tmp_path / "deep" / "one.svg").read_text()
    assert "DPEPO, K = 4" in content and "cold start only" not in content


def test_all_writes_what_the_data_allow_and_says_what_they_do_not(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = eval_run(tmp_path / "run", play(2, skill=0.5, tasks=3))
    assert main(["plot", "all", str(run), "--out", str(tmp_path / "figures"), "--svg"]) == 0
    made = sorted(path.name for path in (tmp_path / "figures").iterdir())
    assert made == ["diversity.svg", "parallel.svg", "prompts.svg", "time.svg", "turns.svg"]
    said = capsys.readouterr().out
    for kind in ("copies", "size", "learning"):
        assert f"Left out: {kind}. " in said


def test_runs_that_hold_nothing_end_in_a_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = eval_run(tmp_path / "run", [])
    assert main(["plot", "all", str(run), "--out", str(tmp_path / "figures")]) == 2
    assert "None of the pictures could be drawn." in capsys.readouterr().err
    assert main(["plot", "turns", str(run)]) == 2
    said = capsys.readouterr().err
    assert "no finished episode" in said and "Traceback" not in said


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["turn", "."], "There is no picture 'turn'. Did you mean 'turns'?"),
        (["turns", "nowhere"], "There is no folder nowhere."),
        (["turns", ".", "--out", "picture.pdf"], "must end in .png or .svg"),
        (["all", ".", "--out", "picture.png"], "all pictures need a folder"),
    ],
)
def test_a_wrong_request_is_refused_in_a_sentence(
    arguments: list[str], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["plot", *arguments]) == 2
    assert said in capsys.readouterr().err


def test_without_matplotlib_the_extra_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("dpepo.cli.preflight.find_spec", lambda name: None)
    assert main(["plot", "turns", str(tmp_path)]) == 2
    assert "pip install 'dpepo[plots]'" in capsys.readouterr().err


def test_numbers_need_no_matplotlib() -> None:
    code = "import sys, dpepo.figures; print({'matplotlib', 'numpy', 'torch'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"
