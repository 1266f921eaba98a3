"""A real pretrained model from the command line's ``dpepo models fetch smollm2``: tuned, improved, evaluated, exported, loaded.

On two CPU cores these take minutes. The folder is named by ``DPEPO_SMOLLM2``, or is where the command puts it.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.support.toy_jobs import ONE_TASK, SETTINGS, Notes
from transformers import AutoModelForCausalLM, AutoTokenizer

from dpepo.cli import main
from dpepo.config import ModelConfig
from dpepo.policies import load_hf
from dpepo.policies.smollm2 import default_folder
from dpepo.runs.rundir import RunFolder
from dpepo.training.demonstrations import DemonstrationSet, load_demonstrations
from dpepo.types import Episode

FOLDER = Path(os.environ.get("DPEPO_SMOLLM2", "") or default_folder())
TINY = (
    "rollout.max_turns=1",
    "sampling.max_new_tokens=24",
    "tasks.eval.limit=1",
    "model.lora.rank=4",
    "model.lora.alpha=8",
    "model.max_length=512",
    "actor.lr=1e-3",
)

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not (FOLDER / "config.json").is_file(), reason=f"no model in {FOLDER}; make it: dpepo models fetch smollm2"
    ),
]


def run(job: str, folder: Path, *settings: str) -> None:
    assert main([job, *SETTINGS, *ONE_TASK, *TINY, f"run.dir={folder}", *settings]) == 0


def episodes_of(folder: Path, stage: str) -> list[Episode]:
    return [line.episode for line in RunFolder.open(folder).read_episodes(stage=stage, problems=[])]


def test_a_reply_of_the_real_tokenizer_ends_and_its_tags_come_back_as_they_were(tmp_path: Path) -> None:
    assert main(["synth", *SETTINGS, *ONE_TASK, f"run.dir={tmp_path}"]) == 0
    episodes = load_demonstrations(str(tmp_path), progress=Notes())
    tokenizer: Any = AutoTokenizer.from_pretrained(FOLDER)
    data = DemonstrationSet(episodes, tokenizer=tokenizer, max_length=2048)
    texts = [turn.completion.text for one in episodes for turn in one.turns]
    for index, text in enumerate(texts):
        sample = data.sample(index, seed="")
        assert tokenizer.decode(sample.token_ids[:-1]) == text and sample.token_ids[-1] == tokenizer.eos_token_id
        prompt = tokenizer.decode(sample.prompt_token_ids)
        assert prompt.startswith("<|im_start|>") and prompt.endswith("<|im_start|>assistant\n")


def test_the_whole_way_with_an_adapter_on_a_real_model(tmp_path: Path) -> None:
    synth, sft, rl, evaluation = (tmp_path / name for name in ("synth", "sft", "rl", "eval"))
    run("synth", synth, "synth.teacher=random", "synth.keep=all", "synth.episodes_per_task=4")
    run(
        "sft", sft, f"model.path={FOLDER}", f"sft.demonstrations={synth}", "sft.batch_tokens=400", "sft.lr=1e-3", "sft.epochs=1"
    )
    losses = [float(row.values["sft/loss"] or 0) for row in RunFolder.open(sft).read_metrics().rows]
    assert len(losses) >= 2 and losses[-1] < losses[0] < 6
    run("train", rl, f"model.path={sft}", "train.steps=1", "train.tasks_per_step=1", "train.group_size=2", "train.eval_every=0")
    played = episodes_of(rl, "rl")
    assert len(played) == 2 and all(turn.completion.logprobs for one in played for turn in one.turns)
    run("eval", evaluation, f"model.path={rl}")
    assert len(episodes_of(evaluation, "eval")) == 1
    assert main(["export", str(rl), "--merge", "--out", str(tmp_path / "merged")]) == 0
    merged: Any = AutoModelForCausalLM.from_pretrained(tmp_path / "merged", dtype=torch.float32)
    tuned, tokenizer = load_hf(ModelConfig(path=str(rl), device="cpu"))
    ids = torch.tensor([AutoTokenizer.from_pretrained(tmp_path / "merged").encode("go to the kitchen and open the box")])
    with torch.no_grad():
        difference = (merged(ids).logits - tuned(input_ids=ids).logits).abs().max()
    assert difference < 1e-3 and tokenizer.chat_template
