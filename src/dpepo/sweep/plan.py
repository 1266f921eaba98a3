"""From a sweep file to run folders: which jobs, with which settings, in which order. Starts nothing.

``OUT/seed-0/cold-NAME/{synth,sft}`` is a cold start, ``OUT/seed-0/VARIANT/{train,eval-NAME}`` a variant. Each of these is an
ordinary run folder, and together with its seed one *unit*: what is run, resumed and chosen by ``--only``.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase
from pathlib import Path

from pydantic import Field

from dpepo.config import Config
from dpepo.errors import ConfigError, RunFolderError, did_you_mean
from dpepo.recipes import load_config
from dpepo.runs.rundir import RunFolder, settings_that_differ
from dpepo.sweep.spec import Settings, Sweep, Variant
from dpepo.types import Record


class PlannedRun(Record):
    """One job in its run folder."""

    job: str  # "synth", "sft", "train" or "eval"
    folder: Path
    config: Config

    @property
    def finished(self) -> bool:
        """Whether the folder holds this run, done to its end.

        Raises:
            RunFolderError: It holds a run with other settings.
        """
        if not (self.folder / "run.json").is_file():
            return False
        run = RunFolder.open(self.folder)
        changed = settings_that_differ(run.config, self.config)
        if (run.config.train.steps, run.config.train.max_minutes) != (self.config.train.steps, self.config.train.max_minutes):
            changed.append("train.steps or train.max_minutes is another one")  # a single run may be prolonged, a sweep compares
        if changed:
            raise RunFolderError(
                f"The run in {self.folder} was made with other settings: {'; '.join(changed[:6])}. "
                "Use those, or another folder for the sweep: --out"
            )
        return any("finished" in session for session in run.sessions)


class Unit(Record):
    """The jobs of a cold start or a variant with one seed, in order."""

    id: str  # e.g. "seed-0/dpepo"
    seed: int
    variant: str  # empty for a cold start
    needs: str = ""  # id of the unit that has to be finished before
    runs: tuple[PlannedRun, ...]
    # name of an evaluation to its run folder; several may share one that plays the same
    evaluations: dict[str, Path] = Field(default_factory=dict)

    @property
    def finished(self) -> bool:
        """Whether all its runs are done."""
        return all(run.finished for run in self.runs)


class Plan(Record):
    """All units of a sweep, each behind the one it needs."""

    sweep: Sweep
    out: Path
    units: tuple[Unit, ...]
    selected: tuple[str, ...]  # ids of the units to be run, in order


def plan_sweep(sweep: Sweep, *, out: Path, only: Sequence[str] = ()) -> Plan:
    """Work out every run of a sweep.

    Args:
        sweep: What to run.
        out: Folder of the sweep.
        only: Patterns of unit ids (``*/gigpo``, ``seed-0/*``); what the chosen ones need is run as well. Empty: all.

    Raises:
        ConfigError: A setting is wrong, or a pattern fits nothing.
    """
    out = out.absolute()  # folders stand in settings, which must be equal when the sweep is resumed from elsewhere
    units = tuple(unit for seed in sweep.spec.seeds for unit in _units(sweep, out=out, seed=seed))
    return Plan(sweep=sweep, out=out, units=units, selected=_selected(units, only))


def _selected(units: Sequence[Unit], only: Sequence[str]) -> tuple[str, ...]:
    ids = [unit.id for unit in units]
    for pattern in only:
        if not any(fnmatchcase(name, pattern) for name in ids):
            raise ConfigError(f"--only {pattern}: no run of the sweep is called so. {did_you_mean(pattern, ids)}")
    chosen = {name for name in ids if not only or any(fnmatchcase(name, pattern) for pattern in only)}
    chosen |= {unit.needs for unit in units if unit.id in chosen and unit.needs}
    return tuple(name for name in ids if name in chosen)


def _units(sweep: Sweep, *, out: Path, seed: int) -> Iterator[Unit]:
    spec = sweep.spec
    used = {variant.cold_start or next(iter(spec.cold_starts), "") for variant in spec.variants}
    for name, settings in spec.cold_starts.items():
        if name in used:
            yield _cold_start(sweep, name, settings, out=out, seed=seed)
    for variant in spec.variants:
        yield _variant(sweep, variant, out=out, seed=seed)


def _cold_id(name: str, seed: int) -> str:
    return f"seed-{seed}/cold-{name}"


def _cold_start(sweep: Sweep, name: str, settings: Settings, *, out: Path, seed: int) -> Unit:
    folder = out / _cold_id(name, seed)
    synth = _run(sweep, "synth", folder / "synth", seed, settings)
    sft = _run(sweep, "sft", folder / "sft", seed, settings, f"sft.demonstrations={json.dumps(str(synth.folder))}")
    return Unit(id=_cold_id(name, seed), seed=seed, variant="", runs=(synth, sft))


def _variant(sweep: Sweep, variant: Variant, *, out: Path, seed: int) -> Unit:
    folder = out / f"seed-{seed}" / variant.name
    cold = variant.cold_start or next(iter(sweep.spec.cold_starts), "")
    model = [f"model.path={json.dumps(str(out / _cold_id(cold, seed) / 'sft'))}"] if cold else []
    runs = []
    if variant.train:
        runs.append(_run(sweep, "train", folder / "train", seed, variant.settings, *model))
        model = [f"model.path={json.dumps(str(folder / 'train'))}"]
    evaluations: dict[str, Path] = {}
    for evaluation in sweep.spec.evaluate:
        settings = (*variant.settings, *evaluation.settings)
        run = _run(sweep, "eval", folder / f"eval-{evaluation.name}", seed, settings, *model)
        same = [other for other in runs if other.job == "eval" and not settings_that_differ(other.config, run.config)]
        evaluations[evaluation.name] = same[0].folder if same else run.folder
        runs += [] if same else [run]
    return Unit(
        id=f"seed-{seed}/{variant.name}",
        seed=seed,
        variant=variant.name,
        needs=_cold_id(cold, seed) if cold else "",
        runs=tuple(runs),
        evaluations=evaluations,
    )


def _run(sweep: Sweep, job: str, folder: Path, seed: int, settings: Settings, *more: str) -> PlannedRun:
    own = [f"seed={seed}", f"run.dir={json.dumps(str(folder))}", "run.resume=true"]
    return PlannedRun(job=job, folder=folder, config=load_config(sweep.recipe, [*sweep.spec.settings, *settings, *own, *more]))
