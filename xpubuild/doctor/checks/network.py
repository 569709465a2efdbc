"""Whether a recipe's servers can be reached, and the proxy variables are valid."""

from __future__ import annotations

import re
import shlex
import socket
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from xpubuild.doctor.kit import BUILD, Fix, Look, Outcome, check, finding, ok, skip, todo, warn
from xpubuild.errors import ToolchainError
from xpubuild.supply.index.pipconf import pip_settings, switched_on

if TYPE_CHECKING:
    from xpubuild.recipe.model import Recipe

_FAMILIES = "H-torch-xpu-ops-and-submodule-checkout Q-triton-llvm-download S-network-proxy-certificate"
_PROXIES = ("http_proxy", "https_proxy", "all_proxy", "ftp_proxy")
_SCHEMES = ("http", "https", "socks5", "socks5h", "socks4", "socks4a")
# Written so that what masks passwords in URLs leaves it readable.
_WITH_USER = "put a user name and password in front of HOST, as USER:PASSWORD@HOST"
_CIDR = re.compile(r"\d+(\.\d+){3}/\d+")


@check("network.proxy", profiles=BUILD, live=True, families=_FAMILIES)
def network_proxy(look: Look) -> Outcome:
    """The proxy variables are valid.

    Reads `http_proxy`, `https_proxy`, `all_proxy` and `no_proxy` in lower and upper case. These are
    failures: a value that is not a URL, a port that is not a number, an unknown scheme, and a password
    with `@`, `/` or `#` that is not written as `%40`, `%2F`, `%23`. These are warnings: the lower-case
    and upper-case values differ (programs disagree on which one they read), only one of http and https
    has a proxy, and `no_proxy` has entries that only some programs support (`*.domain`, networks such
    as 10.0.0.0/8, spaces). Users and passwords in the values are never shown.
    """
    names = [spelling for name in _PROXIES for spelling in (name, name.upper())]
    values = {name: value for name in names if (value := look.environ.get(name))}
    wrong = {name: problem for name, value in values.items() if (problem := _problem(value))}
    if wrong:
        told = "; ".join(f"{name} {text}" for name, text in wrong.items())
        lines = (f"export {name}=http://HOST:PORT" for name in wrong)
        fix = todo(f"write them as http://HOST:PORT; {_WITH_USER}", *lines)
        return finding(told, fix, variables=sorted(wrong))
    odd = [*_differing(look.environ), *_one_of_two(look.environ), *_no_proxy(look.environ)]
    if odd:
        fixes = [fix for _, fix in odd]
        summary = "; ".join(dict.fromkeys(fix.summary for fix in fixes))
        commands = (command for fix in fixes for command in fix.commands)
        return warn("; ".join(detail for detail, _ in odd), todo(summary, *commands))
    used = sorted({_without_user(value) for value in values.values()})
    return ok(f"proxy {', '.join(used)}" if used else "no proxy is set")


def _without_user(value: str) -> str:
    """Return a sound proxy as scheme://host:port."""
    scheme, _, rest = (value if "://" in value else f"http://{value}").partition("://")
    return f"{scheme}://{rest.rpartition('@')[2].rstrip('/')}"


def _problem(value: str) -> str:
    if value != value.strip() or value[:1] in "'\"":
        return "has spaces or quotes around it"
    text = value if "://" in value else f"http://{value}"
    try:
        parts = urlsplit(text)
    except ValueError:
        return "has brackets that do not contain an IPv6 address (an IPv6 address is written as [::1])"
    rest = text.partition("://")[2].rstrip("/")
    password = "@" in rest and (rest.count("@") > 1 or re.search(r"[/#?]", rest))
    for wrong, problem in (
        (parts.scheme not in _SCHEMES, f"has the unknown scheme '{parts.scheme}'"),
        (password, "has a password with characters that must be written as %40 (@), %2F (/), %23 (#)"),
        (re.search(r"[/#?]", rest), "has extra text after its port"),
        (not parts.hostname or re.search(r"[\s'\"$]", parts.hostname), "has no host"),
        (not _sound_port(text), "has a port that is not a number between 1 and 65535"),
    ):
        if wrong:
            return problem
    return ""


def _sound_port(url: str) -> bool:
    """Whether the port of a URL, if there is one, is a number from 1 on; False where the URL is none."""
    try:
        return urlsplit(url).port != 0
    except ValueError:
        return False


def _differing(environ: Mapping[str, str]) -> Iterator[tuple[str, Fix]]:
    for name in (*_PROXIES, "no_proxy"):
        lower, upper = environ.get(name), environ.get(name.upper())
        if lower and upper and lower != upper:
            fix = todo("set both spellings to the same value", f'export {name.upper()}="${name}"')
            yield f"{name} and {name.upper()} differ", fix


def _one_of_two(environ: Mapping[str, str]) -> Iterator[tuple[str, Fix]]:
    """Yield that only one of http and https has a proxy."""
    has = {
        name: next((item for item in (f"{name}_proxy", f"{name.upper()}_PROXY") if environ.get(item)), None)
        for name in ("http", "https", "all")
    }
    for name, other in (("http", "https"), ("https", "http")):
        if has[name] and not has[other] and not has["all"]:
            command = f'export {other}_proxy="${has[name]}" {other.upper()}_PROXY="${has[name]}"'
            fix = todo(f"set the proxy for {other} too", command)
            yield f"there is no proxy for {other}, but one for {name}", fix


def _no_proxy(environ: Mapping[str, str]) -> Iterator[tuple[str, Fix]]:
    """Yield that no_proxy has entries that only some programs understand."""
    name = "no_proxy" if environ.get("no_proxy") else "NO_PROXY"
    entries = environ.get(name, "").split(",")
    clear = [re.sub(r"^\*(?=\.)", "", ",".join(entry.split())) for entry in entries]
    unclear = [
        item for item, plain in zip(entries, clear, strict=True) if item != plain or _CIDR.fullmatch(item)
    ]
    if unclear:
        value = shlex.quote(",".join(clear))
        fix = todo(
            f"in {name}, separate entries with commas only, write .domain instead of *.domain, and list the"
            " hosts of a network one by one",
            *([] if clear == entries else [f"export no_proxy={value} NO_PROXY={value}"]),
        )
        told = ", ".join(map(repr, unclear[:4]))
        yield f"{name} has entries that some programs do not support: {told}", fix


@check("network.reach", profiles=BUILD, needs="network.proxy", live=True, families=_FAMILIES)
def network_reach(look: Look) -> Outcome:
    """The servers that the recipe downloads from are reachable.

    Contacts every server that the recipe uses (git hosts of sources and of repositories that CMake
    clones while it configures, the package indexes of pip and of the recipe) as git and pip would:
    through the configured proxy, trusting the certificate bundles in `SSL_CERT_FILE`,
    `REQUESTS_CA_BUNDLE`, `PIP_CERT`, `CURL_CA_BUNDLE` and `GIT_SSL_CAINFO`. Any HTTP response is
    sufficient. All servers are contacted in parallel, within 5 seconds. An unreachable index that only
    the recipe lists is a warning, because pip tries its own indexes first.

    Without a recipe nothing is contacted, unless this check is asked for by its name, its group or a
    pattern (`--only`): then the servers are those of the newest release, which `xpubuild install` builds.

    * *name not known*: no DNS, or a proxy is needed and not set;
    * *refused, no answer*: a firewall;
    * *407*: the proxy requires a user and a password;
    * *certificate*: a proxy that inspects TLS signs with its own CA: configure its bundle.

    For a host without network access, install from a mirror that was filled with `xpubuild fetch`
    elsewhere.
    """
    if look.recipe is None and "network.reach" not in look.asked:
        return skip("needs a recipe (--recipe)")
    recipe = look.wanted or _newest()
    try:
        indexes = _indexes(look.environ)
    except ToolchainError as error:
        return finding(f"{error.what}: {error.why}", todo(error.fix, *error.commands))
    needed: dict[str, bool] = {}
    for url, must in (*(_urls(recipe) if recipe else ()), *((index, True) for index in indexes)):
        if server := server_of(url):
            needed[server] = must or needed.get(server, False)
    if not needed:
        return skip("the recipe downloads nothing")
    answers = reach_all(needed, look.environ)
    bad = {server: detail for server, (cause, detail) in answers.items() if cause}
    evidence = {"servers": {server: cause or "ok" for server, (cause, _) in answers.items()}}
    if not bad:
        of = f"; these are the servers of {recipe.name}" if recipe and look.recipe is None else ""
        return ok(f"{', '.join(needed)} responded{of}", **evidence)
    told = "; ".join(f"{server}: {detail}" for server, detail in bad.items())
    cause, server = min((list(_FIXES).index(answers[server][0]), server) for server in bad)
    summary, *commands = list(_FIXES.values())[cause]
    host = shlex.quote(urlsplit(server).hostname or "")
    fix = todo(summary, *(line.replace("{host}", host) for line in commands))
    return (
        finding(told, fix, **evidence) if any(needed[name] for name in bad) else warn(told, fix, **evidence)
    )


def _indexes(environ: Mapping[str, str]) -> list[str]:
    """Return the package indexes that pip is configured with.

    Raises:
        ToolchainError: a file cannot be read, or an index is no URL.
    """
    settings = pip_settings(environ)
    names = () if switched_on(settings.get("no-index")) else ("index-url", "extra-index-url")
    urls = " ".join(settings.get(name, "") for name in names).split()
    if not all(map(_sound_port, urls)):
        raise ToolchainError(
            "pip's configuration has what is not the URL of a package index",
            why="index-url and extra-index-url have the form https://HOST/simple or https://HOST:PORT/simple",
            fix=f"correct it; {_WITH_USER}",
            commands=("pip config debug",),
        )
    return urls


def _newest() -> Recipe | None:
    """Return the newest release whose commit is known, as ``install`` without a recipe would take it."""
    from xpubuild.recipe.releases import releases  # noqa: PLC0415 - pydantic, and only without a recipe

    return next((item.recipe for item in releases() if item.pinned and item.recipe.release), None)


def _urls(recipe: Recipe) -> Iterator[tuple[str, bool]]:
    """Yield (URL, whether a build cannot do without it)."""
    for component in recipe.components.values():
        if component.optional or recipe.target not in component.targets:
            continue
        if component.kind == "wheel":
            # pip asks these after its own; a configured index or folder may have the wheel.
            yield from ((index, False) for index in component.indexes)
        elif component.source is not None:
            yield component.source.url or "", True
            for clone in component.source.configure_time:
                if clone.when == "always" or recipe.target == "xpu":
                    yield clone.url, True


_PROXY_LINE = "export https_proxy=http://HOST:PORT http_proxy=http://HOST:PORT"
_ELSEWHERE = (
    "set the proxy that this network needs, or install from a mirror that a host with network access filled",
    _PROXY_LINE,
    "xpubuild fetch --help",
)
#: Cause -> what to do and what to type; of several causes the first counts.
_FIXES: dict[str, tuple[str, ...]] = {
    "tls": (
        "a proxy that intercepts TLS has its own CA: get its bundle (PEM) and have git and pip use it",
        "export SSL_CERT_FILE=/path/to/ca-bundle.pem REQUESTS_CA_BUNDLE=/path/to/ca-bundle.pem",
        "export GIT_SSL_CAINFO=/path/to/ca-bundle.pem PIP_CERT=/path/to/ca-bundle.pem",
    ),
    "proxy-auth": (
        "put the user name and password into the proxy variables",
        "login=USER:PASSWORD",
        'export https_proxy=http://"$login"@HOST:PORT http_proxy=http://"$login"@HOST:PORT',
    ),
    "proxy": ("correct or unset the proxy variables", "env | grep -i _proxy="),
    "dns": (
        "fix name resolution, or set the proxy that this network needs",
        "getent hosts {host}",
        _PROXY_LINE,
    ),
    **dict.fromkeys(("refused", "timeout", "server", "unreachable"), _ELSEWHERE),
}
#: What stands in the exception of a request, with those behind it -> cause, and how it is told.
_CAUSES = (
    (r"Tunnel connection failed: 407", "proxy-auth", "the proxy requires a user name and a password (407)"),
    (
        r"Tunnel connection failed: (\d+)",
        "proxy",
        "the proxy does not forward the connection: it responded with {1}",
    ),
    (r"ProxyError.*refused", "proxy", "the proxy {proxy} refused the connection"),
    (r"gaierror|NameResolutionError", "dns", "the host name {host} cannot be resolved"),
    (r"CERTIFICATE_VERIFY_FAILED\] certificate verify failed: (.*?) \(_ssl", "tls", "{1}"),
    (r"invalid path: (.*?)['\")]", "tls", "the certificates in {1} cannot be read"),
    (r"SSL", "tls", "no TLS connection"),
    (r"refused", "refused", "{host} refused the connection"),
    (r"[Tt]imed? ?out", "timeout", "{host} does not respond"),
    (r"BadStatusLine|InvalidHeader|HTTP/0\.9|RemoteDisconnected", "server", "the response is not HTTP"),
    (r"", "unreachable", "{host} cannot be reached ({error})"),
)
DEADLINE_S = 5.0
_PORTS = {"https": 443, "http": 80, "git": 9418, "ssh": 22}
_CA_FILES = ("PIP_CERT", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "SSL_CERT_FILE", "GIT_SSL_CAINFO")
_PROXY_AUTHENTICATION, _SERVER_ERROR = 407, 500


def server_of(url: str) -> str:
    """Return scheme://host[:port] of a URL, without user and password; empty where it names no server."""
    if not _sound_port(url):
        return ""
    parts = urlsplit(url)
    if not parts.hostname or parts.scheme not in _PORTS:
        return ""
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    return f"{parts.scheme}://{host}{f':{parts.port}' if parts.port else ''}"


def proxy_for(server: str, environ: Mapping[str, str]) -> str:
    """Return the proxy for a server from the variables, as curl, git and requests read them, or ""."""
    from urllib.request import proxy_bypass_environment  # type: ignore[attr-defined]  # noqa: PLC0415 - http

    parts = urlsplit(server)
    exempt = environ.get("no_proxy") or environ.get("NO_PROXY", "")
    if proxy_bypass_environment(parts.hostname or "", {"no": exempt}):
        return ""
    names = [f"{parts.scheme}_proxy", "all_proxy"]
    # HTTP_PROXY in capitals is not read by curl and git: a CGI script would get it from a header.
    capitals = [name.upper() for name in names if name != "http_proxy"]
    return next((environ[name] for name in (*names, *capitals) if environ.get(name)), "")


def reach_all(
    servers: Iterable[str], environ: Mapping[str, str], *, deadline_s: float = DEADLINE_S
) -> dict[str, tuple[str, str]]:
    """Contact all servers in parallel; return server -> cause and detail, both empty where it responded."""
    found: dict[str, tuple[str, str]] = {}

    def ask(server: str) -> None:
        found[server] = _reach(server, environ, deadline_s)

    # Looking up a name cannot be given a deadline, so a thread that does not come back is left behind.
    threads = [threading.Thread(target=ask, args=(server,), daemon=True) for server in servers]
    for thread in threads:
        thread.start()
    until = time.monotonic() + deadline_s + 0.5
    for thread in threads:
        thread.join(max(0.0, until - time.monotonic()))
    late = ("timeout", f"no response within {deadline_s:g} s")
    return {server: found.get(server, late) for server in servers}


def _reach(server: str, environ: Mapping[str, str], deadline_s: float) -> tuple[str, str]:
    """Return why a server, or its proxy, cannot be reached as git and pip would; no text has a password."""
    import ssl  # noqa: PLC0415 - loads OpenSSL, and few runs have a recipe

    import requests  # noqa: PLC0415

    parts, proxy = urlsplit(server), proxy_for(server, environ)
    via = urlsplit(proxy if "://" in proxy else f"http://{proxy}")
    through = f" (through {server_of(via.geturl()) or 'a proxy'})" if proxy else ""
    socks = via.scheme.startswith("socks")
    try:
        if socks or parts.scheme not in ("http", "https"):
            place = via if socks else parts
            port = place.port or (1080 if socks else _PORTS[parts.scheme])
            socket.create_connection((place.hostname or "", port), deadline_s).close()
            return "", ""
        system = ssl.get_default_verify_paths()
        bundles = (environ.get(name) for name in _CA_FILES)
        with requests.Session() as session:
            session.trust_env = False
            session.verify = next(filter(None, bundles), None) or system.cafile or system.capath or True
            session.proxies = {parts.scheme: via.geturl()} if proxy else {}
            status = session.head(f"{server}/", timeout=deadline_s, allow_redirects=False).status_code
    except (OSError, ValueError) as error:
        text = f"{'ProxyError ' if socks else ''}{error!r}"
        pattern, cause, told = next(item for item in _CAUSES if re.search(item[0], text))
        groups = re.search(pattern, text)
        words = {"host": parts.netloc, "proxy": f"{via.hostname}:{via.port}", "error": type(error).__name__}
        return cause, told.format(
            groups and groups[0], *(groups.groups() if groups else ()), **words
        ) + through
    if status == _PROXY_AUTHENTICATION:
        return "proxy-auth", f"the proxy requires a user name and a password (407){through}"
    return (
        ("proxy", f"the proxy responded with {status}{through}")
        if proxy and status >= _SERVER_ERROR
        else ("", "")
    )
