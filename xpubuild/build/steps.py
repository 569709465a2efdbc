"""Step by step: from a chosen component to commands, proofs and witnesses. Pure."""

from __future__ import annotations

import functools
import shlex
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from xpubuild.build.audit import AuditPolicy, WheelProof
from xpubuild.build.installed import InstalledProof
from xpubuild.build.proofs import AbiOfInstalledProof, EnvironmentProof, SameWheelProof, VerifyProof
from xpubuild.build.request import Choice, Facts, Layout, Request
from xpubuild.engine.fingerprint import digest
from xpubuild.engine.model import XPUBUILD, Command, Proof, Publish, Step
from xpubuild.errors import RecipeError
from xpubuild.recipe.model import Component, GitSource, Recipe
from xpubuild.resources import ops_project_dir
from xpubuild.source.embedded import root_url
from xpubuild.source.integrity import TreeProof
from xpubuild.source.pin import Pin
from xpubuild.source.portable import portable_commands, shell_lines
from xpubuild.toolchain.environment import install_command, make_env_command, repair_env_command
from xpubuild.toolchain.make_env import MARK as ENV_MARK
from xpubuild.toolchain.mkl import MklStaticProof
from xpubuild.toolchain.pins import dist_info, pinned
from xpubuild.toolchain.pip_failures import explain_pip_failure

#: 2020-01-01 UTC: a fixed moment for archive members, so that a wheel depends on its inputs alone.
SOURCE_DATE_EPOCH = "1577836800"
GIB = 1 << 30


@dataclass(frozen=True)
class Context:
    """What every step builder reads."""

    request: Request
    choice: Choice
    facts: Facts
    layout: Layout

    @property
    def recipe(self) -> Recipe:
        """The recipe that is planned."""
        return self.request.loaded.recipe

    @property
    def site_packages(self) -> Path:
        """The site-packages of the environment that is built into."""
        return self.layout.site_packages(self.facts.python_version)

    def component(self, name: str) -> Component:
        """Return a component of the recipe."""
        return self.recipe.components[name]

    def requirement_path(self, name: str) -> Path:
        """Return where the text of a requirement file is put for pip to read."""
        return self.layout.build / "requirements" / Path(name).name

    def fill(self, template: str) -> str:
        """Fill the placeholders that recipe values may carry: {cxx11_abi}, {env}, {arch}, {build}, {xpu}."""
        values = {
            "cxx11_abi": str(self.choice.cxx11_abi),
            "env": str(self.layout.env),
            "arch": ",".join(self.choice.arch),
            "build": str(self.layout.build),
            "xpu": "1" if self.choice.target == "xpu" else "0",
        }
        for key, value in values.items():
            template = template.replace("{" + key + "}", value)
        return template


def environment_step(context: Context) -> Step:
    """Return the step that makes the Python environment."""
    layout, facts = context.layout, context.facts
    return Step(
        id="env",
        title=f"Python {facts.python_version} environment",
        commands=(make_env_command(str(layout.env), facts.python),),
        proofs=(EnvironmentProof(str(layout.env), facts.python_version),),
        outputs=(str(layout.env),),
        witnesses=(str(layout.env / "pyvenv.cfg"), str(layout.python), str(layout.env / ENV_MARK)),
        relevant={"python": facts.python_version},
    )


def _requirements_step(
    context: Context,
    names: Sequence[str],
    *,
    identifier: str,
    title: str,
    needs: tuple[str, ...],
    indexes: Sequence[str] = (),
    proofs: tuple[Proof, ...] = (),
) -> Step:
    texts = [context.facts.requirements[name] for name in names]
    pins = [pin for text in texts for pin in pinned(text, context.facts.python_version)]
    env, site = context.layout.env, context.site_packages
    files = [str(context.requirement_path(name)) for name in names]
    report = context.layout.pip_report(identifier)
    return Step(
        id=identifier,
        title=title,
        needs=needs,
        commands=(
            repair_env_command(str(env)),
            *(_reported(install_command(str(env), path, indexes=indexes), report) for path in files),
        ),
        proofs=(InstalledProof(str(site), tuple(name for name, _ in pins)), *proofs),
        inputs=tuple(files),
        outputs=(str(env), str(report)),
        witnesses=tuple(str(site / f"{dist_info(*pin)}" / "RECORD") for pin in pins),
        relevant={"requirements": digest(texts)},
        explain=functools.partial(explain_pip_failure, indexes=tuple(indexes)),
    )


def _reported(command: Command, report: Path) -> Command:
    """Let pip leave a report of what it installed, with the hashes it checked."""
    extra = ("--report", str(report))
    return replace(
        command,
        argv=(*command.argv, *extra),
        alternatives=tuple((*argv, *extra) for argv in command.alternatives),
    )


def toolchain_step(context: Context) -> Step:
    """Return the step that installs cmake, ninja, MKL and the build backends, with hashes."""
    tools = context.recipe.toolchain
    proofs: tuple[Proof, ...] = ()
    if tools.mkl is not None:
        proofs = (MklStaticProof(str(context.layout.env), tools.mkl),)
    return _requirements_step(
        context,
        tools.requirements,
        identifier="toolchain",
        title="build tools and MKL, pinned and hashed",
        needs=("env",),
        proofs=proofs,
    )


def wheel_component_step(context: Context, name: str, after: tuple[str, ...]) -> Step:
    """Return the step that installs a prebuilt wheel at its pin."""
    component = context.component(name)
    proofs: tuple[Proof, ...] = ()
    if component.cxx11_abi is not None:
        folder = context.site_packages / component.dist.replace("-", "_") / "lib"
        proofs = (AbiOfInstalledProof(component.dist, str(folder), component.cxx11_abi),)
    return _requirements_step(
        context,
        [component.requirements or ""],
        identifier=name,
        title=f"{component.dist} {component.version}, prebuilt",
        needs=after,
        indexes=component.indexes,
        proofs=proofs,
    )


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
    return Pin(url=url, commit=source.commit, tree=source.tree, submodules=source.submodules, ref=source.ref)


def _embedded_folder(context: Context, source: GitSource) -> Path:
    return context.layout.build / "embedded" / str(source.embedded)


def source_step(context: Context, name: str) -> Step:
    """Return the step that makes the pinned checkout of a component."""
    source = context.component(name).source
    pin = pin_of(context, name)
    into = context.layout.src / name
    commands: list[Command] = []
    outputs = [str(into)]
    if source is not None and source.embedded is not None:
        folder = _embedded_folder(context, source)
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
    options = ["--cache", str(context.facts.cache / "git")]
    options += ["--tree", pin.tree] if pin.tree else []
    options += ["--ref", pin.ref] if pin.ref else []
    options += [] if pin.submodules else ["--no-submodules"]
    besides = tuple(source.made_by_build) if source is not None else ()
    options += [part for path in besides for part in ("--besides", path)]
    commands.append(
        Command(
            argv=(XPUBUILD, "plumbing", "checkout", pin.url, pin.commit, str(into), *options),
            portable=portable_commands(pin, str(into)),
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
        outputs=(str(build_folder), str(layout.wheels)),
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
