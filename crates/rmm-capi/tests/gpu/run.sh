#!/bin/sh
# RMM's containers and adaptors over this library on a GPU: checks, the end of the process, prices.
#
#   run.sh build LIBRARY WHEELS OUT   compiles the programs on any machine, with g++ 12 or newer
#   run.sh run OUT                    runs them on a machine with a driver, which needs nothing else
#
# LIBRARY is the folder with librmm_rs.so of a release build. WHEELS has the contents of the wheels
# librmm-cu13, rapids-logger, nvidia-cuda-runtime and nvidia-cuda-crt. If compute-sanitizer is found, the
# checks run under it once more; they make the driver run out of memory, which is no finding. The table of prices is in OUT/prices.md.
set -eu

build() {
    library=$1 wheels=$2 out=$3
    here=$(cd "$(dirname "$0")" && pwd)
    mkdir -p "$out/lib" "$out/bin"
    cp "$library/librmm_rs.so" "$out/lib/librmm_rs.so.1"
    ln -sf librmm_rs.so.1 "$out/lib/librmm_rs.so"
    cp "$wheels/librmm/lib64/librmm.so" "$wheels/rapids_logger/lib64/librapids_logger.so" "$out/lib"
    for program in checks exit prices; do
        # --no-as-needed: librmm does not find its logger by itself. The runtime is linked statically.
        "${CXX:-g++}" -std=c++20 -O2 -Wall -Wextra -Werror -o "$out/bin/$program" "$here/$program.cpp" \
            -I "$here/../../include" -isystem "$wheels/librmm/include/rapids" -isystem "$wheels/librmm/include" \
            -isystem "$wheels/rapids_logger/include" -isystem "$wheels/nvidia/cu13/include" \
            -L "$out/lib" -L "$wheels/nvidia/cu13/lib" -Wl,--no-as-needed -lrmm -lrapids_logger -Wl,--as-needed \
            -lrmm_rs -lcudart_static -ldl -lrt -pthread -Wl,-rpath,'$ORIGIN/../lib'
    done
}

run() {
    out=$1
    echo "checks"
    "$out/bin/checks"
    if command -v compute-sanitizer >/dev/null; then
        echo "checks under compute-sanitizer"
        compute-sanitizer --report-api-errors no --error-exitcode 7 "$out/bin/checks"
    fi
    echo "the end of the process, 20 times"
    for _ in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do "$out/bin/exit" >/dev/null; done
    "$out/bin/prices" | tee "$out/prices.md"
}

case ${1:-} in
build) shift && build "$@" ;;
run) shift && run "$@" ;;
*) sed -n '2,9p' "$0" >&2 && exit 2 ;;
esac
