"""The walls between recorded text and the page."""

from __future__ import annotations

import base64
import json
import zlib
from pathlib import Path

import pytest
from tests.support.sample_episodes import HOSTILE

from dpepo.errors import RunFolderError
from dpepo.runs.web_page import json_for_script, packed, render_page, web_file, write_page


@pytest.mark.parametrize("text", HOSTILE)
def test_recorded_text_inside_a_script_element_keeps_no_character_that_could_end_it(text: str) -> None:
    written = json_for_script({"text": text, text: [text]})
    assert not set(written) & set("<>&")
    assert written.isascii()
    assert json.loads(written) == {"text": text, text: [text]}


def test_numbers_that_json_lacks_become_words_instead_of_breaking_the_page() -> None:
    assert json.loads(json_for_script([float("nan"), float("inf"), 0.5])) == ["nan", "inf", 0.5]


def test_packed_chunks_give_back_what_went_in() -> None:
    value = {"texts": list(HOSTILE)}
    assert json.loads(zlib.decompress(base64.b64decode(packed(value)))) == value


def test_titles_are_escaped_and_only_our_two_scripts_are_allowed_to_run() -> None:
    page = render_page("viewer.html.j2", styles=("base.css",), scripts=("lanes.js",), title=HOSTILE[1], index="{}", chunks=[])
    assert "<title>&lt;/script&gt;" in page
    policy = page.split("script-src", 1)[1].split(";", 1)[0]
    assert policy.count("sha256-") == 2
    assert "unsafe" not in policy


@pytest.mark.parametrize(
    "name", ["theme.js", "lanes.js", "store.js", "list.js", "siblings.js", "viewer.js", "report.js", "runs.js"]
)
def test_our_scripts_never_parse_markup(name: str) -> None:
    script = web_file(name)
    for way_in in (
        "innerHTML",
        "outerHTML",
        "insertAdjacentHTML",
        "document.write",
        "eval(",
        "new Function",
        "DOMParser",
        "</script",
    ):
        assert way_in not in script


def test_a_page_replaces_an_older_page_and_no_other_file(tmp_path: Path) -> None:
    for text in ("<!doctype html>one", "<!doctype html>two"):
        assert write_page(text, tmp_path / "a.html").read_text() == text
    (tmp_path / "run.json").write_text("{}")
    with pytest.raises(RunFolderError, match="exists and is no page"):
        write_page("<!doctype html>", tmp_path / "run.json")
    assert (tmp_path / "run.json").read_text() == "{}"
