"""Maps the last lines of a failed pip to the error for the user.

Wording of pip 22 to 26. Order matters: an unreachable index ends in 'No matching distribution found' too, and
the lines before it show the cause.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from urllib.parse import urlsplit

from xpubuild import errors
from xpubuild.errors import FetchError, ToolchainError, XpuBuildError

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
        return errors.NoSpaceError(
            "no space left while Python packages were installed",
            why=full.strip(),
            fix=f"free some space where the workspace and TMPDIR are (about 3 GiB), {_AGAIN}",
            commands=("df -h",),
        )
    missing = next((match for line in reversed(lines) if (match := _MISSING.search(line))), None)
    package = (missing[1] or missing[2]) if missing else ""
    found = _wrong_hash(lines) or _wrong_python(lines, package) or _network(lines, package, indexes)
    if found is None and package:
        found = not_offered(package, indexes)
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
    rest = lines[start + 1 :]
    names = [match[1] for line in rest if (match := _PINNED.match(line))]
    hashes = [" ".join(line.split()) for line in rest if line.split()[0] in ("Expected", "Got")]
    return errors.SourceIntegrityError(
        f"{', '.join(names) or 'a package'} does not match the hash in the recipe",
        why="; ".join(hashes) or lines[start].strip(),
        fix=(
            "it was replaced, damaged or rebuilt on the server: fix the index or wheel folder that 'pip "
            f"config list' shows, {_AGAIN}"
        ),
        commands=("pip config list",),
        evidence={"packages": names},
    )


def _wrong_python(lines: Sequence[str], package: str) -> XpuBuildError | None:
    version = package.partition("==")[2]
    for line in lines:
        listed, shown = _OTHER_PYTHON.search(line), _NEEDS_PYTHON.search(line)
        others = listed[1].split("; ") if listed and version else ()
        own = (item.partition(" ")[2] for item in others if item.startswith(f"{version} "))
        if needs := next(own, (shown[1] or shown[2]) if shown else ""):
            return errors.UnsatisfiableError(
                f"{package or 'a package'} is not available for this Python",
                why=needs,
                fix="use another interpreter with --python",
                evidence={"package": package},
            )
    return None


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
        commands=(
            "pip config list", "pip config set global.find-links /path/to/wheels",
            f"pip download --no-deps '{package}'",
        ),
        evidence={"package": package, "indexes": list(indexes)},
    )  # fmt: skip


def not_fetched(tail: Sequence[str], package: str) -> XpuBuildError | None:
    """Return the error where pip asked for a package, and an index did not answer; None where all did.

    pip goes on with the other indexes, and says at the end only that nothing fits.
    """
    return _network([line for line in tail if not _RECOVERS.search(line)], package)


def _network(lines: Sequence[str], package: str = "", indexes: Sequence[str] = ()) -> XpuBuildError | None:
    """Return the error where an index could not be reached; that of the recipe, which has it, is named."""
    broken = [line.strip() for line in lines if _NETWORK.search(line)]
    if not broken:
        return None
    named = (match for line in broken if (match := _HOST.search(line)))
    hosts = sorted({match[1] or match[2] for match in named}) or ["the index"]
    tried = ", ".join(url for url in indexes if urlsplit(url).hostname in hosts)
    wheel = "" if not tried else " or configure pip to use a folder with its wheel;"
    return FetchError(
        f"pip could not fetch {package or 'a package'}: no connection to {', '.join(hosts)}",
        why=f"{_NOWHERE}; {tried} could not be reached: {broken[-1]}" if tried else broken[-1],
        fix=f"check {_REACH}, and the index that 'pip config list' shows,{wheel} {_AGAIN}",
        commands=("pip config list", "xpubuild doctor --only network.proxy,network.reach"),
        evidence={"hosts": hosts, "package": package, "indexes": list(indexes)},
    )
