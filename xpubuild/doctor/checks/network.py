"""Whether what a recipe fetches can be reached, and whether the proxy variables make sense."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from urllib.parse import SplitResult, urlsplit

from xpubuild.doctor.context import Context
from xpubuild.doctor.look.pip import indexes, settings
from xpubuild.doctor.look.reach import Reached, reach_all, server_of, unreadable
from xpubuild.doctor.model import Check, Fix, Outcome

_PROXIES = ("http_proxy", "https_proxy", "all_proxy", "ftp_proxy")
_SCHEMES = ("http", "https", "socks5", "socks5h", "socks4", "socks4a")
# Written so that what masks passwords in URLs leaves it readable.
_WITH_USER = "a user and a password stand before HOST, as USER:PASSWORD and then an @"
_CIDR = re.compile(r"\d+(\.\d+){3}/\d+")


class NetworkProxy(Check):
    """The proxy variables can be read and agree with each other."""

    id = "network.proxy"
    title = "The proxy variables make sense"
    live = True
    profiles = frozenset({"build"})
    families = ("H-torch-xpu-ops-and-submodule-checkout", "Q-triton-llvm-download")
    explanation = """\
Reads `http_proxy`, `https_proxy`, `all_proxy` and `no_proxy` in both spellings. A value that is no URL,
a port that is no number, an unknown scheme, or a password with `@`, `/` or `#` that is not written as
`%40`, `%2F`, `%23` is a failure. Warnings: the two spellings differ (programs do not agree on which
they read), only one of http and https has a proxy, `no_proxy` has entries that only some programs
understand (`*.domain`, networks such as 10.0.0.0/8, blanks). No value is shown with its user and
password.
"""

    def run(self, context: Context) -> Outcome:
        wrong = dict(_malformed(context))
        if wrong:
            told = "; ".join(f"{name} {text}" for name, text in wrong.items())
            fix = Fix(
                f"write them as http://HOST:PORT; {_WITH_USER}",
                tuple(f"export {name}=http://HOST:PORT" for name in wrong),
            )
            return self.found(told, fix, variables=sorted(wrong))
        odd = [*_odd(context)]
        if odd:
            return self.warn(
                "; ".join(odd), Fix("set both spellings alike, for http and https", _alike(context))
            )
        used = sorted({_without_user(value) for value in _values(context).values()})
        return self.ok(f"proxy {', '.join(used)}" if used else "no proxy is set")


def _values(context: Context) -> dict[str, str]:
    names = [spelling for name in _PROXIES for spelling in (name, name.upper())]
    return {name: context.environ[name] for name in names if context.environ.get(name)}


def _without_user(value: str) -> str:
    """Return a sound proxy as scheme://host:port."""
    scheme, _, rest = (value if "://" in value else f"http://{value}").partition("://")
    return f"{scheme}://{rest.rpartition('@')[2].rstrip('/')}"


def _malformed(context: Context) -> Iterator[tuple[str, str]]:
    for name, value in _values(context).items():
        problem = _problem(value)
        if problem:
            yield name, problem


def _problem(value: str) -> str:
    if value != value.strip() or value[:1] in "'\"":
        return "has blanks or quotes around it"
    text = value if "://" in value else f"http://{value}"
    try:
        parts = urlsplit(text)
    except ValueError:
        return "has brackets without the address of a host in them (an IPv6 address is written as [::1])"
    rest = text.partition("://")[2].rstrip("/")
    password = "@" in rest and (rest.count("@") > 1 or re.search(r"[/#?]", rest))
    for wrong, problem in (
        (parts.scheme not in _SCHEMES, f"has the unknown scheme '{parts.scheme}'"),
        (password, "has a password with signs that must be written as %40 (@), %2F (/), %23 (#)"),
        (re.search(r"[/#?]", rest), "has something behind its port"),
        (not parts.hostname or re.search(r"[\s'\"$]", parts.hostname), "names no host"),
        (_port(parts) == 0, "has a port that is no number between 1 and 65535"),
    ):
        if wrong:
            return problem
    return ""


def _port(parts: SplitResult) -> int | None:
    """Return the port of a URL: None where it names none, 0 where it is none."""
    try:
        return parts.port
    except ValueError:
        return 0


def _odd(context: Context) -> Iterator[str]:
    environ = context.environ
    for name in (*_PROXIES, "no_proxy"):
        lower, upper = environ.get(name), environ.get(name.upper())
        if lower and upper and lower != upper:
            yield f"{name} and {name.upper()} differ"
    has = {
        name: environ.get(f"{name}_proxy") or environ.get(f"{name.upper()}_PROXY")
        for name in ("http", "https")
    }
    if (
        any(has.values())
        and not all(has.values())
        and not (environ.get("all_proxy") or environ.get("ALL_PROXY"))
    ):
        missing = "https" if has["http"] else "http"
        yield f"there is no proxy for {missing}, and one for {'http' if has['http'] else 'https'}"
    exempt = environ.get("no_proxy") or environ.get("NO_PROXY", "")
    unclear = [
        item
        for item in exempt.split(",")
        if item != item.strip() or " " in item.strip() or item.startswith("*.") or _CIDR.fullmatch(item)
    ]
    if unclear:
        yield f"no_proxy has entries that not every program understands: {', '.join(map(repr, unclear[:4]))}"


def _alike(context: Context) -> tuple[str, ...]:
    names = ("https_proxy", "HTTPS_PROXY", "http_proxy", "HTTP_PROXY")
    known = next((name for name in names if context.environ.get(name)), None)
    return ("export " + " ".join(f'{name}="${known}"' for name in names if name != known),) if known else ()


class NetworkReach(Check):
    """The git servers and package indexes of the recipe answer."""

    id = "network.reach"
    title = "What the recipe fetches can be reached"
    needs = ("network.proxy",)
    live = True
    recipe = True
    profiles = frozenset({"build"})
    deadline_s = 8.0
    families = ("H-torch-xpu-ops-and-submodule-checkout", "Q-triton-llvm-download")
    explanation = """\
Asks every server that the recipe names (git hosts of sources and of what CMake clones while it
configures, the package indexes of pip and of the recipe) as git and pip would: through the proxy of the
variables, trusting the bundles that `SSL_CERT_FILE`, `REQUESTS_CA_BUNDLE`, `PIP_CERT`, `CURL_CA_BUNDLE`
and `GIT_SSL_CAINFO` name. Any HTTP answer counts. All are asked at once, within 5 seconds. An index
that only the recipe names is a warning: pip asks it after its own.

* *name not known*: no DNS, or a proxy is needed and not set;
* *refused, no answer*: a firewall;
* *407*: the proxy wants a user and a password;
* *certificate*: a proxy that opens TLS signs with a CA of its own: its bundle must be named.

A host that shall stay without network installs from a mirror that `xpubuild fetch` filled elsewhere.
"""

    def run(self, context: Context) -> Outcome:
        needed: dict[str, bool] = {}
        urls = tuple(_urls(context))
        if any(unreadable(url) for url, _ in urls):
            return self._unreadable(context)
        for url, must in urls:
            if server := server_of(url):
                needed[server] = must or needed.get(server, False)
        servers = list(needed)
        if not servers:
            return self.skip("the recipe fetches nothing over the network")
        answers = reach_all(servers, context.environ)
        bad = [answer for answer in answers if answer.cause]
        evidence = {"servers": {answer.server: answer.cause or "ok" for answer in answers}}
        if not bad:
            return self.ok(f"{', '.join(servers)} answer", **evidence)
        told = "; ".join(f"{answer.server}: {answer.detail}{_through(answer)}" for answer in bad)
        if any(needed[answer.server] for answer in bad):
            return self.found(told, _fix(bad), **evidence)
        return self.warn(told, _fix(bad), **evidence)

    def _unreadable(self, context: Context) -> Outcome:
        origins = [
            item.origin
            for item in context.probe(settings)
            if item.name in ("index-url", "extra-index-url") and any(map(unreadable, item.value.split()))
        ]
        where = " and ".join(dict.fromkeys(origins)) or "the recipe"
        fix = Fix(
            f"write https://HOST/simple (with a port: https://HOST:PORT/simple) there; {_WITH_USER}",
            tuple(
                f"export {name}=https://HOST/simple"
                if name.startswith("PIP_")
                else f"cat {shlex.quote(name)}"
                for name in dict.fromkeys(origins)
            ),
        )
        return self.found(f"{where} names a server by what is no URL", fix, origins=origins)


def _through(answer: Reached) -> str:
    return f" (through {answer.proxy})" if answer.proxy else ""


def _urls(context: Context) -> Iterator[tuple[str, bool]]:
    """Yield (URL, whether a build cannot do without it)."""
    recipe = context.recipe.recipe if context.recipe else None
    if recipe is None:
        return
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
    yield from ((index, True) for index in indexes(context))


_FIXES: dict[str, Fix] = {
    "tls": Fix(
        "a proxy that opens TLS has a CA of its own: ask for its bundle (PEM) and name it for git and pip",
        (
            "export SSL_CERT_FILE=/path/to/ca-bundle.pem REQUESTS_CA_BUNDLE=/path/to/ca-bundle.pem",
            "export GIT_SSL_CAINFO=/path/to/ca-bundle.pem PIP_CERT=/path/to/ca-bundle.pem",
        ),
    ),
    "proxy-auth": Fix(
        "put the user and the password into the proxy variables",
        (
            "login=USER:PASSWORD",
            'export https_proxy=http://"$login"@HOST:PORT http_proxy=http://"$login"@HOST:PORT',
        ),
    ),
    "proxy": Fix("mend or unset the proxy variables", ("env | grep -i _proxy=",)),
    "dns": Fix(
        "mend the name service, or set the proxy that this network needs",
        ("getent hosts github.com", "export https_proxy=http://HOST:PORT http_proxy=http://HOST:PORT"),
    ),
}
_OTHERWISE = Fix(
    "set the proxy that this network needs, or fill a mirror on a host with network and install from it",
    ("export https_proxy=http://HOST:PORT http_proxy=http://HOST:PORT", "xpubuild fetch --help"),
)


def _fix(bad: list[Reached]) -> Fix:
    causes = [answer.cause for answer in bad]
    return next((fix for cause, fix in _FIXES.items() if cause in causes), _OTHERWISE)
