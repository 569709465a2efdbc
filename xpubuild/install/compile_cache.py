"""How builds get at the compile cache: launchers for CMake, links for others, and one log per family. Pure.

None of it changes what is built, so it is `tuning`, which no fingerprint has. A step makes the links, since
setuptools and torch's cpp_extension know no launchers: they call what CC and CXX name.
"""

from __future__ import annotations

import functools
import os
import re
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from xpubuild.engine.answers import says_itself
from xpubuild.engine.environment import base_environment
from xpubuild.engine.model import Proof, Step
from xpubuild.engine.places import existing
from xpubuild.engine.results import QueryResult
from xpubuild.engine.temporary import scratch_folder
from xpubuild.errors import ToolchainError, UsageError
from xpubuild.frozen import frozen
from xpubuild.install.build_compilers import compiler_files, links_step
from xpubuild.install.supplies import remembered
from xpubuild.install.target import Compilers, OneapiFacts, Target
from xpubuild.supply.caching import CompileCache, Family, Kind, Wanted, as_evidence, logs_of

STEP = "compile-cache"
_SWITCHED_ON = frozenset({"1", "on", "true", "yes", "y"})
#: ccache's manual, "Precompiled headers": without these two it does not cache what uses one. Without depend
#: mode it also wants GCC's -fpch-preprocess, which CMake does not pass.
_FOR_PRECOMPILED = ("pch_defines", "time_macros")


@frozen
class HitsProof:
    """No condition: counts what became of the calls of compilers, for the receipt."""

    kind: Kind
    logs: tuple[tuple[Family, Path], ...]

    def describe(self) -> str:
        """Return what is counted."""
        return f"hits of {self.kind} are counted"

    def key(self) -> None:
        """Return nothing: a cache changes no result."""

    def check(self) -> dict[str, Any]:
        """Return the counts."""
        return as_evidence(self.kind, self.logs)


def cache_links(target: Target) -> list[Step]:
    """Return the step that makes links named like the compilers; nothing where no build needs them."""
    cache, compilers = target.compile_cache, target.compilers
    if cache is None or not any(_by_links(target, name, cache) for name in target.components):
        return []
    folder = _folder(target)
    links = {str(folder / Path(name).name): cache.path for name in (compilers.cc, compilers.cxx)}
    title = f"link {' and '.join(Path(link).name for link in links)} to {cache.kind}"
    return [links_step(STEP, title, links, portable=())]


def cache_tools(target: Target, name: str) -> tuple[str, ...]:
    """Return the steps that a build needs on account of the cache."""
    cache = target.compile_cache
    return (STEP,) if cache is not None and _by_links(target, name, cache) else ()


def cache_proofs(target: Target, name: str) -> tuple[Proof, ...]:
    """Return what counts the hits of a build."""
    cache = target.compile_cache
    return () if cache is None else (HitsProof(cache.kind, logs_of(cache.kind, name, target.layout.build)),)


def cache_logs(target: Target, name: str) -> tuple[str, ...]:
    """Return the logs of a build's calls: each attempt begins them anew."""
    cache = target.compile_cache
    found = () if cache is None else logs_of(cache.kind, name, target.layout.build)
    return tuple(str(path) for _, path in found)


def cache_tuning(target: Target, name: str, env: dict[str, str]) -> dict[str, str]:
    """Return what puts the cache in front of the compilers of a build with the environment ``env``."""
    cache, off = target.compile_cache, target.options.compile_cache == "none"
    if cache is None:
        # PyTorch's CMake looks for ccache by itself, and one that cannot write to its folder ends the build.
        return {"CCACHE_DISABLE": "1"} if off or target.no_compile_cache else {}
    told = {**cache.environment, **_own(target, name, cache, env)}
    if _by_links(target, name, cache):
        compilers, folder = target.compilers, _folder(target)
        told |= {"CC": str(folder / Path(compilers.cc).name), "CXX": str(folder / Path(compilers.cxx).name)}
        if cache.kind == "ccache":
            real = dict.fromkeys(str(Path(path).parent) for path in (compilers.cc, compilers.cxx))
            told["CCACHE_PATH"] = os.pathsep.join(real)
    elif cache.launched:
        told |= dict.fromkeys(("CMAKE_C_COMPILER_LAUNCHER", "CMAKE_CXX_COMPILER_LAUNCHER"), cache.path)
        if cache.kind == "ccache" and target.device == "xpu":
            told["CMAKE_SYCL_COMPILER_LAUNCHER"] = _sycl_launcher(target, name, cache)
    return told


def _own(target: Target, name: str, cache: CompileCache, env: dict[str, str]) -> dict[str, str]:
    """Return what differs between workspaces and components."""
    root, log = str(target.layout.root), str(logs_of(cache.kind, name, target.layout.build)[0][1])
    if cache.kind == "sccache":
        return {"SCCACHE_BASEDIRS": root, "SCCACHE_ERROR_LOG": log}
    told = {"CCACHE_BASEDIR": root, "CCACHE_STATSLOG": log}
    if cache.hashed:
        told["CCACHE_EXTRAFILES"] = os.pathsep.join(cache.hashed)
    if env.get("USE_PRECOMPILED_HEADERS", "").lower() in _SWITCHED_ON:
        known = [item.strip() for item in cache.sloppiness.split(",") if item.strip()]
        told["CCACHE_DEPEND"] = "1"
        told["CCACHE_SLOPPINESS"] = ",".join(dict.fromkeys((*known, *_FOR_PRECOMPILED)))
    return told


def _sycl_launcher(target: Target, name: str, cache: CompileCache) -> str:
    """Return the launcher of the SYCL compiler, a CMake list.

    icpx writes names of temporary files into what it preprocesses, so only depend mode hits
    (AMReX-Codes/amrex pull request 3234, intel/torch-xpu-ops pull request 5154), and ccache does not know
    every name of it for a clang (ggml-org/llama.cpp issue 9954).
    """
    log = logs_of(cache.kind, name, target.layout.build)[1][1]
    hashed = dict.fromkeys((*cache.hashed, *cache.sycl_hashed, *compiler_files(target)))
    words = (
        "/usr/bin/env", "CCACHE_DEPEND=1", "CCACHE_COMPILERTYPE=clang", f"CCACHE_STATSLOG={log}",
        f"CCACHE_EXTRAFILES={os.pathsep.join(hashed)}", cache.path,
    )  # fmt: skip
    return ";".join(words)


def _folder(target: Target) -> Path:
    return target.layout.build / "compile-cache"


def _by_links(target: Target, name: str, cache: CompileCache) -> bool:
    component = target.component(name)
    return component.kind == "source" and component.build.compile_cache == "links" and cache.launched


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
