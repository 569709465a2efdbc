"""``plan --format slurm`` and ``status --jobs`` as commands, with a scheduler that answers or not."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from support.cli import Xpubuild
from support.documents import check

from xpubuild.jobs.folder import write
from xpubuild.jobs.render import Cell, Request, files_of

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


def test_what_cannot_be_asked(tmp_path: Path, xpubuild: Xpubuild) -> None:
    assert xpubuild("status", "--jobs", str(tmp_path)).status == 2
    assert xpubuild("plan", "quickstart", "--output", str(tmp_path / "x")).status == 2
    assert xpubuild("plan", "quickstart", "--format", "slurm", "--editable").status == 2
    matrix = tmp_path / "m.yaml"
    matrix.write_text('recipes: ["quickstart"]\n')
    assert xpubuild("plan", "quickstart", "--format", "slurm", "--matrix", str(matrix)).status == 2
    matrix.write_text("recipes: 1\n")
    assert xpubuild("plan", "--format", "slurm", "--matrix", str(matrix)).status == 20


def test_lines_of_setup_are_not_for_a_strangers_file(tmp_path: Path, xpubuild: Xpubuild) -> None:
    recipe = tmp_path / "ours.yaml"
    recipe.write_text("schema: 1\nname: ours\ntitle: t\nextends: quickstart\n")
    (tmp_path / "xpubuild.toml").write_text('[jobs.build]\nsetup = ["touch /tmp/x"]\n')
    result = xpubuild("plan", str(recipe), "--format", "slurm")
    assert (result.status, "stranger" in result.err) == (20, True), result.err
