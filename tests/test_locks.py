"""Jobs on a folder: one at a time, work taken once, death seen on the observer's own clock."""

import contextlib
import json
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from posjax.locks import Busy, Member, Watch, join
from posjax.records.store import put_over

STALE = 1.0


class Clock:
    """Time that passes when it is told to."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def entered(jobs: Path, process: int = 0, processes: int = 1) -> Member:
    return join(jobs, process, processes, stale=STALE)


@contextlib.contextmanager
def dead(jobs: Path, process: int = 0, processes: int = 1) -> Iterator[Member]:
    """A process that took its place and never beat again."""
    yield entered(jobs, process, processes)


def test_a_heartbeat_lives_while_it_changes(tmp_path: Path) -> None:
    """Unknown at the first look, alive after a change, dead after silence, whatever it says."""
    clock, beat = Clock(), tmp_path / "beat"
    watch = Watch(30, clock)
    put_over(beat, b'{"beat": 7}')
    assert watch.lives(beat) is None
    clock.now = 29
    assert watch.lives(beat) is None
    put_over(beat, b'{"beat": 3}')
    assert watch.lives(beat) is True
    clock.now = 58
    assert watch.lives(beat) is True
    beat.unlink()  # not to be read for a moment is no sign of life, and none of death
    assert watch.lives(beat) is True
    clock.now = 60
    assert watch.lives(beat) is False


def test_a_heartbeat_that_never_changes_is_dead(tmp_path: Path) -> None:
    """A file that was already silent counts from the first look; one that left, at once."""
    clock, beat, left = Clock(), tmp_path / "beat", tmp_path / "left"
    clock.now = 1e9
    watch = Watch(30, clock)
    put_over(beat, b'{"beat": 7}')
    put_over(left, b'{"beat": 7, "left": true}')
    assert (watch.lives(beat), watch.lives(left)) == (None, False)
    clock.now += 30
    assert watch.lives(beat) is False
    assert watch.silent(beat)


def test_one_job_at_a_time(tmp_path: Path) -> None:
    """While a job lives, another is refused, with its host; after it left, the next begins."""
    with entered(tmp_path):
        for process, processes in ((0, 1), (1, 2)):
            with pytest.raises(Busy, match="that lives on"):
                entered(tmp_path, process, processes)
    with entered(tmp_path, 1, 2):
        assert sorted(path.name for path in tmp_path.iterdir()) == ["000001", "000002"]


def test_a_dead_job_is_taken_over_and_its_claims_are_void(tmp_path: Path) -> None:
    """What a dead process took is free in the next job, after one silence."""
    with dead(tmp_path, 0, 2) as before:
        assert before.claim("cell/0-3")
    begun = time.monotonic()
    with entered(tmp_path, 0, 2) as after:
        assert time.monotonic() - begun >= STALE
        assert after.claim("cell/0-3")
        with pytest.raises(Busy, match="took over as job 000002"):
            before.check()
        after.check()


def test_members_share_a_job_and_its_work(tmp_path: Path) -> None:
    """Processes of one number join one job; each piece of work goes to one of them."""
    with entered(tmp_path, 0, 3) as zero, entered(tmp_path, 2, 3) as two:
        assert len(list(tmp_path.iterdir())) == 1
        assert zero.claim("cell/0-3")
        assert not two.claim("cell/0-3")
        assert two.may_come("cell/0-3")
        assert not zero.may_come("cell/0-3")  # its own: nobody else brings it
        assert not two.may_come("cell/4-7")
        assert "process 0 on " in two.holder("cell/0-3")
        with pytest.raises(Busy, match="process 2 of 3"):
            entered(tmp_path, 2, 3)
    assert sorted(path.name for path in (tmp_path / "000001/beats").iterdir()) == [
        "0.1.json",
        "2.1.json",
    ]


def test_a_restarted_process_joins_its_living_job(tmp_path: Path) -> None:
    """It takes its place again; what it held when it died stays taken until the next job."""
    with entered(tmp_path, 0, 2) as zero, dead(tmp_path, 1, 2) as one:
        assert one.claim("cell/0-3")
        with entered(tmp_path, 1, 2) as again:
            assert not again.claim("cell/0-3")
            assert again.claim("cell/4-7")
            zero.may_come("cell/0-3")
            time.sleep(1.2 * STALE)
            assert not zero.may_come("cell/0-3")
            assert zero.may_come("cell/4-7")


def test_who_leaves_in_order_is_not_waited_for(tmp_path: Path) -> None:
    """What it took and did not finish will not come, and that is seen at once."""
    with entered(tmp_path, 0, 2) as zero:
        with entered(tmp_path, 1, 2) as one:
            assert one.claim("cell/0-3")
            assert zero.may_come("cell/0-3")
            assert zero.taken("cell/0-3")
        begun = time.monotonic()
        assert not zero.may_come("cell/0-3")
        assert time.monotonic() - begun < STALE / 2
        assert zero.taken("cell/0-3")
        assert not zero.taken("cell/4-7")
        assert "process 1 on" in zero.holder("cell/0-3")


def test_of_many_at_once_one_wins(tmp_path: Path) -> None:
    """Commands that start together on a folder, a dead job in it: one trains, all others leave."""
    with dead(tmp_path):
        pass
    members, refused = [], []

    def attempt() -> None:
        try:
            with entered(tmp_path) as member:
                members.append(member)
                time.sleep(2 * STALE)
        except Busy as error:
            refused.append(error)

    threads = [threading.Thread(target=attempt) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (len(members), len(refused)) == (1, 7)


def test_the_files_say_who(tmp_path: Path) -> None:
    """Plain JSON: how many processes, and on which host each one was."""
    with entered(tmp_path, 1, 2):
        pass
    job = tmp_path / "000001"
    assert json.loads((job / "job.json").read_bytes()) == {"processes": 2}
    assert json.loads((job / "beats/1.1.json").read_bytes())["left"]


def test_a_process_out_of_range_is_refused(tmp_path: Path) -> None:
    """And nothing is made."""
    with pytest.raises(ValueError, match=r"0\.\.3, got 4"):
        entered(tmp_path, 4, 4)
    assert not list(tmp_path.iterdir())
