"""What a person sees while a job runs."""

from __future__ import annotations

import io

from rich.console import Console

from dpepo.cli.progress import LineProgress, LiveProgress, make_progress
from dpepo.runs.progress import Progress, SilentProgress


class Clock:
    """Seconds that pass when told to."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_a_log_gets_few_lines_with_count_values_and_time_left() -> None:
    stream, clock = io.StringIO(), Clock()
    progress = LineProgress(stream, clock=clock)
    progress.start("evaluate", total=200, unit="episodes")
    for _ in range(40):
        clock.now += 0.5
        progress.advance(success=0.25)
    progress.finish()
    progress.finish()
    assert stream.getvalue().splitlines() == [
        "evaluate: started",
        "evaluate: 30 of 200 episodes, success 0.25, 15 s, about 85 s left",
        "evaluate: 40 of 200 episodes, success 0.25, 20 s, about 80 s left",
    ]


def test_a_log_gets_no_time_left_while_hardly_anything_is_done() -> None:
    stream, clock = io.StringIO(), Clock()
    progress = LineProgress(stream, clock=clock)
    progress.start("evaluate", total=62, unit="episodes")
    clock.now += 16.0
    progress.advance()
    clock.now += 16.0
    progress.advance(3)
    assert stream.getvalue().splitlines() == [
        "evaluate: started",
        "evaluate: 1 of 62 episodes, 16 s",
        "evaluate: 4 of 62 episodes, 32 s, about 464 s left",
    ]


def test_what_an_earlier_session_did_counts_as_done_but_not_for_the_time_left() -> None:
    stream, clock = io.StringIO(), Clock()
    progress = LineProgress(stream, clock=clock)
    progress.start("train", total=100, unit="steps")
    progress.skip(60)
    for _ in range(10):
        clock.now += 2.0
        progress.advance()
    progress.finish()
    assert stream.getvalue().splitlines()[1:] == [
        "train: 68 of 100 steps, 16 s, about 64 s left",
        "train: 70 of 100 steps, 20 s, about 60 s left",
    ]


def test_a_bar_that_starts_further_on_has_no_speed_yet() -> None:
    stream = io.StringIO()
    progress = LiveProgress(Console(file=stream, force_terminal=True, width=160))
    progress.skip(3)  # before any stage: nothing to show
    progress.start("train", total=10, unit="steps")
    progress.skip(6, success=0.5)
    progress.finish()
    last = [line for line in stream.getvalue().splitlines() if "steps" in line][-1]
    assert "6 of 10 steps" in last and "success 0.5" in last and "-:--:--" in last


def test_a_new_stage_ends_the_one_before_and_starts_from_zero() -> None:
    stream = io.StringIO()
    progress = LineProgress(stream, clock=Clock())
    progress.start("a", total=None, unit="steps")
    progress.advance(3, loss=1.0)
    progress.start("b", total=2, unit="steps")
    progress.finish()
    assert stream.getvalue().splitlines() == ["a: started", "a: 3 steps, loss 1, 0 s", "b: started", "b: 0 of 2 steps, 0 s"]


def test_a_terminal_gets_a_bar_with_the_newest_values() -> None:
    stream = io.StringIO()
    progress = LiveProgress(Console(file=stream, force_terminal=True, width=160))
    progress.advance()  # before any stage: nothing to show
    progress.start("train", total=10, unit="steps")
    progress.advance(2, success=0.5)
    progress.advance(3, kl=0.001)
    progress.note("checkpoint [saved]")
    progress.finish()
    shown = stream.getvalue()
    assert "checkpoint [saved]" in shown
    last = [line for line in shown.splitlines() if "steps" in line][-1]
    for part in ("train", "5 of 10 steps", "success 0.5, kl 0.001", "left"):
        assert part in last
    assert shown.rstrip("\n").endswith("\x1b[?25h")  # the cursor is back


def test_every_display_is_a_progress() -> None:
    displays = (LineProgress(io.StringIO()), LiveProgress(Console(file=io.StringIO())), SilentProgress())
    assert all(isinstance(display, Progress) for display in displays)
    assert isinstance(make_progress(io.StringIO()), LineProgress)
