"""The JSON Schema of configuration files, for editors that know TOML."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from xpubuild.cli.configuration.checking import settings_at
from xpubuild.cli.configuration.model import Commands, Setting

_TEXT = {"type": ["string", "integer"]}
_LIST = {"anyOf": [{"type": "string"}, {"type": "array", "items": _TEXT}]}
_KINDS: dict[str, dict[str, Any]] = {
    "flag": {"type": "boolean"},
    "number": {"type": "number"},
    "text": _TEXT,
    "jobs": {
        "anyOf": [
            {"const": "auto"},
            {"type": "integer", "minimum": 1},
            {"type": "string", "pattern": "^[1-9]"},
        ]
    },
    "texts": _LIST,
    "lines": _LIST,
    "folders": _LIST,
    "path": {"type": "string"},
    "place": {"type": "string"},
}


def json_schema(commands: Commands) -> dict[str, Any]:
    """Return the schema (draft 2020-12): every table and every key that there is."""
    tables: dict[str, Any] = {}
    for key, settings in settings_at(commands).items():
        here = tables
        for part in key[:-1]:
            here = here.setdefault(part, _table({}))["properties"]
        here[key[-1]] = _table({name: _one(setting) for name, setting in settings.items()})
    head = {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "xpubuild configuration"}
    return {**head, **_table(tables)}


def _table(properties: Mapping[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": dict(properties), "additionalProperties": False}


def _one(setting: Setting) -> dict[str, Any]:
    kind = _KINDS.get(setting.kind, {})
    if setting.kind == "choice":
        numbers = [int(item) for item in setting.choices if item.isdigit()]
        kind = {"enum": [*setting.choices, *numbers]}
    form = {"pattern": f"^(?:{setting.form.pattern})$"} if setting.form is not None else {}
    return {"description": setting.help, **kind, **form}
