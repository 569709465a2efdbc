#!/usr/bin/env python3
"""Build images with buildah and use them: what docs/evidence/images records. As root.

Three builds of one recipe: as it is, with one line changed, with torchvision from source. The base is a
system that mmdebstrap makes, under the base's own name: nothing is pulled. What is built stays in a storage
of its own (``--folder``), so that a second run shows what is kept.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests"))

from support import upstream  # noqa: E402
from support.image_store import BASE, prepare, told  # noqa: E402

COMPONENTS = ROOT / "tests" / "data" / "components"
#: Where the build sees the sources that are otherwise cloned.
UPSTREAM = "/opt/upstream"
CHECK = "import torch, xpubuild_ops; print(torch.__version__, torch.get_num_threads() > 0)"
CHECKS_VISION = """
import torch, torchvision
from torchvision.io import decode_jpeg, encode_jpeg
boxes = torch.tensor([[0., 0, 10, 10], [1, 1, 10, 10], [20, 20, 30, 30]])
assert torchvision.ops.nms(boxes, torch.tensor([.5, .9, .4]), .5).tolist() == [1, 2]
assert decode_jpeg(encode_jpeg(torch.full((3, 16, 16), 99, dtype=torch.uint8))).shape == (3, 16, 16)
print(torchvision.__version__, torchvision.__file__)
"""


def image(recipe: Path, wheel: Path, folder: Path, builder: list[str]) -> dict[str, object]:
    """Build one image; return its name, time and layers, and what was made for it, not taken from a cache."""
    argv = [sys.executable, "-m", "xpubuild", "image", str(recipe), "--base", BASE, "--xpubuild", str(wheel)]
    argv += ["--build", "--builder", "buildah", "--json", "--", *builder]
    began = time.monotonic()
    document = json.loads(told(argv))
    took = time.monotonic() - began
    log = Path(document["build"]["log"]).read_text("utf-8")
    tag = document["build"]["tag"]
    inspected = json.loads(told(["buildah", "inspect", "--type", "image", tag]))
    return {
        "tag": tag,
        "minutes": round(took / 60, 1),
        "from the cache": log.count("--> Using cache"),
        "made": list(made(log)),
        "layers": layers(inspected["OCIv1"], folder),
        "user": inspected["OCIv1"]["config"]["User"],
        "verify": [line.strip() for line in log.splitlines() if line.startswith("result:")],
    }


def made(log: str) -> Iterator[str]:
    """Yield the instructions that a builder's log does not take from the cache."""
    lines = log.splitlines()
    for line, after in zip(lines, [*lines[1:], ""], strict=True):
        if step := re.match(r"(\[\d/\d\]) STEP \S+ (?!FROM)(.*)", line):
            words = re.sub(r"--mount=\S+", "", step[2]).split()
            if "Using cache" not in after:
                yield f"{step[1]} {' '.join(words)[:100]}"


def layers(config: Any, folder: Path) -> list[str]:
    """Return the layers of an image, each as its size and what made it."""
    known = json.loads(next((folder / "store").glob("*-layers/layers.json")).read_text("utf-8"))
    sizes = {row.get("diff-digest"): row.get("diff-size", 0) for row in known}
    made_by = [row.get("created_by", "") for row in config["history"] if not row.get("empty_layer")]
    return [
        f"{sizes[digest] / 1e6:.1f} MB {' '.join(words.split())[-70:]}"
        for digest, words in zip(config["rootfs"]["diff_ids"], made_by, strict=True)
    ]


def used(tag: str, checks: str) -> dict[str, object]:
    """Run what is in the image as its user, and look for what should not be there."""
    container = told(["buildah", "from", tag]).strip()
    try:
        inside = ["buildah", "run", container, "--", "sh", "-c"]
        found = told([*inside, f"id -un; python -c '{checks}' && pip check"]).split("\n")
        receipt = json.loads(told([*inside, "cat /usr/share/xpubuild/receipt.json"]))
        compilers = told([*inside, "ls /usr/bin | grep -cE '^(g\\+\\+|gcc|cc|clang|ld)$' || true"]).strip()
        sizes = told([*inside, "du -sm /opt/venv /usr 2>/dev/null"]).split("\n")
    finally:
        told(["buildah", "rm", container])
    steps = {"steps done": receipt["ran"], "steps kept": receipt["up_to_date"]}
    return {**steps, "prints": found[:-1], "compilers": compilers, "megabytes": sizes[:-1]}


def recipes(folder: Path, changed: int) -> Iterator[tuple[str, Path, str]]:
    """Write a recipe before each build; yield what it is, its file, and what the image is tried with."""
    file = folder / "site.yaml"
    asked: dict[str, Any] = yaml.safe_load(SITE)
    for name, value in (("as it is", 1), ("one line changed", changed)):
        asked["components"]["ops"]["build"]["env"]["OPS_OF_SITE"] = value
        file.write_text(yaml.safe_dump(asked, sort_keys=False), "utf-8")
        yield name, file, CHECK
    vision = yaml.safe_load((COMPONENTS / "components.yaml").read_text("utf-8"))["components"]["vision"]
    shutil.rmtree(folder / "upstream" / "vision", ignore_errors=True)
    path, commit = upstream.repository("vision", folder / "upstream")
    vision["source"] |= {"url": f"file://{UPSTREAM}/{Path(path).name}", "commit": commit}
    asked["components"]["vision"] = vision
    asked["verify"] = {"require": ["ops", "vision"]}
    shutil.copy(COMPONENTS / "vision-build.txt", folder)
    file.write_text(yaml.safe_dump(asked, sort_keys=False), "utf-8")
    yield "with torchvision", file, CHECK + CHECKS_VISION


def main() -> None:
    """Build and use each; write the results as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, default=ROOT / ".images")
    parser.add_argument("--suite", default="bookworm", help="of Debian, for mmdebstrap")
    parser.add_argument("--driver", default="overlay", help="of the storage: vfs where overlay does not work")
    parser.add_argument(
        "--only", action="append", metavar="NAME", help="of a build, such as 'with torchvision'"
    )
    parser.add_argument("--value", type=int, default=int(time.time()), help="of the line that is changed")
    parser.add_argument("builder", nargs="*", help="options of buildah, after --")
    asked = parser.parse_args()
    folder = asked.folder.absolute()
    wheel = prepare(folder, asked.suite, asked.driver)
    builder = [*asked.builder, "--volume", f"{folder}/upstream:{UPSTREAM}:ro"]
    results = {}
    (folder / "upstream").mkdir(exist_ok=True)
    for name, recipe, checks in recipes(folder, asked.value):
        if asked.only and name not in asked.only:
            continue
        built = image(recipe, wheel, folder, builder)
        results[name] = {**built, **used(str(built["tag"]), checks)}
        sys.stderr.write(json.dumps({name: results[name]}, indent=1) + "\n")
    sys.stdout.write(json.dumps(results, indent=1) + "\n")


SITE = """schema: 1
name: site
title: the quickstart of a site
extends: quickstart
components:
  ops:
    build:
      env: {}
"""

if __name__ == "__main__":
    main()
