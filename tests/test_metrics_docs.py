"""docs/metrics.md names what jobs log, and nothing else."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tests.support.toy_jobs import Notes, open_run, toy_config, write_model

from dpepo.evaluation import run_eval
from dpepo.runs import RunFolder
from dpepo.synthesis import run_synth
from dpepo.training.rl import run_train
from dpepo.training.sft import run_sft

DOCS = Path(__file__).parents[1] / "docs" / "metrics.md"


def documented() -> dict[tuple[str, str], re.Pattern[str]]:
    """Stage and name as written, to a pattern of the names that it stands for."""
    found = {}
    text = DOCS.read_text(encoding="utf-8").partition("## Names")[2]
    rows = [line.split("|")[1:4] for line in text.splitlines() if line.startswith("| `")]
    for names, stages, _ in rows:
        for name in re.findall(r"`([^`]+)`", names):
            pattern = re.compile(re.sub(r"<\w+>", r"[^/]+", name))
            found.update({(stage.strip(), name): pattern for stage in stages.split(",")})
    return found


@pytest.fixture(scope="module")
def logged(tmp_path_factory: pytest.TempPathFactory) -> set[tuple[str, str]]:
    """Stage and name of everything that small jobs of each kind log."""
    folder = tmp_path_factory.mktemp("jobs")
    types = ("tasks.train.names=[room,house]", "tasks.eval.names=[room,house]", "tasks.eval.limit=1", "tasks.train.limit=1")
    common = (*types, f"model.path={write_model(folder / 'model')}", "sampling.max_new_tokens=8")
    jobs = {
        "synth": (run_synth, ("synth.teacher=random", "synth.keep=all", "synth.episodes_per_task=20", "rollout.max_turns=1")),
        "sft": (run_sft, (f"sft.demonstrations={folder / 'synth'}", "sft.eval_every=1", "sft.val_share=0.5")),
        "train": (run_train, ("train.steps=1", "train.eval_every=1", "train.refill=1", "actor.truncated_is=2")),
        "ppo": (run_train, ("train.steps=1", "algorithm.name=ppo")),
        "eval": (run_eval, ("eval.episodes_per_task=2", "eval.temperature=1")),
    }
    for name, (job, settings) in jobs.items():
        config = toy_config(folder / name, *common, *settings)
        job(config, run=open_run(config, name), progress=Notes())
    runs = [RunFolder.open(folder / name) for name in jobs]
    return {(row.stage, name) for run in runs for row in run.read_metrics().rows for name in row.values}


def test_everything_that_is_logged_is_documented_under_its_stage(logged: set[tuple[str, str]]) -> None:
    known = documented()
    strange = {
        (stage, name)
        for stage, name in logged
        if not any(where == stage and pattern.fullmatch(name) for (where, _), pattern in known.items())
    }
    assert strange == set()


def test_everything_that_is_documented_is_logged(logged: set[tuple[str, str]]) -> None:
    missing = {
        (stage, name)
        for (stage, name), pattern in documented().items()
        if not any(where == stage and pattern.fullmatch(one) for where, one in logged)
    }
    assert missing == set()
