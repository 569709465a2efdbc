#!/usr/bin/env python3
"""Write the generated part of docs/: docs/reference/*.md, docs/checks/*.md, docs/schema/*.json
and docs/images/architecture.svg.

The same code gives the same files, byte by byte. ``--check`` writes nothing and ends with status 1 where a
file on disk is not what would be written.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from pathlib import Path

from docgen import (
    architecture_picture,
    cli_page,
    compatibility_page,
    doctor_pages,
    documents_page,
    environment_page,
    exit_codes_page,
    explain_page,
    gate_page,
    recipe_page,
    workspace_page,
)
from docgen.schemas import DOCUMENTS, file_name, json_schema

from xpubuild.cli.config import json_schema as configuration_schema

#: The pages of docs/reference that people write.
BY_HAND = frozenset(
    {"reference/promises.md", "reference/store.md", "reference/verify.md", "reference/wheels.md"}
)
DOCS = Path(__file__).resolve().parent.parent / "docs"


def pages() -> dict[str, str]:
    """Return path below docs/ -> text of every generated file."""
    texts = {
        "reference/cli.md": cli_page.page(),
        "reference/compatibility.md": compatibility_page.page(),
        "reference/documents.md": documents_page.page(),
        "reference/environment.md": environment_page.page(),
        "reference/exit-codes.md": exit_codes_page.page(),
        "reference/explain.md": explain_page.page(),
        "reference/gate.md": gate_page.page(),
        "reference/recipe.md": recipe_page.page(),
        "reference/workspace.md": workspace_page.page(),
        "images/architecture.svg": architecture_picture.picture(),
        **doctor_pages.pages(),
    }
    texts = {name: re.sub(r"\n{3,}", "\n\n", text) for name, text in texts.items()}
    for name in DOCUMENTS:
        schema = json.dumps(json_schema(name), indent=2, ensure_ascii=False)
        texts[f"schema/{file_name(name)}"] = schema + "\n"
    of_files = json.dumps(configuration_schema(), indent=2, ensure_ascii=False)
    texts[f"schema/{file_name('configuration')}"] = of_files + "\n"
    return texts


def _stray(texts: dict[str, str], docs: Path) -> list[str]:
    """Return generated files on disk that nothing generates any more."""
    present = [
        *(docs / "reference").glob("*.md"),
        *(docs / "checks").glob("*.md"),
        *(docs / "schema").glob("*.json"),
    ]
    return sorted(
        name for path in present if (name := path.relative_to(docs).as_posix()) not in {*texts, *BY_HAND}
    )


def main() -> int:
    """Run the tool."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--check", action="store_true", help="only compare")
    parser.add_argument("--docs", type=Path, default=DOCS, help="the docs folder (default: of this checkout)")
    arguments = parser.parse_args()
    texts = pages()
    stray = _stray(texts, arguments.docs)
    stale = [
        name
        for name, text in texts.items()
        if not (arguments.docs / name).is_file() or (arguments.docs / name).read_text("utf-8") != text
    ]
    if arguments.check:
        for name in (*stale, *stray):
            sys.stderr.write(f"docs/{name} is not what the code says; run: make regen\n")
        return 1 if stale or stray else 0
    for name in stray:
        (arguments.docs / name).unlink()
    for name in stale:
        (arguments.docs / name).parent.mkdir(parents=True, exist_ok=True)
        (arguments.docs / name).write_text(texts[name], "utf-8")
    for name in (*stale, *stray):
        sys.stdout.write(f"docs/{name}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
