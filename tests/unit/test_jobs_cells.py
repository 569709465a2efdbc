"""A build as words of commands, whole: every option that jobs hand on, and the folder of a matrix."""

from __future__ import annotations

from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest
from support.documents import check
from support.plan_files import prepared_for

from xpubuild.errors import UsageError
from xpubuild.install.options import Options
from xpubuild.jobs import asked
from xpubuild.jobs.asked import cell_of, require_possible
from xpubuild.jobs.folder import PlannedJobsDocument
from xpubuild.jobs.render import KINDS, Cell

PREPARED = prepared_for("quickstart")
BASE = Cell(
    id="quickstart", recipe="quickstart", lock_digest=PREPARED.plan.lock_digest, fetch=("quickstart",),
    install=("quickstart",), steps=("ops.install",), python="/usr/bin/python3.12", device="cpu",
)  # fmt: skip
#: Option -> its value, the words that fetching and installing have of it.
BOTH: dict[str, tuple[Any, tuple[str, ...]]] = {
    "with_": (("vision", "audio"), ("--with", "vision,audio")),
    "without": (("ops",), ("--without", "ops")),
    "target": ("xpu", ("--target", "xpu")),
}
#: The same of installing alone.
HERE: dict[str, tuple[Any, tuple[str, ...]]] = {
    "cxx11_abi": ("0", ("--cxx11-abi", "0")),
    "arch": (("pvc", "bmg"), ("--arch", "pvc,bmg")),
    "store": ((Path("/a store"), Path("/another")), ("--store", "/a store", "--store", "/another")),
    "store_read_only": (False, ("--no-store-read-only",)),
    "jobs": ("8", ("--jobs", "8")),
    "installer": ("pip", ("--installer", "pip")),
    "oneapi_root": (Path("/opt/oneapi"), ("--oneapi-root", "/opt/oneapi")),
    "compile_cache": ("ccache", ("--compile-cache", "ccache")),
    "oneapi_mode": ("setvars", ("--oneapi-mode", "setvars")),
    "extra_path": ((Path("/a"), Path("/b")), ("--extra-path", "/a:/b")),
    "extra_library_path": ((Path("/c"),), ("--extra-library-path", "/c")),
    "allow_dirty": (True, ("--allow-dirty",)),
}


def cell(**options: Any) -> Cell:
    return cell_of(Options(**{"recipe": "quickstart", **options}), PREPARED)


def test_all_options_at_once_in_one_order() -> None:
    both = tuple(word for _, words in BOTH.values() for word in words)
    here = tuple(word for _, words in HERE.values() for word in words)
    every = {name: value for name, (value, _) in {**BOTH, **HERE}.items()}
    assert cell(**every) == replace(
        BASE, fetch=("quickstart", *both), install=("quickstart", *both, *here)
    )  # fmt: skip


def test_an_interpreter_by_name_and_by_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", "/home/u")
    for given, word in (
        ("python3.12", "python3.12"), ("bin/python3.12", f"{tmp_path}/bin/python3.12"),
        ("~/bin/python3.12", "/home/u/bin/python3.12"),
    ):  # fmt: skip
        words = ("quickstart", "--python", word)
        assert cell(python=given) == replace(
            BASE, id="quickstart-python3.12", fetch=words, install=words
        )  # fmt: skip


def test_recipes_and_locks_are_named_for_any_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for given, word in (("a.yaml", f"{tmp_path}/a.yaml"), ("b/c", f"{tmp_path}/b/c"), (None, "quickstart")):
        assert cell(recipe=given) == replace(BASE, fetch=(word,), install=(word,))
    lock = f"{tmp_path}/quickstart.lock.yaml"
    compatible = ("--lock-policy", "compatible")
    found = cell(locked=True, variant="v")
    assert found.fetch == (lock, "--variant", "v")
    assert found.install == ("quickstart", "--lock", lock, *compatible, "--variant", "v")
    found = cell(lock_file=Path("/a.lock.yaml"), lock_policy="exact", recipe=None)
    assert found == replace(
        BASE, fetch=("/a.lock.yaml",), install=("--lock", "/a.lock.yaml", "--lock-policy", "exact")
    )  # fmt: skip
    Path("of.lock.yaml").write_text("schema: xpubuild.lock/1\n")
    of = f"{tmp_path}/of.lock.yaml"
    assert cell(recipe="of.lock.yaml") == replace(BASE, fetch=(of,), install=("--lock", of, *compatible))


def test_every_option_is_handed_on_or_known_not_to_be() -> None:
    """What is not said again decides nothing on a node, is refused, or is the folder's own."""
    known = {"recipe", "workspace", "variant", "python", "update", *BOTH, *HERE}
    refused, of_the_folder = {"editable", "packages", "source_dir", "quick"}, {"mirror", "offline"}
    nothing = {"report", "telling", "resolved"}
    nothing |= {"patches", "locked", "lock_file", "lock_policy"}  # the lock is handed on
    of_conda = {"conda_lock", "conda_channel"}
    assert {field.name for field in fields(Options)} == (known | refused | of_the_folder | nothing | of_conda)
    assert cell(store_read_only=True).install == ("quickstart", "--store-read-only")
    require_possible(Options("r"))
    for given, option in (
        ({"editable": True}, "--editable"), ({"packages": "conda"}, "--packages conda"),
        ({"source_dir": {"torch": Path("/own")}}, "--source-dir"), ({"quick": True}, "--quick"),
    ):  # fmt: skip
        with pytest.raises(UsageError) as caught:
            require_possible(Options("r", **given))
        assert caught.value.what == f"{option} cannot be built by jobs"
        assert caught.value.fix.startswith(f"leave out {option},")


def test_local_changes_need_the_workspace_that_has_them() -> None:
    require_possible(Options("r", allow_dirty=True, workspace=Path("/ws")))
    with pytest.raises(UsageError, match="jobs cannot build local changes without --workspace"):
        require_possible(Options("r", allow_dirty=True))


def planned(output: Path | None, *matrix: str, **options: Any) -> PlannedJobsDocument:
    return asked.planned_jobs(
        Options(**{"recipe": None, **options}), "slurm", matrix, output,
        settings={kind: {} for kind in KINDS}, xpubuild=("xpubuild",), cache="",
    )  # fmt: skip


def test_the_folder_of_a_matrix(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(asked, "_cell", lambda options: cell_of(options, PREPARED))
    document = planned(tmp_path / "out", "recipes=quickstart", "pythons=3.11,3.12")
    check(document, "planned-jobs")
    names = [job.pop("name") for job in document["jobs"]]
    assert [name.rpartition("-")[0] for name in names] == [
        f"xb-quickstart-{version}-{kind}" for version in ("3.11", "3.12") for kind in KINDS
    ]
    first, second = names[:4], names[4:]
    assert document == {
        "schema": "xpubuild.planned-jobs/1", "folder": f"{tmp_path}/out", "scheduler": "slurm",
        "submit": f"{tmp_path}/out/submit",
        "jobs": [
            {"kind": kind, "needs": needs}
            for fetch, build, verify, _ in (first, second)
            for kind, needs in zip(
                KINDS, ([], [fetch], [build], [fetch, build, verify]), strict=True
            )
        ],
    }  # fmt: skip
    assert (tmp_path / "out" / "submit").is_file()


def test_builds_of_one_name_and_folders_are_told_apart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(asked, "_cell", lambda options: cell_of(options, PREPARED))
    for matrix, folder in (
        ((), "quickstart-slurm"),
        (("recipes=quickstart",), "quickstart-slurm.2"),
        (("recipes=quickstart,a.yaml,b.yaml",), "quickstart-slurm.3"),
    ):  # fmt: skip
        place = tmp_path / folder if matrix else None
        document = planned(place, *matrix)
        assert document["folder"] == f"{tmp_path}/{folder}"
    names = [job["name"] for job in document["jobs"] if job["kind"] == "build"]
    assert [name.rpartition("-build-")[0] for name in names] == [
        "xb-quickstart", "xb-quickstart.2", "xb-quickstart.3",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("given", "option"), [({"recipe": "r"}, "RECIPE"), ({"workspace": Path("/ws")}, "--workspace")]
)
def test_a_matrix_and_one_build_exclude_each_other(given: dict[str, Any], option: str) -> None:
    with pytest.raises(UsageError) as caught:
        planned(None, "recipes=r", **given)
    assert caught.value.what == f"--matrix and {option} cannot be combined"
    assert caught.value.fix == f"leave out {option}"
