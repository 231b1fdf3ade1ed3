#!/bin/sh
# A plan that runs the whole way from raw views: the bytes of features and models are those of the filters in pipes, for every
# statement, any number of threads, text and streams; what it reads; what it refuses.
. "${0%/*}/lib.sh"
cd "$W" || exit 1

awk -v n="${SAN:+3000}" 'BEGIN {
    srand(5); n = n ? n : 20000
    print "id,user,ad,time,click,words,unused" >"log.csv"
    print "id,ctr,hour" >"basic.csv"
    for (i = 0; i < n; i++) {
        w = "w" int(rand() * 50)
        for (k = int(rand() * 3); k > 0; k--) w = w "|w" int(rand() * 50)
        printf "%d,%d,%d,%d,%d,%s,%s\n", i, int(rand() * 300), int(rand() * 60), 1600000000 + i, rand() < .2, w, "unused text of row " i >"log.csv"
        if (i % 7) printf "%d,%.4f,%d\n", i, rand(), i % 24 >"basic.csv"
    }
    print "user,age,city" >"users.csv"
    for (u = 0; u < 280; u++) printf "%d,%d,c%d\n", u, 20 + u % 50, u % 9 >"users.csv"
    print "ad,brand,time" >"ads.csv"
    for (a = 0; a < 60; a++) for (k = 0; k < 3; k++) printf "%d,b%d,%d\n", a, (a + k) % 11, 1600000000 + 5000 * k + 10 * a >"ads.csv"
    print "user,at,buy" >"buys.csv"
    for (u = 0; u < 300; u++) printf "%d,%d,%d\n", u, 1600000000 + u * 20, u % 5 >"buys.csv"
}' </dev/null
for v in log basic users ads buys; do
    ctr-import -f csv --header $v.csv -o $v.arrows || exit 1
done
ctr-select -q --add 'words=split(words, "|")' log.arrows -o lists.arrows || exit 1

# The features behind the statements of a case.
definitions() {
    echo "label click
feature user
feature ad
$1"
}

# fused NAME DEFINITIONS STATEMENTS VIEWS… : a plan of these statements, over the views, and the pipe of filters, whose table is in
# table.arrows.
fused() {
    _case=$1 _defs=$2 _statements=$3
    shift 3
    { echo "$_statements"; definitions "$_defs"; } >plan
    ctr-extract -q --table plan table.arrows -o want.arrows || echo failed >want.arrows
    for j in 1 ${SAN:-3}; do
        ok "$_case: the bytes of the pipe, -j $j" ctr-extract -q -j $j plan "$@" -o got.arrows
        ok "$_case: equal, -j $j" cmp want.arrows got.arrows
    done
    ctr-train lr -q want.arrows -o want.model
    ok "$_case: a model" ctr-train lr -q -j 2 plan "$@" -o got.model
    ok "$_case: the bytes of the pipe's model" cmp want.model got.model
}

ctr-select -q --where 'click == 1 or id % 3 != 0' log.arrows -o table.arrows
fused where 'feature words' 'from log
where click == 1 or id % 3 != 0' log=log.arrows
ctr-select -q --explode words lists.arrows -o table.arrows
fused explode 'feature words' 'from log
explode words' log=lists.arrows
ctr-select -q --add 'words=split(words, "|")' log.arrows | ctr-select -q --explode words | ctr-select -q --add '`a word`=concat(words, ad)' |
    ctr-select -q --add 'user=user % 280' | ctr-join -q -k user users.arrows -o table.arrows
fused 'add, of what is exploded and joined on' 'feature words
feature `a word`
feature city' 'from log
add words = split(words, "|")   # of the text of the view
explode words
add `a word` = concat(words, ad)
add user = user % 280
join users on user' log=log.arrows users=users.arrows
is 'add: neither it nor what is read under its name is asked of another view' \
    "$(ctr-extract --inputs plan log=log.arrows users=users.arrows | tr '\t\n' '. ')" 'log.user log.ad log.click log.words users.user users.city '
ctr-extract --explain plan log=log.arrows users=users.arrows >shown
ok 'add: --explain names the filter' grep -qF "stage 2  ctr-select --add='words=split(words, \"|\")'" shown
ctr-join -q -k user users.arrows log.arrows -o table.arrows
fused join 'feature city
dense age' 'from log
join users on user' log=log.arrows users=users.arrows
ctr-join -q -k user --inner --prefix=u. users.arrows log.arrows -o table.arrows
fused 'join inner prefix' 'feature city = u.city' 'from log
join users on user inner prefix "u."' log=log.arrows users=users.arrows
ctr-join -q -k user --anti users.arrows log.arrows -o table.arrows
fused 'join anti' '' 'from log
join users on user anti' log=log.arrows users=users.arrows
ctr-join -q -k ad --multi --prefix=ad. ads.arrows log.arrows -o table.arrows
fused 'join multi' 'feature brand = ad.brand' 'from log
join ads on ad multi prefix "ad."' log=log.arrows ads=ads.arrows
ctr-join -q -k ad --as-of=time --within=30m ads.arrows log.arrows -o table.arrows 2>/dev/null
fused 'join as-of within' 'feature brand' 'from log
join ads on ad as-of time within 30m' log=log.arrows ads=ads.arrows
ctr-join -q -k user --next=time=at buys.arrows log.arrows -o table.arrows
fused 'join next' 'feature buy' 'from log
join buys on user next time = at' log=log.arrows buys=buys.arrows
ctr-join -q -k id --merge basic.arrows log.arrows -o table.arrows
fused 'join merge' 'dense ctr
feature hour' 'from log
join basic on id merge' log=log.arrows basic=basic.arrows
ctr-select -q --columns 'age,city' users.arrows | ctr-select -q --head 280 -o side.arrows
ctr-select -q --head 280 log.arrows -o short.arrows
ctr-join -q --by-row side.arrows short.arrows -o table.arrows
fused 'join by-row' 'feature city' 'from log
join side by-row' log=short.arrows side=side.arrows

ctr-select -q --add 'at=ts"2024-01-01T00:00Z" + 1s * time' log.arrows -o days.arrows
ctr-history -q --columns=ad --user=user --time=at --where='click == 1' --last=5 --window=1h days.arrows -o table.arrows
fused history 'feature past in ad = history.ad' 'from log
history ad by user at at where "click == 1" last 5 window 1h' log=days.arrows
ctr-history -q --user=user --time=at --where='click == 1' --count=ad,user+ad --prior=5.5 --count-window=2h --delay=1m days.arrows -o table.arrows
fused 'history count' 'dense rate = count.ad.rate
dense n = log1p(`count.user+ad.clicks`)' 'from log
history by user at at where "click == 1" count ad, user+ad prior 5.5 count-window 2h delay 1m' log=days.arrows
ctr-history -q --columns=ad --user=user --time=at --where='click == 1' --window=1h --dwell='id % 7 * 1000' --min-dwell=5s --delay=1s days.arrows -o table.arrows
fused 'history dwell' 'feature past in ad = history.ad' 'from log
history ad by user at at where "click == 1" window 1h dwell "id % 7 * 1000" min-dwell 5s delay 1s' log=days.arrows
ctr-select -q --columns 'user,at,bought=ad,buy=click' --where 'id % 2 == 0' days.arrows -o second.arrows
ctr-history -q --columns=bought --user=user --time=at --where='buy == 1 or bought < 9' --last=4 --window=2h --behaviours second.arrows days.arrows -o table.arrows
fused 'history from another log' 'feature past in ad = history.bought' 'from log
history bought from second by user at at where "buy == 1 or bought < 9" last 4 window 2h' log=days.arrows second=second.arrows
ctr-export -q -f csv second.arrows -o second.csv
ctr-import -q -f csv --header --time=at --user=user second.csv -o second2.arrows
ctr-import -q -f csv --header --time=time:unix --user=user log.csv |
    ctr-history -q --count=user --user=user --time=time --where='buy == 1' --behaviours second2.arrows -o table.arrows
fused 'history of counts, text, the time by its role' 'dense n = log1p(count.user.clicks)
time time' 'from log = csv("log.csv", header=true, time="time:unix", user="user")
history from second = csv("second.csv", header=true, time="at", user="user") count user by user at time where "buy == 1"'

ctr-group -q --key=user,ad --add='n=count()' --add='click=max(click)' --add='late=quantile(time, 0.9)' --add='words=first(words)' log.arrows -o table.arrows
fused group 'feature words
dense n' 'from log
group user, ad, n = count(), click = max(click), late = quantile(time, 0.9), words = first(words)' log=log.arrows
ctr-select -q --where 'click == 1' log.arrows | ctr-join -q -k user users.arrows |
    ctr-group -q --key=user --add='ad=last(ad)' --add='click=mean(click)' --add='age=mean(age)' -o table.arrows
fused 'group of a join' 'dense age' 'from log
where click == 1
join users on user
group user, ad = last(ad), click = mean(click), age = mean(age)' log=log.arrows users=users.arrows

# All other words of the statements, features alone. A word that is left out of the plan gives other bytes.
same() {
    _case=$1 _defs=$2 _statements=$3 _without=$4
    shift 4
    { echo "$_statements"; definitions "$_defs"; } >plan
    ctr-extract -q --table plan table.arrows -o want.arrows || echo failed >want.arrows
    ok "$_case" ctr-extract -q -j 2 plan "$@" -o got.arrows
    ok "$_case: the bytes of the pipe" cmp want.arrows got.arrows
    [ "$_without" ] || return 0
    sed "s/$_without//" plan >other
    ctr-extract -q other "$@" 2>/dev/null | ctr-export -q -f jsonl >other.jsonl 2>/dev/null
    ok "$_case: not without it" sh -c '! ctr-export -q -f jsonl got.arrows | cmp -s - other.jsonl'
}
ctr-sort -q -k user log.arrows -o byuser.arrows
ctr-sort -q -k user users.arrows -o users2.arrows
ctr-join -q -k user --merge --inner users2.arrows byuser.arrows -o table.arrows
same 'join merge inner' 'feature city' 'from log
join users on user merge inner' ' inner' log=byuser.arrows users=users2.arrows
ctr-join -q -k user --merge --anti users2.arrows byuser.arrows -o table.arrows
same 'join merge anti' '' 'from log
join users on user merge anti' ' anti' log=byuser.arrows users=users2.arrows
ctr-sort -q -k ad log.arrows -o byad.arrows
ctr-join -q -k ad --merge --multi --prefix=x. ads.arrows byad.arrows -o table.arrows
same 'join merge multi' 'feature brand = x.brand' 'from log
join ads on ad merge multi prefix "x."' ' multi' log=byad.arrows ads=ads.arrows
ctr-select -q --columns 'user,ad,rank=id' log.arrows | ctr-sort -q -k user,ad --unique -o pairs.arrows
ctr-join -q -k user,ad pairs.arrows log.arrows -o table.arrows
same 'join on two keys' 'feature rank' 'from log
join pairs on user, ad' '' log=log.arrows pairs=pairs.arrows
ctr-join -q -k user --next=time=at --within=1s buys.arrows log.arrows -o table.arrows
same 'join next within' 'feature buy' 'from log
join buys on user next time = at within 1s' ' within 1s' log=log.arrows buys=buys.arrows
ctr-join -q -k user --as-of=time=at buys.arrows log.arrows -o table.arrows
same 'join as-of of two names' 'feature buy' 'from log
join buys on user as-of time = at' '' log=log.arrows buys=buys.arrows
ctr-join -q -k user --next=time=at --once buys.arrows log.arrows -o table.arrows
same 'join next once' 'feature buy' 'from log
join buys on user next time = at once' ' once' log=log.arrows buys=buys.arrows
ctr-join -q -k user --next=time=at --once --first buys.arrows log.arrows -o table.arrows
same 'join next once first' 'feature buy' 'from log
join buys on user next time = at once first' ' first' log=log.arrows buys=buys.arrows
ctr-select -q --columns 'user,time,seen=id' log.arrows -o seen.arrows
ctr-join -q -k user --as-of=time --inclusive seen.arrows log.arrows -o table.arrows
same 'join as-of inclusive' 'feature seen' 'from log
join seen on user as-of time inclusive' ' inclusive' log=log.arrows seen=seen.arrows
ctr-sort -q -k user,time:desc log.arrows -o table.arrows
same 'sort' 'feature words' 'from log
sort user, time desc' ' desc' log=log.arrows
ctr-sort -q -k user,ad --unique log.arrows -o table.arrows
same 'unique' 'feature words' 'from log
unique user, ad' ', ad' log=log.arrows
ctr-group -q --each-row -k ad --add 'n=count()' --add 'm=mean(click)' log.arrows -o table.arrows
same 'groups joined back' 'dense n
dense m' 'from log
join (group ad, n = count(), m = mean(click)) on ad' '' log=log.arrows
ctr-sort -q -k time log.arrows -o bytime.arrows
ctr-group -q --each-row -k ad,user --add 'n=count()' --add 'm=mean(click)' --as-of time bytime.arrows -o table.arrows
same 'as of a time' 'dense n
dense m' 'from log
join (group ad, user, n = count(), m = mean(click)) on user, ad as-of time' ' as-of time' log=bytime.arrows
ctr-group -q -k user --add 'n=count()' --add 'buy=last(buy)' buys.arrows | ctr-join -q -k user --prefix b. - log.arrows -o table.arrows
same 'a view that is grouped' 'feature buy = b.buy
dense n = b.n' 'from log
join buys (group user, n = count(), buy = last(buy)) on user prefix "b."' '' log=log.arrows buys=buys.arrows
ctr-select -q --add 'more=join(words, "+")' --add 'more=split(more, "+")' lists.arrows -o two.arrows
ctr-select -q --explode words,more two.arrows -o table.arrows
same 'explode of two lists' 'feature words
feature more' 'from log
explode words, more' '' log=two.arrows
behaviours='history ad by user at at where "click == 1"'
for words in 'oldest:--order=oldest' 'age:--age' 'last 2:--last=2' 'window 20m:--window=20m' 'delay 10m:--delay=10m' 'group "past":--group=past' \
    'dwell "1000 * (id % 7)" min-dwell 5s:--dwell=1000 * (id % 7) --min-dwell=5s' 'dwell "5000" min-dwell 3s:--dwell=5000 --min-dwell=3s'; do
    case $words in
    age:*) of='dense h = history.age' ;;
    group*) of='feature h = past.ad' ;;
    *) of='feature h = history.ad' ;;
    esac
    case $words in
    dwell*) set -- "${words#*:}" && set -- "${1% --*}" "--${1##* --}" ;; # an expression has blanks
    *) set -- "${words#*:}" ;;
    esac
    ctr-history -q --columns=ad --user=user --time=at --where='click == 1' "$@" days.arrows -o table.arrows
    case $words in age:* | group*) without= ;; *) without=" $(echo "${words%%:*}" | sed 's/\*/\\*/')" ;; esac
    same "history ${words%%:*}" "$of" "from log
$behaviours ${words%%:*}" "$without" log=days.arrows
done
ctr-sort -q --shuffle --seed 3 days.arrows -o shuffled.arrows
ctr-history -q --columns=ad --user=user --time=at --sort shuffled.arrows -o table.arrows
same 'history sort' 'feature h = history.ad' 'from log
history ad by user at at sort' ' sort' log=shuffled.arrows
ctr-select -q --add 'at=if(id % 3 == 1, at - 5s, at)' days.arrows -o late.arrows
ctr-history -q --columns=ad --user=user --time=at --lateness=1m late.arrows -o table.arrows
same 'history lateness' 'feature h = history.ad' 'from log
history ad by user at at lateness 1m' ' lateness 1m' log=late.arrows

# An option of a filter has a word in its statement, or the manual says that it has none.
common=$(ctrkit --list-options | cut -f1)
sed -n '/^\.Ss Statements/,/^\.Ss Kinds/p' "$CTR_TOP/man/ctr-plan.5" >section.txt
sed -n '/have a word, but for/,/^\.El/p' section.txt >left-out.txt
for filter in join history; do
    printf 'from log\n%s nothing nothing\n' $filter >words.plan
    ctr-extract words.plan log=log.arrows 2>&1 | sed -n 's/.*expected \(.*\), not nothing$/\1/p' | sed 's/, /\n/g; s/ or /\n/g' >$filter.words
    while read -r word; do
        ok "$filter: the manual has the word $word" sh -c "grep -Eq '^\.Ql $word( |$)|FORMAT.* $word (VIEW|KEY)' section.txt"
    done <$filter.words
done
grep -o 'ctr-select --[a-z]*' section.txt | sed 's/.*--//' >select.words
sed -n '/^The options are$/,/^The plan in/p' section.txt | tr -s ' ,"=' '\n' >import.words
printf 'key\nadd\neach-row\nas-of\n' >group.words # by their place
has_word() {
    case $1$2 in
    join--key) _word=on ;;
    history--columns) return 0 ;; # by their place
    history--user) _word=by ;;
    history--time) _word=at ;;
    history--behaviours) _word=from ;;
    history--order) _word=oldest ;;
    import--format) return 0 ;; # FORMAT(…)
    import--bad-rows) _word=bad_rows ;;
    import--skip-lines) _word=skip_lines ;;
    import--label | import--weight | import--user | import--query | import--id | import--score) _word=roles ;;
    *) _word=${2#--} ;;
    esac
    grep -qxF -- "$_word" $1.words || sed -n "/^\.It .* of .*ctr.$1/p" left-out.txt | grep -q -- " -${2#--} "
}
for filter in join history select group import; do
    for option in $(ctr-$filter --list-options | cut -f1); do
        case " $(echo $common) " in *" $option "*) continue ;; esac
        ok "ctr-$filter $option has a word, or the manual says that it has none" has_word $filter "$option"
    done
done

# Each option of a view of text, against ctr-import.
printf '7;Bj\366rk;-;3\n8;\304nne;1;x\n9;Z;1;4\n' >odd.txt
ctr-import -q -f csv --delimiter ';' --null - --encoding latin1 --columns 'ad:int64,user,click:int8,n:int64' --bad-rows skip=1 odd.txt 2>/dev/null |
    ctr-select -q --add 'click=fill(click, 0)' -o table.arrows
{ echo 'from log = csv("odd.txt", delimiter=";", null="-", encoding="latin1", columns="ad:int64,user,click:int8,n:int64", bad_rows="skip=1")
label click = fill(click, 0)'; definitions 'feature n' | sed 1d; } >odd.plan
ok 'options of text' ctr-extract odd.plan -o odd.arrows
cp "$W/.ok" said
ok 'options of text: a bad row is told' grep -q 'view log: .*1 bad rows skipped' said
ctr-extract -q --table odd.plan table.arrows -o want.arrows
ok 'options of text: the rows of ctr-import' same_rows want.arrows odd.arrows

# Cleaning: rows are filtered, gaps filled and JSON read in the plan, from raw text.
awk -v n="${SAN:+3000}" 'BEGIN {
    srand(9); n = n ? n : 20000
    print "{\"id\":-1,\"ad\":0,\"user\":0,\"click\":0,\"price\":1.5,\"context\":\"{}\"}" >"raw.jsonl"
    for (i = 0; i < n; i++)
        printf "{\"id\":%d,\"ad\":%d,\"user\":%s,\"click\":%d%s,\"context\":\"{\\\"slot\\\":\\\"s%d\\\",\\\"os\\\":{\\\"name\\\":\\\"o%d\\\"}}\"}\n", i, rand() * 60,
            rand() < .1 ? "null" : int(rand() * 300), rand() < .2, rand() < .3 ? "" : ",\"price\":" int(rand() * 99), i % 5, i % 3 >"raw.jsonl"
}' </dev/null
columns='id:int64,ad:int64,user:int64,click:int8,price:float64,context:utf8'
ctr-import -q -f jsonl --columns="$columns" raw.jsonl | ctr-select -q --where 'not is_null(user) and id >= 0' | ctr-join -q -k user users.arrows -o table.arrows
fused clean 'feature slot = json_get(context, "slot")
feature os = json_get(json_get(context, "os"), "name")
dense price = fill(price, 7)
dense age = fill(age, 0)' 'from raw = jsonl("raw.jsonl", columns="id:int64,ad:int64,user:int64,click:int8,price:float64,context:utf8")
where not is_null(user) and id >= 0
join users on user' users=users.arrows

# A view beyond --memory: both sides are spilled, and the rows stay.
ctr-select -q --columns 'id,extra=words,extra2=unused' log.arrows | ctr-sort -q --shuffle -o wide.arrows
printf 'from log\njoin wide on id\n%s\n' "$(definitions 'feature extra
feature extra2')" >wide.plan
ctr-extract -q wide.plan log=log.arrows wide=wide.arrows -o want.arrows
ok 'a join beyond memory' ctr-extract -v --memory 256K wide.plan log=log.arrows wide=wide.arrows -o got.arrows
cp "$W/.ok" said
ok 'is spilled' grep -q 'join wide: [1-9][0-9]* partitions, .* spilled' said
ok 'the same rows' same_rows want.arrows got.arrows

# Texts that are split are one sequence where the plan says so: the same features and model as from the lists of a history.
ctr-history -q --columns=ad,words --user=user --time=at --where='click == 1' --last=5 days.arrows |
    ctr-select -q --where 'length(history.ad) > 0' -o lists2.arrows
ctr-select -q --add 'ads=join(history.ad, ";")' --add 'said=join(history.words, ";")' --columns 'click,user,ad,words,ads,said' lists2.arrows -o texts2.arrows
common='label click
feature ad
feature words'
printf '%s\nfeature past in ad of ad = history.ad\nfeature said in words of words = history.words\n' "$common" >lists2.plan
printf '%s\nfeature past in ad of ad group history = split(ads, ";")\nfeature said in words of words group history = split(said, ";")\n' "$common" >texts2.plan
for f in lists2 texts2; do
    ctr-extract -q $f.plan $f.arrows -o $f.features
    ctr-export -q -f jsonl $f.features >$f.jsonl
    ctr-train din -q --seed 1 --embedding 4 --hidden 8 $f.features -o $f.model
    ctr-predict -q $f.model $f.features | ctr-select -q --columns score | ctr-export -q -f csv >$f.scores
done
ok 'group: the keys of split texts are those of lists' cmp lists2.jsonl texts2.jsonl
ok 'group: din sees one sequence' cmp lists2.scores texts2.scores
ok 'group: and scores' test "$(sort -u texts2.scores | wc -l)" -gt 10
sed 's/group history/group other/' texts2.plan | sed '0,/group other/s//group history/' >apart.plan
ctr-extract -q apart.plan texts2.arrows -o apart.features
ok 'group: two groups are two sequences' sh -c 'ctr-train din -q --seed 1 --embedding 4 --hidden 8 apart.features -o apart.model && ! cmp -s apart.model texts2.model'
ctr-select -q --add 'said=concat(said, ";w1")' texts2.arrows -o uneven.arrows
exits 'group: lists of unequal length' 1 sh -c 'ctr-extract -q texts2.plan uneven.arrows | ctr-train din -q -o uneven.model'
ok 'group: names the columns' grep -q 'past.*said\|said.*past' err
printf 'label click\nfeature ad group past\n' >scalar.plan
exits 'group: of no list' 2 ctr-extract scalar.plan texts2.arrows
ok 'group: says so' grep -q 'group past is of lists that are aligned; ad is no list' err

# Everything at once, views as text, two files of one view.
head -n 1001 log.csv >day1.csv
{ head -n 1 log.csv; tail -n +1002 log.csv; } >day2.csv
cat >all.plan <<'END'
from log = csv(header=true, time="time:unix")
where click == 1 or id % 3 != 0   # a comment
join users = csv("users.csv", header=true) on user
join ads = csv("ads.csv", header=true, time="time:unix") on ad as-of time
join basic = csv(header=true) on id merge
w = split(words, "|")
label click
time time
feature user
feature city
feature brand
feature w
dense ctr
END
ctr-import -q -f csv --header --time=time:unix day1.csv day2.csv |
    ctr-select -q --where 'click == 1 or id % 3 != 0' -o 1.arrows
ctr-import -q -f csv --header --time=time:unix ads.csv -o 2.arrows
ctr-join -q -k user users.arrows 1.arrows | ctr-join -q -k ad --as-of=time 2.arrows |
    ctr-join -q -k id --merge basic.arrows >table.arrows
ctr-extract -q --table all.plan table.arrows -o want.arrows
ok 'text, all statements' ctr-extract -v -j 3 all.plan log=day1.csv log=day2.csv basic=basic.csv -o got.arrows
cp "$W/.ok" said
ok 'the bytes of the pipe' cmp want.arrows got.arrows
ok 'the bytes that were read are told' grep -q 'view log: .* read' said
ok 'and what each stage did' grep -q 'stage join: .*busy, .*waiting, .*blocked' said
ctr-train lr -q want.arrows -o want.model
ok 'the plan is in the model' ctr-train lr -q -j 2 all.plan log=day1.csv log=day2.csv basic=basic.csv -o got.model
ok 'whose bytes are those of the pipe' cmp want.model got.model
ok 'the trainer tells how it waited' sh -c "ctr-train lr -v -j 2 all.plan log=day1.csv log=day2.csv basic=basic.csv -o again.model 2>&1 | grep 'stage train: .*waiting'"
ok 'with the same bytes' cmp want.model again.model
ok 'a model runs its statements' ctr-extract -q got.model log=log.csv users=users.csv ads=ads.csv basic=basic.csv -o again.arrows
ok 'with the same features' same_rows want.arrows again.arrows
exits 'a model opens no file by itself' 2 ctr-extract got.model log=log.csv basic=basic.csv
ok 'and says so' grep -q 'not opened unasked' err
sed 's/csv("users.csv"/csv("other.csv"/' all.plan >other.plan
is 'the name of a file is no part of the identity' "$(ctr-extract --explain all.plan log=log.csv basic=basic.csv | grep -o 'id .*')" \
    "$(ctr-extract --explain other.plan log=log.csv users=users.csv basic=basic.csv | grep -o 'id .*')"
ok 'fitted over views' sh -c 'sed "s/^feature user$/feature user = vocab(user, min=2)/" all.plan >fit.plan
    ctr-extract -q --fit fit.plan -o fitted.arrows log=log.csv basic=basic.csv && ctr-extract -q --fit fit.plan --table -o want.fitted table.arrows'
for f in want.fitted fitted.arrows; do ctr-select --only vocab.user $f -o $f.vocab; done
ok 'the state is that of the table' same_rows want.fitted.vocab fitted.arrows.vocab
mkfifo pipe
ok 'a view that is a pipe' sh -c 'cat log.csv >pipe & ctr-extract -v -j 2 all.plan log=pipe basic=basic.csv -o got.arrows 2>said'
ok 'has no threads, which -v tells' grep -q 'a view is not a regular file: one thread reads the views and runs all stages' said
ok 'the same rows' same_rows want.arrows got.arrows

# What is read.
is 'only what something reads, by view' "$(ctr-extract --inputs all.plan log=log.csv basic=basic.csv | tr '\t\n' '. ')" \
    'log.id log.user log.ad log.time log.click log.words users.user users.city ads.ad ads.brand ads.time basic.id basic.ctr '
{ echo 'from log'; definitions ''; } >few.plan
{ echo 'from log'; definitions 'feature unused'; } >more.plan
ctr-extract -v few.plan log=log.arrows 2>few.err >/dev/null
ctr-extract -v more.plan log=log.arrows 2>more.err >/dev/null
bytes() { sed -n 's/.*view log: \([0-9.]*\) \(.\)iB read.*/\1 \2/p' "$1" | awk '{ print $1 * ($2 == "M" ? 1024 : 1) }'; }
ok 'fewer bytes of a stream in a file' awk "BEGIN { exit !($(bytes few.err) * 1.5 < $(bytes more.err)) }"
ok 'and it tells of how many columns' grep -q 'view log: .* read, 3 of 7 columns' few.err
ctr-extract -v few.plan log=log.arrows 2>/dev/null | ctr-info --digest >few.digest
is 'the same rows as of a pipe' "$(cat log.arrows | ctr-extract few.plan log=/dev/stdin 2>/dev/null | ctr-info --digest)" "$(cat few.digest)"
sed 's/^from log$/from log = csv(header=true)/' few.plan >text.plan
ctr-extract -v text.plan log=log.csv 2>text.err >/dev/null
ok 'text: all bytes and few columns' grep -q 'view log: .* read, 3 of 7 columns' text.err
ctr-cat -q --to file log.arrows -o log.arrow
ctr-extract -v few.plan log=log.arrow 2>few.err >/dev/null
ctr-extract -v more.plan log=log.arrow 2>more.err >/dev/null
ok 'fewer bytes of a file' awk "BEGIN { exit !($(bytes few.err) * 1.5 < $(bytes more.err)) }"

# Refusals.
ctr-select -q --columns 'ad,user' log.arrows -o log2.arrows
ctr-select -q --columns 'id,user,ad,click,at' days.arrows | ctr-sort -q -k click,id -o mixed.arrows
ctr-select -q --columns 'user,at,bought=ad' mixed.arrows -o mixed2.arrows
ctr-select -q --add 'big=9223372036854775807' --columns ad,click,big log.arrows -o big.arrows
refuse() { # NAME STATUS WORDS STATEMENT VIEWS…
    _case=$1 _status=$2 _words=$3 _statement=$4
    shift 4
    { printf '%s\n' "$_statement"; definitions ''; } >bad.plan
    exits "$_case" "$_status" ctr-extract -o none.arrows bad.plan "$@"
    ok "$_case: words" grep -qF -- "$_words" err
    # options belong to commands, such as "ctr-select --add …"; some are those of ctr-extract itself
    sed 's/ctr-[a-z]*\( *--[a-z-]*\)*//g; s/--memory//g; s/--table//g; s/--bad-rows skip=MAX//g' err >plain
    ok "$_case: no options of filters" sh -c '! grep -e "--[a-z]" plain'
    ok "$_case: nothing is left" test ! -e none.arrows
}
refuse 'no file' 2 'name its file, log=FILE' 'from log'
refuse 'another view' 2 'names no view of the plan: VIEW=FILE, of the views log' 'from log' lug=log.arrows
refuse 'a view that is absent' 1 'nope: cannot open' 'from log' log=nope
head -c 5000 log.arrows >cut.arrows
refuse 'a view that is short' 1 'cut.arrows: truncated' 'from log' log=cut.arrows
refuse 'a joined view that is short' 1 'cut.arrows: truncated' 'from log
join side on id prefix "s."' log=short.arrows side=cut.arrows
refuse 'keys of other types' 2 'bad.plan:2:1' 'from log
join users on words = user' log=log.arrows users=users.arrows
refuse 'a join that explodes' 1 'ads' 'from log
join ads on ad prefix "ad."' log=log.arrows ads=ads.arrows
refuse 'sides of other orders' 1 'user' 'from log
join users on user merge' log=log.arrows users=users.arrows
refuse 'a join that explodes: where' 1 'bad.plan:2:1: ads=ads.arrows: rows 1 and 2 have the same key ad=0: multi joins all of them' 'from log
join ads on ad prefix "ad."' log=log.arrows ads=ads.arrows

# A text of 30 KB, once for each of 10,000 items, 20 rows: 6 GB, unless it is left out, as nothing reads it below explode.
awk 'BEGIN { print "id,click,k"; for (r = 0; r < 20; r++) { printf "%d,%d,", r, r % 3 == 0; for (i = 0; i < 10000; i++) printf "%d|", (i * 7 + r) % 97; print "end" } }' \
    </dev/null >wide.csv
rows() { ctr-export -q -f csv "$1" | md5sum; }
printf 'label click\nfeature w\n' >of.items
{ printf 'from log = csv("wide.csv", header=true)\nadd w = split(k, "|")\nexplode w\n' && cat of.items; } >unread.plan
{ printf 'from log = csv("wide.csv", header=true)\nadd k = split(k, "|")\nexplode k\n' && sed 's/w/w = k/' of.items; } >replaced.plan
for j in 1 3; do
    ok "a text that nothing reads below explode, -j $j" ctr-extract -q -j $j -o unread.arrows unread.plan
    ctr-extract -q -j $j -o replaced.arrows replaced.plan
    is "is left out, -j $j" "$(rows unread.arrows)" "$(rows replaced.arrows)"
done
[ -n "$SAN" ] || ok 'in the memory of its items' below 40000 ctr-extract -q -o unread.arrows unread.plan
# One that is read below comes in parts, of one row too: 0.6 GB.
head -n 3 wide.csv >two.csv
{ sed 's/wide/two/' unread.plan && echo 'keep n = length(k)'; } >read.plan
{ printf 'from log = csv("two.csv", header=true)\nadd n = length(k)\nadd w = split(k, "|")\nexplode w\n' && cat of.items && echo 'keep n'; } >counted.plan
ctr-extract -q -o counted.arrows counted.plan
ok 'a text that is read below explode' ctr-extract -q --memory 4M -o read.arrows read.plan
is 'is that of its row' "$(rows read.arrows)" "$(rows counted.arrows)"
[ -n "$SAN" ] || ok 'in bounded memory' below 60000 ctr-extract -q --memory 4M -o read.arrows read.plan

# A join that multiplies: a thousand rows by a thousand of one key, which are never held together.
awk 'BEGIN { for (side = 0; side < 2; side++) { f = side ? "right.csv" : "left.csv"; print side ? "k,r" : "k,id,click" >f
    for (i = 0; i < 1000; i++) print side ? "7," i : "7," i "," i % 2 >f } }' </dev/null
printf 'from left = csv("left.csv", header=true)\njoin right on k multi\nlabel click\nkeep id, of = r\nfeature r\n' >many.plan
ctr-import -q -f csv --header right.csv -o right.arrows
fan() { ctr-extract -v -j "$1" --memory 1M -o fan.arrows many.plan right=right.arrows 2>said; }
for j in 1 3; do
    ok "a join that explodes, -j $j" fan $j
    ok "is told, -j $j" grep -q 'join right: 1000000 rows of 1000, 1000.0 for each' said
    is "every pair, -j $j" "$(ctr-group -q -k click --add 'n=count()' --add 'ids=sum(id)' --add 'rs=sum(of)' fan.arrows | ctr-export -q -f csv --no-header)" \
        '0,500000,249500000,249750000
1,500000,250000000,249750000'
done
if [ -z "$SAN" ]; then # the whole result has 25 MB
    ok 'in bounded memory' below 14000 ctr-extract -q --memory 1M -o fan.arrows many.plan right=right.arrows
fi
printf 'from log\njoin users on user\nlabel click\nfeature city\n' >lone.plan
ok 'one row each: nothing to tell' sh -c '! ctr-extract -v -o none.arrows lone.plan log=log.arrows users=users.arrows 2>&1 | grep "for each"'
rm -f none.arrows
refuse 'two columns of one name' 2 'with prefix "NAME."' 'from log
join ads on ad multi' log=log.arrows ads=log2.arrows
refuse 'sides of other orders: where' 1 'bad.plan:2:1: log.arrows: row 2 (user=' 'from log
join users on user merge' log=log.arrows users=users.arrows
refuse 'sides of other orders: remedy' 1 'or leave out merge' 'from log
join users on user merge' log=log.arrows users=users.arrows
refuse 'times that go backwards' 1 'bad.plan:2:1: mixed.arrows: row ' 'from log
history ad by user at at' log=mixed.arrows
ok 'times that go backwards: remedy' grep -q 'runs backwards, behind .*; give sort, or lateness for' err
refuse 'times that go backwards behind a filter' 1 'bad.plan:3:1: the rows that line 2 of the plan makes: row ' 'from log
where id % 2 == 0
history ad by user at at' log=mixed.arrows
refuse 'times of the second log' 1 'bad.plan:2:1: second=mixed2.arrows: row ' 'from log
history bought from second by user at at' log=days.arrows second=mixed2.arrows
ctr-select -q --add 'at=if(id % 100 == 99, null, at)' days.arrows -o gaps.arrows
refuse 'a time that is null' 1 'bad.plan:2:1: gaps.arrows: row 100: its time at is null; leave such rows out (where not is_null(…) above it)' 'from log
history ad by user at at' log=gaps.arrows
refuse 'a condition that is a number' 2 'where wants a condition, and this is int64; compare it with something, as in click != 0' 'from log
where click' log=log.arrows
refuse 'a sum beyond int64' 1 'the group ad=0: sum(big) is beyond int64' 'from log
group ad, click = max(click), user = sum(big)' log=big.arrows
{ cat log.csv; echo '1,x,2,3,0,w,u'; } >bad.csv
refuse 'a bad cell of text' 1 'bad.csv: line' 'from log = csv("bad.csv", header=true)'
ok 'a bad cell of text: remedy' grep -q 'is not int64; columns="user:utf8" or bad_rows="…" settles it' err
refuse 'an option of another format' 2 'bad.plan:1:1: the format jsonl takes no header=true' 'from log = jsonl("bad.csv", header=true)'
refuse 'a role of no column' 2 'user="…": the input has no column '"'zz'" 'from log = csv("bad.csv", header=true, user="zz")'
refuse 'a form of times' 1 'time="time:FORMAT" (' 'from log = csv("bad.csv", header=true, time="time:%Y-%m-%d")'
: >empty.csv
: >empty.arrows
refuse 'text without a byte' 1 'empty.csv: is empty, without a byte' 'from log = csv("empty.csv", header=true)'
refuse 'a stream without a byte' 1 'empty.arrows: is empty, without even a schema' 'from log' log=empty.arrows
gzip -c log.csv | head -c 5000 >cut.csv.gz
refuse 'text that is short' 1 'cut.csv.gz: gzip: truncated' 'from log = csv("cut.csv.gz", header=true)'
refuse 'a folder' 1 'is a folder without a file *.parquet' 'from log = csv(header=true)' log=.
refuse 'a list of a column named twice' 2 'bad.plan:2:1: ad is named twice' 'from log
history ad, ad by user at at' log=days.arrows
refuse 'a condition of a history that is a number' 2 "where 'click' is int64, but must be a condition (bool), such as click != 0" 'from log
history ad by user at at where "click"' log=days.arrows
refuse 'keys of text that are no text' 2 'user is utf8 on the left and user is int64 in users: give one the other'"'"'s type, by columns="NAME:TYPE" of a view of text' 'from log = csv("log.csv", header=true, columns="id:int64,user:utf8,ad,time,click,words,unused")
join users on user' users=users.arrows
refuse 'a result named twice' 2 'bad.plan:2:1: two columns of the result are called click: = gives each a name of its own' 'from log
group ad, user, click = max(click), click = min(click)' log=log.arrows
refuse 'add: a misspelt column' 2 "bad.plan:2:1: add n: character 1: there is no column 'clik'; the nearest is 'click'" 'from log
add n = clik + 1' log=log.arrows
refuse 'add: no expression' 2 'bad.plan:2:8: expected an expression before the end of the line' 'from log
add n =' log=log.arrows
refuse 'add: no name' 2 'expected the name of a column, not 3' 'from log
add 3 = id' log=log.arrows
refuse 'add: what is fitted' 2 'an operator that is fitted belongs into a definition of a plan' 'from log
add n = vocab(ad)' log=log.arrows
refuse 'a misspelt column' 2 "bad.plan:2:1: where: character 1: there is no column 'clik'; the nearest is 'click'" 'from log
where clik == 1' log=log.arrows
refuse 'a format' 2 'there is no format cvs' 'from log = cvs("log.csv")'
refuse 'an option' 2 "the nearest is 'header'" 'from log = csv("log.csv", heder=true)'
refuse 'a quarantine' 2 'a plan writes no files' 'from log = csv("log.csv", bad_rows="quarantine=q")'
refuse 'a second from' 2 '`from` is the first statement' 'from log
from users'
refuse 'a second from, with its file' 2 '`from` is the first statement' 'from log
from log
keep id' log=log.arrows
refuse 'below nothing' 2 'stands below `from VIEW`' 'where click == 1'
refuse 'a history without a user' 2 'say which column is the time: at COLUMN' 'from log
history ad by user' log=log.arrows
refuse 'clicks of a count' 2 'count needs where: which rows are clicks?' 'from log
history count ad at at' log=days.arrows
refuse 'a dwell time without a minimum' 2 'bad.plan:2:1: dwell goes with min-dwell' 'from log
history ad by user at at dwell "id"' log=days.arrows
refuse 'a dwell time that is a text' 2 "bad.plan:2:1: dwell 'words' is utf8, but must be a number" 'from log
history ad by user at at dwell "words" min-dwell 3s' log=days.arrows
refuse 'a dwell time without quotes' 2 'bad.plan:2:32: expected an expression in quotes, not id' 'from log
history ad by user at at dwell id min-dwell 3s' log=days.arrows
refuse 'a broken dwell time' 2 'bad.plan:2:32: dwell: character 5: expected a value' 'from log
history ad by user at at dwell "id +" min-dwell 3s' log=days.arrows
refuse 'a dwell time of the window' 2 'window must be longer than delay (and min-dwell)' 'from log
history ad by user at at dwell "id" min-dwell 3s window 2s' log=days.arrows
refuse 'words of lists, of counts' 2 'bad.plan:2:1: last goes with columns (history COLUMN, …) or age' 'from log
history by user at at where "click == 1" count ad last 3' log=days.arrows
refuse 'words of counts, of lists' 2 'bad.plan:2:1: prior goes with count' 'from log
history ad by user at at prior 3' log=days.arrows
refuse 'a word twice' 2 'bad.plan:2:26: by is there twice' 'from log
history ad by user at at by user' log=days.arrows
refuse 'two orders' 2 'bad.plan:2:33: oldest and newest exclude each other' 'from log
history ad by user at at oldest newest' log=days.arrows
refuse 'a group joined on other keys' 2 'bad.plan:2:7: rows are joined with their own groups on the keys of these: on ad' 'from log
join (group ad, n = count()) on user' log=log.arrows
refuse 'not joined at all' 2 'bad.plan:2:' 'from log
join (group ad, n = count())' log=log.arrows
refuse 'something else in brackets' 2 'expected group, not sort' 'from log
join (sort ad) on ad' log=log.arrows
printf 'user,city\n001,a\n' | ctr-import -qf csv --header --columns user:utf8,city -o zeros.arrows
printf 'user,ad,click\n1,2,0\n' | ctr-import -qf csv --header --columns user:utf8,ad:int64,click:int8 -o bare.arrows
{ printf 'from log\njoin zeros on user\n'; definitions 'feature city'; } >none.plan
ctr-extract none.plan log=bare.arrows zeros=zeros.arrows 2>said >/dev/null
ok 'a join without any match says why' grep -q "join zeros: no row has a match: the first key here is user (utf8) 1, the first in it is user (utf8) 001; those of user differ by leading zeros" said
refuse 'once without next' 2 'once goes with next' 'from log
join users on user once' log=log.arrows users=users.arrows
refuse 'times out of order' 1 'runs backwards, behind' 'from log
sort id desc
join (group ad, n = count()) on ad as-of id' log=log.arrows
refuse 'a sort of no column' 2 'expected the name of a column' 'from log
sort' log=log.arrows
refuse 'a group without aggregates' 2 'bad.plan:2:' 'from log
group ad' log=log.arrows
refuse 'keys behind aggregates' 2 'keys stand before the aggregates' 'from log
group ad, n = count(), user' log=log.arrows
refuse 'an unknown aggregate' 2 "bad.plan:2:1: there is no aggregate meen; the nearest is 'mean'" 'from log
group ad, user, click = meen(click)' log=log.arrows
refuse 'what a group leaves out' 2 "click" 'from log
group ad, user, n = count()' log=log.arrows
refuse 'behaviours without a time' 2 'has neither a column at nor one with the role time' 'from log
history ad from users by user at at' log=days.arrows users=users.arrows
refuse 'behaviours without the column' 2 'bad.plan:2:1: there is no column' 'from log
history ad from second by user at at' log=days.arrows second=second.arrows
refuse 'a word' 2 'expected from, by, at, where, count' 'from log
history ad bye user' log=days.arrows
refuse 'two words' 2 'inner and anti exclude each other' 'from log
join users on user inner anti' log=log.arrows users=users.arrows
printf 'id,k,x\n1,2,3\n' >left.csv
printf 'k,x\n2,3\n' >right.csv
two='from l = csv("left.csv", header=true)
join r = csv("right.csv", header=true) on k'
refuse 'a misspelt column behind a join whose sides have one in common' 2 "bad.plan:3:10: there is no column 'zzzz'; there are id, k" "$two
keep id, zzzz"
refuse 'columns in common that are read' 2 'bad.plan:2:1: both sides have a column x' "$two
keep id, x"
refuse 'a misspelt from' 2 'no kind form; did you mean from; there are feature, ' 'form log'
refuse 'a misspelt join' 2 'no kind jion; did you mean join; ' 'from log
jion users on user'
refuse 'a left join' 2 'a line begins with join VIEW, which keeps the rows without a match' 'from log
left join users on user'
printf 'id,k,x\n1,a,3\n' >texts.csv
printf 'k,y\n1.5,7\n2,0.5\n' >floats.csv
printf 'k,click\n2,7\n' >sevens.csv
refuse 'keys of two types, the left one to change' 2 'or by a line above, add k_key = int(k), then on k_key=' "$two
keep id, k" l=texts.csv
refuse 'keys of two types, the right one to change' 2 "or have VIEW=FILE made by ctr-select --add 'k_key=if(int(k) == k, int(k), null)'" "$two
keep id, k" r=floats.csv
printf 'id,k,user,ad\n1,2,3,4\n' >clickless.csv
refuse 'a value of a joined view' 1 'clickless.csv joined with r: row 1: the label (column click) is 7' 'from l = csv("clickless.csv", header=true)
join r = csv("sevens.csv", header=true) on k'
refuse 'text for a stream' 1 'a view of text has a format, as in log = csv(header=true)' 'from log
keep id' log=left.csv
printf 'PK\003\004aaaa' >zip.csv
refuse 'an archive for text' 1 'unzip -p FILE | … VIEW=-' "$two
keep id" l=zip.csv
# A bad line among the first rows is told before the types that it leads to.
first() { printf 'click,price\n1,2.5\n'; eval "$1"; printf '1,3.5\n'; }
first "printf '0,\\3773\\n'" >first1.csv
first "printf '0\\n'" >first2.csv
{ printf 'click,price\n0,'; head -c 17000000 /dev/zero | tr '\0' 3; printf '\n1,3.5\n'; } >first3.csv
printf 'price,z\n2.5,1\n' >prices.csv
for what in '1:line 3: column price: ' '2:line 3: 1 column where there should be 2' '3:line 2: longer than 16 MiB'; do
    for plan in 'where price > 1' 'join r = csv("prices.csv", header=true) on price'; do
        refuse "a bad line first, ${what%%:*}, ${plan%% *}" 1 "first${what%%:*}.csv: ${what#*:}" "from log = csv(\"first${what%%:*}.csv\", header=true)
$plan"
    done
done
ctr-select -q --where 'id < 0' log.arrows -o none.log
ok 'a log without rows' ctr-train lr -o none.model few.plan log=none.log
cp "$W/.ok" said
ok 'of which nothing is learned, which is said' grep -q 'the input has no rows' said
printf 'from log\nfeature user = vocab(user)\n' >fitfew.plan
ok 'a fit of no rows' ctr-extract --fit fitfew.plan log=none.log -o none.fitted
cp "$W/.ok" said
ok 'which is said' grep -q 'the input has no rows' said
printf 'from log\nfeature user\nwhere click == 1\n' >bad.plan
exits 'a statement below a definition' 2 ctr-extract bad.plan
ok 'is told' grep -q 'stands above the definitions' err
ok 'with what makes columns there' grep -q 'add NAME = EXPR' err
exits 'an input that is the output' 2 ctr-extract few.plan log=log.arrows -o log.arrows
exits '--table without statements' 2 sh -c 'grep -v from few.plan >plain.plan; ctr-extract --table plain.plan log.arrows'
for tool in ctr-extract 'ctr-train lr'; do
    exits "$tool: --table with VIEW=FILE" 2 $tool --table few.plan log=log.arrows
    ok 'is told' grep -q 'log=log.arrows: --table takes the FILE of a table that the statements have made, and no VIEW=FILE' err
done
exits '--for' 2 ctr-import --for few.plan log.csv

# kill -9 and resume, in any pass, with other threads.
run() {
    _j=$((_j % 3 + 1))
    timeout "$@" ctr-train lr -q -j $_j --queue $((_j * _j)) --passes 2 --checkpoint cp --checkpoint-every 500 --resume -o killed.model \
        --progressive killed.progressive all.plan log=day1.csv log=day2.csv basic=basic.csv
}
_j=0
ok 'two passes' ctr-train lr -q --passes 2 -o whole.model --progressive whole.progressive all.plan log=day1.csv log=day2.csv basic=basic.csv
killed_runs 'resume: ' run 02 03 05 07 09 12
ok 'resume: the same model' cmp whole.model killed.model
ok 'resume: the same predictions' same_rows whole.progressive killed.progressive

for q in 1 2 64; do
    ok "--queue $q" ctr-train lr -q -j 3 --queue $q -o queue.model all.plan log=day1.csv log=day2.csv basic=basic.csv
    ok "--queue $q: the same model" cmp want.model queue.model
    ok "--queue $q: features" ctr-extract -q -j 3 --queue $q -o queue.arrows all.plan log=day1.csv log=day2.csv basic=basic.csv
    ok "--queue $q: the same features" cmp want.arrows queue.arrows
    [ "$SAN" ] && break
done
ok '-j 1 has no queues' sh -c 'ctr-train lr -v -j 1 -o one.model all.plan log=day1.csv log=day2.csv basic=basic.csv 2>said'
ok 'which is told' grep -q -- '-j 1: one thread reads the views and runs all stages' said
ok 'with what each stage did' test "$(grep -cE 'stage (views|extract|rows|train): [0-9]+% busy, [0-9]+% waiting, [0-9]+% blocked' said)" = 4
ok 'the same model' cmp want.model one.model
ok 'ctr-extract -j 1 tells it, too' sh -c 'ctr-extract -v -j 1 all.plan log=log.csv basic=basic.csv 2>&1 >/dev/null | grep -q -- "-j 1: one thread"'
exits '--queue of no batch' 2 ctr-extract --queue 0 all.plan log=log.csv basic=basic.csv
exits '--queue beyond its limit' 2 ctr-extract --queue 1025 all.plan log=log.csv basic=basic.csv
exits '--queue without views' 2 ctr-extract --queue 2 --table all.plan table.arrows
ok 'says what it is for' grep -q -- '--queue is for a plan that begins with from VIEW' err
exits '--queue of features' 2 ctr-train lr --queue 2 want.arrows -o none.model

# When each stage ran and waited: a wait lies in the run of its stage, and the waits are the shares that -v tells.
ctr-train lr -v -v -j 3 --queue 1 -o line.model all.plan log=day1.csv log=day2.csv basic=basic.csv 2>line.txt
ok 'a time line of four stages and more' test "$(grep -c 'time line: .*: ran ' line.txt)" -ge 4
ok 'in which stages wait while they run' awk '/time line/ {
    sub(/.*time line: /, ""); split($0, part, ": "); split(part[2], f, " ")
    if (f[1] == "ran") { from[part[1]] = f[2]; to[part[1]] = f[3] } else if (f[2] < from[part[1]] - 1e-6 || f[3] > to[part[1]] + 1e-3) bad = 1
    else n++ } END { exit bad || !n }' line.txt

# The example: one command, pipes, files of streams and of text.
example() { OUT="$W/example" ROWS=2000 "$CTR_TOP/examples/featurebox.sh" >example.txt 2>example.err || { tail example.err; return 1; }; }
[ "$SAN" ] || ok 'the example runs' example
[ "$SAN" ] || ok 'all of its models are one' grep -q '^models that differ: 0$' example.txt
lists() { # the texts of the planted world are lists of several items, not one long item
    l=$W/example/logs
    ctr-extract -q "$CTR_TOP/examples/featurebox.plan" impressions="$l/impressions.tsv" clicks="$l/clicks.tsv" users="$l/users.tsv" ads="$l/ads.jsonl" \
        basic="$l/basic.tsv" | ctr-select -q --add 'i=length(interest)' --add 'q=length(query_word)' --columns i,q |
        ctr-export -q -f csv --no-header | awk -F, '{ i = $1 > i ? $1 : i; q = $2 > q ? $2 : q } END { print i, q }'
}
[ "$SAN" ] || is 'interests and words of queries are lists' "$(lists)" '3 3'
done_testing
