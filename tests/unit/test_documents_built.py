"""Dataclasses from the documents that were made of them: nothing is converted, and what is wrong is named."""

from __future__ import annotations

import hashlib
import json
import sys
import zipfile
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import jsonschema
import pytest
from docgen.schemas import DOCUMENTS, file_name, json_schema
from support.artifacts import pack
from support.cli import here
from support.documents import check, closed
from support.pages import page_of
from support.plan_files import target_for

from xpubuild.artifacts.audit_report import AuditPolicy
from xpubuild.artifacts.step_proofs import WheelProof
from xpubuild.documents import built, plain
from xpubuild.engine.events import NullSink
from xpubuild.engine.fingerprint import fingerprints
from xpubuild.engine.model import Command, Plan, Step
from xpubuild.engine.process import Cancel
from xpubuild.errors import EXIT_CODES, BuildError, RecipeError
from xpubuild.install.install import apply
from xpubuild.install.target import Prepared
from xpubuild.machine.host_report import host_report
from xpubuild.verify.model import CheckResult, VerifyReport
from xpubuild.workspace.layout import Layout


@dataclass(frozen=True)
class Part:
    size: int
    ref: str | None = None


@dataclass(frozen=True)
class Whole:
    kind: Literal["one", "two"]
    parts: tuple[Part, ...]
    good: bool = False


_WHOLE = Whole("two", (Part(1), Part(2, "v1")), good=True)


def test_what_was_written_is_read() -> None:
    assert built(Whole, plain(_WHOLE)) == _WHOLE
    assert built(Whole, {"kind": "one", "parts": [], "schema": "x"}) == Whole("one", ())
    assert built(Whole, {**plain(_WHOLE), "parts": [{"size": 1, "ref": "\udcff"}]}).parts[0].ref == "\udcff"


@pytest.mark.parametrize(
    ("change", "names"),
    [
        ({"kind": "three"}, "'kind'"),
        ({"kind": ["one"]}, "'kind'"),
        ({"parts": {}}, "'parts'"),
        ({"parts": "x"}, "'parts'"),
        ({"parts": [{"ref": "x"}]}, "'size' is missing"),
        ({"parts": [{"size": "1"}]}, "'size'"),
        ({"parts": [{"size": True}]}, "'size'"),
        ({"parts": [{"size": 1.0}]}, "'size'"),
        ({"parts": [{"size": 1, "ref": 1}]}, "'ref'"),
        ({"parts": [1]}, "'parts'"),
        ({"good": 1}, "'good'"),
        ({"good": None}, "'good'"),
    ],
)
def test_another_type_is_named_and_not_converted(change: dict[str, Any], names: str) -> None:
    with pytest.raises(ValueError, match=names):
        built(Whole, {**plain(_WHOLE), **change})


@pytest.mark.parametrize(
    ("value", "why"),
    [
        ({"kind": "three", "parts": []}, "its field 'kind' is not valid: it has a value of another type"),
        ({"kind": "one", "parts": [{}]}, "its field 'parts' is not valid: its field 'size' is missing"),
        ({}, "its field 'kind' is missing"),
        ([], "it has a value of another type"),
    ],
)
def test_the_whole_reason_is_said(value: Any, why: str) -> None:
    with pytest.raises(ValueError, match=r"^its|^it") as caught:
        built(Whole, value)
    assert str(caught.value) == why


def test_what_json_knows() -> None:
    assert plain({"a": (Path("/x"), [Part(1)]), "b": Part, "c": None}) == {
        "a": ["/x", [{"size": 1, "ref": None}]], "b": Part, "c": None,
    }  # fmt: skip


# ---- Every JSON document that the code makes, held against its schema; the documents are real ones


def make_wheel(folder: Path) -> Path:
    return pack(folder, "small", "1.0", {"small.py": b"ANSWER = 42\n"}, tag="py3-none-any")


def verify_report(path: Path) -> None:
    results = (CheckResult("import.torch", "torch can be imported", "import", "pass", 1.5),)
    document = VerifyReport("smoke", sys.executable, results, device={"type": "cpu"}).to_json()
    path.write_text(json.dumps(document), "utf-8")


PIP_REPORT = {
    "install": [
        {
            "metadata": {"name": "torch", "version": "2.13.0+cpu"},
            "download_info": {"archive_info": {"hashes": {"sha256": "0" * 64}}},
        }
    ]
}


@dataclass(frozen=True)
class Works:
    """A proof that holds."""

    def describe(self) -> str:
        return "it works"

    def key(self) -> dict[str, Any]:
        return {}

    def check(self) -> dict[str, Any]:
        return {"found": 1}


def make_plan(root: Path) -> Plan:
    """A plan with one step of each kind that leaves something in the documents."""
    layout = Layout(root)
    for folder in (layout.wheels, layout.pip_report("torch", "x").parent):
        folder.mkdir(parents=True)
    make_wheel(layout.wheels)
    verify_report(layout.verify_report)
    layout.pip_report("torch", "x").write_text(json.dumps(PIP_REPORT))
    policy = AuditPolicy(forbid_needed=("libmkl_*",))
    steps = (
        Step(
            id="env",
            title="environment",
            commands=(Command(("true",), path_prefix=("/x",)),),
            proofs=(Works(),),
        ),
        Step(
            id="torch",
            title="torch",
            needs=("env",),
            commands=(Command(("false",), alternatives=(("true",),)),),
        ),
        Step(
            id="ops.wheel",
            title="wheel",
            needs=("torch",),
            commands=(Command(("sh", "-c", "echo é"), env={"A": "b"}, cwd=str(root)),),
            proofs=(WheelProof(str(layout.wheels), "*.whl", policy, ()),),
            outputs=(str(layout.wheels),),
            memory_bytes=1 << 30,
        ),
        Step(id="verify", title="verify", needs=("ops.wheel",), commands=(Command(("true",)),)),
    )
    return Plan(
        "small", str(root), "0" * 64, steps, fingerprints(steps), summary={"target": "cpu", "cxx11_abi": 1}
    )


@pytest.fixture
def prepared(tmp_path: Path) -> Prepared:
    root = tmp_path / "wörk space"
    plan = make_plan(root)
    text = f"torch==2.13.0+cpu --hash=sha256:{'0' * 64}\n"
    facts = {
        "python": sys.executable,
        "cache": tmp_path / "cache",
        "requirements": {"requirements/torch-2.13.0-cpu.txt": text},
    }
    (root / "journal.db").touch()  # what was put there beforehand is the workspace's own
    host = {"host": host_report(workspace=root).to_json()}
    return Prepared(target_for("quickstart", workspace=str(root), facts={**facts, **host}), plan, 0.001)


@pytest.fixture
def installed(prepared: Prepared) -> tuple[Prepared, dict[str, Any]]:
    return prepared, apply(prepared, sink=NullSink(), cancel=Cancel())


def test_receipt(installed: tuple[Prepared, dict[str, Any]]) -> None:
    prepared, receipt = installed
    check(receipt, "receipt")
    assert json.loads((Path(prepared.plan.workspace) / "receipt.json").read_text("utf-8")) == receipt
    assert receipt["status"] == "complete"
    assert [wheel["file"] for wheel in receipt["wheels"]] == ["small-1.0-py3-none-any.whl"]
    assert receipt["prebuilt"] == [
        {"step": "torch", "name": "torch", "version": "2.13.0+cpu", "sha256": "0" * 64}
    ]
    assert receipt["verify"]["passed"] == 1
    assert [command["returncode"] for command in receipt["commands"]] == [0, 1, 0, 0, 0]


def test_receipt_of_a_failed_install(prepared: Prepared) -> None:
    verify = prepared.plan.steps[-1]
    broken = Step(id=verify.id, title=verify.title, needs=verify.needs, commands=(Command(("false",)),))
    steps = (*prepared.plan.steps[:-1], broken)
    plan = Plan("small", prepared.plan.workspace, "0" * 64, steps, fingerprints(steps))
    with pytest.raises(BuildError):
        apply(replace(prepared, plan=plan), sink=NullSink(), cancel=Cancel())
    receipt = json.loads((Path(plan.workspace) / "receipt.json").read_text("utf-8"))
    check(receipt, "receipt")
    assert receipt["status"] == "partial"
    assert receipt["verify"] is None


def test_report(installed: tuple[Prepared, dict[str, Any]], tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    document = check(run("status", installed[0].plan.workspace, "--html", str(page)), "report")
    assert document["status"] == "complete"
    assert document["wheels"] == installed[1]["wheels"]
    said = page_of(page).said
    for text in ("small 1.0", document["host"]["cpu"]["model"], "import.torch"):
        assert text in said, text


def run(*arguments: str, status: int = 0) -> dict[str, Any]:
    result = here(*arguments, "--json")
    assert result.status == status, result.err
    return result.document()


def test_status_env_and_clean_as_commands(installed: tuple[Prepared, dict[str, Any]]) -> None:
    workspace = ("--workspace", installed[0].plan.workspace)
    check(run("status", *workspace), "status")
    env = check(run("env", *workspace), "env")
    assert env["env"]["PYTHONHOME"] is None
    shown = check(run("clean", *workspace, "--dry-run"), "clean")
    done = check(run("clean", *workspace, "--yes"), "clean")
    assert shown["dry_run"]
    assert not done["dry_run"]
    assert done["removed"] == shown["removed"]
    assert not (Path(installed[0].plan.workspace) / "wheels").exists()


def test_recipes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "broken.yaml").write_text("schema: 1\nname: broken\nnonsense: 1\n")
    monkeypatch.setenv("XPUBUILD_RECIPES", str(tmp_path))
    listed = check(run("recipes", "list"), "recipes")
    entries = {entry["name"]: entry for entry in listed["recipes"]}
    assert entries["broken"]["error"]["exit_code"] == 20
    assert entries["quickstart"]["error"] is None


def test_audit_as_a_command(tmp_path: Path) -> None:
    wheel = make_wheel(tmp_path)
    document = check(run("check", str(wheel)), "audit")
    assert document["wheels"][0]["sha256"] == hashlib.sha256(wheel.read_bytes()).hexdigest()


def test_a_failed_audit_prints_one_document(tmp_path: Path) -> None:
    wheel = make_wheel(tmp_path)
    with zipfile.ZipFile(wheel, "a") as archive:
        archive.writestr("stray.py", b"not in RECORD\n")
    document = check(run("check", str(wheel), status=60), "audit")
    assert document["wheels"][0]["status"] == "fail"


# ---- The published schemas: valid, open for new fields, and strict about the fields they name


ERROR = {
    "schema": "xpubuild.error/1",
    "status": "error",
    "error": RecipeError("what", why="why", fix="fix", commands=["a"], evidence={"b": 1}).to_json(),
}
#: The fields that DESIGN promises to other programs, by document.
PROMISED = {
    "plan": {"recipe", "lock_digest", "steps"},
    "verify": {"status", "torch", "device", "checks"},
    "receipt": {"recipe", "lock_digest", "host", "oneapi", "commands", "wheels", "verify"},
}


@pytest.mark.parametrize("name", DOCUMENTS)
def test_schemas_are_valid_and_named_after_their_document(name: str) -> None:
    schema = json_schema(name)
    jsonschema.Draft202012Validator.check_schema(schema)
    assert schema["properties"]["schema"]["const"] == f"xpubuild.{name}/1"
    assert "schema" in schema["required"]
    assert file_name(name) == f"xpubuild.{name}.1.json"
    assert '"additionalProperties": false' not in json.dumps(
        {key: value for key, value in schema.items() if key != "$defs"}
    )


@pytest.mark.parametrize("name", PROMISED)
def test_promised_fields_are_required(name: str) -> None:
    assert PROMISED[name] <= set(json_schema(name)["required"])


def test_steps_and_checks_keep_what_other_programs_read() -> None:
    definitions = json_schema("plan")["$defs"]
    step = {"id", "title", "needs", "commands", "inputs", "outputs", "fingerprint", "memory_bytes", "state"}
    assert step <= set(definitions["PlanStep"]["required"])
    assert {"argv", "env", "cwd"} <= set(definitions["PlanCommand"]["required"])
    checks = json_schema("verify")["$defs"]["CheckResult"]["required"]
    assert {"id", "status", "duration_s", "detail", "metrics"} <= set(checks)


def test_a_new_field_is_allowed_by_the_published_schema_and_seen_by_the_tests() -> None:
    grown = {**ERROR, "new": 1}
    jsonschema.validate(grown, json_schema("error"))
    with pytest.raises(jsonschema.ValidationError, match="Additional properties"):
        check(grown, "error")
    check(ERROR, "error")


@pytest.mark.parametrize("field", ["status", "error"])
def test_a_lost_field_breaks_the_schema(field: str) -> None:
    lost = {key: value for key, value in ERROR.items() if key != field}
    with pytest.raises(jsonschema.ValidationError, match="required"):
        jsonschema.validate(lost, json_schema("error"))


def test_closing_a_schema_closes_the_parts_too() -> None:
    part = closed(json_schema("error"))["$defs"]["Error"]
    assert part["additionalProperties"] is False
    assert part["properties"]["evidence"]["additionalProperties"] is True


def test_every_error_class_makes_a_valid_document() -> None:
    for kind in EXIT_CODES.values():
        check({**ERROR, "error": kind("what").to_json()}, "error")


@pytest.mark.parametrize("torch", [True, False], ids=["torch", "no torch"])
def test_a_verify_report_is_a_valid_document(torch: bool) -> None:
    facts = {
        "version": "2.13.0+cpu", "git_version": "0" * 40, "xpu": False, "xpu_version": None,
        "cuda_version": None, "cxx11_abi": 1, "location": "/x/torch", "python": "3.11.7",
    }  # fmt: skip
    results = tuple(
        CheckResult(id=f"a.{status}", title="A", group="a", status=status, metrics={"x": 1}, output=("line",))
        for status in ("pass", "fail", "skip", "crash", "timeout")
    )
    report = VerifyReport("smoke", "/x/python", results, torch=facts if torch else {}, device={"type": "cpu"})
    check(report.to_json(), "verify")
