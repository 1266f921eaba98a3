"""A checkpoint is complete or not used."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from dpepo.runs.checkpoints import best_checkpoint, is_save_step, latest_checkpoint, save_checkpoint


def write_weights(folder: Path) -> None:
    (folder / "model.bin").write_bytes(b"weights " * 100)
    (folder / "optimizer").mkdir()
    (folder / "optimizer" / "state.bin").write_bytes(b"state")


def save(folder: Path, *steps: int, keep_last: int = 5) -> None:
    for step in steps:
        save_checkpoint(folder, step, write_weights, keep_last=keep_last, metadata={"seen": step * 10})


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.parametrize(("last", "saved"), [(7, [5, 7]), (3, [3]), (5, [5]), (10, [5, 10])])
def test_the_last_step_is_saved_whatever_the_interval(last: int, saved: list[int]) -> None:
    """C05: saves only at multiples lose the last steps."""
    assert [step for step in range(1, last + 1) if is_save_step(step, every=5, last=last)] == saved


def test_the_newest_complete_checkpoint_is_found_with_its_metadata(tmp_path: Path) -> None:
    save(tmp_path, 1, 2, 10)
    found = latest_checkpoint(tmp_path)
    assert found.checkpoint is not None
    assert (found.checkpoint.step, found.checkpoint.metadata, found.problems) == (10, {"seen": 100}, ())
    assert (tmp_path / "latest" / "model.bin").read_bytes() == b"weights " * 100


@pytest.mark.parametrize("file", ["model.bin", "optimizer/state.bin"])
@pytest.mark.parametrize("fault", ["cut", "flipped", "gone", "longer"])
def test_a_damaged_checkpoint_is_named_and_the_one_before_it_used(tmp_path: Path, file: str, fault: str) -> None:
    """C03: the folder's name is no evidence."""
    save(tmp_path, 1, 2)
    path = tmp_path / "step-0002" / file
    whole = path.read_bytes()
    if fault == "gone":
        path.unlink()
    else:
        path.write_bytes({"cut": whole[: len(whole) // 2], "flipped": b"X" + whole[1:], "longer": whole + b"x"}[fault])
    found = latest_checkpoint(tmp_path)
    assert found.checkpoint is not None
    assert found.checkpoint.step == 1
    assert len(found.problems) == 1
    assert "step-0002" in found.problems[0]
    assert file in found.problems[0]


@pytest.mark.parametrize(
    "manifest", [None, "", "{", "[]", "null", '{"step": 3, "metadata": {}}', '{"files": 3, "step": 3, "metadata": {}}']
)
def test_a_folder_without_a_whole_manifest_is_passed_over(tmp_path: Path, manifest: str | None) -> None:
    """C03: a folder without the "complete" marker is ignored."""
    save(tmp_path, 2)
    bad = tmp_path / "step-0003"
    bad.mkdir()
    (bad / "model.bin").write_bytes(b"half")
    if manifest is not None:
        (bad / "manifest.json").write_text(manifest)
    found = latest_checkpoint(tmp_path)
    assert found.checkpoint is not None
    assert found.checkpoint.step == 2
    assert "step-0003" in found.problems[0]


def test_a_crash_while_writing_leaves_the_earlier_checkpoint_and_no_trace_after_the_next(tmp_path: Path) -> None:
    """C03: nothing half-written ever carries a checkpoint's name."""
    save(tmp_path, 1)

    def crash(folder: Path) -> None:
        write_weights(folder)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        save_checkpoint(tmp_path, 2, crash, keep_last=2)
    found = latest_checkpoint(tmp_path)
    assert found.checkpoint is not None
    assert (found.checkpoint.step, found.problems) == (1, ())
    save(tmp_path, 2)
    assert names(tmp_path) == ["latest", "step-0001", "step-0002"]


def test_only_the_newest_are_kept(tmp_path: Path) -> None:
    save(tmp_path, 1, 2, 3, 4, keep_last=2)
    assert names(tmp_path) == ["latest", "step-0003", "step-0004"]
    assert (tmp_path / "latest").resolve().name == "step-0004"


def test_the_best_is_kept_however_old_and_the_first_of_equals(tmp_path: Path) -> None:
    for step, score in enumerate((0.2, 0.6, 0.4, None, 0.6, 0.1), start=1):
        save_checkpoint(tmp_path, step, write_weights, keep_last=2, score=score)
    assert names(tmp_path) == ["best", "latest", "step-0002", "step-0005", "step-0006"]
    assert (tmp_path / "best").resolve().name == "step-0002"
    save_checkpoint(tmp_path, 7, write_weights, keep_last=1, score=0.7)
    assert names(tmp_path) == ["best", "latest", "step-0007"]


def test_the_best_of_steps_that_are_done_again_is_not_one_of_the_future(tmp_path: Path) -> None:
    """Steps after the newest whole checkpoint are played anew; what they once scored counts no more."""
    for step, score in enumerate((0.2, 0.1, 0.9), start=1):
        save_checkpoint(tmp_path, step, write_weights, keep_last=3, score=score)
    (tmp_path / "step-0003" / "model.bin").write_bytes(b"cut")
    save_checkpoint(tmp_path, 2, write_weights, keep_last=3, score=0.1)
    assert (tmp_path / "best").resolve().name == "step-0001"
    best = best_checkpoint(tmp_path, up_to=2)
    assert best is not None and best.metadata["score"] == 0.2
    (tmp_path / "step-0001" / "manifest.json").write_text("{")
    best = best_checkpoint(tmp_path, up_to=2)
    assert best is not None and best.step == 2


def test_a_damaged_checkpoint_is_replaced_when_its_step_is_done_again(tmp_path: Path) -> None:
    save(tmp_path, 1, 2)
    (tmp_path / "step-0002" / "model.bin").write_bytes(b"")
    save(tmp_path, 2)
    assert latest_checkpoint(tmp_path).problems == ()
    assert json.loads((tmp_path / "step-0002" / "manifest.json").read_text())["files"]["model.bin"]["size"] == 800


def test_steps_beyond_four_digits_stay_in_order(tmp_path: Path) -> None:
    save(tmp_path, 9999, 10000)
    found = latest_checkpoint(tmp_path)
    assert found.checkpoint is not None
    assert found.checkpoint.step == 10000


def test_no_folder_means_no_checkpoint(tmp_path: Path) -> None:
    assert latest_checkpoint(tmp_path / "checkpoints") == (None, ())
