"""The two stages of an image: what is built, and what is run. Pure.

Layers go from what changes least to what changes most: packages, oneAPI, xpubuild, the recipe, the build. The
workspace is in a cache of the builder, so a changed recipe builds only the steps that it changes.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence

from xpubuild.distribution import Need, install, install_oneapi
from xpubuild.images.model import (
    CACHE,
    PROGRAM,
    RECORD,
    USER,
    USER_ID,
    VENV,
    WHEELS,
    WORKSPACE,
    WORKSPACES,
    Copy,
    Env,
    Image,
    Instruction,
    Run,
    User,
)
from xpubuild.images.request import CONTEXT, ImageRequest

_RECIPES = "/opt/recipe"
_LIBRARIES = "/oneapi"
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
#: Compiles, so it needs what the runtime stage does not have; the build stage runs it.
_NEEDS_COMPILER = "image.compile"
_WITH_CHECKS = ("ops", "vision", "audio")


def image_of(request: ImageRequest) -> Image:
    """Return the image."""
    recipe, base = request.recipe, request.base
    device = request.choice.device.upper()
    return Image(
        title=f"{recipe.title}: {device} on {base.title}",
        remade_by=request.remade_by(request.recipe_word),
        base=base,
        labels={
            "org.opencontainers.image.title": recipe.title,
            "org.opencontainers.image.description": f"{recipe.title}, built and verified for {device}",
            "org.opencontainers.image.version": str(recipe.release or recipe.name),
            "org.opencontainers.image.base.name": base.image,
            "xpubuild.version": _version(request.xpubuild),
            "xpubuild.recipe": recipe.name,
            "xpubuild.target": request.choice.device,
        },
        build=tuple(_build(request)),
        runtime=tuple(_runtime(request)),
    )


def _version(program: str) -> str:
    """Return the version in ``xpubuild==VERSION``, or in the name of a wheel or sdist."""
    return program.partition("==")[2] or program.removesuffix(".tar.gz").split("-")[1]


def _build(request: ImageRequest) -> Iterator[Instruction]:
    base = request.base
    yield _packages(request, "build")
    if request.is_xpu:
        oneapi = install_oneapi([request.oneapi_package], base.system, sudo="")
        yield _of_intel(request, "oneAPI", oneapi)
        yield _for_gpu(request, "offline compiler for GPU code", ["ocloc", "level-zero-headers"])
    yield Env(
        {
            "PATH": f"{PROGRAM}/bin:{_PATH}",
            "XDG_CACHE_HOME": CACHE,
            "PIP_CACHE_DIR": f"{CACHE}/pip",
            **base.env,
        }
    )
    yield from _program(request)
    if request.files:
        yield Copy("recipe", (f"{CONTEXT}/recipe",), _RECIPES)
    yield Run("build and test", tuple(_commands(request)), _kept(request), indexes=True)


def _program(request: ImageRequest) -> Iterator[Instruction]:
    """Yield what installs xpubuild."""
    what = request.xpubuild
    if "==" not in what:
        yield Copy("xpubuild itself", (f"{CONTEXT}/{what}",), "/opt/")
        what = f"/opt/{what}"
    lines = (
        f"{request.base.python} -m venv {PROGRAM}",
        f"{PROGRAM}/bin/python -m pip install --disable-pip-version-check {shlex.quote(what)}",
    )
    yield Run("xpubuild", lines, {"pip": f"{CACHE}/pip"}, indexes=True)


def _commands(request: ImageRequest) -> Iterator[str]:
    recipe = f"{_RECIPES}/recipe.yaml" if request.files else request.recipe_word
    words = [
        "xpubuild", "install", recipe, *request.options(), "--python", request.base.python,
        "--workspace", WORKSPACE, "--wheel-dir", WHEELS,
    ]  # fmt: skip
    yield f"mkdir -p {WHEELS}"
    receipt = f"--json > {WHEELS}/receipt.json"
    if request.is_xpu:
        # The builder has no GPU: what the install would test on one is left to verify --no-gpu.
        for step in request.last_steps():
            yield f"{shlex.join([*words, '--until', step])} {receipt}"
        yield f"xpubuild verify --workspace {WORKSPACE} --no-gpu"
        yield from _libraries()
    else:
        yield f"{shlex.join(words)} {receipt}"


def _libraries() -> Iterator[str]:
    """Yield what gathers the libraries of oneAPI that the build found: no headers, no compiler."""
    folders = f"{_LIBRARIES}/etc/ld.so.conf.d/oneapi.conf"
    yield f"mkdir -p {_LIBRARIES}/etc/ld.so.conf.d"
    path = f"xpubuild run --workspace {WORKSPACE} -- printenv LD_LIBRARY_PATH"
    yield f"{path} | tr : '\\n' | grep ^/opt/intel/ > {folders}"
    there = f'"{_LIBRARIES}${{folder}}"'
    copy = (
        f"find \"${{folder}}\" -maxdepth 1 -name '*.so*' -exec cp --archive --target-directory {there} {{}} +"
    )
    yield f"while read -r folder; do mkdir -p {there}; {copy} || exit 1; done < {folders}"


def _runtime(request: ImageRequest) -> Iterator[Instruction]:
    yield _packages(request, "runtime")
    if request.is_xpu:
        yield _for_gpu(request, "user space of the GPU driver", ["driver"])
        sources = (f"{_LIBRARIES}/",)
        yield Copy("libraries of oneAPI, without compiler and headers", sources, "/", from_build=True)
    # The hashes of all wheels: builders do not look at what a mount has, but at what is copied.
    requirements = (f"{WHEELS}/requirements.txt",)
    yield Copy("what is installed, with hashes", requirements, f"{RECORD}/", from_build=True)
    pip = (
        f"{VENV}/bin/python -m pip install --disable-pip-version-check --no-cache-dir --no-index"
        f" --find-links {WHEELS} --require-hashes --requirement {RECORD}/requirements.txt"
    )
    lines = (*(["ldconfig"] if request.is_xpu else []), f"{request.base.python} -m venv {VENV}", pip)
    yield Run("the wheels that were built, and those that they were tested with", lines, mounts=(WHEELS,))
    yield Env({"PATH": f"{VENV}/bin:{_PATH}"})
    yield Copy("how it was built", (f"{WHEELS}/receipt.json",), f"{RECORD}/", from_build=True)
    yield User(USER, USER_ID)
    yield Run("verify", tuple(_verify(request)), mounts=(PROGRAM,))


def _verify(request: ImageRequest) -> Iterator[str]:
    words = [f"{PROGRAM}/bin/xpubuild", "verify", "--python", f"{VENV}/bin/python"]
    yield shlex.join([*words, "--no-gpu", "--skip", _NEEDS_COMPILER])
    imported = [f"{name}.import" for name in _WITH_CHECKS if name in request.choice.components]
    if imported:
        yield shlex.join([*words, "--device", "cpu", "--only", ",".join(imported)])


def _packages(request: ImageRequest, stage: str) -> Run:
    lines = request.base.install("build" if stage == "build" else "runtime", request.choice.components)
    return Run(f"packages of {request.base.title}", lines, _package_caches(request))


def _for_gpu(request: ImageRequest, title: str, needs: Sequence[Need]) -> Run:
    return _of_intel(request, title, install(needs, request.base.system, sudo=""))


def _of_intel(request: ImageRequest, title: str, commands: Sequence[str]) -> Run:
    """Return packages of Intel's repositories; what the commands say as comments goes into the title."""
    said = [line.lstrip("# ") for line in commands if line.startswith("#")]
    lines = request.base.unattended(line for line in commands if not line.startswith("#"))
    return Run("; ".join([title, *said]), lines, _package_caches(request))


def _package_caches(request: ImageRequest) -> dict[str, str]:
    return {f"{request.base.name}-{name}": folder for name, folder in request.base.caches.items()}


def _kept(request: ImageRequest) -> dict[str, str]:
    own = "-".join((request.recipe.name, request.choice.device, request.base.name))
    return {"pip": f"{CACHE}/pip", "git": f"{CACHE}/xpubuild", own: WORKSPACES}
