#!/bin/sh
# ctr-select: rows, new columns, lists, names of columns, first and last rows, the rest, sections of a bundle.
. "${0%/*}/lib.sh"
cd "$W" || exit 1

printf 'id,user,rating,genres,price\n1,bo,5,Comedy|Drama,1.5\n2,al,2,Comedy,\n3,al,4,,3\n4,cy,,Drama|War|Sci-Fi,4\n5,bo,1,War,5\n' >r.csv
ctr-import --format csv --header r.csv >r.arrows || exit 1
csv() { ctr-export --format csv "$@"; }
sel() { ctr-select "$@" | csv; }
ids() { ctr-select "$@" >ids.arrows && ctr-select --columns id ids.arrows | csv | sed 1d | tr '\n' ' '; }

is "--where" "$(ids --where 'rating >= 4' r.arrows)" "1 3 "
is "a null condition is false, so is its negation" "$(ids --where 'not rating >= 4' r.arrows)" "2 5 "
is "is_null asks for it" "$(ids --where 'is_null(rating)' r.arrows)" "4 "
is "true, false and null" "$(ids --where true r.arrows)-$(ids --where false r.arrows)-$(ids --where null r.arrows)" "1 2 3 4 5 --"
is "--add" "$(sel --add 'twice=rating * 2' --add 'more=twice + 1' --columns id,twice,more r.arrows)" "id,twice,more
1,10,11
2,4,5
3,8,9
4,,
5,2,3"
is "--add-row numbers the rows of the input" "$(sel --add-row n --where 'n != 2' --add 'm=n * 10' --columns n,id,m --batch 1 r.arrows | head -3 | tr '\n' ' ')" "n,id,m 1,1,10 3,3,30 "
is "alone" "$(sel --add-row n --columns n r.arrows | tail -1)" "$(ctr-info r.arrows | sed -n 's/^rows: //p')"
is "last, as int64" "$(ctr-select --add-row n r.arrows | ctr-info | awk '$1 == "n" { print $2 }')" "int64"
exits "--add-row of a name that is there" 2 ctr-select --add-row id r.arrows
err_like "is refused" 'add-row id: there is a column of this name'
is "--add-row over files and --tail" "$(sel --add-row n --columns n --tail 1 r.arrows r.arrows | tail -1)" "$((2 * $(ctr-info r.arrows | sed -n 's/^rows: //p')))"
is "--add in place of a column" "$(sel --add 'rating=rating > 3' --columns id,rating --head 2 r.arrows)" "id,rating
1,true
2,false"
is "--add sees the rows of --where only" "$(sel --where 'id == 3' --add 'x=price + 1' --columns x r.arrows)" "x
4"
is "a name in back quotes" "$(sel --add '`a=b`=id' --columns '`a=b`' --head 1 r.arrows)" "a=b
1"
ctr-select --add '`a\`=b`=id' --columns '`a\`=b`' r.arrows >quote.arrows
is "a name with a back quote" "$(ctr-info quote.arrows | tail -n 1 | cut -d' ' -f1)" '`a\`=b`'
is "is read as ctr-info writes it" "$(sel --where '`a\`=b` == 2' --columns '`a\`=b`' quote.arrows)" 'a`=b
2'
ctr-select --add 'g=split(genres, "|")' --add 'n=ngrams(g, 1)' r.arrows >lists.arrows
is "--explode" "$(sel --explode g --columns id,g lists.arrows 2>explode.err)" "id,g
1,Comedy
1,Drama
2,Comedy
4,Drama
4,War
4,Sci-Fi
5,War"
is "rows without items are counted" "$(cat explode.err)" "ctr-select: --explode g: 1 rows had no items and gave no row"
is "lists side by side" "$(sel -q --explode g,n --where 'id == 4' --columns g,n lists.arrows)" "g,n
Drama,Drama
War,War
Sci-Fi,Sci-Fi"
is "items of rows that --where drops" "$(sel -q --explode g --where 'id == 2 or id == 5' --rest rest.arrows -c id,g lists.arrows)" "id,g
2,Comedy
5,War"
is "are the rest" "$(csv rest.arrows)" "id,g
1,Comedy
1,Drama
4,Drama
4,War
4,Sci-Fi"
exits "--columns that leave none" 2 ctr-select --columns '*,-*' lists.arrows
err_like "are named: the rows would be lost" '^ctr-select: --columns [*],-[*] leaves no column$'
exits "also with nothing but drops" 2 ctr-select --columns '-*' lists.arrows
exits "a new name for what is exploded" 2 ctr-select --explode h=g lists.arrows
err_like "is refused, with a word" "--explode h=g: it gives no new names, --columns does"
exits "lists of different lengths" 1 ctr-select --add 'm=ngrams(g, 2)' --explode g,m lists.arrows
err_like "name the row" "lists.arrows: row 1: m has 1 items and g has 2; lists that are exploded together are equally long"
exits "and with --tail" 1 ctr-select --add 'm=ngrams(g, 2)' --explode g,m --tail 2 lists.arrows
err_like "name file and row" "lists.arrows: row 1: m has 1 items"
is "a list that is left out" "$(sel -q --explode g,n --columns n,id --where 'id == 4' lists.arrows)" "n,id
Drama,4
War,4
Sci-Fi,4"
# A text of 80 KB, once an item, would be 3.2 GB.
awk 'BEGIN { printf "s\n"; for (i = 0; i < 40000; i++) printf "%s", i % 2 ? "a|" : "b|" }' |
    ctr-import --format csv --header --columns s:utf8 >wide.arrows
is "what --columns leaves out is not repeated" \
    "$(sel --add 'i=split(s, "|")' --explode i -c i wide.arrows | grep -c '^[ab]$')" "40000"
# What is kept comes in parts of some 64 MiB: the first rows are there before memory for all of them would be.
is "what is kept comes in parts" "$( ([ -n "$SAN" ] || ulimit -v 1000000; ctr-select --add 'i=split(s, "|")' --explode i --head 2000 wide.arrows) | ctr-select --add 'n=length(s)' -c n,i | ctr-export -f csv | sed 1d | sort | uniq -c | tr -s ' ')" " 1000 80000,a
 1000 80000,b"
awk 'BEGIN { printf "s\n"; for (r = 0; r < 4; r++) { for (i = 0; i < 900 * (r != 1); i++) printf "%s", i % 7 i "-------------------------------------------|"; print "" } }' |
    ctr-import -q --format csv --header --columns s:utf8 -o wider.arrows
many() { ctr-select -q --add 'i=split(s, "|")' --add 'j=concat(i, "x")' --explode i,j "$@"; }
is "parts hold the rows of a whole" "$(many wider.arrows | ctr-select -q --add 's=substr(s, 0, 9)' | ctr-export -f csv | md5sum)" \
    "$(ctr-select -q --add 'i=split(s, "|")' --add 'j=concat(i, "x")' --add 's=substr(s, 0, 9)' --explode i,j wider.arrows | ctr-export -f csv | md5sum)"
for args in '--tail 5' '--head 2500 --tail 30' '--where s=="" --rest wider.rest' '--head 50% -c j,i'; do
    is "parts, $args" "$(many $args wider.arrows | ctr-select -q --columns 'i,j' | ctr-export -f csv | md5sum)" \
        "$(many wider.arrows | ctr-cat --batch 100 | ctr-select -q $(echo "$args" | sed 's/ -c.*//') | ctr-select -q --columns i,j | ctr-export -f csv | md5sum)"
done
exits "no list" 2 ctr-select --explode id r.arrows
err_like "is named" "explode id: the column is int64, not a list"

is "--columns: order, globs, renames" "$(sel --head 1 --columns 'money=price,?d,u*' r.arrows)" "money,id,user
1.5,1,bo"
is "--columns: rename in place" "$(sel --head 1 --columns '*,u=user' r.arrows)" "id,u,rating,genres,price
1,bo,5,Comedy|Drama,1.5"
is "--columns: drop" "$(sel --head 1 --columns '-genres,-p*' r.arrows)" "id,user,rating
1,bo,5"
exits "two conditions" 2 ctr-select --where 'id > 1' --where 'id < 3' r.arrows
err_like "are not one silently" '^ctr-select: --where is given twice, and only the last would count$'
exits "an unknown column" 2 ctr-select --columns ratin r.arrows
err_like "names the nearest" "no column 'ratin'; the nearest is 'rating'"
exits "a glob for nothing" 2 ctr-select --columns 'x*' r.arrows
is "a column under two names" "$(sel -c id,a=id,b=id --head 1 r.arrows)" "a,b
1,1"
exits "two columns of one name" 2 ctr-select --columns 'a=id,a=user' r.arrows

is "--head" "$(ids --head 2 r.arrows)" "1 2 "
is "--tail" "$(ids --tail 2 r.arrows)" "4 5 "
is "--head then --tail" "$(ids --head 4 --tail 2 r.arrows)" "3 4 "
is "--head more than there are" "$(ids --head 99 r.arrows)" "1 2 3 4 5 "
is "--tail 0" "$(ids --tail 0 r.arrows)" ""
is "--head P%" "$(ids --head 40% r.arrows)" "1 2 "
is "--tail P%" "$(ids --tail 60% r.arrows)" "3 4 5 "
is "--tail P% of --head N" "$(ids --head 4 --tail 50% r.arrows)" "3 4 "
is "--head after --where" "$(ids --where 'id > 1' --head 2 r.arrows)" "2 3 "
is "--rest of --where" "$(ids --where 'rating > 1' --rest rest.arrows r.arrows)/$(ids rest.arrows)" "1 2 3 /4 5 "
is "--rest of --head" "$(ids --head 2 --rest rest.arrows r.arrows)/$(ids rest.arrows)" "1 2 /3 4 5 "
is "--rest of --where and --head" "$(ids --where 'id != 2' --head 2 --rest rest.arrows r.arrows)/$(ids rest.arrows)" "1 3 /2 4 5 "
is "--rest of --where and --tail" "$(ids --where 'id != 4' --tail 2 --rest rest.arrows r.arrows)/$(ids rest.arrows)" "3 5 /1 2 4 "
is "--rest of --where and shares" "$(ids --where 'id != 4' --head 75% --tail 34% --rest rest.arrows r.arrows)/$(ids rest.arrows)" "2 3 /1 4 5 "
cp r.arrows same.arrows
into_stdin() { ctr-select --where 'id > 2' --rest same.arrows <same.arrows; }
rest_refused() { into_stdin >out 2>err; test $? = 2 && grep -q 'same.arrows is both input and output' err && cmp r.arrows same.arrows; }
ok "--rest that is stdin is refused" rest_refused
is "--rest has the same columns" "$(ids --add 'id=id + 10' --where 'id < 3' --rest rest.arrows r.arrows)/$(ids rest.arrows)" "11 12 /13 14 15 "
for bad in 5.5 -1 x 101% 100.5% 1.2345678% ''; do exits "--head '$bad'" 2 ctr-select --head "$bad" r.arrows; done

# The same from a pipe, from a file of many batches, and whatever the batches.
awk 'BEGIN { print "id,v"; for (i = 0; i < 50000; i++) print i "," (i * 7919) % 1000 }' >big.csv
ctr-import --format csv --header big.csv >big.arrows
ctr-cat --to file --batch 1000 big.arrows -o big.arrow
digest() { ctr-info --digest | awk '{ print $NF }'; }
for opts in '--head 33.3%' '--tail 12.5%' '--head 70% --tail 20%' '--tail 300' '--tail 40000' '--head 41000 --tail 33' '--where v<500 --tail 10%' '--where v<500 --head 10000' '--where v>7 --tail 5'; do
    a=$(ctr-select $opts big.arrows | digest)
    b=$(ctr-cat --batch 77 big.arrows | ctr-select $opts --batch 1234 | digest)
    c=$(ctr-select $opts big.arrow | digest)
    ok "$opts: stream, pipe and file agree" test "$a/$b" = "$b/$c"
done
a=$(ctr-select --where 'v < 300' --tail 10% --rest r1.arrows big.arrows | digest)
b=$(ctr-cat --batch 77 big.arrows | ctr-select --where 'v < 300' --tail 10% --rest r2.arrows | digest)
is "so do their rests" "$a $(digest <r1.arrows)" "$b $(digest <r2.arrows)"
ctr-select --head 60% big.arrows >h.arrows && ctr-select --tail 40% big.arrows >t.arrows
is "head P% and tail (100-P)% are the whole" "$(ctr-cat h.arrows t.arrows | digest)" "$(digest <big.arrows)"
is "-j makes no difference" "$(ctr-select -j 4 --where 'v % 3 == 0' big.arrows | cksum)" "$(ctr-select -j 1 --where 'v % 3 == 0' big.arrows | cksum)"
stops() { { cat big.arrows; echo rubbish; } | ctr-select --head 5 | csv | wc -l; }
is "--head stops reading" "$(stops | tr -d ' ')" 6

# Bundles: a fitted plan has several sections.
printf 'feature g = vocab(genres, min=1)\nfeature u = vocab(user, min=1)\n' >f.plan
ctr-extract --fit f.plan -o f.fitted r.arrows
ctr-select --section 'vocab.u' --where 'count > 1' f.fitted >cut.fitted
is "--section acts on one" "$(ctr-info cut.fitted | awk '/^rows/ { printf "%s ", $2 }')" "2 4 2 "
is "the others are as they were" "$(ctr-info cut.fitted | awk '/^digest/ { print $2 }' | sed -n 1,2p)" "$(ctr-info f.fitted | awk '/^digest/ { print $2 }' | sed -n 1,2p)"
ctr-select --section 'vocab.?' --where 'count > 1' --rest rare.fitted f.fitted >/dev/null
is "--rest of sections is a bundle of these" "$(ctr-info rare.fitted | awk '/^rows|^section/ { printf "%s ", $2 }')" "4 vocab.g vocab.g,vocab.u 1 vocab.u "
exits "no such section" 2 ctr-select --section x --where true f.fitted
err_like "lists them" "no section matches x; there are plan, vocab.g, vocab.u"

# A model made with a fitted plan is a bundle: what the refusals advise works, and what the manuals say of pruning.
printf 'label y = fill(rating, 0) >= 4\nfeature g = vocab(genres, min=1)\nfeature u = vocab(user, min=1)\n' >m.plan
ctr-extract --fit m.plan -o m.fitted r.arrows && ctr-extract m.fitted r.arrows >m.rows && ctr-train lr -q --l1 .1 --plan m.fitted -o m.model m.rows
for tool in "ctr-select --where true" ctr-sort\ -kkey ctr-export ctr-cat\ --to\ file ctr-eval 'ctr-join -k key m.model'; do
    exits "a model in $tool" 1 $tool m.model
    err_like "the remedy is named" "sections \(lr, vocab.g, vocab.u\) .*ctr-select --only lr takes .* ctr-select --section lr changes"
done
ctr-select --only lr -o lr.arrows m.model
is "--only makes a plain stream" "$(ctr-info lr.arrows | awk '/^(section|sections|rows):/ { printf "%s %s ", $1, $2 }')" "rows: 9 section: lr "
is "of the same rows" "$(digest <lr.arrows)" "$(ctr-info m.model | awk '/^digest/ { print $2; exit }')"
ok "which sorts" sh -c 'ctr-select --only lr --where "weight != 0" m.model | ctr-sort -k weight:desc | ctr-export >sorted.csv && [ $(wc -l <sorted.csv) -gt 2 ]'
is "and exports" "$(ctr-export lr.arrows)" "$(ctr-export --section lr m.model)"
is "a later section, -j 2" "$(ctr-select -j 2 --only vocab.u m.model | csv)" "$(ctr-export --section vocab.u m.model)"
is "--tail counts its rows alone" "$(ctr-select --only vocab.u --tail 50% m.model | csv | wc -l)" 3
ctr-select --section lr --where 'weight != 0' -o m.pruned m.model
ok "pruning a model with vocabularies" test "$(wc -c <m.pruned)" -lt "$(wc -c <m.model)"
is "leaves its predictions" "$(ctr-extract m.pruned r.arrows | ctr-predict m.pruned | digest)" "$(ctr-extract m.model r.arrows | ctr-predict m.model | digest)"
exits "--only and --section" 2 ctr-select --only lr --section lr m.model
exits "--only of no section" 2 ctr-select --only 'l?' m.model
err_like "lists them" "m.model: has no section 'l\?'; there are lr, vocab.g, vocab.u"
exits "--only of a plain stream" 2 ctr-select --only lr r.arrows
err_like "says so" "r.arrows: has no section 'lr': it is a plain stream"
head -c $(($(wc -c <m.model) - 30)) m.model >m.cut
exits "--only of a bundle that is cut behind it" 1 ctr-select --only lr m.cut
err_like "says so" "m.cut: truncated"
cat m.model m.model >twice.model
exits "a section that comes twice" 1 ctr-export --section lr twice.model
err_like "is no stream" "twice.model: has section 'lr' twice"

exits "--where wants a condition" 2 ctr-select --where 'id + 1' r.arrows
err_like "and says what it got" "where wants a condition, and this is int64"
exits "an error in an expression" 2 ctr-select --where 'rating >= 4 and lowr(user)' r.arrows
err_like "names the character of the text" "ctr-select: --where: character 17: no operator lowr; did you mean lower"
exits "--add without a name" 2 ctr-select --add 'id + 1' r.arrows
exits "two on stdout" 2 ctr-select --where true --rest - r.arrows
printf 'id,v\n' >none.csv
ctr-import --format csv --columns id:int64,v:int64 --header none.csv >none.arrows
for opts in '--where true' '--head 50%' '--tail 3' '--tail 10% --rest e.arrows' '--add x=id+1'; do
    is "no rows in, none out: $opts" "$(ctr-select $opts none.arrows | ctr-info | awk '/^rows/ { print $2 }')" 0
done
head -c 3000 big.arrows >short.arrows
exits "a truncated input" 1 ctr-select --where 'v < 3' short.arrows
exits "a truncated input through the spool" 1 ctr-select --tail 3% short.arrows
full_tmp() { ( ulimit -f 1; trap - XFSZ; exec ctr-select --tail 3% <big.arrows >/dev/null ) }
exits "a TMPDIR that is full" 1 full_tmp
err_like "is named" '^ctr-select: temporary file .see TMPDIR.: write failed'
printf 'x\n1\n' | ctr-import --format csv --header >"$W/blank.arrows"
is '--add with blanks around its =' "$(ctr-select --add ' y = x + 1' "$W/blank.arrows" | ctr-select --columns y | ctr-export --format csv | tail -n 1)" 2

# No reader would take such a name, and such options are shown as far as they are text.
byte=$(printf '\351')
exits 'a name that is not UTF-8' 1 ctr-select --columns "$byte=x" blank.arrows
err_like 'says so' 'the name of column 1 is not UTF-8'
is 'provenance of options that are not' "$(printf 'x\n1\n' | ctr-import --format csv --header --null "$byte" | ctr-info | sed -n 's/^made by: //p')" \
    "$(ctr-info blank.arrows | sed -n 's/^made by: //p') --null=?"

# Dictionaries: of a column that an expression replaces, and of rows that outlive the batch that they came in.
if has_python pyarrow; then
    "$PY" - <<'PYTHON'
import pyarrow as pa
s = pa.schema([pa.field("n", pa.int64()), pa.field("d", pa.dictionary(pa.int32(), pa.string()))])
with pa.OSFile("dict.arrows", "wb") as f, pa.ipc.new_stream(f, s) as w:
    for i in range(3):
        words = pa.DictionaryArray.from_arrays(pa.array([1, 0], pa.int32()), pa.array([f"a{i}", f"b{i}"]))
        w.write_batch(pa.record_batch([pa.array([2 * i, 2 * i + 1]), words], schema=s))
PYTHON
    is "--add in place of a dictionary" "$(ctr-select --add 'd=concat(d, "x")' --head 5 dict.arrows | ctr-export --no-header | tail -n 2)" "3,a1x
4,b2x"
    is "--add of a dictionary in place of numbers" "$(ctr-select --add 'n=d' dict.arrows | ctr-export --no-header | head -n 1)" "b0,b0"
    is "--tail over several dictionaries" "$(ctr-select --tail 4 dict.arrows | ctr-export --no-header)" "2,b1
3,a1
4,b2
5,a2"
else
    skip "dictionaries" "no pyarrow"
fi

# What a list is the past of has a new name too.
if has_python pyarrow; then
    "$PY" - <<'PYTHON'
import pyarrow as pa
f = [pa.field("item", pa.string()), pa.field("past", pa.list_(pa.string()), metadata={"ctr.history_of": "item"})]
t = pa.table([pa.array(["a", "b"]), pa.array([["x"], []])], schema=pa.schema(f))
with pa.OSFile("past.arrows", "wb") as s, pa.ipc.new_stream(s, t.schema) as w: w.write_table(t)
PYTHON
    history_of() { "$PY" -c 'import pyarrow as pa, sys
for f in pa.ipc.open_stream(sys.stdin.buffer).schema: print((f.metadata or {}).get(b"ctr.history_of", b"-").decode(), end=" ")'; }
    is "NEW=OLD" "$(ctr-select --columns past,ad=item past.arrows | history_of)" "ad - "
    is "a column that is left out" "$(ctr-select --columns past past.arrows | history_of)" "item "
    is "an item has no past" "$(ctr-select --explode past past.arrows 2>err | history_of)" "- - "
else
    skip "history_of" "no pyarrow"
fi
# ---- roles
printf 'click,who,at\n1,a,2026-01-05\n0,b,2026-01-06\n' | ctr-import -q -f csv --header --label click >"$W/roles"
roles() { ctr-select "$@" "$W/roles" | ctr-info --json | grep -o '"name":"[a-z]*"[^}]*"ctr.role":"[a-z]*"' | sed 's/"name":"\([a-z]*\)".*:"\([a-z]*\)"/\1=\2/' | tr '\n' ' '; }
is '--role: of a column, and of one that --add makes' "$(roles --add 'bought = click == 0' --role who=user --role bought=label)" 'who=user bought=label '
is 'none' "$(roles --role click=)" ''
is 'under its new name' "$(roles --columns 'y=click,who' --role y=weight)" 'y=weight '
is 'the rows are the same' "$(ctr-select --role who=user "$W/roles" | ctr-export -f csv | cksum)" "$(ctr-export -f csv "$W/roles" | cksum)"
ok 'other tools find it' sh -c "ctr-select --add 'p = 0.5' --role p=score '$W/roles' | ctr-eval -m log_loss | grep -q '^total'"
exits 'a role that is none' 2 ctr-select --role who=owner "$W/roles"
err_like 'is named' 'role who=owner: write it as NAME=ROLE'
exits 'features' 2 ctr-select --role who=feature "$W/roles"
err_like 'come from a plan' 'a plan makes features'
exits 'a column that is not there' 2 ctr-select --role nosuch=user "$W/roles"
err_like 'is named too' 'nosuch'
done_testing
