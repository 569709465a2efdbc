"""docs/reference/documents.md, from the models of the JSON documents."""

from __future__ import annotations

import dataclasses

from docgen import markdown as md
from docgen.schemas import DOCUMENTS, file_name, json_schema
from xpubuild.engine import events
from xpubuild.recipe import model as recipe_model

_ABOUT = """
Each document names its schema and version in the field `schema`. A new xpubuild may add fields to a
document of the same version; it does not remove or reinterpret one. The files in [docs/schema](../schema)
are JSON Schemas (draft 2020-12) of the same models.

Durations are in seconds, sizes in bytes, `started` and `ended` in seconds since the epoch.
"""
_MADE_BY = {
    "doctor": "`xpubuild doctor --json`",
    "doctor-checks": "`xpubuild doctor --list --json`",
    "image": "`xpubuild image --json`",
    "plan": "`xpubuild plan --json`, `xpubuild install --dry-run --json`",
    "receipt": "`receipt.json` in a workspace, `xpubuild install --json`",
    "status": "`xpubuild status --json`",
    "report": "`xpubuild status --html - --json`",
    "verify": "`xpubuild verify --json`, `xpubuild verify --output FILE`",
    "verify-operators": "`operators.json` in the folder of `xpubuild verify --suite operators --results DIR`",
    "verify-checks": "`xpubuild verify --list --json`",
    "test": "`xpubuild test --json`",
    "bisect": "`xpubuild bisect --json`",
    "audit": "`xpubuild check --json`",
    "wheel-repair": "`xpubuild check --repair --json`",
    "rehearsal": "`xpubuild rehearse --json`",
    "explain": "`xpubuild explain --json`",
    "explain-rules": "`xpubuild explain --list --json`",
    "recipe": "`xpubuild recipes show --json`",
    "recipes": "`xpubuild recipes list --json`",
    "recipes-check": "`xpubuild recipes check --json`",
    "recipes-bump": "`xpubuild recipes bump --json`",
    "matrix": "`xpubuild recipes matrix --json`",
    "written-lock": "`xpubuild lock --json`",
    "verify-lock": "`xpubuild check --json`",
    "fetch": "`xpubuild fetch --json`",
    "env": "`xpubuild env --json`",
    "check": "`xpubuild check --json`",
    "clean": "`xpubuild clean --json`",
    "overview": "`xpubuild status --all --json`",
    "store": "`xpubuild store list --json`",
    "store-size": "`xpubuild store size --json`",
    "store-check": "`xpubuild check DEPOT --json`",
    "store-copy": "`xpubuild store push --json`, `xpubuild store pull --json`",
    "store-gc": "`xpubuild store gc --json`",
    "planned-jobs": "`xpubuild plan --format slurm --json`, `xpubuild plan --format pbs --json`",
    "jobs": "`xpubuild status --jobs DIR --json`",
    "completion": "`xpubuild config completion --json`",
    "config": "`xpubuild config --json`",
    "config-init": "`xpubuild config init --json`",
    "migrate": "`xpubuild migrate --json`",
    "migrate-proof": "`xpubuild migrate --prove --json -- COMMAND`",
    "migrate-baseline": "the file of `xpubuild migrate --baseline FILE --update-baseline`",
    "error": "every command with `--json`, when it fails before it has a document of its own",
}


_EVENTS = """
## Events

With `--log-format jsonl`, `xpubuild install` writes its progress to standard error as one JSON object per
line. Every event has `event`, its name, and `time`, in seconds since the epoch. Programs must ignore events
and fields they do not know.
"""


def page() -> str:
    """Return the page."""
    parts = [md.head("JSON documents", "xpubuild/*/*_json.py"), _ABOUT]
    shared: dict[str, md.Schema] = {}
    for name in DOCUMENTS:
        schema = json_schema(name)
        link = f"[{file_name(name)}](../schema/{file_name(name)})"
        parts.append(f"## xpubuild.{name}/1\n\nFrom: {_MADE_BY[name]}. Schema: {link}.\n")
        parts.append(_fields(schema))
        shared |= {part: definition for part, definition in md.sections(schema) if part != "Recipe"}
    parts.append("## Parts of documents\n")
    parts += [
        f"### {part}\n\n{_fields(definition)}" for part, definition in sorted(shared.items()) if _own(part)
    ]
    parts += [_EVENTS, md.table(("event", "fields", "meaning"), _event_rows())]
    return "\n".join(parts)


def _event_rows() -> list[tuple[str, str, str]]:
    rows = []
    for kind in events.Event.__subclasses__():
        name = kind.kind()
        names = [item.name for item in dataclasses.fields(kind) if item.name != "time"]
        rows.append((md.code(name), ", ".join(map(md.code, names)), md.prose(kind.__doc__)))
    return rows


def _own(part: str) -> bool:
    """The parts of a recipe have a page of their own."""
    return not hasattr(recipe_model, part)


def _fields(schema: md.Schema) -> str:
    rows = [
        (md.code(key), _type(value), md.prose(value.get("description")))
        for key, value in schema.get("properties", {}).items()
    ]
    return f"{md.prose(schema.get('description'))}\n\n{md.table(('field', 'value', 'meaning'), rows)}"


def _type(schema: md.Schema) -> str:
    if str(schema.get("$ref", "")).endswith("/Recipe"):
        return "[the recipe](recipe.md#recipe)"
    return md.type_text(schema)
