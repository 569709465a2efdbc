"""Signature files: what they must hold, and what is refused with a message."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from xpubuild.errors import RecipeError
from xpubuild.explain.load import FOLDERS, load_rules, shipped_rules
from xpubuild.explain.prefilter import Prefilter, smallest

ENTRY = {
    "id": "a-b",
    "family": "X-test",
    "title": "t",
    "match": [{"find": ["some text"], "line": "some text"}],
    "cause": "c",
    "fix": "f",
    "next": "true",
    "sources": ["https://github.com/pytorch/pytorch/issues/1"],
}


def load(folder: Path, *entries: dict[str, object]) -> None:
    (folder / "é x.yaml").write_text(yaml.safe_dump({"signatures": list(entries)}), "utf-8")
    load_rules(folder)


def matcher(**changes: object) -> dict[str, object]:
    return {**ENTRY, "match": [{"find": ["some text"], "line": "some text", **changes}]}


def test_a_minimal_signature_is_enough(tmp_path: Path) -> None:
    load(tmp_path, ENTRY)
    assert load_rules(tmp_path).by_id("a-b").family == "X-test"


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ({**ENTRY, "colour": "red"}, "colour"),
        ({**ENTRY, "family": ""}, "has no family"),
        ({**ENTRY, "sources": ["http://example.org"]}, "https://"),
        ({**ENTRY, "sources": []}, "sources"),
        ({**ENTRY, "next": {"debian": "x"}}, "no default"),
        ({**ENTRY, "supersedes": ["no-such"]}, "no-such"),
        (matcher(line="(unclosed"), "not a regular expression"),
        (matcher(line="a.*b"), "unbounded"),
        (matcher(line="a+b"), "unbounded"),
        (matcher(find=["Some Text"]), "lower case"),
        (matcher(find=["it's so"]), "quotes"),
        (matcher(needs=["no-such-fact"]), "no-such-fact"),
        (matcher(before=[{"pattern": "x", "within": 4000}]), "within"),
        ({**matcher(after=[{"pattern": "x"}]), "fatal": True, "error": "no-space"}, "cannot depend on later"),
        ({**matcher(unless={"after": {"pattern": "x"}}), "fatal": True, "error": "no-xpu"}, "cannot depend"),
        ({**ENTRY, "fatal": True}, "needs an 'error'"),
        ({**ENTRY, "error": "no-space"}, "any other must not have one"),
        ({**ENTRY, "next": {"default": "x", "install": "music"}}, "'install' is none of "),
        ({**ENTRY, "lookup": [{"entity": "x", "table": "none"}]}, "looks up in an unknown table"),
        ({**ENTRY, "match": []}, "match"),
        ({**ENTRY, "id": "a b"}, "id"),
        (matcher(find=[]), "find"),
        (matcher(find=["abc"]), "4 to 80"),
        (matcher(find=["a" * 81]), "4 to 80"),
        (matcher(find=["two  blanks"]), "no double spaces"),
        (matcher(confidence=0), "confidence"),
        (matcher(confidence=1.1), "confidence"),
        (matcher(before=[{"pattern": "x", "within": 0}]), "within"),
        (matcher(before=[{"pattern": "x", "within": 41}]), "within"),
        (matcher(unless_fact=["another-fact", "no-such-fact"]), "unknown facts: another-fact, no-such-fact"),
        ({**ENTRY, "supersedes": ["b", "a-b", "a"]}, "supersedes unknown signatures: a, b"),
    ],
)
def test_what_is_wrong_is_named(entry: dict[str, object], message: str, tmp_path: Path) -> None:
    with pytest.raises(RecipeError) as caught:
        load(tmp_path, entry)
    assert message in f"{caught.value.what} {caught.value.why}"
    assert caught.value.fix.startswith(("see ", "correct its signature file"))


def test_two_signatures_of_one_id(tmp_path: Path) -> None:
    with pytest.raises(RecipeError, match="another signature"):
        load(tmp_path, ENTRY, ENTRY)


def test_a_file_that_is_no_yaml(tmp_path: Path) -> None:
    (tmp_path / "x.yaml").write_text("a: [", "utf-8")
    with pytest.raises(RecipeError, match="not a signature file"):
        load_rules(tmp_path)


def test_the_shipped_ones_are_well_formed() -> None:
    assert load_rules(*FOLDERS) == shipped_rules()


def test_the_shipped_ones_say_what_to_do() -> None:
    rules = shipped_rules()
    assert len(rules.signatures) >= 135
    for entry in rules.signatures:
        assert entry.cause.rstrip().endswith("."), entry.id
        assert entry.fix.removesuffix("]]").endswith("."), entry.id
        assert entry.next_command(), entry.id
        assert "\n" not in entry.next_command(), entry.id


def test_few_literals_find_the_lines_of_all_rules() -> None:
    assert smallest(frozenset({"error", "an error", "kill", "killed", "fail"})) == ("fail", "kill", "error")
    found = Prefilter(["error"]).hits(b"-Werror errorReport.cpp errors error: ERROR_X error", 0, 60)
    assert [place for place, _ in found] == [24, 31, 38, 46]


STEPS = (
    "[1/9] Building CXX object error.cpp.o",
    "/usr/bin/c++ -Wall -o error.o -c error.cpp",
    "[2/9] /opt/bin/icpx-2 -c error.cpp",
    "ccache c++ -c a::error.cpp",
)


def test_steps_are_left_out_and_what_is_found_keeps_its_place() -> None:
    block = "\n".join(["error: a", *STEPS, "b error: c", *STEPS[:2], "an error", STEPS[0], ""]).encode()
    found = Prefilter(["error"]).hits(block, 0, len(block))
    lines = [block[block.rfind(b"\n", 0, place) + 1 : block.find(b"\n", place)] for place, _ in found]
    assert lines == [b"error: a", b"b error: c", b"an error"]
    assert all(block.startswith(b"error", place) for place, _ in found)


@pytest.mark.parametrize("step", STEPS[:3])
def test_a_step_that_tells_something_is_looked_at(step: str) -> None:
    block = f"x\n{step}: error: y\n{step} -DUSE_XPU=0\n{step}\n".encode()
    found = Prefilter(["error", "use_xpu="]).hits(block, 0, len(block))
    told = {block[: place + 1].count(b"\n") for place, _ in found}
    assert told >= {1, 2}
    assert (2, "use_xpu=") in {(block[: place + 1].count(b"\n"), text) for place, text in found}
