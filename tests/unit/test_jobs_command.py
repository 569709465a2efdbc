"""``plan --format slurm`` and ``status --jobs`` as commands, with a scheduler that answers or not."""

from __future__ import annotations

import json
import signal
import stat
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from support.cli import Xpubuild
from support.documents import check
from unit.test_jobs_render import request

from xpubuild.jobs.folder import read_manifest, write
from xpubuild.jobs.render import Cell, Request, files_of, fixed_script

CELL = Cell("r", "r", "a" * 64, ("r",), ("r",), ("torch.install",), "/usr/bin/python3", "cpu")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    path = tmp_path / "the jobs"
    asked = Request("slurm", str(path), (CELL,), {}, ("xpubuild",), f"{path}/mirror", fetched=True)
    write(path, files_of(asked))
    return path


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder in front of PATH; squeue answers with the file ``queue``, sbatch numbers its calls."""
    bin_ = tmp_path / "bin"
    bin_.mkdir()
    for name, body in {
        "squeue": f'cat "{tmp_path}/queue"',
        "sbatch": f'printf "%s\\n" "$*" >>"{tmp_path}/calls"; wc -l <"{tmp_path}/calls"',
        "scancel": f'printf "scancel %s\\n" "$*" >>"{tmp_path}/calls"',
    }.items():
        (bin_ / name).write_text(f"#!/bin/sh\n{body}\n")
        (bin_ / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{bin_}:/usr/bin:/bin")
    (tmp_path / "calls").touch()
    return tmp_path


def names(folder: Path) -> dict[str, str]:
    found = (path.stem for path in (folder / "jobs").iterdir())
    return {name.split("-")[2]: name for name in found}


def submit(folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([str(folder / "submit")], capture_output=True, text=True, check=False)


def test_nothing_is_submitted_where_the_scheduler_does_not_answer(folder: Path, programs: Path) -> None:
    done = submit(folder)
    assert (done.returncode, (programs / "calls").read_text()) == (75, "")
    assert "does not answer" in done.stderr


def test_submit_again(folder: Path, programs: Path) -> None:
    queue, of = programs / "queue", names(folder)
    queue.write_text("")
    assert submit(folder).returncode == 0
    calls = (programs / "calls").read_text().splitlines()
    assert [call.split("--dependency=")[1:] for call in calls] == [
        [], [f"afterok:1 {folder}/jobs/{of['build']}.sh"], [f"afterok:2 {folder}/jobs/{of['verify']}.sh"],
        [f"afternotok:1?afternotok:2?afternotok:3 {folder}/jobs/{of['report']}.sh"],
    ]  # fmt: skip
    # The build has failed; what waits for it is still there, and would wait for ever.
    (folder / "done" / of["fetch"]).touch()
    queue.write_text(f"3 PENDING {of['verify']}\n4 PENDING {of['report']}\n")
    (programs / "calls").write_text("")
    out = submit(folder).stdout
    calls = (programs / "calls").read_text().splitlines()
    assert [call for call in calls if call.startswith("scancel")] == ["scancel 3", "scancel 4"]
    assert f"done       {of['fetch']}" in out
    assert "afterok" not in calls[0]
    # A report that runs tells of the attempt before.
    queue.write_text(f"4 RUNNING {of['report']}\n")
    (programs / "calls").write_text("")
    assert submit(folder).stdout.count("submitted") == 3
    assert "scancel" not in (programs / "calls").read_text()
    # What runs is left alone.
    queue.write_text(f"1 RUNNING {of['build']}\n3 PENDING {of['verify']}\n")
    (programs / "calls").write_text("")
    assert "submitted" not in submit(folder).stdout


def test_status(folder: Path, programs: Path, xpubuild: Xpubuild) -> None:
    of = names(folder)
    for name in ("done", "ended", "ids"):
        (folder / name).mkdir()
    (folder / "done" / of["fetch"]).touch()
    (folder / "ids" / of["verify"]).write_text("3\n")
    (folder / "ended" / of["build"]).write_text("failed 50\n")

    def states() -> dict[str, tuple[str, int | None]]:
        document = check(xpubuild.json("status", "--jobs", str(folder)), "jobs")
        assert document["answered"] == (programs / "queue").exists()
        return {row["kind"]: (row["state"], row["exit_code"]) for row in document["jobs"]}

    silent = states()
    assert silent["verify"] == ("unknown", None)
    assert (silent["fetch"], silent["build"]) == (("done", None), ("failed", 50))
    (programs / "queue").write_text(f"4 PENDING {of['build']}\n")
    assert states() == {
        "fetch": ("done", None), "build": ("pending", None), "verify": ("gone", None),
        "report": ("not submitted", None),
    }  # fmt: skip
    assert "pending" in xpubuild.ok("status", "--jobs", str(folder), XPUBUILD_JOBS="8").out


def test_the_cells(folder: Path, programs: Path, xpubuild: Xpubuild) -> None:
    of = names(folder)
    for name in ("done", "ended", "ids", "results", "logs", "accepted"):
        (folder / name).mkdir()
    (programs / "queue").write_text("")
    for kind in ("fetch", "build", "verify"):
        (folder / "ids" / of[kind]).write_text("3\n")
    (folder / "done" / of["fetch"]).write_text("1 1 5\n")
    (folder / "ended" / of["build"]).write_text("failed 50 61 \n")
    (folder / "logs" / f"{of['build']}.3.log").touch()
    error = {"code": "build", "exit_code": 50, "what": "torch.wheel failed", "why": "x.cpp:3: no"}
    (folder / "results" / f"{of['build']}.json").write_text(json.dumps({"error": error}))

    def cell() -> dict[str, Any]:
        (found,) = check(xpubuild.json("status", "--jobs", str(folder)), "jobs")["cells"]
        return dict(found)

    expected = {
        "cell": "r", "build": "failed", "verdict": "not run: its dependency failed", "failing": [],
        "passed": 0, "wheels": [], "seconds": 61, "speed": None, "cause": "torch.wheel failed: x.cpp:3: no",
        "log": f"{folder}/logs/{of['build']}.3.log",
    }  # fmt: skip
    assert cell() == expected
    (folder / "ended" / of["build"]).write_text("stuck 75 60 caffe2/x.o\n")
    assert cell()["cause"] == "three attempts ended at caffe2/x.o"
    (folder / "done" / of["build"]).write_text("1 3 60\n")
    (folder / "ended" / of["verify"]).write_text("failed 70 9 \n")
    (folder / "results" / f"{of['build']}.json").write_text('{"wheels": [{"file": "torch.whl"}]}')
    checks = [
        {"id": "a", "status": "pass", "metrics": {"x_tflops": 9.0}},
        {"id": "b", "status": "fail", "detail": "off"},
    ]  # fmt: skip
    (folder / "results" / f"{of['verify']}.json").write_text(json.dumps({"checks": checks}))
    (folder / "accepted" / "r.json").write_text(
        json.dumps({"checks": [{**checks[0], "metrics": {"x_tflops": 10.0}}]})
    )
    assert cell() == {
        **expected, "build": "done", "verdict": "fail", "failing": ["b"], "passed": 1,
        "wheels": ["torch.whl"],
        "seconds": 69, "speed": 0.9, "cause": "b: off", "log": None,
    }  # fmt: skip
    xpubuild.ok("status", "--jobs", str(folder), "--junit", str(folder / "j.xml"))
    assert '<failure type="fail" message="b: off">' in (folder / "j.xml").read_text()
    (folder / "results" / f"{of['verify']}.json").write_text('{"checks": 3}')
    assert cell()["verdict"] == "failed"


def test_what_cannot_be_asked(tmp_path: Path, xpubuild: Xpubuild) -> None:
    assert xpubuild("status", "--jobs", str(tmp_path)).status == 2
    assert xpubuild("plan", "quickstart", "--output", str(tmp_path / "x")).status == 2
    assert xpubuild("plan", "quickstart", "--format", "slurm", "--editable").status == 2
    assert xpubuild("plan", "quickstart", "--format", "slurm", "--matrix", "recipes=2.8").status == 2
    assert xpubuild("plan", "--format", "slurm", "--matrix", "m.yaml").status == 2


def test_lines_of_setup_are_not_for_a_strangers_file(tmp_path: Path, xpubuild: Xpubuild) -> None:
    recipe = tmp_path / "ours.yaml"
    recipe.write_text("schema: 1\nname: ours\ntitle: t\nextends: quickstart\n")
    (tmp_path / "xpubuild.toml").write_text('[jobs.build]\nsetup = ["touch /tmp/x"]\n')
    result = xpubuild("plan", str(recipe), "--format", "slurm")
    assert (result.status, "stranger" in result.err) == (20, True), result.err


# ---- One attempt at a job, run by bash without a scheduler: marks, exits, budgets, signals, local disks


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

    def stopped_by(self, number: int, body: str, after_s: float = 0.0) -> int:
        """Return the exit after a signal that comes when the body has made the file ``here``."""
        process = self.start(body)
        while not (self.folder / "here").exists():
            time.sleep(0.01)
        time.sleep(after_s)
        process.send_signal(number)
        self.out, _ = process.communicate(timeout=30)
        return process.returncode

    @property
    def ended(self) -> str:
        return (self.folder / "ended" / self.name).read_text().rsplit(maxsplit=1)[0]

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


_COMPILING = """work_in 0123
workspace=$place/ws
run bash -c 'mkdir -p "$0/src" && cd "$0/src" && touch "$1/here"
  exec python3 -c "import time; time.sleep(60)" -c x.cpp -o "a dir/x.o"' "$workspace" "$folder"
"""


def test_three_stops_at_one_object_are_enough(attempts: Attempts) -> None:
    for requeued, word in ((1, "time 75"), (2, "time 75"), (2, "stuck 75")):
        (attempts.folder / "here").unlink(missing_ok=True)
        # The command line of the compiler is there a moment after the file.
        assert attempts.stopped_by(signal.SIGUSR1, _COMPILING, after_s=0.5) == 75
        found = (attempts.folder / "ended" / attempts.name).read_text().split(maxsplit=3)
        assert (" ".join(found[:2]), attempts.requeued) == (word, requeued), found
    assert found[3].strip() == "a dir/x.o"


def test_a_kill_for_lack_of_memory_does_not_come_back(attempts: Attempts) -> None:
    assert attempts.run("oom_before=-1; run bash -c 'exit 137'") == 51
    assert (attempts.ended, attempts.requeued) == ("failed 51", 0)


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


# ---- What jobs are made of, whole: kinds of nodes, matrices, manifests and folders


def test_a_folder_is_of_jobs_only_with_a_manifest_of_ours(tmp_path: Path) -> None:
    write(tmp_path / "ours", files_of(request(folder=str(tmp_path / "ours"))))
    found = read_manifest(tmp_path / "ours")
    assert found is not None
    assert {key: found[key] for key in ("schema", "made_by", "scheduler")} == {
        "schema": "xpubuild.jobs-folder/1", "made_by": "xpubuild plan", "scheduler": "slurm",
    }  # fmt: skip
    assert [list(job) for job in found["jobs"]] == [["name", "kind", "cell", "proof", "needs"]] * 4
    (job, *_) = found["jobs"]
    changes: tuple[dict[str, Any], ...] = (
        {"schema": "x"}, {"scheduler": "lsf"}, {"jobs": {}}, {"jobs": [1]},
        {"jobs": [{**job, "name": "../x"}]}, {"jobs": [{**job, "name": "a b"}]},
        {"jobs": [{"name": "a", "kind": "fetch"}]},
    )  # fmt: skip
    for change in changes:
        (tmp_path / "jobs.json").write_text(json.dumps({**found, **change}))
        assert read_manifest(tmp_path) is None, change
    for text in ("[]", "{", ""):
        (tmp_path / "jobs.json").write_text(text)
        assert read_manifest(tmp_path) is None


def test_scripts_of_an_earlier_plan_go_and_results_stay(tmp_path: Path) -> None:
    folder = tmp_path / "jobs"
    texts = files_of(request(folder=str(folder)))
    write(folder, texts)
    (folder / "done").mkdir()
    (folder / "jobs" / "mine.sh").touch()
    other = {path: text for path, text in texts.items() if "-fetch-" not in path}
    write(folder, other)
    left = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}
    assert left == {*other, "jobs/mine.sh"}
    assert (folder / "done").is_dir()
    modes = {path: stat.S_IMODE((folder / path).stat().st_mode) for path in other}
    assert {path for path, mode in modes.items() if mode == 0o755} == {
        "submit", *(path for path in other if path.startswith("jobs/")),
    }  # fmt: skip
