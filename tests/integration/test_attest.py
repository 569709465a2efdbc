"""The documents of a build: valid by the formats' own validators, signed, and held against a policy."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from google.protobuf.json_format import Parse
from in_toto_attestation.predicates.provenance.v1.provenance_pb2 import Provenance
from in_toto_attestation.v1.statement import Statement
from in_toto_attestation.v1.statement_pb2 import Statement as StatementMessage
from integration.small_world import SmallWorld, small_world
from support.cli import here

from xpubuild.workspace.layout import Layout


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SmallWorld]:
    with small_world(tmp_path_factory.mktemp("world")) as made:
        yield made


def key(folder: Path, name: str) -> Path:
    path = folder / name
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(path)], check=True)
    return path


@pytest.fixture(scope="module")
def shared(world: SmallWorld, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the wheels, their signed statements, and a policy that they fulfil."""
    folder = tmp_path_factory.mktemp("shared")
    site, wheels = key(folder, "site"), folder / "wheels"
    found = world.install("--wheel-dir", str(wheels), "--sign-key", str(site), "--json")
    assert found.status == 0, found.err
    receipt = json.loads(found.out)
    signers = f'builds@site namespaces="xpubuild" {(folder / "site.pub").read_text()}'
    (folder / "signers").write_text(signers)
    policy = {
        "signers": "signers", "recipes": [receipt["recipe"]], "locks": [receipt["lock_digest"]],
        "wheels": {one["file"]: one["sha256"] for one in receipt["wheels"]},
    }  # fmt: skip
    (folder / "policy.yaml").write_text(json.dumps(policy))
    (folder / "receipt.json").write_text(found.out)
    return folder


def validate(text: str) -> None:
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(text) is None


def test_the_sbom_is_valid_and_names_every_source_and_package(world: SmallWorld, shared: Path) -> None:
    receipt = json.loads((shared / "receipt.json").read_text())
    text = Layout(Path(receipt["workspace"])).sbom.read_text()
    validate(text)
    components = {(one["properties"][0]["value"], one["name"]): one for one in json.loads(text)["components"]}
    for wheel in receipt["wheels"]:
        made = components["wheel", wheel["name"]]
        assert made["hashes"] == [{"alg": "SHA-256", "content": wheel["sha256"]}]
    for package in receipt["prebuilt"]:
        assert components["package", package["name"]]["version"] == package["version"]
    found = [item for step in receipt["steps"] if step["id"].endswith(".source") for item in step["evidence"]]
    sources = [item for item in found if "commit" in item]
    assert sources
    commits = {one["version"] for (role, _), one in components.items() if role == "source"}
    assert commits == {one["commit"] for item in sources for one in (item, *item["submodules"])}


def test_the_sbom_of_a_plan_is_valid(tmp_path: Path) -> None:
    place = tmp_path / "plan.cdx.json"
    found = here("lock", "quickstart", "--sbom", str(place), "-o", str(tmp_path / "lock.yaml"))
    assert found.status == 0, found.err
    validate(place.read_text())
    names = {one["name"] for one in json.loads(place.read_text())["components"]}
    assert {"ops", "third_party/fused", "torch", "cmake", "cxx"} <= names


def test_the_statement_is_a_valid_provenance(shared: Path) -> None:
    (place,) = (shared / "wheels").glob("*.intoto.json")
    text = place.read_text()
    message = Parse(text, StatementMessage())
    Statement.copy_from_pb(message).validate()
    provenance = Parse(json.dumps(json.loads(text)["predicate"]), Provenance())
    assert provenance.build_definition.resolved_dependencies
    assert provenance.run_details.metadata.finished_on.seconds > 0


def test_a_wheel_passes_the_policy_that_it_fulfils(shared: Path) -> None:
    (wheel,) = (shared / "wheels").glob("mine-*.whl")
    found = here("check", str(wheel), "--policy", str(shared / "policy.yaml"))
    assert found.status == 0, found.err


def edit(document: Any, *path: str, to: str) -> None:
    for name in path[:-1]:
        document = document[name]
    document[path[-1]] = to


_ASKED = ("predicate", "buildDefinition", "externalParameters")


def changed(*path: str, to: str) -> Callable[[Path, Path], None]:
    """Return a forgery: a statement that says something else, signed by somebody who may not."""

    def forge(wheel: Path, other: Path) -> None:
        place = Path(f"{wheel}.intoto.json")
        document = json.loads(place.read_text())
        edit(document, *path, to=to)
        place.write_text(json.dumps(document))
        Path(f"{place}.sig").unlink()
        subprocess.run(["ssh-keygen", "-q", "-Y", "sign", "-n", "xpubuild", "-f", other, place], check=True)

    return forge


def another_file(wheel: Path, _: Path) -> None:
    wheel.write_bytes(wheel.read_bytes() + b"\0")


def edited_statement(wheel: Path, _: Path) -> None:
    place = Path(f"{wheel}.intoto.json")
    place.write_text(place.read_text().replace('"xpubuild"', '"xpubuild2"', 1) + "\n")


def no_statement(wheel: Path, _: Path) -> None:
    Path(f"{wheel}.intoto.json").unlink()


def signature_for_mail(wheel: Path, other: Path) -> None:
    place = Path(f"{wheel}.intoto.json")
    Path(f"{place}.sig").unlink()
    site = other.with_name("site")
    subprocess.run(["ssh-keygen", "-q", "-Y", "sign", "-n", "mail", "-f", site, place], check=True)


@pytest.mark.parametrize(
    ("forge", "why"),
    [
        (another_file, "its sha256 is not that of the policy"),
        (changed(*_ASKED, "recipe", to="other"), "it was built from the recipe 'other'"),
        (changed(*_ASKED, "lock", to="0" * 64), "it was built from the lock digest 000000000000"),
        (changed(*_ASKED, "target", to="xpu"), "is not signed by anybody whom signers lists"),
        (edited_statement, "is not signed by anybody whom signers lists"),
        (signature_for_mail, "is not signed by anybody whom signers lists"),
        (no_statement, "cannot be read"),
    ],
)
def test_a_forgery_is_refused(
    shared: Path, tmp_path: Path, forge: Callable[[Path, Path], None], why: str
) -> None:
    for place in (*(shared / "wheels").glob("mine-*"), *shared.glob("*"), shared / "site"):
        if place.is_file():
            (tmp_path / place.name).write_bytes(place.read_bytes())
            (tmp_path / place.name).chmod(0o600)
    (wheel,) = tmp_path.glob("mine-*.whl")
    forge(wheel, key(tmp_path, "somebody"))
    found = here("check", str(wheel), "--policy", str(tmp_path / "policy.yaml"))
    assert found.status == 60
    assert why in " ".join(found.err.split())


def test_a_policy_with_an_unknown_key_is_refused(shared: Path, tmp_path: Path) -> None:
    (wheel,) = (shared / "wheels").glob("mine-*.whl")
    (tmp_path / "policy.yaml").write_text("signer: x\n")
    found = here("check", str(wheel), "--policy", str(tmp_path / "policy.yaml"))
    assert found.status == 20
    assert "signer" in found.err
