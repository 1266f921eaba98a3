"""Where the time went: per stage over a whole run, and within one step of reinforcement learning."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from statistics import fmean

from dpepo.figures.options import Options
from dpepo.figures.picture import NothingToShow, Part, Picture, Stacks, caption_of
from dpepo.figures.sources import Material, Run
from dpepo.runs.episodes import read_episodes

DEMONSTRATIONS, COLD_START, EVALUATION = "demonstrations", "cold start (SFT)", "evaluation"
SAMPLING, ENVIRONMENTS, ROLLOUT, UPDATE = "RL: sampling", "RL: environments", "RL: rest of the rollout", "RL: update"
STAGES = (DEMONSTRATIONS, COLD_START, SAMPLING, ENVIRONMENTS, ROLLOUT, UPDATE, EVALUATION)
_RL = (SAMPLING, ENVIRONMENTS, ROLLOUT, UPDATE)
_COLOURS = (4, 5, 0, 1, 3, 2, -1)  # of STAGES; -1: grey


def make(material: Material, options: Options) -> Picture:
    """Stacked bars: a row per method.

    Raises:
        NothingToShow: No run holds times.
    """
    repeats: dict[str, list[dict[str, float]]] = {}
    steps: dict[str, list[dict[str, float]]] = {}
    for (method, _), runs in _by_seed(material.runs).items():
        stages = [stage_seconds(run) for run in runs]
        repeats.setdefault(method, []).append({stage: sum(one[stage] for one in stages) for stage in STAGES})
        for run in runs:
            steps.setdefault(method, []).extend(_rl_steps(run))
    rows = [method for method, some in repeats.items() if any(any(spent.values()) for spent in some)]
    if not rows:
        raise NothingToShow(f"{', '.join(material.words)}: no times were recorded in there")
    means = {method: {stage: fmean(one[stage] for one in repeats[method]) for stage in STAGES} for method in rows}
    seeds = sorted({len(repeats[method]) for method in rows})
    unit, divisor = ("minutes", 60.0) if max(sum(one.values()) for one in means.values()) >= 120 else ("seconds", 1.0)
    panels = [_stacks("All stages", unit, rows, [{k: v / divisor for k, v in means[method].items()} for method in rows])]
    trained = [method for method in rows if steps.get(method)]
    if trained:
        per_step = [{stage: fmean(one[stage] for one in steps[method]) for stage in _RL} for method in trained]
        panels.append(_stacks("One step of reinforcement learning (mean)", "seconds", trained, per_step))
    return Picture(
        kind="time",
        title="Time per stage",
        caption=caption_of(
            "Wall time. Demonstrations and evaluation: sampling and environments only, without loading.",
            f"Means over {'to '.join(f'{number} ' for number in dict.fromkeys((seeds[0], seeds[-1])))}seeds."
            if seeds[-1] > 1
            else "",
            material.source,
        ),
        panels=tuple(panels),
        columns=1,
    )


def _stacks(title: str, unit: str, rows: Sequence[str], values: Sequence[dict[str, float]]) -> Stacks:
    parts = (
        Part(stage, tuple(one.get(stage, 0.0) for one in values), colour)
        for stage, colour in zip(STAGES, _COLOURS, strict=True)
    )
    return Stacks(title=title, unit=unit, names=tuple(rows), parts=tuple(part for part in parts if any(part.values)))


def _by_seed(runs: Sequence[Run]) -> dict[tuple[str, int], list[Run]]:
    groups: dict[tuple[str, int], list[Run]] = {}
    for run in runs:
        groups.setdefault((run.method, run.config.seed), []).append(run)
    return groups


def stage_seconds(run: Run) -> dict[str, float]:
    """Seconds of wall time per stage (`STAGES`) that a run has recorded."""
    spent = dict.fromkeys(STAGES, 0.0)
    for row in run.metrics:
        if row.stage == "sft":
            spent[COLD_START] += _number(row.values.get("timing_s/update"))
    for step in _rl_steps(run):
        for part, seconds in step.items():
            spent[part] += seconds
    for stage in run.stages:
        kind = DEMONSTRATIONS if stage.startswith("synth") else EVALUATION if stage.startswith("eval") else ""
        if kind:
            spent[kind] += _played_seconds(run, stage)
    return spent


def _played_seconds(run: Run, stage: str) -> float:
    lines = read_episodes(run.folder / "episodes", stage=stage, problems=[])
    return sum(turn.seconds for line in lines for turn in line.episode.turns)


def _rl_steps(run: Run) -> Iterator[dict[str, float]]:
    """Seconds of each step by part; the parts sum to the step."""
    for row in run.metrics:
        if row.stage == "rl" and "timing_s/rollout" in row.values:
            sample, env, rollout, update = (
                _number(row.values.get(f"timing_s/{name}")) for name in ("sample", "env", "rollout", "update")
            )
            yield {SAMPLING: sample, ENVIRONMENTS: env, ROLLOUT: max(0.0, rollout - sample - env), UPDATE: update}


def _number(value: object) -> float:
    return float(value) if isinstance(value, int | float) else 0.0
