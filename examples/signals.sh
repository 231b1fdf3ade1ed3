#!/bin/sh
# An alarm to hang training on: ctr-signals vets each day of a log that something happens to, and says what. Prints each day's
# verdict on its signals; ends with 1 if a day's is not the expected one. OUT: folder for the products.
set -e
OUT=${OUT:-out}/signals/days
rm -rf "$OUT"
mkdir -p "$OUT"
cd "$OUT"
export CTR_SIGNALS="$PWD/index.db"
wrong=0

# day N [NAME=VALUE…] : the log of a day, from a world that stays as it is but for what is said of it: `cents` prices are in
# cents, `missing` the share without a price, `ids` replaces the first letter of all ids, `drop` a column, `shift` moves hours.
day() {
    n=$1
    shift
    awk -v seed="$n" -v cents=0 -v missing=.01 -v ids=u -v drop= -v shift_by=0 "$@" 'function row(a, b, c, d, e) {
            print a "," b (drop == "price" ? "" : "," c) "," d "," e }
        BEGIN { srand(seed); row("user", "ad", "price", "hour", "click")
            for (i = 0; i < 4000; i++) {
                user = int(exp(rand() * 6.2)); ad = int(rand() * rand() * 30)
                price = sprintf("%.2f", exp(rand() * 3)) * (cents ? 100 : 1)
                hour = (int((rand() + rand()) * 7) + int(shift_by + rand())) % 24
                row(ids user, "ad" ad, rand() < missing ? "" : price, hour, rand() < .02 + ad % 5 / 40) } }' >"day$n.csv"
    # The label stands beside the signals; a column that the log lacks is not made up.
    ctr-import --format csv --header --label click -o "day$n.arrows" "day$n.csv"
}

# vets N WANT : vet the day; WANT is 0, it passes, or 3, it does not.
vets() {
    status=0
    ctr-signals -q vet --allow "day$1.arrows" >"day$1.txt" || status=$?
    awk -v what="day $1 $3" 'NR == 1 { at = index($0, "verdict") }
        NR > 1 && substr($0, at) != "passed" { printf "%-44s %-6s %s\n", what, $1, substr($0, at); bad = 1 }
        END { if (!bad) printf "%-44s %s\n", what, "passed" }' "day$1.txt"
    [ "$status" = "$2" ] || { echo "  exit $status, expected $2"; wrong=1; }
}

for signal in user ad price hour; do ctr-signals -q add --definition "column $signal of the log" "$signal"; done
day 1; vets 1 0 ''
day 2; vets 2 0 ''
# A consumer that is not ctrkit's: another program trains on these.
printf '{"model":"ranker","signal":"%s","version":1}\n' user price | ctr-signals -q register --json -
ctr-signals alerts && echo 'no alerts'
day 3 -v cents=1; vets 3 3 '(price in cents)'
ctr-signals -q alerts || echo "alerts: exit $?"
day 4 -v cents=1; vets 4 3 '(still: no day clears itself)'
day 5; vets 5 0 '(in euros again)'
ctr-signals alerts && echo 'no alerts'
day 6 -v missing=.6; vets 6 3 '(price missing in 60%, not 1%)'
day 7 -v drop=price; vets 7 3 '(no column price)'
day 8 -v ids=U; vets 8 3 '(U17 for u17)'
day 9; vets 9 0 '(as it was)'

# Each week the hours come a third of an hour later, which no day's vetting against the last one sees.
passed=0
for week in 1 2 3 4 5 6 7 8 9 10 11 12; do
    n=$((9 + week))
    day $n -v shift_by="$(awk "BEGIN { print $week / 3 }")"
    if ctr-signals -q vet "day$n.arrows" >"day$n.txt"; then passed=$((passed + 1)); else break; fi
done
vets $n 3 "(week $week of a slow drift)"
[ $passed -ge 3 ] || wrong=1
echo "$passed weeks of it passed"
# A person looks, finds that this is right, and says so.
ctr-signals -q accept hour
vets $n 0 '(accepted, and vetted again)'
ctr-signals vettings --format jsonl hour | tail -n 2 | sed 's/"time":"[^"]*",//'
exit $wrong
