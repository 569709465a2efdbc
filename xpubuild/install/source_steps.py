"""The steps of a source component: checkout, wheel, install; and the verification at the end. Pure."""

from __future__ import annotations

import functools
import shlex
from dataclasses import replace
from pathlib import Path

from xpubuild.artifacts.audit_report import AuditPolicy
from xpubuild.artifacts.installed import InstalledProof, installed_stamp
from xpubuild.artifacts.step_proofs import SameWheelProof, VerifyProof, WheelProof
from xpubuild.engine.model import XPUBUILD, Command, Publish, Step
from xpubuild.errors import RecipeError
from xpubuild.install import admission, aot, compile_cache
from xpubuild.install import freeze_steps as holding
from xpubuild.install import front_end as frontend
from xpubuild.install.context import Context
from xpubuild.install.recipe_proof import recipe_proofs
from xpubuild.machine.python_environment import repair_env_command
from xpubuild.recipe.model import GitSource
from xpubuild.resources import ops_project_dir
from xpubuild.supply.git.built import EDITABLE
from xpubuild.supply.git.embedded import root_url, shell_lines
from xpubuild.supply.git.integrity import BuiltTreeProof, TreeProof
from xpubuild.supply.git.pin import Pin
from xpubuild.supply.git.portable import ShellWord, portable_commands
from xpubuild.supply.git.untouched import tree_stamp

#: A wheel folder that pip is configured with may hold a newer version, and pip would take that one.
_OWN_WHEELS_ALONE = {"PIP_CONFIG_FILE": "/dev/null", "PIP_FIND_LINKS": ""}


def pin_of(context: Context, name: str) -> Pin:
    """Return the pin of a source component; embedded sources get the place they are made at.

    Raises:
        RecipeError: the recipe leaves the commit open.
    """
    source = context.pinned(name)
    if source is None or source.commit is None:
        raise RecipeError(
            f"component '{name}' of recipe '{context.recipe.name}' has no commit",
            why="a build needs an exact pin",
            fix=f"set components.{name}.source.commit to the full commit id",
        )
    url = source.url or root_url(_embedded_folder(context, source))
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
    # What a checkout keeps beside its place: the lock, a half-made tree after a kill, and a damaged one.
    origin: ShellWord | None = None
    outputs = [
        str(into),
        *(str(into.parent / f".{name}.xpubuild-{what}") for what in ("lock", "new", "damaged")),
    ]
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
    commands.append(
        Command(
            argv=(XPUBUILD, "plumbing", "checkout", pin.url, pin.commit, str(into), *options),
            tuning=context.downloads(),
            portable=portable_commands(pin, str(into), url=origin),
        )
    )
    dirty = context.facts.dirty.get(name)
    return Step(
        id=f"{name}.source",
        title=f"check out {name} at {pin.commit[:12]}",
        commands=tuple(commands) if dirty is None else (),
        proofs=(TreeProof(str(into), pin), *recipe_proofs(context, name)) if dirty is None else (),
        outputs=tuple(outputs),
        witnesses=(str(into / ".git"),),
        relevant={"pin": pin.key(), "edits": dirty},
        guard_stamp=functools.partial(tree_stamp, into) if dirty is None else None,
        always_prove=dirty is None,
    )


def pin_checked(context: Context, name: str) -> Pin | None:
    """Return the pin that a component's tree must be at to be built; None with edits on purpose."""
    return None if name in context.facts.dirty else pin_of(context, name)


def built_tree_proof(context: Context, name: str) -> BuiltTreeProof:
    """Return the proof that a build left the tree as it was pinned."""
    return BuiltTreeProof(str(context.layout.src / name), pin_checked(context, name))


def wheel_step(context: Context, name: str, after: tuple[str, ...]) -> Step:
    """Return the step that builds and audits the wheel of a source component."""
    component, layout = context.component(name), context.layout
    stage = layout.wheels / f".stage-{name}"
    command = frontend.wheel_command(context, name, str(stage))
    audit = component.audit
    policy = AuditPolicy(
        cxx11_abi=context.choice.cxx11_abi if audit.cxx11_abi else None,
        forbid_needed=tuple(audit.forbid_needed),
        allow_missing=tuple(audit.allow_missing),
        require_strings=tuple(audit.require_strings),
        device_targets=aot.audited_targets(context, name, command.env),
    )
    search = (context.site_packages / "torch" / "lib", layout.env / "lib")
    build_folder = layout.build / name
    return Step(
        id=f"{name}.wheel",
        title=f"build {component.dist} wheel",
        needs=(f"{name}.source", *after),
        tools=compile_cache.tools(context, name),
        commands=(frontend.check_command(context, name, pin_checked(context, name)), command),
        proofs=(
            built_tree_proof(context, name),
            WheelProof(str(stage), "*.whl", policy, tuple(str(folder) for folder in search)),
            *compile_cache.proofs(context, name),
        ),
        inputs=(frontend.source_folder(context, name),),
        outputs=(str(build_folder), *admission.made(context, name)),
        fresh=(
            str(stage),
            frontend.bytecode(context, name),
            *(() if component.build.resume else (str(build_folder),)),
            *compile_cache.logs(context, name),
        ),
        publish=Publish(stage=str(stage), folder=str(layout.wheels), pattern="*.whl"),
        relevant={"compiler": dict(context.facts.compilers.key), "oneapi": _oneapi_digest(context)},
        memory_bytes=admission.memory_of(context, name),
    )


def _oneapi_digest(context: Context) -> str:
    return context.facts.oneapi.digest if context.facts.oneapi else ""


def install_step(context: Context, name: str, after: tuple[str, ...]) -> Step:
    """Return the step that installs a built wheel into the environment, exactly that file."""
    component, layout = context.component(name), context.layout
    wheels, made = (layout.portable, "portable") if context.request.portable else (layout.wheels, "wheel")
    site = context.site_packages
    normal = component.dist.replace("-", "_")
    held = holding.held_file(context, name)
    argv = (
        str(layout.python), "-m", "pip", "install",
        "--no-deps", "--no-index", "--pre", "--no-input", "--force-reinstall",
        "--disable-pip-version-check", "--find-links", str(wheels),
        component.dist,
    )  # fmt: skip
    constraints = holding.constraints(context, name)
    return Step(
        id=f"{name}.install",
        title=f"install {component.dist}",
        needs=(f"{name}.{made}",),
        after=after,
        commands=(
            repair_env_command(str(layout.env)),
            Command(argv=holding.with_constraints(argv, constraints), env=_OWN_WHEELS_ALONE),
            holding.hold_command(context, name),
        ),
        proofs=(
            SameWheelProof(str(wheels), component.dist, str(site)),
            holding.held_proof(context, name, own=True),
        ),
        inputs=(str(wheels), *constraints),
        outputs=(str(layout.env), held),
        witnesses=(held,),
        witness_globs=((str(site), f"{normal}-*.dist-info/RECORD"),),
        outputs_stamp=functools.partial(installed_stamp, site, (component.dist,)),
        explain=holding.explain(),
    )


def editable_step(context: Context, name: str, needs: tuple[str, ...], after: tuple[str, ...]) -> Step:
    """Return the step that installs a source component editable, for a developer who rebuilds all day."""
    component, layout = context.component(name), context.layout
    command = frontend.editable_command(context, name)
    normal = component.dist.replace("-", "_")
    held = holding.held_file(context, name)
    constraints = holding.constraints(context, name)
    return Step(
        id=f"{name}.install",
        title=f"build and install {component.dist} (editable)",
        needs=(f"{name}.source", *needs),
        after=after,
        tools=compile_cache.tools(context, name),
        commands=(
            repair_env_command(str(layout.env)),
            frontend.check_command(context, name, pin_checked(context, name), kind=EDITABLE),
            replace(command, argv=holding.with_constraints(command.argv, constraints)),
            holding.hold_command(context, name),
        ),
        proofs=(
            InstalledProof(str(context.site_packages), (component.dist,)),
            holding.held_proof(context, name, own=True),
            *compile_cache.proofs(context, name),
        ),
        inputs=constraints,
        outputs=(str(layout.env), str(layout.build / name), held, *admission.made(context, name)),
        fresh=(frontend.bytecode(context, name), *compile_cache.logs(context, name)),
        witnesses=(held,),
        witness_globs=((str(context.site_packages), f"{normal}-*.dist-info/RECORD"),),
        relevant={"compiler": dict(context.facts.compilers.key), "oneapi": _oneapi_digest(context)},
        memory_bytes=admission.memory_of(context, name),
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
