#!/bin/sh
# ctr-extract: plans to features, errors in plans, fitting, names; the manual's table of operators; real plans.
. "${0%/*}/lib.sh"
cd "$W" || exit 1

cat >r.csv <<'END'
user_id,movie_id,rating,genres,age,time,price
1,10,5,Comedy|Drama,25,2019-11-14T00:00:00Z,1.5
1,11,3,Action,25,2019-11-14T09:30:00Z,2.25
2,10,4,Comedy|Drama,31,2019-11-15T00:00:00Z,
2,12,1,,31,2019-11-16T00:00:00Z,4
3,13,2,Drama,,2019-11-17T00:00:00Z,5
END
ctr-import --format csv --header --time time r.csv >r.arrows || exit 1
csv() { ctr-export --format csv "$@"; }
digest() { ctr-info --digest "$@" | awk '{ print $NF }'; }
plan() { printf '%s\n' "$@" >p.plan; ctr-extract p.plan r.arrows; }

cat >films.plan <<'END'
# films
label   liked = rating >= 4
user    user_id
time    time
keep    genres = split(genres, "|")
feature user = user_id
feature movie in item = movie_id
feature genre = genres
feature age_genre = cross(age, genres)        # a cross with a list: a key a pair
dense   price = log1p(price)
END
ctr-extract films.plan r.arrows >films.arrows
is "columns, roles and tables" "$(ctr-info films.arrows | sed -n '/^column/,$p' | awk 'NR > 1 { print $1, $2, $3, $4 }')" "liked uint8 label -
user_id int64 user -
time timestamp time -
genres list<utf8> - -
user uint64 feature user
movie uint64 feature item
genre list<uint64> feature genre
age_genre list<uint64> feature age_genre
price float32 dense -"
is "values" "$(ctr-select --columns liked,user_id,time,genres,price films.arrows | csv)" 'liked,user_id,time,genres,price
1,1,2019-11-14T00:00:00Z,"[""Comedy"",""Drama""]",0.91629076
0,1,2019-11-14T09:30:00Z,"[""Action""]",1.178655
1,2,2019-11-15T00:00:00Z,"[""Comedy"",""Drama""]",
0,2,2019-11-16T00:00:00Z,,1.609438
0,3,2019-11-17T00:00:00Z,"[""Drama""]",1.7917595'
# XXH3-64 of the text, seeded with XXH3-64 of the table's name.
if has_python xxhash; then
    is "keys are XXH3 of table and text" "$(ctr-select --head 1 --columns user,movie films.arrows | csv | sed 1d)" \
        "$("$PY" -c 'import xxhash as x; k = lambda t, v: x.xxh3_64_intdigest(v.encode(), x.xxh3_64_intdigest(t.encode())); print(k("user", "1"), k("item", "10"), sep=",")')"
else
    skip "keys are XXH3 of table and text" "no xxhash"
fi
is "the plan says what has a role: what is kept loses it" \
    "$(ctr-import --format csv --header --label rating r.csv 2>/dev/null >own.arrows; printf 'label liked = rating >= 4\nkeep rating, age\n' >own.plan
    ctr-extract own.plan own.arrows | ctr-info | awk '/^column/ { on = 1; next } on { print $1, $3 }')" 'liked label
rating -
age -'
is "4, 4.0 and \"4\" have one key" "$(plan 'feature a in t = age' 'feature b in t = age * 1.0' 'feature c in t = concat(age)' | csv | sed 1d | awk -F, '$1 != $2 || $2 != $3')" ""
is "a null is a key of its own, of its table" "$(plan 'feature a in t = age' 'feature b in t = genres' | csv | sed -n '5p;6p' | awk -F, 'NR == 1 { b = $2 } NR == 2 { a = $1 } END { print a == b }')" 1
is "the plan travels along" "$(ctr-info films.arrows | grep -c '^plan_id: [0-9a-f]\{32\}$')" 1
is "and extracts again" "$(ctr-extract films.arrows r.arrows | digest)" "$(digest films.arrows)"
is "--inputs" "$(ctr-extract --inputs films.plan | tr '\n' ' ')" "rating user_id time genres movie_id age price "
is "-j, batches and pipes make no difference" "$(ctr-extract -j 4 films.plan r.arrows | cksum)$(ctr-cat --batch 2 r.arrows | ctr-extract -j 3 films.plan | digest)" "$(cksum <films.arrows)$(digest films.arrows)"
awk -v OFS=, 'BEGIN {
        for (; i < 3000; i++)
            print(i % 7 * i % 5 ? sprintf("%08x", i * 65599) : "", i < 2000 || i % 97 ? "abcd" 1000 + i : i)
    }' | # of the second column some are shorter
    ctr-import -q -f csv -c h:utf8,k:utf8 >eights.arrows
printf 'feature h\nfeature k\n' >eights.plan
for cpu in plain avx2 avx512; do
    CTR_CPU=$cpu ctr-extract eights.plan eights.arrows | digest
done >eights.digests
is "texts of eight bytes have the same keys on every processor" "$(uniq eights.digests | grep -c .)" 1
printf 'label y = rating / 5.0\nweight w = age + 0.5\n' >lw.plan
ctr-select --where 'not is_null(age)' r.arrows >aged.arrows
is "fractional labels and weights" "$(ctr-extract lw.plan aged.arrows | csv | tr '\n' ' ')" "y,w 1,25.5 0.6,25.5 0.8,31.5 0.2,31.5 "
is "--explain" "$(printf 'x = lower(genres)\nfeature a = x\nfeature b in a = concat(lower(genres), "!")\n' >e.plan; ctr-extract --explain e.plan r.arrows | sed 's/, id .*//')" 'plan e.plan
layer 0: 1 nodes
  #0    utf8             genres
layer 1: 1 nodes
  #1    utf8             lower(#0)  = x  [cpu, 32 KiB and more: no --device-memory]
layer 2: 2 nodes
  #2    utf8             concat(#1, "!")  = b  [cpu, 32 KiB and more: no --device-memory]
  #3    key              keys(#1, table "a")  -> a (feature)  [cpu, 64 KiB: no --device-memory]
layer 3: 1 nodes
  #4    key              keys(#2, table "a")  -> b (feature)  [cpu, 64 KiB: no --device-memory]
memory: 192 KiB for a batch of 8192 rows, and the bytes of texts and items of lists
device: cpu'
is "--dot" "$(ctr-extract --dot e.plan r.arrows | grep -c ' -> ')" 6

# Errors of plans come before the first row, with their place.
bad() { # bad PLAN REGEX
    printf "$1" >bad.plan
    exits "refused: $(printf "$1" | tr '\n' ';')" 2 ctr-extract bad.plan r.arrows
    err_like "with its place" "^ctr-extract: bad.plan:$2"
}
bad 'keep x = lower(genrs)\n' "1:16: there is no column 'genrs'; the nearest is 'genres'"
bad '# one\n\nfeature x = lowr(genres)\n' '3:13: no operator lowr; did you mean lower'
bad 'feature x = lower(age)\n' '1:13: lower wants text .*got int'
bad 'dense genres\n' '1:7: dense takes numbers'
bad 'label y = user_id < 2 < 3\n' '1:23: comparisons do not chain'
bad 'feature x = cross(age\nfeature y = age\n' '2:1: expected , or \), not feature \(the \( of line 1, character 18 is still open'
bad 'label y = age > .5\n' '1:17: unexpected .; a number begins with a digit: 0.5'
bad 'feature x = hour_of_day(genres)\n' '1:13: hour_of_day wants a time .*type timestamp, as ctr-import --time makes of a text'
exits "no plan" 1 ctr-extract nothing.plan r.arrows
err_like "is named" "nothing.plan: cannot open: No such file"
exits "a stream without a plan" 2 ctr-extract r.arrows r.arrows
err_like "is told" "r.arrows: holds no plan"
exits "a null label" 1 sh -c "printf 'label y = age > 30\n' >n.plan; ctr-extract n.plan r.arrows"
err_like "names file and row, and no column that the log lacks" 'r.arrows: row 5: the label .y. is null, as what it is made of is; fill\(\.\.\.\) gives that a value; --bad-rows skip=MAX'
exits "a null label of another name" 1 sh -c "ctr-select --add 'h=age > 30' r.arrows >h.arrows; printf 'label y = h\n' >n.plan; ctr-extract n.plan h.arrows"
err_like "has a remedy" "row 5: the label .column h. is null; --bad-rows skip=MAX or quarantine=FILE leaves such rows out"
exits "a label out of range" 1 sh -c "printf 'label rating\n' >n.plan; ctr-extract n.plan r.arrows"
err_like "names file, row and value" "r.arrows: row 1: the label .column rating. is 5, but must be in .0, 1.; a comparison makes a label"
exits "a negative weight" 1 sh -c "printf 'weight w = rating - 3\n' >n.plan; ctr-cat --batch 2 r.arrows | ctr-extract n.plan"
err_like "names the row, whatever the batch" "stdin: row 4: the weight .column w. is -2, but must be finite and not negative"

# Fitting.
cat >fit.plan <<'END'
label liked = rating >= 4
feature genre = vocab(split(genres, "|"), min=2)
feature p = quantiles(price, 2)
feature pair = cross(quantiles(price, 2), vocab(genres, min=2))
END
exits "an unfitted plan" 2 ctr-extract fit.plan r.arrows
err_like "shows how to fit it" "fit.plan: the plan needs fitting first: ctr-extract --fit fit.plan -o FITTED FILE"
ctr-extract --fit fit.plan -o fit.fitted r.arrows
# Where the texts of equal numbers differ, and int() makes one key of them.
printf 'f,d\n123456792,1e16\n-0,-0\n4,4.0\n' | ctr-import -f csv --header -c f:float32,d:float64 >float.arrows
printf 'f,d\n123456792,10000000000000000\n0,0\n4,4\n' | ctr-import -f csv --header -c f:int64,d:int64 >int.arrows
keys() { ctr-select --add "f=hash($1)" --add "d=hash($2)" "$3" | ctr-export -f csv --no-header; }
keys f d int.arrows >int.keys
is "keys of floats and integers of one text" "$(keys f d float.arrows | sed -n 3p)" "$(sed -n 3p int.keys)"
is "of other texts" "$(keys f d float.arrows | grep -c -F -x -f int.keys)" 1
is "of int(x)" "$(keys 'int(f)' 'int(d)' float.arrows)" "$(cat int.keys)"
seq 40 >ties && seq 40 -1 1 >seit
echo 'feature x = vocab(x, max=7)' >ties.plan
for f in ties seit; do
    ctr-import -f csv -c x "$f" | ctr-cat --batch 3 | ctr-extract -j 3 --fit ties.plan -o "$f.fitted" - && ctr-info --digest "$f.fitted" >"$f.digest"
done
ok "max= keeps the same of equally frequent values in any order" cmp ties.digest seit.digest
is "as many as it says" "$(ctr-info ties.fitted | grep -c '^rows: *7')" 1
echo 'feature x = quantiles(x, 4)' >quarters.plan
quarters() { tr ' ' '\n' | ctr-import -f csv -c x:float64 | ctr-extract --fit quarters.plan -o quarters.fitted - && ctr-info --digest quarters.fitted; }
numbers=$(echo 1 2 3 4 5 | quarters)
ok "NaN has no part in quantiles" test -n "$numbers" -a "$numbers" = "$(echo nan 1 nan 2 3 nan 4 5 | quarters)"
ctr-select --section 'quantiles.*' --add 'threshold=-threshold' quarters.fitted >falling.fitted
exits "thresholds that fall" 1 sh -c 'echo 1 | ctr-import -f csv -c x:float64 | ctr-extract falling.fitted'
err_like "are refused" 'row 2 of fitted quantiles: the thresholds do not ascend'
# Numbers of a common range: by hand, and the same bytes for any batch, order of threads and state from a file.
awk -v OFS=, 'BEGIN { srand(4); print "click,x,n,z"; for (i = 0; i < 5000; i++) print i % 3 == 0, sprintf("%.3f", 1e9 + i % 7 / 8), (i % 11 ? int(exp(12 * rand())) : ""), .1 }' | ctr-import -f csv --header -o raw.arrows
printf '%s\n' 'label click' 'dense x = standardize(x)' 'dense part = minmax(n)' 'dense n = log_scale(n)' 'dense z = standardize(z)' >scale.plan
ctr-extract -q --fit scale.plan raw.arrows -o scale.fitted
ctr-cat --batch 13 raw.arrows | ctr-extract -q -j 4 --fit scale.plan -o scale2.fitted
is "scales: the same fitted bytes for any batches" "$(ctr-info --digest scale.fitted)" "$(ctr-info --digest scale2.fitted | sed s/scale2/scale/)"
is "sections of scales" "$(ctr-info scale.fitted | awk '/^section:/ { printf "%s ", $2 }')" "plan standardize.x minmax.part log_scale.n standardize.z "
ctr-extract -q scale.fitted raw.arrows -o scaled.arrows
is "the same scaled bytes" "$(ctr-cat --batch 13 raw.arrows | ctr-extract -q -j 4 scale.fitted | ctr-info --digest)" "$(ctr-info --digest <scaled.arrows)"
is "means, deviations and ends" "$(ctr-select --add 'd = n - n' scaled.arrows | ctr-export -f csv --no-header | awk -F, '{ x += $2; xx += $2 * $2; z += $5 * $5 }
    $4 != "" { k++; n += $4; nn += $4 * $4; low = k == 1 || $3 < low ? $3 : low; high = $3 > high ? $3 : high }
    END { printf "%.4f %.4f %.4f %.4f %g %g %g\n", x / NR + 0, xx / NR, n / k + 0, nn / k, low, high, z }' | sed 's/-0.0000/0.0000/g')" "0.0000 1.0000 0.0000 1.0000 0 1 0"
ctr-select --section "standardize.x" --add "deviation = -deviation" scale.fitted >bad.fitted
exits "a deviation below 0" 1 ctr-extract bad.fitted raw.arrows
err_like "is refused" 'row 1 of a fitted scale: it has one row of two finite numbers'
# A column may be kept and be an input: the input's column is NAME.feature, its table NAME.
printf '%s\n' 'label click' 'keep n' 'feature n' 'dense x' 'keep x' >both.plan
ctr-extract -q both.plan raw.arrows -o both.arrows
is "kept and a feature" "$(ctr-info both.arrows | awk '/^(n|x)[. ]/ { print $1, $2, $3, $4 }' | tr '\n' ' ')" 'n int64 - - n.feature uint64 feature n x.dense float32 dense - x float64 - - '
printf '%s\n' 'label click' 'feature n' >one.plan
is "the keys are those of the feature alone" "$(ctr-select --columns n.feature both.arrows | ctr-export --no-header | cksum)" "$(ctr-extract -q one.plan raw.arrows | ctr-select --columns n | ctr-export --no-header | cksum)"
printf '%s\n' 'label click' 'keep n' 'keep n' >twice.plan
exits "kept twice" 2 ctr-extract twice.plan raw.arrows
err_like "is an error as before" 'twice.plan:3:6: the output has a column n already, from line 2'
# Words of messages: a name that hides a column, a text without quotes, a name with spaces.
printf '%s\n' 'label click' 'feature n = quantiles(n, 10)' 'dense m = standardize(n)' >hides.plan
exits "a fitted definition that hides a column" 2 ctr-extract --fit hides.plan raw.arrows
err_like "is told where the name is used" 'hides.plan:3:11: n is that of line 2 here, the result of quantiles, which is fitted too, and not the column: give that line another name, such as .n_quantiles.'
printf 'Gender,Male,Daily Internet Usage\nMale,1,220\n' | ctr-import -q -f csv --header -o words.arrows
exits "a bare word" 2 ctr-select --where 'Gender == Female' words.arrows
err_like "is told of quotes" 'there is no column .Female.; .*a text stands in quotes: "Female"'
exits "a bare word that is a column of another type" 2 ctr-select --where 'Gender == Male' words.arrows
err_like "too" 'got int64: .*; the text itself is "Male"'
exits "a name with spaces" 2 ctr-select --where 'Daily Internet Usage > 200' words.arrows
err_like "is told of back quotes" 'not Internet; a name with spaces stands in back quotes: .Daily Internet Usage.'
# A feature of floats has a key for each number.
printf '%s\n' 'label click' 'feature x' 'feature n' 'feature z = number(n) / 3' >floats.plan
ctr-select --add 'f = number(n) / 7' raw.arrows -o floats.arrows
echo 'feature f' >>floats.plan
is "features of floats with many keys are said, those of integers and of few are not" "$(ctr-extract floats.plan floats.arrows 2>&1 >/dev/null |
    sed 's/about [0-9]* keys/about N keys/')" "ctr-extract: feature f makes about N keys of 5000 rows, one for each number: quantiles(x, 10) makes ranges, and dense log_scale(x) a number"
is "about as many as there are" "$(ctr-extract floats.plan floats.arrows 2>&1 >/dev/null | awk -v n="$(ctr-export -c f --no-header floats.arrows | sort -u | wc -l)" \
    '{ for (i = 1; i < NF; i++) if ($i == "about") print ($(i + 1) > n * .97 && $(i + 1) < n * 1.03) }')" 1
# Many values: some fill the places where others belong.
seq 20000 | ctr-import -f csv -c x:utf8 -o many.arrows
echo 'feature x = vocab(x, max=10000)' >many.plan
ctr-extract --fit many.plan -o many.fitted many.arrows
echo 'feature x' >plain.plan
known() { ctr-extract "$1" many.arrows | ctr-export --no-header | sort -u; }
known plain.plan >every && known many.fitted >some
is "of 20000 values 10000 keep their keys, the others share one" "$(comm -12 every some | wc -l) $(comm -13 every some | wc -l)" "10000 1"
is "sections of a fitted plan" "$(ctr-info fit.fitted | awk '/^section:/ { printf "%s ", $2 }')" "plan vocab.genre quantiles.p vocab.pair "
ctr-extract --names names.arrows fit.fitted r.arrows >fit.arrows
is "names: the rare are one, crosses are readable" "$(ctr-select --columns table,name,count names.arrows | csv | sort)" "genre,(missing),1
genre,(other),1
genre,Comedy,2
genre,Drama,3
p,(missing),1
p,0,2
p,1,2
pair,(missing),2
pair,0 x (other),1
pair,0 x Comedy|Drama,1
pair,1 x (other),1
table,name,count"
cat >hash.plan <<'EOF'
feature h = hash(user_id)
feature five = hash(5)
feature either = if(rating > 2, hash(5), hash(5))
EOF
ctr-extract --names hash.names hash.plan r.arrows >/dev/null
is "names of hashes are what is hashed, where it can be told" "$(ctr-select --columns table,name hash.names | csv | sed 1d | sort -u | grep -v '^h,' | tr '\n' ' ')" \
    "either,16058596026395164274 five,5 "
echo 'feature f = cross(x, 18446744073709551615)' >big.plan
echo 7 | ctr-import -f csv -c x - | ctr-extract --names big.arrows big.plan - >/dev/null
is "a name has an integer of 2^63 and more as the key has it" "$(ctr-select -c name big.arrows | csv | sed 1d)" "7 x 18446744073709551615"
# XXH3 multiplies words of the text by pairs, each first joined with its secret and the seed: where one gives 0, the other does not
# count, and where one gives 1, the other is what it wants to be. The seeds of these tables make letters of such words.
awk 'BEGIN { print "n"; for (i = 0; i < 1100; i++) print i % 1050 }' | ctr-import -qf csv --header -c n:utf8 - >brands.arrows
echo 'feature shop_brand_type = concat(substr("00000000", 0, 8 - length(n)), n, "zBqNRaoPof sixteen bytes")' >brands.plan
exits "names that share a key" 0 ctr-extract -o brands.keys --names brands.names brands.plan brands.arrows
err_like "are counted" '--names: 1000 pairs of names share a key, such as shop_brand_type: "00000000zBqNRaoPof sixteen bytes" and "00000001zBq'
is "and have one row" "$(ctr-select -c name,count brands.names | csv | sed 1d)" "00000000zBqNRaoPof sixteen bytes,1100"
short='sport shoes of size 42, dark red' long=$(printf %032d 0)jtZTwpGA7QFRMNOH$(printf %080d 48608)
echo 'feature app_title_key' >long.plan
for order in cat tac; do
    printf '%s\n' "$short" "$long" | $order | ctr-import -qf csv -d '|' -c app_title_key - >long.arrows
    exits "of different lengths, too ($order)" 0 ctr-extract -o long.keys --names long.names long.plan long.arrows
    err_like "and those that are long are told in part" "1 pairs of .*: \"(0{32}jtZTwpGA7QFRMNOH0{52}\" and \"sport shoes of size 42, dark red|sport shoes of size 42, dark red\" and \"0{32}jtZTwpGA7QFRMNOH0{52})\"\$"
done
printf 'keep one = 1\n' >one.plan
ctr-cat --to file r.arrows -o r.arrow
is "a plan of constants has a row for each" "$(ctr-extract one.plan r.arrows | csv | tr '\n' ' ')$(ctr-extract one.plan r.arrow | csv | tr '\n' ' ')" "one 1 1 1 1 1 one 1 1 1 1 1 "
printf 'id,v\n-1,5\n7,6\n' | ctr-import -f csv --header - | ctr-cat --to file --key id -o ids.arrow
printf '7\n18446744073709551615\n' | ctr-import -f csv -c x:uint64 - >ids.arrows
echo 'keep v = lookup("ids.arrow", x, "v")' >ids.plan
is "an unsigned key is no negative one of the file" "$(ctr-extract ids.plan ids.arrows | ctr-export --null - --no-header | tr '\n' ' ')" "6 - "
if has_python pyarrow; then
    "$PY" - <<'PYTHON'
import pyarrow as pa
side = lambda name, of: pa.field(name, pa.int64(), metadata={"ctr.side": of})
s = pa.schema([side("u", "user"), side("v", "user"), side("a", "ad")])
with pa.OSFile("sides.arrows", "wb") as f, pa.ipc.new_stream(f, s) as w:
    w.write_batch(pa.record_batch([pa.array([1], pa.int64())] * 3, schema=s))
PYTHON
    printf 'feature uv = cross(u, v)\nfeature au = cross(a, u)\nfeature u2 = u + 1\n' >sides.plan
    is "a feature is of the side of all that it is made of" "$(ctr-extract sides.plan sides.arrows | ctr-info --json | grep -o '"name":"[a-z0-9]*"\|"ctr.side":"[a-z]*"' | tr '\n' ' ')" \
        '"name":"uv" "ctr.side":"user" "name":"au" "name":"u2" "ctr.side":"user" '
else
    skip "sides of features" "no pyarrow"
fi
# Null items keep their places in lists that are aligned, and have no key in others.
printf 'user,time,item,shop\n1,1,a,x\n1,2,,y\n1,3,c,\n1,4,d,z\n' | ctr-import -q -f csv --header -c user:int64,time:int64,item:utf8,shop:utf8 --user user --time time >events.arrows
ctr-history -q -c item,shop events.arrows >nulls.arrows
printf 'feature a in item = history.item\nfeature s in shop = lower(history.shop)\nfeature f = vocab(history.shop)\n' >nulls.plan
ctr-extract --fit nulls.plan -o nulls.fitted nulls.arrows
is "aligned lists have a key for each item, null or not" \
    "$(ctr-extract --names nulls.names nulls.fitted nulls.arrows | ctr-select --add 'n=length(a)' --add 'm=length(s)' --add 'o=length(f)' --columns n,m,o | ctr-export -f tsv --no-header | tr '\t\n' '  ')" \
    "0 0 0 1 1 1 2 2 2 3 3 3 "
is "the key of a null item is (missing)" "$(ctr-select --where 'table == "item"' --columns name nulls.names | ctr-export --no-header | sort | tr '\n' ' ')" "(missing) a c "
is "a list that is aligned with none drops it" \
    "$(ctr-select --columns 'l=history.item' nulls.arrows | ctr-extract /dev/fd/3 3<<END | ctr-select --add 'n=length(g)' --columns n | ctr-export --no-header | tr '\n' ' '
feature g = unique(l)
END
)" "0 1 1 2 "
# The order of a history: of its column, or as the plan says.
order() { ctr-info --json "$@" | grep -o '"name":"[a-z.]*"\|"ctr.order":"[a-z]*"' | tr -d '"' | sed 's/name://; s/ctr.order:/=/' | tr '\n' ' '; }
is "ctr.order goes through plans and items' operators, and the plan may say it" \
    "$(printf 'feature a in item = history.item\nfeature b in item = lower(history.item)\nfeature c in item newest = history.item\nfeature d oldest = split(item, "")\nfeature e = unique(history.item)\n' >order.plan
    ctr-history -q --order oldest -c item events.arrows | ctr-extract order.plan - | order)" 'a =oldest b =oldest c =newest d =oldest e '
# relations FILE: name, ctr.history_of, ctr.history of each column
if has_python pyarrow; then
    relations() { "$PY" -c 'import pyarrow as pa, sys
for f in pa.ipc.open_stream(sys.stdin.buffer).schema:
    m = f.metadata or {}
    print(f.name, *(m.get(k, b"-").decode() for k in (b"ctr.history_of", b"ctr.history")), end="; ")'; }
    "$PY" - <<'PYTHON'
import pyarrow as pa
past = lambda name, of, t: pa.field(name, pa.list_(t), metadata={"ctr.history_of": of, "ctr.history": "history"})
f = [pa.field("movie", pa.int64()), pa.field("genre", pa.string()), past("h.movie", "movie", pa.int64()), past("h.genre", "genre", pa.string()),
     pa.field("old", pa.list_(pa.int64()), metadata={"ctr.history_of": "movie"}), pa.field("tags", pa.list_(pa.string()))]
with pa.OSFile("past.arrows", "wb") as o, pa.ipc.new_stream(o, pa.schema(f)) as w:
    w.write_batch(pa.record_batch([[1, 2], ["a", "b"], [[1, 2], []], [["a", "b"], []], [[3], []], [["x"], []]], schema=pa.schema(f)))
PYTHON
    past() { printf "$1" >past.plan; ctr-extract past.plan past.arrows | relations; }
    is "of says whose past a list is, above or below its line" "$(past 'feature p in item of m = h.movie\nfeature m in item = movie\nfeature t of m = tags\n')" \
        "p m history; m - -; t m t; "
    for order in 'keep movie\nfeature movie' 'feature movie\nkeep movie'; do
        is "and a feature with the name of a kept column: ${order%% *} first" "$(past "$order\nfeature p of movie = h.movie\n" | tr ';' '\n' | sed 's/^ //' | sort | tr '\n' ' ')" \
            "movie - - movie.feature - - p movie.feature history "
    done
    is "without it the column says it" "$(past 'feature m in item = movie\nfeature p in item = h.movie\nfeature o in item = old\nfeature g = genre\nfeature pg in g = lower(h.genre)\n')" \
        "m - -; p m history; o m o; g - -; pg g history; "
    is "only where one feature of the table reads it" "$(past 'feature m in item = movie\nfeature n in item = movie + 1\nfeature p in item = h.movie\nfeature g = genre\nfeature pg = h.genre\n')" \
        "m - -; n - -; p - history; g - -; pg - history; "
    is "what changes a list's length leaves its group" "$(past 'feature m in item = movie\nfeature p in item = at(h.movie, 0)\nkeep k = h.movie\nkeep l = join(h.genre, "|")\n')" \
        "m - -; p - -; k movie history; l - -; "
    group_digest() { printf "feature $1 of m = tags\nfeature m = movie\nfeature o in item = h.movie\nkeep p = genre, q = genre\n" >digest.plan; ctr-extract digest.plan past.arrows | ctr-select --columns "x=$1,o" | ctr-info --digest; }
    ok "the group is in the digest" [ "$(group_digest s)" != "$(group_digest t)" ]
    printf 'label m of p = movie\nfeature q of nothing = tags\nfeature r of r = tags\nfeature p of k = tags\nkeep k = movie\nfeature a of p = old\n' >past.plan
    exits "of wants a feature of the plan" 2 ctr-extract past.plan past.arrows
    err_like "each line says why" 'past.plan:1:9: `of FEATURE` belongs to a feature or an image'
    err_like "of no line" 'line 2, character 14: the plan has no feature nothing'
    err_like "of itself" 'line 3, character 14: r cannot be its own past'
    err_like "of no feature" 'line 4, character 14: k is not a feature or an image'
    err_like "of a past" 'line 6, character 14: p is the past of another feature itself'
else
    skip "relations of columns" "no pyarrow"
fi
if has_python pyarrow xxhash; then # the key 0, which is a free slot in the sets of a vocabulary
    "$PY" - <<'PYTHON'
import pyarrow as pa, xxhash
seed = xxhash.xxh3_64_intdigest(b"f")  # a key that is its table's seed becomes the key 0
s = pa.schema([pa.field("x", pa.uint64(), metadata={"ctr.role": "feature"})])
for name, keys in ("zero", [seed, seed, 5]), ("rare", [seed, 5, 5]):
    with pa.OSFile(name + ".arrows", "wb") as f, pa.ipc.new_stream(f, s) as w:
        w.write_batch(pa.record_batch([pa.array(keys, pa.uint64())], schema=s))
PYTHON
    echo 'feature f = vocab(x, min=2)' >zero.plan
    for f in zero rare; do
        ctr-extract --fit zero.plan -o $f.fitted $f.arrows
        ctr-extract $f.fitted zero.arrows | csv | sed 1d >$f.keys
    done
    is "a vocabulary knows whether it has the key 0" "$(grep -c '^0$' zero.keys) $(grep -c '^0$' rare.keys)" "2 0"
else
    skip "the key 0 in a vocabulary" "no pyarrow or xxhash"
fi
is "names are sorted by table and key" "$(ctr-select --columns table,key names.arrows | csv | sed 1d)" "$(ctr-select --columns table,key names.arrows | csv | sed 1d | awk -F, '{ printf "%s,%020s\n", $1, $2 }' | sed 's/, */,/' | sort -t, -k1,1 -k2,2g | awk -F, '{ print $1 "," $2 }')"
is "extracting without names gives the same" "$(ctr-extract fit.fitted r.arrows | cksum)" "$(cksum <fit.arrows)"
is "fitting does not depend on batches" "$(ctr-cat --batch 1 r.arrows | ctr-extract --fit fit.plan | cksum)" "$(cksum <fit.fitted)"
is "the fitted plan has an identity of its own" "$(ctr-info fit.fitted | grep -c "$(ctr-info fit.arrows | grep plan_id)")" 1
is "of other data another" "$(ctr-extract --fit fit.plan aged.arrows | ctr-info | grep -c "$(ctr-info fit.arrows | grep plan_id)")" 0
exits "fitting twice" 2 ctr-extract --fit fit.fitted r.arrows
exits "nothing to fit" 2 ctr-extract --fit films.plan r.arrows
err_like "is told" "films.plan: there is nothing to fit"
printf 'feature a = vocab(concat(quantiles(price, 2), genres))\n' >nest.plan
exits "fitted over fitted" 2 ctr-extract --fit nest.plan r.arrows
err_like "says what to do" "nest.plan:1:26: another fitted operator reads the result of this quantiles; put this one into a plan of its own"
ctr-select --section plan f.fitted --where true >/dev/null 2>&1
ctr-select --section 'vocab.genre' --where 'count > 2' fit.fitted >edited.fitted
is "an edited vocabulary" "$(ctr-extract --names n.arrows edited.fitted r.arrows >/dev/null; ctr-select --where 'table == "genre"' --columns name,count n.arrows | csv | sed 1d | sort | tr '\n' ' ')" "(missing),1 (other),3 Drama,3 "
awk 'BEGIN { print "a"; for (i = 0; i < 200000; i++) print "value" i }' >many.csv
ctr-import --format csv --header many.csv >many.arrows
printf 'feature a = vocab(a)\n' >many.plan
exits "--memory of --fit" 1 ctr-extract --memory 1M --fit many.plan -o x.fitted many.arrows
err_like "says what it needs" "fit needs [0-9.]+ MiB after [0-9]+ rows, and of --memory it may take 768 KiB"
ok "and leaves nothing" test ! -e x.fitted
printf 'feature a\n' >many.plan
exits "--memory of --names" 1 ctr-extract --memory 1M --names x.names many.plan many.arrows
err_like "says so too" "names needs [0-9.]+ KiB after [0-9]+ rows, and of --memory it may take 768 KiB"
exits "--names with --fit" 2 ctr-extract --fit fit.plan --names x r.arrows
exits "two on one stdout" 2 ctr-extract --names - films.plan r.arrows

# No rows, broken input.
ctr-select --where false r.arrows >none.arrows
is "no rows" "$(ctr-extract films.plan none.arrows | ctr-info | awk '/^rows/ { print $2 }')" 0
is "no rows to fit" "$(ctr-extract --fit fit.plan none.arrows | ctr-info | awk '/^rows/ { printf "%s ", $2 }')" "4 0 0 0 "
head -c 1500 r.arrows >cut.arrows
exits "truncated input" 1 ctr-extract films.plan cut.arrows
exits "truncated fitted plan" 1 sh -c 'head -c 2000 fit.fitted >cut.fitted; ctr-extract cut.fitted r.arrows'
rubbish 300 >rubbish.plan
exits "a broken plan file" 2 ctr-extract rubbish.plan r.arrows

# Dictionary-encoded columns give what plain ones give.
if has_python pyarrow; then
    "$PY" - <<'END'
import pyarrow as pa, pyarrow.ipc as ipc
t = ipc.open_stream("r.arrows").read_all()
for name in ("genres", "age"):
    t = t.set_column(t.schema.get_field_index(name), name, t[name].combine_chunks().dictionary_encode())
with ipc.new_stream("dict.arrows", t.schema) as w:
    w.write_table(t)
END
    printf '%s\n' 'keep genres' 'feature g = genres' 'feature a = age' 'feature x = cross(age, split(genres, "|"))' 'feature f = fill(genres, "none")' 'feature n = is_null(age)' 'keep l = lower(genres)' >d.plan
    is "dictionary-encoded columns" "$(ctr-extract d.plan dict.arrows | csv)" "$(ctr-extract d.plan r.arrows | csv)"
    is "in any batches" "$(ctr-cat --batch 2 dict.arrows | ctr-extract d.plan | csv)" "$(ctr-extract d.plan r.arrows | csv)"
else
    skip "dictionary-encoded columns" "no pyarrow"
fi

# Serving: a model's plan over a log without clicks.
ctr-select --add 'click=if(rating > 3, time, null)' --add 'w=1.0' r.arrows >clicked.arrows
printf '%s\n' 'was = not is_null(click)' 'label clicked = was' 'weight w' 'keep user_id' 'feature movie_id' 'feature age' >s.plan
ctr-extract s.plan clicked.arrows | ctr-train lr -q -o s.model
ctr-select --columns '-click,-w' clicked.arrows >unlabelled.arrows
exits "a model extracts without the columns of its label" 0 ctr-extract -o u.arrows s.model unlabelled.arrows
err_like "and says so" 'ctr-extract: the input lacks what the label of s.model reads: there will be no label'
is "the rest is the same" "$(digest u.arrows)" "$(ctr-extract s.model clicked.arrows | ctr-select --columns '-clicked,-w' | digest)"
is "and scored alike" "$(ctr-predict s.model u.arrows | csv)" \
    "$(ctr-extract s.model clicked.arrows | ctr-predict s.model | ctr-select --columns '-clicked,-w' | csv)"
ctr-select --columns '-w' clicked.arrows >noweight.arrows
exits "a weight is not left out where the label is known" 2 ctr-extract s.model noweight.arrows
err_like "which names it" "there is no column 'w'"
ctr-select --columns '-click,-age' clicked.arrows >noage.arrows
exits "a feature is never left out" 2 ctr-extract s.model noage.arrows
err_like "which names it" "there is no column 'age'"
exits "a plan wants its label" 2 ctr-extract s.plan unlabelled.arrows
err_like "which names the column" "s.plan:1:19: there is no column 'click'"
csv --columns user_id,movie_id,age r.arrows >serve.csv
exits "ctr-import --for a model does without them too" 0 ctr-import -f csv --header --for s.model -o i.arrows serve.csv
is "and takes the others" "$(csv i.arrows)" "$(cat serve.csv)"
exits "for a plan too" 0 ctr-import -f csv --header --for s.plan -o i.arrows serve.csv
err_like "and says so" "--for: the input has 3 of the plan's columns, and not: "

# Plans and models are streams too: by pipe as by file.
printf '%s\n' 'label liked = rating >= 4' 'feature genre = vocab(split(genres, "|"), min=1)' 'feature age' >v.plan
ctr-extract --fit v.plan -o v.fitted r.arrows
ctr-extract v.fitted r.arrows | ctr-train lr -q --plan v.fitted -o v.model
ctr-extract -o v.arrows v.model r.arrows
is "a fitted plan from stdin" "$(ctr-extract - r.arrows <v.fitted | digest)" "$(digest v.arrows)"
is "a fitted plan from a pipe" "$(cat v.fitted | ctr-extract /dev/fd/0 r.arrows | digest)" "$(digest v.arrows)"
is "a plan from a pipe" "$(cat s.plan | ctr-extract - clicked.arrows | digest)" "$(ctr-extract s.plan clicked.arrows | digest)"
is "a model to extract with" "$(cat v.model | ctr-extract - r.arrows | digest)" "$(digest v.arrows)"
is "a model to predict with" "$(ctr-select --section lr --where 'weight != 0' v.model | ctr-predict - v.arrows | digest)" \
    "$(ctr-predict v.model v.arrows | digest)"
is "a model to look into" "$(cat v.model | ctr-model top -)" "$(ctr-model top v.model)"
is "--plan of ctr-train" "$(cat v.fitted | ctr-train lr -q --plan - v.arrows | digest)" "$(ctr-train lr -q --plan v.fitted v.arrows | digest)"
is "--for of ctr-import" "$(cat v.model | ctr-import -f csv --header --for - r.csv | digest)" "$(ctr-import -f csv --header --for v.model r.csv | digest)"
exits "stdin cannot be the input as well" 2 sh -c 'ctr-predict - <v.model'
err_like "and says so" 'stdin has been read to its end as plan or model: name the input as a file'
head -c 700 v.model >cut.model
exits "a truncated model from stdin" 1 sh -c 'ctr-predict - v.arrows <cut.model'
err_like "is called so" 'ctr-predict: stdin: .*truncated'
exits "a plan of other columns from stdin" 2 sh -c 'ctr-extract - v.arrows <s.plan'
err_like "is called so" 'ctr-extract: stdin:1:'

# What an option writes is never what is read, nor written twice: the file is still there afterwards.
refused() { # NAME FILE COMMAND…
    _n=$1 _f=$2
    shift 2
    cp "$_f" kept
    exits "$_n is refused" 2 "$@"
    ok "and $_f is still what it was" cmp -s "$_f" kept
}
echo text >v.csv
refused "--names over the input" r.arrows ctr-extract --names r.arrows -o x.arrows v.fitted r.arrows
refused "--names over -o" v.arrows ctr-extract --names v.arrows -o v.arrows v.fitted r.arrows
refused "-o over the plan to fit" v.plan ctr-extract --fit v.plan -o v.plan r.arrows
refused "-o over the model" v.model ctr-predict -o v.model v.model v.arrows
refused "--progressive over the input" v.arrows ctr-train lr -q --progressive v.arrows -o x.model v.arrows
refused "--progressive over -o" v.model ctr-train lr -q --progressive v.model -o v.model v.arrows
refused "--spool over the input" v.arrows ctr-train lr -q --passes 2 --spool v.arrows -o x.model v.arrows
refused "--checkpoint over the input" v.arrows ctr-train lr -q --checkpoint v.arrows -o x.model v.arrows
refused "--checkpoint over -o" v.model ctr-train lr -q --checkpoint v.model -o v.model v.arrows
refused "--checkpoint over a model" v.model ctr-train lr -q --checkpoint v.model -o x.model v.arrows
refused "--checkpoint over --progressive" v.csv ctr-train lr -q --checkpoint v.csv --progressive v.csv -o x.model v.arrows
refused "--rest over the input" r.arrows ctr-select --head 1 --rest r.arrows -o x.arrows r.arrows
refused "quarantine over the log" r.csv ctr-import --header --bad-rows quarantine=r.csv -o x.arrows r.csv
refused "-o over --init" v.model ctr-train lr -q --init v.model -o v.model v.arrows
refused "--progressive over --init" v.model ctr-train lr -q --init v.model --progressive v.model -o x.model v.arrows
refused "--spool over --init" v.model ctr-train lr -q --init v.model --passes 2 --spool v.model -o x.model v.arrows
refused "--checkpoint over --plan" v.fitted ctr-train lr -q --plan v.fitted --checkpoint v.fitted -o x.model v.arrows
refused "-o over --plan" v.fitted ctr-train lr -q --plan v.fitted -o v.fitted v.arrows
refused "-o over --control" v.arrows ctr-eval --format stream --control v.arrows -o v.arrows r.arrows
refused "-o over --like" v.arrows ctr-import --header --like v.arrows -o v.arrows r.csv
refused "-o over the names" v.arrows ctr-model top --names v.arrows -o v.arrows v.model
exits "a new file for two outputs is refused" 2 ctr-train lr -q --progressive new -o new v.arrows
err_like "which says so" 'new is given for two outputs'
exits "by two spellings too" 2 ctr-train lr -q --progressive "$PWD/new" -o ./new v.arrows
err_like "which says so" 'new is given for two outputs'
exits "and where one is the file that stdout goes to" 2 sh -c 'exec ctr-select --head 1 --rest new v.arrows >new'
err_like "which says so" 'new is given for two outputs'
ln -s new leads
exits "and by a link that leads to the other" 2 ctr-train lr -q --progressive leads -o new v.arrows
err_like "which says so" 'leads is given for two outputs'
mkdir deep
ln -s deep/far near && ln -s near nearer
exits "a link to what is not there yet" 0 ctr-cat -o nearer v.arrows
ok "is followed: its target is made" cmp nearer deep/far
ok "and it stays a link" test -L nearer -a -L near -a ! -L deep/far
ln -s none/x lost && ln -s turn turn
exits "a link to where nothing can be made" 1 ctr-cat -o lost v.arrows
err_like "which says so" 'lost: a file cannot be made there: No such file'
exits "a link to itself" 1 ctr-cat -o turn v.arrows
err_like "which says so" 'turn: cannot be written: Too many levels'
ok "they stay links" test -L lost -a -L turn
rm -rf new leads deep near nearer lost turn
ln -s . here
ln -s c.scores later
for names in '--progressive c.scores -o m' '--progressive p -o c.scores' '--spool c.best.1 --passes 2 -o m' '-o m c.scores' '--progressive ./c.scores -o m' \
    '-o m here/c.scores' "-o m $PWD/c.tmp.abcdef" '-o later'; do
    exits "a file that a checkpoint keeps beside it is no other: $names" 2 ctr-train lr -q --checkpoint c $names v.arrows
    err_like "which says so" 'is the name of a file that --checkpoint c keeps'
done
mkfifo pipe
exits "a checkpoint is a regular file" 2 ctr-train lr -q --checkpoint pipe -o x.model v.arrows
ok "and what is not stays" test -p pipe
exits "a device may be named twice" 0 ctr-train lr -q --progressive /dev/null -o /dev/null v.arrows

# Train and serve: the types of the columns travel with the plan.
printf 'u,item,click\n1,a,1\n2,b,0\n30000000000000000,a,1\n4,c,0\n' >day1.csv
printf 'u,item,click\n1,a,1\n2,b,0\n,a,0\n' >day2.csv
printf 'label click\nfeature u\nfeature item = vocab(item)\n' >day.plan
ctr-import -f csv --header --columns u:uint64,item:utf8,click:uint8 day1.csv >day1.arrows
ctr-import -f csv --header --columns u:uint64,item:utf8,click:uint8 day2.csv >day2.arrows
ctr-import -f csv --header --columns u:float64,item:utf8,click:uint8 day2.csv >day2f.arrows
ctr-import -f csv --header --columns u:utf8,item:utf8,click:uint8 day2.csv >day2t.arrows
ctr-import -f csv --header --columns u:int32,item:utf8,click:float64 day2.csv >day2i.arrows
ctr-extract --fit day.plan -o day.fitted day1.arrows
ctr-extract day.fitted day1.arrows | ctr-train lr -q --plan day.fitted -o day.model
for plan in day.fitted day.model; do
    want=$(ctr-extract $plan day2.arrows | ctr-select --columns u,item | digest)
    for log in day2f day2i; do
        is "$plan: the same keys of $log, whose types differ" "$(ctr-extract $plan $log.arrows | ctr-select --columns u,item | digest)" "$want"
    done
    exits "$plan: of text the keys would be others" 1 ctr-extract $plan day2t.arrows
    err_like 'which says what the plan was made for' "$plan: column 'u' is utf8; the plan was made for uint64 there.*ctr-import --columns 'u:uint64'"
    ctr-import -f csv --header --columns u:float64,item:utf8,click:uint8 day1.csv >day1f.arrows
    exits "$plan: an integer that a float may have changed" 1 ctr-extract $plan day1f.arrows
    err_like 'is named' "row 3: column 'u' holds 3e\+16; the plan was made for integers there"
done
is 'what was cast says the types of the model' "$(ctr-extract day.model day2f.arrows | ctr-predict day.model | ctr-export)" \
    "$(ctr-extract day.model day2.arrows | ctr-predict day.model | ctr-export)"
printf 'label click\nfeature u\n' >u.plan
ctr-extract u.plan day1.arrows | ctr-train lr -q -o u.model
ctr-extract u.plan day2f.arrows >u2f.feat
exits 'ctr-predict: features of one plan, of columns of other types' 1 ctr-predict u.model u2f.feat
err_like 'are refused' "u2f.feat: .*input 'u' of its plan was uint64 there and float64 here.*ctr-extract u.model"

# All errors of a plan, the first one first.
cat >errors.plan <<'PLAN'
feature a = nosuch
feature b = age + * 2
c = split(genres, ?)
feature d = c
feature e = lowercase(genres)
label   f = genres
feature g = 'x'
feature h = g
PLAN
exits 'several errors of a plan' 2 ctr-extract errors.plan r.arrows
is 'are told in their order, one a line, and none that only follows from another' "$(sed 's/; there are [a-z_, ]*price//; s/; did you mean lower//' "$W/err")" "$(printf '%s' \
    "ctr-extract: errors.plan:1:13: there is no column 'nosuch'; line 2, character 19: expected a value, not *; line 3, character 19: unexpected ?; " \
    'line 5, character 13: no operator lowercase; `ctr-extract --list-ops` lists them; ' \
    'line 6, character 9: a label is a condition or a number from 0 to 1; this is utf8 (compare it: label click = x == "yes"); ' \
    'line 7, character 13: strings stand in double quotes: "…"')"
printf 'feature a = nosuch\nfeature b = other\nfeature c = a\nfeature d = age +\n' >errors.plan
exits 'of names and of signs' 2 ctr-extract errors.plan r.arrows
err_like 'each of them' "errors.plan:1:13: there is no column 'nosuch'.*; line 2, character 13: there is no column 'other'.*; line 4, character 18: expected a value before the end of the line$"
exits 'without a log those of signs' 2 ctr-extract errors.plan nowhere.arrows
err_like 'are told' 'errors.plan:4:18: expected a value before the end of the line$'
for i in $(seq 20); do echo "feature x$i = nosuch$i"; done >errors.plan
exits 'many errors' 2 ctr-extract errors.plan r.arrows
err_like 'are counted' 'errors.plan:1:14: .*; and errors in 1[0-9] lines more$'
ctr-select --columns item,click day1.arrows >lacks.arrows
exits "a model's plan over a log that lacks a column" 2 ctr-extract day.model lacks.arrows
err_like 'says that the line is one of its plan' "day.model: line 2, character 9 of its plan: there is no column 'u'"

# A secret of the keys.
printf 'a secret of many bytes' >secret
printf 'another secret of many' >other
printf 'label click\nfeature u\nfeature x = cross(u, "s")\nfeature item = vocab(item)\nfeature y = vocab(cross(u, click))\n' >s.plan
ctr-extract --key-seed secret --fit s.plan -o s.fitted day1.arrows
ctr-extract --fit s.plan -o plain.fitted day1.arrows
ctr-extract --key-seed secret --names s.names s.fitted day1.arrows -o s.feat
ctr-extract plain.fitted day1.arrows -o plain.feat
ctr-train lr -q --plan s.fitted -o s.model s.feat
for f in s plain; do ctr-select --columns u,x,item,y $f.feat | ctr-export --no-header | tr , '\n' | sort -u >$f.keys; done
is 'no key is that of a table without a secret' "$(comm -12 s.keys plain.keys; wc -l <s.keys)" "$(wc -l <plain.keys)"
is 'rows, and values that are one, are the same' "$(ctr-export --no-header -c item,y s.feat | awk -F, '{ a[$1] = a[$1] NR; b[$2] = b[$2] NR } END { for (k in a) print a[k]; for (k in b) print b[k] }' | sort | tr '\n' ' ')" \
    "$(ctr-export --no-header -c item,y plain.feat | awk -F, '{ a[$1] = a[$1] NR; b[$2] = b[$2] NR } END { for (k in a) print a[k]; for (k in b) print b[k] }' | sort | tr '\n' ' ')"
is 'the model makes them again with it' "$(ctr-extract --key-seed secret s.model day1.arrows | digest)" "$(digest s.feat)"
is 'and knows them' "$(ctr-extract -q --key-seed secret s.model day1.arrows | ctr-predict s.model 2>&1 >/dev/null)" ''
is 'names are those of its keys' "$(ctr-export --no-header -c table,name s.names | grep -v ^y | sort)" \
    "$(ctr-extract --names plain.names plain.fitted day1.arrows >/dev/null; ctr-export --no-header -c table,name plain.names | grep -v ^y | sort)"
for plan in s.fitted s.model; do
    exits "$plan: without the secret" 2 ctr-extract $plan day1.arrows
    err_like 'no keys are made' "$plan: its keys were made with a secret, without which others would be made: ctr-extract --key-seed FILE"
    exits "$plan: with another secret" 2 ctr-extract --key-seed other $plan day1.arrows
    err_like 'neither' "$plan: its keys were made with another secret than that of --key-seed"
done
exits 'explain makes no keys without it, either' 2 ctr-model explain s.model day1.arrows
err_like 'and says so' 's.model: its keys were made with a secret'
exits 'a secret for a plan that was fitted without one' 2 ctr-extract --key-seed secret plain.fitted day1.arrows
err_like 'is refused' 'plain.fitted: its keys were made without a secret: leave out --key-seed'
exits 'features of another secret' 1 sh -c 'ctr-extract --key-seed other --fit s.plan -o o.fitted day1.arrows; ctr-extract --key-seed other o.fitted day1.arrows | ctr-predict s.model'
err_like 'are refused' 's.model learned from: the fingerprint of its --key-seed is [0-9a-f]{32} there and [0-9a-f]{32} here'
printf 'short' >short
exits 'a short secret' 2 ctr-extract --key-seed short s.plan day1.arrows
err_like 'is refused' 'short: a secret has 16 to 4096 bytes'
ok 'no file holds the secret' sh -c '! grep -q "a secret of many" s.fitted s.model s.feat s.names'

# What lookup() of a model reads lies in its folder.
mkdir -p box/in
printf 'x,v\n1,10\n2,20\n' | ctr-import -f csv --header | ctr-cat --to file --key x -o box/ids.arrow
cp box/ids.arrow box/in/ids.arrow
ln -s ../ids.arrow box/in/link.arrow
printf 'x,click\n1,1\n2,0\n' | ctr-import -f csv --header -o box/log.arrows
for name in ids.arrow ../ids.arrow "$W/box/ids.arrow" link.arrow; do
    printf 'label click\nfeature v = vocab(lookup("%s", x, "v"))\n' "$name" >box/in/l.plan
    exits "a plan may look up $name" 0 ctr-extract --fit box/in/l.plan -o box/in/l.fitted box/log.arrows
    case $name in
    ids.arrow) exits 'so may what was made of it' 0 ctr-extract box/in/l.fitted box/log.arrows ;;
    *)
        exits "what was made of it may not: $name" 2 ctr-extract box/in/l.fitted box/log.arrows
        err_like 'which says what allows it' "lies outside that file's folder; --lookup-anywhere allows it"
        exits 'and then may' 0 ctr-extract --lookup-anywhere box/in/l.fitted box/log.arrows
        ;;
    esac
done

# So does what the conditions of its statements look up, and names of a plan start in its folder.
for statement in 'where lookup("%s", x, "v") == 10' 'history click by x at t where "lookup(\"%s\", x, \"v\") == 10"'; do
    for name in ids.arrow ../ids.arrow; do
        what="${statement%% *} of $name"
        # shellcheck disable=SC2059
        { echo 'from log'; printf "$statement\n" "$name"; printf 'label click\nfeature x\nkeep t\n'; } >box/in/w.plan
        ctr-select -q --add 't=ts"2024-01-01T00:00Z" + 1s * x' box/log.arrows -o box/timed.arrows
        exits "a plan: $what" 0 ctr-extract box/in/w.plan log=box/timed.arrows -o box/w.arrows
        ctr-train lr -q -o box/in/w.model box/w.arrows
        case $name in
        ids.arrow) exits "its model: $what" 0 ctr-extract box/in/w.model log=box/timed.arrows ;;
        *)
            exits "its model may not: $what" 2 ctr-extract box/in/w.model log=box/timed.arrows
            err_like 'which says what allows it' "lies outside that file's folder; --lookup-anywhere allows it"
            exits 'and then may' 0 ctr-extract --lookup-anywhere box/in/w.model log=box/timed.arrows
            ;;
        esac
    done
done

# Values that a fitted vocabulary does not hold.
printf 'u,item,click\n1,a,1\n9,d,0\n,,1\n8,e,1\n4,c,0\n' | ctr-import -f csv --header -o day3.arrows
exits 'a fitted vocabulary: values that it does not hold are counted' 0 ctr-extract day.fitted day3.arrows
is 'by vocabulary, without nulls' "$(cat "$W/err")" 'ctr-extract: day.fitted does not know 2 of 4 values: vocab.item 2 of 4 (50%)'
for how in 'feature item = vocab(item)\nkeep k = item' 'feature item = vocab(split(item, "|"))' 'feature item = vocab(cross(item, "x"))' \
    'feature item = vocab(cross(item, "x"))\nkeep k = item' 'keep item = vocab(item)'; do
    printf "$how\n" >how.plan
    ctr-extract --fit how.plan -o how.fitted day1.arrows
    ctr-extract how.fitted day3.arrows 2>err >/dev/null
    is "the same of $how" "$(sed 's/.*: //' err)" 'vocab.item 2 of 4 (50%)'
    ctr-extract --names how.names how.fitted day3.arrows 2>err >/dev/null
    is 'and with names' "$(sed 's/.*: //' err)" 'vocab.item 2 of 4 (50%)'
done
exits '--max-unknown: as many as allowed' 0 ctr-extract --max-unknown .5 day.fitted day3.arrows
exits 'more' 1 ctr-extract --max-unknown .49 -o no.feat day.fitted day3.arrows
err_like 'are an error' 'day.fitted does not know 50% of the values of vocab.item, more than --max-unknown 0.49 allows'
ok 'without an output' test ! -e no.feat
exits 'a share is from 0 to 1' 2 ctr-extract --max-unknown 5 day.fitted day3.arrows
is 'known values alone: nothing is said' "$(ctr-extract day.fitted day1.arrows 2>&1 >/dev/null)" ''

# What operators multiply is bounded, and batches are cut.
awk 'BEGIN { print "id,a"; for (r = 0; r < 40; r++) { s = ""; for (i = 0; i < 300; i++) s = s (i ? "|" : "") r * i % 97; print r "," s } }' >wide.csv
ctr-import -f csv --header wide.csv -o wide.arrows
printf 'keep id\nfeature p = cross(split(a, "|"), split(a, "|"))\nfeature q = split(a, "|")\n' >wide.plan
ctr-extract wide.plan wide.arrows -o wide.feat
ctr-extract --memory 20M wide.plan wide.arrows -o cut.feat
ok 'a batch that takes more than --memory is cut' test "$(ctr-info cut.feat | awk '/^batches/ { print $2 }')" -gt 10
is 'and its rows are the same' "$(digest cut.feat)" "$(digest wide.feat)"
exits 'a row that takes more' 1 ctr-extract --memory 4M wide.plan wide.arrows
err_like 'is named' 'wide.plan:2:13: row 1: the result takes 703.2 KiB, and 204.8 KiB is what one may take: shorten its lists or texts, or give more --memory'
is 'vocabularies see the rows of all parts once' "$(printf 'feature v = vocab(split(a, "|"))\nfeature p = cross(split(a, "|"), split(a, "|"))\n' >v.plan
    ctr-extract --fit v.plan wide.arrows -o v1; ctr-extract --memory 20M --fit v.plan wide.arrows -o v2; cmp v1 v2 && echo same)" same
awk 'BEGIN { print "a"; s = ""; for (i = 0; i < 61000; i++) s = s (i ? "|" : "") "x"; print s }' | ctr-import -f csv --header -o bomb.arrows
printf 'feature p = cross(split(a, "|"), split(a, "|"))\n' >bomb.plan
[ -n "$SAN" ] || ok 'one row of 122 KB makes no gigabytes' below 65536 sh -c '! ctr-extract bomb.plan bomb.arrows >/dev/null'
exits 'a row of 3.7e9 keys' 1 ctr-extract bomb.plan bomb.arrows
err_like 'is refused' 'row 1: the result takes 27.8 GiB, and 64 MiB is what one may take'
awk 'BEGIN { print "a,y"; s = ""; for (i = 0; i < 300; i++) s = s (i ? "|" : "") i; for (r = 0; r < 9; r++) print s "," r % 2 }' | ctr-import -f csv --header -o keys.arrows
printf 'label y\nfeature p = cross(split(a, "|"), split(a, "|"))\n' >keys.plan
ctr-extract --batch 1 keys.plan keys.arrows -o keys.feat
exits 'ctr-train: a row whose keys take more than a quarter of --memory' 1 ctr-train lr -q --memory 8M -o no.m keys.feat
err_like 'is named' 'row 1 has 90000 keys and numbers, which take 2.[0-9] MiB, and of --memory 8 MiB a row may take a quarter'
{ echo 'x0 = "0123456789abcdef0123456789abcdef"'; for i in $(seq 27); do echo "x$i = concat(x$((i - 1)), x$((i - 1)))"; done; echo 'keep y = concat(a, x27)'; } >const.plan
exits 'constants that double line by line' 2 ctr-extract const.plan bomb.arrows
err_like 'are bounded' 'const.plan:17:7: what is computed here from literals alone is longer than 1048576 bytes'

# A quotient is a float; // rounds down.
printf 'click,shown\n1,4\n3,4\n0,0\n' | ctr-import -f csv --header >ratio.arrows
is '/ of integers is a float, // an integer, both null by 0' "$(ctr-select --add 'r = click / shown' --add 'q = click // shown' ratio.arrows | csv)" 'click,shown,r,q
1,4,0.25,0
3,4,0.75,0
0,0,,'

# The manual's table of operators is the program's.
ctr-extract --list-ops | awk -F'\t' -f "$CTR_TOP/tests/ops-to-mdoc.awk" >ops.mdoc
sed -n '/^\.Sh OPERATORS/,/^\.El/p' "$CTR_TOP/man/ctr-plan.5" | sed 1d >page.mdoc
ok "ctr-plan(5) lists the operators (ctr-extract --list-ops | awk -F'\\t' -f tests/ops-to-mdoc.awk)" diff page.mdoc ops.mdoc
# What it says of lists is what they take.
ctr-extract --list-ops | awk -F'\t' '$1 ~ /^(sort|unique|top|sum|mean|max|min|mode)$/ { print $1, $2 }' >of-lists.txt
is 'operators of lists' "$(wc -l <of-lists.txt)" 8
echo x | ctr-import -q -f csv --header -c x -o nothing.arrows
of_list() { # NAME SIGNATURE WORD LIST: the operator takes the list if and only if its signature has the word
    [ "$1" = top ] && set -- "$1" "$2" "$3" "$4, 1"
    case $2 in *"$3"*) _takes=0 ;; *) _takes=2 ;; esac
    ctr-select -q --add "y = $1($4)" nothing.arrows >/dev/null
    [ $? = $_takes ]
}
while read -r name signature; do
    for list in 'numbers [1, 2]' 'numbers [1.5, 2.5]' 'texts ["a", "b"]' 'times [ts"2024-01-01T00:00Z"]' 'durations [1h, 2s]' 'bools [true]'; do
        ok "$name(${list#* }): by what its signature says" of_list "$name" "$signature" "${list%% *}" "${list#* }"
    done
done <of-lists.txt
exits 'the largest of texts' 2 ctr-select --add 'y = max(split("a|b", "|"))' nothing.arrows
err_like 'is refused with a remedy for lists' 'got list<utf8>: number.x. or int.x. reads each text of a list'
exits 'a list that is written out, with another argument that is wrong' 2 ctr-select --add 'y = histogram([1, 2], 4, 0, 4)' nothing.arrows
err_like 'the wrong one is named' 'histogram wants low below high'
exits 'too many arguments behind one' 2 ctr-select --add 'y = sum([1, 2], 3)' nothing.arrows
err_like 'is what is said' 'sum does not take 2 arguments'
# Each has an example, "EXPR is VALUE" or "where x is ROW, ROW: EXPR is VALUE, VALUE", and the examples are true.
ctr-extract --list-ops | awk -F'\t' '{
    begins = $1 == "neg" ? "-" : $1 == "not" ? "not " : ""
    inside = $1 ~ /^[a-z]/ && $1 !~ /^(or|and|in)$/ ? $1 "(" : " " $1 " "
    n = split($3, part, "; ")
    for (i = 1; i <= n; i++) {
        rows = ""
        for (e = part[i]; at = index(e, ": "); e = substr(e, at + 2))
            rows = e ~ /^where x is / ? substr(e, 12, at - 12) : ""
        at = index(e, " is ")
        v = substr(e, at + 4)
        e = substr(e, 1, at - 1)
        if (begins ? index(e, begins) != 1 : !index(e, inside))
            continue
        if (rows == "") # words may follow one value
            v = v ~ /^\[/ ? substr(v, 1, index(v, "]")) : substr(v, 1, index(v ", ", ", ") - 1)
        print $1 "\t" e "\t" v "\t" rows
    } }' >told.txt
ctr-extract --list-ops | cut -f 1 | sort >named.txt
is 'operators without an example' "$(cut -f 1 told.txt | sort -u | comm -13 - named.txt)" ''
printf 'ad,price\n7,2.5\n' | ctr-import -q -f csv --header | ctr-cat --to file -k ad -o ads.arrow
printf 'word\tv\nbox\t[3,4]\nred\t[1,2]\n' | ctr-import -q -f tsv --header -c 'v:fixed_size_list<float32>[2]' | ctr-cat --to file -k word -o words.arrow
while IFS="$(printf '\t')" read -r name expr value rows; do
    printf 'keep y = %s\n' "$expr" >told.plan
    { echo x; echo "${rows:-1}" | sed 's/, /\n/g'; } | ctr-import -q -f csv --header -o told.arrows
    ctr-extract -q --fit told.plan told.arrows -o told.fit 2>/dev/null || cp told.plan told.fit # nothing in it is fitted
    is "an example of $name in ctr-plan(5): $expr" \
        "$(ctr-extract -q told.fit told.arrows | ctr-export -f tsv --no-header | tr -d '"' | awk '{ printf "%s%s", s, $0; s = ", " }')" "$value"
done <told.txt
# Names of keys that literals are part of: text that a person would write.
printf 'user,click,x\nu,1,1\n' | ctr-import --format csv --header -o lit.arrows
cat >lit.plan <<'PLAN'
label   click
feature a = cross(user, "s")
feature b = cross(user, -7)
feature c = cross(user, 1.5)
feature d = cross(user, true)
feature e = cross(user, ts"2020-01-01T00:00Z")
feature f = cross(user, [1, 2])
feature g = hash(user)
feature h = cross(user, lower(user))
feature i = cross(user, lower(user))
dense   v = x
PLAN
ctr-extract --names lit.names lit.plan lit.arrows -o lit.out
is "names with literals" "$(ctr-export --no-header -c table,name lit.names | sort | tr '\n' ';')" \
    'a,u x s;b,u x -7;c,u x 1.5;d,u x true;e,u x 2020-01-01T00:00:00Z;f,u x 1;f,u x 2;g,u;h,u x u;i,u x u;'
# ---- a lookup of what is no file: a model may name anything
mkfifo "$W/fifo.arrow"
printf 'label y\nfeature v = lookup("%s", y, "v")\n' "$W/fifo.arrow" >"$W/fifo.plan"
printf 'y\n1\n' | ctr-import -f csv --header >"$W/fifo.in"
exits "lookup of a FIFO without a writer does not wait" 1 timeout 10 ctr-extract "$W/fifo.plan" "$W/fifo.in"
err_like "it says why" 'fifo.arrow: is no regular file, and blocks are read in any order: ctr-cat --to file -o FILE makes one'
# ---- numbers that float32 does not hold
printf 'g\tx\tl\na\t2\t[1]\nb\tinf\t[]\na\t1e39\t[1,-1e39]\na\t-1e300\t\n' |
    ctr-import -q -f tsv --header -c 'g:utf8,x:float64,l:list<float64>' -o large.arrows
printf 'dense d = x\ndense e = l\nfeature g\n' >large.plan
large='row 3: 1e+39 in column d is beyond float32, which dense numbers are (3.4e38), and infinite in the features; log1p(x), or x / 1e9, in the plan makes a number x smaller'
for f in large.arrows shared.arrows; do
    [ -e $f ] || ctr-cat --share x large.arrows -o $f
    exits "a dense number of $f beyond float32" 0 ctr-extract -o large.feat large.plan $f
    is 'is told with row and value' "$(grep -F "$large" err | wc -l) $(grep -c 'row 3: -1e.39 in column e' err) $(wc -l <err)" '1 1 2'
done
done_testing
