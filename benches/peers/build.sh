#!/bin/sh
# Builds the peers' programs from public wheels, with no CUDA installed: build.sh CACHE OUT
#
# CACHE keeps what was downloaded and unpacked (about 0.7 GiB; 0.1 GiB with PEERS_WITHOUT_TORCH=1). OUT gets bin/peers and, in
# lib, the libraries that they need beside the driver's.
set -eu

[ $# -eq 2 ] || { echo "usage: build.sh CACHE OUT" >&2; exit 2; }
here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$1" "$2/bin" "$2/lib"
cache=$(cd "$1" && pwd)
out=$(cd "$2" && pwd)

# The versions that the figures in docs/benchmarks were taken with.
wheels="librmm-cu13==26.10.0 rapids-logger==0.3.0 nvidia-cuda-runtime==13.0.96 nvidia-cuda-crt==13.0.88"
torch="torch==2.11.0"

# Downloads a wheel unless the cache has it, and unpacks it, or the named parts of it, into the cache.
fetch() {
    wheel=$1
    shift
    done=$cache/$wheel.unpacked
    [ -e "$done" ] && return
    python3 -m pip download --quiet --disable-pip-version-check --no-deps --only-binary=:all: --python-version 3.12 --implementation cp \
        --platform manylinux_2_28_x86_64 --platform manylinux_2_27_x86_64 --platform manylinux_2_24_x86_64 \
        --platform manylinux_2_17_x86_64 --platform manylinux2014_x86_64 --dest "$cache/wheels" "$wheel"
    name=$(echo "${wheel%%==*}" | tr - _)
    python3 - "$cache" "$cache/wheels/$name-${wheel##*==}"-*.whl "$@" <<'PYTHON'
import sys, zipfile
cache, wheel, *parts = sys.argv[1:]
with zipfile.ZipFile(wheel) as file:
    wanted = [name for name in file.namelist() if not parts or name.startswith(tuple(parts))]
    file.extractall(cache + "/unpacked", wanted)
PYTHON
    touch "$done"
}

for wheel in $wheels; do
    fetch "$wheel"
done
u=$cache/unpacked
cuda=$u/nvidia/cu13
include="-I$u/librmm/include -I$u/librmm/include/rapids -I$u/librmm/include/nvtx3 -I$u/rapids_logger/include -I$cuda/include"
libraries="$u/librmm/lib64/librmm.so $u/rapids_logger/lib64/librapids_logger.so $cuda/lib/libcudart.so.13"
versions=$wheels
if [ -z "${PEERS_WITHOUT_TORCH:-}" ]; then
    versions="$wheels $torch"
    fetch "$torch" torch/include/c10/ torch/include/torch/headeronly/ torch/lib/libc10.so torch/lib/libc10_cuda.so
    include="-DPEERS_WITH_TORCH -isystem $u/torch/include $include"
    libraries="$u/torch/lib/libc10.so $u/torch/lib/libc10_cuda.so $libraries"
fi

# The paths of the cache hold no spaces but those of the folder that it is in.
# shellcheck disable=SC2086
g++ -std=c++20 -O2 -Wall -Wextra -isystem "$cuda/include" $include "$here/peers.cpp" -x none $libraries \
    -Wl,-rpath,'$ORIGIN/../lib' -pthread -s -o "$out/bin/peers"
# shellcheck disable=SC2086
cp $libraries "$out/lib/"
echo "$versions $(g++ --version | head -n 1)" | sed 's/==/ /g' >"$out/lib/peers.txt"
echo "built $out/bin/peers"
