"""A headless Chromium for tests of the pages; tests that need it skip, with the reason, where it is missing."""

from __future__ import annotations

import importlib.util
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any


def missing() -> str:
    """Why no browser can be driven here; empty when one can."""
    if importlib.util.find_spec("playwright") is None:
        return "the python package playwright is not installed (pip install playwright)"
    if chromium() is None:
        return "no chromium on the path (Debian: apt-get install chromium)"
    return ""


def chromium() -> str | None:
    """Path of an installed Chromium."""
    return next((path for name in ("chromium", "chromium-browser", "google-chrome") if (path := shutil.which(name))), None)


class Reader:
    """A page opened from disk, and everything the browser complained about on it."""

    def __init__(self, page: Any) -> None:
        self.page = page
        self.complaints: list[str] = []
        page.on("console", lambda message: self._note_message(message.type, message.text))
        page.on("pageerror", lambda error: self._note_message("error", str(error)))
        page.on("request", lambda request: self._note_request(request.url))

    def _note_message(self, kind: str, text: str) -> None:
        if kind in ("error", "warning"):
            self.complaints.append(text)

    def _note_request(self, url: str) -> None:
        if not url.startswith("file://"):
            self.complaints.append(f"the page asked for {url}")

    def open(self, path: Path, fragment: str = "") -> None:
        """Open a file, with what comes after the ``#``."""
        self.page.goto("about:blank")  # else a new fragment alone would not load the file again
        self.page.goto(path.as_uri() + fragment)

    def text(self, selector: str) -> str:
        """All text under the first match, shown or not."""
        return str(self.page.locator(selector).first.text_content())

    def until(self, condition: str, *, timeout_s: float = 30.0) -> None:
        """Wait for a JavaScript condition; Playwright's own wait evaluates a string in the page, which its policy forbids."""
        stop = time.monotonic() + timeout_s
        while not self.page.evaluate(condition):
            assert time.monotonic() < stop, f"not within {timeout_s} s: {condition}"
            self.page.wait_for_timeout(25)


class Browser:
    """A running Chromium."""

    def __init__(self, chromium: Any) -> None:
        self._chromium = chromium

    @contextmanager
    def window(self, *, width: int = 1280, height: int = 900, dark: bool = False) -> Iterator[Reader]:
        """A window of the given size, with nothing remembered from earlier ones."""
        context = self._chromium.new_context(
            viewport={"width": width, "height": height}, color_scheme="dark" if dark else "light"
        )
        try:
            yield Reader(context.new_page())
        finally:
            context.close()


@contextmanager
def browser() -> Iterator[Browser]:
    """A Chromium without a screen; one at a time."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        options = ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]
        running = playwright.chromium.launch(executable_path=chromium(), args=options)
        try:
            yield Browser(running)
        finally:
            running.close()
