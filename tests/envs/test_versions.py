"""Releases of packages that were not tested are refused by name."""

from __future__ import annotations

import pytest

from dpepo.envs import world_status
from dpepo.envs.versions import TESTED, version_problem


@pytest.mark.parametrize("package", TESTED)
@pytest.mark.parametrize(("version", "fine"), [("first", True), ("0.9", False), ("99.0", False), ("beyond", False)])
def test_a_release_outside_the_tested_range_is_refused_with_what_to_install(
    package: str, version: str, fine: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Case I01."""
    pytest.importorskip(package)
    installed = {"first": f"{TESTED[package][0]}+local", "beyond": TESTED[package][1]}.get(version, version)
    monkeypatch.setattr("importlib.metadata.version", lambda name: installed if name == package else "0.10.9.9")
    status = world_status(package)
    assert status.ready is fine and (not version_problem(package)) is fine
    if not fine:
        assert f"pip install '{package}>=" in status.detail and installed in status.detail
    else:
        assert installed in status.detail
