"""The sections of a lock from the facts, without credentials and paths of one machine. Pure."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from typing import Any

from packaging.utils import canonicalize_name
from pydantic import ValidationError

from xpubuild.engine.fingerprint import digest
from xpubuild.engine.redact import Redactor, recordable
from xpubuild.errors import RecipeError
from xpubuild.install import lock_model as model
from xpubuild.supply.requirements import HashedPin, hashed_pins

_UNKNOWN = "unknown"
#: Sections of a recipe whose parts are named one by one.
_BY_NAME = ("components", "variants")
_SAID = ("schema", "name")
_SHORT = 12
_REDACT = Redactor()


def clean_text(text: str) -> str:
    """Return a text with the bytes that are no UTF-8 written as escapes."""
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


def clean_url(url: str) -> str:
    """Return a URL without user, password and query; the user of ssh stays."""
    return recordable(clean_text(url)) if "://" in url else clean_text(url)


def clean_values(variables: Mapping[str, str]) -> dict[str, str]:
    """Return variables without the values of those that have the name of a secret."""
    return {clean_text(name): clean_text(value) for name, value in _REDACT.environment(variables).items()}


def clean_environment(difference: Mapping[str, Any], places: Iterable[tuple[str, str]]) -> model.Environment:
    """Return oneAPI's environment difference with words instead of the machine's places.

    ``places`` are (folder, word) pairs, such as the root of oneAPI and {oneapi}; longer folders count first.
    """
    ordered = sorted((pair for pair in places if len(pair[0]) > 1), key=lambda pair: -len(pair[0]))

    def clean(text: str) -> str:
        for folder, word in ordered:
            text = text.replace(folder, word)
        return clean_text(text)

    found = _REDACT.environment(difference.get("set", {}))
    return model.Environment(
        set={clean_text(name): clean(value) for name, value in found.items()},
        unset=tuple(sorted(map(clean_text, difference.get("unset", ())))),
        paths={
            clean_text(name): model.PathChange(
                prepend=tuple(map(clean, change["prepend"])),
                append=tuple(map(clean, change["append"])),
                remove=tuple(map(clean, change["remove"])),
            )
            for name, change in difference.get("paths", {}).items()
        },
    )


def recipe_part(name: str, says: Mapping[str, Any]) -> model.RecipePart:
    """Return the digest of what a recipe says, and short ones of its sections."""
    parts: dict[str, str] = {}
    for section, value in says.items():
        if section in _SAID:
            continue
        if section in _BY_NAME:
            parts |= {f"{section}.{key}": _short(item) for key, item in value.items()}
        else:
            parts[section] = _short(value)
    return model.RecipePart(name=name, digest=digest(says), parts=parts)


def _short(value: Any) -> str:
    return digest(value)[:_SHORT]


def python_part(
    files: Mapping[str, str],
    wheels: Iterable[tuple[str, str, str]],
    hashes: Mapping[str, Iterable[str]],
) -> model.Python:
    """Return the pins of requirement files (name -> text) and the open wheels (component, dist, version).

    ``hashes`` are those of open wheels that the caller knows, by component.

    Raises:
        RecipeError: a requirement file is not one of exact pins with hashes.
    """
    found = [
        model.Wheel(
            component=component,
            dist=dist,
            version=version,
            hashes=tuple(sorted(hashes[component])) if component in hashes else None,
        )
        for component, dist, version in wheels
    ]
    try:
        requirements = {name: requirement_file(name, text) for name, text in files.items()}
    except ValidationError as error:
        raise refused(error, "a requirement file") from error
    return model.Python(
        requirements=requirements, wheels=tuple(sorted(found, key=lambda item: item.component))
    )


def conda_part(document: Mapping[str, Any], platform: str = "linux-64") -> model.Conda:
    """Return the packages of a conda-lock.yml (its version 1 form, as a mapping) for one platform.

    Raises:
        RecipeError: it is not such a document, or a package has no hash.
    """
    try:
        entries = [item for item in document["package"] if item.get("platform", platform) == platform]
        packages = [_conda_package(item) for item in entries]
        return model.Conda(packages=tuple(sorted(packages, key=lambda item: item.key)))
    except (KeyError, TypeError, AttributeError) as error:
        raise RecipeError(
            "the conda lock file cannot be read",
            why=f"it is not in conda-lock's format: {error}",
            fix="create it again with conda-lock",
        ) from error
    except ValidationError as error:
        raise refused(error, "the conda lock file") from error


def _conda_package(item: Mapping[str, Any]) -> model.CondaPackage:
    # The address ends in CHANNEL/SUBDIR/FILE; what comes before is the host, which may carry a token.
    address = str(item["url"]).partition("#")[0].rstrip("/").split("/")
    is_conda = item["manager"] == "conda"
    hashes = item["hash"]
    return model.CondaPackage(
        manager=item["manager"],
        name=item["name"],
        version=str(item["version"]),
        channel=address[-3] if is_conda else None,
        file="/".join(address[-2:]) if is_conda else address[-1],
        md5=hashes.get("md5"),
        sha256=hashes.get("sha256"),
    )


def machine_part(
    host: Mapping[str, Any],
    *,
    python: str,
    compilers: Mapping[str, str],
    oneapi: model.Oneapi | None,
    with_driver: bool,
) -> model.Machine:
    """Return the machine from a host report (as JSON) and the compilers as ``KIND VERSION TARGET``."""
    system = host.get("os", {})
    return model.Machine(
        architecture=str(system.get("machine", _UNKNOWN)),
        glibc=str(system.get("libc", _UNKNOWN)).removeprefix("glibc "),
        python=python,
        compilers={name: _compiler(text) for name, text in compilers.items()},
        drivers=_drivers(host) if with_driver else None,
        oneapi=oneapi,
    )


def _compiler(text: str) -> model.Compiler:
    kind, version, target = (*text.split(" ", 2), _UNKNOWN, _UNKNOWN)[:3]
    return model.Compiler(kind=kind, version=version, target=target)


def _drivers(host: Mapping[str, Any]) -> model.Drivers:
    found = host.get("drivers", ())
    streams = {item["family"] for item in found} - {"kernel", _UNKNOWN}
    return model.Drivers(
        family=streams.pop() if len(streams) == 1 else None,
        packages={clean_text(item["package"]): clean_text(item["version"]) for item in found},
    )


def oneapi_part(
    components: Iterable[Mapping[str, Any]], difference: Mapping[str, Any], places: Iterable[tuple[str, str]]
) -> model.Oneapi:
    """Return the oneAPI that is used; ``places`` are folders and the words that stand for them."""
    return model.Oneapi(
        components={clean_text(item["name"]): clean_text(item["version"]) for item in components},
        environment=clean_environment(difference, places),
    )


def refused(error: ValidationError, what: str) -> RecipeError:
    """Return the error of facts that a lock has no form for."""
    first = error.errors(include_url=False, include_context=False, include_input=False)[0]
    place = ".".join(str(step) for step in first["loc"])
    return RecipeError(
        f"{what} cannot be locked",
        why=f"{place}: {first['msg']}" if place else str(first["msg"]),
        fix="correct this value in the recipe or in the files that it references",
    )


def requirement_file(name: str, text: str) -> model.RequirementFile:
    """Return the sha256 of a requirement file and its pins, for all interpreters.

    Raises:
        RecipeError: a line is no exact pin with hashes.
    """
    try:
        pins = [_pin(name, pin) for pin in hashed_pins(text)]
    except RecipeError as error:
        error.evidence = {**error.evidence, "file": name}
        error.what = error.what.replace("a requirements file", name)
        raise
    return model.RequirementFile(
        sha256=hashlib.sha256(text.encode("utf-8")).hexdigest(),
        pins=tuple(sorted(pins, key=lambda pin: pin.key)),
    )


def _pin(file: str, pin: HashedPin) -> model.Requirement:
    if not pin.written:
        raise RecipeError(
            f"{pin.name}=={pin.version} in {file} has no hash",
            why="a file is only used if its hash is known beforehand",
            fix="write it as name==version with --hash=sha256:… for each file",
        )
    return model.Requirement(
        name=canonicalize_name(pin.name),
        version=pin.version,
        marker=str(pin.marker) if pin.marker else None,
        hashes=tuple(sorted(pin.written)),
    )
