"""What the demo's report says in plain words, and the levels its numbers are compared with. Reads the run, writes nothing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from statistics import fmean

from dpepo.config import Config
from dpepo.runs.metrics import MetricsRow
from dpepo.runs.rundir import RunFolder
from dpepo.runs.summary import CurvePoint, Fact, Reference, ResultRow, Summary
from dpepo.training.rl import TrainResult

ANIMALS = 3  # animals in every variation of the two tasks
NUM_COPIES = 4
_WINDOW = 10  # RL steps that one training point of the curve is a mean of

NOTES = (
    "One agent plays several copies of the same ScienceWorld task at once: it reads what happened in all of them, thinks once, "
    "and acts in as many as it likes. The task: go outside and focus on the animal with the longest (or the shortest) life "
    "span. A wrong choice ends that copy. An episode succeeds when any copy does.",
    "The model is tiny (0.8 million parameters, a vocabulary of tags, names and phrases) and was made for this demo. Its base "
    "has seen made-up search problems only: random names in random rooms, and goals worded like these. It has learnt to copy "
    "names and to keep the form of a reply. It has seen no fact about life spans and no held-out variation.",
    "The teacher of the cold start is weak on purpose: it goes to the place the goal names and then picks any of the listed "
    "things at random, axes and fountains included. Nothing it did was filtered. So what the agent knows about animals after "
    "the cold start is nothing; what it gains afterwards comes from reinforcement learning.",
    "All numbers below were measured in this run. Held-out variations were played for the two evaluations only; the learning "
    "curve uses another list (dev). The policy after RL is the last checkpoint, not the best one.",
)


def tell(run: RunFolder, *, rows: Sequence[ResultRow], config: Config, rl: TrainResult, minutes: float) -> Summary:
    """The summary of a finished demo."""
    settings, trained = f"{run.path}/config.yaml", f"model.path={run.path}/checkpoints/rl"
    return Summary(
        title="dpepo demo: exploring copies of a task in parallel",
        subtitle="ScienceWorld, lifespan-longest-lived and lifespan-shortest-lived; cold start, then DPEPO with K = 4",
        notes=NOTES,
        curve=tuple(curve(run.read_metrics().rows, num_envs=config.env.num_envs)),
        curve_axis="RL step",
        table=tuple(rows),
        references=tuple(blind_levels(run)),
        facts=(
            Fact(name="seed", value=str(config.seed)),
            Fact(
                name="RL steps",
                value=f"{rl.steps}, each {config.train.tasks_per_step} tasks x {config.train.group_size} episodes",
            ),
            Fact(name="time of RL", value=f"{rl.minutes:.1f} min"),
            Fact(name="time of this session", value=f"{minutes:.1f} min"),
            Fact(name="algorithm", value=f"{config.algorithm.name}, step reward on the scale {config.step_reward.scale}"),
        ),
        commands=(
            f"dpepo view {run.path}",
            f"dpepo eval {settings} {trained} run.dir=runs/greedy eval.temperature=0",
            f"dpepo train {settings} {trained} run.dir=runs/more train.steps=50 seed=7",
        ),
    )


def curve(rows: Sequence[MetricsRow], *, num_envs: int) -> Iterator[CurvePoint]:
    """Success on dev variations where it was measured, and on the tasks trained on as means over ten steps."""
    steps = [row for row in rows if row.stage == "rl"]
    for row in steps:
        if "val/success_rate" in row.values:
            value, n = float(row.values["val/success_rate"] or 0.0), int(row.values["val/n"] or 0)
            yield CurvePoint(step=row.step, series=f"dev variations, K = {num_envs}", value=value, n=n)
    played = [
        (row.step, float(row.values["episode/success_rate"] or 0.0)) for row in steps if "episode/success_rate" in row.values
    ]
    for start in range(0, len(played), _WINDOW):
        window = played[start : start + _WINDOW]
        value = fmean(rate for _, rate in window)
        yield CurvePoint(step=window[-1][0], series=f"while training, K = {num_envs} (mean of {_WINDOW} steps)", value=value)


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
