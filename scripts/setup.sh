#!/bin/sh
# Create the virtual environment and install regard into it: scripts/setup.sh core|dev|docs|bench
#
# PYTHON is the interpreter, VENV the folder of the environment; the Makefile sets both. Every install uses
# constraints.txt. Installing again into a complete environment changes nothing.
# The script uses plain sh and standard tools only, so that it runs on macOS and on small Linux images.
set -eu

part=${1:-core}
PYTHON=${PYTHON:-python3}
VENV=${VENV:-.venv}
TORCH_INDEX=${TORCH_INDEX:-}
cd "$(dirname "$0")/.."

say() { printf 'setup: %s\n' "$*"; }
stop() { printf 'setup: %s\n' "$*" >&2; exit 1; }

case $part in
    core) target=. ;;
    dev) target='.[dev]' ;;
    docs) target='.[docs]' ;;
    bench) target='.[bench]' ;;
    *) stop "unknown part '$part'. Known: core, dev, docs, bench." ;;
esac

# Check that the interpreter exists, is new enough and can create environments.
"$PYTHON" -c '' >/dev/null 2>&1 || stop "cannot run '$PYTHON'. Install Python 3.11 or newer, or choose another \
interpreter: PYTHON=python3.12 make test"
version=$("$PYTHON" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
"$PYTHON" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || stop "'$PYTHON' is Python $version; regard needs \
3.11 or newer. Choose a newer one: PYTHON=python3.12 make test"
"$PYTHON" -c 'import ensurepip, venv' 2>/dev/null || stop "'$PYTHON' cannot create virtual environments. On Debian \
or Ubuntu: sudo apt install python$version-venv; then run the same command again."

# Create the environment once; reuse it while the Python version stays the same.
if [ ! -x "$VENV/bin/python" ]; then
    say "creating $VENV with Python $version"
    "$PYTHON" -m venv "$VENV"
fi
there=$("$VENV/bin/python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
[ "$there" = "$version" ] || stop "$VENV has Python $there, but '$PYTHON' is Python $version. Delete the folder \
$VENV, or use another one: VENV=.venv-$version PYTHON=$PYTHON make test"

# --no-compile: byte-compiling all of torch takes longer than compiling the modules that are imported.
install() { "$VENV/bin/python" -m pip install --quiet --disable-pip-version-check --no-compile -c constraints.txt "$@"; }

# Install the build tools first: an isolated build would download unpinned ones. The tests use seqeval, which is a
# source package and needs setuptools-scm.
if [ "$part" = dev ]; then install setuptools setuptools-scm; else install setuptools; fi

# Install torch first, exactly as pinned. On Linux the default build can include gigabytes of CUDA libraries;
# TORCH_INDEX names another package index for torch.
if [ -n "$TORCH_INDEX" ]; then
    say "torch: from $TORCH_INDEX"
    install --index-url "$TORCH_INDEX" "$(grep '^torch==' constraints.txt)"
else
    install "$(grep '^torch==' constraints.txt)"
fi

say "installing regard ($part) with the versions in constraints.txt; the first time takes a minute or two"
install --no-build-isolation -e "$target"
say "ready: $VENV/bin/regard"
