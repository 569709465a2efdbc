"""pip's settings in the words of uv, which reads none of pip's files and variables.

The words are those of uv's reference of commands and environment variables. What cannot be said exactly
leaves the work to pip. uv's own files and variables are not read: a plan would depend on them without showing
it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from pathlib import Path

from xpubuild.errors import ToolchainError
from xpubuild.frozen import frozen
from xpubuild.supply.index.config import IndexConfig, local_path
from xpubuild.supply.index.pipconf import switched_on

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
class Said:
    """Options of uv, and its whole environment, which may hold logins."""

    options: tuple[str, ...]
    environment: Mapping[str, str] = field(repr=False)


def reason_for_pip(settings: Mapping[str, str]) -> str:
    """Return why pip has to install, by its settings (``pip_settings``); "" where uv can."""
    for name, value in settings.items():
        if name in _SAID or name in _NO_EFFECT:
            continue
        if name == "no-cache-dir" and not switched_on(value):
            continue
        if name == "keyring-provider" and value == "disabled":
            continue
        if name == "require-virtualenv":  # it is one
            continue
        return f"pip's setting {name} has no equivalent in uv"
    return ""


def translated(config: IndexConfig, environment: Mapping[str, str]) -> Said:
    """Return what tells uv to look where pip looks, in the way in which pip reaches it.

    An index without https that pip would leave out (no ``trusted-host``) is left out, and so is a folder that
    is not there: uv would fail. All indexes are asked for every package, as pip does. That another index may
    have a newer version of a name is no danger here: version and hash of each package are fixed.

    Raises:
        ToolchainError: a place needs a login that would have to be an argument.
    """
    dropped = {*_CERTIFICATES, *_PROXIES, *map(str.upper, _PROXIES)}
    env = {name: value for name, value in environment.items() if name not in dropped}
    env.update({f"{scheme}_proxy": url for scheme, url in config.proxies.items()})
    if config.no_proxy:
        env["no_proxy"] = config.no_proxy
    if isinstance(config.verify, str):
        env["SSL_CERT_DIR" if Path(config.verify).is_dir() else "SSL_CERT_FILE"] = config.verify
    if config.client_cert:
        env["SSL_CLIENT_CERT"] = config.client_cert
    env["UV_HTTP_TIMEOUT"] = str(max(1, round(config.timeout_s)))
    env["UV_HTTP_RETRIES"] = str(config.retries)
    indexes = [config.credentials.into(url) for url in config.indexes if _is_there(url, config)]
    options = ["--index-strategy", "unsafe-best-match"]
    if indexes:
        env["UV_DEFAULT_INDEX"] = indexes[0]
    else:
        options.append("--no-index")
    if indexes[1:]:
        env["UV_INDEX"] = " ".join(indexes[1:])
    for host in config.trusted_hosts:
        options += ["--allow-insecure-host", host]
    for place in config.find_links:
        options += _find_links(place, config)
    return Said(tuple(options), env)


def _is_there(url: str, config: IndexConfig) -> bool:
    path = local_path(url)
    return config.trusts(url) if path is None else path.is_dir()


def _find_links(place: str, config: IndexConfig) -> tuple[str, ...]:
    path = local_path(place)
    if path is not None:
        return ("--find-links", place) if path.exists() else ()
    if config.credentials.for_url(place) is not None:
        raise ToolchainError(
            "uv is not used: a page of links (find-links) needs a login",
            why="uv takes such a page as an argument, which others on this machine can read",
            fix="nothing has to be done: pip installs; --installer pip takes it from the start",
        )
    return ("--find-links", place) if config.trusts(place) else ()
