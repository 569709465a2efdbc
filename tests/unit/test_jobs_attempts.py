"""One attempt at a job, run by bash without a scheduler: marks, exits, budgets, signals, local disks."""

from __future__ import annotations

import signal
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

import pytest

from xpubuild.jobs.render import fixed_script

_HEAD = """
folder=$1 job=xb-r-build-0123 kind={kind} job_id=7 local=$2
local_disk() {{ printf '%s' "$local"; }}
watch_the_time() {{ :; }}
requeue() {{ echo requeued >>"$folder/requeued"; }}
. {job}
begin
{body}
settle 0
"""


@dataclass
class Attempts:
    """A folder of jobs and the node's own disk."""

    folder: Path
    disk: Path
    name: str = "xb-r-build-0123"

    def start(self, body: str, kind: str = "build") -> subprocess.Popen[str]:
        text = _HEAD.format(kind=kind, job=fixed_script("job"), body=body)
        words = ["bash", "-c", text, "job", str(self.folder), str(self.disk)]
        return subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

    def run(self, body: str, kind: str = "build") -> int:
        process = self.start(body, kind)
        self.out, _ = process.communicate(timeout=30)
        return process.returncode

    def stopped_by(self, number: int, body: str) -> int:
        """Return the exit after a signal that comes when the body has made the file ``here``."""
        process = self.start(body)
        while not (self.folder / "here").exists():
            time.sleep(0.01)
        process.send_signal(number)
        self.out, _ = process.communicate(timeout=30)
        return process.returncode

    @property
    def ended(self) -> str:
        return (self.folder / "ended" / self.name).read_text().strip()

    @property
    def requeued(self) -> int:
        path = self.folder / "requeued"
        return len(path.read_text().split()) if path.exists() else 0


@pytest.fixture
def attempts(tmp_path: Path) -> Attempts:
    folder, disk = tmp_path / "the jobs", tmp_path / "own disk"
    folder.mkdir()
    disk.mkdir()
    return Attempts(folder, disk)


def test_a_job_that_is_done_does_not_run_again(attempts: Attempts) -> None:
    body = 'run_into "$folder/result" echo made; echo ran >>"$folder/ran"'
    assert (attempts.run(body), attempts.run(body)) == (0, 0)
    assert (attempts.folder / "ran").read_text() == "ran\n"
    assert (attempts.folder / "result").read_text() == "made\n"
    assert "done already" in attempts.out


@pytest.mark.parametrize(("code", "kind"), [(50, "build"), (30, "build"), (70, "verify"), (31, "fetch")])
def test_the_failure_of_a_build_is_not_tried_again(attempts: Attempts, code: int, kind: str) -> None:
    assert attempts.run(f'run_into "$folder/result" bash -c "echo why; exit {code}"', kind) == code
    assert (attempts.ended, attempts.requeued) == (f"failed {code}", 0)
    assert (attempts.folder / "result").read_text() == "why\n"


@pytest.mark.parametrize(("code", "kind"), [(52, "build"), (75, "build"), (127, "verify"), (30, "fetch")])
def test_the_failure_of_a_site_is_tried_again_three_times(attempts: Attempts, code: int, kind: str) -> None:
    exits = [attempts.run(f'run bash -c "exit {code}"', kind) for _ in range(4)]
    assert (exits, attempts.requeued, attempts.ended) == ([75] * 4, 3, f"site {code}")


_WORK = """work_in 0123
run bash -c 'mkdir -p "$0/ws"; trap "echo stopped >>\\"$0/ws/said\\"; exit 130" TERM
  touch "$1/here"; while :; do sleep 0.05; done' "$place" "$folder"
"""


def test_at_the_time_limit_what_was_made_is_kept(attempts: Attempts) -> None:
    assert attempts.stopped_by(signal.SIGUSR1, _WORK) == 75
    assert (attempts.ended, attempts.requeued) == ("time 75", 1)
    assert not list(attempts.disk.iterdir())
    # The next attempt runs on another node, with another disk.
    attempts.disk = attempts.disk.with_name("another disk")
    attempts.disk.mkdir()
    assert attempts.run('work_in 0123; run cat "$place/ws/said"') == 0
    assert "stopped" in attempts.out
    assert not list((attempts.folder / "builds").iterdir())
    assert not list(attempts.disk.iterdir())


def test_a_job_that_is_cancelled_does_not_come_back(attempts: Attempts) -> None:
    assert attempts.stopped_by(signal.SIGTERM, _WORK) == 143
    assert (attempts.ended, attempts.requeued) == ("cancelled 143", 0)
    assert (attempts.folder / "builds" / f"{attempts.name}.tar").exists()


def test_without_a_disk_of_its_own_a_node_uses_the_shared_one(attempts: Attempts) -> None:
    attempts.disk = Path("/proc/no such folder")
    assert attempts.run('work_in 0123; run mkdir "$place/ws"; run bash -c "exit 50"') == 50
    assert (attempts.folder / "builds" / "0123" / "ws").is_dir()


def test_setup_that_fails_is_the_sites_failure(attempts: Attempts) -> None:
    assert attempts.run("{ false; } || settle $site_failed") == 75
    assert attempts.ended == "site 75"
