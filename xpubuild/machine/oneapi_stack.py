"""Checks whether the chosen components belong to one bundle."""

from __future__ import annotations

from collections.abc import Iterable

from xpubuild.machine.oneapi_bundles import Bundles, line_of
from xpubuild.machine.oneapi_components import COMPILER, Component
from xpubuild.machine.oneapi_finding import Finding


def mixed_stack(components: Iterable[Component], bundles: Bundles, *, code: str) -> tuple[Finding, ...]:
    """Return one finding per component that does not belong to the compiler's bundle, as far as known."""
    chosen = tuple(components)
    compiler = next((component for component in chosen if component.name == COMPILER), None)
    if compiler is None:
        return ()
    findings = []
    for component in chosen:
        expected = bundles.expected_lines(compiler.version, component.name)
        # In the unified layout a component's own version is often not known, only its toolkit's.
        known = component.layout == "component" or component.version != component.path.name
        if (
            component is compiler
            or not expected
            or not known
            or line_of(component.version) in (None, *expected)
        ):
            continue
        owners = bundles.names_with(component.name, component.version)
        belongs = f"; {component.version} belongs to {' or '.join(owners)}" if owners else ""
        findings.append(
            Finding(
                code,
                (
                    f"compiler {compiler.version} is used with {component.name} {component.version}, "
                    f"expected {' or '.join(sorted(expected))}{belongs}"
                ),
                {
                    "compiler": compiler.version,
                    component.name: component.version,
                    "expected": sorted(expected),
                },
            )
        )
    return tuple(findings)
