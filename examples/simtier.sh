#!/bin/sh
# SimTier beside DICM: what the cosines between an item's picture and those of the user's past tell, as a vector of counts by tier
# (histogram), as their mean, as the nearest pictures (top_by, a general search unit), and through the tower of dicm. After fashion.sh or
# movies.sh, whose products it reads: simtier.sh fashion|movies. Five seeds, whose mean scores are compared by a bootstrap over users.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
OUT=$(cd "${OUT:-$here/out}" && pwd)
SEEDS=${SEEDS:-1 2 3 4 5}
cd "$OUT/$1"
case $1 in
fashion)
    learn='time < ts"2020-03-23T00:00Z"' test='time >= ts"2020-03-23T00:00Z" and time < ts"2020-09-23T00:00Z"'
    settings='-q --minibatch 100 --hidden 32,16 --embedding 4 --rate 0.001 --l2 100 --passes 3'
    slice=first slice_name='never bought' kept=time,customer,first,bought item=article past=history.article photo=photo
    ;;
movies)
    learn='place < 0.8' test='place >= 0.8'
    settings='-q --embedding 16 --minibatch 500 --hidden 64,32 --rate 0.001 --l2 1 --passes 4 --missing-image zero'
    slice=rare slice_name='rated < 20 times' kept=time,user_id,rare,liked item=movie_id past=history.movie_id photo=poster
    ;;
*)
    echo "simtier.sh fashion|movies" >&2
    exit 2
    ;;
esac
. "$here/photos.sh"

# The mean cosine, the tiers, and the five most similar of the past as a list of their own, which has the table of the item's ids.
near="near = similarity(\"photos.arrow\", $item, $past, \"vector\")"
{ cat without.plan; echo "$near"; echo 'dense tier = histogram(near, -0.5, 1, 20)'; } >tier.plan
{ cat tier.plan; echo "feature most in $photo = top_by($past, near, 5)"; } >search.plan

seconds() { # seconds NAME COMMAND… : its processor time
    _name=$1
    shift
    /usr/bin/time -f "$_name %U" "$@" 2>>seconds.txt
}
rm -f seeds.tsv seconds.txt
tower='--images photos.arrow --images-tower 0 --images-pool attentive --attention-hidden 8'
model ids without.plan --images-as-ids
# shellcheck disable=SC2086
model tower without.plan $tower
model cosine with.plan --images-as-ids
model tier tier.plan --images-as-ids
model search search.plan --images-as-ids
# shellcheck disable=SC2086
model both tier.plan $tower
tables ids tower cosine tier search both

# What it costs: seconds of a processor for the features, and for one pass.
for plan in without with tier search; do
    seconds "extract $plan" ctr-extract -q -j 1 $plan.plan history.arrows -o cost.arrows
    # shellcheck disable=SC2086
    seconds "train $plan" ctr-train dicm $settings -j 1 --passes 1 --images-as-ids -o cost.model cost.arrows
done
ctr-extract -q without.plan history.arrows -o cost.arrows
# shellcheck disable=SC2086
seconds 'train tower' ctr-train dicm $settings -j 1 --passes 1 $tower -o cost.model cost.arrows
rm -f cost.arrows cost.model
printf '\nSeconds of a processor:\n\n'
cat seconds.txt
