"""Where Python files come from on this machine: pip's settings, proxies, certificates and logins.

Nothing of an ``IndexConfig`` that is shown holds a credential: URLs are kept without them, and the logins and
proxies stay out of ``repr``.
"""

from __future__ import annotations

import contextlib
import importlib.util
import ipaddress
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field, replace
from pathlib import Path
from urllib.parse import unquote, urlsplit

from xpubuild.engine.redact import Redactor, recordable
from xpubuild.errors import ToolchainError
from xpubuild.frozen import frozen
from xpubuild.supply.index.credentials import Credentials, login_of, origin_of, without_login
from xpubuild.supply.index.pipconf import pip_settings, switched_on

# pip's own defaults (cli/cmdoptions.py). The index is asked where nothing else is configured.
_TIMEOUT_S = 15.0
_RETRIES = 5
# An index that the user did not configure may be out of reach behind a firewall: that must show soon.
_EXTRA_TIMEOUT_S = 15.0
_EXTRA_RETRIES = 1
# Where Linux distributions keep the authorities of the machine. pip 24.2 and later trust them, requests
# does not.
_SYSTEM_AUTHORITIES = (
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
)

_ENDPOINT = re.compile(r"""^PYPI_SIMPLE_ENDPOINT\b[^=\n]*= *["'](\S+)["']$""", re.MULTILINE)
_AN_INDEX = "a package index"
_CORRECT_INDEX = "correct it in the recipe, in pip's configuration or in the PIP_* variables"
_A_PROXY = "a proxy"
_CORRECT_PROXY = "correct http_proxy, https_proxy or all_proxy, or the proxy in pip's configuration"


def local_path(place: str) -> Path | None:
    """Return the path that a place names, as such or by a ``file:`` URL; None for other URLs."""
    if place.startswith("file:"):
        return Path(unquote(urlsplit(place).path))
    return None if "://" in place else Path(place)


@frozen
class IndexConfig:
    """Indexes and wheel folders in the order in which pip asks them, and how they are reached.

    ``find_links`` are folders, files, pages and links as pip takes them. ``verify`` is a file or folder of
    authorities, or True for those of requests. ``proxies`` is scheme (or "all") -> URL. Times are seconds.
    """

    indexes: tuple[str, ...]
    find_links: tuple[str, ...] = ()
    trusted_hosts: tuple[str, ...] = ()
    verify: str | bool = True
    client_cert: str | None = None
    timeout_s: float = _TIMEOUT_S
    retries: int = _RETRIES
    no_proxy: str = ""
    proxies: Mapping[str, str] = field(default_factory=dict, repr=False)
    credentials: Credentials = field(default_factory=Credentials, repr=False)

    def with_indexes(self, urls: Sequence[str]) -> IndexConfig:
        """Return a configuration that asks ``urls`` alone, with little patience: a recipe's own indexes.

        Raises:
            ToolchainError: one is no URL.
        """
        for url in urls:
            _check_url(url, _AN_INDEX, _CORRECT_INDEX)
        return replace(
            self,
            indexes=tuple(without_login(url) for url in urls),
            find_links=(),
            timeout_s=min(self.timeout_s, _EXTRA_TIMEOUT_S),
            retries=min(self.retries, _EXTRA_RETRIES),
            credentials=self.credentials.also(urls),
        )

    def proxy_for(self, url: str) -> str | None:
        """Return the proxy (with its login) through which ``url`` is reached; None for none."""
        parts = urlsplit(url)
        proxy = self.proxies.get(parts.scheme.lower()) or self.proxies.get("all")
        if not proxy:
            return None
        if not self.no_proxy:
            return proxy
        from urllib.request import proxy_bypass  # noqa: PLC0415 - http and ssl, for few

        host = parts.netloc.rpartition("@")[2].lower()
        excepted = proxy_bypass(host, {"no": self.no_proxy})
        return None if excepted or _in_networks(parts.hostname or "", self.no_proxy) else proxy

    def trusts(self, url: str) -> bool:
        """Return whether pip takes ``url``: https, a file, this machine, or a ``trusted-host``."""
        parts = urlsplit(url)
        host = (parts.hostname or "").lower()
        if parts.scheme in ("https", "file") or host in ("localhost", "::1") or host.startswith("127."):
            return True
        return host in self.trusted_hosts or f"{host}:{parts.port}" in self.trusted_hosts

    def shown(self, text: object) -> str:
        """Return ``text`` without any credential of this configuration."""
        logins = [login for url in self.proxies.values() if (login := login_of(url)) is not None]
        words = [password or user for user, password in logins]
        return Redactor((*self.credentials.secrets(), *words))(str(text))

    def places(self) -> tuple[str, ...]:
        """Return the find-links and indexes as a message may name them, in the order they are asked."""
        return tuple(
            recordable(place, tokens_in_path=True) if "://" in place else place for place in self.find_links
        ) + tuple(recordable(url, tokens_in_path=True) for url in self.indexes)


def read_config(env: Mapping[str, str]) -> IndexConfig:
    """Return what ``pip install`` would use in the environment ``env``.

    Raises:
        ToolchainError: a configuration file cannot be read, or a value of it is no number.
    """
    settings = pip_settings(env)
    main = settings.get("index-url") or settings.get("pypi-url") or _pypi()
    urls = [main, *settings.get("extra-index-url", "").split()]
    if switched_on(settings.get("no-index")):
        urls = []
    links = settings.get("find-links", "").split()
    for url in (*urls, *links):
        _check_url(url, _AN_INDEX, _CORRECT_INDEX)
    proxies, no_proxy = _proxies(settings, env)
    for proxy in proxies.values():
        _check_url(proxy, _A_PROXY, _CORRECT_PROXY)
    return IndexConfig(
        indexes=tuple(dict.fromkeys(without_login(url) for url in urls)),
        find_links=tuple(dict.fromkeys(without_login(_at_home(link, env)) for link in links)),
        trusted_hosts=tuple(host.lower() for host in settings.get("trusted-host", "").split()),
        verify=_authorities(settings, env),
        client_cert=_there(cert, "PIP_CLIENT_CERT") if (cert := settings.get("client-cert")) else None,
        timeout_s=_number(settings, ("timeout", "default-timeout"), _TIMEOUT_S),
        retries=int(_number(settings, ("retries",), _RETRIES)),
        no_proxy=no_proxy,
        proxies=proxies,
        credentials=Credentials.collect([*urls, *links], env),
    )


def _pypi() -> str:
    """Return pip's own index, which pypi_simple names.

    Its constant is read from its source where that has it as text: to import it brings the whole client of
    indexes along, which takes longer than all else that linking packages with uv does.
    """
    spec = importlib.util.find_spec("pypi_simple")
    with contextlib.suppress(OSError):
        text = Path(spec.origin).read_text("utf-8") if spec is not None and spec.origin else ""
        if (found := _ENDPOINT.search(text)) is not None:
            return found[1].rstrip("/")
    from pypi_simple import PYPI_SIMPLE_ENDPOINT  # noqa: PLC0415 - see above

    return PYPI_SIMPLE_ENDPOINT.rstrip("/")


def _check_url(url: str, kind: str, fix: str) -> None:
    try:
        origin_of(url)
    except ValueError as error:
        raise ToolchainError(
            f"'{Redactor()(url)}' is not the URL of {kind}",
            why=str(error),
            fix=fix,
            commands=("pip config debug",),
        ) from None


def _in_networks(host: str, no_proxy: str) -> bool:
    """Return whether an address is in one of the networks (10.0.0.0/8) of NO_PROXY, as requests has it."""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return False
    for entry in no_proxy.split(","):
        with contextlib.suppress(ValueError):
            if "/" in entry and address in ipaddress.ip_network(entry.strip(), strict=False):
                return True
    return False


def _at_home(link: str, env: Mapping[str, str]) -> str:
    home = env.get("HOME", "")
    expanded = home + link[1:] if link.startswith("~/") and home else link
    return expanded if Path(expanded).exists() else link


def _number(settings: Mapping[str, str], names: Iterable[str], default: float) -> float:
    for name in names:
        if name in settings:
            try:
                return float(settings[name])
            except ValueError:
                raise ToolchainError(
                    f"pip's setting {name} is '{settings[name]}', which is not a number",
                    fix=f"correct it in pip's configuration or in PIP_{name.upper().replace('-', '_')}",
                    commands=("pip config debug",),
                ) from None
    return default


def _proxies(settings: Mapping[str, str], env: Mapping[str, str]) -> tuple[dict[str, str], str]:
    """Return proxies and exceptions: pip's own ``proxy`` is for everything and knows no exceptions."""
    if settings.get("proxy"):
        own = settings["proxy"]
        return dict.fromkeys(("http", "https"), own if "://" in own else f"http://{own}"), ""
    if switched_on(settings.get("no-proxy-env")):
        return {}, ""
    # Lower case counts first, as for curl and urllib.
    found = {
        scheme: value
        for scheme in ("http", "https", "all")
        if (value := env.get(f"{scheme}_proxy") or env.get(f"{scheme.upper()}_PROXY"))
    }
    found = {scheme: url if "://" in url else f"http://{url}" for scheme, url in found.items()}
    return found, env.get("no_proxy") or env.get("NO_PROXY") or ""


def _there(path: str, names: str) -> str:
    if not Path(path).exists():
        raise ToolchainError(
            f"the certificates in {path} cannot be used",
            why="there is no such file or folder",
            fix=f"correct {names}, or the same setting in pip's configuration",
            commands=("pip config debug",),
        )
    return path


def _authorities(settings: Mapping[str, str], env: Mapping[str, str]) -> str | bool:
    named = (
        settings.get("cert")
        or env.get("REQUESTS_CA_BUNDLE")
        or env.get("CURL_CA_BUNDLE")
        or env.get("SSL_CERT_FILE")
    )
    if named:
        return _there(named, "PIP_CERT, REQUESTS_CA_BUNDLE, CURL_CA_BUNDLE or SSL_CERT_FILE")
    return next((place for place in _SYSTEM_AUTHORITIES if Path(place).is_file()), True)
