#!/bin/sh
# Images beside ids, in planted worlds whose pictures carry part of the truth (ctr-synth --photos): the tables of "Image Matters"
# (Ge et al., CIKM 2018), each row in five worlds with five seeds. Writes results.tsv, curves.tsv and images.svg and prints the tables of images.md.
# OUT= chooses the folder, ROWS= the impressions of a world, IDS= how many times as many users and ads, SEEDS= the worlds, ONLY= some of the rows,
# whose results are added to those that are there. PAPER=1 takes the paper's settings, which want millions of rows.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
OUT=${OUT:-$here/out}
ROWS=${ROWS:-100000}
SEEDS=${SEEDS:-1 2 3 4 5}
IDS=${IDS:-1}
mkdir -p "$OUT/images"
cd "$OUT/images"

# The settings of all rows of all tables.
base='-q --minibatch 100 --embedding 8 --rate 0.003 --l2 1 --passes 3'
layers='--hidden 32,16'
tower='--images photos.arrows --images-tower 32'
if [ -n "${PAPER:-}" ]; then # Adam .001 x .9 after each 24,000 of its minibatches of 60,000, PReLU, tower D-256-64-12; --l2 is DIN's
    base='-q --minibatch 3000 --embedding 12 --rate 0.001 --decay 0.9 --l2 0.01'
    layers='--hidden 200,80'
    tower='--images photos.arrows --images-tower 256,64'
fi
fields() { # 27 fields of ids, as in the paper: those of images.plan and 16 more, most of them crosses
    [ -n "${PAPER:-}" ] || return 0
    echo 'feature site = referrer
feature title = split(title, " ")
feature hour = hour_of_day(time)
feature weekday = day_of_week(time)'
    for pair in gender,age gender,city gender,os gender,category age,category city,category os,category position,category \
        gender,campaign_id age,campaign_id os,campaign_id position,campaign_id; do
        echo "feature cross_${pair%,*}_${pair#*,} = cross(${pair%,*}, ${pair#*,})"
    done
}
attention='--attention softmax --attention-hidden 16 --ad-features ad,campaign,category'
sides='--ad-features ad,campaign,category,photo,position --user-features who,gender,age,city,interests,os,past,seen'

world() { # world SEED: the logs, and features by four plans, that differ in which of the two columns are images and which are ids
    ctr-synth -q -o logs --photos --rows "$ROWS" --users "$((ROWS * IDS / 160 + 10))" --ads "$((ROWS * IDS / 20 + 10))" --rate 0.25 --days 14 --seed "$1"
    ctr-import -q --format tsv --header --time time logs/impressions.tsv -o impressions.arrows
    ctr-import -q --format tsv --header logs/users.tsv -o users.arrows
    ctr-import -q --format jsonl --columns ad_id:int64,campaign_id:int64,category:utf8,title:utf8 logs/ads.jsonl -o ads.arrows
    ctr-import -q --format tsv --header --time click_time logs/clicks.tsv | ctr-select -q --columns impression_id,click_time -o clicks.arrows
    ctr-import -q logs/photos.jsonl -o photos.arrows
    ctr-join -q -k impression_id clicks.arrows impressions.arrows | ctr-join -q -k user_id users.arrows | ctr-join -q -k ad_id ads.arrows |
        ctr-select -q --add 'click=not is_null(click_time)' |
        ctr-history -q --user user_id --time time -c ad_id,category --where click --last 30 --window 14d -o history.arrows
    { cat "$here/images.plan" && fields; } >both.plan
    sed 's/^image   seen/feature seen/' both.plan >ad.plan
    sed 's/^image   photo/feature photo/; s/ of photo = / = /' both.plan >behaviour.plan
    sed 's/^image   /feature /' both.plan >ids.plan
    for plan in both ad behaviour ids; do
        ctr-extract -q $plan.plan history.arrows | ctr-select -q --head 80% --rest $plan.test.arrows -o $plan.train.arrows
    done
}

# learn ROW PLAN MODEL OPTION…: train and score the test: a line of results.tsv is row, seed, GAUC, AUC.
learn() {
    row=$1 plan=$2 model=$3
    shift 3
    case " ${ONLY:-$row} " in *" $row "*) ;; *) return 0 ;; esac
    images=
    case " $* " in *' --images '*) images='--images photos.arrows' ;; esac
    # shellcheck disable=SC2086
    ctr-train "$model" $base --seed "$seed" "$@" -o "$row.model" "$plan.train.arrows"
    # shellcheck disable=SC2086
    ctr-predict -q $images "$row.model" "$plan.test.arrows" | ctr-eval --metrics gauc,auc |
        awk -v OFS='\t' -v r="$row" -v s="$seed" '$1 == "total" { print r, s, $4, $5 }' >>results.tsv
}

# curve ROW PLAN OPTION…: figures of rows before they are learned from, by stretches of the log: row, seed, start, GAUC, AUC.
curve() {
    row=$1 plan=$2
    shift 2
    case " ${ONLY:-curve} " in *' curve '*) ;; *) return 0 ;; esac
    # shellcheck disable=SC2086
    ctr-train dicm $base --passes 1 --seed "$seed" "$@" --progressive progressive.arrows -o progressive.model "$plan.train.arrows"
    ctr-eval --window 28h --metrics gauc,auc progressive.arrows |
        awk -v OFS='\t' -v r="$row" -v s="$seed" '$1 == "total" && $2 ~ /T/ && $3 * 20 > n { print r, s, $2, $5, $6 } $2 == "all" { n = $3 }' >>curves.tsv
}

[ -n "${ONLY:-}" ] || rm -f results.tsv curves.tsv
for seed in $SEEDS; do
    world "$seed"
    # shellcheck disable=SC2086
    {
        # Tables 3 and 4: which images, and how those of the user become one vector
        learn ids both dicm $layers --images-as-ids
        learn ad ad dicm $layers $tower
        learn behaviour behaviour dicm $layers $tower
        learn behaviour-mean behaviour dicm $layers $tower --images-pool mean
        for pool in concat max mean sum attentive multi-query; do
            learn $pool both dicm $layers $tower $attention --images-pool $pool
        done
        # Figure 5: the network of the ids
        learn lr-ids both dicm --base lr --images-as-ids
        learn lr-images both dicm --base lr $tower $attention --images-pool multi-query
        learn din-ids both dicm --base din $layers $attention --images-as-ids
        learn din-images both dicm --base din $layers $tower $attention --images-pool multi-query
        # Table 5: yesterday's model, which has not seen the last sixteenth of the rows, all of it and all but the vectors of ids
        case " ${ONLY:-partial} " in *' partial '* | *' full '*)
            ctr-select -q --head 93.75% both.train.arrows -o yesterday.train.arrows
            ctr-train dicm $base --seed $((seed + 100)) $layers $tower $attention --images-pool multi-query -o yesterday.model yesterday.train.arrows
            ctr-select -q --section 'emb.*' --head 0 yesterday.model >noids.model
            ;;
        esac
        learn partial both dicm $layers $tower $attention --images-pool multi-query --init noids.model
        learn full both dicm $layers $tower $attention --images-pool multi-query --init yesterday.model
        # Table 5 where vectors of ids overfit: without --l2
        base="$base --l2 0"
        learn loose-none both dicm $layers $tower $attention --images-pool multi-query
        case " ${ONLY:-loose-partial} " in *' loose-partial '* | *' loose-full '*)
            ctr-select -q --head 93.75% both.train.arrows -o yesterday.train.arrows
            ctr-train dicm $base --seed $((seed + 100)) $layers $tower $attention --images-pool multi-query -o yesterday.model yesterday.train.arrows
            ctr-select -q --section 'emb.*' --head 0 yesterday.model >noids.model
            ;;
        esac
        learn loose-partial both dicm $layers $tower $attention --images-pool multi-query --init noids.model
        learn loose-full both dicm $layers $tower $attention --images-pool multi-query --init yesterday.model
        base=${base% --l2 0}
        # Table 8: two towers, for pre-ranking; images of ad and behaviours, which are summed, go through one tower
        learn towers-ids ids two-tower $layers $sides
        learn towers-images both two-tower $layers $sides $tower
        # Figure 6
        curve ids both $layers --images-as-ids
        curve multi-query both $layers $tower $attention --images-pool multi-query
    }
done
touch results.tsv # ONLY=curve has none
python3 "$here/images.py" results.tsv curves.tsv images.svg
