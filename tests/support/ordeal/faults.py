"""The faults: each disturbs installs of a trial; afterwards the same command has to carry on."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Callable

import psutil

from support.ordeal.judge import LostError
from support.ordeal.trial import Trial
from support.power import Disk

_DAY_S = 86400.0
# Which one of these fails is decided by its number within each process. write is the only one that is also
# for pipes and terminals: it fails for some files of the install only. What opens or reads is left out: a
# Python or git that cannot read its own parts ends before it can say anything.
_CALLS = ("write", "write", "pwrite64", "fsync,fdatasync,syncfs", "rename,renameat,renameat2",
          "mkdir,mkdirat", "unlink,unlinkat", "ftruncate", "link,linkat,symlink,symlinkat",
          "chmod,fchmodat,fchmod")  # fmt: skip


def kill(trial: Trial) -> None:
    """SIGKILL, up to ten times: to the process, its group, or one of its descendants.

    Each install goes on where the one before was killed, so that short ones come upon the later steps too.
    """
    for _ in range(trial.rng.randint(2, 10)):
        process = trial.start(trial.install_words)
        at = trial.moment(trial.rng.choice((0.2, 0.5, 1.0)))
        whom = trial.rng.choice(("process", "group", "descendant", "descendant"))
        trial.note(f"kill of the {whom} at {at:.2f} s")
        trial.wait(process, at)
        _send(trial, process, whom, signal.SIGKILL)
        answer = trial.end(process)
        if whom == "descendant" or answer.code != -signal.SIGKILL:
            answer.must_be_clear()
        trial.nothing_left()


def _send(trial: Trial, process: subprocess.Popen[str], whom: str, number: int) -> None:
    with contextlib.suppress(ProcessLookupError, psutil.Error):
        if whom == "group":
            os.killpg(process.pid, number)
        elif whom == "process":
            process.send_signal(number)
        else:
            below = psutil.Process(process.pid).children(recursive=True)
            if below:
                chosen = trial.rng.choice(sorted(below, key=lambda found: found.pid))
                trial.note(" ".join(chosen.cmdline())[:120])
                chosen.send_signal(number)


def end(trial: Trial) -> None:
    """SIGTERM, SIGINT or SIGHUP, once or twice."""
    process = trial.start(trial.install_words)
    at, number = trial.moment(), trial.rng.choice((signal.SIGTERM, signal.SIGINT, signal.SIGHUP))
    trial.note(f"{number.name} at {at:.2f} s")
    trial.wait(process, at)
    _send(trial, process, "process", number)
    twice = trial.rng.random() < 0.3
    if twice:
        time.sleep(trial.rng.uniform(0, 0.5))
        trial.note(f"{number.name} again")
        _send(trial, process, "process", number)
    answer = trial.end(process, 60.0)
    # The second one ends it at once, and so does one that comes before Python handles signals.
    if answer.code != -number or (at > trial.usual_s / 5 and not twice):
        answer.must_be_clear(130)
    trial.nothing_left()


def power(trial: Trial, disk: Disk) -> None:
    for _ in range(trial.rng.randint(1, 5)):
        process = trial.start(trial.install_words)
        at = trial.moment(trial.rng.choice((0.3, 0.6, 1.1)))
        trial.note(f"power cut at {at:.2f} s")
        trial.wait(process, at)
        disk.hold()
        trial.kill_all(process)
        disk.restore()


def full(trial: Trial) -> None:
    """Install on a file system that is too small; it grows afterwards."""
    answer = trial.run(*trial.install_words)
    answer.must_be_clear()
    if answer.code not in (0, 52):
        raise LostError(f"a full disk is not called so: {answer}")
    subprocess.run(["mount", "-o", "remount,size=1g,nr_inodes=1m", str(trial.place)], check=True)


def small_size(trial: Trial) -> str:
    """Return the size of a file system that becomes full: of bytes, or of names."""
    assert trial.usual
    if trial.rng.random() < 0.25:
        size = f"1g,nr_inodes={trial.rng.randint(40, 1100)}"
    else:
        size = f"{int(trial.usual.megabytes * 1024 * trial.rng.uniform(0.01, 1.1))}k"
    trial.note(f"size={size}")
    return size


def error(trial: Trial) -> None:
    """Let one system call fail, by its number in each process, with EIO, ENOSPC or another error."""
    calls, errno = (
        trial.rng.choice(_CALLS),
        trial.rng.choice(("EIO", "EIO", "ENOSPC", "ENOSPC", "EDQUOT", "EROFS")),
    )
    number = int(2 ** trial.rng.uniform(0, 9))
    files: list[str] = []
    if calls == "write":
        assert trial.usual
        files = trial.rng.sample(trial.usual.files, min(60, len(trial.usual.files)))
        number = int(2 ** trial.rng.uniform(0, 4))
    words = ["strace", "-f", "-qq", "-o", "/dev/null", "-e", f"trace={calls}"]
    words += ["-e", f"inject={calls}:error={errno}:when={number}"]
    for name in files:
        words += ["-P", str(trial.place / name)]
    trial.note(f"{errno} of {calls} number {number} of each process")
    trial.run(*trial.install_words, prefix=words).must_be_clear()


def short(trial: Trial) -> None:
    """Let writes end early: files may have a certain size, and the write that passes it is cut there."""
    size = int(2 ** trial.rng.uniform(9, 22))
    trial.note(f"files of at most {size} bytes")
    trial.run(*trial.install_words, prefix=("prlimit", f"--fsize={size}")).must_be_clear()


def network(trial: Trial) -> None:
    """Cut and refuse answers of the servers, some times or for good."""
    git, index, rng = trial.world.git.faults, trial.world.index.faults, trial.rng
    times = rng.choice((1, 2, 5, 1000))
    what = rng.choice(("git cut", "git status", "index page", "file status", "file cut"))
    status = rng.choice((401, 403, 404, 429, 500, 502, 503))
    trial.note(f"{what} {status}, {times} times")
    page, file = "/simple/tiny-wheel/", f"/files/{trial.world.wheel.name}"
    try:
        if what == "git cut":
            git.cut, git.cut_after = times, rng.randrange(4000)
        elif what == "git status":
            git.fail, git.fail_status = times, status
        elif what == "file cut":
            index.cut_after[file] = [rng.randrange(6000) for _ in range(times)]
        else:
            index.status[page if what == "index page" else file] = [status] * times
        answer = trial.run(*trial.install_words)
    finally:
        git.cut = git.fail = 0
        index.status.clear()
        index.cut_after.clear()
    # An index that answers 404 for a package does not have it.
    answer.must_be_clear(30, *((40,) if (what, status) == ("index page", 404) else ()))


def together(trial: Trial) -> None:
    """Two or three commands at once on one workspace, or one of them killed."""
    rng, running = trial.rng, []
    others: list[tuple[str, ...]] = [
        trial.install_words, ("status", "--workspace", str(trial.workspace), "--json"),
        ("check", str(trial.workspace), "--json"), ("clean", "--workspace", str(trial.workspace), "--yes"),
        ("plan", *trial.world.install[1:2], "--workspace", str(trial.workspace), "--json"),
    ]  # fmt: skip
    for number in range(rng.randint(2, 3)):
        words = trial.install_words if number == 0 else rng.choice([*others, trial.install_words])
        trial.note(words[0])
        running.append(trial.start(words))
        time.sleep(rng.choice((0.0, trial.moment(0.5))))
    if rng.random() < 0.3:
        trial.note("the first is killed")
        _send(trial, running[0], "group", signal.SIGKILL)
    for process in running:
        answer = trial.end(process)
        if answer.code != -signal.SIGKILL:
            answer.must_be_clear()


def clock(trial: Trial) -> None:
    """An install that is interrupted; then all files are of another time, the future or long ago."""
    process = trial.start(trial.install_words)
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(trial.moment(1.4))
    trial.kill_all(process)
    days = trial.rng.choice((-20000, -400, -1, -0.04, 0.04, 1, 400, 3650))
    share = trial.rng.choice((0.1, 1.0))
    trial.note(f"{share:.0%} of the files {days} days away")
    for path in sorted(trial.place.rglob("*")):
        if trial.rng.random() < share:
            stamp = max(0.0, time.time() + days * _DAY_S)
            with contextlib.suppress(OSError):
                os.utime(path, (stamp, stamp), follow_symlinks=False)
    offset = trial.rng.randint(1, 10**7)
    words = ("unshare", "--time", f"--boottime={offset}", f"--monotonic={offset}", "--fork", "--kill-child")
    trial.run(*trial.install_words, prefix=words if _may_unshare_time() else ()).must_be_clear()


def _may_unshare_time() -> bool:
    words = ["unshare", "--time", "--boottime=5", "--fork", "true"]
    return subprocess.run(words, capture_output=True, check=False).returncode == 0


def mixed(trial: Trial) -> None:
    """One of each that needs no file system of its own, in any order, on one workspace."""
    for name in trial.rng.sample(_MIXED, len(_MIXED)):
        trial.note(f"{name}:")
        FAULTS[name](trial)


FAULTS: dict[str, Callable[[Trial], None]] = {
    "kill": kill, "signal": end, "full": full, "error": error, "short": short, "network": network,
    "together": together, "clock": clock, "mixed": mixed,
}  # fmt: skip
_MIXED = ("kill", "signal", "error", "short", "network", "together", "clock")
