"""Locks as data: read back as written, no edit goes unseen, differences have names, contradictions end."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from support.locks import example, machine, oid

from xpubuild.errors import LockMismatchError, RecipeError, SourceIntegrityError
from xpubuild.install import lock_model as model
from xpubuild.install.lock_file import clean_url, dump, load, read_lock, write_lock
from xpubuild.install.lock_model import differences, not_older
from xpubuild.install.locked import (
    options_of,
    require_archives,
    require_no_contradiction,
    require_served,
    require_wheel,
)
from xpubuild.install.options import Options, Policy, is_lock

LOCK = example()
TEXT = dump(LOCK)


def test_a_lock_is_read_back_as_it_was_written() -> None:
    assert load(TEXT) == LOCK
    assert TEXT.isascii()
    document = yaml.safe_load(TEXT)
    digest = document.pop("digest")
    plain = json.dumps(document, sort_keys=True, separators=(",", ":"))
    assert digest == hashlib.sha256(plain.encode()).hexdigest()
    other = example(machine=machine().model_copy(update={"glibc": "2.39"}))
    assert other.digest == LOCK.digest, "the machine is no part of the digest that plans show"


def leaves(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    if isinstance(value, (dict, list)) and value:
        for key, item in value.items() if isinstance(value, dict) else enumerate(value):
            yield from leaves(item, (*path, key))
    yield path


def test_every_value_that_is_dropped_or_replaced_is_found() -> None:
    places = [path for path in leaves(yaml.safe_load(TEXT)) if path]
    assert len(places) > 150
    for number, (*before, last) in enumerate(places[::3]):
        document = yaml.safe_load(TEXT)
        inside = document
        for step in before:
            inside = inside[step]
        if number % 2:
            del inside[last]
        else:
            inside[last] = "other"
        with pytest.raises((RecipeError, LockMismatchError)):
            load(yaml.safe_dump(document))


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "not a mapping"),
        ("a: [\n", "not YAML"),
        ("a: 1\na: 2\n", "duplicate"),
        ("a: !!python/name:os.system x\n", "not YAML"),
        ("schema: xpubuild.lock/2\n", "'xpubuild.lock/2', but this xpubuild reads xpubuild.lock/1"),
        ("schema: xpubuild.lock/1\n", "recipe: Field required"),
        (TEXT.replace("target: xpu", "target: gpu"), "options.target: Input should be 'xpu' or 'cpu'"),
    ],
)
def test_what_is_no_lock_says_why(text: str, why: str) -> None:
    with pytest.raises(RecipeError) as caught:
        load(text)
    assert why in caught.value.why
    assert caught.value.commands == ("xpubuild lock RECIPE",)


def test_files(tmp_path: Path) -> None:
    path = tmp_path / "a.lock.yaml"
    assert write_lock(LOCK, path)[0]["changed"]
    assert is_lock(str(path))
    before = path.stat()
    assert not write_lock(LOCK, path)[0]["changed"]
    assert path.stat().st_mtime_ns == before.st_mtime_ns
    changed = example(machine=machine().model_copy(update={"glibc": "2.39"}))
    document, _ = write_lock(changed, path)
    assert [item["path"] for item in document["differences"]] == ["machine.glibc"]
    path.write_bytes(b"\xff")
    assert not is_lock(str(path))
    with pytest.raises(RecipeError) as caught:
        read_lock(path)
    assert caught.value.what == f"{path} is not a lock, or is damaged"
    with pytest.raises(RecipeError, match="cannot be read"):
        read_lock(tmp_path)
    assert "is damaged" in write_lock(changed, path)[1]
    assert read_lock(path) == changed


def test_differences_have_names_that_can_be_looked_up() -> None:
    torch, options = LOCK.repositories["torch"], LOCK.options
    first, second, third = torch.submodules
    moved = (
        first.model_copy(update={"commit": oid(1)}), second,
        third.model_copy(update={"path": "third_party/kineto/new"}),
    )  # fmt: skip
    other = example(
        repositories={**LOCK.repositories, "torch": torch.model_copy(update={"submodules": moved})},
        options=options.model_copy(update={"arch": ("bmg", "dg2")}),
    )
    moved_name = "repositories.torch.submodules.third_party/fmt.commit"
    assert [item.text for item in differences(LOCK, other, "ignore")] == [
        "options.arch: the lock has pvc, now there is dg2",
        f"{moved_name}: the lock has {first.commit}, now it is {oid(1)}",
        "repositories.torch.submodules.third_party/kineto/fmt is only in the lock",
        "repositories.torch.submodules.third_party/kineto/new is not in the lock",
    ]
    assert not differences(LOCK, LOCK, "exact")


def of_machine(lock: model.Machine, here: model.Machine, policy: Policy) -> list[model.Difference]:
    return differences(example(machine=lock), example(machine=here), policy)


def machine_with(**more: Any) -> model.Machine:
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
        (machine_with(), [], []),
        (machine_with(glibc="2.39"), [], ["glibc"]),
        (machine_with(glibc="2.35"), ["glibc"], ["glibc"]),
        (machine_with(glibc="2.4"), ["glibc"], ["glibc"]),
        (machine_with(python="3.11.9"), [], ["python"]),
        (machine_with(python="3.12.2"), ["python"], ["python"]),
        (machine_with(architecture="aarch64"), ["architecture"], ["architecture"]),
        (machine_with(compilers=compilers("gcc", "13.3.0")), [],
         ["compilers.cc.version", "compilers.cxx.version"]),
        (machine_with(compilers=compilers("gcc", "14.2.0")), ["compilers.cc", "compilers.cxx"],
         ["compilers.cc.version", "compilers.cxx.version"]),
        (machine_with(compilers=compilers("clang", "13.2.0")), ["compilers.cc", "compilers.cxx"],
         ["compilers.cc.kind", "compilers.cxx.kind"]),
        (machine_with(compilers={}), ["compilers.cc", "compilers.cxx"], ["compilers.cc", "compilers.cxx"]),
        (machine_with(drivers=drivers(FAMILY, libze_intel_gpu1="25.18.33578.20-1")), [],
         ["drivers.packages.libze-intel-gpu1"]),
        (machine_with(drivers=drivers(FAMILY, libze_intel_gpu1="25.18.33578.9-1")),
         ["drivers.packages.libze-intel-gpu1"], ["drivers.packages.libze-intel-gpu1"]),
        (machine_with(drivers=drivers(FAMILY, more="1")), [], ["drivers.packages.more"]),
        (machine_with(drivers=drivers("rolling")), ["drivers.family"], ["drivers.family"]),
        (machine_with(drivers=None),
         ["drivers.family", "drivers.packages.libze-intel-gpu1", "drivers.packages.intel-opencl-icd"],
         ["drivers"]),
        (machine_with(oneapi=oneapi(compiler="2025.1.3")), [], ["oneapi.components.compiler"]),
        (machine_with(oneapi=oneapi(compiler="2025.2")), ["oneapi.components.compiler"],
         ["oneapi.components.compiler"]),
        (machine_with(oneapi=oneapi(ccl="1")), [], ["oneapi.components.ccl"]),
    ],
)  # fmt: skip
def test_the_three_policies(here: model.Machine, compatible: list[str], exact: list[str]) -> None:
    def paths(policy: Policy) -> list[str]:
        return [item.path.removeprefix("machine.") for item in of_machine(machine(), here, policy)]

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
    here = machine_with(oneapi=known.model_copy(update={"environment": values}))
    assert of_machine(machine(), here, "compatible") == []
    assert len(of_machine(machine(), here, "exact")) == 1
    here = machine_with(oneapi=known.model_copy(update={"environment": names}))
    (found,) = of_machine(machine(), here, "compatible")
    assert found.path == "machine.oneapi.environment.MKLROOT"
    (found,) = of_machine(here, machine(), "compatible")
    assert "but not here" in found.text


def test_an_epoch_counts_before_the_version() -> None:
    assert not_older("1:1.0", "2.0")
    assert not not_older("2.0", "1:1.0")


@pytest.mark.parametrize(
    ("url", "clean"),
    [
        ("https://me:secret@host/a.git", "https://host/a.git"),
        ("https://ghp_token@host:8443/a.git", "https://host:8443/a.git"),
        ("ssh://git:secret@host/a.git", "ssh://git@host/a.git"),
        ("git@host:a/b.git", "git@host:a/b.git"),
        ("https://host/a.git?private_token=abcdef", "https://host/a.git"),
        ("/srv/caf\udce9.git", "/srv/caf\\xe9.git"),
    ],
)
def test_urls_carry_no_credentials(url: str, clean: str) -> None:
    assert clean_url(url) == clean


def test_aot_targets_in_a_lock_are_asked_for_again_for_the_gpu_alone() -> None:
    asked = {"components": ("torch", "ops"), "python": model.PythonChoice(version="3.11", range=">=3.10")}
    options = LOCK.options.model_copy(update=asked)
    assert options_of(example(options=options), Options(None)).arch == ("pvc", "bmg")
    # A lock of a build for the CPU has the recipe's targets; asking for them would be refused.
    cpu = options.model_copy(update={"target": "cpu"})
    assert options_of(example(options=cpu), Options(None)).arch == ()
    gone = options.model_copy(update={"components": ("torch", "gone"), "variant": "none"})
    with pytest.raises(LockMismatchError, match="component 'gone' and variant 'none'"):
        options_of(example(options=gone), Options(None))


FITS: dict[str, Any] = {
    "target": "xpu", "cxx11_abi": "1", "arch": ("pvc", "bmg"), "with_": ("ops", "triton"),
    "without": ("vision",),
}  # fmt: skip


@pytest.mark.parametrize(
    "changes",
    [
        {"target": "cpu"}, {"variant": "full"}, {"cxx11_abi": "0"}, {"arch": ("pvc",)},
        {"with_": ("vision",)}, {"without": ("ops", "torch")}, {"editable": True}, {"allow_dirty": True},
    ],
)  # fmt: skip
def test_options_that_contradict_a_lock(changes: dict[str, Any]) -> None:
    require_no_contradiction(LOCK, Options(None, **FITS))
    with pytest.raises(LockMismatchError):
        require_no_contradiction(LOCK, Options(None, **{**FITS, **changes}))


@pytest.mark.parametrize("change", ["", "commit", "tree", "asked_for", "gone", "more"])
def test_what_a_build_would_clone_is_what_the_lock_says(change: str) -> None:
    known = LOCK.repositories["torch"].configure_time
    found = [{"url": i.url, "commit": i.commit, "tree": i.tree, "asked_for": i.asked_for} for i in known]
    below = [sub for item in known for sub in item.submodules]
    found += [{"url": i.url, "commit": i.commit, "tree": i.tree, "asked_for": i.commit} for i in below]
    if not change:
        require_served(LOCK, "torch", {"served": found})
        return
    if change == "gone":
        del found[-1]
    elif change == "more":
        found.append({"url": "https://host/new.git", "commit": oid(1), "tree": oid(2), "asked_for": "main"})
    else:
        found[0] = {**found[0], change: oid(3)}
    with pytest.raises(LockMismatchError):
        require_served(LOCK, "torch", {"served": found})


def test_files_of_a_build_are_those_of_the_lock() -> None:
    archive, (torch, _) = LOCK.archives[0], LOCK.python.wheels
    item = {"name": archive.name, "url": archive.url, "sha256": archive.sha256}
    require_archives(LOCK, "triton", {"archives": [item]})
    require_wheel(LOCK, "torch", {"sha256": torch.hashes[0].partition(":")[2] if torch.hashes else ""})
    for changed in ({**item, "sha256": "0" * 64}, {**item, "name": "json"}):
        with pytest.raises(SourceIntegrityError):
            require_archives(LOCK, "triton", {"archives": [item, changed]})
    with pytest.raises(SourceIntegrityError):
        require_wheel(LOCK, "torch", {"sha256": None})
