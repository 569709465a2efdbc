"""Maps the last lines of a failed pip to the error for the user.

Wording of pip 22 to 26. Order matters: an unreachable index ends in 'No matching distribution found' too, and
the lines before it show the cause.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from urllib.parse import urlsplit

from xpubuild.errors import (
    FetchError,
    NoSpaceError,
    SourceIntegrityError,
    ToolchainError,
    UnsatisfiableError,
    XpuBuildError,
)

NO_SPACE = re.compile(r"No space left on device|Disk quota exceeded|Errno 28\b|Errno 122\b")
_HASHES = re.compile(r"DO NOT MATCH THE HASHES|Hashes are required in --require-hashes mode")
_NETWORK = re.compile(
    r"connection broken by|Max retries exceeded|Read timed out|Connection timed out|ConnectionResetError"
    r"|NewConnectionError|NameResolutionError|Network is unreachable|ProxyError|Proxy Authentication"
    r"|SSLError|CERTIFICATE_VERIFY_FAILED|confirming the ssl certificate|IncompleteRead|incomplete-download"
    r"|Download failed|HTTP error \d{3} while getting|\b(?:403|407|429|5\d\d) (?:Client|Server) Error",
    re.IGNORECASE,
)
_HOST = re.compile(r"host='([^']+)'|https?://(?:[^/@\s]*@)?([^/:\s'\"]+)")
_MISSING = re.compile(r"No matching distribution found for (\S+)|satisfies the requirement (\S+)")
_OTHER_PYTHON = re.compile(r"versions that require a different python version: (.*)")
_NEEDS_PYTHON = re.compile(r"requires a different Python: (.*)|requires Python '?([^']+)'? but")
_PINNED = re.compile(r"^\s+([A-Za-z0-9][\w.-]*==\S+?)[:\s]")
_ERROR = re.compile(r"^(ERROR|error): ?(.*)")
_INDEXES = re.compile(r"^Looking in indexes: (.*)")
_ASKED = re.compile(r"': (\S*?)/[^/\s]+/$")
#: A retry that others may follow: whether the connection failed for good is not known from it.
_RECOVERS = re.compile(r"Retry\(total=[1-9]")
_NOWHERE = "no index or wheel folder of pip's configuration has it for this Python and C library"
_REACH = "the network, the proxy (HTTPS_PROXY, NO_PROXY), the certificates (PIP_CERT)"
_AGAIN = "then run the same command again; finished steps are kept"


def explain_pip_failure(tail: Sequence[str], *, indexes: Sequence[str] = ()) -> XpuBuildError:
    """Return the error for a pip that ended with another status than 0.

    ``tail`` are the last lines of its output, ``indexes`` those that were tried after the configured ones.
    """
    lines = [line.rstrip() for line in tail if line.strip()]
    full = next((line for line in lines if NO_SPACE.search(line)), None)
    if full is not None:
        return NoSpaceError(
            "no space left while Python packages were installed",
            why=full.strip(),
            fix=f"free some space where the workspace and TMPDIR are (about 3 GiB), {_AGAIN}",
            commands=("df -h",),
        )
    found = _wrong_hash(lines) or _wrong_python(lines) or _missing(lines, indexes) or _network(lines)
    first = (match[2] for line in lines if (match := _ERROR.match(line)))
    return found or ToolchainError(
        "pip failed",
        why=next(first, lines[-1] if lines else "it printed nothing"),
        fix=f"read the log and fix the cause, {_AGAIN}",
    )


def _wrong_hash(lines: Sequence[str]) -> XpuBuildError | None:
    start = next((number for number, line in enumerate(lines) if _HASHES.search(line)), None)
    if start is None:
        return None
    names = [match[1] for line in lines[start + 1 :] if (match := _PINNED.match(line))]
    hashes = [
        line.strip() for line in lines[start + 1 :] if line.split() and line.split()[0] in ("Expected", "Got")
    ]
    package = ", ".join(names) or "a package"
    return SourceIntegrityError(
        f"{package} does not match the hash in the recipe",
        why="; ".join(" ".join(item.split()) for item in hashes) or lines[start].strip(),
        fix=(
            "it was replaced, damaged or rebuilt on the server: fix the index or wheel folder that 'pip "
            f"config list' shows, {_AGAIN}"
        ),
        commands=("pip config list",),
        evidence={"packages": names},
    )


def _wrong_python(lines: Sequence[str]) -> XpuBuildError | None:
    package = _missing_package(lines)
    version = package.partition("==")[2]
    for line in lines:
        listed = _OTHER_PYTHON.search(line)
        for item in listed[1].split("; ") if listed and version else ():
            if item.startswith(f"{version} "):
                needs = item.partition(" ")[2]
                break
        else:
            told = _NEEDS_PYTHON.search(line)
            needs = (told[1] or told[2]) if told else ""
        if needs:
            return UnsatisfiableError(
                f"{package or 'a package'} is not available for this Python",
                why=needs,
                fix="use another interpreter with --python",
                evidence={"package": package},
            )
    return None


def _missing_package(lines: Sequence[str]) -> str:
    for line in reversed(lines):
        if match := _MISSING.search(line):
            return match[1] or match[2]
    return ""


def _missing(lines: Sequence[str], indexes: Sequence[str]) -> XpuBuildError | None:
    package = _missing_package(lines)
    if not package:
        return None
    unreachable = _unreachable(lines)
    extra = {urlsplit(index).hostname or index for index in indexes}
    if unreachable - extra or (unreachable and not indexes):
        return _network(lines, package)
    if unreachable:
        return _behind(package, indexes, unreachable, lines)
    if indexes or "+" in package:
        return not_offered(package, indexes)
    return ToolchainError(
        f"{package} was not found by pip",
        why="pip's index does not have it, or has no wheel of it for this machine",
        fix=f"configure pip to use an index or a wheel folder that has it, {_AGAIN}",
        commands=("pip config list", f"pip download --no-deps '{package}'"),
        evidence={"package": package},
    )


def _unreachable(lines: Sequence[str]) -> set[str]:
    """Return the hosts that network errors name, or that the path in them is of; else 'the index'."""
    hosts: set[str] = set()
    for line in lines:
        if _NETWORK.search(line):
            match = _HOST.search(line)
            hosts |= {match[1] or match[2]} if match else _by_path(lines, line) or {"the index"}
    return hosts


def _by_path(lines: Sequence[str], line: str) -> set[str]:
    """Return the hosts of the indexes below which the path of a line is: pip before 26.1 names no host."""
    asked = _ASKED.search(line)
    if asked is None:
        return set()
    indexes = [url for item in lines if (listed := _INDEXES.match(item)) for url in listed[1].split(", ")]
    parts = [urlsplit(url) for url in indexes]
    return {item.hostname for item in parts if item.hostname and item.path.rstrip("/") == asked[1]}


def not_offered(package: str, indexes: Sequence[str] = ()) -> XpuBuildError:
    """Return the error for a package that no index has; ``indexes`` were tried after the configured ones."""
    name, _, version = package.partition("==")
    tried = ", ".join(indexes)
    return ToolchainError(
        f"{package} was not found",
        why=f"{_NOWHERE}{f'; {tried} does not have it' if tried else ''}",
        fix=(
            f"put the wheel {name}-{version}-*.whl into a folder and configure pip to use it"
            f"{f', or let this machine reach {tried} (HTTPS_PROXY, NO_PROXY)' if tried else ''}, {_AGAIN}"
        ),
        commands=("pip config set global.find-links /path/to/wheels", f"pip download --no-deps '{package}'"),
        evidence={"package": package, "indexes": list(indexes)},
    )


def _behind(
    package: str, indexes: Sequence[str], unreachable: set[str], lines: Sequence[str]
) -> XpuBuildError:
    """Return the error where pip's own index answered, and the recipe's, which has the package, did not."""
    name, _, version = package.partition("==")
    tried = ", ".join(url for url in indexes if urlsplit(url).hostname in unreachable)
    return FetchError(
        f"pip could not fetch {package}: no connection to {', '.join(sorted(unreachable))}",
        why=f"{_NOWHERE}; {tried} could not be reached: {_last_broken(lines)}",
        fix=(
            f"let this machine reach {tried}: {_REACH}; or put the wheel {name}-{version}-*.whl into a folder"
            f" and configure pip to use it; {_AGAIN}"
        ),
        commands=(
            "xpubuild doctor --only network.proxy,network.reach",
            "pip config set global.find-links /path/to/wheels",
        ),
        evidence={"package": package, "indexes": list(indexes), "unreachable": sorted(unreachable)},
    )


def not_fetched(tail: Sequence[str], package: str) -> XpuBuildError | None:
    """Return the error where pip asked for a package, and an index did not answer; None where all did.

    pip goes on with the other indexes, and says at the end only that nothing fits.
    """
    lines = [line.rstrip() for line in tail if line.strip()]
    return _network([line for line in lines if not _RECOVERS.search(line)], package)


def _last_broken(lines: Sequence[str]) -> str:
    return next(line.strip() for line in reversed(lines) if _NETWORK.search(line))


def _network(lines: Sequence[str], package: str = "") -> XpuBuildError | None:
    line = next((line for line in reversed(lines) if _NETWORK.search(line)), None)
    if line is None:
        return None
    hosts = sorted(_unreachable(lines))
    return FetchError(
        f"pip could not fetch {package or 'a package'}: no connection to {', '.join(hosts)}",
        why=line.strip(),
        fix=f"check {_REACH}, and the index that 'pip config list' shows, {_AGAIN}",
        commands=("pip config list", "xpubuild doctor --only network.proxy,network.reach"),
        evidence={"hosts": hosts, "package": package},
    )
