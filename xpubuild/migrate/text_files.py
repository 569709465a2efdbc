"""What is not Python alone: notebooks, shell scripts, YAML, TOML, JSON, container files, requirements."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from xpubuild.migrate.python_code import rewrite
from xpubuild.migrate.rules import Found, Reason, Rewritten, Rules, table

_CELL = "# xpubuild migrate: cell {}"
_MAGIC = "# xpubuild migrate: as it was: "
_MASK, _VISIBLE = "ZE_AFFINITY_MASK", "CUDA_VISIBLE_DEVICES"
_SET = re.compile(rf"(?<![\w${{]){_VISIBLE}=(?P<value>\"[^\"]*\"|'[^']*'|[^\s;&|\"']*)")
_SET_YAML = re.compile(rf"^(?P<indent>\s*){_VISIBLE}:(?P<value>\s*\S.*)$")
_VALUE = re.compile(r"(?i)(?P<key>[\w.-]*device[\w.-]*[\"']?\s*[:=]\s*[\"']?)cuda(?=[\"':,\s]|$)")


def rewrite_text(text: str, rules: Rules, *, values: bool) -> Rewritten:
    """Return a text with the variables that choose GPUs for both kinds, or for XPU alone.

    With ``values``, devices that are values of settings are rewritten for XPU, and reported otherwise.
    """
    lines, found, edits = [], [], 0
    before = text.splitlines(keepends=True)
    for number, line in enumerate(before, 1):
        following = before[number] if number < len(before) else ""
        new = line if line.lstrip().startswith("#") else _line(line, following, rules.to)
        if values:
            if rules.to == "xpu":
                new = _VALUE.sub(r"\g<key>xpu", new)
            elif _VALUE.search(new):
                found.append(Found(number, line.strip(), _reason("value")))
        edits += new != line
        lines.append(new)
        found += [Found(number, line.strip(), why) for why in _reasons(new)]
    return Rewritten("".join(lines), edits, tuple(found))


def _line(line: str, following: str, to: str) -> str:
    if _MASK in line or (_MASK in following and _SET_YAML.match(line.rstrip())):
        return line
    if to == "xpu":
        return line.replace(_VISIBLE, _MASK)
    yaml = _SET_YAML.match(line.rstrip("\r\n"))
    if yaml:
        end = line[len(line.rstrip("\r\n")) :] or "\n"
        return f"{line.rstrip()}{end}{yaml['indent']}{_MASK}:{yaml['value']}{end}"
    return _SET.sub(rf"\g<0> {_MASK}=\g<value>", line)


def _reasons(line: str) -> Iterator[Reason]:
    if not line.lstrip().startswith("#"):
        for name, row in table()["text"].items():
            if "pattern" in row and re.search(row["pattern"], line):
                yield _reason(name)


def _reason(name: str) -> Reason:
    row = table()["text"][name]
    return Reason(name, row["why"], row["instead"], row["source"])


def rewrite_notebook(text: str, rules: Rules) -> Rewritten:
    """Return a notebook whose code cells are rewritten as one program; outputs and the rest stay.

    Raises:
        ValueError: it is no notebook.
        libcst.ParserSyntaxError: a cell does not parse.
    """
    notebook: Any = json.loads(text)
    if not isinstance(notebook, dict) or not isinstance(notebook.get("cells"), list):
        raise ValueError("it has no cells")  # noqa: TRY004 - the caller knows what a file with an error is
    cells = [cell for cell in notebook["cells"] if isinstance(cell, dict) and _is_python(cell)]
    program = "".join(
        f"{_CELL.format(number)}\n{_without_magic(_source(cell))}\n" for number, cell in enumerate(cells)
    )
    result = rewrite(program, rules)
    if result.text == program:
        return Rewritten(text, 0, result.found)
    parts = re.split(r"^# xpubuild migrate: cell \d+\n", result.text, flags=re.MULTILINE)
    for cell, part in zip(cells, parts[1:], strict=True):
        source = re.sub(rf"^(\s*)(?:pass  )?{re.escape(_MAGIC)}", r"\1", part, flags=re.MULTILINE)
        source = source.removesuffix("\n")
        cell["source"] = source.splitlines(keepends=True) if isinstance(cell["source"], list) else source
    indent = re.search(r"\n( +)\"", text)
    new = json.dumps(notebook, indent=len(indent[1]) if indent else None, ensure_ascii=text.isascii())
    return Rewritten(new + ("\n" if text.endswith("\n") else ""), result.edits, result.found)


def _is_python(cell: dict[str, Any]) -> bool:
    return cell.get("cell_type") == "code" and not _source(cell).startswith("%%")


def _source(cell: dict[str, Any]) -> str:
    source = cell.get("source", "")
    return "".join(source) if isinstance(source, list) else str(source)


def _without_magic(source: str) -> str:
    return re.sub(r"^(\s*)(?=[%!?])", rf"\1pass  {_MAGIC}", source, flags=re.MULTILINE)
