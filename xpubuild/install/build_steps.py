"""The steps that build, install and verify: environment and command of each build, and its gate. Pure.

pip builds trees with a ``pyproject.toml`` and with only a ``setup.py`` alike, without isolation, so that the
pinned tools and the torch of the environment are used. The kind of tree is only known after the checkout: the
command before the build reports it, and fails if the recipe does not match the tree.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Mapping
from dataclasses import replace

from xpubuild.artifacts.against import NOTE, TREE, AgainstProof
from xpubuild.artifacts.audit_report import AuditPolicy
from xpubuild.artifacts.closed_build import NO_NETWORK
from xpubuild.artifacts.gate_rules import OFF
from xpubuild.artifacts.installed import InstalledProof, installed_stamp
from xpubuild.artifacts.step_proofs import SameWheelProof, VerifyProof, WheelProof
from xpubuild.engine.model import XPUBUILD, Command, Proof, Publish, Step
from xpubuild.errors import RecipeError
from xpubuild.install import build_jobs as jobs
from xpubuild.install import environment_steps as environment
from xpubuild.install import source_steps as sources
from xpubuild.install.build_compilers import cache_needed, cache_tuning, compiler_environment, path_prefix
from xpubuild.install.environment_steps import explain_held, words
from xpubuild.install.target import OneapiFacts, Target
from xpubuild.machine.python_environment import repair_env_command
from xpubuild.supply.caching import logs_of
from xpubuild.supply.git.edits import EDITABLE, WHEEL

#: A wheel folder that pip is configured with may hold a newer version, and pip would take that one.
_OWN_WHEELS_ALONE = {"PIP_CONFIG_FILE": "/dev/null", "PIP_FIND_LINKS": ""}


TORCH = "torch"
_LIST = "TORCH_XPU_ARCH_LIST"


def wants_xpu(env: Mapping[str, str]) -> bool:
    """Whether a build for XPU leaves XPU on; a recipe may switch it off."""
    return env.get("USE_XPU", "1").lower() not in OFF


def targets_in(env: Mapping[str, str]) -> tuple[str, ...]:
    """Return the AOT targets that an environment names."""
    return tuple(part.strip() for part in env.get(_LIST, "").replace(";", ",").split(",") if part.strip())


def audited_targets(target: Target, name: str, env: Mapping[str, str]) -> tuple[str, ...] | None:
    """Return the AOT targets that a component's wheel must have native code for; None: it has no kernels."""
    if not target.component(name).audit.device_code or target.device != "xpu" or not wants_xpu(env):
        return None
    return targets_in(env) if _LIST in env else target.arch


#: 2020-01-01 UTC: a fixed moment for archive members, so that a wheel depends on its inputs alone.
SOURCE_DATE_EPOCH = "1577836800"


def source_folder(target: Target, name: str, *, checked: bool = False) -> str:
    """Return the folder of a component's pyproject.toml or setup.py: where it is built, or is ``checked``."""
    copy = None if checked else sources.against_folder(target, name)
    folder = target.tree(name) if copy is None else copy / TREE
    return str(folder / target.component(name).build.source_dir)


def build_environment(target: Target, name: str) -> dict[str, str]:
    """Return the environment overlay of a source build, in the order: switches, compilers, oneAPI, ABI."""
    own = target.component(name).build.cxx11_abi
    abi = str(target.cxx11_abi if own is None else own)
    switches = {key: target.fill(value, name) for key, value in target.switches[name].items()}
    flags = (switches.get("CXXFLAGS"), f"-D_GLIBCXX_USE_CXX11_ABI={abi}")
    oneapi = dict(target.oneapi.env) if target.oneapi is not None else {}
    prefixes = (str(target.layout.env), oneapi.pop("CMAKE_PREFIX_PATH", None))
    scratch = next(iter(scratch_config(target, name)), "")
    return {
        **switches,
        "CC": target.compilers.cc,
        "CXX": target.compilers.cxx,
        "CMAKE_PREFIX_PATH": ":".join(filter(None, prefixes)),
        "CMAKE_GENERATOR": "Ninja",
        "SOURCE_DATE_EPOCH": SOURCE_DATE_EPOCH,
        "_GLIBCXX_USE_CXX11_ABI": abi,
        # Bytecode in the tree is neither written nor read: it would be run in place of the pinned source.
        "PYTHONPYCACHEPREFIX": bytecode(target, name),
        "CXXFLAGS": " ".join(filter(None, flags)),
        **oneapi,
        **compiler_environment(target),
        **sources.served_environment(target, name),
        **sources.unpacked_environment(target, name),
        **({"DIST_EXTRA_CONFIG": scratch} if scratch else {}),
    }


def bytecode(target: Target, name: str) -> str:
    """Return the folder for the bytecode of a component's build, which is removed before it."""
    return str(target.layout.build / "bytecode" / name)


def scratch_config(target: Target, name: str) -> Mapping[str, str]:
    """Return the file (path -> text) that keeps setuptools' scratch files out of the tree; empty for none.

    In the tree, ``build/lib*`` would outlive a change of the pin, and the next wheel would hold modules that
    the new tree no longer has. A build that is resumed on purpose keeps its tree, and one with config
    settings is told its place by them.
    """
    build = target.component(name).build
    if build.resume or build.config_settings:
        return {}
    # Relative, for a script that runs in another workspace: setup.py runs in its own folder.
    place = os.path.relpath(target.layout.build / name, source_folder(target, name))
    file = target.layout.build / "setuptools" / f"{name}.cfg"
    return {str(file): f"[build]\nbuild_base = {place}\n"}


def check_command(target: Target, name: str, *, kind: str = WHEEL) -> Command:
    """Return the command that compares the tree with its pin and with what the recipe says of its front end.

    A tree with edits on purpose has no pin.
    """
    component, pin = target.component(name), sources.pin_checked(target, name)
    source, build = component.source, component.build
    folder = source_folder(target, name, checked=True)
    argv = [
        XPUBUILD, "plumbing", "front-end", folder, "--wanted", build.front_end,
        *words("--setting", sorted(build.config_settings)),
        "--checkout", str(target.tree(name)), "--kind", kind,
    ]  # fmt: skip
    if pin is not None:
        argv += ["--commit", pin.commit, *(() if pin.submodules else ("--no-submodules",))]
        argv += words("--skip-submodule", pin.skip)
    argv += words("--besides", source.made_by_build if source else ())
    tuning = {"XPUBUILD_WORKSPACE": str(target.layout.root)}
    return Command(argv=(*argv, *sources.own_options(target, name)), tuning=tuning, portable=())


def wheel_command(target: Target, name: str, stage: str) -> Command:
    """Return the command that makes a component's wheel in ``stage``.

    Raises:
        RecipeError: setup.py was asked for together with config settings, which it does not know.
    """
    build, source = target.component(name).build, source_folder(target, name)
    if build.front_end != "setup.py":
        return _command(target, name, (*_pip(target, name, "wheel"), "--wheel-dir", stage, source))
    if build.config_settings:
        what = f"component '{name}' has config settings, but setup.py, which builds it, accepts none"
        raise RecipeError(what, fix=f"remove components.{name}.build.config_settings, or build.front_end")
    argv = (str(target.layout.python), "setup.py", "bdist_wheel", "--dist-dir", stage)
    return _command(target, name, argv, cwd=source)


def configure_command(target: Target, name: str, folder: str) -> Command:
    """Return the command that configures a component as its wheel's build would, and compiles nothing.

    ``folder`` is where CMake writes where the tree leaves that to the caller.
    """
    argv = (
        XPUBUILD, "plumbing", "configure", source_folder(target, name),
        "--env", str(target.layout.env), *_settings(target, name, "--setting", **{"build-dir": folder}),
    )  # fmt: skip
    # Nothing is compiled, and the launchers would be in what a rehearsal looks at.
    return _command(target, name, argv, compiles=False)


def _settings(target: Target, name: str, option: str, **more: str) -> tuple[str, ...]:
    every = {**more, **target.component(name).build.config_settings}
    return words(option, [f"{key}={target.fill(every[key], name)}" for key in sorted(every)])


def _pip(target: Target, name: str, verb: str) -> tuple[str, ...]:
    return (
        str(target.layout.python), "-m", "pip", verb,
        "--no-build-isolation", "--no-deps", "--no-index", "--no-input",
        "--disable-pip-version-check", "--verbose", *_settings(target, name, "--config-settings"),
    )  # fmt: skip


def _command(
    target: Target, name: str, argv: tuple[str, ...], *, cwd: str | None = None, compiles: bool = True
) -> Command:
    env = build_environment(target, name)
    own_jobs = dict.fromkeys(jobs.JOBS_VARIABLES, str(jobs.jobs_alone(target, name)))
    # Nothing is downloaded, and pip's configuration may hold config settings for the backend.
    tuning = {"PIP_CONFIG_FILE": os.devnull, **own_jobs}
    # A git that the build starts ends at once, offline, where it would wait for a server.
    tuning |= {"GIT_ALLOW_PROTOCOL": "file"} if target.downloads.offline else {}
    # A third party's build fetches only what is listed: else nobody knows what is in its wheel.
    tuning |= NO_NETWORK if target.component(name).build.against is not None else {}
    if compiles:
        tuning |= cache_tuning(target, name, env)
        tuning |= jobs.launcher_tuning(target, name, {**env, **tuning})
    oneapi_path = target.oneapi.path_prefix if target.oneapi else ()
    tools = (str(target.layout.env / "bin"), *path_prefix(target), *oneapi_path)
    path = (*sources.git_folder(target, name), *tools)
    return Command(argv=argv, env=env, cwd=cwd, path_prefix=path, tuning=tuning)


def _logs(target: Target, name: str) -> tuple[str, ...]:
    """Return where a compile cache counts its calls; of an earlier build, also where there is none now."""
    return tuple(str(path) for _, path in logs_of(name, target.layout.build))


def _relevant(target: Target) -> dict[str, object]:
    """Return what decides a build beside its command."""
    return {"compiler": dict(target.compilers.key), "oneapi": target.oneapi.digest if target.oneapi else ""}


def _not_missed(target: Target, name: str) -> tuple[str, ...]:
    """Return the libraries that others provide: a component loads those of what it needs, such as torch's."""
    loaded = [name, *(need for need in target.component(name).needs if need in target.components)]
    audits = [target.component(each).audit for each in loaded]
    return tuple(dict.fromkeys(item for audit in audits for item in audit.allow_missing))


def wheel_step(target: Target, name: str, after: tuple[str, ...]) -> Step:
    """Return the step that builds and audits the wheel of a source component."""
    component, layout = target.component(name), target.layout
    audit, resume = component.audit, component.build.resume
    stage, build_folder = layout.wheels / f".stage-{name}", layout.build / name
    command = wheel_command(target, name, str(stage))
    policy = AuditPolicy(
        cxx11_abi=target.cxx11_abi if audit.cxx11_abi else None, forbid_needed=tuple(audit.forbid_needed),
        allow_missing=_not_missed(target, name), require_strings=tuple(audit.require_strings),
        device_targets=audited_targets(target, name, command.env),
    )  # fmt: skip
    search = (str(target.site_packages / "torch" / "lib"), str(layout.env / "lib"))
    audited = WheelProof(str(stage), "*.whl", policy, search)
    proofs: tuple[Proof, ...] = (sources.built_tree_proof(target, name), audited)
    copy = sources.against_folder(target, name)
    of_copy, of_build = (() if copy is None else (str(copy),)), (() if resume else (str(build_folder),))
    if copy is not None:
        proofs += (AgainstProof(str(stage), str(target.site_packages), str(copy / NOTE)),)
    return Step(
        id=f"{name}.wheel",
        title=f"build {component.dist} wheel",
        needs=(f"{name}.source", *after),
        tools=cache_needed(target, name),
        commands=(check_command(target, name), *sources.against_command(target, name), command),
        proofs=proofs,
        inputs=(source_folder(target, name, checked=True),),
        outputs=(str(build_folder), *jobs.launcher_folder(target, name)),
        fresh=(str(stage), bytecode(target, name), *of_copy, *of_build, *_logs(target, name)),
        # PyTorch's setup.py runs no CMake where this is: a resumed build would keep the switches of before.
        stale=(f"{source_folder(target, name)}/build/CMakeCache.txt",) if resume else (),
        publish=Publish(stage=str(stage), folder=str(layout.wheels), pattern="*.whl"),
        relevant=_relevant(target),
        memory_bytes=jobs.memory_of(target, name),
    )


def _installing(target: Target, name: str, command: Command, before: tuple[Command, ...] = ()) -> Step:
    """Return what the steps share that install a component into the environment and write down what it is."""
    dist, held = target.component(name).dist, environment.held_file(target, name)
    constraints = environment.constraints_of(target, name)
    return Step(
        id=f"{name}.install",
        title=f"install {dist}",
        commands=(
            repair_env_command(str(target.layout.env)),
            *before,
            replace(command, argv=(*command.argv, *words("--constraint", constraints))),
            environment.hold_command(target, name),
        ),
        proofs=(environment.held_proof(target, name),),
        inputs=constraints,
        outputs=(str(target.layout.env), held),
        witnesses=(held,),
        witness_globs=((str(target.site_packages), f"{dist.replace('-', '_')}-*.dist-info/RECORD"),),
    )


def install_step(target: Target, name: str) -> Step:
    """Return the step that installs a built wheel into the environment, exactly that file."""
    dist, layout, site = target.component(name).dist, target.layout, target.site_packages
    argv = (
        str(layout.python), "-m", "pip", "install",
        "--no-deps", "--no-index", "--pre", "--no-input", "--force-reinstall",
        "--disable-pip-version-check", "--find-links", str(layout.wheels), dist,
    )  # fmt: skip
    step = _installing(target, name, Command(argv=argv, env=_OWN_WHEELS_ALONE))
    return replace(
        step,
        needs=(f"{name}.wheel",),
        proofs=(SameWheelProof(str(layout.wheels), dist, str(site)), *step.proofs),
        inputs=(str(layout.wheels), *step.inputs),
        outputs_stamp=functools.partial(installed_stamp, site, (dist,)),
        explain=functools.partial(explain_held, indexes=()),
    )


def editable_step(target: Target, name: str, needs: tuple[str, ...]) -> Step:
    """Return the step that installs a source component editable, for a developer who rebuilds all day.

    Always with pip at first: ``setup.py develop`` is gone from setuptools.
    """
    dist, folder = target.component(name).dist, source_folder(target, name)
    again = (str(target.layout.python), *environment.rebuild_files(target), dist, folder)
    settings = filter(None, _settings(target, name, ""))
    argv = (*again, *settings, "--", *_pip(target, name, "install"), "--editable", folder)
    check = check_command(target, name, kind=EDITABLE)
    step = _installing(target, name, _command(target, name, argv), (check,))
    installed = InstalledProof(str(target.site_packages), (dist,))
    made = (str(target.layout.build / name), *step.outputs[1:], *jobs.launcher_folder(target, name))
    return replace(
        step,
        title=f"build and install {dist} (editable)",
        needs=(f"{name}.source", *needs),
        tools=cache_needed(target, name),
        proofs=(installed, sources.built_tree_proof(target, name), *step.proofs),
        outputs=(step.outputs[0], *made),
        # Of who edits Python files all day what was compiled stays: it has the time of its source.
        fresh=(*(() if name in target.dirty else (bytecode(target, name),)), *_logs(target, name)),
        relevant=_relevant(target),
        memory_bytes=jobs.memory_of(target, name),
    )


def check_files(target: Target) -> dict[str, str]:
    """Return the files (path -> text) with the checks that components have in their own files."""
    checks = {name: target.component(name).check for name in target.components}
    folder = target.layout.checks
    return {f"{folder / name}.json": check.model_dump_json() for name, check in checks.items() if check}


def verify_step(target: Target, needs: tuple[str, ...]) -> Step:
    """Return the last step: the suite, run by the interpreter that was built for."""
    suite, report = target.recipe.verify, str(target.layout.verify_report)
    oneapi = target.oneapi or OneapiFacts()
    require = [item for item in suite.require if item in target.components]
    own = check_files(target)
    argv = (
        XPUBUILD, "verify", "--python", str(target.layout.python), "--device", target.device,
        "--suite", suite.suite, *words("--require", (*require, *own)), "--output", report,
    )  # fmt: skip
    command = Command(argv=argv, env=dict(oneapi.env), path_prefix=oneapi.path_prefix, portable=())
    return Step(
        id="verify", title=f"verify on the {target.device.upper()}", needs=needs, commands=(command,),
        proofs=(VerifyProof(report),), outputs=(report,), witnesses=(report,),
        relevant={"require": require, **({"checks": list(own.values())} if own else {})},
    )  # fmt: skip
