from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.support.families import write_family

from dpepo.config import ModelConfig
from dpepo.errors import ConfigError
from dpepo.policies import BUILTIN_MODELS, load_hf, model_folder


def test_a_builtin_model_is_a_folder_of_the_package() -> None:
    for name in BUILTIN_MODELS:
        assert Path(model_folder(f"builtin:{name}")).parent.name == "demo"


@pytest.mark.parametrize(
    ("path", "says"),
    [
        ("", "model.path is empty"),
        ("builtin:serch-base", "Did you mean 'search-base'"),
        ("/no/such/folder", "there is no folder"),
        ("./neither/this", "there is no folder"),
    ],
)
def test_a_wrong_path_is_a_wrong_request(path: str, says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        load_hf(ModelConfig(path=path))


def test_a_name_that_is_neither_folder_nor_known_to_the_hub_is_asked_for_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def unreachable(self: Any, name: str, **options: Any) -> None:
        asked.append(name)
        raise ConnectionError("Name or service not known")

    monkeypatch.setattr("huggingface_hub.HfApi.model_info", unreachable)
    with pytest.raises(ConfigError, match=r"no folder 'runs/nothing', and no such model.*Name or service not known"):
        load_hf(ModelConfig(path="runs/nothing"))
    assert asked == ["runs/nothing"]


def test_a_folder_without_a_model_is_a_wrong_request(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"no config\.json and no adapter_config\.json"):
        load_hf(ModelConfig(path=str(tmp_path)))


@pytest.mark.parametrize("inside", ["", "model", "latest/model", "checkpoints/latest/model"])
def test_a_run_or_a_checkpoint_stands_for_its_newest_model(tmp_path: Path, inside: str) -> None:
    (tmp_path / inside).mkdir(parents=True, exist_ok=True)
    (tmp_path / inside / "config.json").write_text("{}")
    assert Path(model_folder(str(tmp_path))) == tmp_path / inside


def test_a_damaged_model_folder_is_named(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"model_type": "qwen2"}')
    with pytest.raises(ConfigError, match=f"could not load '{tmp_path}'"):
        load_hf(ModelConfig(path=str(tmp_path), device="cpu"))


def test_a_model_that_brings_its_own_code_is_refused_and_the_code_not_run(tmp_path: Path) -> None:
    write_family(tmp_path, "qwen3")
    own = {"model_type": "mine", "auto_map": {"AutoConfig": "mine.Mine", "AutoModelForCausalLM": "mine.Model"}}
    (tmp_path / "config.json").write_text(json.dumps(own))
    (tmp_path / "mine.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w').close()")
    with pytest.raises(ConfigError, match="code of its own, which is never run"):
        load_hf(ModelConfig(path=str(tmp_path), device="cpu"))
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize(("device", "says"), [("gpu", "is not a device"), ("cuda:7", "no CUDA device")])
def test_a_device_that_is_not_there_is_a_wrong_request(tmp_path: Path, device: str, says: str) -> None:
    import torch

    if torch.cuda.is_available():
        pytest.skip("this machine has a CUDA device")
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(ConfigError, match=says):
        load_hf(ModelConfig(path=str(tmp_path), device=device))


def test_importing_policies_and_rollout_starts_nothing_heavy() -> None:
    code = "import sys, dpepo.policies, dpepo.rollout; print({'torch', 'transformers', 'numpy', 'py4j'} & set(sys.modules))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip() == "set()"
