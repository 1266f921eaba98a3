"""The 30 tasks of ScienceWorld and their splits, known without starting Java (a test compares them with the package).

Within a task, variations are numbered from 0; the official split is contiguous: the first two quarters are for training, the
third for development, the rest for testing (quarters rounded down).
"""

from __future__ import annotations

import json
import re

from dpepo.errors import TaskError, did_you_mean
from dpepo.types import Task

WORLD = "scienceworld"
OFFICIAL_SPLITS = ("train", "dev", "test")

NUM_VARIATIONS: dict[str, int] = {
    "boil": 30,
    "change-the-state-of-matter-of": 30,
    "chemistry-mix": 32,
    "chemistry-mix-paint-secondary-color": 36,
    "chemistry-mix-paint-tertiary-color": 36,
    "find-animal": 300,
    "find-living-thing": 300,
    "find-non-living-thing": 300,
    "find-plant": 300,
    "freeze": 30,
    "grow-fruit": 126,
    "grow-plant": 126,
    "identify-life-stages-1": 14,
    "identify-life-stages-2": 10,
    "inclined-plane-determine-angle": 168,
    "inclined-plane-friction-named-surfaces": 1386,
    "inclined-plane-friction-unnamed-surfaces": 162,
    "lifespan-longest-lived": 125,
    "lifespan-longest-lived-then-shortest-lived": 125,
    "lifespan-shortest-lived": 125,
    "measure-melting-point-known-substance": 436,
    "measure-melting-point-unknown-substance": 300,
    "melt": 30,
    "mendelian-genetics-known-plant": 120,
    "mendelian-genetics-unknown-plant": 480,
    "power-component": 20,
    "power-component-renewable-vs-nonrenewable-energy": 20,
    "test-conductivity": 900,
    "test-conductivity-of-unknown-substances": 600,
    "use-thermometer": 540,
}

HELD_OUT = frozenset(
    {
        "change-the-state-of-matter-of",
        "chemistry-mix-paint-tertiary-color",
        "find-plant",
        "grow-plant",
        "identify-life-stages-2",
        "inclined-plane-friction-unnamed-surfaces",
        "lifespan-longest-lived-then-shortest-lived",
        "measure-melting-point-unknown-substance",
        "mendelian-genetics-unknown-plant",
        "test-conductivity-of-unknown-substances",
    }
)
"""The ten tasks that no model of level L2 is trained on."""

_LEVEL_TASKS = frozenset(NUM_VARIATIONS) - {"use-thermometer"}  # the published lists leave one of the 30 out
LEVELS: dict[str, tuple[frozenset[str], str]] = {
    "L0_train": (_LEVEL_TASKS, "train"),
    "L0_test": (_LEVEL_TASKS, "dev"),
    "L1_train": (_LEVEL_TASKS, "train"),
    "L1_test": (_LEVEL_TASKS, "test"),
    "L1_only_test": (_LEVEL_TASKS - HELD_OUT, "test"),
    "L2_train": (_LEVEL_TASKS - HELD_OUT, "train"),
    "L2_test": (HELD_OUT, "test"),
}
"""The paper's lists as (tasks, official split): 3,322 / 1,661, 3,322 / 1,684, 2,242 / 549 tasks to train / test on.

All of `L2_test` is also in `L1_test` (another model, trained on other tasks, is measured on it); `L1_only_test` is the rest.
"""

SPLITS = (*OFFICIAL_SPLITS, *LEVELS)


def variations(name: str, split: str) -> range:
    """Variation numbers of a task in a split.

    Args:
        name: One of `NUM_VARIATIONS`.
        split: "train", "dev" or "test".

    >>> variations("lifespan-longest-lived", "train"), variations("lifespan-longest-lived", "test")
    (range(0, 62), range(93, 125))
    """
    quarter = NUM_VARIATIONS[name] // 4
    bounds = (0, 2 * quarter, 3 * quarter, NUM_VARIATIONS[name])
    position = OFFICIAL_SPLITS.index(split)
    return range(bounds[position], bounds[position + 1])


def split_tasks(split: str) -> list[Task]:
    """All tasks of a split, by name, then by variation number."""
    names, official = LEVELS.get(split, (frozenset(NUM_VARIATIONS), split))
    return [_task(name, number, split) for name in NUM_VARIATIONS if name in names for number in variations(name, official)]


def resolve_entry(entry: object) -> str | None:
    """The task id that an entry of a published list means; None where it is of another form.

    >>> resolve_entry(["boil", 17, "L0"]), resolve_entry('["boil", 17]'), resolve_entry({"task": "boil", "id": 17})
    ('scienceworld/boil/17', 'scienceworld/boil/17', 'scienceworld/boil/17')
    """
    if isinstance(entry, str) and entry.lstrip().startswith(("[", "{")):
        try:
            entry = json.loads(entry)
        except ValueError:
            return None
    if isinstance(entry, dict):
        entry = [entry.get("task"), entry.get("id", entry.get("variation"))]
    if not isinstance(entry, list | tuple) or len(entry) < 2:
        return None
    name, number = entry[0], entry[1]
    if isinstance(name, str) and isinstance(number, int) and not isinstance(number, bool):
        return f"{WORLD}/{name}/{number}"
    return None


def find_task(task_id: str) -> Task:
    """The task with an id such as "scienceworld/boil/17".

    Raises:
        TaskError: no such task; the nearest name or the range of variations is named.

    >>> find_task("scienceworld/boil/17").split
    'dev'
    """
    match = re.fullmatch(r"scienceworld/(?P<name>[^/]+)/(?P<variation>0|[1-9][0-9]{0,5})", task_id, re.ASCII)
    if match is None:
        raise TaskError(f"{task_id!r} is no ScienceWorld task: ids look like 'scienceworld/boil/17' (name, variation number)")
    name, variation = match["name"], int(match["variation"])
    if name not in NUM_VARIATIONS:
        raise TaskError(f"ScienceWorld has no task {name!r} (asked for {task_id!r}). {did_you_mean(name, NUM_VARIATIONS)}")
    if variation >= NUM_VARIATIONS[name]:
        raise TaskError(f"{task_id!r}: the variations of {name} are 0 to {NUM_VARIATIONS[name] - 1}")
    split = next(split for split in OFFICIAL_SPLITS if variation in variations(name, split))
    return _task(name, variation, split)


def _task(name: str, variation: int, split: str) -> Task:
    return Task(id=f"{WORLD}/{name}/{variation}", world=WORLD, name=name, split=split)
