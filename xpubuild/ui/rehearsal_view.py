"""How an ``xpubuild.rehearsal/1`` document looks to a person."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from xpubuild.ui.format import plural
from xpubuild.ui.parts import Column, Facts, Part, Sentences, Table, TableBuilder

_VERDICTS = {
    "ok": "the build is configured as requested",
    "warnings": "the build is configured for XPU, without something that was requested",
    "no-xpu": "the XPU gate stopped it: the build would have no XPU support, or another than requested",
    "failed": "the configuration failed",
}
_CPU = "the build is configured for the CPU"


def rehearsal_view(document: Mapping[str, Any]) -> tuple[Part, ...]:
    """Return the parts: verdict, SYCL commands, switches, warnings."""
    parts: list[Part] = [Facts(tuple(_facts(document)), "Rehearsal")]
    tables = (_groups(document), _switches(document))
    parts += [table for table in tables if table.rows]
    told = tuple(item["text"] for item in document["warnings"])
    return (*parts, Sentences(told, "Warnings")) if told else tuple(parts)


def _facts(document: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    cpu = document["target"] == "cpu" and document["verdict"] == "ok"
    yield "verdict", _CPU if cpu else _VERDICTS[document["verdict"]]
    yield "recipe", f"{document['recipe']}, target {document['target']}"
    if document["build"] is not None:
        yield "SYCL files", _sycl_files(document)
        yield "C++ files", str(document["cxx_files"])
        yield "host compiler", document["host_compiler"] or "unknown"
        yield "memory", _memory(document)
        yield "build folder", document["build"]
    yield "log", document["log"]


def _sycl_files(document: Mapping[str, Any]) -> str:
    groups = len(document["sycl_groups"])
    return f"{document['sycl_files']} in {plural(groups, 'group')}" if groups else "none"


def _memory(document: Mapping[str, Any]) -> str:
    words = [f"{plural(document['jobs'], 'job')} of up to {document['memory_gib_per_job']:g} GiB"]
    words += [
        f"{plural(item['files'], 'file')} of {item['what']}: {item['gib_each']:g} GiB,"
        f" one {item['gib_largest']:g} GiB"
        for item in document["large_units"]
        if item["files"]
    ]
    return "; ".join(words)


def _groups(document: Mapping[str, Any]) -> Table:
    table = TableBuilder(
        ["SYCL files of", Column("files", right=True), "AOT targets", "C++", "ABI and preview"]
    )
    for group in document["sycl_groups"]:
        aot = ", ".join(group["aot"]) or "none (compiled when first used)"
        host, device = group["host_standard"], group["device_standard"]
        standard = host or device or "default"
        if device is not None and device != host:
            standard = f"{host or 'default'}, device {device}"
        table.add(group["name"], str(group["files"]), aot, standard, _abi(group))
    return table.build(_compilers(document))


def _compilers(document: Mapping[str, Any]) -> str:
    found = {
        " with ".join(Path(group[name]).name for name in ("compiler", "host_compiler") if group[name])
        for group in document["sycl_groups"]
    }
    return f"SYCL commands ({', '.join(sorted(found))})"


def _abi(group: Mapping[str, Any]) -> str:
    abi = "default" if group["cxx11_abi"] is None else str(group["cxx11_abi"])
    words = [abi, *(item.removeprefix("-D").removeprefix("-f") for item in group["preview"])]
    return ", ".join(words)


def _switches(document: Mapping[str, Any]) -> Table:
    """Return the switches that were requested; the document has those of upstream's defaults too."""
    table = TableBuilder(["switch", "requested", "found", "reason"])
    for item in document["switches"]:
        if item["requested"] is not None:
            table.add(item["name"], item["requested"], item["found"], item["reason"])
    return table.build("Switches")
