"""Is a world the same in another process? Python's hashing differs there, so what hangs on the order of a set shows."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from dpepo.envs.base import World
from dpepo.envs.registry import load_world
from dpepo.errors import ConfigError, TaskError
from dpepo.types import Observation

TIMEOUT_S = 300.0
_OTHER_HASHING = "4711"
_BOOT = "import json, sys; sys.path[:] = json.loads(sys.argv[1]); from dpepo.envs.check_process import main; main(sys.argv[2])"


def check_loading(
    name: str, options: Mapping[str, Any], task_ids: Sequence[str], *, steps: int = 20, seed: int = 0
) -> list[str]:
    """What can only be checked of a world that has a name: unknown options, and another process.

    Args:
        name: A name or ``module:Class``, see `load_world`.
        options: Its options.
        task_ids: Tasks to play here and there, with the same choices.
        steps: Actions per task.
        seed: Of the choices.

    Returns:
        One sentence per broken promise.
    """
    with load_world(name, options) as world:
        here = transcript(world, task_ids, steps=steps, seed=seed)
    request = {"name": name, "options": dict(options), "task_ids": list(task_ids), "steps": steps, "seed": seed}
    there = _elsewhere(request)
    problems = [] if _refuses_unknown_option(name, options) else ["options: an unknown one is not refused with a ConfigError"]
    if isinstance(there, str):
        return [*problems, f"in another process the world fails: {there}"]
    return problems + [
        f"{what} differs in another process (does something hang on the order of a set, on hash() or on the clock?)"
        for what, lines in here.items()
        if there.get(what) != lines
    ]


def transcript(world: World, task_ids: Sequence[str], *, steps: int, seed: int) -> dict[str, list[str]]:
    """What a world lists and what random walks in it show, to be compared with the same from elsewhere.

    Returns:
        "tasks of SPLIT" or task id to lines.
    """
    shown: dict[str, list[str]] = {}
    for split in world.splits:
        try:
            shown[f"the list of tasks of {split!r}"] = [task.id for task in world.tasks(split)]
        except TaskError as error:  # its files are not on this machine
            shown[f"the list of tasks of {split!r}"] = [str(error)]
    for task_id in task_ids:
        rng = random.Random(f"{seed}/{task_id}/elsewhere")
        with world.make(task_id) as env:
            seen = env.reset()
            lines = [env.goal, seen.model_dump_json()]
            for _ in range(steps):
                if seen.ended or not seen.admissible_actions:
                    break
                seen = env.step(fill_template(rng.choice(seen.admissible_actions), seen, rng))
                lines.append(seen.model_dump_json())
        shown[task_id] = lines
    return shown


def fill_template(template: str, seen: Observation, rng: random.Random) -> str:
    """An action from a template such as "open OBJ", with objects at hand drawn at random; complete actions stay as they are."""
    words = template.split() if seen.objects else [template]
    return " ".join(rng.choice(seen.objects) if word == "OBJ" else word for word in words)


def main(folder: str) -> None:
    """The other process: read request.json in a folder and write answer.json."""
    request = json.loads(Path(folder, "request.json").read_text(encoding="utf-8"))
    with load_world(request["name"], request["options"]) as world:
        answer = transcript(world, request["task_ids"], steps=request["steps"], seed=request["seed"])
    Path(folder, "answer.json").write_text(json.dumps(answer), encoding="utf-8")


def _elsewhere(request: Mapping[str, Any]) -> dict[str, list[str]] | str:
    """The transcript of a fresh interpreter; a sentence when there is none."""
    with tempfile.TemporaryDirectory(prefix="dpepo-check-") as folder:
        Path(folder, "request.json").write_text(json.dumps(request), encoding="utf-8")
        command = [sys.executable, "-c", _BOOT, json.dumps([str(path) for path in sys.path]), folder]
        environment = {**os.environ, "PYTHONHASHSEED": _OTHER_HASHING}
        try:
            done = subprocess.run(command, env=environment, capture_output=True, timeout=TIMEOUT_S, check=False)
        except subprocess.TimeoutExpired:
            return f"no answer in {TIMEOUT_S:g} seconds"
        answer = Path(folder, "answer.json")
        if done.returncode or not answer.is_file():
            said = done.stderr.decode(errors="replace").strip().splitlines()
            return said[-1] if said else f"exit code {done.returncode}"
        loaded: dict[str, list[str]] = json.loads(answer.read_text(encoding="utf-8"))
        return loaded


def _refuses_unknown_option(name: str, options: Mapping[str, Any]) -> bool:
    try:
        load_world(name, {**options, "no_such_option": 1}).close()
    except ConfigError:
        return True
    return False
