"""The command ``dpepo sweep``."""

from __future__ import annotations

from pathlib import Path

from typer.testing import CliRunner

from dpepo.cli import app

TOY = str(Path(__file__).parents[2] / "recipes" / "toy" / "sweep.yaml")
SMALL = ("tasks.eval.limit=2", "--only", "seed-0/one", "--only", "seed-1/oracle")


def sweep(*words: str) -> tuple[int, str]:
    result = CliRunner().invoke(app, ["sweep", *words])
    return result.exit_code, result.output


def test_the_command_runs_shows_the_table_and_goes_on(tmp_path: Path) -> None:
    out = ("--out", str(tmp_path / "s"))
    code, text = sweep(TOY, *SMALL, *out)
    assert code == 0 and "gold actions, K = 1  1.000 (1)" in text and "Not finished: seed-0/two" in text
    assert {path.name for path in (tmp_path / "s").iterdir()} == {
        "sweep.yaml", "seed-0", "seed-1", "results.md", "results.csv", "results.json"
    }  # fmt: skip
    code, text = sweep(TOY, *SMALL, *out)
    assert code == 2 and "already holds a sweep" in text and "--resume" in text
    code, text = sweep(TOY, *SMALL, *out, "--resume")
    assert code == 0 and "evaluate" not in text and "gold actions, K = 1  1.000 (1)" in text


def test_a_dry_run_lists_the_runs_and_writes_nothing(tmp_path: Path) -> None:
    code, text = sweep(TOY, "--out", str(tmp_path / "s"), "--dry-run")
    assert code == 0 and "seed-2/oracle: eval-dev" in text and "12 runs of 12 jobs, 12 jobs to do" in text
    assert not (tmp_path / "s").exists()


def test_a_folder_with_other_things_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("x")
    code, text = sweep(TOY, "--out", str(tmp_path))
    assert code == 2 and "holds no sweep" in text
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]


def test_a_run_that_cannot_work_is_refused_before_the_first_one_starts(tmp_path: Path) -> None:
    code, text = sweep(TOY, "tasks.eval.names=[palace]", "--out", str(tmp_path / "s"))
    assert code == 2 and "palace" in text
    assert not (tmp_path / "s").exists()
