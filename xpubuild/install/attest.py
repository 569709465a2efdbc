"""Documents for those who must answer for a build: a CycloneDX SBOM, and the provenance of each wheel.

Both are made from the receipt, or from a lock before anything is built, so they say nothing that those do
not. Formats: CycloneDX 1.6 (cyclonedx.org/docs/1.6/json), in-toto Statement v1 with the predicate SLSA
provenance v1 (slsa.dev/spec/v1.0/provenance). A policy says what a wheel's statement has to be.
"""

from __future__ import annotations

import json
import shlex
import time
import uuid
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

import yaml
from packaging.utils import canonicalize_name
from pydantic import BaseModel, ConfigDict

from xpubuild import __version__
from xpubuild.artifacts.audit_report import Finding
from xpubuild.engine.environment import base_environment
from xpubuild.engine.files import write_json
from xpubuild.engine.fingerprint import digest, file_sha256
from xpubuild.engine.process import query
from xpubuild.errors import RecipeError, ToolchainError
from xpubuild.frozen import frozen
from xpubuild.install.lock_file import Lock, Tree
from xpubuild.safe_yaml import read_yaml_strict
from xpubuild.untrusted import read_text

STATEMENT, SIGNATURE = ".intoto.json", ".sig"
STATEMENT_TYPE, PREDICATE_TYPE = "https://in-toto.io/Statement/v1", "https://slsa.dev/provenance/v1"
BUILD_TYPE, BUILDER = "urn:xpubuild:install:1", "urn:xpubuild"
#: The namespace of ``ssh-keygen -Y``: a signature for something else is none of a wheel.
NAMESPACE = "xpubuild"
#: Role -> the type of CycloneDX components; others are libraries.
_TYPES = {"compiler": "application", "driver": "device-driver"}


@frozen
class Part:
    """Something that a build took or made; ``sha256`` of a file. The version of a source is its commit."""

    role: str
    """What it is to the build: wheel, source, package, archive, oneapi, driver, compiler."""
    name: str
    version: str
    sha256: str | None = None
    url: str | None = None

    @property
    def ref(self) -> str:
        """Its reference inside the document."""
        return f"{self.role}:{self.name}@{self.version}"

    @property
    def purl(self) -> str | None:
        """Its package URL, where it has one."""
        if self.role in ("wheel", "package"):
            return f"pkg:pypi/{canonicalize_name(self.name)}@{quote(self.version)}"
        split = urlsplit(self.url or "")
        if self.role != "source" or split.hostname != "github.com":
            return None
        return f"pkg:github/{split.path.strip('/').removesuffix('.git').lower()}@{self.version}"

    def component(self) -> dict[str, Any]:
        """Return it as a component of an SBOM."""
        kind = "vcs" if self.role == "source" else "distribution"
        found = {
            "type": _TYPES.get(self.role, "library"),
            "bom-ref": self.ref,
            "name": self.name,
            "version": self.version,
            "scope": "required" if self.role in ("wheel", "source", "archive") else "optional",
            "properties": [{"name": "xpubuild:role", "value": self.role}],
            "purl": self.purl,
            "hashes": self.sha256 and [{"alg": "SHA-256", "content": self.sha256}],
            "externalReferences": self.url and [{"type": kind, "url": self.url}],
        }
        return {name: value for name, value in found.items() if value}

    def dependency(self) -> dict[str, Any]:
        """Return it as a resource descriptor of in-toto."""
        source = self.role == "source"
        url = f"git+{self.url}@{self.version}" if source and self.url else self.url
        found = {"gitCommit": self.version} if source else {"sha256": self.sha256} if self.sha256 else None
        about = {"digest": found} if found else {}
        return {"name": self.name, "uri": self.purl or url or self.ref, **about}


def parts_of_receipt(receipt: Mapping[str, Any]) -> list[Part]:
    """Return what the build of a receipt took and made."""
    found = [Part("wheel", one["name"], one["version"], one["sha256"]) for one in receipt["wheels"]]
    for step in receipt["steps"]:
        component, _, kind = step["id"].rpartition(".")
        for item in step["evidence"]:
            if kind == "source" and "url" in item:
                found.append(_source(component, item["url"], item["commit"]))
                found += [_source(one["path"], one["url"], one["commit"]) for one in item["submodules"]]
            elif kind == "repositories":
                found += [_source(_name(one["url"]), one["url"], one["commit"]) for one in item["served"]]
            elif kind == "archives":
                found += [_archive(one["name"], one["url"], one["sha256"]) for one in item["archives"]]
    found += [_package(one["name"], one["version"], one["sha256"]) for one in receipt["prebuilt"]]
    host = receipt["host"]
    found += [Part("oneapi", one["name"], one["version"]) for one in receipt["oneapi"]]
    found += [Part("compiler", one["name"], one["version"]) for one in host["compilers"]]
    if receipt["oneapi"]:
        found += [Part("driver", one["package"], one["version"]) for one in host["drivers"]]
    return list({part.ref: part for part in found}.values())


def of_lock(lock: Lock) -> dict[str, Any]:
    """Return the SBOM of what a build from a lock takes."""
    found = [part for name, tree in lock.repositories.items() for part in _tree(name, tree)]
    for file in lock.requirements.values():
        found += [_package(name.partition(";")[0], pin.version, None) for name, pin in file.pins.items()]
    found += [_archive(name, item.url, item.sha256) for name, item in lock.archives.items()]
    machine = lock.machine
    parts = {"compiler": machine.compilers, "oneapi": machine.oneapi, "driver": machine.drivers}
    for role, items in parts.items():
        found += [Part(role, name, version) for name, version in items.items()]
    return sbom(list({part.ref: part for part in found}.values()), lock.name, lock.plan)


def _tree(name: str, tree: Tree) -> Iterator[Part]:
    yield _source(name, tree.url, tree.commit)
    for place, child in (*tree.submodules.items(), *tree.configure_time.items()):
        yield from _tree(_name(place), child)


def _name(place: str) -> str:
    return place.rstrip("/").rpartition("/")[2].removesuffix(".git") if "://" in place else place


def _source(name: str, url: str, commit: str) -> Part:
    # A folder of this machine says nothing elsewhere: the commit does.
    return Part("source", name, commit, url=None if urlsplit(url).scheme == "file" else url)


def _archive(name: str, url: str, sha256: str) -> Part:
    return Part("archive", name, sha256[:12], sha256, url)


def _package(name: str, version: str, sha256: str | None) -> Part:
    return Part("package", canonicalize_name(name), version, sha256)


def sbom(parts: list[Part], recipe: str, identity: str, created: str | None = None) -> dict[str, Any]:
    """Return a CycloneDX 1.6 document; ``identity`` is the lock digest, from which its serial number follows.

    Built wheels depend on all sources, packages and tools: a build is not taken apart any further.
    """
    root = f"recipe:{recipe}"
    wheels = [part.ref for part in parts if part.role == "wheel"]
    others = [part.ref for part in parts if part.role != "wheel"]
    tool = {"type": "application", "name": "xpubuild", "version": __version__}
    metadata = {
        **({"timestamp": created} if created else {}), "tools": {"components": [tool]},
        "component": {"type": "application", "bom-ref": root, "name": recipe, "version": identity[:12]},
    }  # fmt: skip
    return {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json", "bomFormat": "CycloneDX",
        "serialNumber": uuid.uuid5(uuid.NAMESPACE_URL, f"{BUILD_TYPE}:{identity}:{digest(wheels)}").urn,
        "specVersion": "1.6", "version": 1, "metadata": metadata,
        "components": [part.component() for part in parts],
        "dependencies": [
            {"ref": root, "dependsOn": wheels or others},
            *({"ref": ref, "dependsOn": others} for ref in wheels), *({"ref": ref} for ref in others),
        ],
    }  # fmt: skip


def statement(receipt: Mapping[str, Any], wheel: Mapping[str, Any], parts: list[Part]) -> dict[str, Any]:
    """Return the in-toto statement of a wheel of a receipt: from what, how and when it was built."""
    audited = ((one, item.get("audit", {})) for one in receipt["steps"] for item in one["evidence"])
    step = next(one for one, audit in audited if Path(str(audit.get("wheel", ""))).name == wheel["file"])
    runs = [item for item in receipt["commands"] if item["step"] == step["id"]]
    summary = receipt["summary"]
    ends = [item["started"] + item["duration_s"] for item in runs]
    times = {"startedOn": min(item["started"] for item in runs), "finishedOn": max(ends)} if runs else {}
    asked = {key: summary[key] for key in ("target", "components", "variant") if key in summary}
    network = [item["network"] for item in step["evidence"] if "network" in item]
    commands = [item["argv"] for item in runs]
    built = {
        "buildType": BUILD_TYPE,
        "externalParameters": {"recipe": receipt["recipe"], "lock": receipt["lock_digest"], **asked},
        "internalParameters": {"commands": commands, "store": step["store"], "network": network},
        "resolvedDependencies": [part.dependency() for part in parts if part.role != "wheel"],
    }
    run = {
        "builder": {"id": BUILDER, "version": {"xpubuild": receipt["xpubuild"]}},
        "metadata": {name: _utc(at) for name, at in times.items()},
    }
    return {
        "_type": STATEMENT_TYPE, "predicateType": PREDICATE_TYPE,
        "subject": [{"name": wheel["file"], "digest": {"sha256": wheel["sha256"]}}],
        "predicate": {"buildDefinition": built, "runDetails": run},
    }  # fmt: skip


def _utc(at: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(at))


def write_documents(receipt: Mapping[str, Any], place_of_sbom: Path, key: Path | None) -> list[Path]:
    """Write the SBOM, and beside each wheel its statement; return all files.

    With ``key``, a private key of OpenSSH, each statement gets a signature of ``ssh-keygen -Y``.

    Raises:
        ToolchainError: ssh-keygen is missing or cannot use the key.
        NoSpaceError.
    """
    parts = parts_of_receipt(receipt)
    made = [place_of_sbom]
    created = _utc(max((item["started"] for item in receipt["commands"]), default=time.time()))
    write_json(place_of_sbom, sbom(parts, receipt["recipe"], receipt["lock_digest"], created))
    for wheel in receipt["wheels"]:
        place = Path(f"{wheel['path']}{STATEMENT}")
        write_json(place, statement(receipt, wheel, parts))
        made.append(place)
        signature = Path(f"{place}{SIGNATURE}")
        signature.unlink(missing_ok=True)  # of an earlier build
        if key is not None:
            _sign(place, key)
            made.append(signature)
    return made


def _sign(place: Path, key: Path) -> None:
    signing = ("ssh-keygen", "-Y", "sign", "-n", NAMESPACE, "-f", str(key), str(place))
    answer = query(signing, env=base_environment(), deadline_s=60.0)
    if answer.returncode != 0:
        what = f"{place.name} cannot be signed with {key}"
        why = answer.stderr.strip() or f"ssh-keygen ended with {answer.returncode}"
        fix = "use a private key of OpenSSH that ssh-keygen can read without asking, with --sign-key"
        raise ToolchainError(what, why=why, fix=fix, commands=(f"ssh-keygen -y -f {shlex.quote(str(key))}",))


# --- what a policy asks of a wheel -----------------------------------------------------------------------


class Policy(BaseModel):
    """What wheels have to be; a list that is empty asks nothing."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    signers: str | None = None
    """A file of allowed signers (ssh-keygen(1)), beside the policy."""
    recipes: list[str] = []
    locks: list[str] = []
    """Lock digests, as plan and receipt show them."""
    wheels: dict[str, str] = {}
    """File names and their sha256; no other wheel is accepted."""


def read_policy(path: Path) -> Policy:
    """Read a policy.

    Raises:
        RecipeError: there is none, or it is not valid.
    """
    try:
        return Policy.model_validate(read_yaml_strict(read_text(path)))
    except (OSError, ValueError, yaml.YAMLError) as error:
        why = "; ".join(line.strip() for line in str(error).splitlines()[:3])
        fix = "write a YAML file with any of the keys signers, recipes, locks and wheels"
        raise RecipeError(f"the policy {path} cannot be read", why=why, fix=fix) from error


def violations(wheel: Path, policy: Policy, beside: Path) -> list[Finding]:
    """Return how a wheel is not what a policy asks for; ``beside`` is the folder of the policy."""
    return [
        Finding("error", "policy", wheel.name, why, f"{wheel.name} is not what the policy asks for: {why}")
        for why in _differences(wheel, policy, beside)
    ]


def _differences(wheel: Path, policy: Policy, beside: Path) -> list[str]:
    sha256 = file_sha256(wheel)
    found = []
    if policy.wheels and policy.wheels.get(wheel.name) != sha256:
        known = wheel.name in policy.wheels
        found.append("its sha256 is not that of the policy" if known else "the policy does not name it")
    if not (policy.signers or policy.recipes or policy.locks):
        return found
    place = Path(f"{wheel}{STATEMENT}")
    try:
        document = json.loads(read_text(place))
        asked = document["predicate"]["buildDefinition"]["externalParameters"]
        subjects = {one["name"]: one["digest"]["sha256"] for one in document["subject"]}
        recipe, lock = str(asked["recipe"]), str(asked["lock"])
        kinds = (document["_type"], document["predicateType"])
    except OSError as error:
        return [*found, f"{place.name} cannot be read: {error.strerror}"]
    except (ValueError, KeyError, TypeError, AttributeError):
        return [*found, f"{place.name} is no statement about a build"]
    if kinds != (STATEMENT_TYPE, PREDICATE_TYPE) or subjects.get(wheel.name) != sha256:
        found.append(f"{place.name} is about another file")
    if policy.recipes and recipe not in policy.recipes:
        found.append(f"it was built from the recipe '{recipe}'")
    if policy.locks and lock not in policy.locks:
        found.append(f"it was built from the lock digest {lock[:12]}")
    if policy.signers and (why := _unsigned(place, beside / policy.signers)):
        found.append(why)
    return found


def _unsigned(place: Path, signers: Path) -> str:
    """Return why a statement has no valid signature of an allowed signer; empty where it has one."""
    signature = f"{place}{SIGNATURE}"
    if not Path(signature).is_file():
        return f"{place.name} is not signed"
    ask = ["ssh-keygen", "-Y"]
    who = query([*ask, "find-principals", "-s", signature, "-f", str(signers)], env=base_environment())
    for name in who.stdout.split():
        check = [*ask, "verify", "-n", NAMESPACE, "-I", name, "-s", signature, "-f", str(signers)]
        if query(check, env=base_environment(), stdin=place.read_bytes()).returncode == 0:
            return ""
    return f"{place.name} is not signed by anybody whom {signers.name} lists"
