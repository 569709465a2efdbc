"""The launcher in front of real commands of a real ninja: who runs beside whom, and what a kill leaves."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from integration.small_world import BACKEND, small_world
from support.engine import PATH, eventually
from support.plan_files import plan_for

from xpubuild.engine import admit
from xpubuild.install.target import Admission

MIB = 1 << 20
#: Writes down when it begins and ends, and runs until the condition of its name holds: NAME -o OBJECT.
COMPILER = """\
#!/bin/sh
echo "+ $1" >> "$LOG"
until test ! -e "$UNTIL/$1" || sh "$UNTIL/$1"; do sleep 0.05; done
echo "- $1" >> "$LOG"
echo of "$1" > "$3"
"""
_LONG_S = 120


@dataclass
class Site:
    """A build folder with a launcher as a plan writes it, and compilers that only sleep."""

    root: Path
    settings: Path
    launcher: Path

    @property
    def log(self) -> Path:
        return self.root / "log"

    def env(self, **more: str) -> dict[str, str]:
        own = {"PATH": PATH, "LOG": str(self.log), "UNTIL": str(self.root / "until")}
        return {**own, "XPUBUILD_ADMIT": str(self.settings), **more}

    def argv(self, name: str) -> list[str]:
        return [str(self.launcher), str(self.root / "cc"), name, "-o", str(self.root / name)]

    def runs_until(self, name: str, condition: str) -> None:
        """Let a unit end when a shell says so, given the log as $LOG."""
        (self.root / "until").mkdir(exist_ok=True)
        (self.root / "until" / name).write_text(f"{condition}\n")

    def patience(self, seconds: float) -> None:
        with self.settings.open("a") as stream:
            stream.write(f"patience {seconds}\n")

    def needs(self, name: str, mib: int) -> None:
        """Let it be known what a unit needs: with what is added for the next time, a whole number of MiB."""
        learned = self.root / "learned"
        learned.mkdir(exist_ok=True)
        (learned / name).write_text(f"{int((mib - 32) * MIB / 1.1)} 1.00\n")

    def lines(self) -> list[str]:
        return self.log.read_text().splitlines() if self.log.exists() else []

    def ninja(self, units: Sequence[str], jobs: int | None = None, **more: str) -> list[str]:
        """Write a build of units, in their order; return the command that builds them with real ninja."""
        rules = [f"rule {name}\n  command = {' '.join(self.argv(name))}\n" for name in units]
        edges = [f"build {name}: {name}\n" for name in units]
        (self.root / "build.ninja").write_text("".join([*rules, *edges]))
        ninja = str(Path(sys.executable).with_name("ninja"))
        return [ninja, "-C", str(self.root), *(["-j", str(jobs)] if jobs else [])]

    def beside(self) -> Iterator[set[str]]:
        """Yield the names of what ran at the same time, after each beginning."""
        running: set[str] = set()
        for line in self.lines():
            sign, _, name = line.partition(" ")
            (running.add if sign == "+" else running.remove)(name)
            if sign == "+":
                yield set(running)


@pytest.fixture
def site(tmp_path: Path) -> Site:
    """A budget of 1 GiB for 4 jobs: what needs more than 256 MiB is heavy."""
    facts = {
        "admission": Admission(
            1 << 30, own_group=False, other_jobs=1, program=Path(admit.__file__).read_text()
        )
    }
    plan = plan_for("2.13", workspace="/w", facts={**facts, "python": sys.executable})
    folder = tmp_path / "launcher"
    folder.mkdir()
    for path, text in plan.files.items():
        if path.startswith("/w/build/launcher/"):
            (folder / Path(path).name).write_text(text)
    (folder / "launch").chmod(0o755)
    settings = folder / "torch.txt"
    kept = [line for line in settings.read_text().splitlines() if line.split()[0] in {"budget", "group"}]
    own = [
        f"ledger {tmp_path}/ledger", f"learned {tmp_path}/learned", f"root {tmp_path}", "jobs 4",
        f"default {200 * MIB}",
    ]  # fmt: skip
    settings.write_text("\n".join([*kept, *own]) + "\n")
    compiler = tmp_path / "cc"
    compiler.write_text(COMPILER)
    compiler.chmod(0o755)
    return Site(tmp_path, settings, folder / "launch")


def test_heavy_ones_run_one_at_a_time_and_light_ones_beside_them(site: Site) -> None:
    sizes = {f"heavy{number}": 700 for number in range(6)} | {f"light{number}": 90 for number in range(9)}
    for name, mib in sizes.items():
        site.needs(name, mib)
        # Whichever is the first sees light ones pass, as many as there are jobs.
        site.runs_until(name, 'test "$(grep -c "+ light" "$LOG")" -ge 3')
    site.patience(_LONG_S)
    # All heavy ones come first, and more of them than there are jobs.
    subprocess.run(site.ninja(list(sizes), jobs=12), env=site.env(), check=True, timeout=_LONG_S)
    groups = list(site.beside())
    assert sorted(line[2:] for line in site.lines() if line[0] == "-") == sorted(sizes)
    assert max(sum(sizes[name] for name in group) for group in groups) <= 1024
    assert max(sum(name.startswith("heavy") for name in group) for group in groups) == 1
    assert max(len(group) for group in groups) == 4, "as many as there are jobs"


def test_a_unit_larger_than_everything_runs_alone(site: Site) -> None:
    site.needs("huge", 5000)
    subprocess.run(site.ninja(["huge", "a", "b"], jobs=3), env=site.env(), check=True, timeout=_LONG_S)
    assert all(group == {"huge"} for group in site.beside() if "huge" in group)


def test_peak_and_time_are_learned_and_the_exit_status_is_the_compilers(site: Site) -> None:
    hungry = [
        sys.executable,
        "-c",
        "import sys; b = bytearray(64 << 20); sys.exit(3)",
        "-o",
        str(site.root / "x"),
    ]
    done = subprocess.run([str(site.launcher), *hungry], check=False, env=site.env(), timeout=_LONG_S)
    assert done.returncode == 3
    peak = admit.known_of(str(site.root / "learned" / "x"))
    assert peak > 1.5 * 64 * MIB, "of one that failed more is assumed"
    hungry[2] = hungry[2].replace("exit(3)", "exit(0)")
    assert (
        subprocess.run([str(site.launcher), *hungry], check=False, env=site.env(), timeout=_LONG_S).returncode
        == 0
    )
    assert 64 * MIB < admit.known_of(str(site.root / "learned" / "x")) < 0.8 * peak
    killed = [str(site.launcher), "sh", "-c", "kill -9 $$", "-o", str(site.root / "y")]
    assert subprocess.run(killed, check=False, env=site.env(), timeout=_LONG_S).returncode == -signal.SIGKILL
    missing = [str(site.launcher), str(site.root / "none"), "-o", str(site.root / "z")]
    assert (
        subprocess.run(missing, check=False, env=site.env(), timeout=_LONG_S, capture_output=True).returncode
        == 127
    )


@contextmanager
def started(argv: list[str], env: dict[str, str]) -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(argv, env=env, start_new_session=True)
    try:
        yield process
    finally:
        for kill in (lambda: os.killpg(process.pid, signal.SIGKILL), process.wait):
            try:
                kill()
            except ProcessLookupError:
                continue


def test_a_killed_launcher_frees_its_share_when_its_compiler_has_ended(site: Site) -> None:
    site.needs("first", 900)
    site.needs("second", 900)
    site.runs_until("first", "false")
    with started(site.argv("first"), site.env()) as first:
        assert eventually(lambda: "+ first" in site.lines(), _LONG_S) is not None
        with started(site.argv("second"), site.env()) as second:
            first.kill()
            first.wait()
            # Its compiler lives, and so does what it holds.
            time.sleep(0.5)
            assert "+ second" not in site.lines()
            os.killpg(first.pid, signal.SIGKILL)
            assert second.wait(timeout=_LONG_S) == 0
    assert site.lines()[-2:] == ["+ second", "- second"]


def test_a_ledger_that_cannot_be_written_is_said_and_holds_nobody_up(site: Site) -> None:
    (site.root / "ledger").write_text("a file")
    done = subprocess.run(
        site.argv("a"), check=False, env=site.env(), timeout=_LONG_S, capture_output=True, text=True
    )
    assert done.returncode == 0
    assert "not admitted by memory, started at once" in done.stderr


#: A backend that starts one compiler, as CMake would: with the launcher that the environment names.
_BACKEND = """import os, subprocess, sys, small_backend

def build_wheel(folder, config_settings=None, metadata_directory=None):
    launcher, made = os.environ["CMAKE_CXX_COMPILER_LAUNCHER"], os.path.join(os.getcwd(), "..", "made.o")
    compiler = "import sys; b = bytearray(48 << 20); open(sys.argv[2], 'w').close()"
    subprocess.run([launcher, sys.executable, "-c", compiler, "-o", os.path.normpath(made)], check=True)
    assert os.path.exists(made)
    return small_backend.build_wheel(folder)
"""


def test_an_install_has_its_compilers_wait_and_learns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    files = {"backend.py": _BACKEND, "small_backend.py": BACKEND}
    with small_world(tmp_path, files) as world:
        # More than any machine has: everything runs alone.
        build = "    build: {launcher: [cpu], memory_gib_per_job: 100000}\n    audit:"
        world.recipe.write_text(world.recipe.read_text().replace("    audit:", build))
        planned = world("plan", str(world.recipe), "--workspace", str(world.workspace), "--json")
        assert "; compilers wait for memory, " in json.loads(planned.out)["summary"]["jobs"]
        done = world.install()
        assert done.status == 0, done.err
        (record,) = (tmp_path / "cache" / "xpubuild" / "memory" / "mine").iterdir()
        assert record.name == "src%made.o"
        assert admit.known_of(str(record)) > 48 * MIB
        assert world("clean", "--workspace", str(world.workspace), "--yes").status == 0
        assert not (world.workspace / "build").exists()
