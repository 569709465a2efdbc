"""Proofs of steps: environment, compilers, built and installed wheel, ABI of a library, verify."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from packaging.utils import canonicalize_name, parse_wheel_filename

from xpubuild.artifacts.abi import classify
from xpubuild.artifacts.audit_report import AuditPolicy, raise_for_findings
from xpubuild.artifacts.elf import read_shared_object
from xpubuild.artifacts.installed import wheel_matches_installed
from xpubuild.artifacts.installed_repair import KEEP
from xpubuild.artifacts.site_packages import content_key, installed_dists, quick_problem
from xpubuild.documents import plain
from xpubuild.engine.files import read_json
from xpubuild.engine.model import KeyedByFields
from xpubuild.errors import AuditError, ToolchainError, VerifyError
from xpubuild.frozen import frozen
from xpubuild.machine.envmark import altered, settings_of


@frozen
class EnvironmentProof(KeyedByFields):
    """The environment has its own interpreter of the planned version."""

    env: str
    version: str

    def describe(self) -> str:
        """Return what is checked."""
        return f"environment has its own Python {self.version}"

    def check(self) -> dict[str, Any]:
        """Return the version found, and version and content of pip."""
        env = Path(self.env)
        settings = settings_of(env)
        found = next((settings[key][0] for key in ("version", "version_info") if settings.get(key)), "")
        why = f"its interpreter is {found}" if found else "its pyvenv.cfg cannot be read"
        if not (env / "bin" / "python").exists():
            found, why = "", "its interpreter is missing"
        for path, what in altered(env).items():
            found, why = "", f"{path}: {what}"
        if not found.startswith(self.version):
            raise ToolchainError(
                f"the environment {self.env} is not a Python {self.version} environment",
                why=why,
                fix="remove the folder and run the same command again",
                commands=(f"rm -r '{self.env}'",),
            )
        dists = [dist for site in env.glob("lib/python3*/site-packages") for dist in installed_dists(site)]
        pips = (dist for dist in dists if dist.name in KEEP and quick_problem(dist) is None)
        pip = {dist.name: {"version": dist.version, "content": content_key(dist)} for dist in pips}
        return {"python": found, **({"installed": pip} if pip else {})}


def find_wheel(folder: Path, dist: str) -> Path:
    """Return the one wheel of a distribution in a folder.

    Raises:
        AuditError: there is none, or several.
    """
    wanted = canonicalize_name(dist)
    found = [path for path in sorted(folder.glob("*.whl")) if parse_wheel_filename(path.name)[0] == wanted]
    fix = "remove the other files and run the same command again"
    return _only(found, f"{folder} should have one wheel of {dist}", fix)


def _only(found: Sequence[Path], what: str, fix: str) -> Path:
    if len(found) != 1:
        why = f"the folder has: {', '.join(path.name for path in found) or 'none'}"
        raise AuditError(what, why=why, fix=fix, evidence={"wheels": [str(path) for path in found]})
    return found[0]


@frozen
class SameWheelProof:
    """The installed files are those of the wheel that was built."""

    wheels: str
    dist: str
    site_packages: str

    def describe(self) -> str:
        """Return what is checked."""
        return f"installed {self.dist} is the wheel that was built"

    def key(self) -> dict[str, Any]:
        """Return what the check depends on."""
        return {"proof": "same-wheel", "dist": self.dist, "site_packages": self.site_packages}

    def check(self) -> dict[str, Any]:
        """Return the wheel's name."""
        wheel = find_wheel(Path(self.wheels), self.dist)
        problems = wheel_matches_installed(wheel, Path(self.site_packages))
        if problems:
            raise AuditError(
                f"the installed {self.dist} is not the wheel {wheel.name}",
                why="; ".join(problems[:3]),
                fix="run the same command again to reinstall it",
                evidence={"problems": problems},
            )
        return {"wheel": wheel.name}


@frozen
class AbiOfInstalledProof:
    """The C++ ABI of an installed distribution, read from the symbols of its libraries."""

    dist: str
    folder: str
    cxx11_abi: int

    def describe(self) -> str:
        """Return what is checked."""
        return f"{self.dist} has C++11 ABI {self.cxx11_abi} in its symbols"

    def key(self) -> dict[str, Any]:
        """Return what the check depends on."""
        return {"proof": "abi", "folder": self.folder, "cxx11_abi": self.cxx11_abi}

    def check(self) -> dict[str, Any]:
        """Return the verdict and the symbol counts of the c10 libraries."""
        counts: Counter[str] = Counter()
        for path in sorted(Path(self.folder).glob("libc10*.so")):
            found = classify(read_shared_object(path))
            counts.update({"new": found.new, "old": found.old})
        verdict = None if not counts else int(counts["new"] > counts["old"])
        if verdict != self.cxx11_abi:
            raise AuditError(
                f"the installed {self.dist} has C++11 ABI {verdict}, the recipe requires {self.cxx11_abi}",
                why=f"{self.folder}: {counts['new']} symbols of the new ABI, {counts['old']} of the old one",
                fix="another build of it was installed: check the index and the wheel folder that pip uses",
            )
        return {"cxx11_abi": verdict, "symbols": dict(counts)}


@frozen
class VerifyProof(KeyedByFields):
    """The verify report exists and has no failure."""

    report: str

    def describe(self) -> str:
        """Return what is checked."""
        return "verify found no failure"

    def check(self) -> dict[str, Any]:
        """Return the counts by status."""
        document = read_json(Path(self.report))
        if not document:
            why, fix = f"{self.report} cannot be read", "run the same command again and read the log"
            raise VerifyError("verify wrote no report", why=why, fix=fix)
        counts = Counter(check["status"] for check in document["checks"])
        if document["status"] != "pass":
            bad = [check["id"] for check in document["checks"] if check["status"] not in ("pass", "skip")]
            raise VerifyError(
                f"verify found {len(bad)} failures", why=", ".join(bad), fix="read the report for the details"
            )
        return {"status": document["status"], "counts": dict(counts)}


@frozen
class LinksProof(KeyedByFields):
    """Each link leads to its program: link -> program."""

    links: Mapping[str, str]

    def describe(self) -> str:
        """Return what is checked."""
        names = " and ".join(Path(link).name for link in self.links)
        return f"{names} are the chosen compilers"

    def check(self) -> dict[str, Any]:
        """Return where the links lead."""
        for link, program in self.links.items():
            if not Path(link).is_file() or Path(link).resolve() != Path(program).resolve():
                raise ToolchainError(
                    f"{link} does not lead to {program}",
                    why="builds would compile with another compiler than the plan says",
                    fix="remove it and run the same command again",
                    commands=(f"rm '{link}'",),
                )
        return {"links": dict(self.links)}


@frozen
class WheelProof:
    """A step made exactly one wheel, and it passes the audit.

    ``stage`` is the folder the build wrote into, ``pattern`` the wheel's file name with wildcards, ``search``
    are folders with libraries (see ``audit_wheel``).
    """

    stage: str
    pattern: str
    policy: AuditPolicy
    search: tuple[str, ...] = ()

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
            "policy": self.policy.key(),
            "search": list(self.search),
        }

    def check(self) -> dict[str, Any]:
        """Return the audit as evidence, under ``audit``.

        Raises:
            AuditError: there is no such wheel, there are several, or the audit found an error.
        """
        what = f"the build should have created one wheel {self.pattern} in {self.stage}"
        fix = "run the same command again; if it fails again, the build log says what was packed"
        wheel = _only(sorted(Path(self.stage).rglob(self.pattern)), what, fix)
        # Not at the top: a plan only says that this will be proved.
        from xpubuild.artifacts.audit import audit_wheel  # noqa: PLC0415

        report = audit_wheel(wheel, self.policy, search=[Path(folder) for folder in self.search])
        raise_for_findings(report)
        return {"audit": plain(report)}
