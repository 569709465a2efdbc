"""Builds a wheel from a source tree: with pip, or with setup.py if the recipe says so. Pure.

pip builds trees with a ``pyproject.toml`` and with only a ``setup.py`` alike, without isolation, so that the
pinned tools and the torch of the environment are used. The kind of tree is only known after the checkout: the
command before the build reports it, and fails if the recipe does not match the tree.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from xpubuild.engine.model import XPUBUILD, Command
from xpubuild.errors import RecipeError
from xpubuild.install import admission, compile_cache, compiler_steps
from xpubuild.install.archive_steps import unpacked_environment
from xpubuild.install.context import Context
from xpubuild.install.repository_steps import served_environment
from xpubuild.supply.git.built import WHEEL
from xpubuild.supply.git.pin import Pin

#: 2020-01-01 UTC: a fixed moment for archive members, so that a wheel depends on its inputs alone.
SOURCE_DATE_EPOCH = "1577836800"


def source_folder(context: Context, name: str) -> str:
    """Return the folder of a component's pyproject.toml or setup.py."""
    folder = context.layout.src / name
    inside = context.component(name).build.source_dir
    return str(folder if inside == "." else folder / inside)


def build_environment(context: Context, name: str) -> dict[str, str]:
    """Return the environment overlay of a source build, in the order: switches, compilers, oneAPI, ABI."""
    facts, choice = context.facts, context.choice
    own = context.component(name).build.cxx11_abi
    abi = str(choice.cxx11_abi if own is None else own)
    env = {key: context.fill(value) for key, value in choice.switches[name].items()}
    env.update(
        {
            "CC": facts.compilers.cc,
            "CXX": facts.compilers.cxx,
            "CMAKE_PREFIX_PATH": str(context.layout.env),
            "CMAKE_GENERATOR": "Ninja",
            "SOURCE_DATE_EPOCH": SOURCE_DATE_EPOCH,
            "_GLIBCXX_USE_CXX11_ABI": abi,
            # Bytecode in the tree is neither written nor read: it would be run in place of the pinned source.
            "PYTHONPYCACHEPREFIX": bytecode(context, name),
        }
    )
    env["CXXFLAGS"] = " ".join(filter(None, (env.get("CXXFLAGS"), f"-D_GLIBCXX_USE_CXX11_ABI={abi}")))
    if facts.oneapi is not None:
        own_prefix = env["CMAKE_PREFIX_PATH"]
        env.update(facts.oneapi.env)
        theirs = facts.oneapi.env.get("CMAKE_PREFIX_PATH")
        env["CMAKE_PREFIX_PATH"] = f"{own_prefix}:{theirs}" if theirs else own_prefix
    env.update(compiler_steps.environment(context))
    env.update(served_environment(context, name))
    env.update(unpacked_environment(context, name))
    if scratch_config(context, name):
        env["DIST_EXTRA_CONFIG"] = str(_scratch_file(context, name))
    return env


def bytecode(context: Context, name: str) -> str:
    """Return the folder for the bytecode of a component's build, which is removed before it."""
    return str(context.layout.build / "bytecode" / name)


def scratch_config(context: Context, name: str) -> Mapping[str, str]:
    """Return the file (path -> text) that keeps setuptools' scratch files out of the tree; empty for none.

    In the tree, ``build/lib*`` would outlive a change of the pin, and the next wheel would hold modules that
    the new tree no longer has. A build that is resumed on purpose keeps its tree, and one with config
    settings is told its place by them.
    """
    build = context.component(name).build
    if build.resume or build.config_settings:
        return {}
    # Relative, for a script that runs in another workspace: setup.py runs in its own folder.
    place = os.path.relpath(context.layout.build / name, source_folder(context, name))
    return {str(_scratch_file(context, name)): f"[build]\nbuild_base = {place}\n"}


def _scratch_file(context: Context, name: str) -> Path:
    return context.layout.build / "setuptools" / f"{name}.cfg"


def check_command(context: Context, name: str, pin: Pin | None, *, kind: str = WHEEL) -> Command:
    """Return the command that compares the tree with its pin and with what the recipe says of its front end.

    ``pin`` is None for a tree with edits on purpose.
    """
    source, build = context.component(name).source, context.component(name).build
    tree = ["--checkout", str(context.layout.src / name), "--kind", kind]
    if pin is not None:
        tree += ["--commit", pin.commit, *(() if pin.submodules else ("--no-submodules",))]
        tree += [part for path in pin.skip for part in ("--skip-submodule", path)]
    tree += [part for path in (source.made_by_build if source else ()) for part in ("--besides", path)]
    settings = [part for key in sorted(build.config_settings) for part in ("--setting", key)]
    return Command(
        argv=(
            XPUBUILD, "plumbing", "front-end", source_folder(context, name),
            "--env", str(context.layout.env), "--wanted", build.front_end, *settings, *tree,
        ),
        portable=(),
    )  # fmt: skip


def wheel_command(context: Context, name: str, stage: str) -> Command:
    """Return the command that makes a component's wheel in ``stage``.

    Raises:
        RecipeError: setup.py was asked for together with config settings, which it does not know.
    """
    build, python = context.component(name).build, str(context.layout.python)
    if build.front_end == "setup.py":
        if build.config_settings:
            raise RecipeError(
                f"component '{name}' has config settings, but setup.py, which builds it, accepts none",
                fix=f"remove components.{name}.build.config_settings, or build.front_end",
            )
        argv: tuple[str, ...] = (python, "setup.py", "bdist_wheel", "--dist-dir", stage)
        return _told(context, name, argv, cwd=source_folder(context, name))
    return _told(context, name, (*_pip(context, name, "wheel"), "--wheel-dir", stage, _source(context, name)))


def configure_command(context: Context, name: str, folder: str) -> Command:
    """Return the command that configures a component as its wheel's build would, and compiles nothing.

    ``folder`` is where CMake writes where the tree leaves that to the caller.
    """
    settings = {"build-dir": folder, **context.component(name).build.config_settings}
    filled = [
        part for key in sorted(settings) for part in ("--setting", f"{key}={context.fill(settings[key])}")
    ]
    argv = (
        XPUBUILD, "plumbing", "configure", source_folder(context, name),
        "--env", str(context.layout.env), *filled,
    )  # fmt: skip
    # Nothing is compiled, and the launchers would be in what a rehearsal looks at.
    return _told(context, name, argv, compiles=False)


def editable_command(context: Context, name: str) -> Command:
    """Return the command that installs a component editable.

    Always pip: ``setup.py develop`` is gone from setuptools.
    """
    return _told(context, name, (*_pip(context, name, "install"), "--editable", _source(context, name)))


def _source(context: Context, name: str) -> str:
    return source_folder(context, name)


def _pip(context: Context, name: str, verb: str) -> tuple[str, ...]:
    settings = [
        part
        for key, value in sorted(context.component(name).build.config_settings.items())
        for part in ("--config-settings", f"{key}={context.fill(value)}")
    ]
    return (
        str(context.layout.python), "-m", "pip", verb,
        "--no-build-isolation", "--no-deps", "--no-index", "--no-input",
        "--disable-pip-version-check", "--verbose", *settings,
    )  # fmt: skip


def _only_local_git(context: Context) -> dict[str, str]:
    """Let a git that the build starts end at once, offline, where it would wait for a server."""
    return {"GIT_ALLOW_PROTOCOL": "file"} if context.facts.downloads.offline else {}


def _told(
    context: Context, name: str, argv: tuple[str, ...], *, cwd: str | None = None, compiles: bool = True
) -> Command:
    env = build_environment(context, name)
    told = {**admission.jobs_environment_of(context, name), **_only_local_git(context)}
    if compiles:
        told |= compile_cache.tuning(context, name, env)
        told |= admission.tuning(context, name, {**env, **told})
    oneapi_path = context.facts.oneapi.path_prefix if context.facts.oneapi else ()
    return Command(
        argv=argv,
        env=env,
        cwd=cwd,
        path_prefix=(str(context.layout.env / "bin"), *compiler_steps.path_prefix(context), *oneapi_path),
        tuning=told,
    )
