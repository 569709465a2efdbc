"""The program uv, and pip's settings in its words.

uv reads none of pip's files and variables. The words are those of its reference of commands and environment
variables. What cannot be said exactly leaves the work to pip. uv's own files and variables are not read: a
plan would depend on them without showing it.
"""

from __future__ import annotations

import importlib.metadata
from collections.abc import Mapping, Sequence
from dataclasses import field
from pathlib import Path
from urllib.parse import urlsplit

from xpubuild.errors import ToolchainError
from xpubuild.frozen import frozen
from xpubuild.supply.index.pipconf import authorities, local_path, switched_on

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
    "break-system-packages", "no-compile", "config-file", "no-clean", "src", "require-virtualenv",
})  # fmt: skip
_PROXIES = ("http_proxy", "https_proxy", "all_proxy", "no_proxy")
_CERTIFICATES = ("SSL_CERT_FILE", "SSL_CERT_DIR", "SSL_CLIENT_CERT")


@frozen
class Program:
    """The program uv; where it cannot be used, ``why`` says that."""

    path: str = ""
    version: str = ""
    why: str = ""


def find_uv() -> Program:
    """Return the uv of the interpreter that runs xpubuild; none of ``PATH``, which may be of any version."""
    try:
        from uv import find_uv_bin  # noqa: PLC0415 - it may be missing where somebody left out dependencies

        return Program(find_uv_bin(), importlib.metadata.version("uv"))
    except (ImportError, FileNotFoundError):
        return Program(why="uv is not installed beside xpubuild")


@frozen
class Said:
    """Options of uv, and its whole environment, which may hold logins."""

    options: tuple[str, ...]
    environment: Mapping[str, str] = field(repr=False)


def reason_for_pip(settings: Mapping[str, str]) -> str:
    """Return why pip has to install, by its settings (``pip_settings``); "" where uv can."""
    known = {*_SAID, *_NO_EFFECT, *(() if switched_on(settings.get("no-cache-dir")) else ("no-cache-dir",))}
    said = {("keyring-provider", "disabled"), *((name, settings.get(name)) for name in known)}
    first = next((name for name, value in settings.items() if (name, value) not in said), "")
    return first and f"pip's setting {first} has no equivalent in uv"


def translated(
    settings: Mapping[str, str], environment: Mapping[str, str], *, extra: Sequence[str] = ()
) -> Said:
    """Return the options with which uv looks where pip looks, in the way in which pip reaches it.

    ``extra`` are indexes to ask besides. An index without https that pip would leave out (no
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
    options += _indexes(settings, env, hosts, extra)
    for place in settings.get("find-links", "").split():
        options += _find_links(place, hosts)
    return Said(tuple(options), env)


def _indexes(
    settings: Mapping[str, str], env: dict[str, str], hosts: list[str], extra: Sequence[str]
) -> tuple[str, ...]:
    """Write the indexes into the environment, where nobody reads their logins, and return the options."""
    if switched_on(settings.get("no-index")):
        return ("--no-index",)
    main = settings.get("index-url") or settings.get("pypi-url", "")
    others = settings.get("extra-index-url", "").split()
    usable = [url for url in (main, *others, *extra) if url and _is_there(url, hosts)]
    if main:
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
        named = place if place.startswith("file:") else str(full)
        return ("--find-links", named) if full.exists() else ()
    if "@" in urlsplit(place).netloc:
        raise ToolchainError(
            "uv is not used: a page of links (find-links) needs a login",
            why="uv takes such a page as an argument, which others on this machine can read",
            fix="nothing has to be done: pip installs; --installer pip takes it from the start",
        )
    return ("--find-links", place) if _is_trusted(place, hosts) else ()
