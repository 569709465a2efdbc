"""What jobs are made of, whole: kinds of nodes, matrices, manifests and folders."""

from __future__ import annotations

import json
import stat
from pathlib import Path
from typing import Any

import pytest
from unit.test_jobs_render import request

from xpubuild.errors import RecipeError, UsageError
from xpubuild.jobs.folder import read_manifest, require_place, write
from xpubuild.jobs.matrix import Row, expand, matrix_of
from xpubuild.jobs.model import Nodes, jobs_of, nodes_of
from xpubuild.jobs.render import files_of
from xpubuild.jobs.status import jobs_document


def test_settings_become_nodes_as_they_are() -> None:
    settings: dict[str, object] = {
        "partition": "p", "account": "a", "time": "1-02:03:04", "cores": 8.0, "memory": "1G", "gpus": "2",
        "directives": ["--x", 1], "setup": ["module load a"],
    }  # fmt: skip
    nodes = nodes_of("build", settings)
    assert nodes == Nodes("p", "a", "1-02:03:04", 8, "1G", "2", ("--x", "1"), ("module load a",))
    assert nodes_of("build", {}) == Nodes()
    assert nodes_of("build", {"setup": "no list"}) == Nodes()
    assert nodes_of("build", {"cores": 1}).cores == 1


@pytest.mark.parametrize(
    ("time", "seconds"),
    [("", 0), ("00:00:01", 1), ("01:02:03", 3723), ("2-00:00:00", 172800), ("1:60:00", 0)],
)
def test_a_time_limit_in_seconds(time: str, seconds: int) -> None:
    assert Nodes(time=time).seconds == seconds


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("time", "1:2:3"),
        ("time", "00:60:00"),
        ("cores", 0),
        ("account", ""),
        ("gpus", "é"),
        ("memory", "a;b"),
    ],
)
def test_a_value_that_is_none_is_refused_by_name(name: str, value: object) -> None:
    with pytest.raises(RecipeError):
        nodes_of("verify", {name: value})


def rows(document: Any) -> list[tuple[str, str | None, str | None]]:
    return [(row.recipe, row.python, row.variant) for row in expand(document, Path("/m/x.yaml"))]


def test_a_matrix_is_every_combination_but_those_left_out() -> None:
    both = {"recipes": ["2.8", "a.yml"], "pythons": ["3.11", "3.12"], "variants": ["v"]}
    assert rows(both) == [
        ("2.8", "3.11", "v"), ("2.8", "3.12", "v"), ("/m/a.yml", "3.11", "v"), ("/m/a.yml", "3.12", "v"),
    ]  # fmt: skip
    assert rows({**both, "exclude": [{"recipe": "a.yml"}, {"python": "3.12", "variant": "v"}]}) == [
        ("2.8", "3.11", "v")
    ]
    assert rows({**both, "exclude": [{"python": "3.12", "variant": "w"}]}) == rows(both)
    assert rows({"recipes": ["b/c", "b/c"]}) == [("/m/b/c", None, None)]
    assert matrix_of(["recipes=2.8, 2.9,", "variants=v", "recipes=2.10"]) == (
        Row("2.8", None, "v"), Row("2.9", None, "v"), Row("2.10", None, "v"),
    )  # fmt: skip


@pytest.mark.parametrize(
    "document",
    [
        {"recipes": ["a"], "exclude": [{}]}, {"recipes": ["a"], "exclude": [{"recipe": 1}]},
        {"recipes": ["a"], "exclude": {"recipe": "a"}}, {"recipes": ["a"], "variants": [" "]},
        {"recipes": "a"}, {"recipes": ["a"], "pythons": [3.11]},
    ],
)  # fmt: skip
def test_a_matrix_that_says_something_else_is_refused(document: dict[str, Any]) -> None:
    with pytest.raises(RecipeError):
        rows(document)


def test_a_matrix_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    (tmp_path / "bad.yaml").write_text("[")
    for name in ("bad.yaml", "none.yaml"):
        with pytest.raises(RecipeError, match="cannot be used"):
            matrix_of([str(tmp_path / name)])


def test_a_folder_is_of_jobs_only_with_a_manifest_of_ours(tmp_path: Path) -> None:
    write(tmp_path / "ours", files_of(request(folder=str(tmp_path / "ours"))))
    found = read_manifest(tmp_path / "ours")
    assert found is not None
    assert {key: found[key] for key in ("schema", "made_by", "scheduler")} == {
        "schema": "xpubuild.jobs-folder/1", "made_by": "xpubuild plan", "scheduler": "slurm",
    }  # fmt: skip
    assert [list(job) for job in found["jobs"]] == [["name", "kind", "cell", "needs"]] * 4
    (job, *_) = found["jobs"]
    changes: tuple[dict[str, Any], ...] = (
        {"schema": "x"}, {"scheduler": "lsf"}, {"jobs": {}}, {"jobs": [1]},
        {"jobs": [{**job, "name": "../x"}]}, {"jobs": [{**job, "name": "a b"}]},
        {"jobs": [{"name": "a", "kind": "fetch"}]},
    )  # fmt: skip
    for change in changes:
        (tmp_path / "jobs.json").write_text(json.dumps({**found, **change}))
        assert read_manifest(tmp_path) is None, change
    for text in ("[]", "{", ""):
        (tmp_path / "jobs.json").write_text(text)
        assert read_manifest(tmp_path) is None


def test_a_place_for_jobs_is_new_empty_or_ours(tmp_path: Path) -> None:
    require_place(tmp_path / "new")
    require_place(tmp_path)
    (tmp_path / "file").touch()
    for place in (tmp_path / "file", tmp_path, tmp_path / "a\nb"):
        with pytest.raises(UsageError):
            require_place(place)
    with pytest.raises(UsageError):
        jobs_document(tmp_path)


def test_scripts_of_an_earlier_plan_go_and_results_stay(tmp_path: Path) -> None:
    folder = tmp_path / "jobs"
    texts = files_of(request(folder=str(folder)))
    write(folder, texts)
    (folder / "done").mkdir()
    (folder / "jobs" / "mine.sh").touch()
    other = {path: text for path, text in texts.items() if "-fetch-" not in path}
    write(folder, other)
    left = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}
    assert left == {*other, "jobs/mine.sh"}
    assert (folder / "done").is_dir()
    modes = {path: stat.S_IMODE((folder / path).stat().st_mode) for path in other}
    assert {path for path, mode in modes.items() if mode == 0o755} == {
        "submit", *(path for path in other if path.startswith("jobs/")),
    }  # fmt: skip


@pytest.mark.parametrize("scheduler", ["slurm", "pbs"])
def test_jobs_follow_what_they_need(scheduler: Any) -> None:
    fetch, build, verify, report = jobs_of(request(scheduler))
    assert [(job.kind, job.needs, job.after) for job in (fetch, build, verify, report)] == [
        ("fetch", (), ()), ("build", (fetch.name,), ()), ("verify", (build.name,), ()),
        ("report", (fetch.name, build.name, verify.name), ()),
    ]  # fmt: skip
    submit = files_of(request(scheduler))["submit"]
    for words in (
        f"\njob {fetch.name}\n", f"\njob {build.name} {fetch.name}\n", f"\njob {verify.name} {build.name}\n",
        f"\nreport {report.name} {fetch.name} {build.name} {verify.name}",
    ):  # fmt: skip
        assert words in submit
