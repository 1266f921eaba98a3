"""LoRA adapters (arXiv 2106.09685) by PEFT: adding one to a model, loading, saving, and finding the base model it belongs to.

An adapter folder holds ``adapter_config.json`` and ``adapter_model.safetensors``, as PEFT writes them, and names its base
model there: a hub id, a built-in name, or a path relative to the adapter, so that both can be moved together.
"""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from dpepo.config import LoraConfig
from dpepo.errors import ConfigError, MissingPackage, did_you_mean

ADAPTER_CONFIG, ADAPTER_WEIGHTS = "adapter_config.json", "adapter_model.safetensors"
_EMBEDDINGS = frozenset({"embed_tokens", "lm_head", "wte"})


def is_adapter(folder: str | Path) -> bool:
    """Whether a folder holds an adapter and not a whole model."""
    return (Path(folder) / ADAPTER_CONFIG).is_file()


def check_peft() -> None:
    """Refuse when PEFT is not installed.

    Raises:
        MissingPackage: With the command that installs it.
    """
    if find_spec("peft") is None:
        raise MissingPackage("peft", extra="train", needed_for="A LoRA adapter")


def adapter_base(folder: str, *, explicit: str = "") -> str:
    """The base model of an adapter: the one named explicitly, or the one that the adapter names.

    Args:
        folder: The adapter's folder. A relative name kept in it counts from there, or else from the working directory.
        explicit: ``model.base``; wins when given.

    Raises:
        ConfigError: The adapter names no base model, or it is not where the adapter says.
    """
    if explicit:
        return explicit
    name = read_adapter_config(folder).get("base_model_name_or_path") or ""
    if not name:
        raise ConfigError(f"The adapter in {folder} names no base model. Name it: model.base=FOLDER_OR_HUB_ID")
    beside = os.path.normpath(Path(folder).resolve() / name)
    if name.startswith("builtin:"):
        return str(name)
    if Path(beside).is_dir():
        return beside
    if Path(name).is_dir() or not _is_path(name):
        return str(name)
    raise ConfigError(
        f"The adapter in {folder} was trained on the model in {name}, which is not there. Name the base: model.base=FOLDER"
    )


def read_adapter_config(folder: str) -> dict[str, Any]:
    """The settings of the adapter in a folder.

    Raises:
        ConfigError: They cannot be read, the adapter is no LoRA, or its weights are not in safetensors.
    """
    try:
        settings = dict(json.loads((Path(folder) / ADAPTER_CONFIG).read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError) as error:
        raise ConfigError(f"model.path: {Path(folder) / ADAPTER_CONFIG} cannot be read: {error}") from None
    if settings.get("peft_type") != "LORA":
        raise ConfigError(f"model.path: the adapter in {folder} is of kind {settings.get('peft_type')}; only LORA is supported")
    if not (Path(folder) / ADAPTER_WEIGHTS).is_file():
        raise ConfigError(f"model.path: the adapter in {folder} has no {ADAPTER_WEIGHTS}. Only safetensors are read")
    return settings


def add_adapter(model: Any, config: LoraConfig, *, base: str, seed: int) -> Any:
    """Wrap a model in a new adapter, which changes nothing until it is trained (its second factor is 0).

    Args:
        model: A causal language model of transformers; its own weights are frozen.
        config: Rank, scale and place.
        base: Name or folder of the model, kept with the adapter.
        seed: Of the first factors; the state of torch's generator is left alone.

    Raises:
        ConfigError: A target does not exist, or shares its weights with the embedding.
    """
    import peft
    import torch

    _check_targets(model, config)
    settings = peft.LoraConfig(
        r=config.rank,
        lora_alpha=config.alpha,
        lora_dropout=config.dropout,
        target_modules=sorted(config.targets),
        task_type="CAUSAL_LM",
    )
    with torch.random.fork_rng(devices=[]), _known_warnings():
        torch.manual_seed(seed)
        wrapped = peft.get_peft_model(model, settings)
    wrapped.peft_config["default"].base_model_name_or_path = base  # PEFT has taken what transformers calls it
    return wrapped


def load_adapter(model: Any, folder: str, *, base: str, train: LoraConfig | None = None) -> Any:
    """Wrap a model in the adapter of a folder.

    Args:
        model: The base model.
        folder: An adapter folder.
        base: Name or folder of the model, kept with the adapter.
        train: Makes the adapter trainable, with this dropout; else it is frozen.

    Raises:
        ConfigError: The adapter cannot be read, does not fit the model, or changes a tied embedding.
    """
    import peft

    read_adapter_config(folder)
    settings = peft.LoraConfig.from_pretrained(folder)
    settings.base_model_name_or_path = base
    settings.lora_dropout = 0.0 if train is None else train.dropout
    try:
        with _known_warnings():
            wrapped = peft.PeftModel.from_pretrained(model, folder, config=settings, is_trainable=train is not None)
    except (RuntimeError, ValueError, KeyError) as error:
        reason = str(error).strip().splitlines()[0]
        raise ConfigError(f"model.path: the adapter in {folder} does not fit its base model {base}: {reason}") from error
    _check_tied(wrapped, folder=folder)
    return wrapped


def read_adapter_weights(model: Any, folder: Path) -> None:
    """Give a model's adapter the weights kept in a folder.

    Raises:
        ValueError: They are not those of this adapter.
    """
    from peft import set_peft_model_state_dict
    from safetensors.torch import load_file

    result: Any = set_peft_model_state_dict(model, load_file(folder / ADAPTER_WEIGHTS))
    missing = [name for name in result.missing_keys if "lora_" in name]
    if missing or result.unexpected_keys:
        raise ValueError(f"the adapter has other tensors, e.g. {[*missing, *result.unexpected_keys][0]}")


def save_adapter(model: Any, folder: Path) -> None:
    """Write an adapter as PEFT does, its base named so that it can be found again from there."""
    settings = model.peft_config["default"]
    base = settings.base_model_name_or_path
    settings.base_model_name_or_path = portable_base(base, folder)
    try:
        # asked to look for changed embeddings, PEFT would call the hub; adapters on them are refused above
        model.save_pretrained(folder, save_embedding_layers=False)
    finally:
        settings.base_model_name_or_path = base
    (folder / "README.md").unlink(missing_ok=True)  # an empty form


def load_plain(name: str, *, adapter: Path | None = None) -> Any:
    """A model in float32 as transformers and PEFT load it, by nothing of ours."""
    import peft
    import torch
    from transformers import AutoModelForCausalLM

    model: Any = AutoModelForCausalLM.from_pretrained(name, dtype=torch.float32, use_safetensors=True)
    if adapter is not None:
        with _known_warnings():
            model = peft.PeftModel.from_pretrained(model, str(adapter))
    return model.eval()


def portable_base(base: str, folder: Path) -> str:
    """A base model's name as seen from an adapter's folder: hub ids and built-in names as they are, folders relative."""
    return os.path.relpath(Path(base).resolve(), folder.resolve()) if Path(base).is_dir() else base


def _is_path(name: str) -> bool:
    return name.startswith(("/", ".", "~")) or name.count("/") > 1


@contextmanager
def _known_warnings() -> Iterator[None]:
    """PEFT reads `is_gradient_checkpointing`, which transformers has renamed; nothing comes of it."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*is_gradient_checkpointing.*", category=FutureWarning)
        yield


def _check_targets(model: Any, config: LoraConfig) -> None:
    from torch.nn import Linear

    tied = _EMBEDDINGS & set(config.targets) if model.config.tie_word_embeddings else set()
    if tied:
        raise ConfigError(
            f"model.lora.targets: {', '.join(sorted(tied))} shares its weights between input and output in this model (tied "
            "embeddings), so an adapter on it could not be merged. Leave it out"
        )
    known = {name.rpartition(".")[2] for name, module in model.named_modules() if isinstance(module, Linear)}
    for target in config.targets:
        if target not in known:
            raise ConfigError(f"model.lora.targets: the model has no linear layer {target!r}. {did_you_mean(target, known)}")


def check_same_adapter(config: LoraConfig, folder: str) -> None:
    """Training goes on with an adapter as it is, so the settings must be its own; dropout may differ.

    Raises:
        ConfigError: They are not: what the adapter has, what is configured, and what to do.
    """
    found = read_adapter_config(folder)
    if not config.rank:
        raise ConfigError(
            f"model.path {folder} is an adapter, but model.lora.rank is 0, which trains all weights. Give model.lora.* as it "
            "was trained, or merge it first: dpepo export RUN --merge"
        )
    targets = found["target_modules"]
    pairs = {
        "model.lora.rank": (found["r"], config.rank),
        "model.lora.alpha": (found["lora_alpha"], config.alpha),
        "model.lora.targets": (sorted([targets] if isinstance(targets, str) else targets), sorted(config.targets)),
    }
    differs = [f"{key} is {now}, the adapter's is {was}" for key, (was, now) in pairs.items() if was != now]
    if differs:
        raise ConfigError(
            f"model.path {folder} is an adapter, and training goes on with it as it is: {'; '.join(differs)}. Use its "
            "settings, or merge it first (dpepo export RUN --merge) and start from the merged model"
        )


def _check_tied(model: Any, *, folder: str) -> None:
    names = [name for name, _ in model.named_parameters() if "lora_" in name or "modules_to_save" in name]
    tied = sorted({part for name in names for part in name.split(".") if part in _EMBEDDINGS})
    if tied and model.config.tie_word_embeddings:
        raise ConfigError(
            f"model.path: the adapter in {folder} changes {tied[0]}, which its base model shares between input and output "
            "(tied embeddings): the two would no longer agree. Such adapters are not supported"
        )
