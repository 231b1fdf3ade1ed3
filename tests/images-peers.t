#!/bin/sh
# Crops of pictures of many kinds and sizes beside Pillow's.
. "${0%/*}/lib.sh"
[ -z "$SAN" ] || skip_all 'the plain half compares pictures; unit-image and ctr-embed-images.t read such here'
unit=$CTR_BUILD/unit/unit-image
[ -x "$unit" ] || skip_all 'ctr-embed-images was left out of the build'
"$PY" -c 'import PIL' 2>/dev/null || skip_all 'no Pillow'
real=$(find "$DATA/hm_small/originals" -name '*.jpg' 2>/dev/null | sort | head -n 4)
# shellcheck disable=SC2086
"$PY" "$CTR_TOP/tests/images_peers.py" "$unit" "$W" $real >"$W/kinds" || exit 1
sed 's/^/# /' "$W/kinds"
# Pillow 13 filters a picture that is more than twice as tall as wide in the other order, which rounds otherwise.
while read -r kind share most; do
    ok "$kind: no byte is off by more than 1" test "$most" -le 1
    ok "$kind: and fewer than 3% are" test "${share%%.*}" -lt 3
done <"$W/kinds"
done_testing
