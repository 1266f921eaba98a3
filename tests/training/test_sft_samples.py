"""Samples and batches of supervised fine-tuning: nothing cut, nothing lost, the end token learnt, packing exact."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.support.tiny_models import sample, tiny_model
from tests.support.toy_jobs import SETTINGS, Notes, open_run, toy_config, write_model

from dpepo.cli import main
from dpepo.config import SftConfig
from dpepo.errors import TaskError
from dpepo.learning import Learner, supervised_config
from dpepo.policies import load_hf
from dpepo.protocol import encode_prompt
from dpepo.runs.rundir import RunFolder
from dpepo.synthesis import run_synth
from dpepo.synthesis.formats import export_data, import_data
from dpepo.training.demonstrations import DemonstrationSet, load_demonstrations
from dpepo.training.sft import SftResult, run_sft

REPLY = "<think>look</think><parallel><env_1>look</env_1></parallel>"


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_model(tmp_path_factory.mktemp("model"))


def demonstrations(folder: Path, prompts: list[str]) -> Path:
    """A run folder with a turn per prompt, each with the same reply."""
    talks = [[{"role": "user", "content": prompt}, {"role": "assistant", "content": REPLY}] for prompt in prompts]
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "talks.json").write_text(json.dumps(talks))
    run = open_run(config := toy_config(folder / "run"), "import")
    import_data(config, source=folder / "talks.json", run=run, progress=Notes())
    run.close()
    return folder / "run"


def make_set(folder: Path, model: Path, *, max_length: int = 256) -> DemonstrationSet:
    tokenizer = load_hf(toy_config(folder, f"model.path={model}").model)[1]
    return DemonstrationSet(load_demonstrations(str(folder), progress=Notes()), tokenizer=tokenizer, max_length=max_length)


def tune(folder: Path, model: Path, source: Path, *settings: str) -> SftResult:
    config = toy_config(folder, f"model.path={model}", f"sft.demonstrations={source}", *settings)
    run = open_run(config, "sft")
    try:
        return run_sft(config, run=run, progress=Notes())
    finally:
        run.close()


@pytest.mark.parametrize(("count", "steps"), [(7, 2), (3, 1)])
def test_a_batch_that_is_not_full_is_learnt_from_too(model: Path, tmp_path: Path, count: int, steps: int) -> None:
    """Case F12: 7 samples in batches of 4 are two steps, 3 samples are one; every sample is used in every epoch."""
    source = demonstrations(tmp_path, ["look"] * count)
    [length] = set(make_set(source, model).lengths)
    result = tune(tmp_path / "sft", model, source, f"sft.batch_tokens={4 * length}", "sft.epochs=2")
    assert (result.samples, result.dropped, result.steps) == (count, 0, 2 * steps)
    rows = RunFolder.open(tmp_path / "sft").read_metrics().rows
    reply_tokens = [float(row.values["sft/tokens"] or 0) for row in rows]
    assert sum(reply_tokens) == 2 * count * len(make_set(source, model).sample(0, seed="").token_ids)


def test_a_turn_that_does_not_fit_is_left_out_whole_and_the_others_keep_their_whole_prompt(model: Path, tmp_path: Path) -> None:
    """Cases B07 and T03: limit 100, a prompt of more than 120: left out and counted; nothing is ever cut."""
    source = demonstrations(tmp_path, ["look", "look " * 120, "open look"])
    data = make_set(source, model, max_length=100)
    assert (len(data), data.num_dropped) == (2, 1)
    tokenizer = load_hf(toy_config(tmp_path, f"model.path={model}").model)[1]
    turns = [turn for one in load_demonstrations(str(source), progress=Notes()) for turn in one.turns]
    for index, turn in enumerate((turns[0], turns[2])):
        assert list(data.sample(index, seed="").prompt_token_ids) == encode_prompt(tokenizer, turn.prompt)


def test_a_run_in_which_no_sample_fits_does_not_end_well(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Case T03, from the command line: not exit code 0, and no model."""
    source = demonstrations(tmp_path, ["look " * 200])
    words = [
        *SETTINGS,
        f"model.path={model}",
        f"sft.demonstrations={source}",
        "model.max_length=64",
        f"run.dir={tmp_path / 'sft'}",
    ]
    assert main(["sft", *words]) == 2
    assert "None of 1 demonstrated turns fits model.max_length 64" in capsys.readouterr().err
    assert not (tmp_path / "sft" / "checkpoints").exists()


def test_the_end_token_is_learnt_although_it_pads_as_well(model: Path, tmp_path: Path) -> None:
    """Case T02: padding and end are one token; the end of every reply counts in the loss, once, and padding never."""
    source = demonstrations(tmp_path, ["look", "open look look"])
    loaded, tokenizer = load_hf(toy_config(tmp_path, f"model.path={model}").model, train=True)
    tokenizer.pad_token = tokenizer.eos_token
    data = DemonstrationSet(load_demonstrations(str(source), progress=Notes()), tokenizer=tokenizer, max_length=256)
    samples = [data.sample(index, seed="") for index in range(2)]
    assert all(one.token_ids.count(int(tokenizer.eos_token_id)) == 1 for one in samples)
    assert all(one.token_ids[-1] == tokenizer.eos_token_id for one in samples)
    learner = Learner(loaded, config=supervised_config(SftConfig(), micro_tokens=1000))
    assert learner.supervised_step(samples)["sft/tokens"] == sum(len(one.token_ids) for one in samples)
    again = Learner(tiny_model(), config=supervised_config(SftConfig(), micro_tokens=1000))
    assert again.supervised_step([sample((1, 2), (4, 5, 0))])["sft/tokens"] == 3


@pytest.mark.parametrize("micro_tokens", [6, 1000])
def test_packing_and_cutting_change_nothing_in_a_supervised_step(micro_tokens: int) -> None:
    """Samples with shared beginnings in one pack give the loss and the gradient that they give one by one."""
    samples = [sample((1, 2, 3, 4), (5, 6, 0)), sample((1, 2, 3, 4), (5, 7, 0)), sample((1, 2, 9), (0,))]
    packed, alone = tiny_model(), tiny_model()
    one = Learner(packed, config=supervised_config(SftConfig(lr=1e-2), micro_tokens=micro_tokens))
    other = Learner(alone, config=supervised_config(SftConfig(lr=1e-2), micro_tokens=1), share_prompts=False)
    left, right = one.supervised_step(samples), other.supervised_step(samples)
    for name in ("sft/loss", "sft/grad_norm"):
        assert left[name] == pytest.approx(right[name], rel=1e-4), name
    assert one.supervised_loss(samples) == pytest.approx(other.supervised_loss(samples), rel=1e-3)
    assert one.supervised_loss(samples) < left["sft/loss"]


def test_success_and_validation_loss_are_taken_after_every_epoch(model: Path, tmp_path: Path) -> None:
    """With eval_every 1: as many of each as epochs, at the last step of each."""
    config = toy_config(tmp_path / "synth", "synth.teacher=oracle", "tasks.train.limit=6", "rollout.max_turns=4")
    run = open_run(config, "synth")
    run_synth(config, run=run, progress=Notes())
    run.close()
    settings = ("sft.epochs=3", "sft.val_share=0.3", "sft.eval_every=1", "tasks.eval.limit=2", "sampling.max_new_tokens=4")
    result = tune(tmp_path / "sft", model, tmp_path / "synth", *settings, "sft.batch_tokens=600")
    rows = RunFolder.open(tmp_path / "sft").read_metrics().rows
    measured = [row.step for row in rows if "val/success_rate" in row.values and "val/loss" in row.values]
    assert measured == [result.steps // 3, 2 * result.steps // 3, result.steps]


def test_a_file_of_rows_is_no_demonstration_and_it_is_said_what_to_do(tmp_path: Path) -> None:
    source = demonstrations(tmp_path, ["look"])
    export_data(source, format="turns", out=tmp_path / "rows.jsonl")
    export_data(source, format="turns", out=tmp_path / "rows.parquet")
    for name in ("rows.jsonl", "rows.parquet"):
        with pytest.raises(TaskError, match="dpepo data import"):
            load_demonstrations(str(tmp_path / name), progress=Notes())
