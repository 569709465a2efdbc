"""The program uv: pip's settings in its words, and what package indexes have, as it says.

uv reads none of pip's files and variables. The words are those of its reference of commands and environment
variables. What cannot be said exactly leaves the work to pip. uv's own files and variables are not read: a
plan would depend on them without showing it.
"""

from __future__ import annotations

import importlib.metadata
import re
import shlex
import sys
from collections.abc import Mapping, Sequence
from dataclasses import field
from pathlib import Path
from urllib.parse import urlsplit

from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

from xpubuild.engine.process import Cancel, QueryResult, query
from xpubuild.engine.redact import Redactor
from xpubuild.engine.temporary import scratch_folder
from xpubuild.errors import FetchError, ToolchainError, XpuBuildError
from xpubuild.frozen import frozen
from xpubuild.supply.index.pipconf import authorities, local_path, pip_settings, switched_on, without_login
from xpubuild.supply.requirements import HashedPin, hashed_pins

#: What ``translated`` says to uv.
_SAID = frozenset({
    "index-url", "pypi-url", "extra-index-url", "no-index", "find-links", "trusted-host", "cert",
    "client-cert", "proxy", "no-proxy-env", "timeout", "default-timeout", "retries",
})  # fmt: skip
#: What changes nothing of what is installed from a file with a hash for everything: words on the terminal,
#: pip's own cache, which builds are preferred.
_NO_EFFECT = frozenset({
    "disable-pip-version-check", "no-input", "progress-bar", "quiet", "verbose", "no-color", "log", "debug",
    "cache-dir", "root-user-action", "no-warn-script-location", "no-warn-conflicts", "prefer-binary",
    "only-binary", "pre", "resume-retries", "exists-action", "no-python-version-warning", "compile",
    "break-system-packages", "no-compile", "config-file", "no-clean", "src",
})  # fmt: skip
_PROXIES = ("http_proxy", "https_proxy", "all_proxy", "no_proxy")
_CERTIFICATES = ("SSL_CERT_FILE", "SSL_CERT_DIR", "SSL_CLIENT_CERT")


@frozen
class Program:
    """The program uv; where it cannot be used, ``why`` says that, and ``remedy`` is a command to mend it."""

    path: str = ""
    version: str = ""
    why: str = ""
    remedy: str = ""


def find_uv() -> Program:
    """Return the uv of the interpreter that runs xpubuild; none of ``PATH``, which may be of any version."""
    try:
        from uv import find_uv_bin  # noqa: PLC0415 - it may be missing where somebody left out dependencies

        return Program(find_uv_bin(), importlib.metadata.version("uv"))
    except (ImportError, FileNotFoundError):
        remedy = shlex.join([sys.executable, "-m", "pip", "install", "uv"])
        return Program(why="uv is not installed beside xpubuild", remedy=remedy)


@frozen
class Said:
    """Options of uv, and its whole environment, which may hold logins."""

    options: tuple[str, ...]
    environment: Mapping[str, str] = field(repr=False)


def reason_for_pip(settings: Mapping[str, str]) -> str:
    """Return why pip has to install, by its settings (``pip_settings``); "" where uv can."""
    for name, value in settings.items():
        if name in _SAID or name in _NO_EFFECT or name == "require-virtualenv":  # it is one
            continue
        if name == "no-cache-dir" and not switched_on(value):
            continue
        if name == "keyring-provider" and value == "disabled":
            continue
        return f"pip's setting {name} has no equivalent in uv"
    return ""


def translated(
    settings: Mapping[str, str],
    environment: Mapping[str, str],
    *,
    extra: Sequence[str] = (),
    alone: bool = False,
) -> Said:
    """Return what tells uv to look where pip looks, in the way in which pip reaches it.

    ``extra`` are indexes to ask besides, or ``alone``. An index without https that pip would leave out (no
    ``trusted-host``) is left out, and so is a folder that is not there: uv would fail. All indexes are asked
    for every package, as pip does. That another index may have a newer version of a name is no danger here:
    version and hash of each package are fixed.

    Raises:
        ToolchainError: a place needs a login that would have to be an argument.
    """
    env = {name: value for name, value in environment.items() if name not in _CERTIFICATES}
    if proxy := settings.get("proxy") or switched_on(settings.get("no-proxy-env")):
        for name in _PROXIES:
            env.pop(name, None)
            env.pop(name.upper(), None)
        if isinstance(proxy, str):
            env["http_proxy"] = env["https_proxy"] = proxy if "://" in proxy else f"http://{proxy}"
    if trusted := authorities(settings, environment):
        env["SSL_CERT_DIR" if Path(trusted).is_dir() else "SSL_CERT_FILE"] = trusted
    if cert := settings.get("client-cert"):
        env["SSL_CLIENT_CERT"] = cert
    if timeout := settings.get("timeout") or settings.get("default-timeout"):
        env["UV_HTTP_TIMEOUT"] = timeout.partition(".")[0]
    if retries := settings.get("retries"):
        env["UV_HTTP_RETRIES"] = retries
    hosts = settings.get("trusted-host", "").lower().split()
    options = ["--index-strategy", "unsafe-best-match"]
    for host in hosts:
        options += ["--allow-insecure-host", host]
    options += _indexes(settings, env, hosts, extra, alone=alone)
    for place in () if alone else settings.get("find-links", "").split():
        options += _find_links(place, hosts)
    return Said(tuple(options), env)


def _indexes(
    settings: Mapping[str, str], env: dict[str, str], hosts: list[str], extra: Sequence[str], *, alone: bool
) -> tuple[str, ...]:
    """Write the indexes into the environment, where nobody reads their logins, and return the options."""
    if switched_on(settings.get("no-index")):
        return ("--no-index",)
    main = "" if alone else settings.get("index-url") or settings.get("pypi-url", "")
    others = [] if alone else settings.get("extra-index-url", "").split()
    usable = [url for url in (main, *others, *extra) if url and _is_there(url, hosts)]
    if main or alone:
        if not usable:
            return ("--no-index",)
        env["UV_DEFAULT_INDEX"] = usable.pop(0)
    if usable:
        env["UV_INDEX"] = " ".join(usable)
    return ()


def _is_there(url: str, hosts: Sequence[str]) -> bool:
    path = local_path(url)
    return path.is_dir() if path is not None else _is_trusted(url, hosts)


def _is_trusted(url: str, hosts: Sequence[str]) -> bool:
    """Return whether pip takes ``url``: https, this machine, or a ``trusted-host``."""
    parts = urlsplit(url)
    host = (parts.hostname or "").lower()
    here = host in ("localhost", "::1") or host.startswith("127.")
    return parts.scheme == "https" or here or host in hosts or f"{host}:{parts.port}" in hosts


def _find_links(place: str, hosts: Sequence[str]) -> tuple[str, ...]:
    path = local_path(place)
    if path is not None:
        full = path.expanduser()
        if not full.exists():
            return ()
        return ("--find-links", place if place.startswith("file:") else str(full))
    if without_login(place) != place:
        raise ToolchainError(
            "uv is not used: a page of links (find-links) needs a login",
            why="uv takes such a page as an argument, which others on this machine can read",
            fix="nothing has to be done: pip installs; --installer pip takes it from the start",
        )
    return ("--find-links", place) if _is_trusted(place, hosts) else ()


_DEADLINE_S = 120.0
# Somebody waits for the answer, and nothing depends on it.
_HASTY = {"timeout": "5", "retries": "0"}
# The tags of Python that the files of a release have, as uv lists them in its hint.
_TAG = re.compile(r"`cp3(\d+)`")
_HASH = re.compile(r"sha256:[0-9a-f]{64}")
_CONNECTION = re.compile(r"Failed to fetch|error sending request|Request failed")
# Anything else is left to the installation, which says what is wrong.
_NOWHERE = re.compile("No solution found")
_LACKS = re.compile(rf"{_NOWHERE.pattern}|{_CONNECTION.pattern}")


@frozen
class Prebuilt:
    """A wheel that a build takes prebuilt.

    ``text`` is the hashed requirement file that pins it, "" where nobody has written its hashes down; then
    ``indexes`` alone are asked, else after those that pip is configured with.
    """

    dist: str
    version: str
    indexes: tuple[str, ...] = ()
    text: str = ""

    def pin(self) -> HashedPin:
        """Return the pin of the file, or one without hashes."""
        name = canonicalize_name(self.dist)
        bare = HashedPin(self.dist, self.version, SpecifierSet(f"=={self.version}"), None, frozenset())
        return next((pin for pin in hashed_pins(self.text) if canonicalize_name(pin.name) == name), bare)


@frozen
class Asker:
    """uv, the interpreter to ask for, and the environment, which has pip's settings."""

    uv: str
    python_version: str
    environment: Mapping[str, str]
    cancel: Cancel | None = None

    def first_lacking(self, wheels: Sequence[Prebuilt], *, hasty: bool = False) -> XpuBuildError | None:
        """Return why the first wheel that no place offers cannot be installed; None if none is lacking.

        A place that does not answer lacks everything; ``hasty`` gives it little time to. What cannot be asked
        is left to the installation.

        Raises:
            RecipeError: a requirement file is no list of pins with sha256.
            InterruptedByUserError: it was cancelled.
        """
        for wheel in wheels:
            pin = wheel.pin()
            line = " ".join([f"{pin.name}=={pin.version}", *(f"--hash=sha256:{item}" for item in pin.hashes)])
            places = [(url,) for url in wheel.indexes]
            result: QueryResult | None = None
            for extra in places if not pin.hashes else [(), *places]:
                words = ("install", "--dry-run", *(("--require-hashes",) if pin.hashes else ()))
                result = self._query(words, line, extra, alone=not pin.hashes, hasty=hasty)
                if result is None or result.ok:
                    break
            # uv gives up at an index that does not answer, where pip goes on with others.
            telling = _LACKS if not pin.hashes else _NOWHERE
            if result is not None and not result.ok and telling.search(result.stderr):
                return self._lacks(wheel, result)
        return None

    def hashes(self, wheel: Prebuilt) -> list[str]:
        """Return "sha256:…" of every file of a release that its own indexes list; none where unknown."""
        for url in wheel.indexes:
            words = ("compile", "--generate-hashes", "--no-header", "--no-annotate")
            result = self._query(words, f"{wheel.dist}=={wheel.version}", (url,), alone=True)
            if result is not None and result.ok:
                return sorted(set(_HASH.findall(result.stdout)))
        return []

    def _query(
        self, words: Sequence[str], line: str, extra: Sequence[str], *, alone: bool, hasty: bool = False
    ) -> QueryResult | None:
        try:
            settings = pip_settings(self.environment) | (_HASTY if hasty else {})
            said = translated(settings, self.environment, extra=extra, alone=alone)
        except ToolchainError:
            return None  # only pip can ask there
        with scratch_folder("ask") as folder:
            target = ("--target", str(folder / "none")) if words[0] == "install" else ()
            argv = [
                self.uv, "pip", *words, "--no-deps", "--only-binary", ":all:", "--python", sys.executable,
                "--python-version", self.python_version, *target, "--no-config", "--no-python-downloads",
                "--no-progress", "--color", "never", "--cache-dir", str(folder / "cache"), *said.options,
                *(("--requirements",) if target else ()), "-",
            ]  # fmt: skip
            result = query(
                argv, env=said.environment, cwd=folder, deadline_s=_DEADLINE_S, cancel=self.cancel,
                stdin=f"{line}\n".encode(),
            )  # fmt: skip
        if self.cancel is not None:
            self.cancel.stop_here()
        return result

    def _lacks(self, wheel: Prebuilt, result: QueryResult) -> FetchError:
        said = Redactor()(result.stderr)
        lines = [line for line in said.splitlines() if not line.startswith(("Using", "warning"))]
        here = ".".join(self.python_version.split(".")[:2])
        others = [f"3.{minor}" for minor in sorted(set(map(int, _TAG.findall(said)))) if f"3.{minor}" != here]
        ways = ["let pip use an index or a wheel folder that has it"]
        if others:
            ways.insert(0, f"use Python {' or '.join(others)} (--python)")
        if _CONNECTION.search(said):
            ways.insert(0, "check the network, the proxy (HTTPS_PROXY) and the certificates (PIP_CERT)")
        return FetchError(
            f"{wheel.dist} {wheel.version} for Python {self.python_version} was not found",
            why=" ".join(" ".join(lines).split()).removeprefix("error: "),
            fix=f"{', or '.join(ways)}, then run the same command again",
            commands=("pip config list",),
            evidence={
                "distribution": wheel.dist, "version": wheel.version, "python": self.python_version,
                "other_pythons": others,
            },
        )  # fmt: skip
