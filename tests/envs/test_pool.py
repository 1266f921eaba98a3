"""What both kinds of pool promise; each test runs in this process and in a worker process."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from dpepo.config import EnvConfig
from dpepo.envs import EnvPool, LocalPool, WorkerPool, make_pool
from dpepo.envs.toy import ToyWorld
from dpepo.errors import ConfigError, JobError, MissingPackage, RequestError, TaskError

TASK = "toy/house/3"
PoolMaker = Callable[..., EnvPool]


def test_answers_come_back_in_the_order_asked(make_toy_pool: PoolMaker) -> None:
    pool = make_toy_pool()
    opened = pool.open_many([("toy/room/1", 2), (TASK, 4), ("toy/room/1", 2)])
    (first, start), (second, other), (third, again) = opened
    assert start == again != other
    assert len({first, second, third}) == 3
    expert = ToyWorld().expert(TASK)
    answers = pool.step_many([(third, {2: "look"}), (second, {3: expert[0], 1: "look"}), (first, {})])
    assert [list(row) for row in answers] == [[2], [1, 3], []]
    assert answers[0][2].text == start.initial.text
    assert answers[1][1].text == other.initial.text


def test_siblings_of_a_task_do_not_share_state(make_toy_pool: PoolMaker) -> None:
    """E08."""
    pool = make_toy_pool()
    (one, start), (two, _) = pool.open_many([(TASK, 2), (TASK, 2)])
    for action in ToyWorld().expert(TASK):
        pool.step_many([(one, {1: action})])
    assert pool.step_many([(two, {1: "look"})])[0][1].text == start.initial.text


def test_a_broken_environment_is_a_value_and_the_batch_finishes(make_toy_pool: PoolMaker) -> None:
    """E04."""
    pool = make_toy_pool({"fail_at": 3, "fault_action": "look"})
    (one, _), (two, _) = pool.open_many([(TASK, 4), (TASK, 4)])
    for _ in range(2):
        pool.step_many([(one, dict.fromkeys((1, 2, 3, 4), "look"))])
    answers = pool.step_many([(one, {1: "go to hall", 2: "look", 3: "go to hall"}), (two, {1: "look"})])
    assert [answers[0][env_id].failure for env_id in (1, 2, 3)] == ["", "IndexError: toy fault at action 3", ""]
    assert answers[1][1].failure == ""
    assert pool.step_many([(one, {1: "go to study", 2: "look", 4: "go to hall"})])[0].keys() == {1, 4}


def test_ended_environments_are_left_out(make_toy_pool: PoolMaker) -> None:
    """E17."""
    pool = make_toy_pool()
    ((handle, _),) = pool.open_many([(TASK, 4)])
    *_, last = [pool.step_many([(handle, {2: action})])[0][2] for action in ToyWorld().expert(TASK)]
    assert last.success
    assert pool.step_many([(handle, {2: "look"})]) == [{}]
    assert pool.step_many([(handle, {1: "look", 2: "look"})])[0].keys() == {1}


def test_a_start_that_breaks_is_a_value(make_toy_pool: PoolMaker) -> None:
    """E18."""
    pool = make_toy_pool({"fail_at": 0})
    ((handle, start),) = pool.open_many([(TASK, 4)])
    assert start.initial.failure == "IndexError: toy fault at action 0"
    assert start.guide.role
    assert pool.step_many([(handle, {1: "look"})]) == [{}]
    pool.close_many([handle])


def test_an_unknown_task_is_refused_and_leaves_nothing_open(make_toy_pool: PoolMaker) -> None:
    pool = make_toy_pool()
    with pytest.raises(TaskError, match="Did you mean"):
        pool.open_many([(TASK, 4), ("toy/hause/3", 4)])
    ((handle, _),) = pool.open_many([(TASK, 4)])
    assert pool.step_many([(handle, {1: "look"})])[0][1].valid
    for earlier in range(handle):
        with pytest.raises(ValueError, match="no open bundle"):
            pool.step_many([(earlier, {1: "look"})])


def test_mistakes_of_the_caller_are_found_before_anything_is_done(make_toy_pool: PoolMaker) -> None:
    pool = make_toy_pool({"fail_at": 1})
    ((handle, _),) = pool.open_many([(TASK, 4)])
    with pytest.raises(ValueError, match="no environment 5: they are numbered from 1 to 4"):
        pool.step_many([(handle, {1: "look", 5: "look"})])
    with pytest.raises(ValueError, match="only once"):
        pool.step_many([(handle, {1: "look"}), (handle, {2: "look"})])
    with pytest.raises(ValueError, match="no open bundle 99"):
        pool.step_many([(handle, {1: "look"}), (99, {1: "look"})])
    with pytest.raises(ValueError, match="at least 1"):
        pool.open_many([(TASK, 0)])
    assert pool.step_many([(handle, {1: "look"})])[0][1].failure == "IndexError: toy fault at action 1"  # its first action


def test_closed_bundles_are_gone_and_closing_again_does_no_harm(make_toy_pool: PoolMaker) -> None:
    """E16."""
    pool = make_toy_pool()
    ((handle, start),) = pool.open_many([(TASK, 4)])
    pool.step_many([(handle, {1: "go to hall"})])
    pool.close_many([handle, handle, 77])
    with pytest.raises(ValueError, match="no open bundle"):
        pool.step_many([(handle, {1: "look"})])
    ((second, again),) = pool.open_many([(TASK, 4)])
    assert second != handle and again == start
    assert pool.step_many([(second, {1: "look"})])[0][1].text == start.initial.text


def test_experts_and_metadata_come_through(make_toy_pool: PoolMaker) -> None:
    pool = make_toy_pool()
    assert pool.expert_many([TASK, "toy/room/1"]) == [ToyWorld().expert(TASK), ToyWorld().expert("toy/room/1")]
    assert pool.metadata()["world"] == "toy"
    with pytest.raises(TaskError):
        pool.expert_many(["toy/house/x"])


def test_strange_text_passes_unharmed(make_toy_pool: PoolMaker) -> None:
    pool = make_toy_pool()
    ((handle, _),) = pool.open_many([(TASK, None)])
    strange = ["", "\x00\x1b[2J", "\ud800", "naïve 动作 🙂", "look " * 100_000]
    answers = pool.step_many([(handle, dict(enumerate(strange, start=1)))])[0]
    assert [seen.valid for seen in answers.values()] == [False] * 5
    assert not any(seen.failure for seen in answers.values())


def test_the_configuration_chooses_the_pool() -> None:
    with make_pool(EnvConfig(world="toy", workers=0)) as pool:
        assert isinstance(pool, LocalPool)
    with make_pool(EnvConfig(world="toy", workers=3, step_timeout_s=5)) as pool:
        assert isinstance(pool, WorkerPool)
        assert pool.worker_pids() == []  # nothing starts before there is work


@pytest.mark.parametrize("workers", [0, 2])
def test_a_wrong_world_or_option_is_found_before_any_process_starts(workers: int) -> None:
    with pytest.raises(TaskError, match="Did you mean 'toy'"):
        make_pool(EnvConfig(world="toyy", workers=workers))
    with pytest.raises(ConfigError, match="Did you mean 'fail_at'"):
        make_pool(EnvConfig(world="toy", options={"fail_att": 1}, workers=workers))


@pytest.mark.parametrize("workers", [0, 1])
def test_a_world_that_breaks_over_an_expert_is_a_job_error(workers: int, guess_world: str, tmp_path: Path) -> None:
    module = guess_world.partition(":")[0]
    with (tmp_path / f"{module}.py").open("a") as file:
        file.write("\n    def expert(self, task_id):\n        raise KeyError(task_id)\n")
    with make_pool(EnvConfig(world=guess_world, workers=workers)) as pool:
        with pytest.raises(JobError, match="KeyError: 'guess/number/3'"):
            pool.expert_many(["guess/number/3"])
        assert len(pool.open_many([("guess/number/3", 2)])) == 1


@pytest.mark.parametrize("workers", [0, 1])
def test_a_missing_package_is_named_from_a_worker_as_from_here(workers: int, guess_world: str, tmp_path: Path) -> None:
    module = guess_world.partition(":")[0]
    with (tmp_path / f"{module}.py").open("a") as file:
        file.write(
            "\n    def expert(self, task_id):\n        from dpepo.errors import MissingPackage\n"
            "        raise MissingPackage('gold', extra='guess', needed_for='The expert')\n"
        )
    with make_pool(EnvConfig(world=guess_world, workers=workers)) as pool:
        with pytest.raises(MissingPackage, match=r"The expert needs the package 'gold'.*dpepo\[guess\]") as caught:
            pool.expert_many(["guess/number/3"])
        assert caught.value.extra == "guess"


@pytest.mark.parametrize("workers", [0, 1])
def test_a_world_may_refuse_with_an_error_of_its_own(workers: int, guess_world: str, tmp_path: Path) -> None:
    module = guess_world.partition(":")[0]
    with (tmp_path / f"{module}.py").open("a") as file:
        file.write(
            "\n    def expert(self, task_id):\n        from dpepo.errors import TaskError\n"
            "        class Own(TaskError):\n            pass\n        raise Own('not today')\n"
        )
    with make_pool(EnvConfig(world=guess_world, workers=workers)) as pool, pytest.raises(RequestError, match="not today"):
        pool.expert_many(["guess/number/3"])


def test_the_clock_counts_episodes_and_actions_and_their_seconds(make_toy_pool: PoolMaker) -> None:
    pool = make_toy_pool({"step_s": 0.05})
    opened = pool.open_many([(TASK, 2), (TASK, 2)])
    before = pool.clock.copy()
    assert (before.resets, before.steps) == (2, 0)
    pool.step_many([(handle, {1: "look", 2: "look"}) for handle, _ in opened])
    took = pool.clock.since(before)
    assert (took.resets, took.steps, took.restarts) == (0, 4, 0)
    assert 0.2 <= took.step_s < 2
    assert took.reset_s == took.restore_s == 0
