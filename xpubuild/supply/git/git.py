"""The only place that runs git, and the locks of what several workspaces share.

Short questions to a local repository go through GitPython's argument-list layer (it starts git directly,
3 ms a call). What is long, uses the network or writes a tree goes through the process layer: supervised,
logged, with deadline and cancellation. The repository is always named (``--git-dir``), so git neither
searches upwards into somebody else's nor asks ``safe.directory`` who owns the folder.

Every call has an environment without settings of the caller's repository, prompts, hooks and protocols that
are not known. The user's own git configuration stays in force for what a site needs to reach its servers
(credential helpers, ``insteadOf``, proxies, certificates, ssh). What could change the tree that a commit
gives, run a program, or stop at a question is overridden: configuration that comes by environment has the
highest precedence of all files.
"""

from __future__ import annotations

import contextlib
import functools
import os
import re
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from xpubuild.engine.answers import FRESH, Answers, says_itself
from xpubuild.engine.child import resolve_executable
from xpubuild.engine.environment import base_environment
from xpubuild.engine.files import explained
from xpubuild.engine.lock import take
from xpubuild.engine.places import another_place
from xpubuild.engine.process import Cancel, ProcessResult, QueryResult, run
from xpubuild.engine.redact import Redactor
from xpubuild.errors import ToolchainError
from xpubuild.frozen import frozen

#: The protocols that git may use; ``ext::`` and other remote helpers would run a program of a URL's choice.
PROTOCOLS = ("https", "http", "ssh", "git", "file")

# Everything else that begins with GIT_ belongs to the caller's repository (GIT_DIR, GIT_INDEX_FILE, ...).
_KEPT = frozenset({
    "GIT_SSL_CAINFO", "GIT_SSL_CAPATH", "GIT_SSH", "GIT_SSH_COMMAND", "GIT_SSH_VARIANT",
    "GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM", "GIT_CONFIG_NOSYSTEM",
})  # fmt: skip

_FIXED = {
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_ASKPASS": "",  # set but empty: neither core.askPass nor SSH_ASKPASS is used
    "GCM_INTERACTIVE": "never",
    "GIT_ALLOW_PROTOCOL": ":".join(PROTOCOLS),  # overrides every protocol.*.allow
    "GIT_PAGER": "cat", "GIT_EDITOR": "false", "GIT_ATTR_NOSYSTEM": "1",
    "GIT_OPTIONAL_LOCKS": "0",  # a look at a tree never writes to it
    "GIT_NO_LAZY_FETCH": "1",  # a repository's own configuration must not send git to a server for objects
    "GIT_NO_REPLACE_OBJECTS": "1",  # refs/replace would show another object than the one that is pinned
}  # fmt: skip

# These describe how the headers of old commits and tags were written, and one spelling of a mode in trees
# (0100644 for 100644, from tools of before 2010) that parses to the same tree. Projects that PyTorch has as
# submodules carry such history. What could put a file in a wrong place (hasDotgit, hasDotdot, fullPathname,
# duplicateEntries, treeNotSorted, gitmodules*) stays an error.
_HARMLESS = (
    "badDate", "badDateOverflow", "badEmail", "badName", "badTimezone", "missingEmail",
    "missingNameBeforeEmail", "missingSpaceBeforeDate", "missingSpaceBeforeEmail", "missingTaggerEntry",
    "multipleAuthors", "nulInCommit", "zeroPaddedDate", "zeroPaddedFilemode",
)  # fmt: skip


def without_filters(names: Iterable[str]) -> tuple[tuple[str, str], ...]:
    """Return the settings by which filters of these names change no file.

    ``.gitattributes`` of a tree names a filter, and the configuration of the user says what it runs: files
    would get another content than their blobs, and git, which asks the filter again, would see no change.
    """
    values = (("process", ""), ("smudge", ""), ("clean", ""), ("required", "false"))
    return tuple((f"filter.{name}.{key}", value) for name in dict.fromkeys(names) for key, value in values)


OVERRIDES: tuple[tuple[str, str], ...] = (
    # Nothing runs. git-lfs would fetch a second time, from another server, what the pin does not name;
    # Git.filters finds the names of others.
    ("core.hooksPath", "/dev/null"), ("core.fsmonitor", "false"), ("credential.interactive", "never"),
    *without_filters(["lfs"]), ("init.templateDir", ""), ("submodule.recurse", "false"),
    ("fetch.recurseSubmodules", "false"),
    # The same tree for everybody.
    ("core.attributesFile", "/dev/null"), ("core.autocrlf", "false"), ("core.eol", "lf"),
    ("core.safecrlf", "false"), ("core.symlinks", "true"), ("core.untrackedCache", "false"),
    ("core.checkStat", "default"), ("core.trustctime", "true"),
    # Objects stay. One pack per fetch: packs are flushed to disk and renamed whole, loose objects are not.
    ("gc.auto", "0"), ("maintenance.auto", "false"), ("fetch.prune", "false"), ("fetch.pruneTags", "false"),
    ("fetch.writeCommitGraph", "false"), ("fetch.unpackLimit", "1"),
    # References, the index and "shallow" are not flushed by default, and empty after a power cut.
    ("core.fsync", "all"), ("core.fsyncMethod", "batch"),
    ("color.ui", "false"), ("init.defaultBranch", "main"), ("advice.detachedHead", "false"),
    ("advice.fetchShowForcedUpdates", "false"),
    ("transfer.fsckObjects", "true"), ("fetch.fsckObjects", "true"),
    *((f"{section}.{message}", "ignore") for section in ("fetch.fsck", "fsck") for message in _HARMLESS),
    ("protocol.allow", "never"), *((f"protocol.{name}.allow", "always") for name in PROTOCOLS),
)  # fmt: skip


def git_environment(env: Mapping[str, str], extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return ``env`` made fit for git; ``extra`` is more configuration for one call.

    Pairs of the caller (CI systems redirect URLs with ``url.X.insteadOf`` this way) come first, so that ours
    win. GIT_CONFIG_PARAMETERS, which a ``git -c`` around xpubuild leaves behind, would win over ours: it is
    dropped. A count of pairs that git would die of is taken as none.
    """
    kept = {name: value for name, value in env.items() if not name.startswith("GIT_") or name in _KEPT}
    kept |= {**_FIXED, "GIT_CONFIG_COUNT": "0"}
    kept.setdefault("LC_ALL", "C.UTF-8")
    count = env.get("GIT_CONFIG_COUNT", "")
    numbers = range(min(int(count), len(env))) if count.isascii() and count.isdigit() else ()
    callers = [(env.get(f"GIT_CONFIG_KEY_{n}"), env.get(f"GIT_CONFIG_VALUE_{n}")) for n in numbers]
    pairs = [(key, value) for key, value in callers if key and value is not None]
    return with_settings(kept, [*pairs, *OVERRIDES, *(extra or {}).items()])


def with_settings(env: Mapping[str, str], pairs: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Return an environment that ``git_environment`` made, with more settings; these win."""
    found, count = dict(env), int(env["GIT_CONFIG_COUNT"])
    for key, value in pairs:
        found |= {f"GIT_CONFIG_KEY_{count}": key, f"GIT_CONFIG_VALUE_{count}": value}
        count += 1
    return {**found, "GIT_CONFIG_COUNT": str(count)}


Report = Callable[[str], None]

#: GIT_CONFIG_COUNT, which carries our settings to every child of git, came with 2.31 (March 2021), and
#: GIT_CONFIG_GLOBAL, by which a build's own git finds what is served to it, with 2.32 (June).
OLDEST = (2, 32)
_QUERY_DEADLINE_S = 300.0
_VERSION = re.compile(r"git version (?P<all>(\d+)\.(\d+)(?:\.\d+)*)")
_IMPORT = threading.Lock()
# A check of a large repository on a slow disk says nothing for long; fetches pass a shorter time.
_LOCAL_STALL_S = 3600.0


@frozen
class Answer:
    """The whole output of a short git command; ``stdout`` as git wrote it."""

    returncode: int
    stdout: bytes
    stderr: str

    @property
    def ok(self) -> bool:
        """Whether git ended with status 0."""
        return self.returncode == 0

    @property
    def text(self) -> str:
        """Standard output without blanks around it; bytes that are no UTF-8 survive as surrogates."""
        return os.fsdecode(self.stdout).strip()


class _Stall(Cancel):
    """Stops a command that wrote nothing for ``limit_s``, or which the caller cancelled."""

    def __init__(self, outer: Cancel | None, limit_s: float) -> None:
        super().__init__(outer)
        self._limit_s, self.last = limit_s, time.monotonic()

    def __bool__(self) -> bool:
        return super().__bool__() or time.monotonic() - self.last > self._limit_s


class Git:
    """git with a fixed environment. Safe to share between threads."""

    def __init__(self, program: str, env: Mapping[str, str]) -> None:
        self.program, self.env = program, dict(env)
        self._redact = Redactor.from_environment(env)
        self._env_program = resolve_executable("env", self.env)
        self._unfiltered: dict[Path | None, dict[str, str]] = {}

    @classmethod
    def open(cls, env: Mapping[str, str] | None = None, answers: Answers = FRESH) -> Git:
        """Find git on the PATH of ``env`` (default: the base environment) and look at its version.

        ``answers`` may remember it.

        Raises:
            ToolchainError: git is missing, does not run, or is older than 2.32.
        """
        hardened = git_environment(base_environment() if env is None else env)
        program = resolve_executable("git", hardened)
        _require_usable(program, tuple(hardened.items()), answers)
        return cls(program, hardened)

    def query(
        self, args: Sequence[str], *, git_dir: Path | None = None, work_tree: Path | None = None
    ) -> Answer:
        """Ask a local repository something short. A status other than 0 is an answer, not an exception."""
        # GitPython adds this environment to that of its own process; what it lacks must not come through.
        foreign = sorted(name for name in os.environ if name not in self.env)
        unset = [self._env_program, *(word for name in foreign for word in ("-u", name))]
        status, out, err = _argument_layer()(str(work_tree or git_dir or Path("/"))).execute(
            [*unset, *self._argv(args, git_dir, work_tree)], env=self._environment(git_dir, work_tree),
            shell=False, with_extended_output=True, with_exceptions=False, stdout_as_string=False,
            strip_newline_in_stdout=False, kill_after_timeout=_QUERY_DEADLINE_S,
        )  # fmt: skip
        return Answer(status, out, self._redact(err))

    def run(
        self, args: Sequence[str], *, git_dir: Path | None = None, work_tree: Path | None = None,
        report: Report | None = None, cancel: Cancel | None = None, stall_s: float = _LOCAL_STALL_S,
        deadline_s: float | None = None, hold: Sequence[int] = (),
    ) -> ProcessResult:  # fmt: skip
        """Run a long command; ``hold`` are lock descriptors that live as long as git does.

        The result is one that was cancelled where git went silent and was stopped.

        Raises:
            InterruptedByUserError: ``cancel`` was set.
            ToolchainError: git cannot be started.
        """
        watch = _Stall(cancel, stall_s)

        def on_line(line: str) -> None:
            watch.last = time.monotonic()
            if report is not None and line.strip():
                report(line.rstrip())

        result = run(
            self._argv(args, git_dir, work_tree), env=self._environment(git_dir, work_tree),
            cwd=work_tree or git_dir, on_line=on_line, deadline_s=deadline_s, cancel=watch,
            redact=self._redact, hold=hold,
        )  # fmt: skip
        if cancel is not None:
            cancel.stop_here()
        return result

    def is_whole(self, git_dir: Path, commit: str) -> bool:
        """Whether a repository has a commit with every object of its tree."""
        return self.query(["rev-list", "--objects", "--quiet", "--no-walk", commit], git_dir=git_dir).ok

    def parse(self, git_dir: Path, name: str) -> str:
        """Return the id of what a name leads to in a repository; "" where there is none."""
        return self.query(["rev-parse", "--quiet", "--verify", name], git_dir=git_dir).text

    def filters(self, git_dir: Path | None = None) -> tuple[str, ...]:
        """Return the names of the filters that configuration defines, as it is read for this repository."""
        asked = ["config", "-z", "--name-only", "--get-regexp", r"^filter\."]
        keys = os.fsdecode(self.query(asked, git_dir=git_dir).stdout).split("\0")
        return tuple(sorted({key.partition(".")[2].rpartition(".")[0] for key in keys} - {""}))

    def _environment(self, git_dir: Path | None, work_tree: Path | None) -> dict[str, str]:
        """Return the environment of a call: where files are written or compared, no filter changes them."""
        if work_tree is None:
            return self.env
        if git_dir not in self._unfiltered:
            self._unfiltered[git_dir] = with_settings(self.env, without_filters(self.filters(git_dir)))
        return self._unfiltered[git_dir]

    def _argv(self, args: Sequence[str], git_dir: Path | None, work_tree: Path | None) -> list[str]:
        where = [] if git_dir is None else [f"--git-dir={git_dir}"]
        where += [] if work_tree is None else [f"--work-tree={work_tree}"]
        return [self.program, *where, *args]


@functools.cache
def _require_usable(program: str, environment: tuple[tuple[str, str], ...], answers: Answers) -> None:
    """Ask git for its version, once: a plan that has all commits needs no more of it, and no GitPython.

    Raises:
        ToolchainError: it does not run, or is older than ``OLDEST``.
    """

    def decides(result: QueryResult, real: Path) -> Sequence[str] | None:
        version = _VERSION.search(result.stdout)
        return says_itself(real, [version["all"]]) if version is not None else None

    answer = answers.probe([program, "--version"], env=dict(environment), decides=decides)
    found = _VERSION.search(answer.stdout)
    if not answer.ok and re.search(r"bad config|bad numeric config|bad boolean config", answer.stderr):
        raise ToolchainError(
            "git cannot read its configuration",
            why=answer.stderr.strip(),
            fix="correct the line that git names, then run the same command again",
            commands=("git config --list --show-origin",),
        )
    if not answer.ok or found is None or (int(found[2]), int(found[3])) < OLDEST:
        raise ToolchainError(
            f"git {OLDEST[0]}.{OLDEST[1]} or newer is needed",
            why=f"{program} says: {answer.stdout.strip() or answer.stderr.strip()}",
            fix="install a newer git and put its folder first on PATH",
            evidence={"git": program},
        )


def object_format(commit: str) -> str:
    """Return git's name of the hash that a full object id was made with."""
    return "sha1" if len(commit) == 40 else "sha256"  # noqa: PLR2004 - hexadecimal digits


@functools.cache
def _argument_layer() -> Any:
    # 80 ms to import. It runs `git version` then, and fails where git is not on the PATH of this process, or
    # where the user's configuration has an error, which Git.open describes. GIT_TRACE would name a file.
    with _IMPORT:
        callers = {name: os.environ.pop(name) for name in list(os.environ) if name.startswith("GIT_")}
        own = dict.fromkeys(("GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM"), os.devnull)
        own["GIT_PYTHON_REFRESH"] = "quiet"
        os.environ.update(own)
        try:
            from git.cmd import Git as Layer  # noqa: PLC0415
        finally:
            for name in own:
                os.environ.pop(name, None)
            os.environ.update(callers)
    return Layer


@contextlib.contextmanager
def locked(
    path: Path, *, shared: bool = False, cancel: Cancel | None = None, report: Report | None = None,
    use: str = "",
) -> Iterator[int]:  # fmt: skip
    """Hold ``path`` by flock (made if needed, never removed) and yield its descriptor.

    It ends with the last process that holds the descriptor. Git processes that write under the lock get it
    (``hold``), so that one that outlives its caller for a moment still keeps everybody else out. ``report``
    gets a line where that takes longer; ``use`` says in it what others do.

    Raises:
        InterruptedByUserError: ``cancel`` was set while waiting.
        ToolchainError: the file system cannot lock, or the file cannot be made.
        NoSpaceError: the disk is full.
    """
    waiting: Callable[[], None] = cancel.stop_here if cancel is not None else lambda: None
    tell = functools.partial(report or (lambda _: None), f"waiting for another xpubuild that {use}")
    with explained(path, "locking a source"):
        path.parent.mkdir(parents=True, exist_ok=True)
        # A link would have the file made where it leads to.
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o644)
    try:
        elsewhere = f"use a folder on a local disk {another_place(path)}, or mount the file system with flock"
        take(fd, str(path), elsewhere, shared=shared, waiting=waiting, tell=tell)
        yield fd
    finally:
        os.close(fd)
