"""The commands in the order of docs/training.md, with an adapter, on the toy world."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from tests.support.toy_jobs import ONE_TASK, SETTINGS, ColdStart
from transformers import AutoModelForCausalLM

from dpepo.cli import main

SHORT = ("sampling.max_new_tokens=20", "tasks.eval.limit=2", "model.lora.rank=2", "model.lora.alpha=4")


def run(job: str, folder: Path, *settings: str) -> int:
    return main([job, *SETTINGS, *ONE_TASK, *SHORT, f"run.dir={folder}", *settings])


def test_from_cold_start_to_an_exported_model_with_an_adapter(
    cold_start: ColdStart, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sft, rl = tmp_path / "sft", tmp_path / "rl"
    demonstrations = f"sft.demonstrations={cold_start.demonstrations}"
    assert run("sft", sft, demonstrations, f"model.path={cold_start.model}", "sft.epochs=1", "sft.val_share=0") == 0
    short_rl = ("train.steps=2", "train.eval_every=1", "train.tasks_per_step=1")
    assert run("train", rl, f"model.path={sft}", "model.lora.rank=4", *short_rl) == 2  # refused before anything is loaded
    assert "model.lora.rank is 4, the adapter's is 2" in capsys.readouterr().err
    assert not rl.exists()
    assert run("train", rl, f"model.path={sft}", *short_rl) == 0
    assert run("eval", tmp_path / "eval", f"model.path={rl / 'checkpoints' / 'best'}", "model.lora.rank=0") == 0
    assert main(["export", str(rl), "--merge"]) == 0
    merged = AutoModelForCausalLM.from_pretrained(tmp_path / "rl-merged")
    base = AutoModelForCausalLM.from_pretrained(cold_start.model)
    assert any(not torch.equal(one, two) for one, two in zip(merged.parameters(), base.parameters(), strict=True))
    assert run("train", tmp_path / "whole", f"model.path={tmp_path / 'rl-merged'}", "model.lora.rank=0", *short_rl) == 0
