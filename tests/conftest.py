"""What tests of several packages share."""

from __future__ import annotations

import signal

import pytest
from tests.support.toy_jobs import ColdStart, make_cold_start


def pytest_configure() -> None:
    # A shell that starts the tests in the background lets them ignore Ctrl-C, and every process they start inherits that.
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def cold_start(tmp_path_factory: pytest.TempPathFactory) -> ColdStart:
    """A tiny model that has learnt the form of replies, and one toy task by half, from random play; made once."""
    return make_cold_start(tmp_path_factory.mktemp("cold_start"))
