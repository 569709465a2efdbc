#!/usr/bin/env bash
# A CI job: builds and verifies a recipe, and leaves what came of it in one folder. The action of GitHub and the
# component of GitLab run this script; docs/how-to/ci-images.md lists their inputs.
#
#   job.sh [PACKAGE]
#
# PACKAGE is what pip installs as xpubuild: a folder, a URL or a requirement. Without it, xpubuild is on PATH.
#   XPUBUILD_CI_RECIPE  what to build: a name, a file or a lock
#   XPUBUILD_CI_VERIFY  a suite of "xpubuild verify"; on a machine without the device no-gpu or stand-in; or none
#   XPUBUILD_CI_FOLDER  the folder, below the current one
#   XPUBUILD_MIRROR     a mirror to build from; without it, one is filled in the folder, to be cached between jobs
# The variables of all options (XPUBUILD_WITH, XPUBUILD_JOBS, ...) count too.
set -euo pipefail

package=${1:-}
recipe=${XPUBUILD_CI_RECIPE:?is the recipe to build}
verify=${XPUBUILD_CI_VERIFY:-smoke}
folder=$PWD/${XPUBUILD_CI_FOLDER:-xpubuild-ci}
outputs=${GITHUB_OUTPUT:-$folder/outputs.env}
mkdir -p "$folder"

# Prints the steps that the last one, the test on the device, needs.
before_verify() {
  xpubuild plan "$recipe" --format json --workspace "$folder/workspace" "${mirror[@]}" | python3 -c '
import json, sys
for step in json.load(sys.stdin)["steps"]:
    if step["id"] == "verify":
        print(*step["needs"])'
}

install() {
  # Standard output is the receipt, or the error.
  xpubuild install "$recipe" --workspace "$folder/workspace" --json "${mirror[@]}" "$@" >"$folder/receipt.json"
}

if [ -n "$package" ]; then
  python3 -m venv "$folder/program"
  "$folder/program/bin/python" -m pip install --quiet --disable-pip-version-check "$package"
  PATH=$folder/program/bin:$PATH
fi
xpubuild --version

mirror=()
if [ -z "${XPUBUILD_MIRROR:-}" ]; then
  mirror=(--mirror "$folder/mirror")
  xpubuild fetch "$recipe" "${mirror[@]}"
  # Named before the build: a build that fails keeps what was downloaded for it.
  echo "mirror=$(sha256sum "$folder/mirror/index.json" | cut -c 1-16)" >>"$outputs"
  mirror+=(--offline)
fi
{
  echo "workspace=$folder/workspace"
  echo "python=$folder/workspace/env/bin/python"
  echo "wheels=$folder/wheels"
} >>"$outputs"

# What is installed is verified once, below: with reports.
steps=$(before_verify)
for step in $steps; do
  install --wheel-dir "$folder/wheels" --until "$step"
done

case $verify in
  none) how='' ;;
  no-gpu) how=--no-gpu ;;
  stand-in) how="--device xpu --stand-in" ;;
  *) how="--suite $verify" ;;
esac
if [ -n "$how" ]; then
  # shellcheck disable=SC2086 # options and their values
  xpubuild verify --workspace "$folder/workspace" $how --junit "$folder/verify.xml" --output "$folder/verify.json"
fi
