#!/bin/sh
# Make the virtual environment and install regard into it: scripts/setup.sh core|dev|bench
#
# PYTHON is the interpreter to build on, VENV the folder to build in; the Makefile hands both over. Every
# install goes through constraints.txt. Installing again into a finished environment changes nothing.
# Plain sh and plain tools only, so that macOS and small Linux images can run it.
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
    bench) target='.[bench]' ;;
    *) stop "unknown part '$part'. Known: core, dev, bench." ;;
esac

# The interpreter: there, new enough, able to make environments.
"$PYTHON" -c '' >/dev/null 2>&1 || stop "no '$PYTHON' that runs on this machine. Install Python 3.11 or newer, or name \
another one: PYTHON=python3.12 make test"
version=$("$PYTHON" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
"$PYTHON" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || stop "'$PYTHON' is Python $version; regard needs \
3.11 or newer. Name a newer one: PYTHON=python3.12 make test"
"$PYTHON" -c 'import ensurepip, venv' 2>/dev/null || stop "'$PYTHON' cannot make virtual environments. On Debian \
or Ubuntu: sudo apt install python$version-venv; then run the same command again."

# The environment: made once, kept as long as it is of the same Python.
if [ ! -x "$VENV/bin/python" ]; then
    say "making $VENV with Python $version"
    "$PYTHON" -m venv "$VENV"
fi
there=$("$VENV/bin/python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
[ "$there" = "$version" ] || stop "$VENV holds Python $there, but '$PYTHON' is Python $version. Remove the folder \
$VENV, or build beside it: VENV=.venv-$version PYTHON=$PYTHON make test"

# Byte-compiling all of torch takes longer than compiling the modules that are really imported.
install() { "$VENV/bin/python" -m pip install --quiet --disable-pip-version-check --no-compile -c constraints.txt "$@"; }

# The builders first and pinned too: building in isolation would fetch unpinned ones. seqeval, which the tests compare
# entity scores with, comes as source and learns its own version from setuptools-scm.
if [ "$part" = dev ]; then install setuptools setuptools-scm; else install setuptools; fi

# torch first and exactly as pinned: where a CPU build lies at hand, pip takes it. On Linux the default build can bring
# gigabytes of CUDA; TORCH_INDEX names another index to take torch from.
if [ -n "$TORCH_INDEX" ]; then
    say "torch: from $TORCH_INDEX"
    install --index-url "$TORCH_INDEX" "$(grep '^torch==' constraints.txt)"
else
    install "$(grep '^torch==' constraints.txt)"
fi

say "installing regard ($part) with the versions of constraints.txt; the first time takes a minute or two"
install --no-build-isolation -e "$target"
say "ready: $VENV/bin/regard"
