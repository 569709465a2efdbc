"""Where mutants are tried: copies of the tree with an environment of their own, never the checkout."""

from __future__ import annotations

import contextlib
import functools
import json
import os
import shutil
import signal
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_COVERAGERC = """[run]
core = ctrace
data_file = {seen}/data
include = {include}
sigterm = true
patch = _exit
disable_warnings = no-data-collected,module-not-imported,module-not-measured,already-imported,couldnt-parse
"""
# Where processes write what they ran: simulated hosts, whose root is their own, have this folder too.
_SHARED = Path("/dev/shm")  # noqa: S108 - a folder of a random name is made in it
# A mutant may send signals to anything and leave daemons behind: it gets a process table of its own, and the
# checkout is read-only to it. Where nobody may make that, the second is tried, then nothing.
_CONTAINERS = (
    ("--mount", 'mount --bind -o ro "$0" "$0" || exit 125; "$@"; exit $?'),
    ("--user --map-current-user --mount", '"$@"; exit $?'),
)


@functools.cache
def container(root: Path) -> tuple[str, ...]:
    """Return the words before a command that is kept from the machine; none where that is not allowed."""
    unshare = shutil.which("unshare")
    for options, script in _CONTAINERS if unshare else ():
        words = (
            *options.split(),
            "--pid",
            "--fork",
            "--mount-proc",
            "--kill-child",
            "--",
            "sh",
            "-c",
            script,
        )
        argv = (unshare or "", *words, str(root))
        if subprocess.run([*argv, "true"], capture_output=True, check=False).returncode == 0:
            return argv
    return ()


@dataclass(frozen=True)
class Run:
    """What a run of pytest came to: its exit status (None: stopped for its time), seconds of each test."""

    status: int | None
    failed: list[str]
    skipped: list[str]
    seconds: dict[str, float]
    wall_s: float
    output: str


def tracked(root: Path) -> list[str]:
    """Return the files that git has or would add."""
    argv = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(argv, cwd=root, capture_output=True, text=True, check=True).stdout.split("\0")
    return sorted(name for name in listed if name and (root / name).is_file())


class Workspace:
    """A copy of the tree, with an environment whose packages are links but for the tree's own."""

    def __init__(self, root: Path, scratch: Path) -> None:
        self.root, self.tree, self.temporary = root, scratch / "tree", scratch / "tmp"
        self._files = tracked(root)
        self._stamps: dict[str, tuple[int, int]] = {}
        self._edits = 0
        self._running: subprocess.Popen[bytes] | None = None
        self._closed = False
        self.environment = self.tree / ".venv"
        site = Path(sysconfig.get_path("purelib")).relative_to(sys.prefix)
        self._site = self.environment / site
        self.state = self._site / "_mutants"
        self.seen = scratch / "seen"
        self.restore()
        self._make_environment(Path(sys.prefix), Path(sys.prefix) / site)

    def _make_environment(self, original: Path, packages: Path) -> None:
        self._site.mkdir(parents=True)
        (self.environment / "bin").mkdir()
        shutil.copy(original / "pyvenv.cfg", self.environment)
        for source in (original / "bin").iterdir():
            target = self.environment / "bin" / source.name
            if source.is_symlink():
                target.symlink_to(source.readlink())
            elif source.is_file():
                target.write_bytes(source.read_bytes().replace(bytes(original), bytes(self.environment)))
                shutil.copymode(source, target)
        for source in packages.iterdir():
            if source.name.startswith("_mutants"):
                continue  # of a mutation run that tests this one
            if source.suffix == ".pth":
                text = source.read_text("utf-8").replace(str(self.root), str(self.tree))
                (self._site / source.name).write_text(text, "utf-8")
            else:
                (self._site / source.name).symlink_to(source)
        shutil.copy(Path(__file__).with_name("recorder.py"), self._site / "_mutants_recorder.py")
        (self._site / "_mutants.pth").write_text(
            f"{self.tree}\nimport _mutants_recorder; _mutants_recorder.begin()\n"
        )
        self.state.mkdir()

    def restore(self) -> None:
        """Put back each file that is not as it was copied, and remove what tests left."""
        for name in self._files:
            path = self.tree / name
            if self._stamps.get(name, (0, 0)) != _stamp(path):
                path.parent.mkdir(parents=True, exist_ok=True)
                path.unlink(missing_ok=True)
                shutil.copy2(self.root / name, path)
                self._touch(path)
                self._stamps[name] = _stamp(path) or (0, 0)
        shutil.rmtree(self.tree / ".hypothesis", ignore_errors=True)
        shutil.rmtree(self.temporary, ignore_errors=True)
        self.temporary.mkdir(parents=True)

    def _touch(self, path: Path) -> None:
        # Python takes a compiled file for current by the second and the size: no two texts may share both.
        self._edits += 1
        os.utime(path, (1_000_000_000 + self._edits,) * 2)

    def write(self, name: str, text: str) -> None:
        """Change a file until the next ``restore``."""
        path = self.tree / name
        path.unlink()
        path.write_bytes(text.encode())
        self._touch(path)

    def record(self, sources: list[str]) -> None:
        """Record from now on which test runs which line."""
        self.forget()
        prefixes = [f"{self.tree / source}/" for source in sources]
        include = ",".join(f"{prefix}*" for prefix in prefixes)
        (self.state / "include").write_text("\0".join(prefixes))
        self.seen = Path(tempfile.mkdtemp(prefix="mutants-", dir=_SHARED if _SHARED.is_dir() else None))
        self.seen.chmod(0o777)
        (self.state / "seen").write_text(str(self.seen))
        (self.state / "coveragerc").write_text(_COVERAGERC.format(seen=self.seen, include=include))
        (self.state / "context").write_text("")

    def forget(self) -> None:
        """Record nothing any more."""
        for path in self.state.iterdir():
            path.unlink()
        shutil.rmtree(self.seen, ignore_errors=True)

    def python(self, *arguments: str, timeout_s: float, cwd: Path | None = None) -> tuple[int | None, str]:
        """Run the copy's Python; return its exit status, None where its time was up, and what it wrote."""
        log = self.temporary.parent / "output"
        argv = [*container(self.root), str(self.environment / "bin" / "python"), *arguments]
        environ = {
            name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "PYTEST"))
        }
        environ |= {"TMPDIR": str(self.temporary), "PWD": str(cwd or self.tree)}
        environ["PATH"] = environ.get("PATH", os.defpath).replace(sys.prefix, str(self.environment))
        if self._closed:
            raise RuntimeError("the run is over")
        with log.open("wb") as output:
            self._running = subprocess.Popen(
                argv, cwd=cwd or self.tree, env=environ, stdin=subprocess.DEVNULL, stdout=output,
                stderr=subprocess.STDOUT, start_new_session=True,
            )  # fmt: skip
            try:
                status: int | None = self._running.wait(timeout_s)
            except subprocess.TimeoutExpired:
                status = None
            finally:
                _kill(self._running)
        return status, log.read_text("utf-8", errors="replace")

    def close(self) -> None:
        """Stop what runs here; nothing more is started."""
        self._closed = True
        shutil.rmtree(self.seen, ignore_errors=True)
        if self._running is not None:
            _kill(self._running)

    def pytest(self, files: list[str], wanted: dict[str, Any], timeout_s: float, *options: str) -> Run:
        """Run tests of these files: ``tests`` in this order, or all ``without_fixtures`` of these names."""
        (self.state / "wanted.json").write_text(json.dumps(wanted), "utf-8")
        results = self.state / "results.jsonl"
        results.unlink(missing_ok=True)
        started = time.monotonic()
        status, output = self.python(
            "-m", "pytest", "-q", "-p", "_mutants_recorder", "-p", "no:cacheprovider", "--tb=short",
            "--hypothesis-seed=0", "--rootdir", str(self.tree), *options, *files, timeout_s=timeout_s,
        )  # fmt: skip
        wall_s = time.monotonic() - started
        seconds: dict[str, float] = defaultdict(float)
        ended: dict[str, list[str]] = defaultdict(list)
        for line in results.read_text("utf-8").splitlines() if results.exists() else ():
            result = json.loads(line)
            seconds[result["test"]] += result["seconds"]
            ended[result["outcome"]].append(result["test"])
        return Run(status, ended["failed"], ended["skipped"], dict(seconds), wall_s, output)

    def prove(self, modules: dict[str, str]) -> None:
        """Show that Python imports the copy's modules wherever it starts, with and without -I."""
        for name, file in modules.items():
            self.write(file, "raise RuntimeError('the canary')\n")
            for options in ((), ("-I",)):
                _, said = self.python(*options, "-c", f"import {name}", timeout_s=60, cwd=self.temporary)
                if "the canary" not in said:
                    raise RuntimeError(f"{name} is not imported from the copy of the tree: {said[-300:]}")
        self.restore()


def _kill(process: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _stamp(path: Path) -> tuple[int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_size, found.st_mtime_ns


def files_of(tests: list[str]) -> list[str]:
    """Return the files that tests are in."""
    return list(dict.fromkeys(test.partition("::")[0] for test in tests))


def verdict(space: Workspace, path: str, text: str, tests: list[str], budget_s: float) -> tuple[str, str]:
    """Try one text of a file on these tests; return what came of it, and by what.

    killed by a test (or a test file or conftest.py that cannot be imported, or the end of the run); timeout,
    where the same tests take less than half of the time without the change; survived; broken, where none ran.
    """
    space.write(path, text)
    run = space.pytest(files_of(tests), {"tests": tests}, budget_s, "-x")
    space.restore()
    if run.status is None:
        again = space.pytest(files_of(tests), {"tests": tests}, budget_s, "-x")
        space.restore()
        quick = again.status == 0 and again.wall_s < budget_s / 2
        return (
            "timeout" if quick else "broken"
        ), f"no end after {budget_s:.0f} s; unchanged: {again.wall_s:.0f} s"
    if run.status == 0:
        return "survived", ""
    if run.failed:
        return "killed", run.failed[0]
    if run.status == 1 and run.seconds:
        return "killed", "the end of the test run"
    last = (run.output.strip().splitlines() or [""])[-1]
    if "while loading conftest" in run.output:
        return "killed", f"the import of conftest.py: {last}"
    return "broken", f"pytest ended with {run.status}: {last}"
