"""Do dpepo's worlds answer as the plain packages do? Random episodes in both, compared observation by observation.

    python benchmarks/identity.py [--scienceworld 6] [--alfworld 20] [--data-root FOLDER] [--steps 25]

ScienceWorld: all 30 tasks, so many episodes each; the plain package plays in a Java machine of its own with the same hashing,
and without asking for valid actions during the episode (the question would change it); the valid actions are then compared on a
copy that is led to the end of the episode. ALFWorld: all six types, so many episodes each, of the official games in the data
root, or of generated ones where there are none.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

PLAIN_SCIENCEWORLD = """
import json, sys
from scienceworld import ScienceWorldEnv
env = ScienceWorldEnv()
for line in sys.stdin:
    asked = json.loads(line)
    answers = []
    for again in range(2):
        env.load(asked["task"], asked["variation"], asked["simplifications"])
        server = env.server
        for action in ["look around", *asked["actions"]]:
            text = server.step(action)
            if not again:
                score = round(100 * server.getScore())
                answers.append([text, score, bool(server.getCompleted()) or score < 0])  # the wrapper's own rule of the end
    # the list draws among names of equal things; dpepo asks with this seed
    getattr(getattr(env._gateway.jvm.scala.util, "Random$"), "MODULE$").setSeed(0)
    valid = json.loads(server.getValidActionObjectCombinationsJSON()).get("validActions", [])
    print(json.dumps({"answers": answers, "valid": sorted({entry["action"] for entry in valid})}), flush=True)
env.close()
"""


class Plain:
    """The plain package in a process and Java machine of its own, with the hashing that dpepo uses."""

    def __init__(self) -> None:
        """Start it."""
        from dpepo.envs.scienceworld.gateway import HASHING
        from dpepo.envs.scienceworld.java import find_java

        environment = {
            **os.environ,
            "PATH": f"{find_java().parent}{os.pathsep}{os.environ['PATH']}",
            "JDK_JAVA_OPTIONS": f"-XX:+UnlockExperimentalVMOptions {HASHING} -XX:+UseSerialGC -Xmx512m",
        }
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 (lives as long as the process; Java announces its options there)
        self._process = subprocess.Popen(
            [sys.executable, "-c", PLAIN_SCIENCEWORLD],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            env=environment,
            text=True,
        )

    def play(self, request: dict[str, Any]) -> dict[str, Any]:
        """What it answers to the actions of an episode, and the valid actions at the end."""
        assert self._process.stdin is not None and self._process.stdout is not None
        try:
            self._process.stdin.write(json.dumps(request) + "\n")
            self._process.stdin.flush()
        except OSError:
            pass  # it ended; the missing answer says so below
        line = self._process.stdout.readline()
        if not line:
            self._errors.seek(0)
            sys.exit(
                f"the plain package ended in {request['task']} {request['variation']}: {self._errors.read().decode()[-2000:]}"
            )
        answer: dict[str, Any] = json.loads(line)
        return answer

    def close(self) -> None:
        """End it, its Java machine with it."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(20)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._errors.close()


def compare_scienceworld(episodes: int, *, steps: int) -> Counter[str]:
    """Episodes of all 30 tasks in dpepo, then in the plain package."""
    from dpepo.envs.scienceworld.tasks import NUM_VARIATIONS
    from dpepo.envs.scienceworld.world import ScienceWorld

    counts: Counter[str] = Counter()
    plain = Plain()
    with closing(plain), ScienceWorld(valid_actions="list") as world:
        for name, size in NUM_VARIATIONS.items():
            for number in range(episodes):
                rng = random.Random(f"{name}/{number}")
                variation = rng.randrange(size)
                env = world.make(f"scienceworld/{name}/{variation}")
                seen, actions = env.reset(), list[str]()
                ours = [[seen.text, round(seen.score), seen.ended]]
                while len(actions) < steps and not seen.ended:
                    actions.append(rng.choice(seen.admissible_actions) if seen.admissible_actions else "look around")
                    seen = env.step(actions[-1])
                    ours.append([seen.text, round(seen.score), seen.ended])
                request = {"task": name, "variation": variation, "simplifications": "easy", "actions": actions}
                answer = plain.play(request)
                counts["episodes"] += 1
                counts["observations"] += len(ours)
                if ours != answer["answers"]:
                    counts["different episodes"] += 1
                    _show(request, ours, answer["answers"])
                if not seen.ended:
                    counts["lists of valid actions"] += 1
                    if sorted(seen.admissible_actions) != answer["valid"]:
                        counts["different lists of valid actions"] += 1
                        apart = sorted(set(seen.admissible_actions) ^ set(answer["valid"]))
                        print(f"{name} {variation}: {len(apart)} valid actions apart: {apart[:4]}", file=sys.stderr)
    return counts


def compare_alfworld(episodes: int, *, steps: int, root: Path) -> Counter[str]:
    """Episodes of all six types in dpepo and in the plain package, command by command."""
    sys.path.insert(0, str(Path(__file__).parents[1]))
    from tests.support.alfworld_games import differences, write_game

    from dpepo.envs.alfworld.games import TASK_TYPES
    from dpepo.envs.alfworld.generate import generate_game
    from dpepo.envs.alfworld.index import SPLITS, list_games

    counts: Counter[str] = Counter()
    paths: dict[str, list[Path]] = {kind: [] for kind in TASK_TYPES}
    for split in SPLITS:
        if (root / "json_2.1.1" / split).is_dir():
            for task_id in list_games(root, split):
                parts = task_id.split("/")[1:]
                paths[parts[1].partition("-")[0]].append(root.joinpath("json_2.1.1", *parts, "game.tw-pddl"))
    with tempfile.TemporaryDirectory() as folder:
        for kind in TASK_TYPES:
            real = random.Random(kind).sample(paths[kind], min(episodes, len(paths[kind])))
            made = [
                write_game(generate_game(kind, seed=number), Path(folder) / kind / f"trial_{number}" / "game.tw-pddl")
                for number in range(episodes - len(real))
            ]
            for origin, played in (("official games", real), ("generated games", made)):
                if played:
                    counts[origin] += len(played)
            for path in [*real, *made]:
                found = differences(path, seed=0, steps=steps)
                counts["episodes"] += 1
                if found:
                    counts["different episodes"] += 1
                for line in found[:1]:
                    print(path, line, file=sys.stderr)
    return counts


def _show(request: dict[str, Any], ours: list[Any], theirs: list[Any]) -> None:
    place = next((n for n, pair in enumerate(zip(ours, theirs, strict=False)) if pair[0] != pair[1]), len(theirs))
    print(request["task"], request["variation"], place, ours[place : place + 1], theirs[place : place + 1], file=sys.stderr)


def main() -> None:
    """Compare, print counts, and fail where anything differed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scienceworld", type=int, default=6, help="episodes per task")
    parser.add_argument("--alfworld", type=int, default=20, help="episodes per task type")
    parser.add_argument("--steps", type=int, default=25)
    parser.add_argument("--data-root", type=Path, default=Path(os.environ.get("ALFWORLD_DATA", "none")))
    asked = parser.parse_args()
    comparisons: dict[str, Callable[[], Counter[str]]] = {}
    if asked.scienceworld:
        comparisons["scienceworld"] = lambda: compare_scienceworld(asked.scienceworld, steps=asked.steps)
    if asked.alfworld:
        comparisons["alfworld"] = lambda: compare_alfworld(asked.alfworld, steps=asked.steps, root=asked.data_root)
    failed = False
    for name, compare in comparisons.items():
        began = time.monotonic()
        counts = compare()
        different = any(key.startswith("different") for key in counts)
        failed = failed or different
        told = ", ".join(f"{count} {key}" for key, count in counts.items()) + ("" if different else ", nothing different")
        print(f"{name}: {told} ({time.monotonic() - began:.0f} s)", flush=True)
    sys.exit(failed)


if __name__ == "__main__":
    main()
