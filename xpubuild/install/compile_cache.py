"""How builds get at the compile cache: launchers for CMake, links for others, and one log per family. Pure.

None of it changes what is built, so it is `tuning`, which no fingerprint has. A step makes the links, since
setuptools and torch's cpp_extension know no launchers: they call what CC and CXX name.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from xpubuild.artifacts.step_proofs import LinksProof
from xpubuild.engine.model import Command, Proof, Step
from xpubuild.frozen import frozen
from xpubuild.install import compiler_steps
from xpubuild.install.context import Context
from xpubuild.supply.caching import CompileCache, Family, Kind, as_evidence, logs_of

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


def steps(context: Context) -> list[Step]:
    """Return the step that makes links named like the compilers; nothing where no build needs them."""
    cache, compilers = context.facts.compile_cache, context.facts.compilers
    if cache is None or not any(_by_links(context, name, cache) for name in context.choice.components):
        return []
    folder = _folder(context)
    links = {str(folder / Path(name).name): cache.path for name in (compilers.cc, compilers.cxx)}
    return [
        Step(
            id=STEP,
            title=f"link {' and '.join(Path(link).name for link in links)} to {cache.kind}",
            commands=(
                Command(argv=("mkdir", "-p", str(folder)), portable=()),
                *(Command(argv=("ln", "-sfn", path, link), portable=()) for link, path in links.items()),
            ),
            proofs=(LinksProof(links),),
            outputs=tuple(links),
            witnesses=tuple(links),
        )
    ]


def tools(context: Context, name: str) -> tuple[str, ...]:
    """Return the steps that a build needs on account of the cache."""
    cache = context.facts.compile_cache
    return (STEP,) if cache is not None and _by_links(context, name, cache) else ()


def proofs(context: Context, name: str) -> tuple[Proof, ...]:
    """Return what counts the hits of a build."""
    cache = context.facts.compile_cache
    return () if cache is None else (HitsProof(cache.kind, logs_of(cache.kind, name, context.layout.build)),)


def logs(context: Context, name: str) -> tuple[str, ...]:
    """Return the logs of a build's calls: each attempt begins them anew."""
    cache = context.facts.compile_cache
    found = () if cache is None else logs_of(cache.kind, name, context.layout.build)
    return tuple(str(path) for _, path in found)


def tuning(context: Context, name: str, env: dict[str, str]) -> dict[str, str]:
    """Return what puts the cache in front of the compilers of a build with the environment ``env``."""
    cache, off = context.facts.compile_cache, context.facts.compile_cache_off
    if cache is None:
        # PyTorch's CMake looks for ccache by itself, and one that cannot write to its folder ends the build.
        return {"CCACHE_DISABLE": "1"} if off or context.facts.compile_cache_why else {}
    told = {**cache.environment, **_own(context, name, cache, env)}
    if _by_links(context, name, cache):
        compilers, folder = context.facts.compilers, _folder(context)
        told |= {"CC": str(folder / Path(compilers.cc).name), "CXX": str(folder / Path(compilers.cxx).name)}
        if cache.kind == "ccache":
            real = dict.fromkeys(str(Path(path).parent) for path in (compilers.cc, compilers.cxx))
            told["CCACHE_PATH"] = os.pathsep.join(real)
    elif cache.launched:
        told |= dict.fromkeys(("CMAKE_C_COMPILER_LAUNCHER", "CMAKE_CXX_COMPILER_LAUNCHER"), cache.path)
        if cache.kind == "ccache" and context.choice.target == "xpu":
            told["CMAKE_SYCL_COMPILER_LAUNCHER"] = _sycl_launcher(context, name, cache)
    return told


def summary(context: Context) -> dict[str, str]:
    """Return what a plan says of the cache; nothing where nobody has one."""
    cache, why = context.facts.compile_cache, context.facts.compile_cache_why
    if cache is None:
        return {"compile_cache": f"none ({why})"} if why else {}
    return {"compile_cache": f"{cache.kind} ({cache.place})"}


def _own(context: Context, name: str, cache: CompileCache, env: dict[str, str]) -> dict[str, str]:
    """Return what differs between workspaces and components."""
    root, log = str(context.layout.root), str(logs_of(cache.kind, name, context.layout.build)[0][1])
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


def _sycl_launcher(context: Context, name: str, cache: CompileCache) -> str:
    """Return the launcher of the SYCL compiler, a CMake list.

    icpx writes names of temporary files into what it preprocesses, so only depend mode hits
    (AMReX-Codes/amrex pull request 3234, intel/torch-xpu-ops pull request 5154), and ccache does not know
    every name of it for a clang (ggml-org/llama.cpp issue 9954).
    """
    log = logs_of(cache.kind, name, context.layout.build)[1][1]
    hashed = dict.fromkeys((*cache.hashed, *cache.sycl_hashed, *compiler_steps.files(context)))
    words = (
        "/usr/bin/env", "CCACHE_DEPEND=1", "CCACHE_COMPILERTYPE=clang", f"CCACHE_STATSLOG={log}",
        f"CCACHE_EXTRAFILES={os.pathsep.join(hashed)}", cache.path,
    )  # fmt: skip
    return ";".join(words)


def _folder(context: Context) -> Path:
    return context.layout.build / "compile-cache"


def _by_links(context: Context, name: str, cache: CompileCache) -> bool:
    component = context.component(name)
    return component.kind == "source" and component.build.compile_cache == "links" and cache.launched
