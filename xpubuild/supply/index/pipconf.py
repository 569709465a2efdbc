"""pip's settings as pip itself merges them (files, then ``PIP_*`` variables), for what is not pip; and the
environment in which pip sees a mirror and nothing else.

The rules are those of pip's ``configuration.py`` and ``cli/parser.py`` (22 to 26). The files are read here
instead of asking a pip: the one that will install is that of an environment which may not exist yet, and the
interpreter that runs xpubuild may have none. An environment's own ``pip.conf`` is left out: the environments
that xpubuild makes have none.
"""

from __future__ import annotations

import configparser
import os
from collections.abc import Iterable, Iterator, Mapping
from html import escape
from pathlib import Path
from urllib.parse import unquote, urlsplit

from xpubuild.errors import ToolchainError
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
