#!/bin/sh
# Tries the kernels on random shapes under sanitizers: sanitize.sh [ROUNDS [SEED]]. CXX and CXXFLAGS
# choose compiler and CPU. Takes a minute or two, most of it to compile.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
kernels=$here/../../../../engine/kernels
rounds=${1:-2000} seed=${2:-$(date +%s)}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
for sanitizer in address,undefined thread; do
    # shellcheck disable=SC2086  # flags are several words
    ${CXX:-c++} -std=c++17 -O1 -g ${CXXFLAGS:--march=native} -ffp-contract=off -w -pthread \
        -fsanitize="$sanitizer" -fno-sanitize-recover=all \
        -I"$here/stand_in" -I"$kernels" "$here/fuzz.cpp" "$kernels/floats.cpp" \
        "$kernels/product.cpp" "$kernels/rows.cpp" "$kernels"/types/*.cpp -o "$folder/fuzz"
    echo "$sanitizer, seed $seed:"
    "$folder/fuzz" "$seed" "$rounds"
done
