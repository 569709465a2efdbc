"""Whether the proxy variables are valid, a recipe's servers answer, and the indexes have its wheels."""

from __future__ import annotations

import re
import shlex
import socket
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from xpubuild.doctor.kit import BUILD, Look, Outcome, check, finding, ok, skip, todo, warn
from xpubuild.errors import ToolchainError
from xpubuild.supply.index.pipconf import local_path, pip_settings, switched_on

if TYPE_CHECKING:
    from xpubuild.recipe.model import Recipe

_PROXIES = ("http_proxy", "https_proxy", "all_proxy", "ftp_proxy")
_SCHEMES = ("http", "https", "socks5", "socks5h", "socks4", "socks4a")
#: Scheme -> the port where a URL names none; what is not here is not contacted.
_PORTS = dict.fromkeys(_SCHEMES, 1080) | {"http": 80, "https": 443, "git": 9418, "ssh": 22}
# Written so that what masks passwords in URLs leaves it readable.
_WITH_USER = "put a user name and password in front of HOST, as USER:PASSWORD@HOST"


@check("network.proxy", profiles=BUILD, live=True)
def network_proxy(look: Look) -> Outcome:
    """The proxy variables are valid.

    Reads `http_proxy`, `https_proxy`, `all_proxy` and `no_proxy` in lower and upper case. These are
    failures: a value that is not a URL, a port that is not a number, an unknown scheme, and a password
    with `@`, `/` or `#` that is not written as `%40`, `%2F`, `%23`. Lower-case and upper-case values that
    differ are a warning: programs disagree on which one they read. Users and passwords in the values are
    never shown.
    """
    names = [spelling for name in _PROXIES for spelling in (name, name.upper())]
    values = {name: value for name in names if (value := look.environ.get(name))}
    wrong = {name: problem for name, value in values.items() if (problem := _problem(value))}
    if wrong:
        shown = "; ".join(f"{name} {text}" for name, text in wrong.items())
        lines = (f"export {name}=http://HOST:PORT" for name in wrong)
        fix = todo(f"write them as http://HOST:PORT; {_WITH_USER}", *lines)
        return finding(shown, fix, variables=sorted(wrong))
    spelt = (
        (name, look.environ.get(name), look.environ.get(name.upper())) for name in (*_PROXIES, "no_proxy")
    )
    if differ := [name for name, lower, upper in spelt if lower and upper and lower != upper]:
        shown = "; ".join(f"{name} and {name.upper()} differ" for name in differ)
        lines = (f'export {name.upper()}="${name}"' for name in differ)
        return warn(shown, todo("set both spellings to the same value", *lines))
    used = sorted({server_of(value if "://" in value else f"http://{value}") for value in values.values()})
    return ok(f"proxy {', '.join(used)}" if used else "no proxy is set")


def _problem(value: str) -> str:
    text = value if "://" in value else f"http://{value}"
    rest = text.partition("://")[2].rstrip("/")
    password = "@" in rest and (rest.count("@") > 1 or re.search(r"[/#?]", rest))
    try:
        parts = urlsplit(text)
        sound_port = parts.port != 0
    except ValueError:
        sound_port = False
    named = sound_port and parts.hostname and not re.search(r"[\s'\"$]", parts.hostname)
    problems = {
        "has spaces or quotes around it": value != value.strip() or value[:1] in "'\"",
        "has a password with characters that must be written as %40 (@), %2F (/), %23 (#)": password,
        "has extra text after its port": re.search(r"[/#?]", rest),
        "has a port that is not a number between 1 and 65535, or brackets around no address": not sound_port,
        f"has the unknown scheme '{text.partition(':')[0]}'": sound_port and parts.scheme not in _SCHEMES,
        "has no host": not named,
    }
    return next((problem for problem, wrong in problems.items() if wrong), "")


@check("network.reach", profiles=BUILD, needs="network.proxy", live=True)
def network_reach(look: Look) -> Outcome:
    """The servers that the recipe downloads from are reachable.

    Contacts every server that the recipe uses (git hosts of sources and of repositories that CMake
    clones while it configures, the package indexes of pip and of the recipe) as git and pip would:
    through the configured proxy, trusting the certificate bundles in `SSL_CERT_FILE`,
    `REQUESTS_CA_BUNDLE`, `PIP_CERT`, `CURL_CA_BUNDLE` and `GIT_SSL_CAINFO`. Any HTTP response is
    sufficient, and for another protocol a connection. Of a SOCKS proxy, only whether it accepts connections
    is tested: the servers behind it are "not asked". All servers are contacted in parallel, within 5 seconds.
    An unreachable index that only the recipe lists is a warning, because pip tries its own indexes first.

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
        settings = pip_settings(look.environ)
    except ToolchainError as error:
        return finding(f"{error.what}: {error.why}", todo(error.fix, *error.commands))
    own = () if switched_on(settings.get("no-index")) else ("index-url", "extra-index-url")
    indexes = " ".join(settings.get(name, "") for name in own).split()
    if not all(server_of(index) or local_path(index) for index in indexes):
        form = "index-url and extra-index-url have the form https://HOST/simple or https://HOST:PORT/simple"
        fix = todo(f"correct it; {_WITH_USER}", "pip config debug")
        return finding(f"pip's configuration has what is not the URL of a package index: {form}", fix)
    needed: dict[str, bool] = {}
    for url, must in (*(_urls(recipe) if recipe else ()), *((index, True) for index in indexes)):
        if server := server_of(url):
            needed[server] = must or needed.get(server, False)
    if not needed:
        return skip("the recipe downloads nothing")
    answers = reach_all(needed, look.environ)
    bad = {server: answer for server, answer in answers.items() if answer[0]}
    states = {
        server: cause or ("not asked" if detail else "ok") for server, (cause, detail) in answers.items()
    }
    evidence = {"servers": states}
    if not bad:
        same: dict[str, list[str]] = {}
        for server, (_, detail) in answers.items():
            same.setdefault(detail or "responded", []).append(server)
        shown = "; ".join(f"{', '.join(servers)} {detail}" for detail, servers in same.items())
        of = f"; these are the servers of {recipe.name}" if recipe and look.recipe is None else ""
        return ok(shown + of, **evidence)
    shown = "; ".join(f"{server}: {detail}" for server, (_, detail) in bad.items())
    server = min(bad, key=lambda name: list(_FIXES).index(bad[name][0]))
    summary, *commands = _FIXES[bad[server][0]]
    host = shlex.quote(urlsplit(server).hostname or "")
    fix = todo(summary, *(line.replace("{host}", host) for line in commands))
    answer = finding if any(needed[name] for name in bad) else warn
    return answer(shown, fix, **evidence)


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
    _PROXY_LINE, "xpubuild fetch --help",
)  # fmt: skip
#: Cause -> what to do and what to type; of several causes the first counts.
_FIXES: dict[str, tuple[str, ...]] = {
    "tls": (
        "a proxy that intercepts TLS has its own CA: get its bundle (PEM) and have git and pip use it",
        "export SSL_CERT_FILE=/path/to/ca-bundle.pem REQUESTS_CA_BUNDLE=/path/to/ca-bundle.pem",
        "export GIT_SSL_CAINFO=/path/to/ca-bundle.pem PIP_CERT=/path/to/ca-bundle.pem"),
    "proxy-auth": (
        "put the user name and password into the proxy variables", "login=USER:PASSWORD",
        'export https_proxy=http://"$login"@HOST:PORT http_proxy=http://"$login"@HOST:PORT'),
    "proxy": ("correct or unset the proxy variables", "env | grep -i _proxy="),
    "dns": ("fix name resolution, or set the proxy that this network needs", "getent hosts {host}",
            _PROXY_LINE),
    **dict.fromkeys(("refused", "timeout", "server", "unreachable"), _ELSEWHERE),
}  # fmt: skip
#: What is in the exception of a request and in its causes -> cause, and its message.
_CAUSES = (
    (r"Tunnel connection failed: 407", "proxy-auth", "the proxy requires a user name and a password (407)"),
    (r"Tunnel connection failed: (\d+)", "proxy", "the proxy does not forward: it responded with {1}"),
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
_CA_FILES = ("PIP_CERT", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "SSL_CERT_FILE", "GIT_SSL_CAINFO")
_PROXY_AUTHENTICATION, _SERVER_ERROR = 407, 500


def server_of(url: str) -> str:
    """Return scheme://host[:port] of a URL, without user and password; empty where it names no server."""
    try:
        parts = urlsplit(url)
        names_one = parts.hostname and parts.port != 0 and parts.scheme in _PORTS
    except ValueError:
        return ""
    # With '@' further on, what stands here may be the start of a password with '/' or '#'. After a plain
    # host.domain it is part of the path: some services have indexes such as /FEED@VIEW/simple.
    late = "@" in f"{parts.path}{parts.query}{parts.fragment}"
    if not names_one or (late and not re.fullmatch(r"[\w-]+(\.[\w-]+)+", parts.netloc)):
        return ""
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"


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
    """Contact all servers in parallel; return server -> cause and detail.

    Both are empty where it responded, only the cause where no more than its proxy could be asked.
    """
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

    parts = urlsplit(server)
    of_http = parts.scheme in ("http", "https")
    proxy = proxy_for(server, environ) if of_http else ""  # git and ssh take no proxy from the variables
    via = urlsplit(proxy if "://" in proxy else f"http://{proxy}")
    named, socks = server_of(via.geturl()) or "a proxy", via.scheme.startswith("socks")
    place = named.partition("://")[2]
    through = f" (through {named})" if proxy else ""
    system = ssl.get_default_verify_paths()
    bundles = (environ.get(name) for name in _CA_FILES)
    try:
        if socks or not of_http:
            first = via if socks else parts
            port = first.port or _PORTS.get(first.scheme, 1080)
            socket.create_connection((first.hostname or "", port), deadline_s).close()
            return "", f"not asked (behind {named}, which accepts connections)" if socks else ""
        with requests.Session() as session:
            session.trust_env = False
            session.verify = next(filter(None, bundles), None) or system.cafile or system.capath or True
            session.proxies = {parts.scheme: via.geturl()} if proxy else {}
            status = session.head(f"{server}/", timeout=deadline_s, allow_redirects=False).status_code
    except (OSError, ValueError) as error:
        text = f"{'ProxyError ' if socks else ''}{error!r}"
        words = {"host": place if socks else parts.netloc, "proxy": place, "error": type(error).__name__}
        match, cause, shown = next(
            (match, cause, shown) for pattern, cause, shown in _CAUSES if (match := re.search(pattern, text))
        )
        return cause, shown.format(match[0], *match.groups(), **words) + through
    if status == _PROXY_AUTHENTICATION:
        return "proxy-auth", f"the proxy requires a user name and a password (407){through}"
    failed = proxy and status >= _SERVER_ERROR
    return ("proxy", f"the proxy responded with {status}{through}") if failed else ("", "")
