"""Which releases of the packages below a world were tested with: others may answer otherwise, so they are refused by name."""

from __future__ import annotations

import re
from importlib import metadata

TESTED: dict[str, tuple[str, str]] = {"scienceworld": ("1.2.3", "1.3"), "textworld": ("1.7", "2")}
"""Package to the first release that was tested and the first that was not."""


def version_problem(package: str) -> str:
    """What is wrong with the installed release of a package, with what to do; empty when it was tested.

    Args:
        package: A key of `TESTED` that is installed.
    """
    first, beyond = TESTED[package]
    version = metadata.version(package)
    if _parts(first) <= _parts(version) < _parts(beyond):
        return ""
    return (
        f"{package} {version} is installed, and dpepo was tested with {first} up to, not including, {beyond}. "
        f"Try: pip install '{package}>={first},<{beyond}'"
    )


def _parts(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", version.partition("+")[0])[:3])
