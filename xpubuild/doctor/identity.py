"""Removes from a text what identifies a person or a site.

A bug report is public. When in doubt, text is masked: a word that happens to be this machine's name is masked
everywhere.
"""

from __future__ import annotations

import ipaddress
import os
import pwd
import re
import socket
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from xpubuild.engine.redact import Redactor
from xpubuild.frozen import frozen
from xpubuild.machine.readers import read_text

_SHORTEST = 2
# passwd(5) counts from 1; the ranges of ids are those of login.defs(5).
_PASSWD_HOME = 5
_PEOPLE = range(1000, 60000)
#: Account and host names that do not identify a person or a site.
_COMMON_USERS = frozenset({
    "root", "nobody", "user", "admin", "ubuntu", "debian", "runner", "docker", "build", "builder", "jenkins",
    "daemon", "bin", "sys", "sync", "games", "mail", "video", "render", "intel", "vscode",
    "centos", "ec2-user",
})  # fmt: skip
_COMMON_HOSTS = frozenset({"localhost", "localdomain", "localhost.localdomain", "none", "(none)", "linux"})
_USER_NAMES = (
    "USER", "LOGNAME", "USERNAME", "SUDO_USER", "SLURM_JOB_USER", "SLURM_JOB_ACCOUNT", "PBS_O_LOGNAME",
)  # fmt: skip
_HOST_NAMES = (
    "HOSTNAME", "HOST", "SLURMD_NODENAME", "SLURM_SUBMIT_HOST", "SLURM_CLUSTER_NAME", "SLURM_NODELIST",
    "SLURM_JOB_NODELIST", "PBS_O_HOST", "PBS_SERVER", "LSB_HOSTS", "SSH_CONNECTION", "SSH_CLIENT", "DISPLAY",
)  # fmt: skip
_HOMES = ("HOME", "PBS_O_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_CACHE_HOME", "XDG_STATE_HOME")
_DMI = ("product_serial", "product_uuid", "board_serial", "chassis_serial", "chassis_asset_tag")
_SECRET_KEY = re.compile(
    r"serial|uuid|guid|\bmac(_|$)|asset|hostname|nodename|user_?name|e_?mail|_(pw|pass|key)$", re.IGNORECASE
)

# A path through a folder of homes, wherever it is mounted: /home/x, /gpfs/users/x, /global/homes/x/xavier.
# Options of compilers may stand right before it (-I/home/x). What
# looks like the path of a URL is part of it where the host is empty (file:///home/x).
_HOME = re.compile(
    r"(?:(?<![\w.~/])(?!(?<=:)//)|(?<=://)|(?<=-[BFIL])|(?<=-isystem))/+(?:[\w.+@-]{1,64}/+){0,6}?"
    r"(?:home\d{0,2}|homes|[Uu]sers|people)/+(?:[A-Za-z]{1,2}/+)?(?P<name>[^/\s'\":;,]+)"
)
# A setting inside a value, such as -DKEY=... in CMAKE_ARGS: its variable's own name says nothing.
_SETTING = re.compile(
    r"(?P<name>(?:passw(?:or)?d|passphrase|token|secret|credentials?|key)=)(?:\"[^\"]*\"|'[^']*'|\S+)",
    re.IGNORECASE,
)
_MAIL = re.compile(r"[\w.+-]{1,64}@[\w-]{1,64}(?:\.[\w-]{1,64}){1,6}")
_MAC = re.compile(r"(?<![\w:-])[0-9A-Fa-f]{2}(?:[:-][0-9A-Fa-f]{2}){5,19}(?![\w:-])")
_UUID = re.compile(r"(?<![\w-])[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}(?![\w-])")
_MACHINE_ID = re.compile(r"(?<![\w-])[0-9a-f]{32}(?![\w-])")
_SERIAL = re.compile(
    r"(?P<name>\b(?:serial(?:[ _-]?(?:number|no|num))?|s/n|asset tag)\b['\"]?\s{0,3}[:=#]?\s{0,3}['\"]?)"
    r"(?P<value>[\w.-]*\d[\w.-]*)",
    re.IGNORECASE,
)
_IPV4 = re.compile(r"(?<![\w.-])\d{1,3}(?:\.\d{1,3}){3}(?![\w-]|\.\d)")
_IPV6 = re.compile(r"(?<![\w:.])[0-9A-Fa-f:]{0,39}::?[0-9A-Fa-f:]{0,39}(?:%\w{1,15})?(?![\w:])")
_URL_HOST = re.compile(r"(?P<scheme>[a-zA-Z][\w+.-]{0,30}://)(?P<user>[^/\s@'\"]*@)?(?P<host>[^/\s:'\"\]]+)")
#: Hosts of upstream that everybody knows; any other in a URL may be a site's own.
_PUBLIC = re.compile(
    r"(?:^|\.)(?:github\.com|githubusercontent\.com|gitlab\.com|pytorch\.org|intel\.com|python\.org"
    r"|kernel\.org|launchpad\.net|huggingface\.co)$",
    re.IGNORECASE,
)


@frozen
class Identity:
    """Known personal data: names, which are matched as whole words, and home folders."""

    users: frozenset[str] = frozenset()
    hosts: frozenset[str] = frozenset()
    homes: frozenset[str] = frozenset()
    serials: frozenset[str] = frozenset()

    @classmethod
    def of(cls, environ: Mapping[str, str], root: Path = Path("/")) -> Identity:
        """Collect what this process can read; all of it is optional, so nothing is raised."""
        users = {value for name in _USER_NAMES if (value := environ.get(name))}
        homes = {value for name in _HOMES if (value := environ.get(name))}
        for name, home in _people(root):
            users.add(name)
            homes.add(home)
        try:
            me = pwd.getpwuid(os.getuid())
        except KeyError:  # a user id without an account, as containers have
            pass
        else:
            users.update((me.pw_name, *me.pw_gecos.split(",")))
            homes.add(me.pw_dir)
        serials = {read_text(root / "sys/class/dmi/id" / name, root) for name in _DMI}
        return cls(
            frozenset(_words(users, _COMMON_USERS)),
            frozenset(_words(_hosts(environ, root), _COMMON_HOSTS)),
            frozenset(home.rstrip("/") for home in homes if len(home.rstrip("/")) > 1),
            frozenset(_words((item for item in serials if item), frozenset({"none", "default string"}))),
        )


def identity_of(environ: Mapping[str, str], root: Path) -> Identity:
    """Return the personal data of this machine and of the inspected one."""
    here, there = Identity.of(environ), Identity.of({}, root)
    users, hosts = here.users | there.users, here.hosts | there.hosts
    return Identity(users, hosts, here.homes | there.homes, here.serials | there.serials)


class Anonymiser:
    """Returns text without credentials (``engine.redact``) and without personal data."""

    def __init__(self, identity: Identity, redactor: Redactor) -> None:
        self._redact = redactor
        self._homes = sorted(identity.homes, key=len, reverse=True)
        self._words = [
            (_whole(identity.serials), "SERIAL"),
            (_whole(identity.hosts, re.IGNORECASE), "HOST"),
            (_whole(identity.users), "USER"),
        ]

    def __call__(self, text: str) -> str:
        """Return ``text`` with personal data masked."""
        text = _SETTING.sub(r"\g<name>****", self._redact(text))
        for home in self._homes:
            text = re.sub(rf"(?<![\w.]){re.escape(home)}(?![\w.-])", "~", text)
        text = _HOME.sub("~", text)
        text = _MAIL.sub("MAIL", text)
        text = _URL_HOST.sub(_url, text)
        for pattern, mask in self._words:
            text = pattern.sub(mask, text) if pattern else text
        text = _SERIAL.sub(r"\g<name>SERIAL", text)
        for pattern, mask in ((_UUID, "UUID"), (_MACHINE_ID, "UUID"), (_MAC, "MAC")):
            text = pattern.sub(mask, text)
        return _IPV6.sub(_address, _IPV4.sub(_address, text))

    def tree(self, value: object, key: str = "") -> object:
        """Return plain JSON with personal data masked; values of keys that mark secrets are masked
        completely."""
        if isinstance(value, Mapping):
            return {self(str(name)): self.tree(item, str(name)) for name, item in value.items()}
        if isinstance(value, (list, tuple)):
            return [self.tree(item, key) for item in value]
        if key and _SECRET_KEY.search(key) and value not in (None, "", True, False):
            return "MASKED"
        return self(value) if isinstance(value, str) else value


def _hosts(environ: Mapping[str, str], root: Path) -> Iterator[str]:
    named = [environ.get(name, "") for name in _HOST_NAMES]
    named += [os.uname().nodename, socket.gethostname(), read_text(root / "etc/hostname", root) or ""]
    for name in " ".join(named).replace(",", " ").split():
        yield name
        # node0123.cluster.example: each part of the domain is the site's too, its end is everybody's.
        labels = name.split(".")
        yield labels[0]
        if len(labels) > _SHORTEST:
            yield ".".join(labels[1:])
    for line in (read_text(root / "etc/resolv.conf", root) or "").splitlines():
        keyword, *values = line.split() or [""]
        if keyword in ("search", "domain"):
            yield from values


def _words(names: Iterable[str], common: frozenset[str]) -> Iterator[str]:
    for name in names:
        name = name.strip()  # noqa: PLW2901
        # A number alone (display ':0', a port) would mask numbers everywhere.
        if len(name) >= _SHORTEST and name.lower() not in common and not name.strip(":.").isdigit():
            yield name


def _whole(names: Iterable[str], flags: int = 0) -> re.Pattern[str] | None:
    """Return a pattern for these names as whole words; an underscore separates words (alice_scratch)."""
    ordered = sorted(names, key=len, reverse=True)
    any_of = "|".join(map(re.escape, ordered))
    return re.compile(rf"(?<![A-Za-z0-9])(?:{any_of})(?![A-Za-z0-9])", flags) if ordered else None


def _people(root: Path) -> Iterator[tuple[str, str]]:
    """Yield name and home folder of personal accounts; service accounts are the same everywhere."""
    for line in (read_text(root / "etc/passwd", root) or "").splitlines():
        fields = line.split(":")
        if len(fields) > _PASSWD_HOME and fields[2].isdigit() and int(fields[2]) in _PEOPLE:
            yield fields[0], fields[_PASSWD_HOME]


def _url(match: re.Match[str]) -> str:
    host = match["host"]
    masked = host if _PUBLIC.search(host) or host.lower() in _COMMON_HOSTS else "HOST"
    return f"{match['scheme']}{'****@' if match['user'] else ''}{masked}"


def _address(match: re.Match[str]) -> str:
    text = match[0]
    try:
        address = ipaddress.ip_address(text.partition("%")[0])
    except ValueError:  # a version, a time, a PCI address, a name of C++
        return text
    return text if address.is_loopback or address.is_unspecified else "ADDRESS"
