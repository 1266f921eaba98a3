"""A chat server on loopback that answers as told, and misbehaves as told."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Answer = Callable[[dict[str, Any]], str]


class ChatServer:
    """Counts what it is asked and answers with `answer`, after the misbehaviours that are still in the queue.

    A misbehaviour is a status code (429, 500, 401, ...), "slow", "cut" (the connection ends inside the answer), "garbage"
    (200 with a page of HTML), "not json" (200 with broken JSON), "empty" (200 without choices), "hang" (no answer at all).
    """

    def __init__(self, answer: Answer) -> None:
        self.answer = answer
        self.faults: list[int | str] = []
        self.requests: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.in_flight = 0
        self.most_in_flight = 0
        self.lock = threading.Lock()
        self.url = ""
        self.delay_s = 0.0
        self.error_text = "the server says no"


@contextmanager
def chat_server(answer: Answer) -> Iterator[ChatServer]:
    """A running server for the length of a `with` block."""
    state = ChatServer(answer)
    server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(state))
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    state.url = f"http://127.0.0.1:{server.server_address[1]}/v1"
    try:
        yield state
    finally:
        server.shutdown()
        server.server_close()


def _handler(state: ChatServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *arguments: Any) -> None:
            pass

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            with state.lock:
                state.requests.append(body)
                state.headers.append({name.lower(): value for name, value in self.headers.items()})
                fault = state.faults.pop(0) if state.faults else None
                state.in_flight += 1
                state.most_in_flight = max(state.most_in_flight, state.in_flight)
            try:
                time.sleep(state.delay_s)
                self.answer(body, fault)
            finally:
                with state.lock:
                    state.in_flight -= 1

        def answer(self, body: dict[str, Any], fault: int | str | None) -> None:
            if isinstance(fault, int):
                self.send(fault, json.dumps({"error": {"message": state.error_text}}), retry_after="0.01")
            elif fault == "garbage":
                self.send(200, "<html>gateway</html>", kind="text/html")
            elif fault == "not json":
                self.send(200, '{"choices": [')
            elif fault == "empty":
                self.send(200, json.dumps({"id": "x", "choices": []}))
            elif fault == "hang":
                time.sleep(3.0)
                self.close_connection = True
            elif fault == "cut":
                whole = _completion(body, state.answer(body))
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(whole)))
                self.end_headers()
                self.wfile.write(whole[: len(whole) // 2].encode())
                self.close_connection = True
            else:
                self.send(200, _completion(body, state.answer(body)))

        def send(self, status: int, text: str, *, kind: str = "application/json", retry_after: str = "") -> None:
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(text.encode())))
            if retry_after:
                self.send_header("Retry-After", retry_after)
            self.end_headers()
            self.wfile.write(text.encode())

    return Handler


def _completion(body: dict[str, Any], text: str) -> str:
    asked = sum(len(message["content"].split()) for message in body["messages"])
    return json.dumps(
        {
            "id": "x",
            "object": "chat.completion",
            "created": 0,
            "model": body["model"],
            "choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": text}}],
            "usage": {"prompt_tokens": asked, "completion_tokens": len(text.split()), "total_tokens": asked},
        }
    )
