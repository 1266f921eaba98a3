"""Compares generated ALFWorld games with real ones, and measures the expert on both.

    python benchmarks/alfworld_distributions.py --data ~/.cache/alfworld            # the tables of docs/alfworld.md
    python benchmarks/alfworld_distributions.py --data ~/.cache/alfworld --games 400 --json out.json

For every real game (release 2.1.1, ``json_2.1.1/{train,valid_seen}``) one generated game of the same task type is drawn, in the
rooms of the training games. What is compared is what a player can read: the first observation and what each receptacle holds.
Two classifiers, naive Bayes over words and word pairs and logistic regression over the numbers of the table, are trained to
tell the two apart on one half of the games and tested on the other: 50 % means that they cannot.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import sys
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from dpepo.envs.alfworld.engine import LoadedGame
from dpepo.envs.alfworld.expert import expert_actions
from dpepo.envs.alfworld.games import TASK_TYPES, Game, Wording, read_game
from dpepo.envs.alfworld.generate import generate_game
from dpepo.envs.alfworld.rooms import UNSEEN_ROOMS

COLUMNS = (
    "receptacles",
    "receptacles that open",
    "kinds of receptacles",
    "objects",
    "kinds of objects",
    "objects in the fullest receptacle",
    "empty receptacles",
    "objects of the goal's kind",
    "places of the goal's kind",
    "expert's actions",
    "admissible actions at the start",
    "words of the first observation",
)


@dataclass
class Sample:
    """One game as a player can read it."""

    task_type: str
    numbers: dict[str, float]  # by COLUMNS; empty when the expert fails
    words: list[str]  # of the first observation and of what every receptacle holds
    solved: bool


def sample(game: Game) -> Sample:
    """Read a game in the wording of release 2.1.2, real ones too."""
    loaded = LoadedGame(game, wording=Wording.V2_1_2)
    start = loaded.start.state
    inside: dict[str, set[str]] = {receptacle: set() for receptacle in loaded.places}
    for thing, receptacle in start.inside:
        inside[receptacle].add(thing)
    things = {thing for thing, _ in start.inside}
    openable = {name for (name,) in loaded.problem.facts.get("openable", ())}
    wanted = {one.arguments[1] for one in loaded.problem.goal if one.predicate in ("objecttype", "receptacletype")}
    actions = expert_actions(loaded)
    sizes = [len(held) for held in inside.values()]
    values = (
        len(inside),
        len(openable),
        len(set(loaded.receptacle_types.values())),
        len(things),
        len({loaded.types[thing] for thing in things}),
        max(sizes),
        sizes.count(0),
        sum(loaded.types[thing] in wanted for thing in things),
        sum(kind in wanted for kind in loaded.receptacle_types.values()),
        len(actions or ()),
        len(loaded.admissible(loaded.start)),
        len(loaded.intro.split()),
    )
    return Sample(
        task_type=game.task_type,
        numbers=dict(zip(COLUMNS, map(float, values), strict=True)),
        words=_words(loaded, inside),
        solved=bool(actions),
    )


def _words(loaded: LoadedGame, inside: dict[str, set[str]]) -> list[str]:
    texts = [loaded.intro.replace(",", " ").replace(".", " ")]
    for receptacle, held in inside.items():
        listed = " ".join(loaded.names[thing].replace(" ", "") for thing in sorted(held)) or "nothing"
        texts.append(f"{loaded.names[receptacle].replace(' ', '')} {listed}")
    words: list[str] = []
    for text in texts:
        own = text.lower().split()
        words += own + [f"{a}>{b}" for a, b in pairwise(own)]
    return words


def bayes_accuracy(real: Sequence[Sample], made: Sequence[Sample]) -> tuple[float, list[str]]:
    """Accuracy of naive Bayes on the second half, and the words that tell most."""
    counts = [Counter[str](), Counter[str]()]
    for label, samples in enumerate((real, made)):
        for one in samples[::2]:
            counts[label].update(set(one.words))
    totals = [len(real[::2]), len(made[::2])]
    score = {
        word: math.log((counts[0][word] + 0.5) / (totals[0] + 1)) - math.log((counts[1][word] + 0.5) / (totals[1] + 1))
        for word in {*counts[0], *counts[1]}
    }
    right = sum(sum(score.get(word, 0.0) for word in set(one.words)) > 0 for one in real[1::2])
    right += sum(sum(score.get(word, 0.0) for word in set(one.words)) <= 0 for one in made[1::2])
    telling = sorted(score, key=lambda word: -abs(counts[0][word] - counts[1][word]))[:25]
    shown = [f"{word} {counts[0][word]}:{counts[1][word]}" for word in telling]
    return right / (len(real[1::2]) + len(made[1::2])), shown


def regression_accuracy(real: Sequence[Sample], made: Sequence[Sample]) -> float:
    """Accuracy on the second half of logistic regression over the numbers, their squares and products."""
    import numpy

    def table(samples: Sequence[Sample]) -> numpy.ndarray:
        rows = numpy.array([[one.numbers[column] for column in COLUMNS] for one in samples])
        pairs = [rows[:, i] * rows[:, j] for i in range(len(COLUMNS)) for j in range(i + 1)]
        return numpy.column_stack([rows, *pairs])

    train = numpy.vstack([table(real[::2]), table(made[::2])])
    labels = numpy.array([1.0] * len(real[::2]) + [0.0] * len(made[::2]))
    mean, spread = train.mean(0), train.std(0) + 1e-9
    train = (train - mean) / spread
    weights, bias = numpy.zeros(train.shape[1]), 0.0
    for _ in range(3000):
        error = 1 / (1 + numpy.exp(-(train @ weights + bias))) - labels
        weights -= 0.1 * (train.T @ error / len(labels) + 1e-3 * weights)
        bias -= 0.1 * float(error.mean())
    test = numpy.vstack([table(real[1::2]), table(made[1::2])])
    truth = numpy.array([True] * len(real[1::2]) + [False] * len(made[1::2]))
    return float(((((test - mean) / spread) @ weights + bias > 0) == truth).mean())


def spread(values: Sequence[float]) -> str:
    """Mean, and the 5th, 50th and 95th percentiles."""
    ordered = sorted(values)
    low, middle, high = (ordered[int(share * (len(ordered) - 1))] for share in (0.05, 0.5, 0.95))
    return f"{statistics.fmean(ordered):.1f} ({low:.0f} / {middle:.0f} / {high:.0f})"


def overlap(first: Sequence[float], second: Sequence[float]) -> float:
    """Shared mass of two histograms, in [0, 1]."""
    a, b = Counter(first), Counter(second)
    return sum(min(a[value] / len(first), b[value] / len(second)) for value in {*a, *b})


def say(line: str) -> None:
    """One line to the terminal."""
    sys.stdout.write(line + "\n")


def main() -> None:
    """Compare and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder that holds json_2.1.1/")
    parser.add_argument("--games", type=int, default=0, help="at most this many real games, evenly spaced; 0: all")
    parser.add_argument("--json", type=Path, help="write the figures here, too")
    parser.add_argument("--words", action="store_true", help="print the words that tell real from generated")
    arguments = parser.parse_args()
    paths = [
        p for split in ("train", "valid_seen") for p in sorted(arguments.data.glob(f"json_2.1.1/{split}/*/*/game.tw-pddl"))
    ]
    if arguments.games:
        paths = paths[:: max(1, len(paths) // arguments.games)]
    real = [sample(read_game(path)) for path in paths]
    missed = [str(path.parent.relative_to(arguments.data)) for path, one in zip(paths, real, strict=True) if not one.solved]
    numbers: Counter[str] = Counter()
    made = []
    for one in real:
        numbers[one.task_type] += 1
        made.append(sample(generate_game(one.task_type, seed=numbers[one.task_type])))
    unseen = [sample(generate_game(name, seed=seed, rooms=UNSEEN_ROOMS)) for name in TASK_TYPES for seed in range(50)]
    figures = report(real, made, unseen, missed)
    accuracy, telling = bayes_accuracy(real, made)
    figures["bayes"], figures["regression"] = accuracy, regression_accuracy(real, made)
    noise, _ = bayes_accuracy(made[::2], made[1::2])
    say(f"\ntold apart: words {accuracy:.1%} (generated from generated {noise:.1%}), numbers {figures['regression']:.1%}")
    if arguments.words:
        say("\n".join(telling))
    if arguments.json:
        arguments.json.write_text(json.dumps(figures, indent=1))


def report(real: list[Sample], made: list[Sample], unseen: list[Sample], missed: list[str]) -> dict[str, object]:
    """Print the tables; returns their figures."""
    say("mean (5 % / median / 95 %)\n")
    say(f"| | real ({len(real)}) | generated ({len(made)}) | shared mass | generated, unseen rooms ({len(unseen)}) |")
    say("|---|---|---|---|---|")
    figures: dict[str, object] = {}
    for column in COLUMNS:
        sides = [[one.numbers[column] for one in samples] for samples in (real, made, unseen)]
        figures[column] = overlap(sides[0], sides[1])
        say(f"| {column} | {spread(sides[0])} | {spread(sides[1])} | {figures[column]:.0%} | {spread(sides[2])} |")
    say("\n| task type | expert on real | expert on generated | its actions, real | its actions, generated |")
    say("|---|---|---|---|---|")
    groups: dict[str, list[list[Sample]]] = defaultdict(lambda: [[], []])
    for side, samples in enumerate((real, made)):
        for one in samples:
            groups[one.task_type][side].append(one)
    for name, sides_of in sorted(groups.items()):
        rates = [f"{sum(one.solved for one in samples)}/{len(samples)}" for samples in sides_of]
        lengths = [spread([one.numbers["expert's actions"] for one in samples]) for samples in sides_of]
        say(f"| {name} | {rates[0]} | {rates[1]} | {lengths[0]} | {lengths[1]} |")
    for name in missed:
        say(f"not solved: {name}")
    figures["not solved"] = missed
    return figures


if __name__ == "__main__":
    main()
