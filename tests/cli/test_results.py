"""``dpepo eval``, ``compare`` and ``table`` as they are typed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from dpepo.cli import app
from dpepo.evaluation import EvalResult
from dpepo.runs import RunFolder

TOY = str(Path(__file__).parents[2] / "recipes" / "toy" / "dpepo.yaml")


def dpepo(*words: str) -> Result:
    return CliRunner().invoke(app, list(words))


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    folder = tmp_path_factory.mktemp("runs")
    for policy in ("random", "oracle"):
        done = dpepo("eval", TOY, f"eval.policy={policy}", f"run.dir={folder / policy}")
        assert done.exit_code == 0, done.output
    return {policy: str(folder / policy) for policy in ("random", "oracle")}


def test_what_eval_prints_is_what_the_run_folder_keeps(runs: dict[str, str], tmp_path: Path) -> None:
    done = dpepo("eval", TOY, "eval.policy=oracle", f"run.dir={tmp_path / 'r'}")
    kept = EvalResult.model_validate(RunFolder.open(tmp_path / "r").sessions[-1]["result"])
    assert str(kept) in done.output
    assert kept.conditions is not None and "K = 4, named in the prompt" in done.output


def test_two_runs_are_compared(runs: dict[str, str]) -> None:
    done = dpepo("compare", runs["random"], runs["oracle"])
    assert done.exit_code == 0, done.output
    assert "10 tasks in both; 0 only in A, 0 only in B" in done.output and "McNemar's exact test" in done.output
    found = json.loads(dpepo("compare", runs["random"], runs["oracle"], "--format", "json").output)
    assert found["tasks"] == 10 and found["b"]["shared"]["success_rate"] == 1.0


@pytest.mark.parametrize("form", ["text", "markdown", "latex", "csv"])
def test_runs_are_put_into_a_table(runs: dict[str, str], form: str, tmp_path: Path) -> None:
    words = ("table", runs["random"], runs["oracle"], "--label", "chance", "--label", "gold", "--format", form)
    done = dpepo(*words)
    assert done.exit_code == 0, done.output
    assert "chance" in done.output and "gold" in done.output and "random" not in done.output
    assert dpepo(*words, "--out", str(tmp_path / "t")).output == f"Wrote {tmp_path / 't'}.\n"
    assert (tmp_path / "t").read_text(encoding="utf-8") == done.output


def test_the_papers_numbers_can_be_shown_alone() -> None:
    done = dpepo("table", "--published", "--kind", "cost")
    assert done.exit_code == 0 and "2283.4" in done.output and "published, not measured here" in done.output


@pytest.mark.parametrize(
    ("words", "part"),
    [
        (("compare", "{random}", "gone"), "There is no folder gone"),
        (("compare", "{random}", "{oracle}", "--format", "xml"), "--format: 'xml' is neither text nor json"),
        (("compare", "{random}#eval-x", "{oracle}"), "no evaluation 'eval-x'"),
        (("table",), "Nothing to show"),
        (("table", "{random}", "--kind", "result"), "Did you mean 'results'"),
        (("table", "{random}", "--format", "html"), "there is no 'html'"),
        (("table", "{random}", "--out", "/proc/x"), "Cannot write /proc/x"),
        (("table", "{random}", "--tries", "0"), "--tries"),
        # V04, V07, V08: lists that name no game, or games of another world, before anything is started or written
        (("eval", "run.dir=r", "tasks.eval.file={folder}/answers.jsonl", "eval.policy=random"), "no column that names a task"),
        (("eval", "run.dir=r", "tasks.eval.file={folder}/other.txt", "eval.policy=random"), "1 of which are missing"),
        (("eval", "run.dir=r", "tasks.eval.file={folder}/other.txt", "model.path=gone"), "1 of which are missing"),
    ],
)
def test_a_wrong_request_gets_a_sentence_and_code_two(
    runs: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], part: str
) -> None:
    (tmp_path / "answers.jsonl").write_text('{"prompt": "x", "answer": "y"}\n', encoding="utf-8")
    (tmp_path / "other.txt").write_text("scienceworld/boil/0\n", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    done = dpepo(*(word.format(**runs, folder=tmp_path) for word in words))
    assert done.exit_code == 2, done.output
    assert part in done.stderr and "Traceback" not in done.output
    assert {path.name for path in tmp_path.iterdir()} == {"answers.jsonl", "other.txt"}
