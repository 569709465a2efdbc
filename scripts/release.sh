#!/bin/sh
# Builds the files of a release into dist/: sdist, the wheel made from it, and the documentation as a site.
# CONTRIBUTING.md has the steps before and after it.
set -eu
python=$1

stop() {
  echo "release: $1" >&2
  exit 1
}

version=$("$python" -c 'import xpubuild; print(xpubuild.__version__)')
[ -z "$(git status --porcelain)" ] || stop "the checkout has changes: commit them first"
grep -q "^## $version - 2[0-9-]*$" CHANGELOG.md || stop "CHANGELOG.md has no section '## $version - DATE'"
"$python" scripts/generate-docs.py --check

rm -rf dist
"$python" -m build --outdir dist .
"$python" -m sphinx -E -W --keep-going -q -c scripts/site . site
tar -czf "dist/xpubuild-$version-docs.tar.gz" site
(cd dist && sha256sum ./*.whl ./*.tar.gz >SHA256SUMS)
echo "version $version:"
cat dist/SHA256SUMS
