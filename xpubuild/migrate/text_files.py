"""What is not Python alone: notebooks, shell scripts, YAML, TOML, JSON, container files, requirements."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from xpubuild.migrate.python_code import rewrite
from xpubuild.migrate.rules import Found, Reason, Rewritten, Rules, reason, table

_CELL = "...  # xpubuild migrate: cell {}"
_MAGIC = "# xpubuild migrate: as it was: "
#: Lines of a notebook that are no Python: magic, a shell command, help, or the result of one of them.
_NO_PYTHON = re.compile(
    r"^(\s*)(?=%{1,2}[A-Za-z]|!(?!=)|\?|[\w.]+\?{1,2}\s*$|[\w., ]+=\s*(?:%[A-Za-z]|!\w))", re.MULTILINE
)
#: Magic of a cell whose lines are Python.
_PYTHON_CELLS = ("%%time", "%%capture", "%%prun")
_MASK, _VISIBLE = "ZE_AFFINITY_MASK", "CUDA_VISIBLE_DEVICES"
_QUOTED = r"\"[^\"`\\]*\"|'[^']*'"
#: A word of a shell that is an assignment, with a value of which it is clear where it ends.
_SET = re.compile(
    rf"(?<![\w${{\"']){_VISIBLE}="
    rf"(?P<value>(?:{_QUOTED}|[\w,.:/@-]|\$\w+|\$\{{[^\s\"'{{}}`()]*\}})*)(?=[\s;&|)\"']|$)"
)
#: What is before such a word where another may follow: nothing, an operator, an assignment, a command.
_BEFORE = re.compile(
    r"(?:^|[;&|(]|(?:^|\s)\w+=\S*\s|\b(?:export|declare\s-x|env|ENV|RUN|sudo|then|else|do|time|exec|nohup)\s|"
    r"\s-c\s+[\"'])\s*$"
)
#: The same in a list or a value of YAML, where it is a shell's only if a command follows.
_BEFORE_COMMAND = re.compile(r"(?:^\s*-|:)\s+[\"']?$")
#: A line that is one setting: of YAML, TOML, Docker, or a variable of a shell.
_ALONE = re.compile(
    rf"^(?P<indent>\s*(?:-\s+|ARG\s+|ENV\s+)?(?P<quote>[\"']?)){_VISIBLE}"
    rf"(?P<value>(?P<by>:\s*|\s*=\s*|\s+(?<=ENV\s{_VISIBLE}\s))(?:{_QUOTED}|[^\s\"'`\\;&|#]+(?:\s+#.*)?)(?P=quote))\s*$"
)
_IS_SET = re.compile(rf"(?<![\w${{]){_VISIBLE}[\"']?\s*[=:](?!=)|\b(?:ENV|export|name:)\s+[\"']?{_VISIBLE}\b")
_VALUE = re.compile(r"(?i)(?P<key>[\w.-]*device[\w.-]*[\"']?\s*[:=]\s*[\"']?)cuda(?=[\"':,\s]|$)")


def rewrite_text(text: str, rules: Rules, *, values: bool) -> Rewritten:
    """Return a text with the variables that choose GPUs for both kinds, or for XPU alone.

    With ``values``, devices that are values of settings are rewritten for XPU, and reported otherwise.
    """
    lines, found, edits = [], [], 0
    before = text.splitlines(keepends=True)
    for number, line in enumerate(before, 1):
        following = before[number] if number < len(before) else ""
        is_continued = number > 1 and before[number - 2].rstrip().endswith("\\")
        is_comment = line.lstrip().startswith("#")
        new = line if is_comment else _line(line, following, rules.to, is_continued=is_continued)
        if new == line and not is_comment and _is_left(line, following):
            found.append(Found(number, line.strip(), reason("own", "visible-devices")))
        if values:
            if rules.to == "xpu":
                new = _VALUE.sub(r"\g<key>xpu", new)
            elif _VALUE.search(new):
                found.append(Found(number, line.strip(), _reason("value")))
        edits += new != line
        lines.append(new)
        found += [Found(number, line.strip(), why) for why in _reasons(new)]
    return Rewritten("".join(lines), edits, tuple(found))


def _line(line: str, following: str, to: str, *, is_continued: bool) -> str:
    body = line.rstrip("\r\n")
    alone = None if is_continued else _ALONE.match(body)
    if _MASK in line or (alone and _MASK in following):
        return line
    if to == "xpu":
        return line.replace(_VISIBLE, _MASK)
    is_of_shell = alone and alone["by"] == "=" and alone["indent"].strip() in ("", "ENV")
    if alone and not (is_of_shell and body.lstrip().startswith("ENV")):
        end = line[len(body) :] or "\n"
        return f"{body}{end}{alone['indent']}{_MASK}{alone['value']}{end}"

    def both(match: re.Match[str]) -> str:
        before, behind = line[: match.start()], line[match.end() :]
        is_word = _BEFORE.search(before) or (_BEFORE_COMMAND.search(before) and re.match(r"\s+\S", behind))
        return f"{match[0]} {_MASK}={match['value']}" if is_word else match[0]

    return _SET.sub(both, line)


def _is_left(line: str, following: str) -> bool:
    """Return whether a line sets the variable and neither it nor the next one sets that of XPU."""
    return bool(
        _IS_SET.search(line) and _MASK not in line + following and not re.search(r"\b(?:echo|printf)\b", line)
    )


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
    found = tuple(_placed(item, program, text) for item in result.found)
    if result.text == program:
        return Rewritten(text, 0, found)
    parts = re.split(r"^\.\.\.  # xpubuild migrate: cell \d+\n", result.text, flags=re.MULTILINE)
    for cell, part in zip(cells, parts[1:], strict=True):
        source = re.sub(rf"^(\s*)(?:pass  )?{re.escape(_MAGIC)}", r"\1", part, flags=re.MULTILINE)
        source = source.removesuffix("\n")
        cell["source"] = source.splitlines(keepends=True) if isinstance(cell["source"], list) else source
    indent = re.search(r"\n( +)\"", text)
    new = json.dumps(notebook, indent=len(indent[1]) if indent else None, ensure_ascii=text.isascii())
    return Rewritten(new + ("\n" if text.endswith("\n") else ""), result.edits, found)


def _placed(found: Found, program: str, notebook: str) -> Found:
    """Return what was found in the program with its line in the file of the notebook."""
    earlier = [line.strip() for line in program.splitlines()[: found.line - 1]].count(found.text)
    words = {json.dumps(found.text, ensure_ascii=is_ascii)[1:-1] for is_ascii in (True, False)}
    lines = [
        number for number, line in enumerate(notebook.splitlines(), 1) if any(word in line for word in words)
    ]
    return Found(lines[min(earlier, len(lines) - 1)] if lines else 1, found.text, found.reason)


def _is_python(cell: dict[str, Any]) -> bool:
    source = _source(cell)
    return cell.get("cell_type") == "code" and (
        not source.startswith("%%") or source.startswith(_PYTHON_CELLS)
    )


def _source(cell: dict[str, Any]) -> str:
    source = cell.get("source", "")
    return "".join(source) if isinstance(source, list) else str(source)


def _without_magic(source: str) -> str:
    return _NO_PYTHON.sub(rf"\1pass  {_MAGIC}", source)
