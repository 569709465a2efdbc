"""The steps of a source component: checkout, wheel, install; and the verification at the end. Pure."""

from __future__ import annotations

import functools
import shlex
from collections.abc import Sequence
from pathlib import Path

from xpubuild.build.audit import AuditPolicy, WheelProof
from xpubuild.build.context import Context
from xpubuild.build.installed import InstalledProof, installed_stamp
from xpubuild.build.proofs import SameWheelProof, VerifyProof
from xpubuild.engine.model import XPUBUILD, Command, Publish, Step
from xpubuild.errors import RecipeError
from xpubuild.recipe.model import GitSource
from xpubuild.resources import ops_project_dir
from xpubuild.source.embedded import root_url
from xpubuild.source.integrity import TreeProof
from xpubuild.source.pin import Pin
from xpubuild.source.portable import ShellWord, portable_commands, shell_lines
from xpubuild.toolchain.environment import repair_env_command

#: 2020-01-01 UTC: a fixed moment for archive members, so that a wheel depends on its inputs alone.
SOURCE_DATE_EPOCH = "1577836800"
GIB = 1 << 30


def pin_of(context: Context, name: str) -> Pin:
    """Return the pin of a source component; embedded sources get the place they are made at.

    Raises:
        RecipeError: the recipe leaves the commit open.
    """
    source = context.component(name).source
    if source is None or source.commit is None:
        raise RecipeError(
            f"component '{name}' of recipe '{context.recipe.name}' has no commit",
            why="a build needs an exact pin",
            fix=f"put the full commit id at components.{name}.source.commit",
        )
    url = source.url or root_url(ops_project_dir(), _embedded_folder(context, source))
    return Pin(
        url=url,
        commit=source.commit,
        tree=source.tree,
        submodules=source.submodules,
        ref=source.ref,
        skip=tuple(source.skip_submodules),
    )


def _embedded_folder(context: Context, source: GitSource) -> Path:
    return context.layout.build / "embedded" / str(source.embedded)


def source_step(context: Context, name: str) -> Step:
    """Return the step that makes the pinned checkout of a component."""
    source = context.component(name).source
    pin = pin_of(context, name)
    into = context.layout.src / name
    commands: list[Command] = []
    # What a checkout keeps beside its place: the lock, and a half-made tree after a kill.
    origin: ShellWord | None = None
    outputs = [str(into), *(str(into.parent / f".{name}.xpubuild-{what}") for what in ("lock", "new"))]
    if source is not None and source.embedded is not None:
        folder = _embedded_folder(context, source)
        # A path and no URL: the script may be run with another workspace, and a URL would be percent-encoded.
        origin = ShellWord(f'"$EMBEDDED"/{source.embedded}.git')
        outputs.append(str(folder))
        commands.append(
            Command(
                argv=(XPUBUILD, "plumbing", "embed", source.embedded, str(folder), "--commit", pin.commit),
                portable=(
                    f"EMBEDDED={shlex.quote(str(folder))}",
                    *shell_lines(ops_project_dir(), "EMBEDDED"),
                ),
            )
        )
    options = ["--cache", str(context.facts.cache)]
    options += ["--tree", pin.tree] if pin.tree else []
    options += ["--ref", pin.ref] if pin.ref else []
    options += [] if pin.submodules else ["--no-submodules"]
    options += [part for path in pin.skip for part in ("--skip-submodule", path)]
    besides = tuple(source.made_by_build) if source is not None else ()
    options += [part for path in besides for part in ("--besides", path)]
    commands.append(
        Command(
            argv=(XPUBUILD, "plumbing", "checkout", pin.url, pin.commit, str(into), *options),
            portable=portable_commands(pin, str(into), url=origin),
        )
    )
    dirty = context.facts.dirty.get(name)
    return Step(
        id=f"{name}.source",
        title=f"{name} at {pin.commit[:12]}",
        commands=tuple(commands) if dirty is None else (),
        proofs=(TreeProof(str(into), pin, besides),) if dirty is None else (),
        outputs=tuple(outputs),
        witnesses=(str(into / ".git"),),
        relevant={"pin": pin.key(), "edits": dirty},
        always_prove=dirty is None,
    )


def build_environment(context: Context, name: str) -> dict[str, str]:
    """Return the environment overlay of a source build, in the order: switches, compilers, oneAPI, ABI."""
    facts, choice = context.facts, context.choice
    abi = str(choice.cxx11_abi)
    env = {key: context.fill(value) for key, value in choice.switches[name].items()}
    env.update(
        {
            "CC": facts.compilers.cc,
            "CXX": facts.compilers.cxx,
            "CMAKE_PREFIX_PATH": str(context.layout.env),
            "CMAKE_GENERATOR": "Ninja",
            "SOURCE_DATE_EPOCH": SOURCE_DATE_EPOCH,
            "_GLIBCXX_USE_CXX11_ABI": abi,
        }
    )
    env["CXXFLAGS"] = " ".join(filter(None, (env.get("CXXFLAGS"), f"-D_GLIBCXX_USE_CXX11_ABI={abi}")))
    if facts.oneapi is not None:
        own_prefix = env["CMAKE_PREFIX_PATH"]
        env.update(facts.oneapi.env)
        theirs = facts.oneapi.env.get("CMAKE_PREFIX_PATH")
        env["CMAKE_PREFIX_PATH"] = f"{own_prefix}:{theirs}" if theirs else own_prefix
    return env


def _build_command(context: Context, name: str, verb: Sequence[str]) -> Command:
    component, layout = context.component(name), context.layout
    settings = [
        part
        for key, value in sorted(component.build.config_settings.items())
        for part in ("--config-settings", f"{key}={context.fill(value)}")
    ]
    oneapi_path = context.facts.oneapi.path_prefix if context.facts.oneapi else ()
    jobs = str(context.facts.jobs)
    return Command(
        argv=(
            str(layout.python), "-m", "pip", *verb,
            "--no-build-isolation", "--no-deps", "--no-index", "--no-input",
            "--disable-pip-version-check", "--verbose", *settings,
        ),
        env=build_environment(context, name),
        path_prefix=(str(layout.env / "bin"), *oneapi_path),
        tuning={"MAX_JOBS": jobs, "CMAKE_BUILD_PARALLEL_LEVEL": jobs},
    )  # fmt: skip


def _source_folder(context: Context, name: str) -> str:
    folder = context.layout.src / name
    inside = context.component(name).build.source_dir
    return str(folder if inside == "." else folder / inside)


def wheel_step(context: Context, name: str, after: tuple[str, ...]) -> Step:
    """Return the step that builds and audits the wheel of a source component."""
    component, layout = context.component(name), context.layout
    stage = layout.wheels / f".stage-{name}"
    command = _build_command(
        context, name, ("wheel", "--wheel-dir", str(stage), _source_folder(context, name))
    )
    audit = component.audit
    policy = AuditPolicy(
        cxx11_abi=context.choice.cxx11_abi if audit.cxx11_abi else None,
        forbid_needed=tuple(audit.forbid_needed),
        allow_missing=tuple(audit.allow_missing),
        require_strings=tuple(audit.require_strings),
    )
    search = (context.site_packages / "torch" / "lib", layout.env / "lib")
    build_folder = layout.build / name
    return Step(
        id=f"{name}.wheel",
        title=f"{component.dist} wheel from source",
        needs=(f"{name}.source", *after),
        commands=(command,),
        proofs=(WheelProof(str(stage), "*.whl", policy, tuple(str(folder) for folder in search)),),
        inputs=(_source_folder(context, name),),
        outputs=(str(build_folder),),
        fresh=(str(stage), *(() if component.build.resume else (str(build_folder),))),
        publish=Publish(stage=str(stage), folder=str(layout.wheels), pattern="*.whl"),
        relevant={"compiler": dict(context.facts.compilers.key), "oneapi": _oneapi_digest(context)},
        memory_bytes=int(component.build.memory_gib_per_job * GIB * context.facts.jobs),
    )


def _oneapi_digest(context: Context) -> str:
    return context.facts.oneapi.digest if context.facts.oneapi else ""


def install_step(context: Context, name: str, after: tuple[str, ...]) -> Step:
    """Return the step that installs a built wheel into the environment, exactly that file."""
    component, layout = context.component(name), context.layout
    site = context.site_packages
    normal = component.dist.replace("-", "_")
    return Step(
        id=f"{name}.install",
        title=f"{component.dist} installed",
        needs=(f"{name}.wheel", *after),
        commands=(
            repair_env_command(str(layout.env)),
            Command(
                argv=(
                    str(layout.python), "-m", "pip", "install",
                    "--no-deps", "--no-index", "--pre", "--no-input", "--force-reinstall",
                    "--disable-pip-version-check", "--find-links", str(layout.wheels),
                    component.dist,
                )
            ),
        ),
        proofs=(SameWheelProof(str(layout.wheels), component.dist, str(site)),),
        inputs=(str(layout.wheels),),
        outputs=(str(layout.env),),
        witness_globs=((str(site), f"{normal}-*.dist-info/RECORD"),),
        outputs_stamp=functools.partial(installed_stamp, site, (component.dist,)),
    )  # fmt: skip


def editable_step(context: Context, name: str, after: tuple[str, ...]) -> Step:
    """Return the step that installs a source component editable, for a developer who rebuilds all day."""
    component, layout = context.component(name), context.layout
    command = _build_command(context, name, ("install", "--editable", _source_folder(context, name)))
    normal = component.dist.replace("-", "_")
    return Step(
        id=f"{name}.install",
        title=f"{component.dist} editable",
        needs=(f"{name}.source", *after),
        commands=(repair_env_command(str(layout.env)), command),
        proofs=(InstalledProof(str(context.site_packages), (component.dist,)),),
        outputs=(str(layout.env), str(layout.build / name)),
        witness_globs=((str(context.site_packages), f"{normal}-*.dist-info/RECORD"),),
        relevant={"compiler": dict(context.facts.compilers.key), "oneapi": _oneapi_digest(context)},
        memory_bytes=int(component.build.memory_gib_per_job * GIB * context.facts.jobs),
    )


def verify_step(context: Context, needs: tuple[str, ...]) -> Step:
    """Return the last step: the suite, run by the interpreter that was built for."""
    layout, suite = context.layout, context.recipe.verify
    require = [item for item in suite.require if item in context.choice.components]
    oneapi = context.facts.oneapi
    device = "xpu" if context.choice.target == "xpu" else "cpu"
    return Step(
        id="verify",
        title=f"verify on the {device.upper()}",
        needs=needs,
        commands=(
            Command(
                argv=(
                    XPUBUILD, "verify", "--python", str(layout.python),
                    "--device", device, "--suite", suite.suite,
                    *(part for item in require for part in ("--require", item)),
                    "--output", str(layout.verify_report),
                ),
                env=dict(oneapi.env) if oneapi else {},
                path_prefix=oneapi.path_prefix if oneapi else (),
                portable=(),
            ),
        ),
        proofs=(VerifyProof(str(layout.verify_report)),),
        outputs=(str(layout.verify_report),),
        witnesses=(str(layout.verify_report),),
        relevant={"require": require},
    )  # fmt: skip
