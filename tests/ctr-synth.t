#!/bin/sh
# ctr-synth: the same bytes for a seed; logs that fit together; a truth with the rate that was asked for.
. "${0%/*}/lib.sh"

ctr-synth -q -o "$W/a" --rows 5000 --seed 3 && ctr-synth -q -o "$W/b" --rows 5000 --seed 3 -j 4
ok 'the same bytes for a seed' diff -r "$W/a" "$W/b"
ctr-synth -q -o "$W/c" --rows 5000 --seed 4
ok 'other bytes for another seed' sh -c "! cmp -s '$W/a/impressions.tsv' '$W/c/impressions.tsv'"
is 'a golden row' "$(sed -n 2p "$W/a/impressions.tsv" | cut -f 1,3-8)" "$(printf '0\tu240\t40\t0\tandroid\tsite32.example\t{"slot":2,"test":"a"}')"
world() { # the experiments of examples/ stand on it
    ctr-synth -q -o "$W/s" --rows 500 --seed 3 && cd "$W/s" && cut -f 1-9 impressions.tsv | cat users.tsv ads.jsonl campaigns.tsv - clicks.tsv | cksum
}
is 'a small world, byte for byte' "$(world)" '1543053479 54183'
is 'its queries' "$(cut -f 10 "$W/s/impressions.tsv" | cksum)" '3531085549 5634'
is 'the first of them' "$(sed -n '2,6p' "$W/s/impressions.tsv" | cut -f 10 | tr '\n' ',')" 'last food city063,gold sports city087,sale office city000,games smart,Cameras great,'
is 'rows' "$(wc -l <"$W/a/impressions.tsv")" 5001
sorted() { tail -n +2 "$1" | cut -f "$2" | sort -c; }
ok 'impressions are in order of time' sorted "$W/a/impressions.tsv" 2
ok 'clicks are in order of their time' sorted "$W/a/clicks.tsv" 1
joins() { # every click has its impression, with the same user and ad, and is later
    awk -F'\t' 'NR == FNR { time[$1] = $2; who[$1] = $3 " " $4; next }
        FNR > 1 && (who[$2] != $3 " " $4 || $1 <= time[$2]) { exit 1 }' "$W/a/impressions.tsv" "$W/a/clicks.tsv"
}
ok 'clicks belong to impressions' joins
ctr-synth -q -o "$W/d" --rows 50000 --rate 0.2 --users 100 --ads 20 --campaigns 3 --days 2
rate() { awk -F'\t' 'NR > 1 { s += $9 } END { r = s / (NR - 1); exit !(r > .19 && r < .21) }' "$W/d/impressions.tsv"; }
ok 'the mean probability is the rate' rate
ok 'so are many clicks' sorted "$W/d/clicks.tsv" 1
clicks() { awk 'END { r = (NR - 1) / 50000; exit !(r > .19 && r < .21) }' "$W/d/clicks.tsv"; }
ok 'and so are the clicks' clicks
is 'users, ads, campaigns' "$(wc -l <"$W/d/users.tsv") $(wc -l <"$W/d/ads.jsonl") $(wc -l <"$W/d/campaigns.tsv")" '101 20 4'

# ---- queries and basic features ----
basic() { # by definition
    awk -F'\t' -v OFS='\t' 'NR == 1 { print "impression_id", "basic_os", "basic_site"; next } { split($7, s, "."); print $1, $6, s[1] }' "$W/d/impressions.tsv" |
        cmp - "$W/d/basic.tsv"
}
ok 'basic features: os and the site without its domain, row by row' basic
queries() { # share of empty ones; probability and clicks where the query names the category of the ad, to the others; the same of ads outside the interests
    sed 's/^{"ad_id":\([0-9]*\).*"category":"\([a-z]*\)".*/\1\t\2/' "$W/d/ads.jsonl" >"$W/categories"
    awk -F'\t' 'FILENAME ~ /categories$/ { category[$1] = $2; next } FNR == 1 { next } FILENAME ~ /users/ { likes[$1] = $5; next }
        FILENAME ~ /clicks/ { clicked[$2]; next } { n++ } $10 == "" { none++; next }
        { m = index(tolower($10), category[$4]) > 0; row[m]++; p[m] += $9; c[m] += $1 in clicked }
        !index(likes[$3], category[$4]) { rowo[m]++; po[m] += $9 }
        END { e = none / n; a = p[1] / row[1] / (p[0] / row[0]); b = c[1] / row[1] / (c[0] / row[0]); o = po[1] / rowo[1] / (po[0] / rowo[0])
            print e, row[1] / (n - none), a, b, o; exit !(e > .12 && e < .13 && row[1] > .25 * n && row[0] > .25 * n && a > 1.5 && b > 1.5 && o > 1.5) }' \
        "$W/categories" "$W/d/users.tsv" "$W/d/clicks.tsv" "$W/d/impressions.tsv"
}
ok 'queries: an eighth is empty; a click is more probable where the query names the category of the ad, among the interests or not' queries
texts() { awk -F'\t' 'NR > 1 && $10 !~ /^([A-Za-z][a-z]*( [a-z]+)?( city[0-9][0-9][0-9])?)?$/ { print; exit 1 }' "$W/d/impressions.tsv"; }
ok 'queries: a word or two, and sometimes a city' texts

# ---- photographs ----
ctr-synth -q -o "$W/p" --photos --rows 20000 --users 200 --ads 500 --seed 3 && ctr-synth -q -o "$W/q" --photos --rows 20000 --users 200 --ads 500 --seed 3 -j 4
ok 'photographs: the same bytes for a seed' diff -r "$W/p" "$W/q"
photos() { ctr-synth -q -o "$W/s" --photos --rows 500 --seed 3 && cd "$W/s" && cut -f 1-9 impressions.tsv | cat - photos.jsonl photos.tar | cksum; }
is 'a small world of photographs, byte for byte' "$(photos)" '514617689 97354'
pictures() { # what the pictures show is what the vectors say; the PNG is decoded by definition, its check sums too
    python3 - "$W/p" <<'PY'
import json, struct, sys, tarfile, zlib
vectors = [json.loads(line) for line in open(sys.argv[1] + "/photos.jsonl")]
with tarfile.open(sys.argv[1] + "/photos.tar") as tar:
    members = tar.getmembers()
    assert [m.name for m in members] == ["%d.png" % v["photo"] for v in vectors] and len(vectors) == 500
    for m, v in zip(members[::25], vectors[::25]):
        png, at, data = tar.extractfile(m).read(), 8, b""
        assert png[:8] == bytes((137, 80, 78, 71, 13, 10, 26, 10))
        while at < len(png):
            n, kind = struct.unpack(">I4s", png[at:at + 8])
            assert zlib.crc32(png[at + 4:at + 8 + n]) == struct.unpack(">I", png[at + 8 + n:at + 12 + n])[0]
            data += png[at + 8:at + 8 + n] if kind == b"IDAT" else b""
            at += 12 + n
        assert kind == b"IEND"
        pixels = zlib.decompress(data)
        assert len(pixels) == 32 * 97
        for y in range(32):
            for x in range(32):
                for c in range(3):
                    assert pixels[97 * y + 1 + 3 * x + c] == 128 + 64 * v["vector"][3 * (y // 8 * 4 + x // 8) + c]
PY
}
ok 'pictures show the colours of the vectors' pictures
fresh() { # of the ads of the last fifth of the rows half never came before
    awk -F'\t' 'NR == 1 { next } NR <= 16001 { seen[$4]; next } { n++; new += !($4 in seen) } END { print new / n; exit !(new / n > .3 && new / n < .6) }' "$W/p/impressions.tsv"
}
ok 'ads come late and never before' fresh
window() { awk -F'\t' 'NR > 1 { if (!n++ || $4 < low) low = $4; if ($4 > high) high = $4; if (n == 1000) { if (high - low > 125) exit 1; n = 0; high = 0 } }' "$W/p/impressions.tsv"; }
ok 'a fifth of them is shown at a time' window

exits 'no -o is a usage error' 2 ctr-synth
err_like 'that names it' '-o DIR'
exits 'too many users' 2 ctr-synth -o "$W/e" --users 9999999999999
err_like 'which is said' 'users'
exits 'a rate outside (0,1)' 2 ctr-synth -o "$W/e" --rate 1
exits 'a folder that cannot be made' 1 ctr-synth -o /dev/null/x
done_testing
