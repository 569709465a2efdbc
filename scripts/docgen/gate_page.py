"""docs/reference/gate.md, from the rules of the XPU gate."""

from __future__ import annotations

from docgen import markdown as md
from xpubuild.build.gate_rules import shipped_gate_rules

_ABOUT = """
A build of PyTorch that was asked for XPU (`--target xpu`) is watched while CMake configures it: each
message it prints and each entry of `CMakeCache.txt` as it appears. A rule that *stops* ends the build
within seconds with exit status 53 and shows upstream's own lines, their place in the log, why, and what
to type. A *warning* is shown, and kept in `receipt.json` under `warnings`. Afterwards it is proved that
the wheel has XPU kernels, and that the installed torch says that it is compiled for XPU and for the GPUs
that were asked for.

[architecture.md](../architecture.md) says how a watcher sits beside a command.
"""
_COMPARED = {
    "present": "is there",
    "off": "is off",
    "arch": "differs from the AOT targets asked for",
    "environment": "lies outside of the workspace's environment",
    "source": "lies outside of the checkout",
}


def page() -> str:
    """Return the page."""
    header = ("rule", "kind", "releases", "looks at", "holds where", "what it says", "learned from")
    rows = []
    for rule in shipped_gate_rules():
        places = [
            name
            for name, there in (("the output", rule.line), (md.code(str(rule.cache)), rule.cache))
            if there
        ]
        asked = md.code(rule.asked) + " was asked for" if rule.asked else "always"
        looks = f"{' and '.join(places)}: {_COMPARED[rule.compare]}"
        rows.append(
            (md.code(rule.id), rule.kind, rule.releases or "all", looks, asked, rule.what, rule.source)
        )
    return md.head("The XPU gate", "xpubuild/build/gate_rules.yaml") + _ABOUT + "\n" + md.table(header, rows)
