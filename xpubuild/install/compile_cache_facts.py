"""Finds the compile cache of this machine, and how its user has configured it."""

from __future__ import annotations

import functools
import os
import re
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from urllib.parse import urlsplit

from xpubuild.engine.answers import says_itself
from xpubuild.engine.environment import base_environment
from xpubuild.engine.places import existing
from xpubuild.engine.results import QueryResult
from xpubuild.engine.temporary import scratch_folder
from xpubuild.errors import ToolchainError, UsageError
from xpubuild.install.remembered import remembered
from xpubuild.install.request import Compilers, OneapiFacts
from xpubuild.supply.caching import CompileCache, Kind, Wanted

_SETTING = re.compile(r"^\((?P<origin>.*)\) (?P<name>\w+) = (?P<value>.*)$", re.MULTILINE)
_DEFAULT = "default"
#: PyTorch's CONTRIBUTING.md advises 25 GiB; with its default of 5 a build evicts its own objects.
_SIZE = "25G"
#: Settings with which ccache serves objects of other inputs -> the variable that takes them back.
_UNSAFE = {"ignore_options": "CCACHE_IGNOREOPTIONS", "ignore_headers_in_manifest": "CCACHE_IGNOREHEADERS"}
_OF_DISTRIBUTION = Path("/usr/bin")
#: What ccache calls the storage that several machines share: renamed in 4.7.
_REMOTES = {"remote_storage": "CCACHE_REMOTE_STORAGE", "secondary_storage": "CCACHE_SECONDARY_STORAGE"}
#: Settings with which ccache adds no objects: its folder need not be writable.
_READ_ONLY = ("read_only", "read_only_direct")
_CCACHE_SCHEMES = ("file", "http", "redis", "redis+unix")
_SCCACHE_SCHEMES = {
    "redis": "SCCACHE_REDIS_ENDPOINT",
    "rediss": "SCCACHE_REDIS_ENDPOINT",
    "http": "SCCACHE_WEBDAV_ENDPOINT",
    "https": "SCCACHE_WEBDAV_ENDPOINT",
}


def compile_cache(
    wanted: Wanted,
    remote: str | None,
    compilers: Compilers,
    oneapi: OneapiFacts | None,
    caller: Mapping[str, str] = os.environ,
) -> CompileCache | str:
    """Return the cache that builds use; for none why the one that is installed is not used, "" if none is.

    Raises:
        ToolchainError: the one that was asked for is missing or of no use.
        UsageError: it has no such remote storage, or there is no cache to have one.
    """
    environment, reasons, unusable = base_environment(caller), [], ""
    kinds: tuple[Kind, ...] = ("ccache", "sccache")
    for kind in kinds:
        if wanted not in ("auto", kind):
            continue
        path = shutil.which(kind, path=environment["PATH"])
        found = _opened(kind, path, environment, remote) if path else f"{kind} is not on PATH"
        if isinstance(found, CompileCache):
            return _for_compilers(found, compilers, oneapi, environment)
        reasons.append(found)
        unusable = unusable or (found if path else "")
    if wanted in kinds or (remote is not None and wanted == "auto"):
        raise ToolchainError(
            f"no compile cache: {reasons[0]}",
            why=f"it is asked for by {'--compile-cache' if wanted in kinds else '--compile-cache-remote'}",
            fix="install ccache 4.4 or later (package ccache) or sccache, name a folder that you can write to"
            " with CCACHE_DIR, or pass --compile-cache none",
        )
    if remote is not None:
        raise UsageError(
            "--compile-cache-remote has no effect with --compile-cache none", fix="omit one of them"
        )
    return unusable


def _opened(kind: Kind, path: str, environment: Mapping[str, str], remote: str | None) -> CompileCache | str:
    url, bar, attributes = (remote or "").partition("|")
    shared = _require_scheme(kind, url) if url else ""
    make = _ccache if kind == "ccache" else _sccache
    return make(path, environment, f"{shared}{bar}{attributes}")


def _require_scheme(kind: Kind, remote: str) -> str:
    """Return the URL of a remote storage, also of one that is named by its folder.

    Raises:
        UsageError: the program has no such storage, or it holds a login, which documents would show.
    """
    url = Path(remote).as_uri() if remote.startswith("/") else remote
    parts = urlsplit(url)
    schemes = _CCACHE_SCHEMES if kind == "ccache" else tuple(_SCCACHE_SCHEMES)
    if parts.scheme not in schemes:
        raise UsageError(
            f"--compile-cache-remote cannot be '{remote}'",
            why=f"{kind} shares objects by {', '.join(schemes)}",
            fix="pass such a URL" + (", or an absolute folder" if kind == "ccache" else ""),
        )
    if parts.username or parts.password:
        raise UsageError(
            "--compile-cache-remote must not have a login",
            why="plan and receipt show it",
            fix=f"put the URL with its login into the configuration of {kind}, which builds read",
        )
    return url


def _ccache(path: str, environment: Mapping[str, str], remote: str) -> CompileCache | str:
    """Return ccache as its user has configured it, or why it is of no use."""
    decides = functools.partial(_configured_by, environment)
    shown = remembered().probe([path, "--show-config"], env=environment, decides=decides).stdout
    settings = {item["name"]: item["value"] for item in _SETTING.finditer(shown)}
    origins = {item["name"]: item["origin"] for item in _SETTING.finditer(shown)}
    variable = next((_REMOTES[name] for name in _REMOTES if name in settings), None)
    if "stats_log" not in settings or variable is None:
        return f"{path} is older than ccache 4.4, which was the first to log what it hits"
    if settings["disable"] == "true":
        return f"the configuration of {path} switches it off"
    refused = "" if "true" in map(settings.get, _READ_ONLY) else _refused(Path(settings["cache_dir"]))
    if refused:
        return f"nothing can be written to {settings['cache_dir']}, the folder of {path}: {refused}"
    told = {_UNSAFE[name]: "" for name in _UNSAFE if settings.get(name)}
    told |= {"CCACHE_COMPILERCHECK": "content", "CCACHE_NOHASHDIR": "1"}
    if origins["max_size"] == _DEFAULT:
        told["CCACHE_MAXSIZE"] = settings["max_size"] = _SIZE
    if remote:
        told[variable] = remote
    shared = remote or next((settings[name] for name in _REMOTES if settings.get(name)), "")
    return CompileCache(
        kind="ccache",
        path=path,
        environment=told,
        hashed=tuple(filter(None, settings["extra_files_to_hash"].split(os.pathsep))),
        sloppiness=settings["sloppiness"],
        place=f"{settings['cache_dir']}, at most {settings['max_size']}"
        + (f", shared by {shared.partition('|')[0]}" if shared else ""),
    )


def _configured_by(
    environment: Mapping[str, str], result: QueryResult, program: Path
) -> Sequence[str] | None:
    """Return the files and folders by which ccache finds its configuration, whether or not they are there.

    Where the system's file lies was decided when ccache was compiled: it is known for a distribution's. The
    rest is in the manual, "Configuration file syntax"; a folder ~/.ccache is what makes it the cache.
    """
    home = environment.get("HOME")
    if not home or program.parent != _OF_DISTRIBUTION or says_itself(program, ["ccache.conf"]) is None:
        return None
    said = {item["name"]: item["value"] for item in _SETTING.finditer(result.stdout)}
    folders = {f"{environment.get('XDG_CONFIG_HOME') or f'{home}/.config'}/ccache", f"{home}/.ccache", "/etc"}
    folders |= {said.get("cache_dir", ""), environment.get("CCACHE_DIR", "")} - {""}
    named = environment.get("CCACHE_CONFIGPATH", "")
    return [*sorted(f"{folder}/ccache.conf" for folder in folders), f"{home}/.ccache", *filter(None, [named])]


def _refused(folder: Path) -> str:
    """Return why ccache can write nothing to its folder, "" if it can; what is tried leaves nothing there."""
    try:
        with scratch_folder("ccache", existing(folder)):
            return ""
    except OSError as error:
        return str(error.strerror)


def _sccache(path: str, environment: Mapping[str, str], remote: str) -> CompileCache:
    told = {"SCCACHE_IGNORE_SERVER_IO_ERROR": "1", "SCCACHE_LOG": "sccache=debug"}
    if remote:
        told[_SCCACHE_SCHEMES[urlsplit(remote).scheme]] = remote
    place = f"shared by {remote}" if remote else environment.get("SCCACHE_DIR", "its own folder")
    return CompileCache("sccache", path, told, place=place)


def _for_compilers(
    cache: CompileCache, compilers: Compilers, oneapi: OneapiFacts | None, environment: Mapping[str, str]
) -> CompileCache:
    """Add what decides an object beside the program that is called: GCC's and icpx' compilers proper."""
    if Path(compilers.cxx).resolve().name in ("ccache", "sccache"):
        # A folder such as /usr/lib/ccache is on PATH.
        return replace(cache, launched=False, hashed=(*cache.hashed, *_proper(compilers, environment)))
    if cache.kind == "sccache":
        return cache
    hashed = (*cache.hashed, *_proper(compilers, environment))
    sycl: tuple[str, ...] = ()
    icpx = shutil.which("icpx", path=os.pathsep.join(oneapi.path_prefix)) if oneapi is not None else None
    if icpx is not None:
        beside = (Path(icpx).with_name("icpx.cfg"), Path(icpx).parent / "compiler" / "clang++")
        sycl = (compilers.cxx, *(str(path) for path in beside if path.is_file()))
    return replace(cache, hashed=hashed, sycl_hashed=sycl)


def _proper(compilers: Compilers, environment: Mapping[str, str]) -> tuple[str, ...]:
    """Return GCC's compilers proper: an update may change them and leave the driver as it is."""
    if compilers.kind != "gcc":
        return ()
    asked = [compilers.cxx, "-print-prog-name=cc1plus"]
    said = remembered().probe(asked, env=environment, decides=_names_proper)
    proper = Path(said.stdout.strip())
    if not proper.is_absolute():
        return ()
    return tuple(str(path) for path in (proper.with_name("cc1"), proper) if path.is_file())


def _names_proper(result: QueryResult, program: Path) -> Sequence[str] | None:
    """Return the compiler that a driver named: it is another one when that is gone or changed."""
    return None if says_itself(program, ["cc1plus"]) is None else (result.stdout.strip(),)
