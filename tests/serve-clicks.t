#!/usr/bin/env perl
# ctr-serve: clicks join the scores that are kept, exactly; rankings explore as ctr-rank does, bit for bit, from the log alone;
# files that only fit together are taken together.
use strict;
use warnings;
use File::Temp qw(tempdir);
use JSON::PP;
use Test::More;
use Time::HiRes qw(sleep time);
use lib "$ENV{CTR_TOP}/tests";
use Serve;

my $B = $ENV{CTR_BUILD};
$ENV{PATH} = "$B/bin:$B/bench:$ENV{PATH}";
$ENV{LC_ALL} = 'C';
plan skip_all => 'ctr-serve was left out of the build' unless -x "$B/bin/ctr-serve";
my $dir = tempdir(CLEANUP => 1);
chdir $dir or die;
my $json = JSON::PP->new->canonical;

srand 3;
my @log = map { my ($u, $a) = (int rand 30, int rand 20); [rand() < ($a % 5 + $u % 3) / 12 ? 1 : 0, $u, "a$a", ($a * 37 % 100 + 1) / 8] } 1 .. 2000;
spew('log.csv', "click,user,ad,price\n" . join '', map { join(',', @$_) . "\n" } @log);
sh('ctr-import -q --header --columns click:int8,user:int64,ad:utf8,price:float64 -o log.arrows log.csv');
spew('ads.plan', "label click\nid ad\nkeep price\nfeature user\nfeature item = ad\nfeature both = cross(user, ad)\n");
sh('ctr-train lr -q --alpha .2 -o ads.model ads.plan log.arrows');
sh('ctr-train mlp -q --embedding 4 --hidden 8 --minibatch 64 -o mlp.model ads.plan log.arrows');

sub body { my ($u, @ads) = @_; return $json->encode({ user => { user => $u }, ads => [map { { ad => "a$_", price => $_ + 1 } } @ads] }); }
sub clicks { my ($c, @head) = @_; return ask(message('/v1/clicks', ref $c ? $json->encode($c) : $c, @head)); }

# ---- clicks

my @files = qw(served.arrows clicks.arrows);
start('ads.model', '--threads', 2, '--clicks', 10, '--log', $files[0], '--clicks-log', $files[1], '--top', 2);
my $sum = 0;
for my $i (1, 2) {
    my (undef, undef, $text) = post(body($i, 1 .. 4), "X-Request-Id: r$i");
    $sum += $_ for @{ decode_json($text)->{scores} };
}
is(metric('ctr_serve_kept_ads'), 8, 'scores are kept');
ok(abs(metric('ctr_serve_mean_score') - $sum / 8) < 1e-12, 'their mean');
is(metric('ctr_serve_calibration_ratio'), '', 'no ratio before the first click');
my ($status, undef, $text) = clicks({ request => 'r1', ads => [0, 3] });
is($status, 200, 'two clicks');
is($text, qq({"joined":2,"unknown":0,"repeated":0}\n), 'are joined');
ok(abs(metric('ctr_serve_calibration_ratio') - 2 / $sum) < 1e-12, 'clicks over the sum of scores');
is((clicks([{ request => 'r1', ads => [3] }, { ads => [1], request => 'r2' }, { request => 'r2', ads => [4] }, { request => 'none', ads => [0] }, { request => 'r2', ads => [] }]))[2],
   qq({"joined":1,"unknown":2,"repeated":1}\n), 'of several requests: one again, an ad and a request that are unknown');
is(join(' ', map { metric("ctr_serve_clicks_${_}total") } '', 'unknown_', 'repeated_'), '3 2 1', '/metrics counts them');
(undef, undef, $text) = rank(body(3, 1 .. 4), 'X-Request-Id: r3');
is(metric('ctr_serve_kept_ads'), 10, 'of a ranking, those that were shown; the limit is reached exactly');
my @shown = map { $_->{ad} } @{ decode_json($text)->{ranked} };
my ($hidden) = grep { my $p = $_; !grep { $_ == $p } @shown } 0 .. 3;
is((clicks({ request => 'r3', ads => [$shown[1], $hidden] }))[2], qq({"joined":1,"unknown":1,"repeated":0}\n), 'an ad that was not shown is unknown');
post(body(4, 1), 'X-Request-Id: r4');
is(metric('ctr_serve_kept_ads'), 7, 'one more: the oldest request goes');
is((clicks({ request => 'r1', ads => [1] }))[2], qq({"joined":0,"unknown":1,"repeated":0}\n), 'its clicks are unknown');
is((clicks({ request => 'r2', ads => [0] }))[2], qq({"joined":1,"unknown":0,"repeated":0}\n), 'those of the next are not');
is(metric('ctr_serve_kept_clicks'), 3, 'clicks of what is kept: two of r2, one of r3');
post(body(5, 1 .. 11), 'X-Request-Id: r5');
is(metric('ctr_serve_kept_ads'), 7, 'a request of more ads than are kept is not');
post(body($_, 1), 'X-Request-Id: same') for 1 .. 50;
is((clicks({ request => 'same', ads => [0] }))[2], qq({"joined":1,"unknown":0,"repeated":0}\n), 'an id that came often is the latest');
is(metric('ctr_serve_kept_ads'), 10, 'the limit holds');
post(body($_, 1), "X-Request-Id: x$_") for 1 .. 300;
is((clicks([map { { request => "x$_", ads => [0] } } 1 .. 300]))[2], qq({"joined":10,"unknown":290,"repeated":0}\n), 'the last ten of 300');
for (['', 'is empty; it wants'], ['{', 'no JSON'], ['[1]', 'wants'], ['{"request":"a"}', "'ads' is missing"], ['{"ads":[0]}', "'request' is missing"], ['{"request":"a","ads":[-1]}', 'from 0'],
     ['{"request":"a","ads":[0.5]}', 'from 0'], ['{"request":"a","ads":["0"]}', 'from 0'], ['{"request":"a","ads":[0],"ads":[1]}', 'twice'], ['{"request":1,"ads":[]}', 'the id of a request'],
     ['{"request":"a","ads":[0],"x":1}', 'no member'], ['{"request":"' . 'a' x 64 . '","ads":[0]}', 'the id of a request'], ["{\"request\":\"\xff\",\"ads\":[0]}", 'UTF-8'], ['{"request":"a","ads":[0]} 1', 'follows'],
     ['{"request":"a","ads":[0,]}', 'no JSON'], ['{"request":"a","ads":0}', "'ads' wants a list"]) {
    my ($what, $re) = @$_;
    my ($code, undef, $said) = clicks($what);
    is($code, 400, "refused: $what");
    like($said, qr/$re/, 'and why');
}
is((clicks([{ request => 'none', ads => [(0) x 9999] }, { request => 'none', ads => [0] }]))[2], qq({"joined":0,"unknown":10000,"repeated":0}\n), 'as many clicks as --max-ads');
($status, undef, $text) = clicks([{ request => 'none', ads => [(0) x 9999] }, { request => 'none', ads => [0, 0] }]);
is($status, 413, 'one more');
like($text, qr/more than 10000 clicks are not taken at once \(--max-ads\)/, 'and why');
is((get('/v1/clicks'))[0], 405, 'GET');
is(metric('ctr_serve_clicks_total'), 16, 'what was refused counts nothing');
is(stop(), 0, 'ends with 0');
is(sh('ctr-info --check clicks.000001.arrows >/dev/null && ctr-export -q -f csv --no-header --columns request,place clicks.000001.arrows | head -n 4'), "r1,0\nr1,3\nr1,3\nr2,1\n", '--clicks-log has all of them, whole');
sh(q{ctr-join -q -k request,place --next served=clicked --within 30m clicks.000001.arrows served.000001.arrows | ctr-select --where 'not is_null(clicked)' --columns request,place >joined.arrows});
is(sh(q{ctr-export -q -f csv --no-header joined.arrows | head -n 5}), "r1,0\nr1,1\nr1,3\nr2,0\nr2,1\n", 'ctr-join --next finds the rows of the log that were clicked, also those too late for the server');
start('ads.model', '--threads', 1);
is((clicks({ request => 'a', ads => [0] }))[0], 404, 'without --clicks');
stop();

# ---- rankings that explore

# The log, through the filters, gives what was answered.
for my $case (['lr', 'ucb=1.5', '--bid price --price second --slots 1,0.5,0.25'], ['lr', 'thompson', '--slots 3'], ['lr', 'epsilon=0.5', '--top 4'], ['mlp', 'epsilon=1', '--bid price --price second --slots 4'],
              ['lr', 'thompson', '--bid price --price second --top 2 --floor 0.1']) {
    my ($kind, $explore, $options) = @$case;
    my $model = $kind eq 'lr' ? 'ads.model' : 'mlp.model';
    unlink glob 'served*.arrows';
    start($model, '--threads', 2, '--log', 'served.arrows', '--explore', $explore, '--seed', 7, split / /, $options);
    my (%answer, %order);
    for my $i (1 .. 12) {
        my ($code, undef, $said) = rank(body($i, map { ($_ * 7 + $i) % 20 } 0 .. 9), $i % 3 ? ("X-Request-Id: q$i") : ());
        is($code, 200, "$kind $explore: a ranking") if $i == 1;
        my $a = decode_json($said);
        is($a->{seed}, 7, 'it tells the seed') if $i == 1;
        ok((grep { defined $_->{propensity} } @{ $a->{ranked} }) == @{ $a->{ranked} }, 'and each propensity') if $i == 1;
        $order{ join ',', map { $_->{ad} } @{ $a->{ranked} } } = 1;
        while ($said =~ /\{"ad":(\d+),"score":([^,]*),([^}]*)\}/g) { $answer{"$a->{request} $1"} = "$2 $3"; }
    }
    is(stop(), 0, 'ends with 0');
    cmp_ok(scalar(keys %order), '>', 1, 'orders differ');
    my $uncertain = $explore =~ /epsilon/ ? '' : '--uncertainty';
    my $log = 'ctr-cat served.*.arrows';
    sh("$log | ctr-select --columns request,served,place,user,ad,price | ctr-extract -q $model 2>/dev/null >features.arrows");
    sh("$log | ctr-select --columns request,place >who.arrows");
    sh("ctr-predict -q $uncertain $model features.arrows 2>/dev/null | ctr-join -q --by-row who.arrows | ctr-rank -q --by request --explore $explore --seed 7 $options | ctr-export -q -f jsonl >ranked.jsonl");
    my %want;
    for (split /\n/, slurp('ranked.jsonl')) {
        my $line = $_;
        my $r = decode_json($line);
        $want{"$r->{request} $r->{place}"} = ($line =~ /"score":([^,}]*)/)[0] . ' ' . join ',', map { my $n = $_; ($n ne "price" || $options =~ /--price/) && $line =~ /"$n":([^,}]*)/ ? "\"$n\":$1" : () } qw(rank ecpm explored price slot_factor propensity);
    }
    is_deeply(\%answer, \%want, 'ctr-rank on the log gives each answer, to the bit');
    my %logged = map { my $r = decode_json($_); defined $r->{rank} ? ("$r->{request} $r->{place}" => /"propensity":([^,}]*)/ ? $1 : '') : () } split /\n/, sh("$log | ctr-export -q -f jsonl");
    is_deeply(\%logged, { map { $_ => $want{$_} =~ /"propensity":([^,}]*)/ ? $1 : 'none' } keys %want }, 'and the log has the propensities');
    is(sh("$log | ctr-export -q -f csv --no-header --columns seed | sort -u"), "7\n", 'and the seed');
}
sub fails { my ($want, $re, @args) = @_; my $said = `timeout 60 ctr-serve @args 2>&1 </dev/null`; is($? >> 8, $want, "ctr-serve @args"); like($said, qr/$re/, 'says why'); }
fails(2, '^ctr-serve: mlp\.model: models of kind mlp have no uncertainty', '--check', '--explore', 'ucb=1', 'mlp.model');
fails(2, 'wants ucb=C', '--check', '--explore', 'ucb', 'ads.model');
fails(2, '--top or --slots', '--check', '--explore', 'thompson', 'ads.model');
fails(2, 'wants factors', '--check', '--slots', '0.5,1', 'ads.model');
fails(2, '--clicks-log.*--clicks', '--check', '--clicks-log', 'x', 'ads.model');
fails(2, 'name one file', '--check', '--clicks', 1, '--clicks-log', 'x', '--log', 'x', 'ads.model');

# ---- files that only fit together

sub keyed { my ($file, $type, $add) = @_; sh("ctr-select --columns user log.arrows | ctr-sort --unique -k user 2>/dev/null | ctr-select --add 'kind=$add' | ctr-cat --to file --key user -o $file"); }
spew('kind.plan', "label click\nfeature user\nfeature kind\nfeature item = ad\n");
my %kind = (number => 'user % 3', text => 'concat("k", user % 3)');
for (sort keys %kind) { sh("ctr-select --add 'kind=$kind{$_}' log.arrows | ctr-train lr -q -o $_.model kind.plan"); keyed("$_.users", undef, $kind{$_}); }
sub swap { for my $f (@_) { my ($from, $to) = @$f; sh("cp $from next && mv next $to"); } }
swap(['number.model', 'live.model'], ['number.users', 'live.users']);
start('live.model', '--users', 'live.users', '--threads', 1);
my %id = map { $_ => (sh("ctr-serve --check --users $_.users $_.model") =~ /^model\t(\w{32})$/m)[0] } keys %kind;
my $known = '{"user": 1, "ads": [{"ad": "a1"}]}';
is(decode_json((post($known))[2])->{model}, $id{number}, 'a pair is served');
swap(['text.model', 'live.model'], ['text.users', 'live.users']);
ok(until_metric('ctr_serve_model_info{model="' . $id{text} . '",map=""}', 1), 'both are replaced: taken together');
is(decode_json((post($known))[2])->{model}, $id{text}, 'and serve');
my $bad = metric('ctr_serve_bad_loads_total');
swap(['number.model', 'live.model']);
ok(until_metric('ctr_serve_bad_loads_total', $bad + 1), 'the model alone does not fit, and is refused');
like(slurp('serve.err'), qr/column kind is utf8, and the model learned from int/, 'it is told why');
is(decode_json((post($known))[2])->{model}, $id{text}, 'what was served goes on');
swap(['number.users', 'live.users']);
ok(until_metric('ctr_serve_model_info{model="' . $id{number} . '",map=""}', 1), 'the users come later: both are taken');
spew('next', 'rubbish');
rename 'next', 'live.users';
swap(['text.model', 'live.model']);
ok(until_metric('ctr_serve_bad_loads_total', $bad + 3), 'a pair that is bad: both are refused');
is(decode_json((post($known))[2])->{model}, $id{number}, 'what was served goes on');
is(stop(), 0, 'ends with 0');

# Two files that are bad, beside a pair that only fits together.
sh(qq{ctr-select --columns ad log.arrows | ctr-sort --unique -k ad 2>/dev/null | ctr-cat --to file --key ad -o good.ads && ctr-select -q --add 'kind=concat("k", user % 3)' log.arrows | ctr-extract -q text.model 2>/dev/null | ctr-predict -q text.model 2>/dev/null >scored.arrows; ctr-calibrate -q --fit platt -o good.map scored.arrows});
swap(['number.model', 'live.model'], ['number.users', 'live.users'], ['good.map', 'live.map'], ['good.ads', 'live.ads']);
start('live.model', '--users', 'live.users', '--ads', 'live.ads', '--map', 'live.map', '--threads', 1);
spew('rubbish', 'rubbish');
my $n = metric('ctr_serve_bad_loads_total');
swap(['rubbish', 'live.map'], ['rubbish', 'live.ads']);
ok(until_metric('ctr_serve_bad_loads_total', $n + 2), 'two bad files are refused');
swap(['text.model', 'live.model'], ['text.users', 'live.users']);
my $taken = 0;
for (1 .. 400) { last if $taken = decode_json((post($known))[2])->{model} eq $id{text}; sleep .05; }
ok($taken, 'a pair that only fits together is taken beside them');
is(stop(), 0, 'ends with 0');
done_testing;
