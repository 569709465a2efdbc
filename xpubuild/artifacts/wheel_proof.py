"""The proof of a step that builds a wheel: there is one, and it passes the audit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from xpubuild.artifacts.audit_report import AuditPolicy
from xpubuild.errors import AuditError
from xpubuild.frozen import frozen


@frozen
class WheelProof:
    """A step made exactly one wheel, and it passes the audit.

    ``stage`` is the folder the build wrote into, ``pattern`` the wheel's file name with wildcards, ``search``
    and ``installed_in`` are folders with libraries (see ``audit_wheel``).
    """

    stage: str
    pattern: str
    policy: AuditPolicy
    search: tuple[str, ...] = ()
    installed_in: str = ""

    def describe(self) -> str:
        """Return what is checked."""
        parts = ["RECORD", "linkage"]
        if self.policy.cxx11_abi is not None:
            parts.insert(0, f"C++11 ABI {self.policy.cxx11_abi}")
        if self.policy.device_targets is not None:
            parts.append(f"device code for {' '.join(self.policy.device_targets) or 'XPU'}")
        return f"one wheel {self.pattern}, audited: {', '.join(parts)}"

    def key(self) -> dict[str, Any]:
        """Return what the proof depends on; the stage is where, not what."""
        return {
            "proof": "wheel",
            "pattern": self.pattern,
            "policy": self.policy.to_json(),
            "search": list(self.search),
            **({"installed_in": self.installed_in} if self.installed_in else {}),
        }

    def check(self) -> dict[str, Any]:
        """Return the audit as evidence, under ``audit``.

        Raises:
            AuditError: there is no such wheel, there are several, or the audit found an error.
        """
        found = sorted(Path(self.stage).rglob(self.pattern))
        if len(found) != 1:
            names = ", ".join(path.name for path in found) or "none"
            raise AuditError(
                f"the build should have created one wheel {self.pattern}",
                why=f"{self.stage} has: {names}",
                fix=(
                    "run the same command again; if the error repeats, read the build log to see what was "
                    "packed"
                ),
                evidence={"stage": self.stage, "wheels": [str(path) for path in found]},
            )
        # Not at the top: a plan only says that this will be proved.
        from xpubuild.artifacts.audit import audit_wheel, raise_for_findings  # noqa: PLC0415

        report = audit_wheel(
            found[0],
            self.policy,
            search=[Path(folder) for folder in self.search],
            installed_in=Path(self.installed_in) if self.installed_in else None,
        )
        raise_for_findings(report)
        return {"audit": report.to_json()}
