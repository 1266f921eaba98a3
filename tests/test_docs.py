"""What the texts for people point to exists."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from dpepo.errors import ConfigError
from dpepo.keys import known_keys
from dpepo.recipes import load_config

ROOT = Path(__file__).parents[1]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "recipes").rglob("*.md")])


def name(path: Path) -> str:
    return str(path.relative_to(ROOT))


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_links_to_files_of_the_project_lead_somewhere(page: Path) -> None:
    links = re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8"))
    local = [link for link in links if not re.match(r"[a-z]+:", link)]
    assert [link for link in local if not (page.parent / link).exists()] == []


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_commands_in_the_texts_use_keys_and_recipes_that_exist(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    for line in re.findall(r"^(?:\.venv/bin/)?dpepo (?:synth|sft|train|eval|config) .*", text, re.MULTILINE):
        words = line.partition("#")[0].split()[2:]
        recipes = [word for word in words if word.endswith(".yaml")]
        assert all((ROOT / recipe).is_file() for recipe in recipes), line
        settings = [word for word in words if re.fullmatch(r"[a-z_.]+=\S+", word)]
        assert {setting.partition("=")[0] for setting in settings} <= known_keys().keys(), line
        try:
            load_config(ROOT / recipes[0] if recipes else None, settings)
        except ConfigError as error:
            pytest.fail(f"{line}: {error}")
