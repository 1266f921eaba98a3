"""From the folders a person names to what was played and trained in them: single runs, sweeps, demos, folders of runs.

Read only. What cannot be used is left out with a sentence in `Material.notes`; only when nothing is left is that an error.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import cached_property
from pathlib import Path
from typing import Any

from dpepo.config import Config
from dpepo.errors import ConfigError, RunFolderError, did_you_mean
from dpepo.figures.facts import EpisodeFacts, episode_facts
from dpepo.figures.picture import NothingToShow
from dpepo.runs.episodes import parse_file_name, read_episodes
from dpepo.runs.metrics import MetricsRow, read_metrics
from dpepo.runs.rundir import RUN_FILE, RunFolder, no_run
from dpepo.runs.summary import SUMMARY_FILE, ResultRow, read_summary
from dpepo.sweep.spec import SweepSpec, Variant, load_sweep
from dpepo.types import Episode

SWEEP_FILE = "sweep.yaml"
_SO_FAR = "evaluations so far"
_DEPTH = 3  # how far below a folder of runs they are looked for
_NOT_FAMILY = {"run", "seed", "tasks", "synth", "sft"}


@dataclass(frozen=True, kw_only=True)
class Run:
    """One run folder."""

    folder: Path
    method: str  # how pictures call it; runs of one method are repeats with other seeds
    job: str
    config: Config
    sessions: tuple[dict[str, Any], ...]
    notes: list[str]

    @property
    def finished(self) -> bool:
        """Whether its job came to its end."""
        return any("finished" in session for session in self.sessions)

    @cached_property
    def metrics(self) -> tuple[MetricsRow, ...]:
        """Its numbers; damaged lines are noted."""
        read = read_metrics(self.folder / "metrics.jsonl")
        self.notes.extend(f"{self.folder}: {problem}" for problem in read.problems)
        return read.rows

    @property
    def stages(self) -> list[str]:
        """Stages it holds episodes of."""
        files = (parse_file_name(path.name) for path in (self.folder / "episodes").glob("*.jsonl"))
        return sorted({name.stage for name in files if name})

    @cached_property
    def family(self) -> str:
        """Its settings without seed, tasks, places and number of copies: what runs that differ in K alone share."""
        values = self.config.model_dump(mode="json", exclude=_NOT_FAMILY)
        for section in ("env", "eval"):
            values[section].pop("num_envs")
        for name in ("workers", "step_timeout_s"):
            values["env"].pop(name)
        for name in ("path", "base", "device", "threads"):
            values["model"].pop(name)
        return json.dumps(values, sort_keys=True)


@dataclass(frozen=True, kw_only=True)
class Played:
    """One way of playing by one policy: the episodes of one stage of one run."""

    run: Run
    stage: str
    method: str
    policy: str  # what is the same when only the number of copies differs
    way: str  # how it was played: tasks and temperature, or the name of a sweep's evaluation
    tasks: str  # tasks and temperature, the same for all numbers of copies
    num_envs: int  # K
    step: int | None = None  # only the episodes of this step; None: of all
    as_trained: bool = False  # known to have been trained with the number of copies it plays

    def episodes(self) -> Iterator[Episode]:
        """Its finished episodes, those lost to faults left out; damaged lines are noted."""
        problems: list[str] = []
        for line in read_episodes(self.run.folder / "episodes", stage=self.stage, problems=problems):
            if line.episode.outcome is not None and self.step in (None, line.step):
                yield line.episode
        self.run.notes.extend(f"{self.run.folder}: {problem}" for problem in problems if problem not in self.run.notes)

    @cached_property
    def facts(self) -> tuple[EpisodeFacts, ...]:
        """Its episodes in numbers."""
        return tuple(episode_facts(episode) for episode in self.episodes())


@dataclass(frozen=True, kw_only=True)
class Material:
    """All that was found."""

    words: tuple[str, ...]  # the folders as they were typed
    runs: tuple[Run, ...]
    played: tuple[Played, ...]
    notes: list[str] = field(default_factory=list)

    @property
    def source(self) -> str:
        """Where the numbers are from, for captions."""
        return f"Source: {', '.join(self.words)}."

    @property
    def ways(self) -> list[str]:
        """Ways of playing, in order of first mention."""
        return list(dict.fromkeys(played.way for played in self.played))

    def in_way(self, way: str = "") -> dict[str, list[Played]]:
        """Method to its repeats, for one way of playing that holds episodes.

        Args:
            way: Its name; empty: the first.

        Raises:
            NothingToShow: No run holds evaluated episodes.
            ConfigError: There is no such way.
        """
        if way and way not in self.ways:
            raise ConfigError(f"--way {way!r}: nothing was played so. {did_you_mean(way, self.ways)}")
        for name in [way] if way else self.ways:
            methods: dict[str, list[Played]] = {}
            for played in self.played:
                if played.way == name and played.facts:
                    methods.setdefault(played.method, []).append(played)
            if methods:
                return methods
        raise NothingToShow(
            f"{', '.join(self.words)}: no finished episode in there. Runs of dpepo eval, sweeps and demos hold some."
        )

    def played_as(self, way: str) -> str:
        """A sentence on how a way was played, for captions."""
        tasks = dict.fromkeys(played.tasks for played in self.played if played.way == way and played.tasks != way)
        more = f" ({'; '.join(tasks)})" if tasks else ""
        return f"Played: {way}{more}."

    def others(self, way: str) -> tuple[str, ...]:
        """A note on the ways of playing that a picture does not show."""
        left = [name for name in self.ways if name != way]
        return (f"Not shown: {'; '.join(left)}. Choose with --way.",) if left else ()


def find_material(words: Sequence[str], *, only: Sequence[str] = ()) -> Material:
    """Read what the folders hold; episodes themselves are read when they are asked for.

    Args:
        words: Folders, each a run, a sweep, a demo or a folder of runs; ``NAME=FOLDER`` gives a run another name.
        only: Patterns of method names, e.g. ``DPEPO*``; empty: all.

    Raises:
        RunFolderError: A folder does not exist or holds no run that this version reads.
        ConfigError: The patterns leave nothing.
    """
    notes: list[str] = []
    runs: list[Run] = []
    played: list[Played] = []
    for word in words:
        name, path = _name_and_path(word)
        before = len(runs), len(notes)
        for run, some in _found(path, name=name, notes=notes):
            runs.append(run)
            played += some
        if len(runs) == before[0]:
            raise RunFolderError(notes[before[1]] if len(notes) > before[1] else no_run(path))
    if only:
        names = [*(run.method for run in runs), *(one.method for one in played)]
        runs = [run for run in runs if _fits(run.method, only) or any(p.run is run and _fits(p.method, only) for p in played)]
        played = [one for one in played if _fits(one.method, only)]
        if not runs and not played:
            raise ConfigError(f"--only {' '.join(only)}: no method is called so. {did_you_mean(only[0], names)}")
    return Material(words=tuple(words), runs=tuple(runs), played=tuple(played), notes=notes)


def _fits(name: str, patterns: Sequence[str]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)


def _name_and_path(word: str) -> tuple[str, Path]:
    name, equals, rest = word.partition("=")
    return (name, Path(rest)) if equals and not Path(word).exists() else ("", Path(word))


def _found(path: Path, *, name: str, notes: list[str]) -> Iterator[tuple[Run, list[Played]]]:
    if (path / RUN_FILE).is_file():
        yield from _single(path, name=name, method=path.absolute().name, notes=notes)
    elif (path / SWEEP_FILE).is_file():
        yield from _of_sweep(path, load_sweep(path / SWEEP_FILE).spec, notes=notes)
    elif path.is_dir():
        folders = sorted(file.parent for depth in range(1, _DEPTH + 1) for file in path.glob("*/" * depth + RUN_FILE))
        for folder in folders:
            yield from _single(folder, name=name, method=str(folder.relative_to(path)), notes=notes)
    else:
        raise RunFolderError(no_run(path))


def _open(path: Path, *, method: str, notes: list[str]) -> Run | None:
    try:
        opened = RunFolder.open(path)
        return Run(
            folder=path, method=method, job=opened.job, config=opened.config, sessions=tuple(opened.sessions), notes=notes
        )
    except RunFolderError as error:
        notes.append(f"Left out: {error}")
        return None


def _single(path: Path, *, name: str, method: str, notes: list[str]) -> Iterator[tuple[Run, list[Played]]]:
    run = _open(path, method=name or method, notes=notes)
    if run is None:
        return
    if not run.finished:
        notes.append(f"{path} is not finished; what it holds so far is shown.")
    if run.job == "demo":
        yield run, _of_demo(run)
    elif run.job == "eval":
        yield run, [_of_eval(run, name=name)]
    else:
        yield run, _of_job(run, name=name)


def _of_job(run: Run, *, name: str) -> list[Played]:
    """What a job played on the way: demonstrations, whose files are numbered by K, or the episodes of training."""
    config = run.config
    stage, way = {"synth": ("synth", "demonstrations"), "train": ("rl", "while training")}.get(run.job, ("", ""))
    files = (parse_file_name(path.name) for path in (run.folder / "episodes").glob("*.jsonl"))
    steps = sorted({file.step for file in files if file and file.stage == stage})
    several = steps if stage == "synth" else [None] if steps else []
    return [
        Played(
            run=run,
            stage=stage,
            method=f"{run.method}, K = {step}" if step is not None else run.method,
            policy=name or run.method,
            way=way,
            tasks=f"{config.env.world}, split {config.tasks.train.split}",
            num_envs=config.env.num_envs if step is None else step,
            step=step,
        )
        for step in several
    ]


def _of_eval(run: Run, *, name: str) -> Played:
    """The evaluation of a run of its own; a name that a person gave stands for one agent at any number of copies."""
    config = run.config
    policy = name or (config.model.path if config.eval.policy == "model" else config.eval.policy)
    tasks = _tasks(config)
    num_envs = config.eval.num_envs or config.env.num_envs
    return Played(
        run=run,
        stage="eval",
        method=f"{name}, K = {num_envs}" if name else run.method,
        policy=policy,
        way=tasks,
        tasks=tasks,
        num_envs=num_envs,
    )


def _tasks(config: Config) -> str:
    chosen = config.tasks.eval
    which = Path(chosen.file).name if chosen.file else f"split {chosen.split}"
    which = f"{len(chosen.ids)} tasks" if chosen.ids else which
    return f"{config.env.world}, {which}, {_sampling(config.eval.temperature)}"


def _sampling(temperature: float) -> str:
    return "greedy" if temperature == 0 else f"temperature {temperature:g}"


def _of_demo(run: Run) -> list[Played]:
    """The evaluations of a demo: as its summary lists them, or by the names of their stages while there is none."""
    if not (run.folder / SUMMARY_FILE).is_file():
        stages = [stage for stage in run.stages if stage.startswith("eval")]
        return [
            Played(
                run=run,
                stage=stage,
                method=stage,
                policy=stage,
                way=_SO_FAR,
                tasks=_SO_FAR,
                num_envs=run.config.env.num_envs,
            )
            for stage in stages
        ]
    rows = [row for row in read_summary(run.folder).table if row.stage and row.tries == 1]
    return [_of_row(run, row) for row in rows]


def _of_row(run: Run, row: ResultRow) -> Played:
    tasks = f"{row.split}, {_sampling(row.temperature)}"
    return Played(
        run=run,
        stage=row.stage,
        method=f"{row.label}, K = {row.num_envs}",
        policy=row.label,
        way=tasks,
        tasks=tasks,
        num_envs=row.num_envs,
    )


def _of_sweep(path: Path, spec: SweepSpec, *, notes: list[str]) -> Iterator[tuple[Run, list[Played]]]:
    """What is finished of a sweep. A way of playing that two evaluations share is played once, in the folder of the first."""
    left = 0
    for variant in spec.variants:
        for seed in spec.seeds:
            folder = path / f"seed-{seed}" / variant.name
            for name in ("train", *(f"eval-{evaluation.name}" for evaluation in spec.evaluate)):
                if not (folder / name / RUN_FILE).is_file():
                    left += name == "train" and variant.train
                    continue
                run = _open(folder / name, method=variant.title, notes=notes)
                if run is None:
                    continue
                if not run.finished:
                    left += 1
                    continue
                titles = {f"eval-{evaluation.name}": evaluation.title for evaluation in spec.evaluate}
                yield run, [_of_evaluation(run, variant, titles[name])] if name in titles else []
    for seed in spec.seeds:
        for cold in spec.cold_starts:
            for name in ("synth", "sft"):
                if (path / f"seed-{seed}" / f"cold-{cold}" / name / RUN_FILE).is_file():
                    run = _open(path / f"seed-{seed}" / f"cold-{cold}" / name, method=f"cold start {cold}", notes=notes)
                    if run is not None:
                        yield run, []
    if left:
        notes.append(f"{path}: {left} runs of the sweep are not finished and left out.")


def _untrained(config: Config, variant: Variant) -> str:
    """Who plays in a variant that is not trained: the same agent in all variants that start from the same model."""
    if config.eval.policy != "model":
        return config.eval.policy
    return variant.cold_start or "cold start"


def _of_evaluation(run: Run, variant: Variant, way: str) -> Played:
    num_envs = run.config.eval.num_envs or run.config.env.num_envs
    return Played(
        run=run,
        stage="eval",
        method=variant.title,
        policy=variant.title if variant.train else _untrained(run.config, variant),
        way=way,
        tasks=_tasks(run.config),
        num_envs=num_envs,
        as_trained=variant.train and num_envs == run.config.env.num_envs,
    )
