#!/bin/sh
# Repairs wheels of torch's extensions, installs them in a root file system without compiler, MKL and oneAPI, and runs verify
# in it. What is in FOLDER already (the root, the packages) is used again; nothing inside has a network.
#
#   sh scripts/portable-root.sh .venv/bin/python FOLDER RUNTIME PARTS WHEEL...
#
# RUNTIME is the environment that the wheels were built for, PARTS are those that verify requires: vision, audio, ops, with
# commas between. Needs mmdebstrap, bwrap and root.
set -eu
PY=$1 FOLDER=$2 RUNTIME=$3 PARTS=$4
shift 4
mkdir -p "$FOLDER"
FOLDER=$(cd "$FOLDER" && pwd)
rm -rf "$FOLDER/out"
mkdir "$FOLDER/out"

inside() {
  bwrap --bind "$FOLDER/root" / --dev /dev --proc /proc --tmpfs /tmp --ro-bind "$FOLDER/torch" /torch \
    --ro-bind "$FOLDER/xpubuild" /xpubuild --ro-bind "$FOLDER/out" /out --unshare-net --clearenv \
    --setenv PATH /usr/bin:/bin --setenv HOME /root "$@"
}

# What the root's Python can install: soupsieve 2.7 and newer want a newer patch release than Debian's.
if [ ! -d "$FOLDER/torch" ]; then
  "$PY" -m pip download --quiet --dest "$FOLDER/torch.part" torch==2.13.0 numpy pillow
  mv "$FOLDER/torch.part" "$FOLDER/torch"
fi
if [ ! -d "$FOLDER/xpubuild" ]; then
  echo 'soupsieve<2.7' > "$FOLDER/constraints.txt"
  "$PY" -m pip wheel --quiet --constraint "$FOLDER/constraints.txt" --wheel-dir "$FOLDER/xpubuild.part" .
  mv "$FOLDER/xpubuild.part" "$FOLDER/xpubuild"
fi
if [ ! -d "$FOLDER/root" ]; then
  mmdebstrap --quiet --variant=minbase --include=python3,python3-venv,ca-certificates bookworm "$FOLDER/root"
fi
for env in torch xpubuild; do
  [ -d "$FOLDER/root/opt/$env" ] || inside python3 -m venv "/opt/$env"
done
inside /opt/torch/bin/pip install --quiet --no-index --find-links /torch torch numpy pillow
inside /opt/xpubuild/bin/pip install --quiet --no-index --find-links /xpubuild xpubuild

"$PY" -m xpubuild check --repair "$@" --runtime "$RUNTIME" --output "$FOLDER/out"
echo "compilers, MKL and oneAPI in the root: $(inside sh -c 'command -v gcc g++ cc c++ clang icx icpx || true;
  find / -xdev \( -name "libmkl*" -o -name "libsycl*" -o -name oneapi -o -name "libjpeg.so*" \) 2>/dev/null || true')"
inside sh -c '/opt/torch/bin/pip install --quiet --no-index --no-deps --force-reinstall /out/*.whl'
inside /opt/torch/bin/python -m pip check
inside /opt/xpubuild/bin/xpubuild verify --python /opt/torch/bin/python --device cpu \
  --only import,vision.files --require "$PARTS"
