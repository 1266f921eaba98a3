"""The server for a folder of runs, asked with real requests, hostile ones among them."""

from __future__ import annotations

import http.client
import json
import os
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.sample_episodes import HOSTILE, lifespan_episode

from dpepo.errors import RunFolderError
from dpepo.runs import serve
from dpepo.runs.episodes import write_episodes
from dpepo.runs.serve import RunServer, find_runs, serving
from dpepo.runs.viewer import write_viewer

SECRET = "nobody may read this"


def run_at(path: Path, *, job: str = "eval", success: float | None = 0.25) -> Path:
    write_episodes(path / "episodes", "eval", 0, [lifespan_episode(1, skill=0.5, num_envs=4, seed=1)])
    session = {"started": "2026-01-02T03:04:05+00:00", "finished": "later", "result": {"success_rate": success}}
    (path / "run.json").write_text(json.dumps({"format": 1, "job": job, "sessions": [session]}))
    return path


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder of runs, with something beside it that must never be served."""
    runs = tmp_path / "runs"
    run_at(runs / "first")
    run_at(runs / "sweep" / "seed 0" / "train", job="train")
    (runs / "first" / "notes.txt").write_text(SECRET)
    (tmp_path / "viewer.html").write_text(f"<!doctype html>{SECRET}")
    run_at(tmp_path / "other")
    (tmp_path / "other" / "report.html").write_text(f"<!doctype html>{SECRET}")
    return runs


@pytest.fixture
def server(folder: Path) -> Iterator[RunServer]:
    with serving(folder) as running:
        thread = threading.Thread(target=running.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield running
        running.shutdown()
        thread.join()


def ask(server: RunServer, path: str, *, method: str = "GET", host: str | None = None) -> tuple[int, str, dict[str, str]]:
    connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=10)
    connection.putrequest(method, path, skip_host=True)
    connection.putheader("Host", f"127.0.0.1:{server.server_port}" if host is None else host)
    connection.endheaders()
    answer = connection.getresponse()
    body = answer.read().decode("utf-8")
    connection.close()
    return answer.status, body, dict(answer.getheaders())


def raw(server: RunServer, request: bytes) -> bytes:
    with socket.create_connection(("127.0.0.1", server.server_port), timeout=10) as connection:
        connection.sendall(request)
        connection.shutdown(socket.SHUT_WR)
        answer = b""
        while part := connection.recv(65536):
            answer += part
    return answer


def test_the_list_names_every_run_below_the_folder_with_job_state_and_success(server: RunServer) -> None:
    status, page, headers = ask(server, "/")
    assert status == 200
    assert headers["X-Frame-Options"] == "DENY"
    assert headers["Cross-Origin-Resource-Policy"] == "same-origin"
    for words in (
        'href="/run/first/viewer.html"',
        'href="/run/sweep/seed%200/train/viewer.html"',
        "finished",
        "25.0 %",
        "train",
    ):
        assert words in page


@pytest.mark.parametrize("name", ["first", "sweep/seed%200/train", "sweep%2Fseed%200%2Ftrain"])
def test_a_run_opens_as_its_viewer_and_nothing_is_written_into_it(folder: Path, server: RunServer, name: str) -> None:
    before = sorted(folder.rglob("*"))
    status, page, _ = ask(server, f"/run/{name}/viewer.html")
    assert status == 200
    assert '<script type="application/json" id="index">' in page
    assert sorted(folder.rglob("*")) == before


def test_a_viewer_is_kept_until_its_run_changes(folder: Path, server: RunServer, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Path] = []

    def note(run: Path, out: Path) -> Path:
        made.append(run)
        return write_viewer(run, out)

    monkeypatch.setattr(serve, "write_viewer", note)
    pages = [ask(server, "/run/first/viewer.html")[1] for _ in range(2)]
    assert len(made) == 1
    assert pages[0] == pages[1]
    write_episodes(folder / "first" / "episodes", "eval", 0, [lifespan_episode(2, skill=0.5, num_envs=4, seed=1)])
    assert '"key":"eval-0000.2"' in ask(server, "/run/first/viewer.html")[1]
    assert len(made) == 2


def test_a_run_that_appears_later_is_listed(folder: Path, server: RunServer) -> None:
    run_at(folder / "late")
    assert "/run/late/viewer.html" in ask(server, "/")[1]


def test_a_report_is_served_as_it_lies_there_and_kept_from_reaching_anything(folder: Path, server: RunServer) -> None:
    assert ask(server, "/run/first/report.html")[0] == 404
    (folder / "first" / "report.html").write_text("<!doctype html>the report")
    status, page, headers = ask(server, "/run/first/report.html")
    assert (status, page) == (200, "<!doctype html>the report")
    assert headers["Content-Security-Policy"].startswith("sandbox allow-scripts;")
    assert "/run/first/report.html" in ask(server, "/")[1]


@pytest.mark.parametrize(
    "path",
    [
        "/viewer.html",
        "/run/viewer.html",
        "/run//viewer.html",
        "/run/../viewer.html",
        "/run/../other/report.html",
        "/run/first/../../other/report.html",
        "/run/%2e%2e/other/report.html",
        "/run/..%2fother/report.html",
        "/run/first%2f..%2f..%2fother/report.html",
        "/run/..%5cother/report.html",
        "/run/%252e%252e/other/report.html",
        "/run/first/notes.txt",
        "/run/first/episodes/eval-0000.jsonl",
        "/run/first/run.json",
        "/run/first",
        "/run/first/",
        "/run/first/viewer.html/",
        "/run/first%00/viewer.html",
        "/run/%2fetc/report.html",
        "/run/none/viewer.html",
        "/run/%ff%fe/viewer.html",
        "//127.0.0.1/run/first/viewer.html",
        "/etc/passwd",
        "/.",
    ],
)
def test_no_path_leads_out_of_the_list(server: RunServer, path: str) -> None:
    status, page, _ = ask(server, path)
    assert status == 404
    assert SECRET not in page


def test_links_are_not_followed_out_of_the_folder(folder: Path, server: RunServer) -> None:
    (folder / "linked").symlink_to(folder.parent / "other")
    half = folder / "half"
    half.mkdir()
    (half / "run.json").symlink_to(folder.parent / "other" / "run.json")
    (folder / "first" / "report.html").symlink_to(folder.parent / "other" / "report.html")
    page = ask(server, "/")[1]
    assert "linked" not in page
    assert "half" not in page
    for path in ("/run/linked/viewer.html", "/run/half/viewer.html", "/run/first/report.html", "/run/linked/report.html"):
        assert ask(server, path)[0] == 404


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "evil.example:{port}",
        "127.0.0.1",
        "127.0.0.1:1",
        "127.0.0.1.evil.example:{port}",
        "[::1]:{port}",
        "",
        "0.0.0.0:{port}",
    ],
)
def test_a_request_in_another_name_is_refused(server: RunServer, host: str) -> None:
    """DNS rebinding: a page of elsewhere whose name was pointed here sends its own name."""
    status, page, _ = ask(server, "/", host=host.format(port=server.server_port))
    assert status == 403
    assert "/run/first" not in page


@pytest.mark.parametrize("host", ["127.0.0.1:{port}", "localhost:{port}", "LOCALHOST:{port}"])
def test_this_machine_may_be_called_by_both_its_names(server: RunServer, host: str) -> None:
    assert ask(server, "/", host=host.format(port=server.server_port))[0] == 200


def test_missing_or_doubled_hosts_and_foreign_addresses_in_the_request_line_are_refused(server: RunServer) -> None:
    mine = f"127.0.0.1:{server.server_port}".encode()
    assert b" 403 " in raw(server, b"GET / HTTP/1.0\r\n\r\n")
    assert b" 403 " in raw(server, b"GET / HTTP/1.1\r\nHost: " + mine + b"\r\nHost: evil.example\r\n\r\n")
    assert b" 400 " in raw(server, b"GET http://evil.example/ HTTP/1.1\r\nHost: " + mine + b"\r\n\r\n")


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "HEAD", "OPTIONS", "CONNECT", "TRACE", "PATCH"])
def test_only_get_is_answered(server: RunServer, method: str) -> None:
    status, page, headers = ask(server, "/", method=method)
    assert (status, headers["Allow"]) == (405, "GET")
    assert "/run/first" not in page


def test_what_is_no_http_or_too_long_is_refused_and_the_server_goes_on(server: RunServer) -> None:
    assert b"Bad Request" in raw(server, b"\x16\x03\x01 nonsense of another protocol\r\n\r\n")
    assert b" 414 " in raw(server, b"GET /" + b"a" * 70_000 + b" HTTP/1.1\r\n\r\n")
    with socket.create_connection(("127.0.0.1", server.server_port)) as gone:
        gone.sendall(b"GET / HT")
    assert ask(server, "/")[0] == 200


def test_it_listens_on_loopback_alone(server: RunServer) -> None:
    assert server.server_address[0] == "127.0.0.1"
    assert server.address == f"http://127.0.0.1:{server.server_port}/"


def test_hostile_names_jobs_and_errors_are_text(folder: Path, server: RunServer) -> None:
    name = HOSTILE[2].replace("/", "")
    run = run_at(folder / name, job=HOSTILE[0])
    content = json.loads((run / "run.json").read_text())
    content["sessions"] = [{"started": HOSTILE[1], "failed": HOSTILE[2]}]
    (run / "run.json").write_text(json.dumps(content))
    page = ask(server, "/")[1]
    assert "<img" not in page
    assert "<script>window" not in page
    assert "&lt;script&gt;window.injected = 1" in page
    link = next(part for part in page.split('"') if part.startswith("/run/%3Cimg"))
    assert ask(server, link)[0] == 200


def test_damaged_and_foreign_runs_are_listed_for_what_they_are(folder: Path, server: RunServer) -> None:
    for name, text in (
        ("cut", '{"format": 1, "job": "tr'),
        ("newer", '{"format": 7, "job": "train", "sessions": []}'),
        ("list", "[]"),
    ):
        (folder / name).mkdir()
        (folder / name / "run.json").write_text(text)
    page = ask(server, "/")[1]
    assert page.count("run.json cannot be read") == 2
    assert "run.json is of format 7" in page
    for name in ("cut", "newer", "list"):
        status, page, _ = ask(server, f"/run/{name}/viewer.html")
        assert status == 200
        assert '"rows":[]' in page


def test_a_viewer_that_cannot_be_made_is_said_on_the_page(
    folder: Path, server: RunServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(run: Path, out: Path) -> Path:
        raise RunFolderError(f"{out} cannot be written: <b>full</b>")

    monkeypatch.setattr(serve, "write_viewer", refuse)
    status, page, _ = ask(server, "/run/first/viewer.html")
    assert status == 500
    assert "&lt;b&gt;full&lt;/b&gt;" in page
    monkeypatch.undo()
    assert ask(server, "/run/first/viewer.html")[0] == 200


def test_a_folder_that_is_a_run_is_its_own_list(folder: Path) -> None:
    assert find_runs(folder / "first") == {"first": folder / "first"}


def test_an_empty_folder_says_so(tmp_path: Path) -> None:
    with serving(tmp_path) as running:
        assert "No run is here or below" in running.pages.overview()


def test_runs_are_looked_for_neither_inside_runs_nor_without_end(tmp_path: Path) -> None:
    run_at(tmp_path / "a" / "checkpoints" / "x")
    run_at(tmp_path / "a")
    deep = tmp_path.joinpath(*"bcdefghij")
    run_at(deep)
    assert list(find_runs(tmp_path)) == ["a"]


def test_a_folder_that_is_none_and_a_port_that_is_taken_are_refused_in_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(RunFolderError, match="is not a folder"), serving(tmp_path / "none"):
        pass
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(RunFolderError, match=f"Port {port} cannot be used"), serving(tmp_path, port=port):
            pass


def test_pages_that_were_made_are_gone_when_the_server_ends(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / "made"
    place.mkdir()
    monkeypatch.setattr("tempfile.tempdir", os.fspath(place))
    with serving(folder) as running:
        assert running.pages.viewer("first") is not None
        assert len(list(place.rglob("*.html"))) == 1
    assert list(place.iterdir()) == []
