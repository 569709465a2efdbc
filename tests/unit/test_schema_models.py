"""The published schemas: valid, open for new fields, and strict about the fields they name."""

from __future__ import annotations

import json

import jsonschema
import pytest
from docgen.schemas import DOCUMENTS, file_name, json_schema
from support.documents import check, closed

from xpubuild.errors import EXIT_CODES, RecipeError
from xpubuild.verify.model import CheckResult, VerifyReport

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
