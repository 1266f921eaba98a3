"""Worker processes that die, hang or lose their parent."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from dpepo.envs import WorkerPool, worker_pool
from dpepo.envs.toy import ToyWorld
from dpepo.errors import JobError

TASK = "toy/castle/3"
OTHER = "toy/castle/4"

# A world in which every process starts in another state: its episodes cannot be restored.
FICKLE = """
import os
from dpepo.envs.toy import ToyEnv, ToyWorld
from dpepo.types import Observation

class FickleEnv(ToyEnv):
    def step(self, action):
        seen = super().step(action)
        return seen.model_copy(update={"text": f"{seen.text} {os.getpid()}"})

class Fickle(ToyWorld):
    def make(self, task_id):
        env = super().make(task_id)
        env.__class__ = FickleEnv
        return env
"""

# A world that starts a program and does not end it.
MESSY = """
import subprocess
from dpepo.envs.toy import ToyWorld

class Messy(ToyWorld):
    def make(self, task_id):
        self.child = subprocess.Popen(["sleep", "600"])
        return super().make(task_id)
"""

PARENT = """
import sys, time
from dpepo.envs import WorkerPool, worker_pool
pool = WorkerPool(WORLD, workers=2, step_timeout_s=600)
handles = [handle for handle, _ in pool.open_many([("toy/castle/3", 2), ("toy/castle/4", 2)])]
pool.step_many([(handle, {1: "look"}) for handle in handles])
print(*pool.worker_pids(), flush=True)
if sys.argv[1] == "busy":
    pool.step_many([(handle, {1: "look"}) for handle in handles])
if sys.argv[1] in ("idle", "messy"):
    time.sleep(600)
"""


def runs(pid: int) -> bool:
    """Whether a process exists and is more than a zombie that nobody has reaped."""
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def gone(pids: list[int], *, within_s: float) -> bool:
    """Whether all processes end in time."""
    until = time.monotonic() + within_s
    while any(map(runs, pids)):
        if time.monotonic() > until:
            return False
        time.sleep(0.05)
    return True


def after(delay_s: float, action: Callable[[], object]) -> threading.Timer:
    timer = threading.Timer(delay_s, action)
    timer.start()
    return timer


@pytest.fixture
def pool() -> Iterator[WorkerPool]:
    with WorkerPool("toy", workers=2, step_timeout_s=20) as made:
        yield made


def kill_all(pool: WorkerPool, how: int = signal.SIGKILL) -> None:
    for pid in pool.worker_pids():
        os.kill(pid, how)


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGSEGV])
def test_an_episode_survives_the_death_of_its_worker_between_turns(pool: WorkerPool, how: int) -> None:
    """E18."""
    expert = ToyWorld().expert(TASK)
    (one, _), (two, _) = pool.open_many([(TASK, 4), (OTHER, 4)])
    for action in expert[:-1]:
        pool.step_many([(one, {1: action, 3: "look"}), (two, {2: "look"})])
    old = pool.worker_pids()
    kill_all(pool, how)
    answers = pool.step_many([(one, {3: "look", 1: expert[-1]}), (two, {2: "look", 4: "look"})])
    assert answers[0][1].success
    assert not any(seen.failure for row in answers for seen in row.values())
    assert pool.restarts == 2
    assert pool.clock.starts >= 3
    assert min(pool.clock.start_s, pool.clock.restore_s) > 0
    assert set(old).isdisjoint(pool.worker_pids())


def test_an_episode_survives_the_death_of_its_worker_in_the_middle_of_an_action() -> None:
    """E18."""
    with WorkerPool("toy", {"step_s": 0.3}, workers=1) as pool:
        (one, _), (two, _) = pool.open_many([(TASK, 4), (TASK, 4)])
        first = pool.step_many([(one, {1: "look"})])[0][1]
        timer = after(0.5, lambda: kill_all(pool))
        answers = pool.step_many([(one, dict.fromkeys((1, 2, 3, 4), "look")), (two, {1: "look"})])
        timer.join()
        assert pool.restarts == 1
        assert [seen.text for row in answers for seen in row.values()] == [first.text] * 5
        assert not any(seen.failure for row in answers for seen in row.values())


def test_an_ended_copy_stays_ended_when_its_episode_is_restored(pool: WorkerPool) -> None:
    """E17."""
    ((handle, _),) = pool.open_many([(TASK, 2)])
    for action in ToyWorld().expert(TASK):
        pool.step_many([(handle, {1: action, 2: "look"})])
    kill_all(pool)
    assert pool.step_many([(handle, {1: "look", 2: "look"})])[0].keys() == {2}


def test_an_action_that_kills_every_worker_costs_only_its_own_environment() -> None:
    """E04 and E18."""
    with WorkerPool("toy", {"die_at": 2, "fault_action": "look"}, workers=1) as pool:
        (one, _), (two, _) = pool.open_many([(TASK, 4), (OTHER, 4)])
        pool.step_many([(one, {1: "look", 2: "look"}), (two, {1: "look"})])
        go = ToyWorld().make(TASK).reset().admissible_actions[1]
        answers = pool.step_many([(one, {1: "look", 2: go, 3: "look"}), (two, {2: "look"})])
        assert answers[0][1].failure.startswith("WorkerDied: the worker process was killed by SIGKILL")
        assert answers[0][1].ended
        assert [answers[0][2].failure, answers[0][3].failure, answers[1][2].failure] == ["", "", ""]
        assert pool.restarts == 2
        assert pool.step_many([(one, {1: "look", 2: go})])[0].keys() == {2}


def test_a_hanging_action_is_cut_off_and_the_others_go_on() -> None:
    """E18."""
    with WorkerPool("toy", {"hang_at": 2, "fault_action": "look"}, workers=1, step_timeout_s=0.7) as pool:
        (one, _), (two, _) = pool.open_many([(TASK, 4), (TASK, 4)])
        pool.step_many([(one, {2: "look"}), (two, {1: "look"})])
        began = time.monotonic()
        answers = pool.step_many([(one, {1: "look", 2: "look", 3: "look"}), (two, {2: "look"})])
        assert time.monotonic() - began < 10
        assert answers[0][2].failure == "Timeout: no answer within 0.7 s (env.step_timeout_s)"
        assert [answers[0][1].failure, answers[0][3].failure, answers[1][2].failure] == ["", "", ""]
        assert pool.restarts == 1


def test_many_quick_actions_may_take_longer_together_than_one_is_allowed() -> None:
    with WorkerPool("toy", {"step_s": 0.2}, workers=1, step_timeout_s=1.0) as pool:
        opened = pool.open_many([(TASK, 4)] * 2)
        answers = pool.step_many([(handle, dict.fromkeys((1, 2, 3, 4), "look")) for handle, _ in opened])
        assert pool.restarts == 0
        assert not any(seen.failure for row in answers for seen in row.values())


def test_a_worker_that_is_stopped_counts_as_hanging() -> None:
    """E18."""
    with WorkerPool("toy", workers=1, step_timeout_s=0.7) as pool:
        (one, _), (two, _) = pool.open_many([(TASK, 2), (OTHER, 2)])
        kill_all(pool, signal.SIGSTOP)
        answers = pool.step_many([(one, {1: "look"}), (two, {1: "look", 2: "look"})])
        assert answers[0][1].failure.startswith("Timeout")
        assert [seen.failure for seen in answers[1].values()] == ["", ""]


@pytest.mark.parametrize(("fault", "failure"), [("die_at", "WorkerDied: "), ("hang_at", "Timeout: no answer within 2 s")])
def test_a_start_that_kills_or_hangs_its_worker_is_a_value(fault: str, failure: str) -> None:
    """E18."""
    with WorkerPool("toy", {fault: 0}, workers=1, start_timeout_s=2) as pool:
        ((handle, start),) = pool.open_many([(TASK, 4)])
        assert start.initial.failure.startswith(failure)
        assert start.guide == ToyWorld.guide
        assert pool.step_many([(handle, {1: "look"})]) == [{}]
        pool.close_many([handle])


def test_an_episode_that_cannot_be_repeated_is_lost_and_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """E18: never silently another episode under the same handle."""
    (tmp_path / "fickle_world.py").write_text(FICKLE)
    monkeypatch.syspath_prepend(tmp_path)
    with WorkerPool("fickle_world:Fickle", workers=1) as pool:
        (one, _), (two, _) = pool.open_many([(TASK, 4), (TASK, 4)])
        pool.step_many([(one, {1: "look"})])
        kill_all(pool)
        answers = pool.step_many([(one, {1: "look", 2: "look"}), (two, {1: "look"})])
        assert {seen.failure for seen in answers[0].values()} == {
            f"ReplayDiffers: environment 1 of {TASK} answered 'look' differently"
        }
        assert answers[1][1].failure == ""
        assert pool.step_many([(one, {1: "look", 3: "look"})])[0][3].failure.startswith("ReplayDiffers")


def test_a_worker_that_never_gets_going_ends_the_job_with_its_last_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """E18: not an empty epoch."""
    code = "import os, sys\nfrom dpepo.envs.toy import ToyWorld\nclass Shy(ToyWorld): pass\n"
    code += f"if os.getpid() != {os.getpid()}: sys.exit('I will not play today')\n"
    (tmp_path / "shy_world.py").write_text(code)
    monkeypatch.syspath_prepend(tmp_path)
    with WorkerPool("shy_world:Shy", workers=2) as pool:
        with pytest.raises(JobError, match=r"does not work: the worker process ended with exit code 1 .*not play today"):
            pool.open_many([(TASK, 4), (OTHER, 4)])
        assert pool.worker_pids() == []


def test_copies_of_a_task_share_a_worker_and_tasks_are_spread(pool: WorkerPool) -> None:
    pool.open_many([(TASK, 4), (OTHER, 4), (TASK, 4), (OTHER, 4)])
    assert len(pool.worker_pids()) == 2
    slots = [record.slot for record in pool._crew.records.values()]
    assert slots == [0, 1, 0, 1]


def test_results_do_not_depend_on_the_number_of_workers() -> None:
    seen = []
    for workers in (1, 3):
        with WorkerPool("toy", workers=workers) as pool:
            handles = [handle for handle, _ in pool.open_many([(f"toy/house/{i % 5}", 3) for i in range(10)])]
            seen.append(pool.step_many([(handle, {1: "look", 3: "go to hall"}) for handle in handles]))
    assert seen[0] == seen[1]


def test_a_worker_imports_neither_torch_nor_the_calling_script(pool: WorkerPool) -> None:
    pool.open_many([(TASK, 4)])
    for pid in pool.worker_pids():
        assert "libtorch" not in Path(f"/proc/{pid}/maps").read_text()


def test_closing_the_pool_leaves_no_process_even_with_a_worker_that_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker_pool, "PATIENCE_S", 0.5)
    pool = WorkerPool("toy", workers=2)
    pool.open_many([(TASK, 4), (OTHER, 4)])
    pids = pool.worker_pids()
    os.kill(pids[0], signal.SIGSTOP)
    pool.close()
    pool.close()
    assert gone(pids, within_s=0.1)
    with pytest.raises(RuntimeError, match="closed"):
        pool.open_many([(TASK, 4)])


def test_ctrl_c_leaves_a_pool_that_can_be_closed_at_once() -> None:
    with WorkerPool("toy", {"hang_at": 2}, workers=1) as pool:
        ((handle, _),) = pool.open_many([(TASK, 4)])
        pool.step_many([(handle, {1: "look"})])
        pids = pool.worker_pids()
        timer = after(0.5, lambda: os.kill(os.getpid(), signal.SIGINT))
        with pytest.raises(KeyboardInterrupt):
            pool.step_many([(handle, {1: "look"})])
        timer.join()
        assert gone(pids, within_s=0.5)
        assert pool.step_many([(handle, {2: "look"})])[0][2].failure == ""  # and one that can go on


@pytest.mark.parametrize("end", ["close", "kill"])
def test_what_a_worker_started_ends_with_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, end: str) -> None:
    """E18: a Java machine of a world that forgets to close it, for example."""
    (tmp_path / "messy_world.py").write_text(MESSY)
    monkeypatch.syspath_prepend(tmp_path)
    with WorkerPool("messy_world:Messy", workers=1) as pool:
        pool.open_many([(TASK, 2)])
        (pid,) = pool.worker_pids()
        children = [child.pid for child in psutil.Process(pid).children()]
        assert len(children) == 1
        if end == "kill":
            os.kill(pid, signal.SIGKILL)
            pool.open_many([(TASK, 2)])
            assert gone(children, within_s=1)
            children = [child.pid for pid in pool.worker_pids() for child in psutil.Process(pid).children()]
    assert gone(children, within_s=1)


@pytest.mark.parametrize(
    ("state", "how"),
    [
        ("idle", signal.SIGKILL),
        ("busy", signal.SIGKILL),
        ("messy", signal.SIGKILL),
        ("busy", signal.SIGTERM),
        ("busy", signal.SIGINT),
    ],
)
def test_no_worker_outlives_its_parent(tmp_path: Path, state: str, how: int) -> None:
    """E18. The script has no ``__main__`` guard and needs none."""
    script = tmp_path / "parent.py"
    world = '"messy_world:Messy"' if state == "messy" else '"toy", {"hang_at": 2}'
    script.write_text(PARENT.replace("WORLD", world))
    (tmp_path / "messy_world.py").write_text(MESSY)
    command = [sys.executable, str(script), state]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as parent:
        assert parent.stdout is not None
        pids = [int(word) for word in parent.stdout.readline().split()]
        pids += [child.pid for pid in pids for child in psutil.Process(pid).children()]
        assert len(pids) == (4 if state == "messy" else 2)
        time.sleep(0.3)
        parent.send_signal(how)
        try:
            parent.wait(20)
        finally:
            parent.kill()
    assert gone(pids, within_s=10)


def test_a_pool_that_nobody_closed_ends_with_the_program(tmp_path: Path) -> None:
    script = tmp_path / "parent.py"
    script.write_text(PARENT.replace("WORLD", '"toy"'))
    command = [sys.executable, "-W", "error", str(script), "leave"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    assert done.stderr == ""
    assert gone([int(word) for word in done.stdout.split()], within_s=0.1)
