"""Locks as data: read back as written, no edit goes unseen, differences have names, contradictions end."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from xpubuild.errors import LockMismatchError, RecipeError, SourceIntegrityError
from xpubuild.install.lock_file import (
    Lock,
    clean_url,
    differences,
    dump,
    not_older,
    read_lock,
    validated,
    write_lock,
)
from xpubuild.install.locked import options_of, require_as_locked
from xpubuild.install.options import Options, Policy, is_lock
from xpubuild.supply.archives import UnpackedProof
from xpubuild.supply.git.serving import ServedProof


def oid(seed: object) -> str:
    return hashlib.sha1(repr(seed).encode(), usedforsecurity=False).hexdigest()


def sha(seed: object) -> str:
    return hashlib.sha256(repr(seed).encode()).hexdigest()


def tree(name: str, ref: str | None = None, **more: Any) -> dict[str, Any]:
    url = f"https://github.com/someone/{name.rpartition('/')[2]}.git"
    return {"url": url, "ref": ref, "commit": oid(name), "tree": oid((name, "tree")), **more}


GCC = "gcc 13.2.0 x86_64-linux-gnu"
MACHINE: dict[str, Any] = {
    "architecture": "x86_64",
    "glibc": "2.36",
    "python": "3.11.2",
    "compilers": {"cc": GCC, "cxx": GCC},
    "driver_family": "lts2-2523",
    "drivers": {"libze-intel-gpu1": "25.18.33578.15-1146~22.04", "intel-opencl-icd": "25.18.33578.15"},
    "oneapi": {"compiler": "2025.1", "pti": "0.11"},
}
WHOLE: dict[str, Any] = {
    "recipe": {
        "name": "2.8", "env": {"USE_XPU": "{xpu}", "ODD": 'a "b"\n\u00e9\U0001f600'},
        "needs": {"gcc": ">=11"},
    },
    "plan": sha("plan"),
    "options": {
        "target": "xpu", "variant": None, "arch": ["pvc", "bmg"], "cxx11_abi": 1,
        "components": ["torch", "ops", "triton"], "packages": "conda", "python": "3.11",
    },
    "repositories": {
        "torch": tree(
            "torch", "v2.8.0",
            submodules={name: tree(name) for name in ("third_party/fmt", "third_party/kineto/fmt")},
            configure_time={
                "build/dnn": tree("onednn", "v3.8.1"),
                "third_party/xpu": tree("ops", oid("ops"), submodules={"inner": tree("inner")}),
            },
        ),
        "ops": {**tree("own"), "url": "embedded://ops"},
    },
    "requirements": {
        "build.txt": {
            "sha256": sha("build.txt"),
            "pins": {
                "cmake": {"version": "3.31", "hashes": [f"sha256:{sha(3)}", f"sha256:{sha(1)}"]},
                'filelock; python_version < "3.11"': {"version": "4.1", "hashes": [f"sha256:{sha(0)}"]},
            },
        }
    },
    "conda": {"cmake": {"version": "3.31.6", "file": "f/linux-64/a.conda", "hashes": ["md5:" + "0" * 32]}},
    "archives": {
        "triton.llvm": {
            "url": "https://host.example/llvm.tar.gz", "sha256": sha("llvm"), "size": 12345,
            "hash_from": "first download",
        }
    },
    "machine": MACHINE,
}  # fmt: skip


def example(**changes: Any) -> Lock:
    """Return a lock with something of everything."""
    return validated({**WHOLE, **changes})


def on(**machine: Any) -> Lock:
    return example(machine={**MACHINE, **machine})


LOCK = example()
TEXT = dump(LOCK)


def read(text: str, folder: Path) -> Lock:
    (folder / "read.yaml").write_text(text, "utf-8")
    return read_lock(folder / "read.yaml")


def test_a_lock_is_read_back_as_it_was_written(tmp_path: Path) -> None:
    assert read(TEXT, tmp_path) == LOCK
    assert TEXT.isascii()
    document = yaml.safe_load(TEXT)
    digest = document.pop("digest")
    plain = json.dumps(document, sort_keys=True, separators=(",", ":"))
    assert digest == hashlib.sha256(plain.encode()).hexdigest()
    assert on(glibc="2.39").digest == LOCK.digest, "the machine is no part of the digest that plans show"


def leaves(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    if isinstance(value, (dict, list)) and value:
        for key, item in value.items() if isinstance(value, dict) else enumerate(value):
            yield from leaves(item, (*path, key))
    yield path


def test_every_value_that_is_dropped_or_replaced_is_found(tmp_path: Path) -> None:
    places = [path for path in leaves(yaml.safe_load(TEXT)) if path]
    assert len(places) > 90
    for number, (*before, last) in enumerate(places[::2]):
        document = yaml.safe_load(TEXT)
        inside = document
        for step in before:
            inside = inside[step]
        if number % 2:
            del inside[last]
        else:
            inside[last] = "other"
        with pytest.raises((RecipeError, LockMismatchError)):
            read(yaml.safe_dump(document), tmp_path)


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
def test_what_is_no_lock_says_why(text: str, why: str, tmp_path: Path) -> None:
    with pytest.raises(RecipeError) as caught:
        read(text, tmp_path)
    assert why in caught.value.why
    assert caught.value.commands == ("xpubuild lock RECIPE",)


def test_files(tmp_path: Path) -> None:
    path = tmp_path / "a.lock.yaml"
    assert write_lock(LOCK, path)[0]["changed"]
    assert is_lock(str(path))
    before = path.stat()
    assert not write_lock(LOCK, path)[0]["changed"]
    assert path.stat().st_mtime_ns == before.st_mtime_ns
    changed = on(glibc="2.39")
    document, _ = write_lock(changed, path)
    assert [item["path"] for item in document["differences"]] == ["machine.glibc"]
    path.write_bytes(b"\xff")
    assert not is_lock(str(path))
    with pytest.raises(RecipeError) as caught:
        read_lock(path)
    assert caught.value.what == f"{path} is not a lock, or is damaged"
    with pytest.raises(RecipeError) as caught:
        read_lock(tmp_path)
    assert "Is a directory" in caught.value.why
    assert "is damaged" in write_lock(changed, path)[1]
    assert read_lock(path) == changed


def test_differences_have_names_that_can_be_looked_up() -> None:
    torch, place = WHOLE["repositories"]["torch"], "repositories.torch.submodules"
    fmt = torch["submodules"]["third_party/fmt"]
    moved = {"third_party/fmt": {**fmt, "commit": oid(1)}, "third_party/new": fmt}
    other = example(
        recipe={**WHOLE["recipe"], "needs": {"gcc": ">=12"}},
        repositories={**WHOLE["repositories"], "torch": {**torch, "submodules": moved}},
        options={**WHOLE["options"], "arch": ["bmg", "dg2"]},
    )
    assert [item.text for item in differences(LOCK, other, "ignore")] == [
        "recipe.needs.gcc: the lock has >=11, now it is >=12",
        "options.arch: the lock has pvc, now it is dg2",
        f"{place}.third_party/fmt.commit: the lock has {fmt['commit']}, now it is {oid(1)}",
        f"{place}.third_party/kineto/fmt is only in the lock",
        f"{place}.third_party/new is not in the lock",
    ]
    assert not differences(LOCK, LOCK, "exact")


def compilers(text: str) -> dict[str, str]:
    return {"cc": text, "cxx": text}


def drivers(**packages: str) -> dict[str, str]:
    return {**MACHINE["drivers"], **{name.replace("_", "-"): version for name, version in packages.items()}}


DRIVERS = ["drivers.libze-intel-gpu1", "drivers.intel-opencl-icd"]
COMPILERS = ["compilers.cc", "compilers.cxx"]


@pytest.mark.parametrize(
    ("here", "compatible", "exact"),
    [
        ({}, [], []),
        ({"glibc": "2.39"}, [], ["glibc"]),
        ({"glibc": "2.4"}, ["glibc"], ["glibc"]),
        ({"python": "3.11.9"}, [], ["python"]),
        ({"python": "3.12.2"}, ["python"], ["python"]),
        ({"architecture": "aarch64"}, ["architecture"], ["architecture"]),
        ({"compilers": compilers("gcc 13.3.0 x86_64-linux-gnu")}, [], COMPILERS),
        ({"compilers": compilers("gcc 14.2.0 x86_64-linux-gnu")}, COMPILERS, COMPILERS),
        ({"compilers": compilers("clang 13.2.0 x86_64-linux-gnu")}, COMPILERS, COMPILERS),
        ({"compilers": {}}, COMPILERS, COMPILERS),
        ({"compilers": compilers("")}, COMPILERS, COMPILERS),
        ({"drivers": drivers(libze_intel_gpu1="25.18.33578.20-1")}, [], DRIVERS[:1]),
        ({"drivers": drivers(libze_intel_gpu1="25.18.33578.9-1")}, DRIVERS[:1], DRIVERS[:1]),
        ({"drivers": drivers(more="1")}, [], ["drivers.more"]),
        ({"driver_family": "rolling"}, ["driver_family"], ["driver_family"]),
        ({"driver_family": None, "drivers": {}}, ["driver_family", *DRIVERS], ["driver_family", *DRIVERS]),
        ({"oneapi": {"compiler": "2025.1.3", "pti": "0.11"}}, [], ["oneapi.compiler"]),
        ({"oneapi": {"compiler": "2025.2", "pti": "0.11"}}, ["oneapi.compiler"], ["oneapi.compiler"]),
    ],
)  # fmt: skip
def test_the_three_policies(here: dict[str, Any], compatible: list[str], exact: list[str]) -> None:
    def paths(policy: Policy) -> list[str]:
        return [item.path.removeprefix("machine.") for item in differences(LOCK, on(**here), policy)]

    assert paths("compatible") == compatible
    assert sorted(paths("exact")) == sorted(exact)
    assert paths("ignore") == []


def test_versions_are_compared_by_their_numbers() -> None:
    assert not_older("25.18.33578.15-1146", "25.18.33578.9")
    assert not not_older("2.0", "1:1.0")


@pytest.mark.parametrize(
    ("url", "clean"),
    [
        ("https://me:secret@host/a.git", "https://host/a.git"),
        ("ssh://git:secret@host/a.git", "ssh://git@host/a.git"),
        ("git@host:a/b.git", "git@host:a/b.git"),
        ("https://host/a.git?private_token=abcdef", "https://host/a.git"),
        ("/srv/caf\udce9.git", "/srv/caf\\xe9.git"),
    ],
)
def test_urls_carry_no_credentials(url: str, clean: str) -> None:
    assert clean_url(url) == clean


def test_aot_targets_in_a_lock_are_asked_for_again_for_the_gpu_alone() -> None:
    options = {**WHOLE["options"], "components": ["torch", "ops"]}
    assert options_of(example(options=options), Options(None)).arch == ("pvc", "bmg")
    # A lock of a build for the CPU has the recipe's targets; asking for them would be refused.
    assert options_of(example(options={**options, "target": "cpu"}), Options(None)).arch == ()
    gone = {**options, "components": ["torch", "gone"], "variant": "none"}
    with pytest.raises(LockMismatchError, match="component 'gone' and variant 'none'"):
        options_of(example(options=gone), Options(None))


@pytest.mark.parametrize("change", ["", "commit", "tree", "asked_for", "gone", "more"])
def test_what_a_build_would_clone_is_what_the_lock_says(change: str) -> None:
    known = LOCK.repositories["torch"].configure_time.values()
    found = [{"url": i.url, "commit": i.commit, "tree": i.tree, "asked_for": i.ref} for i in known]
    below = [sub for item in known for sub in item.submodules.values()]
    found += [{"url": i.url, "commit": i.commit, "tree": i.tree, "asked_for": i.commit} for i in below]
    if not change:
        require_as_locked(ServedProof, LOCK, "torch", {"served": found})
        return
    if change == "gone":
        del found[-1]
    elif change == "more":
        found.append({"url": "https://host/new.git", "commit": oid(1), "tree": oid(2), "asked_for": "main"})
    else:
        found[0] = {**found[0], change: oid(3)}
    with pytest.raises(SourceIntegrityError if change == "tree" else LockMismatchError):
        require_as_locked(ServedProof, LOCK, "torch", {"served": found})


def test_files_of_a_build_are_those_of_the_lock() -> None:
    item = {"name": "llvm", "url": LOCK.archives["triton.llvm"].url, "sha256": sha("llvm")}
    require_as_locked(UnpackedProof, LOCK, "triton", {"archives": [item]})
    for changed in ({**item, "sha256": "0" * 64}, {**item, "name": "json"}):
        with pytest.raises(SourceIntegrityError):
            require_as_locked(UnpackedProof, LOCK, "triton", {"archives": [item, changed]})
