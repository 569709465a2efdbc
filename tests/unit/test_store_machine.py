"""What of a machine is part of a build identity: content, not names, versions or times."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from support.plan_files import PLANS, plan_for

from xpubuild.engine.model import Plan
from xpubuild.errors import AuditError
from xpubuild.install.kept import read_only, require_movable
from xpubuild.install.target import Compilers
from xpubuild.supply.depot.machine import (
    Contents,
    Toolchain,
    headers,
    machine_inputs,
    system_inputs,
)
from xpubuild.supply.depot.record import build_inputs, identity

#: Answers what GCC answers about its folders.
_COMPILER = """#!/bin/sh
case "$*" in
*-print-search-dirs*) echo "programs: ={0}/libexec"; echo "libraries: ={0}/lib" ;;
*-v*) printf '#include <...> search starts here:\\n {0}/include\\nEnd of search list.\\n' >&2 ;;
esac
"""


@pytest.fixture
def tools(tmp_path: Path) -> Toolchain:
    """A made-up toolchain: a script that says where its parts are."""
    for name in ("libexec/cc1plus", "lib/libgcc.a", "lib/libjpeg.so.62.3.0", "include/jpeglib.h"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(f"made up {name}")
    (tmp_path / "lib" / "libjpeg.so").symlink_to("libjpeg.so.62.3.0")
    for name in ("gcc", "g++"):
        (tmp_path / name).write_text(_COMPILER.format(tmp_path))
        (tmp_path / name).chmod(0o755)
    return Toolchain(
        str(tmp_path / "gcc"),
        str(tmp_path / "g++"),
        {"PATH": "/usr/bin:/bin"},
        search_path=str(tmp_path / "bin"),
    )


def found(tools: Toolchain, folder: Path) -> Mapping[str, Any]:
    contents = Contents(folder / "answers")
    return {**machine_inputs(tools, contents), **system_inputs(tools, contents)}


def test_the_content_of_what_a_compiler_starts_counts_whatever_its_times_say(
    tools: Toolchain, tmp_path: Path
) -> None:
    before = found(tools, tmp_path)
    assert before["compilers"].keys() >= {"cc", "cxx", "cc1plus", "libgcc.a"}
    assert found(tools, tmp_path) == before
    program = tmp_path / "libexec" / "cc1plus"
    status = program.stat()
    program.write_text("made UP libexec/cc1plus")
    os.utime(program, ns=(status.st_atime_ns, status.st_mtime_ns))
    after = found(tools, tmp_path)
    assert {
        name for name in before["compilers"] if before["compilers"][name] != after["compilers"][name]
    } == {"cc1plus"}


@pytest.mark.parametrize(
    ("file", "part"),
    [
        ("include/png.h", "headers"),
        ("lib/libpng.so", "libraries"),
        ("lib/cmake/png/png-config.cmake", "libraries"),
        ("lib64/libmine.a", "prefixes"),
    ],
)
def test_a_package_that_a_build_would_find_counts(
    tools: Toolchain, tmp_path: Path, file: str, part: str
) -> None:
    before = found(tools, tmp_path)
    (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / file).write_text("x")
    assert found(tools, tmp_path)[part] != before[part]


def test_a_wheel_that_needs_its_workspace_is_not_for_others() -> None:
    def audit(entry: str) -> dict[str, Any]:
        return {"objects": [{"path": "torch/lib/libtorch.so", "rpath": ["$ORIGIN", entry]}]}

    require_movable(audit("/ws2/env/lib"), "/ws")
    with pytest.raises(AuditError, match=r"libtorch\.so looks for libraries in this workspace"):
        require_movable(audit("/ws/env/lib"), "/ws")


@pytest.mark.parametrize(
    ("asked", "environ", "expected"),
    [
        (None, {}, False),
        (True, {}, True),
        (None, {"GITHUB_EVENT_NAME": "push"}, False),
        (None, {"GITHUB_EVENT_NAME": "pull_request_target"}, True),
        (None, {"GITHUB_EVENT_NAME": "push", "GITHUB_REF_TYPE": "tag"}, True),
        (None, {"GITHUB_EVENT_NAME": "release"}, True),
        (None, {"GITLAB_CI": "true", "CI_MERGE_REQUEST_IID": "7"}, True),
        (None, {"GITLAB_CI": "true", "CI_COMMIT_TAG": "v1"}, True),
        (None, {"GITLAB_CI": "true"}, False),
        (False, {"GITHUB_EVENT_NAME": "pull_request"}, False),
    ],
)
def test_releases_and_changes_that_nobody_has_reviewed_keep_nothing(
    asked: bool | None, environ: dict[str, str], expected: bool
) -> None:
    assert read_only(asked, environ) is expected


def test_only_what_a_build_uses_is_part_of_it(tools: Toolchain, tmp_path: Path) -> None:
    usual = {"platform", "cpu", "compilers", "headers", "libraries", "prefixes"}
    assert found(tools, tmp_path).keys() == usual
    for name in ("bin/tool", "bin/compiler/clang", "include/a.h", "lib/libx.so", "opt/x"):
        (tmp_path / "oneapi" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "oneapi" / name).write_text(name)
    python = tmp_path / "python"
    python.write_text('#!/bin/sh\necho " 3.12.1 cpython-312 $1 $2"\n')
    python.chmod(0o755)
    every = replace(
        tools, python=str(python), oneapi={"mkl": tmp_path / "oneapi"}, ocloc=True,
        environment={**tools.environment, "PATH": "/nowhere"},
    )  # fmt: skip
    whole = found(every, tmp_path)
    assert whole.keys() == {*usual, "python", "oneapi", "ocloc"}
    assert whole["python"] == "3.12.1 cpython-312 -I -c"
    hashed = {"bin/tool": "bin/tool", "compiler/clang": "bin/compiler/clang"}
    listed = {"include": "include", "lib": "lib", "opt": "opt"}
    assert whole["oneapi"] == {
        "mkl": {
            **{name: hashlib.sha256(text.encode()).hexdigest() for name, text in hashed.items()},
            **{name: headers(tmp_path / "oneapi" / folder) for name, folder in listed.items()},
        }
    }


# ---- The build identity: the same wherever a wheel is built, another one for everything that decides it


MACHINE: Mapping[str, Any] = {
    "platform": "x86_64 glibc 2.36",
    "compilers": {"cc1plus": "a" * 64, "libgmp.so.10": "b" * 64},
    "cpu": ["avx", "avx2"],
}
ELSEWHERE = "/home/somebody/build it"


def places(plan: Plan) -> dict[str, str]:
    return {
        plan.workspace: "{workspace}",
        quote(plan.workspace): "{workspace}",
        "/somewhere/cache": "{cache}",
        "/usr/bin/python3.12": "{python}",
        "/usr/bin/gcc": "{cc}",
        "/usr/bin/g++": "{cxx}",
    }


def of(plan: Plan, step: str = "ops.wheel", machine: Mapping[str, Any] = MACHINE) -> dict[str, Any]:
    return build_inputs(plan, step, step.partition(".")[0], machine, places(plan))


def of_quickstart(**asked: Any) -> dict[str, Any]:
    return of(plan_for("quickstart", **asked))


@pytest.mark.parametrize("name", ["2.13-cpu-waiting-ccache", "2.14-xpu-triton"])
def test_no_identity_names_a_folder_of_the_workspace_or_the_cache(name: str) -> None:
    plan = PLANS[name]()
    for step in plan.steps:
        if step.id.endswith(".wheel"):
            text = json.dumps(of(plan, step.id))
            assert "/somewhere/my" not in text
            assert "/somewhere/cache" not in text


def test_folder_jobs_mirror_and_interpreter_do_not_change_it() -> None:
    wanted = identity(of_quickstart())
    assert identity(of_quickstart(workspace=ELSEWHERE)) == wanted
    assert identity(of_quickstart(facts={"jobs": 96})) == wanted
    assert identity(of(plan_for("quickstart"))) == wanted
    plan = plan_for("quickstart", facts={"python": "/opt/py/bin/python3", "cache": Path("/scratch/me")})
    names = {**places(plan), "/opt/py/bin/python3": "{python}", "/scratch/me": "{cache}"}
    assert identity(build_inputs(plan, "ops.wheel", "ops", MACHINE, names)) == wanted
    # The fingerprint, which names the folder, does change.
    one, other = plan_for("quickstart"), plan_for("quickstart", workspace=ELSEWHERE)
    assert one.fingerprints["ops.wheel"] != other.fingerprints["ops.wheel"]


def changed_requirement() -> dict[str, Any]:
    plan = plan_for("quickstart")
    (torch,) = (step for step in plan.steps if step.id == "torch")
    assert torch.relevant
    other = replace(torch, relevant={"requirements": "f" * 64})
    steps = tuple(other if step.id == "torch" else step for step in plan.steps)
    return of(replace(plan, steps=steps))


@pytest.mark.parametrize(
    "inputs",
    [
        of(plan_for("quickstart"), machine={**MACHINE, "cpu": ["avx"]}),
        of(plan_for("quickstart"), machine={**MACHINE, "compilers": {"cc1plus": "c" * 64}}),
        changed_requirement(),
        of_quickstart(
            facts={"compilers": Compilers("/usr/bin/gcc", "/usr/bin/g++", "12", {"cc": "gcc 12"}, "gcc")}
        ),
        of_quickstart(facts={"python_version": "3.12.5"}),
    ],
    ids=["cpu", "compiler", "requirement", "release of gcc", "python"],
)
def test_what_decides_the_wheel_changes_it(inputs: dict[str, Any]) -> None:
    assert identity(inputs) != identity(of_quickstart())


def test_switches_abi_and_aot_targets_of_what_it_rests_on_count() -> None:
    def of_vision(**asked: Any) -> dict[str, Any]:
        return of(plan_for("2.13", oneapi="2025.3", with_=("vision",), **asked), "vision.wheel")

    one = of_vision(arch=("pvc",))
    assert identity(of_vision(arch=("pvc",), workspace=ELSEWHERE)) == identity(one)
    others = [of_vision(arch=("bmg",)), of_vision(arch=("pvc",), variant="minimal")]
    assert len({identity(item) for item in (one, *others)}) == 3


def test_a_path_that_only_begins_alike_stays() -> None:
    plan = plan_for("quickstart")
    (built,) = (step for step in plan.steps if step.id == "ops.wheel")
    command = replace(
        built.commands[-1], env={"CC": "/usr/bin/gcc-12", "W": f"{plan.workspace}2:{plan.workspace}/x"}
    )
    steps = tuple(
        replace(step, commands=(command,)) if step.id == "ops.wheel" else step for step in plan.steps
    )
    found = of(replace(plan, steps=steps))["steps"]["ops.wheel"]["commands"][0]["env"]
    assert found == {"CC": "/usr/bin/gcc-12", "W": f"{plan.workspace}2:{{workspace}}/x"}
