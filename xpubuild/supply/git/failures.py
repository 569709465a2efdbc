"""Maps git's messages to the error for the user, and decides whether a retry can help.

git has one exit status (128) for nearly everything, so its English messages are read (the environment fixes
the locale). The order of the table matters: after an interrupted connection, git also prints errors that
follow from it.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from dataclasses import replace

from xpubuild.engine.process import ProcessResult
from xpubuild.errors import FetchError, NoSpaceError, SourceIntegrityError, ToolchainError, XpuBuildError
from xpubuild.frozen import frozen
from xpubuild.supply.git.git import Answer

_LINES_SHOWN = 8
_PROGRESS = re.compile(r"\d+% \(\d+/\d+\)|objects: \d+(?:, done\.)?$")


@frozen
class Failure:
    """One failed git command. ``reason`` is a word of ``_TABLE``; ``transient`` where a retry may help.

    ``lines`` are git's last words, ``cause`` is the line that shows why.
    """

    reason: str
    transient: bool = False
    lines: tuple[str, ...] = ()
    cause: str = ""


_TABLE: tuple[tuple[str, bool, str], ...] = (
    ("no-space", False, r"No space left on device|Disk quota exceeded|[Oo]ut of diskspace"),
    ("owner", False, r"dubious ownership"),
    ("protocol", False, r"transport '[^']*' not allowed"),
    ("object", False, r"error: object [0-9a-f]{40,64}: \w+:|fsck error in pack"),
    ("proxy", False, r"Could not resolve proxy|HTTP code 407|returned error: 407|from proxy after CONNECT"),
    ("auth", False, r"returned error: 40[13]|Authentication failed|could not read (?:Username|Password)"),
    ("auth", False, r"Permission denied \(|Host key verification failed|terminal prompts disabled"),
    ("not-found", False, r"returned error: (?:404|410)|repository '.*' not found|Repository not found"),
    ("server", True, r"returned error: (?:5\d\d|429)|HTTP 5\d\d|HTTP 429"),
    ("dns", True, r"[Cc]ould not resolve host|Name or service not known|in name resolution|to look up"),
    ("timeout", True, r"timed out|Timeout|Operation too slow"),
    ("refused", True, r"Connection refused|[Ff]ailed to connect|[Cc]ould(?:n't| not) connect"),
    ("unreachable", True, r"No route to host|Network is unreachable"),
    ("cut", True, r"early EOF|unexpected disconnect|hung up unexpectedly|Connection reset|Recv failure"),
    ("cut", True, r"transfer closed|GnuTLS recv error|SSL_read|unexpected eof|Broken pipe|HTTP/2 stream"),
    ("tls", False, r"SSL certificate|certificate verif|SSL_ERROR|SSL routines|gnutls_handshake|CAfile"),
    ("shallow", False, r"does not support shallow|does not support --depth"),
    ("want", False, r"does not allow request for unadvertised|[0-9a-f]{40,64} not valid"),
    ("commit", False, r"not our ref|couldn't find remote ref|[Nn]o such remote ref"),
    ("not-found", False, r"does not appear to be a git repository|not a git repository|not exported"),
    ("not-found", False, r"does not exist|No such file or directory"),
    ("damaged", False, r"is corrupt|object file .* is empty|bad object|data stream error|inflate: "),
    ("damaged", False, r"unresolved deltas?|far too short|index file|packfile|[Bb]ad config|hash mismatch"),
    ("damaged", False, r"unable to read (?:sha1|[0-9a-f]{40})|(?:send all|missing) necessary objects"),
    ("damaged", False, r"pack-objects"),
    ("cut", True, r"remote end hung up|RPC failed"),
)


def diagnose(run: ProcessResult) -> Failure:
    """Read what a failed command printed."""
    if run.cancelled or run.timed_out:
        return Failure("timeout", True, _last_words(run.tail), "no output for too long")
    failure = _read(run.tail)
    return failure if failure.cause else replace(failure, cause=f"git {run.describe()}")


def require(answer: Answer, doing: str) -> str:
    """Return what a short local command printed; raise where it failed. ``doing`` says what it was for.

    Raises:
        NoSpaceError: the disk or quota is full.
        ToolchainError: anything else.
    """
    if answer.ok:
        return answer.text
    failure = _read(answer.stderr.splitlines())
    if failure.reason == "no-space":
        raise _no_space(doing, failure)
    raise ToolchainError(
        f"git failed while {doing}",
        why=failure.cause or f"it exited with code {answer.returncode}",
        fix="check that the folder can be written to and belongs to you, then run the same command again",
        evidence={"git": list(failure.lines)},
    )


def _read(output: Sequence[str]) -> Failure:
    lines = _last_words(output)
    for reason, transient, pattern in _TABLE:
        for line in output:
            if re.search(pattern, line):
                return Failure(reason, transient, lines, line.strip())
    return Failure("unknown", False, lines, lines[-1] if lines else "")


def _last_words(output: Sequence[str]) -> tuple[str, ...]:
    return tuple(line for line in output if line.strip() and not _PROGRESS.search(line))[-_LINES_SHOWN:]


_LATER = "run the same command again; finished repositories are kept"
_EXPLAINED: dict[str, tuple[str, str]] = {
    "dns": ("the name of its host could not be resolved",
            "check the spelling of the URL, the network and DNS; behind a proxy set HTTPS_PROXY"),
    "refused": ("its host refuses the connection",
                "check host and port of the URL, and any firewall or proxy in between (HTTPS_PROXY)"),
    "unreachable": ("there is no route to its host",
                    "check the network, or use a mirror that this host can reach"),
    "timeout": ("its host did not respond, or stopped responding", f"check network and proxy, then {_LATER}"),
    "tls": ("the TLS certificate of its host was not accepted",
            "set GIT_SSL_CAINFO or http.sslCAInfo to your site's CA bundle; never disable the check"),
    "proxy": ("the proxy rejected the connection", "check HTTPS_PROXY, its user and password, and NO_PROXY"),
    "auth": ("its host requires credentials (GitHub also requests them if a repository does not exist)",
             "check the URL; for a private repository set up git's credential helper or an ssh key"),
    "not-found": ("there is no git repository at this URL", "check the URL in the recipe or the lock"),
    "server": ("its server answered with an error, several times", f"wait a little and {_LATER}"),
    "cut": ("the connection was interrupted several times", f"{_LATER}. The cause may be a limit of a proxy"),
    "commit": ("the server has no such commit",
               "check the commit in the recipe or the lock; it may be on a fork, or removed by a force-push"),
    "protocol": ("its protocol is not allowed; url.*.insteadOf rules of your git configuration change it",
                 "check: git config --get-regexp 'url.*insteadOf'"),
    "owner": ("it belongs to another user, and git does not read such a repository by default",
              "if you trust its owner, add it to git's safe.directory"),
    "offline": ("the run is offline and it is not in the mirror",
                "run once without --offline, or pass a folder that xpubuild fetch has filled with --mirror"),
    "unknown": ("git failed for an unknown reason", "read git's output in the log"),
}  # fmt: skip


def error_for(failure: Failure, url: str, commit: str) -> XpuBuildError:
    """Return the error the user sees for a failure that no retry cured."""
    evidence = {"reason": failure.reason, "url": url, "commit": commit, "git": list(failure.lines)}
    if failure.reason == "no-space":
        return _no_space(f"fetching {url}", failure)
    if failure.reason == "object":
        return SourceIntegrityError(
            f"git rejected an object of {url}",
            why=failure.cause,
            fix="it is unsafe to check out; report it to its maintainers, or pin another commit",
            evidence=evidence,
        )
    why, fix = _EXPLAINED.get(failure.reason, _EXPLAINED["unknown"])
    what = f"commit {commit} is not in {url}" if failure.reason == "commit" else f"{url} could not be fetched"
    quoted = f" (git reports: {failure.cause})" if failure.cause else ""
    folder = re.search(r"ownership in repository at '(.*)'", failure.cause)
    trust = [f"git config --global --add safe.directory {shlex.quote(folder[1])}"] if folder else []
    return FetchError(what, why=why + quoted, fix=fix, commands=trust, evidence=evidence)


def _no_space(doing: str, failure: Failure) -> NoSpaceError:
    return NoSpaceError(
        f"no space left while {doing}",
        why=failure.cause,
        fix="free some space, or set XDG_CACHE_HOME to a folder on a larger disk; then run the command again",
        commands=("df -h", "df -i"),
        evidence={"reason": failure.reason, "git": list(failure.lines)},
    )
