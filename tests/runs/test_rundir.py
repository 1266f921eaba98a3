"""A run folder holds one run, is never overwritten, and can be gone on with."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from dpepo.config import Config
from dpepo.errors import RunFolderError
from dpepo.runs.advantages import write_advantages
from dpepo.runs.rundir import MAY_DIFFER, RunFolder


def config(**sections: Any) -> Config:
    return Config.model_validate(sections)


def start(path: Path, job: str = "train", **sections: Any) -> RunFolder:
    return RunFolder.create(path, config=config(**sections), job=job)


def contents(path: Path) -> dict[str, bytes]:
    return {str(p.relative_to(path)): p.read_bytes() for p in sorted(path.rglob("*")) if p.is_file() and p.name != ".lock"}


RESUME: dict[str, Any] = {"run": {"resume": True}}


def test_a_new_run_records_its_configuration_job_and_versions(tmp_path: Path) -> None:
    run = RunFolder.create(tmp_path / "a" / "b", config=config(seed=3), job="train", metadata={"world": {"toy": "1"}})
    run.finish({"success": 0.5})
    again = RunFolder.open(tmp_path / "a" / "b")
    (session,) = again.sessions
    assert (again.config, again.job) == (config(seed=3), "train")
    assert session["versions"]["dpepo"]
    assert (session["world"], session["result"]) == ({"toy": "1"}, {"success": 0.5})
    assert session["started"] <= session["finished"]


def test_a_folder_that_holds_a_run_is_refused_and_left_as_it_is(tmp_path: Path) -> None:
    run = start(tmp_path, seed=1)
    run.metrics.log("rl", 1, {"loss": 1.0})
    run.close()
    before = contents(tmp_path)
    with pytest.raises(RunFolderError, match=r"already holds a run of train.*run\.resume=true"):
        start(tmp_path, seed=1)
    with pytest.raises(RunFolderError, match="holds a run of train, not of sft"):
        start(tmp_path, "sft", seed=1, **RESUME)
    with pytest.raises(RunFolderError, match=r"other settings.*seed was 1, is 2; env\.num_envs was 4, is 3"):
        start(tmp_path, seed=2, env={"num_envs": 3}, **RESUME)
    assert contents(tmp_path) == before


def test_resuming_with_equal_settings_adds_a_session_and_keeps_everything(tmp_path: Path) -> None:
    run = start(tmp_path, seed=1)
    run.metrics.log("rl", 1, {"loss": 1.0})
    run.close()
    again = start(tmp_path, seed=1, train={"steps": 500}, env={"workers": 3}, **RESUME)
    assert len(again.sessions) == 2
    assert again.sessions[1]["changed"] == {"env.workers": 3, "train.steps": 500}
    assert [row.step for row in again.read_metrics().rows] == [1]
    assert again.config.train.steps == 500


def test_resuming_where_nothing_is_starts_anew(tmp_path: Path) -> None:
    assert len(start(tmp_path / "new", **RESUME).sessions) == 1


def test_settings_that_may_differ_exist() -> None:
    from dpepo.keys import known_keys

    assert {key.removesuffix(".") for key in MAY_DIFFER} <= known_keys().keys()


def test_a_folder_with_somebodys_files_is_refused_and_nothing_is_added(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("words")
    with pytest.raises(RunFolderError, match=r"not empty \(it holds thesis\.tex\)"):
        start(tmp_path)
    assert [p.name for p in tmp_path.iterdir()] == ["thesis.tex"]


def test_somebodys_recipe_in_the_folder_is_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text("seed: 7  # my own\n")
    with pytest.raises(RunFolderError, match=r"not empty \(it holds config\.yaml\)"):
        start(tmp_path)
    assert [(p.name, p.read_text()) for p in tmp_path.iterdir()] == [("config.yaml", "seed: 7  # my own\n")]


def test_somebodys_lock_file_is_not_removed(tmp_path: Path) -> None:
    for name in (".lock", "thesis.tex"):
        (tmp_path / name).write_text("words")
    with pytest.raises(RunFolderError, match="thesis"):
        start(tmp_path)
    assert (tmp_path / ".lock").read_text() == "words"


def test_a_run_in_a_linked_folder_that_wrote_nothing_can_be_removed(tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    (tmp_path / "r").symlink_to("disk")
    assert start(tmp_path / "r").discard_unused()
    assert list((tmp_path / "r").iterdir()) == []


@pytest.mark.parametrize("where", ["file/below", "file", "x" * 300, "nul\0byte"])
def test_a_folder_that_cannot_be_made_is_refused(tmp_path: Path, where: str) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(RunFolderError, match=r"Cannot write the run folder .*run\.dir="):
        start(tmp_path / where)


@pytest.mark.parametrize("path", ["", ".", "./"])
def test_a_run_needs_a_folder_of_its_own(path: str) -> None:
    with pytest.raises(RunFolderError, match=r"run\.dir must name a folder"):
        start(Path(path))


def test_two_processes_cannot_write_one_run(tmp_path: Path) -> None:
    start(tmp_path / "r").close()
    code = (
        "import sys; from pathlib import Path; from dpepo.config import Config; from dpepo.runs import RunFolder\n"
        "run = RunFolder.create(Path(sys.argv[1]), config=Config.model_validate({'run': {'resume': True}}), job='train')\n"
        "print('ready', flush=True); sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path / "r")], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "ready\n"
        with pytest.raises(RunFolderError, match="in use by another process"):
            start(tmp_path / "r", **RESUME)
        other.kill()
    start(tmp_path / "r", **RESUME)


def test_a_crash_before_the_run_was_recorded_does_not_block_its_folder(tmp_path: Path) -> None:
    (tmp_path / ".lock").write_text("")
    (tmp_path / "config.yaml").write_text("seed: 1\n")
    (tmp_path / ".run.json.123.tmp").write_text("{")
    assert len(start(tmp_path).sessions) == 1


@pytest.mark.parametrize("text", ["", "{", "[]", "null", '{"job": 3}', '{"job": "train", "sessions": 3}', "\udcff"])
def test_a_damaged_run_file_is_named(tmp_path: Path, text: str) -> None:
    start(tmp_path).close()
    (tmp_path / "run.json").write_text(text, encoding="utf-8", errors="surrogateescape")
    with pytest.raises(RunFolderError, match=r"run\.json cannot be read"):
        RunFolder.open(tmp_path)
    with pytest.raises(RunFolderError, match=r"run\.json cannot be read"):
        start(tmp_path, **RESUME)


def test_a_folder_without_a_run_is_named_with_the_run_inside_it(tmp_path: Path) -> None:
    start(tmp_path / "demo").close()
    with pytest.raises(RunFolderError, match=r"holds no run.*Did you mean .*demo"):
        RunFolder.open(tmp_path)
    with pytest.raises(RunFolderError, match="There is no folder"):
        RunFolder.open(tmp_path / "none")


def test_episodes_of_steps_to_be_played_again_are_moved_aside_not_deleted(tmp_path: Path) -> None:
    run = start(tmp_path)
    for step in (1, 2, 3):
        run.write_episodes("rl", step, [])
    run.write_episodes("eval", 3, [])
    for _ in range(2):
        run.rewind("rl", 1)
        run.write_episodes("rl", 2, [])
    inside = sorted(str(p.relative_to(tmp_path / "episodes")) for p in (tmp_path / "episodes").rglob("*.jsonl"))
    assert inside == [
        "eval-0003.jsonl",
        "replaced-1/rl-0002.jsonl",
        "replaced-1/rl-0003.jsonl",
        "replaced-2/rl-0002.jsonl",
        "rl-0001.jsonl",
        "rl-0002.jsonl",
    ]


def test_the_order_in_which_stages_began_survives_a_copy_and_a_resume(tmp_path: Path) -> None:
    first = start(tmp_path)
    for stage in ("synth", "rl", "eval", "rl"):
        first.write_episodes(stage, 1, [])
    first.close()
    again = start(tmp_path, **RESUME)
    for stage in ("rl", "before-all"):
        again.write_episodes(stage, 2, [])
    assert [session.get("stages") for session in again.sessions] == [["synth", "rl", "eval"], ["before-all"]]


def test_advantages_of_steps_to_be_played_again_are_moved_aside_with_their_episodes(tmp_path: Path) -> None:
    run = start(tmp_path)
    for step in (1, 2):
        run.write_episodes("rl", step, [])
        write_advantages(tmp_path, "rl", step, [])
    run.rewind("rl", 1)
    inside = sorted(str(p.relative_to(tmp_path / "advantages")) for p in (tmp_path / "advantages").rglob("*.jsonl"))
    assert inside == ["replaced-1/rl-0002.jsonl", "rl-0001.jsonl"]


def test_checkpoints_go_through_the_run(tmp_path: Path) -> None:
    run = start(tmp_path)
    run.save_checkpoint(3, lambda folder: (folder / "w").write_text("1"), keep_last=2, metadata={"lr": 1e-6})
    found = run.latest_checkpoint().checkpoint
    assert found is not None
    assert (found.step, found.path, found.metadata) == (3, tmp_path / "checkpoints" / "step-0003", {"lr": 1e-6})


def test_run_json_is_plain_json(tmp_path: Path) -> None:
    run = start(tmp_path)
    run.record(worlds={"toy": "1"})
    assert json.loads((tmp_path / "run.json").read_text())["sessions"][0]["worlds"] == {"toy": "1"}
