#!/usr/bin/env python3
"""Collect which operators torch-xpu-ops skips in its own tests, for ``verify --suite operators``.

Reads the skip lists of release branches from a clone of intel/torch-xpu-ops (``--clone``), takes those
tests that do what the suite does, and writes xpubuild/verify/suite/database_known.json: operators, types and
parts of a run, with the releases, the issue that the list names, and the file. Needs torch, numpy and
expecttest in this interpreter, for the names of operators.
"""

from __future__ import annotations

import argparse
import importlib
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

TARGET = Path(__file__).resolve().parent.parent / "xpubuild" / "verify" / "suite" / "database_known.json"
FILES = ("test/xpu/skip_list_common.py", "test/xpu/extended/skip_list_common.py")
#: Upstream's test -> the part of a run that does the same.
PARTS = {
    "test_compare_cpu": "forward", "test_numpy_ref": "forward", "test_out": "out",
    "test_noncontiguous_samples": "strided", "test_variant_consistency_eager": "in-place",
    "test_fn_grad": "backward", "test_forward_mode_AD": "forward-mode",
}  # fmt: skip
TESTS = ("test_ops_xpu.py", "test_ops_gradients_xpu.py", "test_ops_fwd_gradients_xpu.py")
_ENTRY = re.compile(rf'^\s*"({"|".join(PARTS)})_(\w+)_xpu_(\w+)",')
_ISSUE = re.compile(r"https://github\.com/[\w.-]+/[\w.-]+/(?:issues|pull)/\d+")


def entries(text: str) -> list[tuple[str, str, str, str]]:
    """Return (operator as in a test's name, type, part, issue) of a skip list."""
    found, inside, issue, after_entry = [], False, "", False
    for line in text.splitlines():
        heading = re.match(r'^\s*"(test_\w+\.py|[\w/]+\.py)":', line)
        if heading:
            inside, issue = heading[1].rpartition("/")[2] in TESTS, ""
        elif line.lstrip().startswith("#"):
            if after_entry:
                issue = ""
            named = _ISSUE.search(line)
            issue, after_entry = named[0] if named else issue, False
        elif inside and (entry := _ENTRY.match(line)):
            found.append((entry[2], entry[3], PARTS[entry[1]], issue))
            after_entry = True
    return found


def collect(clone: Path, releases: list[str]) -> dict[tuple[str, str, str, str, str], list[str]]:
    """Return (operator, type, part, issue, file) -> releases."""
    found: dict[tuple[str, str, str, str, str], list[str]] = {}
    for release in releases:
        for path in FILES:
            shown = subprocess.run(
                [shutil.which("git") or "git", "-C", str(clone), "show", f"release/{release}:{path}"],
                capture_output=True, text=True, check=True,
            )  # fmt: skip
            for entry in entries(shown.stdout):
                found.setdefault((*entry, path), []).append(release)
    return found


def main() -> int:
    """Write the list."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--clone", type=Path, required=True)
    parser.add_argument("--expires", required=True, metavar="YYYY-MM-DD")
    parser.add_argument("releases", nargs="+", help="in ascending order, such as 2.8 2.9")
    options = parser.parse_args()
    module = importlib.import_module("torch.testing._internal.common_methods_invocations")
    named = {}
    for info in module.op_db:
        variant = info.variant_test_name
        whole = f"{info.name}_{variant}" if variant else info.name
        named[whole.replace(".", "_")] = f"{info.name}.{variant}" if variant else info.name
    types: dict[tuple[str, str, str, str, str], set[str]] = {}
    for (operator, kind, part, issue, path), releases in collect(options.clone, options.releases).items():
        if operator in named:
            span = f"{releases[0]} {releases[-1]}"
            types.setdefault((named[operator], part, issue, path, span), set()).add(kind)
    failures = []
    for (operator, part, issue, path, span), kinds in sorted(types.items()):
        first, last = span.split()
        failures.append({
            "operators": [operator], "types": sorted(kinds), "parts": [part], "device": "xpu",
            "releases": [first, last], "issue": issue, "expires": options.expires,
            "source": f"https://github.com/intel/torch-xpu-ops/blob/release/{last}/{path}",
            "reason": "torch-xpu-ops skips it in its own tests",
        })  # fmt: skip
    TARGET.write_text(json.dumps({"failures": failures}, indent=1) + "\n", "utf-8")
    sys.stderr.write(f"{len(failures)} entries\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
