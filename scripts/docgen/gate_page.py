"""docs/reference/gate.md, from the rules of the XPU gate."""

from __future__ import annotations

from docgen import markdown as md
from xpubuild.artifacts.gate_rules import GateRule, shipped_gate_rules

_ABOUT = """
The XPU gate stops a build of PyTorch for XPU (`--target xpu`) that has lost XPU support. While CMake
configures the build, it checks each message and each entry of `CMakeCache.txt`, and then the commands that
CMake wrote for SYCL sources: `build.ninja` and the scripts beside the objects. A rule that *stops* ends the
build within seconds with exit code 53, and shows upstream's own lines, their place in the log, the reason,
and the command to run next. A *warning* is shown, and recorded in `receipt.json` under `warnings`. After the
build, xpubuild checks that the wheel has XPU kernels, and that the installed torch is compiled for XPU and
for the requested GPUs.

[`xpubuild rehearse`](../how-to/rehearse.md) asks the gate without building.
[architecture.md](../architecture.md) explains how a watcher reads the output of a command.
"""
_COMPARED = {
    "present": "matches",
    "off": "is off",
    "on": "is on",
    "arch": "differs from the requested AOT targets",
    "environment": "is outside the workspace's environment",
    "source": "is outside the checkout",
}


def page() -> str:
    """Return the page."""
    header = ("rule", "kind", "releases", "checks", "applies if", "message", "source")
    rows = []
    for rule in shipped_gate_rules():
        places = [
            name
            for name, there in (
                ("the output", rule.line),
                (md.code(str(rule.cache)), rule.cache),
                ("the generated commands", rule.generated),
            )
            if there
        ]
        looks = f"{' and '.join(places)}: {_COMPARED[rule.compare]}"
        name, releases = md.code(rule.id), rule.releases or "all"
        rows.append((name, rule.kind, releases, looks, _condition(rule), rule.what, rule.source))
    return (
        md.head("The XPU gate", "xpubuild/artifacts/gate_rules.yaml") + _ABOUT + "\n" + md.table(header, rows)
    )


def _condition(rule: GateRule) -> str:
    """Return when a rule applies, beside the release."""
    words = ["the build is for the CPU"] if rule.cpu else []
    words += [f"{md.code(rule.asked)} is on"] if rule.asked else []
    words += [f"there is {md.code(name)}" for name in rule.exists]
    words += [f"there is no {md.code(name)}" for name in rule.lacks]
    words += [f"an AOT target is {' or '.join(map(md.code, rule.targets))}"] if rule.targets else []
    return ", ".join(words) or "always"
