#!/bin/sh
# The plug-in on a machine with a GPU: its tests, programs of CuPy and PyTorch on it, and prices.
#
#   run.sh WHEELS OUT
#
# WHEELS is a folder with the wheels of rmm-rs, rmm-rs-plugin-cu13, rmm-cu13, librmm-cu13, rapids-logger,
# cuda-bindings, cuda-pathfinder, and of pytest, pluggy and iniconfig where the machine has none. CuPy and PyTorch
# are the machine's; what needs one is skipped without it. In OUT: a log of each step, tests.xml, gpu.xml (JUnit),
# prices.md and prices.json. The exit status is 1 if a step failed.
set -u

. "$(dirname "$0")/../../../install_wheels.sh"
export PYTHONUNBUFFERED=1

failed=0
# step NAME SECONDS COMMAND...
step() {
    name=$1 limit=$2
    shift 2
    begin=$(date +%s)
    timeout "$limit" "$@" >"$out/$name.log" 2>&1
    status=$?
    [ $status -eq 0 ] || failed=1
    echo "== $name: exit $status, $(($(date +%s) - begin)) s"
    tail -n "${lines:-6}" "$out/$name.log"
}

pytest="$python -m pytest -q -rs -p no:cacheprovider -c $here/../../pyproject.toml"
lines=30 step environment 40 "$python" "$here/environment.py"
step tests 280 $pytest --junitxml tests.xml \
    "$here/../test_resources.py" "$here/../test_threads.py" "$here/../test_processes.py" "$here/../test_fallback.py"
# Other packages warn of what is none of ours.
step gpu 110 $pytest -W default --junitxml gpu.xml "$here/test_gpu.py"
lines=60 step prices 150 "$python" "$here/prices.py" "$out"
exit $failed
