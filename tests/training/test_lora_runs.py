"""Adapters through whole jobs: cold start, reinforcement learning on the same adapter, resume, and what is refused."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch
from tests.support.families import logits
from tests.support.toy_jobs import (
    ONE_TASK,
    ColdStart,
    Killed,
    KilledAt,
    Notes,
    open_run,
    same_weights,
    toy_config,
    weights,
)

from dpepo.config import Config, ModelConfig
from dpepo.errors import ConfigError, JobError, RunFolderError
from dpepo.learning import Learner
from dpepo.policies import load_hf
from dpepo.runs.rundir import RunFolder
from dpepo.training.checkpoint import begin, write_training_state
from dpepo.training.rl import run_train
from dpepo.training.sft import run_sft

LORA = ("model.lora.rank=4", "model.lora.alpha=8")
SHORT_RL = ("train.steps=4", "train.save_every=2", "train.tasks_per_step=1", "train.group_size=4", "actor.kl_coef=0.05")
SCHEDULE = ("actor.schedule=cosine", "actor.warmup=0.3", "actor.lr=5e-3")


class AdapterStart(NamedTuple):
    """A cold start with an adapter, on top of a model that was fine-tuned whole."""

    base: Path  # model folder
    run: Path  # run folder
    config: Config


@pytest.fixture(scope="module")
def adapter_start(cold_start: ColdStart, tmp_path_factory: pytest.TempPathFactory) -> AdapterStart:
    folder = tmp_path_factory.mktemp("adapter")
    base = shutil.copytree(cold_start.model, folder / "base")
    config = sft_config(cold_start, folder / "sft", f"model.path={base}", "sft.epochs=1", "sft.lr=3e-2")
    run_it(config)
    return AdapterStart(Path(base), folder / "sft", config)


def sft_config(start: ColdStart, folder: Path, *settings: str) -> Config:
    some = ("sft.batch_tokens=1600", "sft.epochs=2", "sft.save_every=2")
    paths = (f"model.path={start.untrained}", f"sft.demonstrations={start.demonstrations}")
    return toy_config(folder, *paths, *some, *LORA, *settings)


def rl_config(start: AdapterStart, folder: Path, *settings: str) -> Config:
    return toy_config(folder, f"model.path={start.run}", *ONE_TASK, *LORA, *SHORT_RL, *SCHEDULE, *settings)


def run_it(config: Config, progress: Notes | None = None) -> Any:
    job = "sft" if config.sft.demonstrations else "train"
    run = open_run(config, job)
    try:
        start = run_sft if job == "sft" else run_train
        return start(config, run=run, progress=progress or Notes())
    finally:
        run.close()


def interrupted(config: Config, *, after: float) -> None:
    with pytest.raises(Killed):
        run_it(config, KilledAt(after))


def resumed(config: Config, **model: Any) -> Config:
    changes = {"run": config.run.model_copy(update={"resume": True}), "model": config.model.model_copy(update=model)}
    return config.model_copy(update=changes)


def rows_of(folder: Path) -> list[dict[str, Any]]:
    rows = RunFolder.open(folder).read_metrics().rows
    of_clocks = ("timing_s/", "perf/")
    return [{k: v for k, v in row.values.items() if not k.startswith(of_clocks)} for row in rows if row.stage in ("rl", "sft")]


def loaded(path: Path) -> Any:
    return load_hf(ModelConfig(path=str(path), device="cpu"))[0]


def test_a_cold_start_trains_the_adapter_alone_and_keeps_nothing_else(adapter_start: AdapterStart) -> None:
    model = adapter_start.run / "checkpoints" / "latest" / "model"
    assert all("lora_" in name for name in weights(model.parent))
    assert not (model / "config.json").exists()
    assert json.loads((model / "adapter_config.json").read_text())["base_model_name_or_path"] == "../../../../base"
    assert not torch.allclose(logits(loaded(adapter_start.run)), logits(loaded(adapter_start.base)), atol=1e-2)


def test_an_adapter_learns_the_form_of_replies(cold_start: ColdStart, tmp_path: Path) -> None:
    run_it(sft_config(cold_start, tmp_path / "sft", "sft.lr=3e-2"))
    rows = rows_of(tmp_path / "sft")
    assert rows[0]["sft/loss"] > rows[-1]["sft/loss"] + 0.4


def test_rl_goes_on_with_the_adapter_of_the_cold_start(adapter_start: AdapterStart, tmp_path: Path) -> None:
    """Cases L08 and X07: the first policy is the fine-tuned one, KL to it is 0, and its adapter is what moves."""
    config = rl_config(adapter_start, tmp_path / "rl")
    start = begin(config, None).model
    assert torch.equal(logits(start), logits(loaded(adapter_start.run)))
    result = run_it(config)
    rows = rows_of(tmp_path / "rl")
    assert abs(rows[0]["actor/kl_loss"]) < 1e-6
    assert abs(rows[0]["actor/ppo_kl"]) < 1e-5
    assert rows[-1]["actor/kl_loss"] > 1e-6
    before, after = weights(adapter_start.run / "checkpoints" / "latest"), weights(result.checkpoint)
    assert before.keys() == after.keys()
    assert any(not torch.equal(before[name], after[name]) for name in before)
    settings = json.loads((Path(result.checkpoint) / "model" / "adapter_config.json").read_text())
    base = Path(result.checkpoint).resolve() / "model" / settings["base_model_name_or_path"]
    assert base.resolve() == adapter_start.base.resolve()


@pytest.mark.parametrize("settings", [(), ("model.gradient_checkpointing=true",), ("model.dtype=bfloat16",)])
def test_a_resumed_adapter_run_ends_as_one_that_never_stopped(
    adapter_start: AdapterStart, tmp_path: Path, settings: tuple[str, ...]
) -> None:
    """With a schedule, KL to the start, and several optimiser steps per batch; killed after the step that was saved."""
    settings = (*settings, "actor.minibatches=2")
    whole = run_it(rl_config(adapter_start, tmp_path / "whole", *settings))
    config = rl_config(adapter_start, tmp_path / "cut", *settings)
    interrupted(config, after=3)
    torch.rand(3)
    again = run_it(resumed(config))
    assert same_weights(whole.checkpoint, again.checkpoint)
    assert rows_of(tmp_path / "cut") == rows_of(tmp_path / "whole")
    rates = [row["actor/lr"] for row in rows_of(tmp_path / "whole")]
    assert len(set(rates)) == len(rates) and max(rates) == 5e-3


def test_a_resumed_cold_start_with_dropout_ends_as_one_that_never_stopped(cold_start: ColdStart, tmp_path: Path) -> None:
    settings = ("model.lora.dropout=0.2", "sft.schedule=linear", "sft.lr=1e-2")
    whole = run_it(sft_config(cold_start, tmp_path / "whole", *settings))
    config = sft_config(cold_start, tmp_path / "cut", *settings)
    interrupted(config, after=5)
    torch.rand(3)
    assert same_weights(whole.checkpoint, run_it(resumed(config)).checkpoint)


def test_a_bfloat16_run_that_is_resumed_ends_as_one_that_never_stopped(cold_start: ColdStart, tmp_path: Path) -> None:
    """All weights, in bfloat16: the float32 masters are part of the checkpoint."""
    settings = ("model.lora.rank=0", "model.dtype=bfloat16", "sft.lr=1e-4")
    whole = run_it(sft_config(cold_start, tmp_path / "whole", *settings))
    config = sft_config(cold_start, tmp_path / "cut", *settings)
    interrupted(config, after=5)
    again = run_it(resumed(config))
    assert same_weights(whole.checkpoint, again.checkpoint)
    assert {tensor.dtype for tensor in weights(again.checkpoint).values()} == {torch.bfloat16}
    masters = [torch.load(Path(r.checkpoint) / "learner.pt")["optimizer"]["masters"] for r in (whole, again)]
    assert all(torch.equal(one, two) for one, two in zip(*masters, strict=True))


def test_saving_after_a_resume_without_steps_writes_the_same_tensors(adapter_start: AdapterStart, tmp_path: Path) -> None:
    """Case C07."""
    config = rl_config(adapter_start, tmp_path / "run", "train.steps=2")
    run_it(config)
    checkpoint = RunFolder.open(tmp_path / "run").latest_checkpoint().checkpoint
    assert checkpoint is not None
    model, tokenizer, _, _ = begin(config, checkpoint, with_reference=True)
    learner = Learner(model, config=config.actor.model_copy(update={"kl_coef": 0.0}))
    (tmp_path / "again").mkdir()
    write_training_state(tmp_path / "again", learner=learner, tokenizer=tokenizer)
    old, new = checkpoint.path / "model" / "adapter_model.safetensors", tmp_path / "again/model/adapter_model.safetensors"
    assert same_weights(checkpoint.path, tmp_path / "again")
    assert old.stat().st_size == new.stat().st_size


@pytest.mark.parametrize(
    ("setting", "says"),
    [
        ("env.num_envs=3", "env.num_envs was 2, is 3"),
        ("model.lora.rank=8", "model.lora.rank was 4, is 8"),
        ("model.lora.targets=[q_proj]", "model.lora.targets was"),
        ("model.path=builtin:search-base", "model.path was .*, is builtin:search-base"),
        ("model.dtype=bfloat16", "model.dtype was float32, is bfloat16"),
        ("actor.schedule=linear", "actor.schedule was cosine, is linear"),
    ],
)
def test_a_resume_with_other_settings_is_refused_by_name(
    adapter_start: AdapterStart, tmp_path: Path, setting: str, says: str
) -> None:
    """What was, what is, and what to do; nothing in the folder is touched."""
    interrupted(rl_config(adapter_start, tmp_path / "run"), after=1)
    before = {path: path.read_bytes() for path in (tmp_path / "run").rglob("*") if path.is_file()}
    with pytest.raises(RunFolderError, match=rf"{says}.*Use the settings in its config\.yaml, or choose another run\.dir"):
        open_run(resumed(rl_config(adapter_start, tmp_path / "run", setting)), "train")
    assert before == {path: path.read_bytes() for path in (tmp_path / "run").rglob("*") if path.is_file()}


def test_a_resume_from_another_model_in_the_old_place_is_refused(adapter_start: AdapterStart, tmp_path: Path) -> None:
    """model.path names a run, whose newest checkpoint may be another one by now: KL would be measured against it."""
    sft = shutil.copytree(adapter_start.run, tmp_path / "sft", symlinks=True)
    settings = (f"model.path={sft}", f"model.base={adapter_start.base}")
    config = rl_config(adapter_start, tmp_path / "run", *settings)
    interrupted(config, after=3)
    names = sorted(path.name for path in (sft / "checkpoints").glob("step-*"))
    (sft / "checkpoints" / "latest").unlink()
    (sft / "checkpoints" / "latest").symlink_to(names[0])
    with pytest.raises(ConfigError, match=r"no longer the model this run started from: adapter/adapter_model\.safetensors"):
        run_it(resumed(config))
    (sft / "checkpoints" / "latest").unlink()
    (sft / "checkpoints" / "latest").symlink_to(names[-1])
    assert run_it(resumed(config)).steps == 4


def test_a_cut_off_adapter_is_named_and_the_checkpoint_before_it_used(cold_start: ColdStart, tmp_path: Path) -> None:
    """Case C03."""
    whole = run_it(sft_config(cold_start, tmp_path / "whole"))
    config = sft_config(cold_start, tmp_path / "cut")
    interrupted(config, after=5)
    file = tmp_path / "cut" / "checkpoints" / "step-0004" / "model" / "adapter_model.safetensors"
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])
    notes = Notes()
    again = run_it(resumed(config), notes)
    assert any("step-0004" in note and "adapter_model.safetensors" in note for note in notes.notes)
    assert same_weights(whole.checkpoint, again.checkpoint)


def test_an_adapter_of_other_tensors_does_not_fit(adapter_start: AdapterStart, tmp_path: Path) -> None:
    config = rl_config(adapter_start, tmp_path / "run", "train.steps=2")
    run_it(config)
    checkpoint = RunFolder.open(tmp_path / "run").latest_checkpoint().checkpoint
    assert checkpoint is not None
    from safetensors.torch import save_file

    tensors = weights(checkpoint.path)
    tensors.popitem()
    save_file(tensors, checkpoint.path / "model" / "adapter_model.safetensors")
    with pytest.raises(JobError, match="does not fit this run: the adapter has other tensors"):
        begin(config, checkpoint)


def test_a_whole_model_is_not_trained_from_an_adapter_by_accident(adapter_start: AdapterStart, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"model\.lora\.rank is 0.*dpepo export RUN --merge"):
        begin(rl_config(adapter_start, tmp_path / "rl", "model.lora.rank=0"), None)
