"""The pages in a real browser: they load, filter, open a turn, survive hostile text and stay usable with 10,000 episodes."""

from __future__ import annotations

import json
import re
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.browser import Browser, Reader, browser, missing
from tests.support.sample_episodes import (
    HOSTILE,
    credited,
    hostile_episode,
    lifespan_episode,
    lost_episode,
    scored,
    write_sample_run,
)

from dpepo.runs.advantages import episode_advantages, write_advantages
from dpepo.runs.episodes import write_episodes
from dpepo.runs.report import write_report
from dpepo.runs.serve import serving
from dpepo.runs.viewer import write_viewer
from dpepo.types import EpisodeGroup

pytestmark = pytest.mark.skipif(bool(missing()), reason=f"browser tests need a browser: {missing()}")


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run with both pages written."""
    folder = tmp_path_factory.mktemp("pages") / "sample run"
    write_sample_run(folder, groups=3)
    write_viewer(folder)
    write_report(folder)
    return folder


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    with browser() as running:
        yield running


@pytest.fixture
def window(chromium: Browser) -> Iterator[Reader]:
    with chromium.window() as opened:
        yield opened


def row_count(window: Reader) -> str:
    return window.text("#count")


def test_the_viewer_lists_filters_and_opens_a_turn_by_its_link(run: Path, window: Reader) -> None:
    window.open(run / "viewer.html")
    page = window.page
    everything = int(re.sub(r"\D", "", row_count(window)))
    page.select_option("#by-stage", "rl")
    page.select_option("#by-outcome", "lost to a fault")
    assert row_count(window) == f"1 of {everything} episodes"
    page.locator(".row").first.click()
    page.wait_for_selector(".episode")
    assert "TimeoutError: no answer within 60 s" in window.text(".ep-error")
    window.open(run / "viewer.html", "#ep=rl-0003.2&turn=9")
    page.wait_for_selector(".turn.here")
    assert window.text(".turn.here h3") == "Turn 9"
    assert page.locator(".turn.here .lane").count() == 5
    assert page.locator(".turn.here").bounding_box()["y"] < 400
    assert window.complaints == []


def test_hostile_text_is_shown_as_text_and_runs_nothing(run: Path, window: Reader) -> None:
    window.open(run / "viewer.html", "#ep=rl-0003.1")
    page = window.page
    page.wait_for_selector(".lane .action")
    for number in range(len(HOSTILE)):
        page.keyboard.press("n")
        window.until(f"document.querySelectorAll('.turn')[{number}].querySelector('.lane') !== null")
    for fold in page.locator("details > summary").all():
        fold.click()
    shown = page.locator("article").text_content()
    assert "<img src=x onerror=" in shown
    assert "\u27e8U+202E\u27e9" in shown  # the character that reverses text is named, not obeyed
    assert "\ufffd" in shown  # half a surrogate pair
    assert page.evaluate("window.injected") is None
    assert page.locator("article script, article img").count() == 0
    assert page.evaluate("document.querySelector('#main').scrollWidth <= document.querySelector('#main').clientWidth")
    assert window.complaints == []


def test_search_finds_what_was_thought_and_done_inside_episodes(run: Path, window: Reader) -> None:
    window.open(run / "viewer.html")
    window.page.fill("#query", "I give UP")
    window.until("/^1 of [\\d,]+ episodes$/.test(document.querySelector('#count').textContent)")
    window.page.fill("#query", "no such words anywhere")
    window.until("/^0 of [\\d,]+ episodes$/.test(document.querySelector('#count').textContent)")
    assert window.page.locator(".row").count() == 0
    assert window.complaints == []


def test_keys_go_through_episodes_turns_and_siblings(run: Path, window: Reader) -> None:
    window.open(run / "viewer.html", "#ep=rl-0000.1")
    page = window.page
    page.wait_for_selector(".episode")
    for key, address in (
        ("j", "#ep=rl-0000.2"),
        ("k", "#ep=rl-0000.1"),
        ("s", "#ep=rl-0000.2"),
        ("n", "#ep=rl-0000.2&turn=1"),
        ("Escape", ""),
    ):
        page.keyboard.press(key)
        window.until(f"location.hash === {json.dumps(address)}")
        page.wait_for_timeout(50)
    page.keyboard.press("?")
    assert page.locator("#help").is_visible()


def test_a_step_reward_says_why(run: Path, window: Reader) -> None:
    window.open(run / "viewer.html", "#ep=rl-0003.2&turn=5")
    window.page.wait_for_selector(".turn.here .lane")
    window.page.locator(".turn.here button.pill").click()
    why = window.text(".turn.here .why")
    assert "scale \u201creference\u201d" in why
    assert "Environment 1 had done this action 1 time before (depth)." in why


def test_an_advantage_says_how_it_follows(run: Path, window: Reader) -> None:
    window.open(run / "viewer.html", "#ep=rl-0001.1&turn=1")
    window.page.wait_for_selector(".turn.here .lane")
    window.page.locator(".turn.here button.pill").nth(1).click()
    words = window.text(".turn.here .why:not([hidden])")
    assert re.search(r"This turn: [+\u2212]\d\.\d\d \u00d7 \d\.\d\d = [+\u2212]\d\.\d\d", words), words
    assert re.search(r"\d tokens? \u00b7 prompt 104 \u00b7 .*\d s", window.text(".turn.here .turn-meta"))


def test_siblings_stand_side_by_side_and_open_the_episode(run: Path, window: Reader) -> None:
    window.open(run / "viewer.html", "#ep=rl-0001.3")
    page = window.page
    page.wait_for_selector(".episode")
    page.keyboard.press("g")
    page.wait_for_selector(".group")
    assert page.evaluate("location.hash") == "#group=rl-0001.3"
    assert page.locator(".group thead th").count() == 1 + 8
    assert page.locator(".group .group-facts").count() == 8
    assert "Sibling 2" in window.text(".group thead th:nth-child(4)")
    head = window.text(".group-about td:nth-child(4)")
    for word in ("outcome", "turns", "actions", "step reward", "advantage"):
        assert word in head
    assert page.locator(".group tbody tr").count() == 1 + max(
        int(text.split()[0]) for text in page.locator(".group-facts div:nth-child(2) dd").all_text_contents()
    )
    page.locator(".group tbody tr:nth-child(3) td:nth-child(4) a").click()
    page.wait_for_selector(".turn.here")
    assert page.evaluate("location.hash") == "#ep=rl-0001.3&turn=2"
    page.locator(".siblings a.button").click()
    page.wait_for_selector(".group")
    page.keyboard.press("g")
    page.wait_for_selector(".episode")
    assert window.complaints == []


def test_hostile_siblings_stand_side_by_side_as_text(tmp_path: Path, window: Reader) -> None:
    episode = hostile_episode()
    siblings = tuple(scored(episode.model_copy(update={"sibling": number})) for number in range(3))
    group = credited(EpisodeGroup(task=episode.task, siblings=(*siblings, scored(lost_episode()))))
    write_episodes(tmp_path / "episodes", "rl", 1, group.group.siblings[:3])
    write_advantages(tmp_path, "rl", 1, episode_advantages([group], algorithm=HOSTILE[2]))
    session = {"failed": HOSTILE[1] + HOSTILE[4], "stages": [HOSTILE[0]]}
    (tmp_path / "run.json").write_text(json.dumps({"format": HOSTILE[2], "job": HOSTILE[0], "sessions": [session]}))
    window.open(write_viewer(tmp_path), "#group=rl-0001.1")
    page = window.page
    page.wait_for_selector(".group")
    assert "<img src=x onerror=" in window.text(".group")
    assert HOSTILE[2] in window.text(".group-how")
    page.keyboard.press("g")
    page.wait_for_selector(".turn .lane")
    page.locator("button.pill").nth(1).click()
    assert HOSTILE[2] in window.text(".why:not([hidden])")
    page.keyboard.press("Escape")
    window.until("document.querySelector('.page-title') !== null")
    assert HOSTILE[0] in window.text("#main")
    assert "This run failed" in window.text("#main")
    assert page.evaluate("window.injected") is None
    assert page.locator("main script, main img").count() == 0
    assert window.complaints == []


def test_one_lonely_episode_without_success_is_shown_for_what_it_is(tmp_path: Path, window: Reader) -> None:
    write_episodes(tmp_path / "episodes", "eval", 0, [lifespan_episode(2, skill=-1.0, num_envs=4, seed=0)])
    window.open(write_viewer(tmp_path))
    page = window.page
    window.until("document.querySelector('.stages') !== null")
    assert "0.0 %" in window.text(".stages")
    page.keyboard.press("j")
    page.wait_for_selector(".episode")
    assert page.locator(".siblings").count() == 0
    page.keyboard.press("g")
    page.wait_for_selector(".group")
    assert "played alone" in window.text("#main")
    assert "No advantages are recorded" in window.text("#main")
    assert window.complaints == []


def test_a_run_without_episodes_says_so(tmp_path: Path, window: Reader) -> None:
    window.open(write_viewer(tmp_path))
    window.until("document.querySelector('#main').textContent.includes('No episodes are recorded')")
    assert row_count(window) == "0 episodes"
    for key in "jkngs":
        window.page.keyboard.press(key)
    assert window.complaints == []


def test_runs_are_served_listed_and_opened(run: Path, chromium: Browser) -> None:
    with serving(run.parent) as server, chromium.window() as window:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            page = window.page
            page.goto(server.address)
            assert page.locator("table.runs tbody tr").count() == 1
            page.locator("table.runs a").nth(1).click()
            page.wait_for_selector(".example .lane")
            page.locator(".example a").first.click()  # from the report to the viewer
            page.wait_for_selector(".episode .turn")
            page.goto(server.address)
            page.locator("table.runs a").first.click()
            page.wait_for_selector(".row")
            assert [words for words in window.complaints if server.address not in words] == []
        finally:
            server.shutdown()
            thread.join()


def test_an_unknown_episode_in_the_address_is_said_to_be_unknown(run: Path, window: Reader) -> None:
    window.open(run / "viewer.html", "#ep=%3Cb%3Ex&turn=1e9")
    window.until("document.body.textContent.includes('No such episode')")
    assert window.complaints == []


def test_the_report_reads_without_complaint_and_links_to_the_viewer(run: Path, window: Reader) -> None:
    window.open(run / "report.html")
    page = window.page
    assert page.locator(".example .turn .lane").count() > 4
    page.locator(".example a").first.click()
    page.wait_for_selector(".episode .turn")
    assert page.url.split("#")[0].endswith("/viewer.html")
    assert window.complaints == []


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("width", [1280, 380])
def test_pages_fit_the_window_in_light_and_dark(run: Path, chromium: Browser, width: int, dark: bool) -> None:
    with chromium.window(width=width, dark=dark) as window:
        for name, fragment in (
            ("report.html", ""),
            ("viewer.html", ""),
            ("viewer.html", "#overview"),
            ("viewer.html", "#ep=rl-0000.1"),
            ("viewer.html", "#group=rl-0000.1"),
        ):
            window.open(run / name, fragment)
            window.page.wait_for_timeout(150)
            assert window.page.evaluate("document.documentElement.scrollWidth <= innerWidth"), (
                f"{name}{fragment} is wider than the window"
            )
        assert window.page.evaluate("document.documentElement.dataset.theme") == ("dark" if dark else "light")
        window.page.keyboard.press("t")
        assert window.page.evaluate("document.documentElement.dataset.theme") == ("light" if dark else "dark")
        assert window.complaints == []


@pytest.mark.slow
def test_ten_thousand_episodes_stay_usable(tmp_path: Path, window: Reader) -> None:
    lines = [
        json.dumps(
            {
                "kind": "episode",
                "stage": "rl",
                "step": 0,
                "record": lifespan_episode(n, skill=0.4, num_envs=4, seed=n).model_dump(mode="json"),
            }
        )
        for n in range(200)
    ]
    (tmp_path / "episodes").mkdir()
    (tmp_path / "episodes" / "rl-0000.jsonl").write_text("\n".join(lines * 50) + "\n", encoding="utf-8")
    path = write_viewer(tmp_path)
    page = window.page
    started = time.monotonic()
    window.open(path)
    page.wait_for_selector(".row")
    assert row_count(window) == "10,000 episodes"
    assert time.monotonic() - started < 10
    assert page.locator(".row").count() < 60  # only what is on the screen exists
    page.evaluate("document.querySelector('#list').scrollTop = 9990 * 64")
    window.until("[...document.querySelectorAll('.row')].some((row) => row.hash === '#ep=rl-0000.10000')")
    started = time.monotonic()
    page.fill("#query", "focus on hedgehog")
    window.until("/^[1-9][\\d,]* of 10,000 episodes$/.test(document.querySelector('#count').textContent)")
    assert time.monotonic() - started < 15
    assert window.complaints == []
