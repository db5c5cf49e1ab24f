# Sourced by the run.sh of a package's tests/gpu, as `run.sh WHEELS OUT`. Installs the wheels into a
# folder for this run, selects the GPU's driver, and enters OUT. Sets `here`, the folder of run.sh,
# `out` and `python`.

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
