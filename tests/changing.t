#!/bin/sh
# Files that another program replaces or overwrites while a tool reads them: one file from first to last, or an error.
. "${0%/*}/lib.sh"
cd "$W" || exit 1

# ---- a dictionary of lookup(): 40 blocks, more than are kept
seq 0 299999 | awk '{ print $1 "," $1 * 3 ",t" $1 % 1000 }' | ctr-import -f csv --columns k:int64,v:int64,t:utf8 -o d.arrows
ctr-cat --to file --key k -o old.arrow d.arrows
ctr-select --add 'v=v+1' d.arrows | ctr-cat --to file --key k -o new.arrow
echo 'keep v = lookup("dict.arrow", k, "v")
keep t = lookup("dict.arrow", k, "t")
keep same = lookup("dict.arrow", k, "v") - 3 * k' >d.plan
ctr-sort --shuffle --seed 3 d.arrows | ctr-select --columns k >keys.arrows
ctr-select --head 1000 --rest rest.arrows keys.arrows >first.arrows
cp old.arrow dict.arrow
ctr-extract d.plan first.arrows rest.arrows >want.arrows
mkfifo fifo
# change_during NAME COMMAND… : looks up keys, then COMMAND, then looks up more. The status is in $status.
change_during() {
    _name=$1
    shift
    cp old.arrow dict.arrow
    rm -f got.arrows
    ctr-extract --flush 20ms d.plan <fifo >got.arrows 2>"$W/err" &
    exec 3>fifo
    cat first.arrows >&3
    ok "$_name: look-ups before it" until_true test -s got.arrows
    "$@"
    cat rest.arrows >&3
    exec 3>&-
    wait $!
    status=$?
}
overwrite() { cat "$1" >dict.arrow; }
replace() { cp new.arrow moved.arrow && mv moved.arrow dict.arrow; }
change_during 'a dictionary that is replaced' replace
is 'status 0' $status 0
ok 'all look-ups are of the first' same_rows want.arrows got.arrows
change_during 'a dictionary that is removed' rm dict.arrow
is 'status 0' $status 0
ok 'all look-ups are of the first' same_rows want.arrows got.arrows
for with in new.arrow old.arrow first.arrows; do
    change_during "a dictionary that is overwritten with $with" overwrite $with
    is 'status 1' $status 1
    err_like 'is told of' 'dict.arrow: was (changed or replaced by another program|shortened by another program)'
    exits 'what came out is no whole stream' 1 ctr-info got.arrows
done
# The time of the last write is set back, as copies that keep times do.
set_back() { # set_back FROM TO : TO is overwritten in place
    touch -r "$2" stamp
    cat "$1" >"$2"
    touch -r stamp "$2"
}
change_during 'a dictionary that is overwritten, with the time of the first' set_back new.arrow dict.arrow
is 'status 1' $status 1
err_like 'is told of' 'dict.arrow: was changed or replaced by another program'
# Offsets of text that point anywhere, where they were verified before: the byte after byte 3 of 4 is changed all over.
poke() {
    LC_ALL=C awk 'BEGIN { for (i = 0; i < 200000; i++) printf "%c%c%c%c%c%c%c%c", 255, 127, 254, 127, 1, 2, 127, 127 }' |
        dd of=dict.arrow bs=4096 seek=8 conv=notrunc status=none
}
change_during 'a dictionary whose blocks are overwritten' poke
is 'status 1' $status 1
err_like 'is told of' 'dict.arrow: was changed'

# ---- the main input: passes
head -c 1000000 /dev/zero | tr '\0' '\n' | awk '{ print NR % 7 == 0, NR % 50 }' | tr ' ' , |
    ctr-import -f csv --columns y:float64,a:int64 --label y >log.arrows
ctr-select --where 'a < 0' log.arrows >none.arrows
echo 'keep y
feature a' | ctr-extract - log.arrows >x.arrows
ctr-train lr -q --passes 2 -o want.model x.arrows
mkfifo scores
# train_while COMMAND… : two passes, and COMMAND during the first, which waits for its predictions to be read.
train_while() {
    cp x.arrows now.arrows
    ctr-train lr -q --passes 2 --progressive scores -o got.model now.arrows 2>"$W/err" &
    exec 3<scores
    head -c 1000 <&3 >/dev/null
    "$@"
    cat <&3 >/dev/null
    exec 3<&-
    wait $!
    status=$?
}
ctr-select --head 10000 x.arrows >other.arrows
put_other() { cp other.arrows moved.arrows && mv moved.arrows now.arrows; }
train_while put_other
is 'a log that is replaced in the first pass' $status 0
ok 'is read again: all passes are of one file' same_rows want.model got.model
train_while rm now.arrows
is 'a log that is removed in the first pass' $status 0
ok 'is read again' same_rows want.model got.model
rm got.model
train_while cp other.arrows now.arrows
is 'a log that is overwritten' $status 1
err_like 'is told of' 'now.arrows: was changed or replaced by another program while it was read$'
ok 'there is no model' test ! -e got.model
train_while touch -m -d '+1 hour' now.arrows
is 'a log that was written to' $status 1
err_like 'with as many bytes, too' 'now.arrows: was changed or replaced by another program while it was read$'
# Another log of the same length, in place, with the times of the first: in the first pass, and where a stream ends and another begins.
head -c 1000000 /dev/zero | tr '\0' '\n' | awk '{ print NR % 7 == 1, NR % 50 }' | tr ' ' , |
    ctr-import -f csv --columns y:float64,a:int64 --label y >log2.arrows
echo 'keep y
feature a' | ctr-extract - log2.arrows >x2.arrows
is 'two logs of one length' "$(wc -c <x.arrows)" "$(wc -c <x2.arrows)"
train_while set_back x2.arrows now.arrows
is 'a log that is overwritten, with the time of the first' $status 1
err_like 'is told of' 'now.arrows: was changed or replaced by another program while it was read$'

# ---- text: while its rows wait for being read
awk 'BEGIN { for (i = 100000; i < 500000; i++) print i "," i % 7 }' >one.csv
awk 'BEGIN { for (i = 100000; i < 500000; i++) print i "," i % 5 }' >two.csv
echo 'from log = csv(columns="a:int64,b:int64")
keep a, b' >view.plan
mkfifo rows
# text_while NAME COMMAND… : COMMAND reads now.csv and writes rows, of which the last come after now.csv was overwritten.
text_while() {
    _name=$1
    shift
    cp one.csv now.csv
    "$@" >rows 2>"$W/err" &
    exec 3<rows
    head -c 1000 <&3 >/dev/null
    set_back two.csv now.csv
    cat <&3 >left.arrows
    exec 3<&-
    wait $!
    is "$_name that is overwritten" $? 1
    err_like 'is told of' 'now.csv: was changed or replaced by another program while it was read$'
}
text_while 'a text' ctr-import -q -f csv --columns a:int64,b:int64 now.csv
text_while 'a text view' ctr-extract -q view.plan log=now.csv
ok 'a text on stdin' sh -c 'ctr-import -q -f csv --columns a:int64,b:int64 <one.csv | ctr-info --check'

# ---- a log that is followed: streams of one length, cut and written anew while the reader is in the middle
for i in 1 2; do ctr-select --head 20000 "$(test $i = 1 && echo x.arrows || echo x2.arrows)" >small$i; done
is 'two streams of one length' "$(wc -c <small1)" "$(wc -c <small2)"
for i in 1 2; do for k in $(seq 30); do cat small$i; done >logs$i; done
cp logs1 now.arrows
ctr-train lr -q --follow --flush 20ms --progressive scores -o got.model now.arrows 2>"$W/err" &
exec 3<scores
head -c 1000 <&3 >/dev/null
cat logs2 small2 >now.arrows
cat <&3 >/dev/null &
exec 3<&-
until_true grep -q now.arrows "$W/err" || kill -KILL %1
wait %1
is 'a followed log that is cut and written anew, and is longer' $? 1
err_like 'is told of' 'now.arrows: was cut short (and written anew )?while it was followed'
rm -f got.model

ctr-train lr -q -o m.model x.arrows
sh -c 'ctr-predict m.model - <x.arrows' >want.arrows
ok 'a file on stdin' sh -c 'ctr-predict m.model - <x.arrows | cmp - want.arrows'

# ---- a model and the plan in it: explain reads both
ctr-select --head 500 log.arrows >few.arrows
for k in 1 2; do
    printf 'feature a = a + %s\nkeep y\n' $k >$k.plan
    ctr-extract $k.plan few.arrows | ctr-train lr -q -o $k.model
done
cp 1.model now.model
ctr-model explain now.model few.arrows >want.txt
ctr-model explain now.model <fifo >got.txt 2>"$W/err" &
exec 3>fifo
until_true sh -c "ls -l /proc/$!/fd | grep -q now.model"
cp 2.model moved.model && mv moved.model now.model
cat few.arrows >&3
exec 3>&-
wait $!
is 'explain of a model that is replaced' $? 0
ok 'is of the first' cmp want.txt got.txt
done_testing
