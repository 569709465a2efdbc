#!/usr/bin/env python3
"""Code lines of ``xpubuild`` by package: lines with a token, without comments, docstrings and blank lines."""

import ast
import collections
import io
import sys
import tokenize as tk
from pathlib import Path

_NO_CODE = {tk.COMMENT, tk.NL, tk.NEWLINE, tk.INDENT, tk.DEDENT, tk.ENDMARKER}


def code_lines(text: str) -> int:
    """Return how many lines of a module are code; a literal over several lines counts with each."""
    tokens = [token for token in tk.generate_tokens(io.StringIO(text).readline) if token.type not in _NO_CODE]
    lines = {number for token in tokens for number in range(token.start[0], token.end[0] + 1)}
    for node in ast.walk(ast.parse(text)):
        match node:
            case ast.Expr(value=ast.Constant(value=str())):
                lines.difference_update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    return len(lines)


def main(root: Path) -> None:
    """Print the lines of each package below a folder."""
    totals: collections.Counter[str] = collections.Counter()
    for file in sorted(root.rglob("*.py")):
        package, *rest = file.relative_to(root).parts
        totals[package if rest else "(top)"] += code_lines(file.read_text("utf-8"))
    for package, lines in (*sorted(totals.items()), ("in all", totals.total())):
        sys.stdout.write(f"{lines:7,}  {package}\n")


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "xpubuild"))
