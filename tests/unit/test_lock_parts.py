"""The parts of a lock: requirements, conda packages, oneAPI's environment, and the comparison of machines."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.locks import example, locks, machine, oid, sha

from xpubuild.documents import plain
from xpubuild.errors import RecipeError
from xpubuild.install import lock_model as model
from xpubuild.install.lock_compare import differences, machine_differences, not_older
from xpubuild.install.lock_parts import (
    clean_text,
    clean_url,
    clean_values,
    conda_part,
    machine_part,
    oneapi_part,
    python_part,
    recipe_part,
    requirement_file,
)
from xpubuild.install.locked_options import options_of

A, B = sha("a"), sha("b")


def test_every_pin_of_a_requirement_file_is_taken_whatever_its_marker() -> None:
    text = f"""# a comment
--only-binary :all:
filelock==4.2 ; python_full_version >= '3.11' \\
    --hash=sha256:{B} \\
    --hash=sha256:{A}
    # via torch
filelock==4.1 ; python_full_version < '3.11' --hash=sha256:{A}
Typing_Extensions==1.0 --hash=sha256:{A}  # needed
"""
    found = requirement_file("x.txt", text)
    assert [(pin.name, pin.version, pin.marker) for pin in found.pins] == [
        ("filelock", "4.1", 'python_full_version < "3.11"'),
        ("filelock", "4.2", 'python_full_version >= "3.11"'),
        ("typing-extensions", "1.0", None),
    ]
    assert found.pins[1].hashes == tuple(sorted((f"sha256:{A}", f"sha256:{B}")))


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("torch==2.0", "no hash"),
        (f"torch>=2.0 --hash=sha256:{A}", "no exact version"),
        (f"torch --hash=sha256:{A}", "no exact version"),
        (f"torch=!2 --hash=sha256:{A}", "torch=!2"),
    ],
)
def test_what_is_no_exact_pin_cannot_be_locked(line: str, why: str) -> None:
    with pytest.raises(RecipeError) as caught:
        requirement_file("x.txt", line)
    assert why in f"{caught.value.what} {caught.value.why}"
    with pytest.raises(RecipeError):
        python_part({"x.txt": f"a==1 --hash=md5:{'0' * 31}x"}, [], {})


def test_open_wheels_have_the_hashes_that_somebody_knows() -> None:
    wheels = [("triton", "triton-xpu", "3.4"), ("torch", "torch", "2.8")]
    found = python_part({}, wheels, {"torch": [f"sha256:{B}", f"sha256:{A}"]})
    assert [wheel.component for wheel in found.wheels] == ["torch", "triton"]
    assert found.wheels[0].hashes == tuple(sorted((f"sha256:{A}", f"sha256:{B}")))
    assert found.wheels[1].hashes is None


def conda_document(**more: Any) -> dict[str, Any]:
    package = {
        "name": "cmake",
        "version": "3.31",
        "manager": "conda",
        "platform": "linux-64",
        "url": "https://someone:secret@host.example/t/tk-12/conda-forge/linux-64/cmake-3.31-0.conda",
        "hash": {"md5": "0" * 32, "sha256": A},
        **more,
    }
    other = {**package, "name": "zlib", "platform": "osx-64"}
    return {"version": 1, "metadata": {}, "package": [package, other]}


def test_conda_packages_are_named_below_their_channel() -> None:
    (package,) = conda_part(conda_document()).packages
    assert package.file == "linux-64/cmake-3.31-0.conda"
    assert (package.channel, package.sha256) == ("conda-forge", A)
    pip = {"manager": "pip", "url": "https://host.example/a/cmake-3.31.whl#sha256=0", "hash": {"sha256": B}}
    (package,) = conda_part(conda_document(**pip)).packages
    assert (package.file, package.channel, package.key) == ("cmake-3.31.whl", None, "cmake (pip)")


@pytest.mark.parametrize(
    "document", [{}, {"package": 1}, {"package": [1]}, conda_document(hash={}), conda_document(name=None)]
)
def test_a_conda_lock_that_pins_nothing_is_refused(document: dict[str, Any]) -> None:
    with pytest.raises(RecipeError):
        conda_part(document)


@pytest.mark.parametrize(
    ("url", "clean"),
    [
        ("https://github.com/a/b.git", "https://github.com/a/b.git"),
        ("https://me:secret@host/a.git", "https://host/a.git"),
        ("https://ghp_token@host:8443/a.git", "https://host:8443/a.git"),
        ("ssh://git@host/a.git", "ssh://git@host/a.git"),
        ("ssh://git:secret@host/a.git", "ssh://git@host/a.git"),
        ("git@host:a/b.git", "git@host:a/b.git"),
        ("https://host/a.git?private_token=abcdef", "https://host/a.git"),
        ("file:///srv/a.git", "file:///srv/a.git"),
        ("/srv/a.git", "/srv/a.git"),
    ],
)
def test_urls_carry_no_credentials(url: str, clean: str) -> None:
    assert clean_url(url) == clean


def test_switches_carry_no_secrets() -> None:
    given = {"USE_XPU": "1", "API_TOKEN": "geheim", "INDEX": "https://me:geheim@host/x"}
    assert clean_values(given) == {"USE_XPU": "1", "API_TOKEN": "****", "INDEX": "https://****@host/x"}


def test_bytes_that_are_no_text_are_written_as_escapes() -> None:
    assert clean_text("caf\udce9") == "caf\\xe9"


def test_oneapi_is_recorded_without_its_place() -> None:
    components = [{"name": "compiler", "version": "2025.1", "path": "/opt/o/compiler/2025.1"}]
    difference = {
        "set": {"CMPLR_ROOT": "/opt/o/compiler/2025.1", "CACHE": "/home/me/x", "API_TOKEN": "geheim"},
        "unset": ["B", "A"],
        "paths": {"PATH": {"prepend": ["/opt/o/bin"], "append": [], "remove": []}},
    }
    found = oneapi_part(
        components, difference, [("/opt/o", "{oneapi}"), ("/home/me", "{home}"), ("/", "{x}")]
    )
    assert found.components == {"compiler": "2025.1"}
    assert found.environment.set == {
        "CMPLR_ROOT": "{oneapi}/compiler/2025.1",
        "CACHE": "{home}/x",
        "API_TOKEN": "****",
    }
    assert found.environment.paths["PATH"].prepend == ("{oneapi}/bin",)
    assert found.environment.unset == ("A", "B")


def test_the_machine_comes_from_the_host_report() -> None:
    host = {
        "os": {"machine": "x86_64", "libc": "glibc 2.36"},
        "drivers": [
            {"family": "lts2-2523", "package": "libze-intel-gpu1", "version": "25.18", "source": "dpkg"},
            {"family": "kernel", "package": "i915", "version": "unknown", "source": "sysfs"},
        ],
    }
    compilers = {"cc": "gcc 12.2.0 x86_64-linux-gnu", "cxx": "clang 17"}
    found = machine_part(host, python="3.11.2", compilers=compilers, oneapi=None, with_driver=True)
    assert found.glibc == "2.36"
    assert found.drivers == model.Drivers(
        family="lts2-2523", packages={"libze-intel-gpu1": "25.18", "i915": "unknown"}
    )
    assert found.compilers["cxx"] == model.Compiler(kind="clang", version="17", target="unknown")
    empty = machine_part({}, python="3", compilers={}, oneapi=None, with_driver=False)
    assert (empty.drivers, empty.glibc) == (None, "unknown")


def test_sections_of_a_recipe_can_be_told_apart() -> None:
    one = recipe_part("a", {"name": "a", "needs": {"gcc": 1}, "components": {"torch": 1, "ops": 2}})
    other = recipe_part("a", {"name": "a", "needs": {"gcc": 1}, "components": {"torch": 1, "ops": 3}})
    assert one.digest != other.digest
    assert {name for name in one.parts if one.parts[name] != other.parts[name]} == {"components.ops"}


@given(locks)
@settings(max_examples=40, deadline=None)
def test_a_lock_does_not_differ_from_itself(lock: model.Lock) -> None:
    assert differences(lock, lock) == []
    for policy in ("exact", "compatible", "ignore"):
        assert machine_differences(lock.machine, lock.machine, policy) == []


@given(locks, locks)
@settings(max_examples=80, deadline=None)
def test_two_locks_differ_where_they_are_not_equal(one: model.Lock, other: model.Lock) -> None:
    same = one.model_copy(update={"machine": other.machine}) == other
    assert (differences(one, other) == []) == same
    exact = machine_differences(one.machine, other.machine, "exact")
    assert (exact == []) == (one.machine == other.machine)


def test_differences_have_names_that_can_be_looked_up() -> None:
    torch = example().repositories["torch"]
    first, second, third = torch.submodules
    changed = torch.model_copy(
        update={
            "submodules": (
                first.model_copy(update={"commit": oid(1)}),
                second,
                third.model_copy(update={"path": "third_party/kineto/new"}),
            )
        }
    )
    other = example(repositories={**example().repositories, "torch": changed})
    found = {item.path: item for item in differences(example(), other)}
    assert set(found) == {
        "repositories.torch.submodules.third_party/fmt.commit",
        "repositories.torch.submodules.third_party/kineto/fmt",
        "repositories.torch.submodules.third_party/kineto/new",
    }
    moved = found["repositories.torch.submodules.third_party/fmt.commit"]
    assert (moved.old, moved.new) == (first.commit, oid(1))
    assert moved.text == f"{moved.path}: the lock has {first.commit}, now it is {oid(1)}"
    assert "is not in the lock" in found["repositories.torch.submodules.third_party/kineto/new"].text


def test_lists_say_what_came_and_went() -> None:
    options = example().options
    other = example(options=options.model_copy(update={"arch": ("bmg", "dg2")}))
    (found,) = differences(example(), other)
    assert found.text == "options.arch: the lock has pvc, now there is dg2"
    other = example(options=options.model_copy(update={"arch": ("bmg", "pvc")}))
    (found,) = differences(example(), other)
    assert "the order pvc, bmg" in found.text
    assert plain(found)["old"] == ["pvc", "bmg"]


def changed(**more: Any) -> model.Machine:
    return machine().model_copy(update=more)


def compilers(kind: str, version: str) -> dict[str, model.Compiler]:
    one = model.Compiler(kind=kind, version=version, target="x86_64-linux-gnu")
    return {"cc": one, "cxx": one}


def drivers(family: str | None, **packages: str) -> model.Drivers:
    known = {"libze-intel-gpu1": "25.18.33578.15-1146~22.04", "intel-opencl-icd": "25.18.33578.15"}
    given = {name.replace("_", "-"): version for name, version in packages.items()}
    return model.Drivers(family=family, packages={**known, **given})


def oneapi(**components: str) -> model.Oneapi:
    known = machine().oneapi
    assert known is not None
    return known.model_copy(update={"components": {"compiler": "2025.1", "pti": "0.11", **components}})


FAMILY = "lts2-2523"


@pytest.mark.parametrize(
    ("here", "compatible", "exact"),
    [
        (changed(), [], []),
        (changed(glibc="2.39"), [], ["glibc"]),
        (changed(glibc="2.35"), ["glibc"], ["glibc"]),
        (changed(glibc="2.4"), ["glibc"], ["glibc"]),
        (changed(python="3.11.9"), [], ["python"]),
        (changed(python="3.12.2"), ["python"], ["python"]),
        (changed(architecture="aarch64"), ["architecture"], ["architecture"]),
        (changed(compilers=compilers("gcc", "13.3.0")), [],
         ["compilers.cc.version", "compilers.cxx.version"]),
        (changed(compilers=compilers("gcc", "14.2.0")), ["compilers.cc", "compilers.cxx"],
         ["compilers.cc.version", "compilers.cxx.version"]),
        (changed(compilers=compilers("clang", "13.2.0")), ["compilers.cc", "compilers.cxx"],
         ["compilers.cc.kind", "compilers.cxx.kind"]),
        (changed(compilers={}), ["compilers.cc", "compilers.cxx"], ["compilers.cc", "compilers.cxx"]),
        (changed(drivers=drivers(FAMILY, libze_intel_gpu1="25.18.33578.20-1")), [],
         ["drivers.packages.libze-intel-gpu1"]),
        (changed(drivers=drivers(FAMILY, libze_intel_gpu1="25.18.33578.9-1")),
         ["drivers.packages.libze-intel-gpu1"], ["drivers.packages.libze-intel-gpu1"]),
        (changed(drivers=drivers(FAMILY, more="1")), [], ["drivers.packages.more"]),
        (changed(drivers=drivers("rolling")), ["drivers.family"], ["drivers.family"]),
        (changed(drivers=None),
         ["drivers.family", "drivers.packages.libze-intel-gpu1", "drivers.packages.intel-opencl-icd"],
         ["drivers"]),
        (changed(oneapi=oneapi(compiler="2025.1.3")), [], ["oneapi.components.compiler"]),
        (changed(oneapi=oneapi(compiler="2025.2")), ["oneapi.components.compiler"],
         ["oneapi.components.compiler"]),
        (changed(oneapi=oneapi(ccl="1")), [], ["oneapi.components.ccl"]),
    ],
)  # fmt: skip
def test_the_three_policies(here: model.Machine, compatible: list[str], exact: list[str]) -> None:
    def paths(policy: model.Policy) -> list[str]:
        return [item.path.removeprefix("machine.") for item in machine_differences(machine(), here, policy)]

    assert paths("compatible") == compatible
    assert sorted(paths("exact")) == sorted(exact)
    assert paths("ignore") == []


def test_compatible_looks_at_the_names_that_oneapi_changes_and_not_at_their_values() -> None:
    known = machine().oneapi
    assert known is not None
    values = known.environment.model_copy(
        update={"set": {**known.environment.set, "CMPLR_ROOT": "{oneapi}/x"}}
    )
    names = known.environment.model_copy(update={"set": {**known.environment.set, "MKLROOT": "{oneapi}/mkl"}})
    here = changed(oneapi=known.model_copy(update={"environment": values}))
    assert machine_differences(machine(), here, "compatible") == []
    assert len(machine_differences(machine(), here, "exact")) == 1
    here = changed(oneapi=known.model_copy(update={"environment": names}))
    (found,) = machine_differences(machine(), here, "compatible")
    assert found.path == "machine.oneapi.environment.MKLROOT"
    (found,) = machine_differences(here, machine(), "compatible")
    assert "but not here" in found.text


@given(
    st.lists(st.integers(0, 99), min_size=1, max_size=4), st.lists(st.integers(0, 99), min_size=1, max_size=4)
)
def test_versions_are_compared_by_their_numbers(one: list[int], other: list[int]) -> None:
    first, second = (".".join(map(str, numbers)) for numbers in (one, other))
    assert not_older(first, second) == (one >= other)


def test_an_epoch_counts_before_the_version() -> None:
    assert not_older("1:1.0", "2.0")
    assert not not_older("2.0", "1:1.0")


def test_aot_targets_in_a_lock_are_asked_for_again_for_the_gpu_alone() -> None:
    asked = {"components": ("torch", "ops"), "python": model.PythonChoice(version="3.11", range=">=3.10")}
    options = example().options.model_copy(update=asked)
    assert options_of(example(options=options)).arch == ("pvc", "bmg")
    # A lock of a build for the CPU has the recipe's targets; asking for them would be refused.
    cpu = options.model_copy(update={"target": "cpu"})
    assert options_of(example(options=cpu)).arch == ()
