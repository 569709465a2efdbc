"""Text of a recipe that would be a second line, an option or a directive in the language of an output."""

from __future__ import annotations

import io
import json
import re
import shlex
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from html.parser import HTMLParser
from itertools import count
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, event, example, given, settings
from hypothesis import strategies as st
from support import report_world
from support.cli import Xpubuild
from support.image_files import Cell, rendered
from support.plan_files import plan_for

from xpubuild.cli.report_json import unfit
from xpubuild.engine.events import RunStarted, StepOutput
from xpubuild.engine.model import Command
from xpubuild.errors import RecipeError, UsageError
from xpubuild.images.stages import Format, render
from xpubuild.install.script import _command, relocatable, script
from xpubuild.jobs.render import Cell as Build
from xpubuild.jobs.render import Request, Scheduler, files_of
from xpubuild.recipe.load import merge
from xpubuild.ui.report.page import page
from xpubuild.ui.sinks import make_sink
from xpubuild.workspace.modulefile import modulefile
from xpubuild.workspace.report import report_document

PIECES = [
    "\n", "\r", "\u2028", "\u202e", "\0", "\x1b[2J", "\ud800", "%setup\n    touch /x", "%post",
    "\nRUN touch /x", "syntax=evil/image", "escape=`", "$(touch x)", "`touch x`", "'", '"', "\\",
    "{{ x }}", "${HOME}", ";", " ", "--index-url=http://h", "#", "#SBATCH --wrap=x", "[x]", "]]", "}",
    "XPUBUILD_END_OF_FILE", "é", "A=B", "{env}",
]  # fmt: skip
#: What is one line of text, and may mean something all the same.
TAME = st.lists(st.sampled_from([piece for piece in PIECES if piece.isprintable()]), max_size=4).map("".join)
TEXTS = TAME | st.lists(st.one_of(st.sampled_from(PIECES), st.text(max_size=4)), max_size=4).map("".join)
SOURCE = {"kind": "source", "dist": "x", "source": {"url": "/x"}}


NUMBERS = count()


def put(folder: Path, **changes: Any) -> str:
    path = folder / str(next(NUMBERS)) / "own.yaml"  # what was read of a path is kept
    path.parent.mkdir()
    head = {"schema": 1, "name": "own", "title": "plain", "extends": "quickstart"}
    path.write_text(yaml.safe_dump(merge(head, changes)))
    return str(path)


@pytest.mark.parametrize(
    ("changes", "key"),
    [
        ({"title": "t\nRUN touch /x"}, "title"),
        ({"title": "t\n%setup\n    touch /x"}, "title"),
        ({"title": "t\r"}, "title"),
        ({"title": "t\u2028"}, "title"),
        ({"title": "\u202et"}, "title"),
        ({"abi": {"note": "a\x1b[2J"}}, "abi.note"),
        ({"env": {"A;touch x;B": "1"}}, "env.A;touch x;B"),
        ({"env": {"A B": "1"}}, "env.A B"),
        ({"env": {"1A": "1"}}, "env.1A"),
        ({"env": {"A\nB": "1"}}, r"env.A\nB"),
        ({"env": {"A": "1\0"}}, "env"),
        ({"variants": {"v": {"env": {"ops": {"$(x)": 1}}}}}, "variants.v.env.ops.$(x)"),
        ({"components": {"a": {**SOURCE, "dist": "--index-url=http://h"}}}, "components.a.dist"),
        ({"components": {"a": {**SOURCE, "dist": "a b"}}}, "components.a.dist"),
        ({"components": {"a": {**SOURCE, "dist": "torch @ http://h"}}}, "components.a.dist"),
        ({"components": {"a": {**SOURCE, "requires": ["--pre"]}}}, "components.a.requires.0"),
        ({"components": {"a": {**SOURCE, "indexes": ["--pre"]}}}, "components.a.indexes.0"),
        ({"components": {"a": {**SOURCE, "build": {"config_settings": {"a\n": "b"}}}}}, "components.a.build"),
        (
            {"components": {"a": {**SOURCE, "build": {"archives": {"j": {"variable": "A;x"}}}}}},
            "components.a.build.archives.j.variable",
        ),
        ({"toolchain": {"conda": {"packages": ["--file=x"]}}}, "toolchain.conda.packages.0"),
    ],
)
def test_a_bad_text_is_refused_by_its_key(
    xpubuild: Xpubuild, tmp_path: Path, changes: dict[str, Any], key: str
) -> None:
    result = xpubuild("recipes", "show", put(tmp_path, **changes))
    assert result.status == 20
    assert f"{key}" in " ".join(result.err.split())
    assert not re.search(r"[\x1b\r\u2028\u202e]", result.err)


@pytest.mark.parametrize("title", ["syntax=evil/image", " escape=`", "t {{ x }} $(x) \\"])
def test_a_title_is_no_directive(tmp_path: Path, title: str) -> None:
    cell = Cell(put(tmp_path, title=title), "debian-12")
    first = rendered(cell).text.splitlines()[0]
    assert first.startswith("#")
    assert "=" not in first, "BuildKit looks for directives up to the first comment that is none"
    assert "{{" not in rendered(cell._replace(form="apptainer")).text


def test_what_is_no_recipe_begins_no_line_of_an_image(tmp_path: Path) -> None:
    """An image is made of more than a checked recipe: the file's own name and options."""
    path = Path(put(tmp_path)).rename(tmp_path / "a\nRUN touch x.yaml")
    with pytest.raises(UsageError, match="cannot be in an image"):
        rendered(Cell(str(path), "debian-12"))
    request = rendered(Cell("quickstart", "debian-12")).request
    odd = request.recipe.model_copy(update={"title": "t\n%setup\n  x"})
    loaded = request.choice.loaded.model_copy(update={"recipe": odd})
    request = replace(request, choice=replace(request.choice, loaded=loaded))
    assert "\n%setup" not in render(replace(request, form="apptainer"))


@pytest.mark.parametrize("name", ["a;b", "a:b"])
def test_a_workspace_that_would_be_cut_is_refused_at_the_start(
    xpubuild: Xpubuild, tmp_path: Path, name: str
) -> None:
    result = xpubuild("plan", "quickstart", "--workspace", str(tmp_path / name))
    assert result.status == 2
    assert "at which pip and CMake cut it" in " ".join(result.err.split())
    assert not (tmp_path / name).exists()


def test_names_of_variables_are_quoted_in_a_script() -> None:
    """Those of a compile cache or of oneAPI are not from a recipe."""
    line = _command(Command(argv=("x",), env={"A;touch y;B": "1 2"}), ())[0]
    assert shlex.split(line) == ["env", "A;touch y;B=1 2", "x"]


def test_a_file_of_a_script_ends_where_it_ends() -> None:
    plan = plan_for("quickstart")
    object.__setattr__(plan, "files", {"/x/f": "a\nXPUBUILD_END_OF_FILE\ntouch pwned\n"})
    assert (
        "<<'XPUBUILD_END_OF_FILE_'\na\nXPUBUILD_END_OF_FILE\ntouch pwned\nXPUBUILD_END_OF_FILE_\n"
        in script(plan)
    )


@given(
    st.lists(st.one_of(st.sampled_from([*"'\" $\\", "/w/s", "/w/s/env"]), st.text(max_size=3)), max_size=8)
)
@example(["it's ", "/w/s"])
@settings(max_examples=200, deadline=None)
def test_the_words_of_a_script_stay_when_the_workspace_moves(pieces: list[str]) -> None:
    word = "".join(pieces)
    moved = shlex.split(relocatable(shlex.quote(word), "/w/s"))
    assert len(moved) == 1
    assert moved[0].replace("$WORKSPACE", "/w/s") == word


def skeleton(text: str) -> Iterator[str]:
    """Yield the first word of each line: what a text of the recipe may not change."""
    for line in text.split("\n"):
        yield re.match(r"\s*[#%]?[^\s=\"']*", line)[0] if not line.lstrip().startswith("#") else "#"  # type: ignore[index]


def outputs(recipe: str) -> Iterator[tuple[str, str]]:
    yield "sh", script(plan_for(recipe))
    forms: tuple[Format, ...] = ("containerfile", "apptainer")
    for form in forms:
        yield form, rendered(Cell(recipe, "debian-12", form)).text


@cache
def plain(folder: Path) -> dict[str, list[str]]:
    recipe = put(folder, title="plain", env={"A": "value"}, components={"ops": {"dist": "xpubuild-ops"}})
    return {name: list(skeleton(text)) for name, text in outputs(recipe)}


@given(
    field=st.sampled_from(["title", "name of env", "value of env", "dist", "note", "config setting"]),
    text=TEXTS,
)
@example(field="title", text="syntax=evil/image")
@example(field="value of env", text="'; touch x; '")
@settings(max_examples=60, deadline=None)
def test_what_is_accepted_stays_where_it_was_put(
    tmp_path_factory: pytest.TempPathFactory, field: str, text: str
) -> None:
    folder = tmp_path_factory.getbasetemp()
    expected = plain(folder)
    ops: dict[str, Any] = {"dist": text if field == "dist" else "xpubuild-ops"}
    if field == "config setting":
        ops["build"] = {"config_settings": {"cmake.define.X": text}}
    name, value = (text if field == "name of env" else "A"), (text if field == "value of env" else "value")
    changes: dict[str, Any] = {
        "title": text if field == "title" else "plain",
        "abi": {"note": text if field == "note" else "none"},
        "env": {name: value},
        "components": {"ops": ops},
    }
    try:
        found = list(outputs(put(folder, **changes)))
    except RecipeError:
        event(f"{field}: refused")
        return
    event(f"{field}: accepted")
    for kind, output in found:
        assert list(skeleton(output)) == expected[kind], kind
        assert not re.search(r"[\0\r\x1b\u2028\u202e]", output)
        if kind == "sh":
            assert subprocess.run(["bash", "-n"], input=output.encode(), check=False).returncode == 0
            if field == "value of env" and "{" not in text:
                lines = [line for line in output.split("\n") if re.match("env .* A=", line)]
                assert lines
                assert all(f"A={text}" in shlex.split(line) for line in lines)


@given(text=st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=6) | TEXTS)
@settings(max_examples=60, deadline=None)
def test_words_of_a_command_line_stay_words_of_a_job(text: str) -> None:
    text = re.sub("[\0\ud800-\udfff]", "", text)
    kinds: tuple[Scheduler, ...] = ("slurm", "pbs")
    for scheduler in kinds:
        heads = []
        for word in ("plain", text):
            cell = Build("own", "own", "0" * 64, (word,), ("x", word), ("a", "b"), word, "cpu", word)
            request = Request(scheduler, f"/shared/{word}", (cell,), {}, ("xpubuild",), word, fetched=True)
            files = files_of(request)
            scripts = [files[name] for name in sorted(files) if name.startswith("jobs/")]
            heads.append(sorted(re.findall(r"\A(?:#.*\n)+", text)[0].count("\n") for text in scripts))
        assert heads[0] == heads[1]
        for text_of_job in scripts[:2]:
            assert subprocess.run(["bash", "-n"], input=text_of_job.encode(), check=False).returncode == 0


@given(text=TEXTS)
@settings(max_examples=100, deadline=None)
def test_a_path_stays_one_word_of_a_modulefile(text: str) -> None:
    root = Path("/w") / (re.sub("[\0:;\n\ud800-\udfff]", "", text).strip("./") or "x")
    for form, special in (("lmod", '"'), ("tcl", '"$[')):
        bare = modulefile(Path("/w/x"), {"recipe": "own"}, form)
        made = modulefile(root, {"recipe": "own"}, form)
        assert made.count("\n") == bare.count("\n")
        for line, other in zip(made.split("\n"), bare.split("\n"), strict=True):
            if str(root) in line or "\\" in line:
                unescaped = re.sub(r"\\.", "", line)
                assert [c for c in unescaped if c in special] == [c for c in other if c in special]


def hostile(value: Any, text: str) -> Any:
    """Return a document with a text in place of every title, name of a recipe, path and word of a command."""
    if isinstance(value, dict):
        chosen = {"title", "recipe", "workspace", "detail", "log", "what", "why", "argv"}
        return {
            key: text if key in chosen and isinstance(item, str)
            else [text for _ in item] if key == "argv" and isinstance(item, list)
            else hostile(item, text)
            for key, item in value.items()
        }  # fmt: skip
    return [hostile(item, text) for item in value] if isinstance(value, list) else value


class Tags(HTMLParser):
    """The tags of a page with the names of their attributes."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[tuple[str, ...]] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, *(name for name, _ in attrs)))


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Any:
    root = report_world.make(tmp_path_factory.mktemp("report") / "ws", fails=True)
    return json.loads(json.dumps(report_document(root, unfit)))


MARKUP = st.sampled_from(["<script>x</script>", '" onload="x', "' onload='x", "&lt;b&gt;", "-->", "</title>"])


@pytest.mark.needs("ninja")
@given(text=st.lists(MARKUP | st.sampled_from(PIECES) | st.text(max_size=4), min_size=1).map("".join))
@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_no_text_becomes_markup_of_the_page(report: Any, text: str) -> None:
    made = page(hostile(report, f"x{text}"))  # an empty one leaves a section out
    assert Tags(made).found == Tags(page(hostile(report, "x"))).found
    assert not re.search(r"[\0\x1b\u202e\ud800]", made)


@given(text=TEXTS | st.text())
@settings(max_examples=60, deadline=None)
def test_an_event_is_one_line_of_json_whatever_its_text(text: str) -> None:
    stream = io.StringIO()
    sink = make_sink("jsonl", stream, {})
    sink.emit(RunStarted(1.5, text, text, ((text, text),), (text,)))
    sink.emit(StepOutput(2.0, text, text))
    sink.close()
    lines = stream.getvalue().splitlines()
    assert [json.loads(line)["event"] for line in lines] == ["run-started", "step-output"]
    assert (json.loads(lines[1])["line"], stream.getvalue().isascii()) == (text, True)
