"""Exported folders: what transformers and PEFT alone make of them, and what is refused."""

from __future__ import annotations

import json
import shutil
import warnings
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from tests.support.families import FAMILIES, logits, shake, write_family
from tests.support.toy_jobs import ColdStart, Notes, open_run, toy_config
from transformers import AutoModelForCausalLM, AutoTokenizer, GenerationConfig

from dpepo.cli import main
from dpepo.config import LoraConfig, ModelConfig
from dpepo.errors import ConfigError, JobError
from dpepo.policies import load_hf
from dpepo.policies.lora import save_adapter
from dpepo.training.export import export_model
from dpepo.training.sft import run_sft


def write_adapter(folder: Path, base: Path, *, size: float = 0.2, targets: tuple[str, ...] = ("q_proj", "down_proj")) -> Path:
    lora = LoraConfig(rank=4, alpha=8, targets=targets)
    model, tokenizer = load_hf(ModelConfig(path=str(base), device="cpu", lora=lora), train=True)
    shake(model, size=size)
    save_adapter(model, folder)
    tokenizer.save_pretrained(folder)
    return folder


def plain(folder: Path) -> Any:
    model: Any = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    return model.eval()


def with_adapter(base: Path, adapter: Path) -> Any:
    import peft

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        return peft.PeftModel.from_pretrained(plain(base), str(adapter)).eval()


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("tied", [True, False])
def test_a_merged_model_says_what_base_and_adapter_say_together(tmp_path: Path, family: str, tied: bool) -> None:
    """Cases X01 and X02: not the base byte for byte, and tied embeddings stay tied."""
    base = write_family(tmp_path / "base", family, tied=tied)
    adapter = write_adapter(tmp_path / "adapter", base, targets=("q_proj", "down_proj") if tied else ("q_proj", "lm_head"))
    result = export_model(str(adapter), merge=True)
    assert result.folder == str(tmp_path / "adapter-merged")
    assert result.difference < 1e-3
    merged = plain(Path(result.folder))
    assert torch.allclose(logits(merged), logits(with_adapter(base, adapter)), atol=1e-3)
    assert not torch.allclose(logits(merged), logits(plain(base)), atol=1e-2)
    assert merged.config.tie_word_embeddings is tied
    assert (merged.get_input_embeddings().weight is merged.get_output_embeddings().weight) is tied
    tensors = load_file(Path(result.folder) / "model.safetensors")
    assert ("lm_head.weight" in tensors) is not tied
    assert tensors.keys() == load_file(base / "model.safetensors").keys()


def test_an_exported_adapter_loads_by_peft_on_a_base_that_is_named(tmp_path: Path) -> None:
    """Case X03: moved elsewhere, and the base as well."""
    base = write_family(tmp_path / "base", "qwen2")
    adapter = write_adapter(tmp_path / "runs" / "adapter", base)
    expected = logits(with_adapter(base, adapter))
    result = export_model(str(adapter), out=tmp_path / "out" / "mine")
    settings = json.loads((tmp_path / "out" / "mine" / "adapter_config.json").read_text())
    assert settings["base_model_name_or_path"] == "../../base"
    assert any("../../base" in note and "--merge" in note for note in result.notes)
    shutil.move(tmp_path / "out" / "mine", tmp_path / "other")
    shutil.move(base, tmp_path / "moved")
    assert torch.equal(logits(with_adapter(tmp_path / "moved", tmp_path / "other")), expected)
    ours = load_hf(ModelConfig(path=str(tmp_path / "other"), base=str(tmp_path / "moved"), device="cpu"))[0]
    assert torch.equal(logits(ours), expected)
    with pytest.raises(ConfigError, match=r"model\.base="):
        export_model(str(tmp_path / "other"), merge=True)
    assert export_model(str(tmp_path / "other"), merge=True, base=str(tmp_path / "moved")).difference < 1e-3


def test_a_run_is_exported_with_its_tokenizer_its_template_and_the_settings_it_was_evaluated_with(
    cold_start: ColdStart, tmp_path: Path
) -> None:
    paths = (f"model.path={cold_start.model}", f"sft.demonstrations={cold_start.demonstrations}")
    lora = ("model.lora.rank=2", "sft.epochs=1", "sft.lr=1e-2", "eval.temperature=0.4", "sampling.top_p=0.9")
    config = toy_config(tmp_path / "run", *paths, *lora)
    run_sft(config, run=open_run(config, "sft"), progress=Notes())
    folder = Path(export_model(str(tmp_path / "run"), merge=True).folder)
    assert folder == tmp_path / "run-merged"
    assert {file.suffix for file in folder.iterdir() if "model." in file.name} == {".safetensors"}
    drawn = GenerationConfig.from_pretrained(folder)
    tokenizer: Any = AutoTokenizer.from_pretrained(folder)
    ours = load_hf(ModelConfig(path=str(tmp_path / "run"), device="cpu"))[1]
    assert (drawn.eos_token_id, drawn.pad_token_id) == (tokenizer.eos_token_id, tokenizer.pad_token_id)
    assert (drawn.do_sample, drawn.temperature, drawn.top_p, drawn.top_k) == (True, 0.4, 0.9, 0)
    assert tokenizer.chat_template == ours.chat_template
    assert tokenizer.get_vocab() == ours.get_vocab()
    model = plain(folder)
    encoded = tokenizer.apply_chat_template([{"role": "user", "content": "open red box"}], add_generation_prompt=True)
    ids = torch.tensor([encoded["input_ids"]])
    assert model.generate(ids, max_new_tokens=3).shape[1] > ids.shape[1]  # as anyone would, without us


def test_a_whole_model_is_exported_as_it_is(cold_start: ColdStart) -> None:
    result = export_model(str(cold_start.run), out=cold_start.run.parent / "whole-export")
    assert (result.kind, result.difference) == ("model", 0.0)
    one, other = load_file(cold_start.model / "model.safetensors"), load_file(Path(result.folder) / "model.safetensors")
    assert one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


def test_a_checkpoint_can_be_chosen_and_a_damaged_one_is_refused(cold_start: ColdStart, tmp_path: Path) -> None:
    run = shutil.copytree(cold_start.run, tmp_path / "run", symlinks=True)
    steps = sorted(path.name for path in (run / "checkpoints").glob("step-*"))
    result = export_model(str(run), checkpoint=str(int(steps[-1].removeprefix("step-"))), out=tmp_path / "one")
    assert result.kind == "model"
    with pytest.raises(ConfigError, match=rf"no checkpoint 'best'\. It has: latest, {steps[0]}"):
        export_model(str(run), checkpoint="best")
    (run / "checkpoints" / steps[-1] / "model" / "config.json").write_text("{}")
    with pytest.raises(ConfigError, match=r"config\.json has 2 bytes.*Try: --checkpoint"):
        export_model(str(run), out=tmp_path / "two")
    assert not (tmp_path / "two").exists()


def test_nothing_is_overwritten(tmp_path: Path) -> None:
    base = write_family(tmp_path / "base", "llama")
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "thesis.txt").write_text("mine")
    with pytest.raises(ConfigError, match="nothing is overwritten"):
        export_model(str(base), out=tmp_path / "out")
    with pytest.raises(ConfigError, match="nothing is overwritten"):
        export_model(str(base), out=tmp_path / "out" / "thesis.txt")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["base", "out"]


def test_what_does_not_say_the_same_when_loaded_back_is_not_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A save that goes wrong, as merging has elsewhere: the base is written in place of the merged model."""
    base = write_family(tmp_path / "base", "qwen2")
    adapter = write_adapter(tmp_path / "adapter", base)
    monkeypatch.setattr("peft.tuners.lora.LoraModel.merge_and_unload", lambda self: self.unload())
    with pytest.raises(JobError, match="does not say the same"):
        export_model(str(adapter), merge=True)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["adapter", "base"]


def test_an_adapter_that_bfloat16_would_swallow_is_not_merged_into_it(tmp_path: Path) -> None:
    """A few steps at a rate of 1e-6 are less than the last bit of most weights."""
    base = write_family(tmp_path / "base", "qwen2")
    model = plain(base).bfloat16()
    model.save_pretrained(base)
    small = write_adapter(tmp_path / "small", base, size=1e-4)
    with pytest.raises(JobError, match=r"Try: --dtype float32"):
        export_model(str(small), merge=True)
    assert export_model(str(small), merge=True, dtype="float32").difference < 1e-3
    large = write_adapter(tmp_path / "large", base, size=0.3)
    folder = Path(export_model(str(large), merge=True).folder)
    assert {tensor.dtype for tensor in load_file(folder / "model.safetensors").values()} == {torch.bfloat16}
    assert json.loads((folder / "config.json").read_text())["dtype"] == "bfloat16"


def test_an_adapter_without_effect_is_said(tmp_path: Path) -> None:
    adapter = write_adapter(tmp_path / "adapter", write_family(tmp_path / "base", "qwen3"), size=0.0)
    assert any("changes nothing" in note for note in export_model(str(adapter), merge=True).notes)


def test_weights_that_are_not_numbers_are_not_exported(tmp_path: Path) -> None:
    base = write_family(tmp_path / "base", "qwen2")
    tensors = load_file(base / "model.safetensors")
    tensors["model.norm.weight"] *= float("nan")
    save_file(tensors, base / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(JobError):
        export_model(str(base))


def test_the_command_exports_and_refuses(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    adapter = write_adapter(tmp_path / "adapter", write_family(tmp_path / "base", "qwen2"))
    assert main(["export", str(adapter), "--merge", "--out", str(tmp_path / "out")]) == 0
    said = capsys.readouterr().out
    assert f"Wrote the model to {tmp_path / 'out'}" in said and "log-probabilities differ by at most" in said
    assert main(["export", str(adapter), "--merge", "--out", str(tmp_path / "out")]) == 2
    assert main(["export", str(tmp_path / "nothing")]) == 2
    assert main(["export", str(adapter), "--dtype", "float16"]) == 2
    assert main(["export", str(adapter), "--dtype", "bfloat16"]) == 2
    assert "--merge" in capsys.readouterr().err
