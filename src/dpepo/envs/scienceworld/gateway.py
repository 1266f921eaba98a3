"""One Java machine with the ScienceWorld jar, started our own way and reached through py4j.

Own launcher instead of the package's: an absolute Java path (the package only looks at PATH), a bounded heap, deterministic
hashing, a port chosen by the system on the loopback interface, a secret that every connection must present, and an error text
when Java does not come up. The machine ends when this process does, however it ends: it watches the pipe to us.
"""

from __future__ import annotations

import contextlib
import importlib.metadata
import importlib.util
import os
import re
import select
import signal
import subprocess
import tempfile
from pathlib import Path
from typing import IO, Any

from dpepo.envs.scienceworld.java import find_java
from dpepo.errors import ConfigError, JobError, MissingPackage

HASHING = "-XX:hashCode=2"  # identity hashes are all equal, so that hash sets keep the order of insertion
START_TIMEOUT_S = 60.0
OLDEST_PY4J = (0, 10, 9, 1)  # before, a second Java side always asked for the same fixed port


class JavaDied(JobError):
    """The Java machine is gone; its simulators are lost and can be rebuilt by replaying their actions."""


def check_py4j_version(version: str) -> None:
    """Refuse a py4j whose gateways share one fixed port.

    Raises:
        ConfigError: py4j is older than 0.10.9.1.
    """
    numbers = tuple(int(part) for part in re.findall(r"\d+", version)[:4])
    if numbers < OLDEST_PY4J:
        raise ConfigError(
            f"py4j {version} cannot run several Java machines at once (fixed port). Try: pip install 'py4j>=0.10.9.1,<0.11'"
        )


def package_folder(package: str) -> Path:
    """Where an installed package lies, without importing it.

    Raises:
        MissingPackage: it is not installed.
    """
    spec = importlib.util.find_spec(package)
    if spec is None or spec.origin is None:
        raise MissingPackage(package, extra="scienceworld", needed_for="ScienceWorld")
    return Path(spec.origin).parent


def jar_path() -> Path:
    """The simulator's jar inside the package scienceworld.

    Raises:
        MissingPackage: the package scienceworld is not installed.
    """
    return package_folder("scienceworld") / "scienceworld.jar"


def _process_group() -> int | None:
    """A group of its own, so that Ctrl-C at a terminal does not reach Java; the broken pipe ends it when we go.

    In a worker, which ignores Ctrl-C itself and so does what it starts, the worker's: both can then be killed together, even
    when Java hangs.
    """
    return None if signal.getsignal(signal.SIGINT) is signal.SIG_IGN else 0


class Gateway:
    """A running Java machine. Not safe for use by several threads at once: callers hold a lock."""

    def __init__(self, *, max_heap: str) -> None:
        """Start Java and connect.

        Args:
            max_heap: most memory for Java objects, in Java's notation, e.g. "512m".

        Raises:
            MissingJava: no Java runtime.
            MissingPackage: scienceworld or py4j is not installed.
            ConfigError: py4j is too old.
            JavaDied: Java did not come up; the text holds what it said.
        """
        jar = jar_path()
        java = find_java()
        package_folder("py4j")
        check_py4j_version(importlib.metadata.version("py4j"))
        from py4j.java_gateway import GatewayParameters, JavaGateway, find_jar_path

        command = [
            str(java),
            "-XX:+UseSerialGC",
            f"-Xmx{max_heap}",
            "-XX:+UnlockExperimentalVMOptions",
            HASHING,
            "-cp",
            os.pathsep.join((find_jar_path(), str(jar))),
            "py4j.GatewayServer",
            "--die-on-broken-pipe",
            "--enable-auth",
            "0",
        ]
        with tempfile.TemporaryFile() as complaints:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=complaints,
                cwd=jar.parent,
                process_group=_process_group(),
            )
            try:
                self.port, token = self._read_address(complaints)
            except BaseException:
                self._end_process()
                raise
        parameters = GatewayParameters(address="127.0.0.1", port=self.port, auth_token=token)
        self._gateway: Any = JavaGateway(gateway_parameters=parameters)
        self.jvm: Any = self._gateway.jvm
        self._classes: dict[str, Any] = {}
        # before the first Scala println, which keeps the stream it finds: several lines per action would fill the pipe
        self.jvm.java.lang.System.setOut(self.jvm.java.io.PrintStream(self.jvm.java.io.OutputStream.nullOutputStream()))
        self.java_version = str(self.jvm.java.lang.System.getProperty("java.version"))

    def _read_address(self, complaints: IO[bytes]) -> tuple[int, str]:
        """Port and secret, two lines that a gateway server prints when it is ready; Java may print warnings before."""
        assert self._process.stdout is not None
        pipe, said = self._process.stdout.fileno(), b""
        while True:
            if address := re.search(rb"^(\d+)\r?\n(\S+)\r?\n", said, re.MULTILINE):
                return int(address[1]), address[2].decode()
            ready, _, _ = select.select([pipe], [], [], START_TIMEOUT_S)
            piece = os.read(pipe, 4096) if ready else b""
            if not piece:
                complaints.seek(0)
                why = (said + complaints.read()).decode(errors="replace").strip()
                raise JavaDied(f"Java did not start: {why[:500] or f'no answer within {START_TIMEOUT_S:.0f} seconds'}")
            said += piece

    @property
    def pid(self) -> int:
        """Process id of the Java machine."""
        return self._process.pid

    @property
    def alive(self) -> bool:
        """Whether the Java machine still runs."""
        return self._process.poll() is None

    def java_class(self, name: str) -> Any:
        """A class by its full name. Found once: every dot of ``jvm.a.b.C`` is a question to Java, every time."""
        if name not in self._classes:
            found = self.jvm
            for part in name.split("."):
                found = getattr(found, part)
            self._classes[name] = found
        return self._classes[name]

    def static(self, class_name: str) -> Any:
        """The singleton of a Scala object, e.g. ``util.UniqueIdentifier$``."""
        loader = self.jvm.java.lang.Class.forName(class_name)
        return loader.getField("MODULE$").get(None)

    def join(self, texts: Any, separator: str = "\n") -> list[str]:
        """A Java collection of strings as a Python list, in two round trips instead of one per item."""
        joined = str(self.java_class("java.lang.String").join(separator, texts))
        return joined.split(separator) if joined else []

    def close(self) -> None:
        """End the Java machine; calling it again does nothing."""
        client = self._gateway._gateway_client
        client.is_connected = False  # else every Java object that Python drops from now on would try to connect again
        with contextlib.suppress(Exception):  # the other side may be gone already, which is what we want
            client.close()  # our ends only: asking Java to shut down could wait for ever
        self._end_process()

    def _end_process(self) -> None:
        process = self._process
        for pipe in (process.stdin, process.stdout):
            if pipe is not None and not pipe.closed:
                with contextlib.suppress(OSError):
                    pipe.close()
        try:
            process.wait(timeout=2.0)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
