from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import psutil
import pytest

from dpepo.envs.scienceworld.gateway import Gateway, JavaDied, check_py4j_version
from dpepo.errors import ConfigError


def gone(pid: int, *, within_s: float = 10.0) -> bool:
    deadline = time.monotonic() + within_s
    while time.monotonic() < deadline:
        try:
            if psutil.Process(pid).status() == psutil.STATUS_ZOMBIE:
                return True
        except psutil.NoSuchProcess:
            return True
        time.sleep(0.05)
    return False


@pytest.mark.parametrize("version", ["0.10.9", "0.10.8.1", "0.9"])
def test_a_py4j_with_one_fixed_port_is_refused(version: str) -> None:
    """E13"""
    with pytest.raises(ConfigError, match=r"py4j .*0\.10\.9\.1"):
        check_py4j_version(version)


@pytest.mark.parametrize("version", ["0.10.9.1", "0.10.9.9", "0.11"])
def test_a_py4j_with_free_ports_is_accepted(version: str) -> None:
    """E13"""
    check_py4j_version(version)


@pytest.mark.parametrize("number", [3, pytest.param(16, marks=pytest.mark.slow)])
def test_java_machines_side_by_side_have_ports_of_their_own(number: int) -> None:
    """E13"""
    gateways = [Gateway(max_heap="64m") for _ in range(number)]
    try:
        assert len({gateway.port for gateway in gateways}) == number
        assert all(gateway.jvm.java.lang.Integer.valueOf(7) == 7 for gateway in gateways)
    finally:
        for gateway in gateways:
            gateway.close()
    assert all(gone(gateway.pid) for gateway in gateways)


def test_close_ends_java_and_may_be_called_twice() -> None:
    gateway = Gateway(max_heap="64m")
    assert gateway.alive
    gateway.close()
    gateway.close()
    assert not gateway.alive


def test_close_does_not_wait_for_a_java_machine_that_hangs() -> None:
    gateway = Gateway(max_heap="64m")
    psutil.Process(gateway.pid).suspend()
    begin = time.monotonic()
    gateway.close()
    assert not gateway.alive
    assert time.monotonic() - begin < 10


def test_a_stranger_without_the_secret_is_turned_away() -> None:
    from py4j.java_gateway import GatewayParameters, JavaGateway
    from py4j.protocol import Py4JError

    gateway = Gateway(max_heap="64m")
    try:
        stranger = JavaGateway(gateway_parameters=GatewayParameters(port=gateway.port, auth_token="guess"))
        with pytest.raises(Py4JError):
            stranger.jvm.java.lang.System.getProperty("java.version")
        listening = {item.laddr.ip for item in psutil.Process(gateway.pid).net_connections() if item.status == "LISTEN"}
        assert listening <= {"127.0.0.1", "::ffff:127.0.0.1", "::1"}
        stranger.close()
    finally:
        gateway.close()


def test_java_that_does_not_come_up_says_why() -> None:
    with pytest.raises(JavaDied, match="heap"):
        Gateway(max_heap="1k")


def test_java_ends_when_our_process_is_killed() -> None:
    code = (
        "import sys, time; from dpepo.envs.scienceworld.gateway import Gateway;"
        "print(Gateway(max_heap='64m').pid, flush=True); time.sleep(60)"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        pid = int(process.stdout.readline())
        assert psutil.pid_exists(pid)
        os.kill(process.pid, signal.SIGKILL)
    assert gone(pid)
