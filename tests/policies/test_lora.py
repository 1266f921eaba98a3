"""Adapters: new, loaded, trained on, sampled with, and what is refused."""

from __future__ import annotations

import json
import shutil
import warnings
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from tests.support.families import FAMILIES, logits, shake, write_family

from dpepo.config import LoraConfig, ModelConfig
from dpepo.errors import ConfigError
from dpepo.policies import HfPolicy, load_hf
from dpepo.policies.lora import adapter_base, is_adapter, save_adapter
from dpepo.protocol import encode_prompt
from dpepo.types import EpisodeView, Message, Observation, Prompt, Request, Sampling, WorldGuide

LORA = LoraConfig(rank=4, alpha=8)


def lora_model(path: Path | str, *, train: bool = True, seed: int = 0, **changes: Any) -> tuple[Any, Any]:
    config = ModelConfig(path=str(path), device="cpu", max_length=128, **{"lora": LORA, **changes})
    return load_hf(config, train=train, seed=seed)


def saved_adapter(folder: Path, base: Path, **changes: Any) -> Path:
    model, tokenizer = lora_model(base, **changes)
    shake(model)
    save_adapter(model, folder)
    tokenizer.save_pretrained(folder)
    return folder


@pytest.mark.parametrize("family", FAMILIES)
def test_a_new_adapter_changes_nothing_and_alone_is_trainable(tmp_path: Path, family: str) -> None:
    base = write_family(tmp_path / "base", family)
    whole = load_hf(ModelConfig(path=str(base), device="cpu"))[0]
    model, _ = lora_model(base)
    assert torch.equal(logits(model), logits(whole))
    trainable = {name for name, parameter in model.named_parameters() if parameter.requires_grad}
    assert trainable and all("lora_" in name for name in trainable)
    assert len(trainable) == 2 * 7 * 2  # layers, kinds of linear layer, factors
    again, other = lora_model(base)[0], lora_model(base, seed=1)[0]
    for (name, one), (_, same), (_, new) in zip(*(m.named_parameters() for m in (model, again, other)), strict=True):
        assert torch.equal(one, same)
        assert torch.equal(one, new) is ("lora_A" not in name)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_replies_are_drawn_with_the_adapter_on_and_their_log_probabilities_are_its_own(
    tmp_path: Path, family: str, dtype: str
) -> None:
    """The batched decoder with shared prompts, against one plain forward pass per reply."""
    model, tokenizer = lora_model(write_family(tmp_path / "base", family), dtype=dtype)
    before = _replies(model, tokenizer)
    shake(model)
    after = _replies(model, tokenizer)
    assert [reply.token_ids for reply in before] != [reply.token_ids for reply in after]
    for reply in after:
        ids = (*reply.prompt_token_ids, *reply.token_ids)
        rows = torch.log_softmax(logits(model, ids).float(), dim=-1)[len(reply.prompt_token_ids) - 1 : -1]
        plain = [float(row[token]) for row, token in zip(rows, reply.token_ids, strict=True)]
        assert reply.logprobs == pytest.approx(plain, abs=1e-4 if dtype == "float32" else 0.2)


def _replies(model: Any, tokenizer: Any) -> list[Any]:
    policy = HfPolicy(model, tokenizer, encode=encode_prompt, max_length=128)
    prompts = [Prompt(messages=(Message(role="user", content=text),)) for text in ("open red box", "look", "look")]
    view = EpisodeView(goal="g", guide=WorldGuide(role="r"), initial=Observation(text="t"), num_envs=1)
    requests = [Request(prompt=prompt, view=view, seed=seed) for seed, prompt in enumerate(prompts)]
    return policy.generate(requests, sampling=Sampling(temperature=1.0, top_p=1.0, max_new_tokens=8))


def test_peft_makes_no_noise(tmp_path: Path) -> None:
    base = write_family(tmp_path / "base", "qwen2")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        saved_adapter(tmp_path / "adapter", base)
        lora_model(tmp_path / "adapter")
    assert [str(warning.message) for warning in caught if "gradient" in str(warning.message)] == []


def test_a_saved_adapter_is_a_folder_of_peft_with_the_base_named_relative_to_it(tmp_path: Path) -> None:
    """X03."""
    base = write_family(tmp_path / "models" / "base", "qwen2")
    adapter = saved_adapter(tmp_path / "runs" / "one", base)
    assert is_adapter(adapter) and not is_adapter(base)
    assert json.loads((adapter / "adapter_config.json").read_text())["base_model_name_or_path"] == "../../models/base"
    assert "README.md" not in {file.name for file in adapter.iterdir()}
    shutil.move(tmp_path / "models", tmp_path / "elsewhere" / "models")
    shutil.move(tmp_path / "runs", tmp_path / "elsewhere" / "runs")
    moved = tmp_path / "elsewhere" / "runs" / "one"
    model, _ = lora_model(moved, train=False)  # moved together, they find each other
    shutil.move(tmp_path / "elsewhere" / "models", tmp_path / "models")
    with pytest.raises(ConfigError, match=r"models/base, which is not there\. Name the base: model\.base="):
        lora_model(moved, train=False)
    again, _ = lora_model(moved, train=False, base=str(base))
    assert torch.equal(logits(again), logits(model))


def test_a_hub_id_or_a_built_in_name_of_the_base_is_kept_as_it_is(tmp_path: Path) -> None:
    model, _ = lora_model("builtin:search-base")
    save_adapter(model, tmp_path)
    assert adapter_base(str(tmp_path)) == "builtin:search-base"
    save_adapter(lora_model(tmp_path)[0], tmp_path)  # and after another run
    assert adapter_base(str(tmp_path)) == "builtin:search-base"
    settings = json.loads((tmp_path / "adapter_config.json").read_text())
    (tmp_path / "adapter_config.json").write_text(json.dumps({**settings, "base_model_name_or_path": "Qwen/Qwen2.5-0.5B"}))
    assert adapter_base(str(tmp_path)) == "Qwen/Qwen2.5-0.5B"


def test_an_adapter_in_model_path_is_what_answers_and_what_is_trained_on(tmp_path: Path) -> None:
    """X07: the adapter that is named is loaded, and trainable where it is to be trained."""
    base = write_family(tmp_path / "base", "qwen3")
    adapter = saved_adapter(tmp_path / "adapter", base)
    plain = load_hf(ModelConfig(path=str(base), device="cpu"))[0]
    answering, _ = lora_model(adapter, train=False, lora=LoraConfig())
    training, _ = lora_model(adapter)
    assert torch.equal(logits(answering), logits(training))
    assert not torch.allclose(logits(answering), logits(plain), atol=1e-2)
    assert not any(parameter.requires_grad for name, parameter in answering.named_parameters() if "lora_" in name)
    assert all(parameter.requires_grad == ("lora_" in name) for name, parameter in training.named_parameters())


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"rank": 8}, r"model\.lora\.rank is 8, the adapter's is 4"),
        ({"alpha": 16}, r"model\.lora\.alpha is 16, the adapter's is 8"),
        ({"targets": ("q_proj",)}, r"model\.lora\.targets is \['q_proj'\]"),
        ({"rank": 0}, r"model\.lora\.rank is 0, which trains all weights"),
    ],
)
def test_an_adapter_is_not_trained_on_under_other_settings(tmp_path: Path, changes: dict[str, Any], says: str) -> None:
    adapter = saved_adapter(tmp_path / "adapter", write_family(tmp_path / "base", "qwen2"))
    with pytest.raises(ConfigError, match=says):
        lora_model(adapter, lora=LORA.model_copy(update=changes))


@pytest.mark.parametrize("target", ["lm_head", "embed_tokens"])
def test_an_adapter_on_tied_embeddings_is_refused(tmp_path: Path, target: str) -> None:
    """X02."""
    tied, untied = write_family(tmp_path / "tied", "qwen2"), write_family(tmp_path / "untied", "qwen2", tied=False)
    lora = LORA.model_copy(update={"targets": ("q_proj", target)})
    with pytest.raises(ConfigError, match=f"{target} shares its weights"):
        lora_model(tied, lora=lora)
    if target == "lm_head":
        lora_model(untied, lora=lora)


def test_a_foreign_adapter_on_tied_embeddings_is_refused(tmp_path: Path) -> None:
    """X02: made by PEFT, which allows it."""
    import peft

    base = write_family(tmp_path / "base", "qwen2")
    plain: Any = load_hf(ModelConfig(path=str(base), device="cpu"))[0]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        settings = peft.LoraConfig(
            r=4, target_modules=["q_proj", "lm_head"], task_type="CAUSAL_LM", base_model_name_or_path=str(base)
        )
        peft.get_peft_model(plain, settings).save_pretrained(str(tmp_path / "adapter"), save_embedding_layers=False)
        with pytest.raises(ConfigError, match="tied"):
            lora_model(tmp_path / "adapter", train=False)


def test_a_target_that_does_not_exist_is_named_with_the_nearest_that_does(tmp_path: Path) -> None:
    base = write_family(tmp_path / "base", "llama")
    with pytest.raises(ConfigError, match=r"no linear layer 'q_prj'.*q_proj"):
        lora_model(base, lora=LORA.model_copy(update={"targets": ("q_prj",)}))


def test_weights_that_could_run_code_are_not_read(tmp_path: Path) -> None:
    base = write_family(tmp_path / "base", "qwen2")
    adapter = saved_adapter(tmp_path / "adapter", base)
    torch.save(load_file(adapter / "adapter_model.safetensors"), adapter / "adapter_model.bin")
    (adapter / "adapter_model.safetensors").unlink()
    with pytest.raises(ConfigError, match=r"no adapter_model\.safetensors"):
        lora_model(adapter, train=False)
    torch.save(load_file(base / "model.safetensors"), base / "pytorch_model.bin")
    (base / "model.safetensors").unlink()
    with pytest.raises(ConfigError, match=r"no \*\.safetensors"):
        lora_model(base)


def test_a_base_for_something_that_is_no_adapter_is_refused(tmp_path: Path) -> None:
    base = write_family(tmp_path / "base", "qwen2")
    with pytest.raises(ConfigError, match=r"model\.base is set"):
        lora_model(base, base=str(base))


def test_an_adapter_that_does_not_fit_its_base_is_named(tmp_path: Path) -> None:
    adapter = saved_adapter(tmp_path / "adapter", write_family(tmp_path / "base", "qwen2"))
    wider = write_family(tmp_path / "wider", "qwen2", hidden_size=32)
    with pytest.raises(ConfigError, match="does not fit its base model"):
        lora_model(adapter, train=False, base=str(wider))
