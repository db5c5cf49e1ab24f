#!/bin/sh
# The class for PyTorch on a machine with a GPU and PyTorch.
#
#   run.sh WHEELS OUT
#
# WHEELS is a folder with the wheels of rmm-rs and rmm-rs-torch, and of pytest, pluggy and iniconfig where the
# machine has none. In OUT: gpu.log and gpu.xml (JUnit). The exit status is 1 if a test failed.
set -u

here=$(cd "$(dirname "$0")" && pwd)
wheels=$(cd "$1" && pwd)
mkdir -p "$2"
out=$(cd "$2" && pwd)
python=${PYTHON:-python3}
site=$(mktemp -d)
trap 'rm -rf "$site"' EXIT
"$python" -m pip install -q --no-index --no-deps --no-compile --no-cache-dir --target "$site" "$wheels"/*.whl || exit 1
PYTHONPATH=$site${PYTHONPATH:+:$PYTHONPATH}
RMM_DRIVER=cuda
export PYTHONPATH RMM_DRIVER
unset RMM_CUDA_LIBRARY

# Not where the package's sources are, which would be imported in place of what is installed.
cd "$out" || exit 1
"$python" -m pytest -q -rs -p no:cacheprovider -c "$here/../../pyproject.toml" -W default --junitxml gpu.xml \
    "$here/test_gpu.py" >gpu.log 2>&1
status=$?
tail -n 60 gpu.log
exit $status
