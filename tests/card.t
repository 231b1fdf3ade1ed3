#!/bin/sh
# The archive of `make card` runs where there is no make, compiler or checkout: a dry run by the stand-ins.
. "${0%/*}/lib.sh"
[ -f "$CTR_BUILD/lib/ctr/ctr-cuda.so" ] || skip_all "there is no nvcc"
[ -f "$CTR_BUILD/onhost/ctr-cuda.so" ] || skip_all "there is no c++"
ok 'an archive' "$CTR_TOP/tests/gpu/card" "$CTR_BUILD" "$W/card.tar.gz"
ok 'of 60 MiB at most' test "$(wc -c <"$W/card.tar.gz")" -le 62914560
mkdir "$W/bare" "$W/path" && tar -C "$W/bare" -xzf "$W/card.tar.gz"
for p in sh bash perl awk sed grep cat tail head tr ls ldd date mktemp timeout tee mkdir dirname rm python3 uname nproc paste cmp sort wc seq sleep env cp mv ln touch printf cut; do
    ln -s "$(command -v $p)" "$W/path/$p"
done
run() {
    env -i HOME="$W/bare" PATH="$W/path" OUT="$W/report" TIMES=10 CTR_CUDA_PLUGIN="$CTR_BUILD/onhost/ctr-cuda.so" CTR_CUDA_DRIVER=/nowhere \
        "$W/bare/card/run" "$@"
}
exits 'a part that fails' 1 run system units device
report=$(echo "$W"/report/*-dry.txt)
ok 'is told' grep -q '^== units: failed' "$report"
ok 'with what it said' grep -q 'not ok 3 - operators ran there' "$report"
ok 'and does not stop the next' grep -q '^== device: ok' "$report"
ok 'whose tests ran' awk '/^== device/ { getline n; while ((getline l) > 0) if (l ~ /^[0-9]+$/) n = l; exit !(n > 30) }' "$report"
ok 'what is measured says so' grep -q '^ctrkit .*card/run system units device' "$report"
done_testing
