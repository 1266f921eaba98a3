"""What the demos differ in: world, recipe, splits, and what their reports say. Reads a finished run, plays nothing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

from dpepo.errors import RequestError, did_you_mean
from dpepo.runs.rundir import RunFolder
from dpepo.runs.summary import Reference

NUM_COPIES = 4
ANIMALS = 3  # animals in every variation of the two lifespan tasks


@dataclass(frozen=True, kw_only=True)
class DemoWorld:
    """One demo."""

    world: str
    recipe: Path
    subtitle: str
    notes: tuple[str, ...]  # paragraphs of the report
    held_out: str  # split that nothing is trained or tuned on
    split_names: dict[str, str]  # split to what the report calls it
    dev_tasks: str  # what the learning curve calls the tasks of tasks.eval
    levels: Callable[[RunFolder], Sequence[Reference]]  # what the table is compared with


def blind_levels(run: RunFolder) -> list[Reference]:
    """What choice without knowledge reaches, worked out from the lists of things that held-out episodes showed."""
    counts = list(_listed_things(run).values())
    levels = [
        ("among the three animals", [ANIMALS] * max(1, len(counts))),
        ("among all listed things", counts),
    ]
    references = []
    for among, sizes in levels:
        if not sizes:
            continue
        single = fmean(1.0 / size for size in sizes)
        several = fmean(1.0 - (1.0 - 1.0 / size) ** NUM_COPIES for size in sizes)
        references.append(Reference(label=f"K = 1, blind choice {among}", value=single))
        references.append(Reference(label=f"{NUM_COPIES} independent blind choices {among}", value=several))
    return references


def _listed_things(run: RunFolder) -> dict[str, int]:
    """Held-out task to the number of things listed outside, where an episode went there."""
    counts: dict[str, int] = {}
    for line in run.read_episodes(stage="eval-rl-test-k1-t1", problems=[]):
        for turn in line.episode.turns:
            for step in turn.steps:
                if step.observation.text.startswith("at outside :") and step.observation.objects:
                    counts[line.episode.task.id] = len(step.observation.objects)
    return counts


def teacher_levels(run: RunFolder) -> list[Reference]:
    """How often the teacher of the cold start succeeded on training tasks, by K."""
    rows = [row for row in run.read_metrics().rows if row.stage == "synth" and row.values.get("played")]
    return [
        Reference(
            label=f"random search (the teacher), training games, K = {row.step}",
            value=float(row.values["succeeded"] or 0) / float(row.values["played"] or 1),
        )
        for row in rows
    ]


SCIENCEWORLD = DemoWorld(
    world="scienceworld",
    recipe=Path(__file__).with_name("lifespan.yaml"),
    subtitle="ScienceWorld, lifespan-longest-lived and lifespan-shortest-lived; cold start, then DPEPO with K = 4",
    notes=(
        "One agent plays several copies of the same ScienceWorld task at once: it reads what happened in all of them, "
        "thinks once, and acts in as many as it likes. The task: go outside and focus on the animal with the longest "
        "(or the shortest) life span. A wrong choice ends that copy. An episode succeeds when any copy does.",
        "The model is tiny (0.8 million parameters, a vocabulary of tags, names and phrases) and was made for this "
        "demo. Its base has seen made-up search problems only: random names in random rooms, and goals worded like "
        "these. It has learnt to copy names and to keep the form of a reply. It has seen no fact about life spans and "
        "no held-out variation.",
        "The teacher of the cold start is weak on purpose: it goes to the place the goal names and then picks any of "
        "the listed things at random, axes and fountains included. Nothing it did was filtered. So what the agent "
        "knows about animals after the cold start is nothing; what it gains afterwards comes from reinforcement "
        "learning.",
        "All numbers below were measured in this run. Held-out variations were played for the two evaluations only; "
        "the learning curve uses another list (dev). The policy after RL is the last checkpoint, not the best one.",
    ),
    held_out="test",
    split_names={"test": "held-out variations (test)", "train": "training variations"},
    dev_tasks="dev variations",
    levels=blind_levels,
)

ALFWORLD = DemoWorld(
    world="alfworld",
    recipe=Path(__file__).with_name("household.yaml"),
    subtitle="ALFWorld, generated games of pick_and_place_simple; cold start, then DPEPO with K = 4",
    notes=(
        "One agent plays several copies of the same ALFWorld game at once: it reads what happened in all of them, "
        "thinks once, and acts in as many as it likes. The task: put some thing, which lies somewhere in the room, in "
        "another place. Nobody says where it lies, and five turns leave time for one or two looks before it has to be "
        "taken and brought. An episode succeeds when any copy does.",
        "The games were made on this machine, in rooms of the real games; nothing was downloaded. Held-out games play "
        "in rooms that no training game shows.",
        "The model is tiny (0.8 million parameters, a vocabulary of tags, kinds of things and places, and phrases) "
        "and was made for this demo. Its base has seen training games in which the names of things were exchanged at "
        "random, anew for every episode: it has learnt to copy names and to keep the form of a reply, and nothing of "
        "where things lie.",
        "The teacher of the cold start is weak on purpose: it looks in places drawn at random. Nothing it did was "
        "filtered. So what the agent gains after the cold start, it gains from reinforcement learning.",
        "All numbers below were measured in this run. Held-out games were played for the two evaluations only; the "
        "learning curve uses another list (generated_dev). The policy after RL is the last checkpoint, not the best "
        "one.",
    ),
    held_out="generated_test",
    split_names={"generated_test": "held-out games (generated_test)", "generated_train": "training games"},
    dev_tasks="dev games",
    levels=teacher_levels,
)

DEMOS = {demo.world: demo for demo in (SCIENCEWORLD, ALFWORLD)}


def find_demo(world: str) -> DemoWorld:
    """The demo of a world.

    Raises:
        RequestError: There is none.
    """
    if world not in DEMOS:
        raise RequestError(f"There is no demo of the world {world!r}. {did_you_mean(world, DEMOS)}")
    return DEMOS[world]
