"""``dpepo view --serve FOLDER``: the runs below a folder, each with its viewer freshly made, for browsers on this machine only.

What it answers is a short list: ``/``, and ``/run/<name>/viewer.html`` and ``report.html`` for names that were found below the
folder. A request never becomes a path: it is looked up among those names, so there is no way out of the folder. It listens on
127.0.0.1 alone, answers GET alone, and only where the Host header names this machine, so that a page elsewhere cannot have its
own name point here and read along (DNS rebinding).
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Lock
from urllib.parse import quote, unquote

from dpepo.errors import DpepoError, RunFolderError
from dpepo.runs.state import RunState, read_state
from dpepo.runs.viewer import write_viewer
from dpepo.runs.web_page import render_page

LOOPBACK = "127.0.0.1"
MAX_DEPTH = 6  # folders below the one that is served in which runs are looked for
TIMEOUT_S = 30.0  # how long a browser may take to send its request
_INSIDE_RUNS = frozenset({"episodes", "advantages", "checkpoints"})
_HEADERS = {
    "Cache-Control": "no-store",
    "Content-Type": "text/html; charset=utf-8",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}
_OURS = {"Cross-Origin-Opener-Policy": "same-origin"}
# A report is a file that lies in the folder: it may draw itself, and reach nothing else on this server.
_FOREIGN = {"Content-Security-Policy": "sandbox allow-scripts; connect-src 'none'"}


@dataclass(frozen=True, kw_only=True)
class FoundRun:
    """A run below the folder that is served."""

    name: str  # its path below the folder, "/" between parts
    path: Path
    state: RunState

    @property
    def url(self) -> str:
        """Where its pages are."""
        return f"/run/{quote(self.name, safe='/', errors='surrogateescape')}"

    @property
    def has_report(self) -> bool:
        """Whether a report was written."""
        return _plain_file(self.path / "report.html")


def find_runs(folder: Path) -> dict[str, Path]:
    """The runs in a folder and below it, by name, sorted; a folder that is a run itself is its only one.

    Links are not followed, and nothing is looked for inside a run.
    """
    if _is_run(folder):
        return {folder.resolve().name or "run": folder}
    found: dict[str, Path] = {}
    for place, folders, _ in os.walk(folder):
        here = Path(place)
        depth = len(here.relative_to(folder).parts)
        runs = [name for name in folders if not (here / name).is_symlink() and _is_run(here / name)]
        found.update({(here / name).relative_to(folder).as_posix(): here / name for name in runs})
        folders[:] = [] if depth + 1 >= MAX_DEPTH else sorted(set(folders) - set(runs) - _INSIDE_RUNS)
    return dict(sorted(found.items()))


class RunPages:
    """Makes the pages of a folder, and keeps a viewer until its run changes."""

    def __init__(self, folder: Path, *, made: Path) -> None:
        """Args: folder: holds the runs. made: a folder of our own for pages."""
        self.folder, self._made = folder, made
        self._kept: dict[str, _Kept] = {}
        self._lock = Lock()

    def overview(self) -> str:
        """The list of runs, as a page."""
        runs = [FoundRun(name=name, path=path, state=read_state(path)) for name, path in find_runs(self.folder).items()]
        return render_page(
            "runs.html.j2", styles=("base.css", "runs.css"), scripts=("runs.js",), folder=str(self.folder), runs=runs
        )

    def viewer(self, name: str) -> Path | None:
        """The viewer of a run, made anew where the run has changed; None where there is no such run.

        Raises:
            RunFolderError: The run cannot be read, or the page not be written.
        """
        path = find_runs(self.folder).get(name)
        if path is None:
            return None
        with self._lock:
            kept = self._kept.setdefault(name, _Kept(page=self._made / f"{len(self._kept)}.html"))
        with kept.lock:
            print_now = _fingerprint(path)
            if kept.print != print_now:
                write_viewer(path, kept.page)
                kept.print = print_now
        return kept.page

    def report(self, name: str) -> Path | None:
        """The report of a run, as it lies there; None where there is none."""
        path = find_runs(self.folder).get(name)
        return path / "report.html" if path is not None and _plain_file(path / "report.html") else None


@dataclass
class _Kept:
    """A page that was made."""

    page: Path
    print: tuple[tuple[str, int, int], ...] | None = None  # of the run when it was made
    lock: Lock = field(default_factory=Lock)


class RunServer(ThreadingHTTPServer):
    """Serves the pages of a folder on loopback."""

    daemon_threads = True  # a browser that stays connected does not keep the server from ending

    def __init__(self, pages: RunPages, *, port: int = 0) -> None:
        """Start to listen.

        Args:
            pages: What is served.
            port: 0 takes a free one.

        Raises:
            RunFolderError: The port is taken or not allowed.
        """
        self.pages = pages
        try:
            super().__init__((LOOPBACK, port), _Handler)
        except OSError as error:
            raise RunFolderError(
                f"Port {port} cannot be used: {error.strerror or error}. Without --port a free one is taken."
            ) from None

    @property
    def address(self) -> str:
        """What to open in a browser."""
        return f"http://{LOOPBACK}:{self.server_port}/"


@contextmanager
def serving(folder: Path, *, port: int = 0) -> Iterator[RunServer]:
    """A server for the runs below a folder, listening but not yet answering (`serve_forever`).

    Raises:
        RunFolderError: `folder` is none, or the port cannot be used.
    """
    if not folder.is_dir():
        raise RunFolderError(f"{folder} is not a folder. Give a folder that holds runs.")
    with (
        tempfile.TemporaryDirectory(prefix="dpepo-view-", ignore_cleanup_errors=True) as made,
        RunServer(RunPages(folder, made=Path(made)), port=port) as server,
    ):
        yield server


class _Handler(BaseHTTPRequestHandler):
    """One request."""

    server: RunServer
    server_version, sys_version = "dpepo", ""
    timeout = TIMEOUT_S

    def do_GET(self) -> None:
        """Answer with a page, or say why not."""
        refusal = self._refusal()
        try:
            if refusal is not None:
                self._say(*refusal)
            else:
                self._answer(self.path.partition("?")[0])
        except (ConnectionError, TimeoutError):
            self.close_connection = True  # the browser has left
        except (DpepoError, OSError) as error:
            self._say(HTTPStatus.INTERNAL_SERVER_ERROR, str(error))

    def _refusal(self) -> tuple[HTTPStatus, str] | None:
        hosts = self.headers.get_all("Host") or []
        allowed = {f"{name}:{self.server.server_port}" for name in (LOOPBACK, "localhost")}
        if len(hosts) != 1 or hosts[0].strip().lower() not in allowed:
            return HTTPStatus.FORBIDDEN, f"This server answers only to {self.server.address}"
        if not self.path.startswith("/"):
            return HTTPStatus.BAD_REQUEST, "Ask for a path."
        return None

    def _answer(self, path: str) -> None:
        if path == "/":
            self._send(HTTPStatus.OK, self.server.pages.overview().encode("utf-8", "replace"))
            return
        name, _, page = path.removeprefix("/run/").rpartition("/")
        name = unquote(name, errors="surrogateescape")
        found = None
        if path.startswith("/run/") and page in ("viewer.html", "report.html"):
            pages = self.server.pages
            found = pages.viewer(name) if page == "viewer.html" else pages.report(name)
        if found is None:
            self._say(HTTPStatus.NOT_FOUND, "There is no such page.")
            return
        with found.open("rb") as file:
            self._head(HTTPStatus.OK, os.fstat(file.fileno()).st_size, _FOREIGN if page == "report.html" else _OURS)
            shutil.copyfileobj(file, self.wfile)

    def _say(self, status: HTTPStatus, sentence: str) -> None:
        page = render_page("message.html.j2", styles=("base.css", "runs.css"), scripts=("runs.js",), sentence=sentence)
        self._send(status, page.encode("utf-8", "replace"))

    def _send(self, status: HTTPStatus, body: bytes) -> None:
        self._head(status, len(body), _OURS | ({"Allow": "GET"} if status is HTTPStatus.METHOD_NOT_ALLOWED else {}))
        if self.command != "HEAD":
            self.wfile.write(body)

    def _head(self, status: HTTPStatus, length: int, more: dict[str, str]) -> None:
        self.send_response(status)
        for name, value in {**_HEADERS, **more, "Content-Length": str(length)}.items():
            self.send_header(name, value)
        self.end_headers()

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """Refuse what is no GET, or no HTTP at all."""
        del message, explain
        status = HTTPStatus.METHOD_NOT_ALLOWED if code == HTTPStatus.NOT_IMPLEMENTED else HTTPStatus(code)
        self.close_connection = True
        with suppress(ConnectionError):
            self._say(
                status, "This server answers GET requests only." if status is HTTPStatus.METHOD_NOT_ALLOWED else status.phrase
            )

    def log_message(self, format: str, *args: object) -> None:
        """Nothing: the terminal is for the address."""


def _is_run(folder: Path) -> bool:
    return _plain_file(folder / "run.json") or ((folder / "episodes").is_dir() and not (folder / "episodes").is_symlink())


def _plain_file(path: Path) -> bool:
    return path.is_file() and not path.is_symlink()


def _fingerprint(run: Path) -> tuple[tuple[str, int, int], ...]:
    """What a viewer was made from: names, sizes and times."""
    files = [run / "run.json", run / ".lock", *(run / "episodes").glob("*.jsonl"), *(run / "advantages").glob("*.jsonl")]
    prints = []
    for path in sorted(files):
        with suppress(OSError):
            found = path.stat()
            prints.append((str(path), found.st_size, found.st_mtime_ns))
    return tuple(prints)
