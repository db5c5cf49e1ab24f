#!/bin/sh
# The class for PyTorch on a machine with a GPU and PyTorch.
#
#   run.sh WHEELS OUT
#
# WHEELS is a folder with the wheels of rmm-rs and rmm-rs-torch, and of pytest, pluggy and iniconfig where the
# machine has none. In OUT: gpu.log and gpu.xml (JUnit). The exit status is 1 if a test failed.
set -u

. "$(dirname "$0")/../../../install_wheels.sh"
"$python" -m pytest -q -rs -p no:cacheprovider -c "$here/../../pyproject.toml" -W default --junitxml gpu.xml \
    "$here/test_gpu.py" "$here/test_sleep.py" >gpu.log 2>&1
status=$?
tail -n 60 gpu.log
exit $status
