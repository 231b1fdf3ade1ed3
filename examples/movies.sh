#!/bin/sh
# Posters of movies beside ids: MovieLens, a quarter of the users of ml1m_half; the last fifth of each user's ratings is the test. Five
# seeds, whose mean scores are compared by a bootstrap over users. DATA= has ml1m_half, OUT= the products, VECTORS= a keyed file of
# ctr-embed-images for the posters (of utf8 keys). Settings are those that models.sh chose for mlp; TUNE=1 tests on the tenth before.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
DATA=$(cd "${DATA:-$here/../../shared/data}" && pwd)
OUT=${OUT:-$here/out}
SEEDS=${SEEDS:-1 2 3 4 5}
mkdir -p "$OUT/movies"
cd "$OUT/movies"
# shellcheck disable=SC2034
settings='-q --embedding 16 --minibatch 500 --hidden 64,32 --rate 0.001 --l2 1 --passes 4 --missing-image zero'
learn='place < 0.8' test='place >= 0.8'
[ -z "${TUNE:-}" ] || learn='place < 0.7' test='place >= 0.7 and place < 0.8'
slice=rare slice_name='rated < 20 times' kept=time,user_id,rare,liked
. "$here/photos.sh"
short "${VECTORS:-vectors.arrow}"

ctr-import -q -f csv --delimiter :: --columns user_id:int32,gender:utf8,age:int32,occupation:int32,zip:utf8 "$DATA/ml1m_half/users.dat" -o users.arrows
ctr-import -q -f csv --delimiter :: --encoding latin1 --columns movie_id:utf8,title:utf8,genres:utf8 "$DATA/ml1m_half/movies.dat.gz" -o movies.arrows
ctr-import -q -f csv --delimiter :: --columns user_id:int32,movie_id:utf8,rating:int8,time:timestamp --time time:unix \
    "$DATA/ml1m_half/ratings.dat.gz" | ctr-sort -q -k time |
    ctr-history -q --user user_id -c movie_id --where 'rating >= 4' --last 20 --window 1500d --count user_id,movie_id |
    ctr-select -q --where 'user_id % 4 == 0' -o ratings.arrows
ctr-select -q --columns user_id ratings.arrows | ctr-export -f csv | awk 'NR > 1 { n[$1]++ } END { print "user_id,events"; for (u in n) print u "," n[u] }' |
    ctr-import -q -f csv --header --columns user_id:int32,events:int64 -o events.arrows
ctr-join -q -k user_id users.arrows ratings.arrows | ctr-join -q -k movie_id movies.arrows | ctr-join -q -k user_id events.arrows -o history.arrows

cp "$here/movies.plan" with.plan # whose embedding() reads photos.arrow beside it
grep -v poster_vector with.plan >without.plan
compare without.plan with.plan
