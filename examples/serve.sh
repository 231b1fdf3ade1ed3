#!/bin/sh
# A model that learns from what it serves: users ask ctr-serve for a ranking, see three ads and click; the server's log, joined with the
# clicks, is learned from, and the new model takes the old one's name, which the server sees. OUT= chooses the folder, ROUNDS= and
# REQUESTS= the size. make -C examples serve
set -eu
here=$(cd "$(dirname "$0")" && pwd)
OUT=${OUT:-$here/out/serve}
ROUNDS=${ROUNDS:-6}
REQUESTS=${REQUESTS:-400}
rm -rf "$OUT"
mkdir -p "$OUT"
cd "$OUT"

cat >ads.plan <<'END'
label click
feature hour
feature ad
feature taste = cross(taste, topic)
feature both = cross(user, topic)
END

# A first model knows nothing: it has seen one row.
printf 'user,taste,hour,ad,topic,click\n1,t1,0,a1,x1,1\n' | ctr-import -q --format csv --header \
    --columns user:int64,taste:utf8,hour:int64,ad:utf8,topic:utf8,click:int8 -o first.arrows
ctr-train lr -q --alpha 0.2 -o ads.model ads.plan first.arrows

ctr-serve --listen unix:sock --log served.arrows --log-every 500ms ads.model 2>serve.log &
server=$!
trap 'kill $server 2>/dev/null || true' EXIT
until [ -S sock ]; do kill -0 $server; sleep .05; done

printf 'round\tmodel\trequests\tclick_rate\n'
round=1
while [ "$round" -le "$ROUNDS" ]; do
    python3 "$here/serve_users.py" sock "$REQUESTS" "$round" >shown.csv 2>round.txt
    cat round.txt
    ctr-import -q --format csv --header --columns request:utf8,ad:utf8,click:int8 shown.csv -o shown.arrows
    # The log's files appear when they are whole: wait for the last request's.
    last=$(tail -n 1 shown.csv | cut -d, -f1)
    until ls served.*.arrows >/dev/null 2>&1 && ctr-cat served.*.arrows | ctr-select --where "request == \"$last\"" | ctr-export -q -f csv --no-header | grep -q .; do sleep .1; done
    # What was shown, with its features as the server saw them, and whether it was clicked.
    ctr-cat served.*.arrows | ctr-join -q --inner -k request,ad shown.arrows | ctr-select --columns user,taste,hour,ad,topic,click -o "learn.$round.arrows"
    rm served.*.arrows
    cp ads.model before.model
    ctr-extract -q ads.model "learn.$round.arrows" | ctr-train lr -q --alpha 0.2 --init before.model -o ads.model
    until grep -q "serves model $(ctr-serve --check ads.model | awk '$1 == "model" { print $2 }')" serve.log; do sleep .05; done
    round=$((round + 1))
done
kill $server
wait $server
trap - EXIT
