"""What K copies of a task cost: dpepo's environment layer beside the layout of public frameworks, measured in one run.

    python benchmarks/environments.py [--json FILE] [--data-root FOLDER] [--only scienceworld|alfworld]

The public layout has one ``ScienceWorldEnv`` with a Java machine of its own per copy, and one ``textworld`` environment
per copy. Every measurement runs in a fresh process; CPU seconds and resident memory are those of that process and all
its children. The public layout is measured at 1, 2 and 4 copies (ScienceWorld) or 2 and 8 (ALFWorld) and extrapolated
linearly to 64, marked "~". Both sides do the same actions on the same tasks. Without official games of ALFWorld,
generated ones are played by both.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import psutil

TASKS = ("boil/3", "find-animal/20", "lifespan-longest-lived/7", "test-conductivity/40")
TURNS = 25
SIBLINGS, COPIES = 4, 4  # per task; 4 x 4 x 4 = 64
LIBRARY_MB = 33.8  # of the planner that the package copies to the temporary folder for every environment


def cpu_seconds() -> float:
    """CPU time of this process and everything it started."""
    me = psutil.Process()
    ended = me.cpu_times()
    total = time.process_time() + ended.children_user + ended.children_system
    for child in me.children(recursive=True):
        try:
            times = child.cpu_times()
        except psutil.NoSuchProcess:
            continue
        total += times.user + times.system
    return total


def memory_mb() -> float:
    """Resident memory of this process and everything it started."""
    me = psutil.Process()
    total = me.memory_info().rss
    for child in me.children(recursive=True):
        try:
            total += child.memory_info().rss
        except psutil.NoSuchProcess:
            continue
    return total / 2**20


class Meter:
    """CPU and wall seconds since it was made."""

    def __init__(self) -> None:
        self._cpu, self._wall = cpu_seconds(), time.perf_counter()

    def read(self) -> dict[str, float]:
        return {"cpu": cpu_seconds() - self._cpu, "wall": time.perf_counter() - self._wall}


def actions_of(copy: int) -> list[str]:
    """Actions that are understood in every task: a different order for every copy, so that few results are remembered."""
    rng = random.Random(copy)
    rooms = ("kitchen", "workshop", "hallway", "outside", "foundry", "greenhouse", "bathroom", "bedroom", "living room")
    return [
        rng.choice((f"teleport to {rng.choice(rooms)}", "look around", "inventory", "wait1", "look at agent", "open cupboard"))
        for _ in range(TURNS)
    ]


def scienceworld_public(copies: int) -> dict[str, Any]:
    """One package environment and Java machine per copy, asked as the public frameworks ask it."""
    from scienceworld import ScienceWorldEnv

    def start(copy: int) -> Any:
        name, variation = TASKS[copy % len(TASKS)].split("/")
        env = ScienceWorldEnv("", envStepLimit=10_000)
        env.load(name, int(variation), "easy")
        env.reset()
        return env

    def turn(env: Any, action: str) -> None:
        env.step(action)
        env.get_possible_actions()
        env.get_possible_objects()
        env.get_valid_action_object_combinations()

    meter = Meter()
    envs = [start(copy) for copy in range(copies)]
    started = meter.read()
    meter = Meter()
    with ThreadPoolExecutor(copies) as threads:  # copies of a turn run side by side, as with one actor each
        for number in range(TURNS):
            list(threads.map(turn, envs, [actions_of(copy)[number] for copy in range(copies)]))
    stepped = meter.read()
    result = {"start": started, "steps": stepped, "num_steps": copies * TURNS, "memory": memory_mb()}
    for env in envs:
        env.close()
    return result


def scienceworld_dpepo(copies: int) -> dict[str, Any]:
    """A pool with one worker, which lives as long as a training; each of two rounds plays other variations.

    Start is that of the first round, Java machine included. Steps are those of the second: the public layout starts its
    machines anew for every training step, the pool does not. The first round's figure is printed beside it.
    """
    from dpepo.envs import WorkerPool

    bundles = copies // COPIES
    result: dict[str, Any] = {"num_steps": copies * TURNS}
    with WorkerPool("scienceworld", {}, workers=1) as pool:
        for number, name in enumerate(("cold", "steps")):
            meter = Meter()
            opened = pool.open_many([(f"scienceworld/{_variation(n, number)}", COPIES) for n in range(bundles)])
            if not number:
                result["start"] = meter.read()
            meter = Meter()
            for turn in range(TURNS):
                asked = [
                    (handle, {k + 1: actions_of(n * COPIES + k)[turn] for k in range(COPIES)})
                    for n, (handle, _) in enumerate(opened)
                ]
                pool.step_many(asked)
            result[name] = meter.read()
            result["memory"] = memory_mb()
            pool.close_many([handle for handle, _ in opened])
    return result


def _variation(bundle: int, number: int) -> str:
    """The task of a bundle; another variation in every round, so that nothing is remembered from the one before."""
    name, variation = TASKS[bundle % len(TASKS)].split("/")
    return f"{name}/{int(variation) + number}"


def worker_memory(_: int) -> dict[str, Any]:
    """A worker process that has not made an environment yet."""
    from dpepo.envs import WorkerPool

    with WorkerPool("scienceworld", {}, workers=1) as pool:
        pool.metadata()
        [worker] = [child for child in psutil.Process().children(recursive=True) if "java" not in child.name()][:1]
        return {"memory": worker.memory_info().rss / 2**20}


def games(root: Path) -> list[Path]:
    """Six games, one of each type; official ones where they are."""
    sys.path.insert(0, str(Path(__file__).parents[1]))
    from tests.support.alfworld_games import write_game

    from dpepo.envs.alfworld.games import TASK_TYPES
    from dpepo.envs.alfworld.generate import generate_game

    found = []
    for kind in TASK_TYPES:
        real = sorted(root.glob(f"json_2.1.1/*/{kind}-*/*/game.tw-pddl"))
        made = Path(tempfile.gettempdir()) / "dpepo-benchmark-games" / kind / "trial" / "game.tw-pddl"
        found.append(random.Random(0).choice(real) if real else write_game(generate_game(kind, seed=1), made))
    return found


def walk(admissible: Callable[[], list[str]], rng: random.Random) -> str:
    """A random command, not the dull ones."""
    return rng.choice([command for command in admissible() if command not in ("look", "inventory", "help")])


def alfworld_public(copies: int, root: Path) -> dict[str, Any]:
    """One package environment per copy; six games, then so many copies of the first."""
    paths = games(root)
    from tests.support.alfworld_games import StockPlayer

    StockPlayer(paths[0])  # imports are nobody's cost
    loads = []
    for path in paths:
        meter = Meter()
        StockPlayer(path)
        loads.append(meter.read()["cpu"])
    before = memory_mb()
    meter = Meter()
    players = [StockPlayer(paths[0]) for _ in range(copies)]
    copied = meter.read()["cpu"] / copies
    memory = memory_mb() - before
    meter, num_steps = Meter(), 0
    for copy, player in enumerate(players[:2]):
        rng = random.Random(copy)
        for _ in range(TURNS):
            if not player.shown.won:
                player.step(walk(lambda player=player: player.shown.commands, rng))
                num_steps += 1
    disk = copies * LIBRARY_MB
    step = meter.read()["cpu"] / num_steps
    return {"load": statistics.mean(loads), "copy": copied, "step": step, "memory": memory, "disk": disk, "base": before}


def alfworld_dpepo(copies: int, root: Path) -> dict[str, Any]:
    """The engine through the world, nothing remembered at first."""
    paths = games(root)
    from dpepo.envs.alfworld.world import AlfWorld

    with AlfWorld() as world:
        world.make(f"alfworld/{paths[0]}").reset()
    loads, agains, steps, crowds = [], [], [], []
    for path in paths:
        task = f"alfworld/{path}"
        world = AlfWorld()
        meter = Meter()
        world.make(task).reset()
        loads.append(meter.read()["cpu"])
        world.close()
        meter = Meter()
        world.make(task).reset()
        agains.append(meter.read()["cpu"])
        steps.append(_alfworld_steps(world, task, copies=1))
        crowds.append(_alfworld_steps(AlfWorld(), task, copies=32))
    before = memory_mb()
    world = AlfWorld()
    envs = [world.make(f"alfworld/{paths[0]}") for _ in range(copies)]
    meter = Meter()
    for env in envs:
        env.reset()
    further = [world.make(f"alfworld/{paths[0]}") for _ in range(2000)]
    for env in further:
        env.reset()
    copied = meter.read()["cpu"] / (copies + 2000)
    del further
    for copy, env in enumerate(envs):
        rng, seen = random.Random(copy), env.reset()
        for _ in range(TURNS):
            if not seen.ended:
                seen = env.step(rng.choice(seen.admissible_actions))
    return {
        "load": statistics.mean(loads),
        "again": statistics.mean(agains),
        "copy": copied,
        "step": statistics.mean(steps),
        "crowd": statistics.mean(crowds),
        "memory": max(memory_mb() - before, 0.1),
        "base": before,
        "disk": 0.0,
    }


def _alfworld_steps(world: Any, task: str, *, copies: int) -> float:
    """CPU seconds of an action, over copies that walk at random for 25 turns."""
    envs = [world.make(task) for _ in range(copies)]
    seen = [env.reset() for env in envs]
    rngs = [random.Random(copy) for copy in range(copies)]
    meter, num_steps = Meter(), 0
    for _ in range(TURNS):
        for place, env in enumerate(envs):
            if not seen[place].ended:
                seen[place] = env.step(walk(lambda place=place: list(seen[place].admissible_actions), rngs[place]))
                num_steps += 1
    return meter.read()["cpu"] / num_steps


PARTS: dict[str, Callable[..., dict[str, Any]]] = {
    "scienceworld-public": scienceworld_public,
    "scienceworld-dpepo": scienceworld_dpepo,
    "alfworld-public": alfworld_public,
    "alfworld-dpepo": alfworld_dpepo,
    "worker": worker_memory,
}


def run_part(name: str, copies: int, root: Path) -> dict[str, Any]:
    """One measurement in a process of its own."""
    command = [sys.executable, __file__, "--part", name, "--copies", str(copies), "--data-root", str(root)]
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "OMP_NUM_THREADS": "1"})
    if done.returncode:
        sys.exit(f"{name} with {copies} copies failed:\n{done.stderr[-3000:]}")
    print(f"measured {name}, {copies} copies", file=sys.stderr)
    result: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    return result


def linear(measured: dict[int, float], at: int) -> float:
    """The value at `at` of the straight line through some measurements."""
    xs, ys = list(measured), list(measured.values())
    mean_x, mean_y = statistics.mean(xs), statistics.mean(ys)
    slope = sum((x - mean_x) * (y - mean_y) for x, y in zip(xs, ys, strict=True)) / sum((x - mean_x) ** 2 for x in xs)
    return mean_y + slope * (at - mean_x)


Row = tuple[str, str, float, float, bool]  # quantity, unit, public, dpepo, whether public is extrapolated


def scienceworld_rows(root: Path) -> list[Row]:
    """Start, memory, steps and turns of ScienceWorld."""
    public = {copies: run_part("scienceworld-public", copies, root) for copies in (1, 2, 4)}
    ours = run_part("scienceworld-dpepo", 64, root)
    four = run_part("scienceworld-dpepo", 4, root)
    per_step = statistics.mean(part["steps"]["cpu"] / part["num_steps"] for part in public.values())
    return [
        (
            "ScienceWorld: 64 copies started and reset",
            "CPU s",
            linear({n: p["start"]["cpu"] for n, p in public.items()}, 64),
            ours["start"]["cpu"],
            True,
        ),
        (
            "ScienceWorld: memory of 64 copies after 25 turns",
            "MB",
            linear({n: p["memory"] for n, p in public.items()}, 64),
            ours["memory"],
            True,
        ),
        (
            "ScienceWorld: one action with what the prompt needs, from the second training step on",
            "CPU ms",
            1e3 * per_step,
            1e3 * ours["steps"]["cpu"] / ours["num_steps"],
            False,
        ),
        (
            "ScienceWorld: the same in the first training step, its Java machine cold",
            "CPU ms",
            1e3 * per_step,
            1e3 * ours["cold"]["cpu"] / ours["num_steps"],
            False,
        ),
        (
            "ScienceWorld: a turn of an episode, K = 4",
            "wall ms",
            1e3 * public[4]["steps"]["wall"] / TURNS,
            1e3 * four["steps"]["wall"] / TURNS,
            False,
        ),
    ]


def alfworld_rows(root: Path) -> list[Row]:
    """Loads, copies, steps, memory and disk of ALFWorld."""
    few, many = (run_part("alfworld-public", copies, root) for copies in (2, 8))
    ours = run_part("alfworld-dpepo", 64, root)
    memory = linear({2: few["base"] + few["memory"], 8: many["base"] + many["memory"]}, 64)
    return [
        ("ALFWorld: first load of a game", "CPU ms", 1e3 * many["load"], 1e3 * ours["load"], False),
        ("ALFWorld: load of a game seen before", "CPU ms", 1e3 * many["load"], 1e3 * ours["again"], False),
        ("ALFWorld: a further copy of a loaded game", "CPU ms", 1e3 * many["copy"], 1e3 * ours["copy"], False),
        ("ALFWorld: an action, nothing remembered", "CPU ms", 1e3 * many["step"], 1e3 * ours["step"], False),
        ("ALFWorld: an action, 32 copies of a game", "CPU ms", 1e3 * many["step"], 1e3 * ours["crowd"], False),
        ("ALFWorld: memory of a process with 64 copies of a game", "MB", memory, ours["base"] + ours["memory"], True),
        ("ALFWorld: temporary disk of 64 copies", "MB", 64 * LIBRARY_MB, ours["disk"], True),
    ]


def show(rows: list[Row], worker: float) -> str:
    """A Markdown table."""
    lines = ["| quantity | unit | public layout | dpepo | ratio |", "|---|---|---|---|---|"]
    for name, unit, public, ours, extrapolated in rows:
        ratio = f"{public / ours:.0f}x" if ours else "none left"
        lines.append(f"| {name} | {unit} | {'~' if extrapolated else ''}{_number(public)} | {_number(ours)} | {ratio} |")
    lines.append(f"| worker process before its first environment, its Java apart | MB | | {worker:.0f} | |")
    return "\n".join(lines)


def _number(value: float) -> str:
    return f"{value:.0f}" if value >= 100 else f"{value:.3g}"


def main() -> None:
    """Measure everything, or one part in this process."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, help="also write the figures here")
    parser.add_argument("--data-root", type=Path, default=Path(os.environ.get("ALFWORLD_DATA", "none")))
    parser.add_argument("--only", choices=["scienceworld", "alfworld"])
    parser.add_argument("--part", choices=sorted(PARTS), help=argparse.SUPPRESS)
    parser.add_argument("--copies", type=int, default=1, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.part:
        extra = (asked.data_root,) if asked.part.startswith("alfworld") else ()
        print(json.dumps(PARTS[asked.part](asked.copies, *extra)))
        return
    rows = [] if asked.only == "alfworld" else scienceworld_rows(asked.data_root)
    rows += [] if asked.only == "scienceworld" else alfworld_rows(asked.data_root)
    worker = run_part("worker", 1, asked.data_root)["memory"]
    print(show(rows, worker))
    if asked.json:
        figures = {
            name: {"unit": unit, "public": public, "dpepo": ours, "extrapolated": rough}
            for name, unit, public, ours, rough in rows
        }
        asked.json.write_text(json.dumps({**figures, "worker_mb": worker}, indent=1))


if __name__ == "__main__":
    main()
