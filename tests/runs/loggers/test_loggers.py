"""Trackers hold what metrics.jsonl holds: read back from their own files, across resumes, failures and missing packages."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from dpepo.config import LoggerName
from dpepo.errors import ConfigError, MissingPackage
from dpepo.recipes import load_config
from dpepo.runs import RunFolder
from dpepo.runs.loggers import base as trackers
from dpepo.runs.loggers import check_loggers
from dpepo.runs.loggers.base import Tracker
from dpepo.runs.loggers.console import ConsoleTracker
from dpepo.runs.metrics import Value

Rows = dict[int, dict[str, float]]
ALL = ("tensorboard", "mlflow", "wandb")


def write(folder: Path, steps: Mapping[int, float], *loggers: str, stage: str = "rl") -> list[str]:
    """One session of a run that logs a number per step; returns what was said."""
    config = load_config(None, [f"run.dir={folder}", "run.resume=true", f"run.loggers=[{','.join(loggers)}]"])
    run = RunFolder.create(folder, config=config, job="train")
    notes: list[str] = []
    run.notes_to(notes.append)
    for step, value in steps.items():
        row: dict[str, Value] = {
            "actor/pg_loss": value,
            "episode/success_rate/boil-2.0": step / 8,
            "bad": float("nan"),
            "text": "no number",
        }
        run.metrics.log(stage, step, row)
    run.finish()
    return notes


def in_tensorboard(folder: Path, stage: str = "rl") -> Rows:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(str(folder / "tensorboard" / stage))
    events.Reload()
    rows: Rows = {}
    for name in events.Tags()["scalars"]:
        for event in events.Scalars(name):
            assert name not in rows.get(event.step, {}), "a step stands there twice"
            rows.setdefault(event.step, {})[name] = event.value
    return rows


def in_mlflow(folder: Path, stage: str = "rl") -> Rows:
    from mlflow import MlflowClient

    client = MlflowClient(tracking_uri=f"sqlite:///{folder / 'mlflow' / 'mlflow.db'}")
    experiment = client.get_experiment_by_name(folder.name)
    assert experiment is not None
    [run] = [run for run in client.search_runs([experiment.experiment_id]) if run.info.run_name == stage]
    assert run.info.status == "FINISHED"
    assert run.data.params["env.num_envs"] == "4"
    rows: Rows = {}
    for name in run.data.metrics:
        for metric in client.get_metric_history(run.info.run_id, name):
            assert name not in rows.get(metric.step, {}), "a step stands there twice"
            rows.setdefault(metric.step, {})[name] = metric.value
    return rows


def log_records(data: bytes) -> Iterator[bytes]:
    """What a .wandb file holds: 7 bytes, then the log format of LevelDB (blocks of 32 KiB; checksum, length, type, data)."""
    assert data[:4] == b":W&B"
    position, record = 7, b""
    while position + 7 <= len(data):
        room = 32768 - position % 32768
        if room < 7:
            position += room
            continue
        length, kind = int.from_bytes(data[position + 4 : position + 6], "little"), data[position + 6]
        record += data[position + 7 : position + 7 + length]
        position += 7 + length
        if kind in (1, 4):  # whole, or the last part
            yield record
            record = b""


def finished_records(file: Path, kind: type[Any]) -> list[Any]:
    """All records of a run that has ended; W&B's own process writes the last of them a moment later."""
    for _ in range(100):
        records = []
        for data in log_records(file.read_bytes()):
            records.append(kind())
            records[-1].ParseFromString(data)
        if records and records[-1].HasField("exit"):
            return records
        time.sleep(0.1)
    pytest.fail(f"{file} does not end")


def in_wandb(folder: Path, stage: str = "rl") -> Rows:
    from wandb.proto import wandb_internal_pb2 as proto

    ids = set()
    rows: Rows = {}
    for file in sorted(folder.glob("wandb/offline-run-*/*.wandb")):
        records = finished_records(file, proto.Record)  # type: ignore[attr-defined]
        [started] = [record.run for record in records if record.HasField("run")]
        if started.display_name != f"{folder.name}/{stage}":
            continue
        ids.add(started.run_id)
        for record in records:
            if record.HasField("history"):
                items = {(item.key or "/".join(item.nested_key)): json.loads(item.value_json) for item in record.history.item}
                step = int(record.history.step.num)
                assert step not in rows, "a step stands there twice"
                rows[step] = {name: value for name, value in items.items() if not name.startswith("_")}
    assert len(ids) == 1, "sessions of a run carry one id"
    return rows


READERS = {"tensorboard": in_tensorboard, "mlflow": in_mlflow, "wandb": in_wandb}


def expected(steps: Mapping[int, float]) -> dict[int, Any]:
    return {
        step: pytest.approx({"actor/pg_loss": value, "episode/success_rate/boil-2.0": step / 8})
        for step, value in steps.items()
    }


@pytest.fixture(scope="module", autouse=True)
def wandb_ends_with_this_file(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    before = {name: value for name, value in os.environ.items() if name.startswith(("WANDB_", "MLFLOW_"))}
    yield
    import wandb

    wandb.teardown()
    for name in [name for name in os.environ if name.startswith(("WANDB_", "MLFLOW_"))]:
        del os.environ[name]
    os.environ.update(before)


@pytest.mark.parametrize("name", ALL)
def test_a_tracker_holds_the_numbers_of_metrics_jsonl_across_a_resume(tmp_path: Path, name: str) -> None:
    """Killed after step 4, resumed from the checkpoint of step 2: steps 3 and 4 come a second time."""
    assert write(tmp_path / "run", {1: 0.5, 2: 0.25, 3: 0.125, 4: 2.0}, name) == []
    assert write(tmp_path / "run", {3: 0.125, 4: 2.0, 5: 3.0}, name) == []
    assert READERS[name](tmp_path / "run") == expected({1: 0.5, 2: 0.25, 3: 0.125, 4: 2.0, 5: 3.0})


def test_of_a_step_done_again_with_another_result_tensorboard_shows_the_last(tmp_path: Path) -> None:
    write(tmp_path / "run", {1: 0.5, 2: 0.25}, "tensorboard")
    write(tmp_path / "run", {2: 4.0}, "tensorboard")
    assert in_tensorboard(tmp_path / "run") == expected({1: 0.5, 2: 4.0})


@pytest.mark.parametrize("name", ALL)
def test_a_tracker_chosen_for_a_resume_is_given_what_was_before(tmp_path: Path, name: str) -> None:
    write(tmp_path / "run", {1: 0.5, 2: 0.25})
    write(tmp_path / "run", {3: 1.0}, name)
    assert READERS[name](tmp_path / "run") == expected({1: 0.5, 2: 0.25, 3: 1.0})


@pytest.mark.parametrize("name", ALL)
def test_every_stage_is_a_run_of_its_own(tmp_path: Path, name: str) -> None:
    """Their steps count different things."""
    config = load_config(None, [f"run.dir={tmp_path / 'run'}", f"run.loggers=[{name}]"])
    run = RunFolder.create(tmp_path / "run", config=config, job="demo")
    for stage, step in (("sft", 1), ("rl", 1), ("sft", 2)):
        run.part(stage).metrics.log(stage, step, {"actor/pg_loss": 1.0, "episode/success_rate/boil-2.0": step / 8})
    run.finish()
    assert READERS[name](tmp_path / "run", "sft") == expected({1: 1.0, 2: 1.0})
    assert READERS[name](tmp_path / "run", "rl") == expected({1: 1.0})


def test_the_console_gets_a_line_per_step_and_nothing_of_earlier_sessions(tmp_path: Path) -> None:
    assert write(tmp_path / "run", {1: 0.5}, "console") == ["rl 1: pg loss 0.5"]
    assert write(tmp_path / "run", {2: 0.25}, "console") == ["rl 2: pg loss 0.25"]


class Fails(ConsoleTracker):
    """A tracker that takes one row and then loses its disk."""

    taken = 0

    def log(self, step: int, time: float, values: Mapping[str, float]) -> None:
        Fails.taken += 1
        if Fails.taken > 1:
            raise OSError("No space left on device")


def test_a_tracker_that_fails_is_named_once_and_the_run_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Fails, "taken", 0)
    monkeypatch.setitem(trackers._TRACKERS, LoggerName.TENSORBOARD, trackers._Known(f"{__name__}:Fails", ()))
    monkeypatch.setitem(sys.modules, __name__, sys.modules[Fails.__module__])
    notes = write(tmp_path / "run", {1: 0.5, 2: 0.25, 3: 0.125}, "tensorboard", "console")
    assert [note for note in notes if "No space left" in note] == [
        "tensorboard failed and gets no more numbers (OSError: No space left on device); metrics.jsonl has all of them"
    ]
    assert [note.split(":")[0] for note in notes if note.startswith("rl")] == ["rl 1", "rl 2", "rl 3"]
    run = RunFolder.open(tmp_path / "run")
    assert [row.step for row in run.read_metrics().rows] == [1, 2, 3]
    assert run.sessions[-1]["dropped_loggers"] == {"tensorboard": "OSError: No space left on device"}


@pytest.mark.parametrize("name", ALL)
def test_a_package_that_is_not_installed_is_named_before_anything_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr(trackers, "find_spec", lambda package: None)
    with pytest.raises(MissingPackage, match=rf"pip install 'dpepo\[{name}\]'"):
        write(tmp_path / "run", {}, name)
    assert not (tmp_path / "run").exists()
    check_loggers(["console", "jsonl"])


def test_an_unknown_tracker_is_refused_with_those_there_are() -> None:
    with pytest.raises(ConfigError, match=r"run.loggers must be console, jsonl, tensorboard, mlflow or wandb"):
        load_config(None, ["run.loggers=[tensorbord]"])


@pytest.mark.slow
def test_nothing_is_written_outside_the_run_folder(tmp_path: Path) -> None:
    """In a process of its own, with a home and a working folder that are watched."""
    home = tmp_path / "home"
    home.mkdir()
    code = (
        "import sys; from pathlib import Path; from dpepo.recipes import load_config; from dpepo.runs import RunFolder\n"
        "config = load_config(None, [f'run.dir={sys.argv[1]}', 'run.loggers=[tensorboard,mlflow,wandb]'])\n"
        "run = RunFolder.create(Path(sys.argv[1]), config=config, job='train')\n"
        "run.notes_to(lambda text: sys.exit(text)); run.metrics.log('rl', 1, {'loss': 1.0}); run.finish()\n"
    )
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("WANDB_", "MLFLOW_", "XDG_", "HOME"))}
    environment = {**kept, "HOME": str(home), "TMPDIR": str(home)}
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "run")],
        cwd=home,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert list(home.iterdir()) == []
    names = {path.name for path in (tmp_path / "run").iterdir()}
    assert names == {".lock", "run.json", "config.yaml", "metrics.jsonl", "tensorboard", "mlflow", "wandb"}


def test_a_tracker_need_only_take_rows(tmp_path: Path) -> None:
    """What the contract leaves open has defaults."""

    class Own(Tracker):
        def log(self, step: int, time: float, values: Mapping[str, float]) -> None: ...

    own = Own(trackers.TrackedRun(folder=tmp_path / "x", stage="rl", settings={}), lambda text: None)
    own.close()
    assert (own.last_step, own.wants_history, own.run.name) == (None, True, "x/rl")
