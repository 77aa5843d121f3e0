#!/bin/sh
# Make AIPerf's own environment under build/aiperf: benchmarks/aiperf/environment.sh [PYTHON]
# Its own, because it needs protobuf 7 and numpy 2, and Triton's wheel needs numpy 1.
set -eu
python=${1:-python3.11}
cd "$(dirname "$0")/../.."
mkdir -p build
test -x build/aiperf/bin/python || "$python" -m venv build/aiperf
build/aiperf/bin/python -m pip install --quiet --disable-pip-version-check aiperf==0.13.0
