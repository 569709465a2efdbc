"""pip's settings as pip itself merges them (files, then ``PIP_*`` variables), for what is not pip; and the
environment in which pip sees a mirror and nothing else; the program uv, and the same settings in its words.

The rules are those of pip's ``configuration.py`` and ``cli/parser.py`` (22 to 26). The files are read here
instead of asking a pip: the one that will install is that of an environment which may not exist yet, and the
interpreter that runs xpubuild may have none. An environment's own ``pip.conf`` is left out: the environments
that xpubuild makes have none.

uv reads none of pip's files and variables. The words are those of its reference of commands and environment
variables. What cannot be said exactly leaves the work to pip. uv's own files and variables are not read: a
plan would depend on them without showing it.
"""

from __future__ import annotations

import configparser
import importlib.metadata
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from html import escape
from pathlib import Path
from urllib.parse import unquote, urlsplit

from xpubuild.errors import ToolchainError
from xpubuild.frozen import frozen
from xpubuild.untrusted import read_text

#: Sections that count for ``pip install``; the environment overrides them.
_SECTIONS = ("global", "install")
# Where Linux distributions keep the authorities of the machine. pip 24.2 and later trust them; requests and
# uv do not.
_SYSTEM_AUTHORITIES = (
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
)
# A setting of the caller that would install something else; pip takes an empty value as none.
_EMPTIED = (
    "PIP_INDEX_URL", "PIP_PYPI_URL", "PIP_EXTRA_INDEX_URL", "PIP_TRUSTED_HOST", "PIP_PROXY", "PIP_CERT",
    "PIP_CLIENT_CERT", "PIP_NO_BINARY", "PIP_ONLY_BINARY", "PIP_PRE", "PIP_UPLOADED_PRIOR_TO",
)  # fmt: skip


def pip_settings(env: Mapping[str, str], sections: Iterable[str] = _SECTIONS) -> dict[str, str]:
    """Return long option name (without dashes) -> text, as ``pip install`` takes it; empty ones are left out.

    ``sections`` of the files count, each overriding those before it; others for another command of pip.

    Raises:
        ToolchainError: a configuration file cannot be read.
    """
    of_files: dict[str, dict[str, str]] = {name: {} for name in sections}
    for path in _files(env):
        for section, values in _read(path).items():
            if section in of_files:
                of_files[section].update(values)
    variables = {_option(name[4:]): value for name, value in env.items() if name.startswith("PIP_")}
    merged: dict[str, str] = {}
    for values in (*of_files.values(), variables):
        merged.update({name: value for name, value in values.items() if value})
    return dict(sorted(merged.items()))


def files_with(env: Mapping[str, str], name: str, sections: Iterable[str]) -> list[str]:
    """Return the configuration files that have a setting in one of the sections."""
    wanted = set(sections)
    return [str(path) for path in _files(env) if any(name in _read(path).get(key, {}) for key in wanted)]


def switched_on(text: str | None) -> bool:
    """Return a pip switch as a truth value ("yes", "true", "1", "on")."""
    return (text or "").strip().lower() in ("y", "yes", "t", "true", "on", "1")


def authorities(settings: Mapping[str, str], env: Mapping[str, str]) -> str:
    """Return the file or folder of the certificate authorities to trust; "" for those of the program.

    Raises:
        ToolchainError: what the settings or variables name is not there.
    """
    variables = ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "SSL_CERT_FILE")
    named = settings.get("cert") or next((env[name] for name in variables if env.get(name)), "")
    if named and not Path(named).exists():
        raise ToolchainError(
            f"the certificates in {named} cannot be used",
            why="there is no such file or folder",
            fix=f"correct PIP_CERT, {', '.join(variables)}, or the same setting in pip's configuration",
            commands=("pip config debug",),
        )
    return named or next((place for place in _SYSTEM_AUTHORITIES if Path(place).is_file()), "")


def local_path(place: str) -> Path | None:
    """Return the path that a place names, as such or by a ``file:`` URL; None for other URLs."""
    if place.startswith("file:"):
        return Path(unquote(urlsplit(place).path))
    return None if "://" in place else Path(place)


def _files(env: Mapping[str, str]) -> Iterator[Path]:
    named = env.get("PIP_CONFIG_FILE")
    if named == os.devnull:
        return
    home = Path(env.get("HOME") or "~").expanduser()
    for folder in (env.get("XDG_CONFIG_DIRS") or "/etc/xdg").split(os.pathsep):
        yield Path(folder) / "pip" / "pip.conf"
    yield Path("/etc") / "pip.conf"
    if not (named and Path(named).exists()):
        yield home / ".pip" / "pip.conf"
        yield Path(env.get("XDG_CONFIG_HOME") or home / ".config") / "pip" / "pip.conf"
    if named:
        yield Path(named)


def _read(path: Path) -> dict[str, dict[str, str]]:
    if not path.is_file():
        return {}
    parser = configparser.RawConfigParser()
    try:
        parser.read_string(read_text(path), str(path))
    except (OSError, ValueError, configparser.Error) as error:
        raise ToolchainError(
            f"pip's configuration file {path} cannot be read",
            why=_where(error) if isinstance(error, configparser.Error) else str(error),
            fix="correct it, or set PIP_CONFIG_FILE to another file",
            commands=("pip config debug",),
        ) from None
    return {name: {_option(key): value for key, value in parser.items(name)} for name in parser.sections()}


def _where(error: configparser.Error) -> str:
    """Return where a file breaks its form; the parser's own text quotes the line, maybe with a password."""
    lines = [number for number, _ in getattr(error, "errors", ())] or [getattr(error, "lineno", None)]
    place = f"line {lines[0]}" if lines[0] is not None else "it"
    return f"{place} is neither [SECTION] nor NAME = VALUE in a section, or repeats one"


def _option(name: str) -> str:
    return name.lower().replace("_", "-").removeprefix("--")


def offline_environment(wheels: str | Path) -> dict[str, str]:
    """Return the variables to lay over a command's environment: pip then sees ``wheels`` and nothing else.

    The words are pip's own (cli/cmdoptions.py, configuration.py). ``PIP_NO_INDEX`` wins over every index,
    those of ``--extra-index-url`` too. ``PIP_FIND_LINKS`` is split at blanks, so a path is given as a URL.
    ``wheels`` is a folder of wheels or a page of links (``links_page``), by path or by ``file:`` URL.
    """
    place = str(wheels)
    url = place if place.startswith("file:") else Path(place).absolute().as_uri()
    return {
        **dict.fromkeys(_EMPTIED, ""),
        "PIP_CONFIG_FILE": os.devnull,  # pip then reads no configuration file at all
        "PIP_NO_INDEX": "1",
        "PIP_FIND_LINKS": url,
        # Wheels that were built here earlier are no part of the mirror.
        "PIP_NO_CACHE_DIR": "1",
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
        "PIP_KEYRING_PROVIDER": "disabled",
        "PIP_NO_INPUT": "1",
    }


def links_page(files: Iterable[tuple[str, str, str]]) -> str:
    """Return an HTML page of links, one for each (href, file name, sha256).

    pip checks the hash in a link also where no requirement file states one.
    """
    lines = [
        f'<a href="{escape(href)}#sha256={sha256}">{escape(name)}</a><br>'
        for href, name, sha256 in sorted(files, key=lambda item: (item[1], item[2]))
    ]
    head = '<!DOCTYPE html>\n<html><head><meta charset="utf-8"><title>Links</title></head><body>'
    return "\n".join((head, *lines, "</body></html>", ""))


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
    exact = {("keyring-provider", "disabled"), *((name, settings.get(name)) for name in known)}
    first = next((name for name, value in settings.items() if (name, value) not in exact), "")
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
