"""The compilers as a build gets them: those of the host under their plain names, behind a compile cache.

oneDNN's GPU build takes ``g++`` by that name (DNNL_DPCPP_HOST_COMPILER in PyTorch's FindMKLDNN.cmake), and
icpx takes the newest GCC that the system has, with its headers, whatever CXX says.

A cache changes nothing of what is built, so it is `tuning`, which no fingerprint has. A step makes the links,
since setuptools and torch's cpp_extension know no launchers: they call what CC and CXX name.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from urllib.parse import urlsplit

from xpubuild.artifacts.step_proofs import LinksProof
from xpubuild.engine.environment import base_environment
from xpubuild.engine.model import Command, Step
from xpubuild.engine.places import existing
from xpubuild.engine.process import probe
from xpubuild.engine.temporary import scratch_folder
from xpubuild.errors import ToolchainError
from xpubuild.install.target import Compilers, OneapiFacts, Target
from xpubuild.machine.compilers import HostCompilers
from xpubuild.recipe.switches import is_on
from xpubuild.supply.caching import CompileCache, Wanted, logs_of

_SELECTED = re.compile(r"^Selected GCC installation: (.+)$", re.MULTILINE)
#: Each program, and the variable that names a configuration file for it (Intel's compiler guide).
_CONFIGURED = {"icx": "ICXCFG", "icpx": "ICPXCFG"}


def build_compilers(compilers: HostCompilers, oneapi: OneapiFacts | None) -> Compilers:
    """Return the compilers with what is needed so that a build uses no other GCC beside them."""
    cc, cxx = compilers.cc, compilers.cxx
    found = Compilers(cc.path, cxx.path, cxx.version, compilers.relevant(), cxx.kind)
    if oneapi is None or cxx.kind != "gcc":
        return found
    environment = oneapi.over(base_environment())
    named = {"gcc": found.cc, "g++": found.cxx}
    path = environment["PATH"]
    differ = any(not _is_same(shutil.which(name, path=path), real) for name, real in named.items())
    own, icpx = _install_dir(found.cxx, environment), shutil.which("icpx", path=path)
    selected = _SELECTED.search(_output([icpx, "-v"], environment)) if icpx else None
    other = differ if selected is None else not _is_same(selected[1].strip(), own)
    if not own or not other:
        return replace(found, names=named if differ else {})
    config = {}
    for name in _CONFIGURED:
        # What the program reads by default, and the folder of GCC.
        program = shutil.which(name, path=path)
        default = Path(program).with_name(f"{name}.cfg") if program else None
        include = f"@{default}\n" if default is not None and default.is_file() else ""
        config[name] = f'{include}--gcc-install-dir="{own}"\n'
    return replace(found, key={**found.key, "icx": own}, names=named if differ else {}, config=config)


def _is_same(one: str | None, other: str) -> bool:
    return one is not None and Path(one).resolve() == Path(other).resolve()


def _install_dir(cxx: str, environment: Mapping[str, str]) -> str:
    """Return lib/gcc/TRIPLE/VERSION of a GCC; empty where it does not say."""
    folder = Path(_output([cxx, "-print-libgcc-file-name"], environment).strip()).parent
    return str(folder.resolve()) if folder.is_absolute() and (folder / "crtbegin.o").exists() else ""


def _output(argv: list[str], environment: Mapping[str, str]) -> str:
    with contextlib.suppress(ToolchainError):
        result = probe(argv, env=environment)
        return f"{result.stdout}\n{result.stderr}" if result.ok else ""
    return ""


#: The steps that put the chosen GCC, and the cache, where builds look for a compiler by name.
_COMPILERS, _CACHE = "compilers", "compile-cache"


def _folder(target: Target, step: str = _COMPILERS) -> Path:
    return target.layout.build / step


def links_steps(target: Target) -> tuple[list[Step], list[Step]]:
    """Return the step that links the chosen compilers, and that of the cache; each where it is needed."""
    names, cache, chosen = target.compilers.names, target.compile_cache, list[Step]()
    if names:
        links = {str(_folder(target) / name): path for name, path in names.items()}
        chosen.append(_links(_COMPILERS, f"link {' and '.join(names)} to the chosen compilers", links))
    if cache is None or not any(_by_links(target, name) for name in target.components):
        return chosen, []
    programs = (target.compilers.cc, target.compilers.cxx)
    links = {str(_folder(target, _CACHE) / Path(name).name): cache.path for name in programs}
    title = f"link {' and '.join(Path(link).name for link in links)} to ccache"
    return chosen, [_links(_CACHE, title, links, portable=())]


def _links(step: str, title: str, links: Mapping[str, str], portable: tuple[str, ...] | None = None) -> Step:
    """Return a step that makes symbolic links (link -> program) in one folder."""
    argvs: list[tuple[str, ...]] = [("mkdir", "-p", str(Path(next(iter(links))).parent))]
    argvs += [("ln", "-sfn", path, link) for link, path in links.items()]
    commands = tuple(Command(argv=argv, portable=portable) for argv in argvs)
    made, proofs = tuple(links), (LinksProof(links),)
    return Step(step, title, commands=commands, proofs=proofs, outputs=made, witnesses=made)


def path_prefix(target: Target) -> tuple[str, ...]:
    """Return the folder that builds search first."""
    return (str(_folder(target)),) if target.compilers.names else ()


def compiler_environment(target: Target) -> dict[str, str]:
    """Return what makes icx and icpx take the chosen GCC."""
    return {_CONFIGURED[name]: str(_folder(target) / f"{name}.cfg") for name in target.compilers.config}


def compiler_files(target: Target) -> dict[str, str]:
    """Return the configuration files of icx and icpx: path -> text."""
    return {str(_folder(target) / f"{name}.cfg"): text for name, text in target.compilers.config.items()}


# --- the cache in a build --------------------------------------------------------------------------------

#: ccache's manual, "Precompiled headers": without these two it does not cache what uses one. Without depend
#: mode it also wants GCC's -fpch-preprocess, which CMake does not pass.
_FOR_PRECOMPILED = ("pch_defines", "time_macros")


def cache_needed(target: Target, name: str) -> tuple[str, ...]:
    """Return the step that a build needs where a cache is in front of its compilers by links."""
    return (_CACHE,) if _by_links(target, name) else ()


def cache_tuning(target: Target, name: str, env: Mapping[str, str]) -> dict[str, str]:
    """Return what puts the cache in front of the compilers of a build with the environment ``env``."""
    cache, compilers = target.compile_cache, target.compilers
    if cache is None:
        # PyTorch's CMake looks for ccache by itself, and one that cannot write to its folder ends the build.
        off = target.options.compile_cache == "none" or target.no_compile_cache
        return {"CCACHE_DISABLE": "1"} if off else {}
    log = logs_of(name, target.layout.build)[0][1]
    found = {**cache.environment, "CCACHE_BASEDIR": str(target.layout.root), "CCACHE_STATSLOG": str(log)}
    found |= {"CCACHE_EXTRAFILES": os.pathsep.join(cache.hashed)} if cache.hashed else {}
    if is_on(env.get("USE_PRECOMPILED_HEADERS", "")):
        known = [item.strip() for item in cache.sloppiness.split(",") if item.strip()]
        found["CCACHE_DEPEND"] = "1"
        found["CCACHE_SLOPPINESS"] = ",".join(dict.fromkeys((*known, *_FOR_PRECOMPILED)))
    if _by_links(target, name):
        folder, both = _folder(target, _CACHE), {"CC": compilers.cc, "CXX": compilers.cxx}
        found |= {variable: str(folder / Path(path).name) for variable, path in both.items()}
        real = dict.fromkeys(str(Path(path).parent) for path in both.values())
        found["CCACHE_PATH"] = os.pathsep.join(real)
    elif cache.launched:
        found |= dict.fromkeys(("CMAKE_C_COMPILER_LAUNCHER", "CMAKE_CXX_COMPILER_LAUNCHER"), cache.path)
    return found


def sycl_cache(target: Target, name: str) -> tuple[str, ...]:
    """Return the words that put the cache in front of icx; none where SYCL is not cached.

    icx writes names of temporary files into what it preprocesses, so only depend mode hits (AMReX-Codes/amrex
    pull request 3234, intel/torch-xpu-ops pull request 5154), and ccache does not know every name of it for a
    clang (ggml-org/llama.cpp issue 9954).
    """
    cache = target.compile_cache
    if cache is None or not cache.launched or target.device != "xpu":
        return ()
    hashed = dict.fromkeys((*cache.hashed, *cache.sycl_hashed, *compiler_files(target)))
    log = logs_of(name, target.layout.build)[1][1]
    return (
        "/usr/bin/env", "CCACHE_DEPEND=1", "CCACHE_COMPILERTYPE=clang", f"CCACHE_STATSLOG={log}",
        f"CCACHE_EXTRAFILES={os.pathsep.join(hashed)}", cache.path,
    )  # fmt: skip


def _by_links(target: Target, name: str) -> bool:
    component, launched = target.component(name), target.compile_cache and target.compile_cache.launched
    return bool(launched) and component.kind == "source" and component.build.compile_cache == "links"


# --- which cache there is --------------------------------------------------------------------------------

_SETTING = re.compile(r"^\((?P<origin>.*)\) (?P<name>\w+) = (?P<value>.*)$", re.MULTILINE)
#: PyTorch's CONTRIBUTING.md advises 25 GiB; with its default of 5 a build evicts its own objects.
_SIZE = "25G"
#: What ccache calls the storage that several machines share: renamed in 4.7.
_REMOTES = ("remote_storage", "secondary_storage")
#: Sloppiness with which ccache serves objects of other headers: those of -isystem (torch's), or touched ones.
_TOO_SLOPPY = frozenset({"system_headers", "file_stat_matches_ctime"})
#: Settings with which ccache adds no objects: its folder need not be writable.
_READ_ONLY = ("read_only", "read_only_direct")


def compile_cache(wanted: Wanted, compilers: Compilers, oneapi: OneapiFacts | None) -> CompileCache | str:
    """Return the cache that builds use; for none why the one that is installed is not used, "" if none is.

    Raises:
        ToolchainError: the one that was asked for is missing or of no use.
    """
    environment = base_environment()
    path = None if wanted == "none" else shutil.which("ccache", path=environment["PATH"])
    found = _ccache(path, environment) if path else ""
    if isinstance(found, CompileCache):
        return _for_compilers(found, compilers, oneapi, environment)
    if wanted == "ccache":
        raise ToolchainError(
            f"no compile cache: {found or 'ccache is not on PATH'}",
            why="it is asked for by --compile-cache",
            fix="install ccache 4.4 or later (package ccache), name a folder that you can write to"
            " with CCACHE_DIR, or pass --compile-cache none",
        )
    return found


def _ccache(path: str, environment: Mapping[str, str]) -> CompileCache | str:
    """Return ccache as its user has configured it, or why it is of no use."""
    shown = list(_SETTING.finditer(_output([path, "--show-config"], environment)))
    settings = {item["name"]: item["value"] for item in shown}
    if "stats_log" not in settings:
        return f"{path} is older than ccache 4.4, which was the first to log what it hits"
    if settings["disable"] == "true":
        return f"the configuration of {path} switches it off"
    if "true" not in map(settings.get, _READ_ONLY):
        try:
            with scratch_folder("ccache", existing(Path(settings["cache_dir"]))):
                pass
        except OSError as error:
            why = f"nothing can be written to {settings['cache_dir']}, the folder of {path}"
            return f"{why}: {error.strerror}"
    # Settings with which ccache serves objects of other inputs, or of another compiler, are taken back.
    found = {"CCACHE_IGNOREOPTIONS": "", "CCACHE_IGNOREHEADERS": "", "CCACHE_COMPILER": ""}
    found |= {"CCACHE_COMPILERCHECK": "content", "CCACHE_NOHASHDIR": "1"}
    if next(item["origin"] for item in shown if item["name"] == "max_size") == "default":
        found["CCACHE_MAXSIZE"] = settings["max_size"] = _SIZE
    sloppy = [item.strip() for item in settings["sloppiness"].split(",")]
    if kept := _TOO_SLOPPY.intersection(sloppy):
        sloppy = [item for item in sloppy if item not in kept]
        found["CCACHE_SLOPPINESS"] = ",".join(sloppy)
    shared = next((settings[name] for name in _REMOTES if settings.get(name)), "")
    return CompileCache(
        path=path,
        environment=found,
        hashed=tuple(filter(None, settings["extra_files_to_hash"].split(os.pathsep))),
        sloppiness=",".join(sloppy),
        place=f"{settings['cache_dir']}, at most {settings['max_size']}"
        + (f", shared by {shared.partition('|')[0]}" if shared else ""),
        server=urlsplit(shared.partition("|")[0]).hostname or "",
    )


def _for_compilers(
    cache: CompileCache, compilers: Compilers, oneapi: OneapiFacts | None, environment: Mapping[str, str]
) -> CompileCache:
    """Add what decides an object beside the program that is called: GCC's and icpx' compilers proper."""
    # A folder such as /usr/lib/ccache is on PATH.
    launched = Path(compilers.cxx).resolve().name != "ccache"
    proper: tuple[Path, ...] = ()
    if compilers.kind == "gcc":
        # An update may change them and leave the driver as it is.
        cc1plus = Path(_output([compilers.cxx, "-print-prog-name=cc1plus"], environment).strip())
        proper = (cc1plus.with_name("cc1"), cc1plus) if cc1plus.is_absolute() else ()
    hashed = (*cache.hashed, *(str(path) for path in proper if path.is_file()))
    icpx = shutil.which("icpx", path=os.pathsep.join(oneapi.path_prefix)) if oneapi and launched else None
    sycl: tuple[str, ...] = ()
    if icpx is not None:
        beside = (Path(icpx).with_name("icpx.cfg"), Path(icpx).parent / "compiler" / "clang++")
        sycl = (compilers.cxx, *(str(path) for path in beside if path.is_file()))
    return replace(cache, launched=launched, hashed=hashed, sycl_hashed=sycl)
