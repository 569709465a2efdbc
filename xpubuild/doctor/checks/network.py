"""Whether a recipe's servers are reachable, and whether the proxy variables are valid."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING
from urllib.parse import SplitResult, urlsplit

from xpubuild.doctor.kit import BUILD, Fix, Look, Outcome, check, finding, ok, skip, warn
from xpubuild.doctor.look.pip import indexes, settings
from xpubuild.doctor.look.reach import Reached, reach_all, server_of, unreadable

if TYPE_CHECKING:
    from xpubuild.recipe.model import Recipe

_PROXIES = ("http_proxy", "https_proxy", "all_proxy", "ftp_proxy")
_SCHEMES = ("http", "https", "socks5", "socks5h", "socks4", "socks4a")
# Written so that what masks passwords in URLs leaves it readable.
_WITH_USER = "put a user name and password in front of HOST, as USER:PASSWORD@HOST"
_CIDR = re.compile(r"\d+(\.\d+){3}/\d+")


@check(
    "network.proxy",
    profiles=BUILD,
    live=True,
    families=(
        "H-torch-xpu-ops-and-submodule-checkout",
        "Q-triton-llvm-download",
        "S-network-proxy-certificate",
    ),
)
def network_proxy(look: Look) -> Outcome:
    """The proxy variables are valid.

    Reads `http_proxy`, `https_proxy`, `all_proxy` and `no_proxy` in lower and upper case. These are
    failures: a value that is not a URL, a port that is not a number, an unknown scheme, and a password
    with `@`, `/` or `#` that is not written as `%40`, `%2F`, `%23`. These are warnings: the lower-case
    and upper-case values differ (programs disagree on which one they read), only one of http and https
    has a proxy, and `no_proxy` has entries that only some programs support (`*.domain`, networks such
    as 10.0.0.0/8, spaces). Users and passwords in the values are never shown.
    """
    wrong = dict(_malformed(look))
    if wrong:
        told = "; ".join(f"{name} {text}" for name, text in wrong.items())
        fix = Fix(
            f"write them as http://HOST:PORT; {_WITH_USER}",
            tuple(f"export {name}=http://HOST:PORT" for name in wrong),
        )
        return finding(told, fix, variables=sorted(wrong))
    odd = [*_odd(look)]
    if odd:
        return warn("; ".join(detail for detail, _ in odd), _joined([fix for _, fix in odd]))
    used = sorted({_without_user(value) for value in _values(look).values()})
    return ok(f"proxy {', '.join(used)}" if used else "no proxy is set")


def _values(look: Look) -> dict[str, str]:
    names = [spelling for name in _PROXIES for spelling in (name, name.upper())]
    return {name: look.environ[name] for name in names if look.environ.get(name)}


def _without_user(value: str) -> str:
    """Return a sound proxy as scheme://host:port."""
    scheme, _, rest = (value if "://" in value else f"http://{value}").partition("://")
    return f"{scheme}://{rest.rpartition('@')[2].rstrip('/')}"


def _malformed(look: Look) -> Iterator[tuple[str, str]]:
    for name, value in _values(look).items():
        problem = _problem(value)
        if problem:
            yield name, problem


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
        (_port(parts) == 0, "has a port that is not a number between 1 and 65535"),
    ):
        if wrong:
            return problem
    return ""


def _port(parts: SplitResult) -> int | None:
    """Return the port of a URL: None if there is none, 0 if it is invalid."""
    try:
        return parts.port
    except ValueError:
        return 0


def _odd(look: Look) -> Iterator[tuple[str, Fix]]:
    environ = look.environ
    for name in (*_PROXIES, "no_proxy"):
        lower, upper = environ.get(name), environ.get(name.upper())
        if lower and upper and lower != upper:
            fix = Fix("set both spellings to the same value", (f'export {name.upper()}="${name}"',))
            yield f"{name} and {name.upper()} differ", fix
    yield from _one_of_two(environ)
    name = "no_proxy" if environ.get("no_proxy") else "NO_PROXY"
    entries = environ.get(name, "").split(",")
    unclear = [item for item in entries if item != _clear(item) or _CIDR.fullmatch(item)]
    if unclear:
        told = ", ".join(map(repr, unclear[:4]))
        value = shlex.quote(",".join(map(_clear, entries)))
        known = value == shlex.quote(",".join(entries))
        fix = Fix(
            f"in {name}, separate entries with commas only, write .domain instead of *.domain, and list the"
            " hosts of a network one by one",
            () if known else (f"export no_proxy={value} NO_PROXY={value}",),
        )
        yield f"{name} has entries that some programs do not support: {told}", fix


def _one_of_two(environ: Mapping[str, str]) -> Iterator[tuple[str, Fix]]:
    """Yield that only one of http and https has a proxy."""
    has = {
        name: next((item for item in (f"{name}_proxy", f"{name.upper()}_PROXY") if environ.get(item)), None)
        for name in ("http", "https")
    }
    for name, other in (("http", "https"), ("https", "http")):
        from_, to = has[name], has[other]
        if from_ and not to and not (environ.get("all_proxy") or environ.get("ALL_PROXY")):
            command = f'export {other}_proxy="${from_}" {other.upper()}_PROXY="${from_}"'
            yield (
                f"there is no proxy for {other}, but one for {name}",
                Fix(f"set the proxy for {other} too", (command,)),
            )


def _clear(entry: str) -> str:
    """Return an entry of no_proxy without what only some programs understand; a network stays."""
    plain = ",".join(entry.split())
    return plain[1:] if plain.startswith("*.") else plain


def _joined(fixes: Sequence[Fix]) -> Fix:
    summary = "; ".join(dict.fromkeys(fix.summary for fix in fixes))
    return Fix(summary, tuple(command for fix in fixes for command in fix.commands))


@check(
    "network.reach",
    profiles=BUILD,
    needs=("network.proxy",),
    live=True,
    families=(
        "H-torch-xpu-ops-and-submodule-checkout",
        "Q-triton-llvm-download",
        "S-network-proxy-certificate",
    ),
)
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
    recipe = look.wanted
    if recipe is None and "network.reach" not in look.asked:
        return skip("needs a recipe (--recipe)")
    recipe = recipe or _newest()
    needed: dict[str, bool] = {}
    urls = tuple(_urls(look, recipe)) if recipe else ()
    if any(unreadable(url) for url, _ in urls):
        return _unreadable(look)
    for url, must in urls:
        if server := server_of(url):
            needed[server] = must or needed.get(server, False)
    servers = list(needed)
    if not servers:
        return skip("the recipe downloads nothing")
    answers = reach_all(servers, look.environ)
    bad = [answer for answer in answers if answer.cause]
    evidence = {"servers": {answer.server: answer.cause or "ok" for answer in answers}}
    if not bad:
        of = f"; these are the servers of {recipe.name}" if recipe and look.recipe is None else ""
        return ok(f"{', '.join(servers)} responded{of}", **evidence)
    told = "; ".join(f"{answer.server}: {answer.detail}{_through(answer)}" for answer in bad)
    if any(needed[answer.server] for answer in bad):
        return finding(told, _fix(bad), **evidence)
    return warn(told, _fix(bad), **evidence)


def _unreadable(look: Look) -> Outcome:
    origins = [
        item.origin
        for item in settings(look)
        if item.name in ("index-url", "extra-index-url") and any(map(unreadable, item.value.split()))
    ]
    where = " and ".join(dict.fromkeys(origins)) or "the recipe"
    fix = Fix(
        f"use the form https://HOST/simple or https://HOST:PORT/simple; {_WITH_USER}",
        tuple(
            f"export {name}=https://HOST/simple" if name.startswith("PIP_") else f"cat {shlex.quote(name)}"
            for name in dict.fromkeys(origins)
        ),
    )
    return finding(f"{where} contains a server address that is not a URL", fix, origins=origins)


def _through(answer: Reached) -> str:
    return f" (through {answer.proxy})" if answer.proxy else ""


def _newest() -> Recipe | None:
    """Return the newest release whose commit is known, as ``install`` without a recipe would take it."""
    from xpubuild.recipe.releases import releases  # noqa: PLC0415 - pydantic, and only without a recipe

    return next((item.recipe for item in releases() if item.pinned and item.recipe.release), None)


def _urls(look: Look, recipe: Recipe) -> Iterator[tuple[str, bool]]:
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
    yield from ((index, True) for index in indexes(look))


_FIXES: dict[str, Fix] = {
    "tls": Fix(
        "a proxy that intercepts TLS has its own CA: get its bundle (PEM) and configure git and pip to"
        " use it",
        (
            "export SSL_CERT_FILE=/path/to/ca-bundle.pem REQUESTS_CA_BUNDLE=/path/to/ca-bundle.pem",
            "export GIT_SSL_CAINFO=/path/to/ca-bundle.pem PIP_CERT=/path/to/ca-bundle.pem",
        ),
    ),
    "proxy-auth": Fix(
        "put the user name and password into the proxy variables",
        (
            "login=USER:PASSWORD",
            'export https_proxy=http://"$login"@HOST:PORT http_proxy=http://"$login"@HOST:PORT',
        ),
    ),
    "proxy": Fix("correct or unset the proxy variables", ("env | grep -i _proxy=",)),
    "dns": Fix(
        "fix name resolution, or set the proxy that this network needs",
        ("getent hosts {host}", "export https_proxy=http://HOST:PORT http_proxy=http://HOST:PORT"),
    ),
}
_OTHERWISE = Fix(
    "set the proxy that this network needs, or fill a mirror on a host with network access and install"
    " from it",
    ("export https_proxy=http://HOST:PORT http_proxy=http://HOST:PORT", "xpubuild fetch --help"),
)


def _fix(bad: list[Reached]) -> Fix:
    for cause, fix in _FIXES.items():
        server = next((answer.server for answer in bad if answer.cause == cause), None)
        if server is not None:
            host = shlex.quote(urlsplit(server).hostname or "")
            return Fix(fix.summary, tuple(line.replace("{host}", host) for line in fix.commands))
    return _OTHERWISE
