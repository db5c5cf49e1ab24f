#!/bin/sh
# Tests and prices of the Python package on a machine with a GPU: run.sh WHEELS OUT [options of run.py]
exec "${PYTHON:-python3}" "$(dirname "$0")/run.py" "$@"
