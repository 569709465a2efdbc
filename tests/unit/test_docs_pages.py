"""What the hand-written pages say is true: links lead somewhere, commands exist, recipes are valid."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from support.imports import ROOT

from xpubuild.cli.app import cli
from xpubuild.errors import EXIT_CODES
from xpubuild.recipe.checked import check_recipes
from xpubuild.recipe.load import load

PAGES = sorted([*(ROOT / "docs").rglob("*.md"), *ROOT.glob("*.md")])
#: Evidence and the changelog have the commands of their date.
HAND_WRITTEN = [
    page
    for page in PAGES
    if page.parent.name != "reference" and "evidence" not in page.parts and page.name != "CHANGELOG.md"
]
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```", re.DOTALL | re.MULTILINE)
INLINE = re.compile(r"`(xpubuild [a-z][^`]*)`")


def commands(page: Path) -> list[str]:
    """Return what a reader types, in the order of the page; a line that ends in a backslash goes on."""
    blocks = [body for kind, body in BLOCK.findall(page.read_text("utf-8")) if kind == "console"]
    lines = "".join(blocks).replace("\\\n", " ").splitlines()
    return [line.removeprefix("$ ") for line in lines if line.startswith("$ ")]


def name_of(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def anchors(page: Path) -> set[str]:
    """Return the anchors of a page as GitHub makes them from its headings."""
    text = BLOCK.sub("", page.read_text("utf-8"))
    found = set()
    for heading in re.findall(r"^#+ (.*)$", text, re.MULTILINE):
        plain = re.sub(r"[^\w\- ]", "", heading.replace("`", "").lower())
        found.add(plain.strip().replace(" ", "-"))
    return found


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_links_lead_somewhere(page: Path) -> None:
    text = BLOCK.sub("", page.read_text("utf-8"))
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        path, _, anchor = target.partition("#")
        assert "://" not in path, f"{target}: pages name no other site"
        file = (page.parent / path).resolve() if path else page
        assert file.exists(), target
        if anchor:
            assert anchor in anchors(file), target


def command_lines() -> Iterator[tuple[str, str]]:
    for page in HAND_WRITTEN:
        text = page.read_text("utf-8")
        for kind, body in BLOCK.findall(text):
            if kind in ("console", "bash", "dockerfile"):
                yield from ((name_of(page), line) for line in _invocations(body))
        inline = INLINE.findall(BLOCK.sub("", text))
        yield from ((name_of(page), line) for code in inline for line in _invocations(code))


def _invocations(body: str) -> Iterator[str]:
    for line in body.replace("\\\n", " ").splitlines():
        for part in re.findall(r"xpubuild [a-z][^|>)&]*", line.removeprefix("$ ")):
            yield part.rstrip('" ')


LINES = sorted(set(command_lines()))


def is_words(line: str) -> bool:
    """Whether an inline code is a name such as 'xpubuild plumbing ...' and no full command line."""
    return "..." in line or "/" in line.split()[1]


@pytest.mark.parametrize(("page", "line"), [item for item in LINES if not is_words(item[1])])
def test_commands_exist_with_their_options(page: str, line: str) -> None:
    words = shlex.split(line)[1:]
    command: click.Command = cli
    context = click.Context(cli, info_name="xpubuild")
    while isinstance(command, click.Group) and words:
        name = words.pop(0)
        found = command.get_command(context, name)
        assert found is not None, f"{page}: no command {name}"
        command = found
    try:
        # Parses and converts; nothing is invoked.
        command.make_context(line, words, parent=context)
    except click.exceptions.Exit:
        pass
    except click.UsageError as error:
        pytest.fail(f"{page}: {line}: {error.format_message()}")


def test_the_pages_have_commands_to_check() -> None:
    assert len(LINES) > 30
    assert {"README.md", "docs/tutorial.md", "docs/how-to/recover.md"} <= {page for page, _ in LINES}


def test_the_guide_to_images_is_followed_without_placeholders() -> None:
    found = commands(ROOT / "docs" / "how-to" / "ci-images.md")
    assert {line.split()[0] for line in found} == {"xpubuild", "podman"}
    assert not [line for line in found if re.search(r"\b[A-Z]{4,}\b|\.\.\.|example", line)]


def recipes() -> Iterator[tuple[str, str]]:
    for page in HAND_WRITTEN:
        for kind, body in BLOCK.findall(page.read_text("utf-8")):
            if kind == "yaml":
                yield name_of(page), body


@pytest.mark.parametrize(("page", "text"), list(recipes()))
def test_recipes_on_pages_are_valid(page: str, text: str, tmp_path: Path) -> None:
    name = re.search(r"^name: (\S+)$", text, re.MULTILINE)
    assert name, page
    file = tmp_path / f"{name[1]}.yaml"
    file.write_text(text, "utf-8")
    # The page says that such files have to be beside the recipe.
    for beside, pin in (("torch-2.8.0-xpu", "torch==2.8.0+xpu"), ("triton", "pytorch-triton-xpu==3.3.1")):
        (tmp_path / f"{beside}.txt").write_text(f"{pin} --hash=sha256:{'0' * 64}\n")
    loaded = load(str(file))
    assert loaded.recipe.components
    assert check_recipes([str(file)])["recipes"][0]["problems"] == []


def test_the_table_of_failures_names_exit_codes_that_exist() -> None:
    text = (ROOT / "docs" / "how-to" / "recover.md").read_text("utf-8")
    named = {int(number) for number in re.findall(r"^\| (\d+) \|", text, re.MULTILINE)}
    assert named
    assert named <= EXIT_CODES.keys()
