#!/usr/bin/env perl
# ctr-serve: scores are the pipe's, bit for bit; limits hold exactly; models are replaced under load without a failed request.
# CTR_SWAPS=1000 and CTR_CONNECTIONS=10000 run the long forms.
use strict;
use warnings;
use Cwd qw(abs_path);
use File::Temp qw(tempdir);
use IO::Socket::INET;
use JSON::PP;
use Test::More;
use Time::HiRes qw(sleep time);
use lib "$ENV{CTR_TOP}/tests";
use Serve qw(spew slurp sh start stop dial answer put message ask post get metric until_metric %server);

my $B = $ENV{CTR_BUILD};
my $SAN = $B =~ /-san/;
$ENV{PATH} = "$B/bin:$B/bench:$ENV{PATH}";
$ENV{LC_ALL} = 'C';
my $dir = tempdir(CLEANUP => 1);
chdir $dir or die;
plan skip_all => 'ctr-serve was left out of the build' unless -x "$B/bin/ctr-serve";

# ---- a world

srand 5;
my @rows;
for my $i (0 .. 2999) {
    my ($u, $a) = (int(rand() * rand() * 300), int(rand 40));
    my $past = join '|', map { 'a' . int(rand 40) } 1 .. $u % 4;
    push @rows, { click => rand() < ($a % 5 + $u % 3) / 12 ? 1 : 0, user => $u, age => $u % 7 ? $u % 50 : undef, past => $past,
                  ad => "a$a", price => ($a * 37 % 100) / 8, tags => 't' . $u % 7 . '|t' . $a % 9, hour => int rand 24 };
}
my @names = qw(click user age past ad price tags hour);
spew('log.csv', join '', map { my $r = $_; join(',', map { ref $r ? $r->{$_} // '' : $_ } @names) . "\n" } { map { $_ => $_ } @names }, @rows);
sh('ctr-import -q --header --columns click:int8,user:int64,age:int64,past:utf8,ad:utf8,price:float64,tags:utf8,hour:int64 -o log.arrows log.csv');
my $plan = <<'PLAN';
label click
keep hour
feature user
feature ad in item
feature past in item of ad = split(past, "|")
feature tags = split(tags, "|")
feature both = cross(user, ad)
feature h = bucket(hour, [6, 12, 18])
feature known = vocab(ad, min=30)
dense age = fill(log1p(age), 0)
dense price
PLAN
spew('lr.plan', $plan);
(my $deep = $plan) =~ s/^(?:feature both).*\n//m;
spew('deep.plan', $deep);
for my $p (qw(lr deep)) { sh("ctr-extract -q --fit $p.plan -o $p.fitted log.arrows"); }
my $small = '--embedding 4 --hidden 8,4 --minibatch 64';
sh('ctr-train lr -q --progressive lr.p -o lr.model lr.fitted log.arrows');
sh('ctr-train lr -q --alpha .02 -o other.model lr.fitted log.arrows');
sh("ctr-train mlp -q $small -o mlp.model deep.fitted log.arrows");
sh("ctr-train din -q $small --attention-hidden 3 -o din.model deep.fitted log.arrows");
sh("ctr-train two-tower -q $small --user-features user,age,h,past --ad-features ad,tags,known,price -o tower.model deep.fitted log.arrows");
(my $unfitted = $plan) =~ s/^feature known.*\n//m;
spew('slim.plan', $unfitted);
sh('ctr-train lr -q -o wide.model slim.plan log.arrows && ctr-model slim -q -o slim.model wide.model');
sh('ctr-calibrate -q --fit platt --by hour --slice-clicks 5 -o map lr.p 2>/dev/null');

# ---- the pipe's bits

my @common = qw(user age past);
sub text { my ($r, @of) = @_; return { map { $_ => $r->{$_} } @of }; }
my @ads = map { { ad => "a$_", price => $_ * 1.1, tags => "t$_" } } 1 .. 30;
push @ads, { ad => 'never seen', price => undef, tags => undef }, { ad => undef, price => -0.0, tags => '' }, { ad => '"\\é', price => 1e-300, tags => '|' };
my $user = { user => 3, age => undef, past => 'a1|a2|a9' };
my $json = JSON::PP->new->canonical;

# The pipe's scores of these rows, as texts.
sub piped {
    my ($model, $map, @r) = @_;
    spew('rows.jsonl', join '', map { $json->encode($_) . "\n" } @r);
    my $cal = $map ? "| ctr-calibrate -q $map" : '';
    sh("ctr-import -q --format jsonl --columns user:int64,age:int64,past:utf8,ad:utf8,price:float64,tags:utf8,hour:int64 -o rows.arrows rows.jsonl 2>/dev/null");
    sh("ctr-extract -q $model rows.arrows 2>/dev/null | ctr-predict -q $model 2>/dev/null $cal >want.arrows");
    return join ',', map { /"score":([^}]*)/ } split /\n/, sh('ctr-export -f jsonl -c score want.arrows');
}
sub id_of { my ($model) = @_; return (sh("ctr-serve --check $model") =~ /^model\t(\w{32})$/m)[0]; }
sub scores { my ($body) = @_; return $body =~ /"scores":\[(.*)\]/ ? $1 : "none: $body"; }

my @merged = map { { %$user, hour => 7, %$_ } } @ads;
for my $case (['lr.model'], ['lr.model', 'map'], ['slim.model'], ['mlp.model', 'map'], ['din.model'], ['tower.model', 'map']) {
    my ($model, $map) = @$case;
    my $name = $model . ($map ? ' with a map' : '');
    my $want = piped($model, $map, @merged);
    start($model, $map ? ('--map', $map) : (), '--threads', 2);
    my ($status, $head, $body) = post($json->encode({ user => $user, context => { hour => 7 }, ads => \@ads }));
    is($status, 200, "$name: an answer");
    is(scores($body), $want, 'the scores are those of the pipe');
    (undef, undef, $body) = post($json->encode({ ads => \@merged }));
    is(scores($body), $want, 'also where each ad has all columns');
    (undef, undef, $body) = post($json->encode({ user => { %$user, hour => 7 }, ads => [$ads[0]] }));
    is(scores($body), (split /,/, $want)[0], 'and of one ad');
    my $pretty = JSON::PP->new->canonical->pretty->encode({ user => $user, context => { hour => 7 }, ads => \@ads });
    (undef, undef, $body) = post($pretty);
    is(scores($body), $want, 'and of a body in many lines');
    my ($s2, $h2, $stream) = post(slurp('rows.arrows'), 'Content-Type: application/vnd.apache.arrow.stream');
    spew('got.arrows', $stream);
    is(sh('ctr-info --digest got.arrows'), sh('ctr-info --digest want.arrows'), 'a stream gives the stream of the pipe');
    my ($is) = $head =~ /^X-Model: (\w+)/m;
    like($body, qr/"model":"$is"/, 'the answer names its model');
    is($is, id_of($model), 'by its id');
    like($head, qr/^X-Map: \w{32}/m, 'and the map') if $map;
    (undef, undef, $body) = post('{"ads":[]}');
    is(scores($body), '', 'no ads, no scores');
    is(stop(), 0, 'ends with 0');
}
is(sh('ctr-serve --check lr.model --map map | cut -f1,2 | sed -n 3,4p'), "column\thour\ncolumn\tuser\n", '--check lists what a request gives');

# ---- ids of models

{
    my %log = (a => '', b => '', c => '--alpha .5', d => '--l2 3', again => '');
    my $features = "label click\nfeature user\nfeature ad%s\nfeature hour\n";
    for my $m (sort keys %log) {
        spew("id.$m.plan", sprintf $features, $m eq 'b' ? ' = lower(ad)' : '');
        sh("ctr-train lr -q $log{$m} -o id.$m.model id.$m.plan log.arrows");
    }
    is(sh('ctr-info --digest id.a.model'), sh('ctr-info --digest id.b.model'), 'plans differ, rows of the models do not');
    my %id = map { $_ => id_of("id.$_.model") } keys %log;
    isnt($id{$_}, $id{a}, "the id does: $_") for qw(b c d);
    is($id{again}, $id{a}, 'a model trained again has the id of the first');
    sh('ctr-cat --batch 3 --compress zstd id.a.model >id.cat.model && ctr-extract -q id.a.plan log.arrows | ctr-train lr -q -o id.piped.model');
    is(id_of("id.$_.model"), $id{a}, "and so has one by other programs: $_") for qw(cat piped);
    spew('id.py', <<'END');
import subprocess
import pyarrow
import xxhash
pairs = pyarrow.ipc.open_stream('id.a.model').schema.metadata
pairs = b''.join(k + b'\0' + v + b'\0' for k, v in sorted(pairs.items()) if k != b'ctr.pg')
print(xxhash.xxh3_128_hexdigest(subprocess.check_output(['ctr-info', '--digest', 'id.a.model']) + pairs))
END
    SKIP: {
        my $py = $ENV{CTR_PYTHON} || 'python3';
        skip 'no pyarrow and xxhash: set CTR_PYTHON', 1 if system("$py -c 'import pyarrow, xxhash' 2>/dev/null");
        is(sh("$py id.py"), "$id{a}\n", 'it is what the manual says');
    }
    start('id.a.model', '--log', 'id.arrows');
    my $ask = $json->encode({ user => { user => 3, hour => 7 }, ads => [{ ad => 'A1' }] });
    my (undef, $head, $body) = post($ask);
    like($head, qr/^X-Model: $id{a}\r?$/m, 'X-Model is the id');
    like($body, qr/"model":"$id{a}"/, 'the answer has it');
    sh('cp id.b.model id.next && mv id.next id.a.model');
    ok(until_metric('ctr_serve_model_info{model="' . $id{b} . '",map=""}', 1), 'the one with the other plan is taken');
    like((post($ask))[1], qr/^X-Model: $id{b}\r?$/m, 'and named');
    is(stop(), 0, 'ends with 0');
    like(slurp('serve.err'), qr/serves model $id{b} from now on/, 'on stderr, which comes after it is served');
    is(sh('ctr-cat id.0*.arrows | ctr-export -q -f csv --no-header --columns model'), "$id{a}\n$id{b}\n", 'and in the log');
}

# ---- wrong requests

start('lr.model', '--map', 'map', '--max-ads', 50, '--max-body', '20K', '--max-header', '2K', '--threads', 1);
my @wrong = (
    ['{"ads":[{"ad":"a1"}]}', 400, 'column hour is missing'],
    ['', 400, 'no JSON object'],
    ['[]', 400, 'no JSON object'],
    ['{"ads":[}', 400, 'no JSON'],
    ['{"ads":[]} x', 400, 'something follows'],
    ['{"user":{}}', 400, "'ads' is missing"],
    ['{"ads":[],"ads":[]}', 400, "'ads' is there twice"],
    ['{"ad":[]}', 400, "'ad' is no member"],
    ['{"ads":{}}', 400, 'ads: wants a list'],
    ['{"ads":[1]}', 400, 'a key alone needs the file'],
    ['{"ads":[[]]}', 400, 'wants objects'],
    ['{"user":{"user":"x"},"ads":[{}]}', 400, "user: column user: 'x' is not int64"],
    ['{"user":{"user":1.5},"ads":[{}]}', 400, "user: column user: '1.5' is not int64"],
    ['{"ads":[{"price":1},{"price":[]}]}', 400, 'ads\[1\]: column price'],
    ['{"user":{"user":1,"ad":"b"},"ads":[{"ad":"a"}]}', 400, 'column ad is in user and in ads: give it once|column hour is missing'],
    ['{"user":{"hour":1},"context":{"hour":1},"ads":[{"ad":"a"}]}', 400, 'column hour is in user and in context'],
    ["{\"ads\":[{\"ad\":\"\xff\"}]}", 400, 'not UTF-8'],
    ["{\"ads\":[{\"ad\":\"a\nb\"}]}", 400, 'no JSON'],
    ['{"ads":[' . join(',', ('{}') x 51) . ']}', 413, 'more than 50 are not taken .--max-ads'],
    ['{"ads":[' . ' ' x 20480 . ']}', 413, 'at most 20480 are taken'],
);
for (@wrong) {
    my ($body, $want, $re) = @$_;
    my ($status, undef, $said) = post($body);
    is($status, $want, substr $body, 0, 60);
    like(decode_json($said)->{error}, qr/$re/, 'says why');
}
my ($st, undef, $said) = post('x', 'Content-Type: application/vnd.apache.arrow.stream');
is($st, 400, 'no stream');
like($said, qr/the body/, 'is told of the body');
my $whole = slurp('rows.arrows');
for my $n (100, int(length($whole) / 2), length($whole) - 9) {
    ($st) = post(substr($whole, 0, $n), 'Content-Type: application/vnd.apache.arrow.stream');
    is($st, 400, "a stream cut at $n");
}
my $flipped = $whole;
substr($flipped, length($flipped) / 2, 1) ^= "\x01";
($st) = post($flipped, 'Content-Type: application/vnd.apache.arrow.stream');
is($st, 400, 'a flipped bit');

my $ok = "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n";
for ([$ok, 200], ["HEAD /healthz HTTP/1.1\r\nHost: x\r\n\r\n", 200], ["GET /readyz?x=1 HTTP/1.1\r\nHost: x\r\n\r\n", 200],
     ["GET /healthz HTTP/1.0\r\n\r\n", 200], ["GET /healthz HTTP/1.1\r\n\r\n", 400], ["GET /none HTTP/1.1\r\nHost: x\r\n\r\n", 404],
     ["GET /v1/score HTTP/1.1\r\nHost: x\r\n\r\n", 405], ["GET /healthz HTTP/2.0\r\nHost: x\r\n\r\n", 505], ["rubbish\r\n\r\n", 400],
     ["GET healthz HTTP/1.1\r\nHost: x\r\n\r\n", 400], ["GET /healthz HTTP/1.1\r\nHost: x\r\nA b: c\r\n\r\n", 400],
     ["GET /healthz HTTP/1.1\r\nHost: x\r\n folded\r\n\r\n", 400], ["GET /healthz HTTP/1.1\r\nHost: x\r\nA: \x00\r\n\r\n", 400],
     ["POST /v1/score HTTP/1.1\r\nHost: x\r\n\r\n", 411], ["POST /v1/score HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n", 411],
     ["POST /v1/score HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\n", 400],
     ["POST /v1/score HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n", 400], ["POST /v1/score HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999999\r\n\r\n", 413],
     ["POST /v1/score HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\nContent-Encoding: gzip\r\n\r\n{}", 415],
     ["POST /v1/score HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\nContent-Type: text/xml\r\n\r\n{}", 415],
     ["GET /healthz HTTP/1.1\r\nHost: x\r\nX: " . 'y' x 3000 . "\r\n\r\n", 431], ['GET /' . 'y' x 3000, 431],
     ['GET /' . 'y' x 300 . " HTTP/1.1\r\nHost: x\r\n\r\n", 414]) {
    my ($text, $want) = @$_;
    my $s = dial();
    put($s, $text);
    my $h = "";
    my ($status) = $text !~ /^HEAD/ ? answer($s) : sysread($s, $h, 4096) ? $h =~ /(\d{3})/ : ();
    (my $shown = substr $text, 0, 70) =~ s/[^ -~]/./g;
    is($status, $want, $shown);
}
my $s = dial();
put($s, $ok x 50);
is(join(' ', map { (answer($s))[0] } 1 .. 1), '200', 'pipelined') or 1;
$s = dial();
put($s, "POST /v1/score HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 10\r\n\r\n");
sysread $s, my $go, 100;
is($go, "HTTP/1.1 100 Continue\r\n\r\n", '100-continue');
put($s, '{"ads":[]}');
is((answer($s))[0], 200, 'and then the body');
put($s, $ok);
is((answer($s))[0], 200, 'and another request on the connection');
$s = dial();
put($s, "POST /v1/score HTTP/1.0\r\nExpect: 100-continue\r\nContent-Length: 10\r\n\r\n");
sleep .2;
put($s, '{"ads":[]}');
is((answer($s))[0], 200, 'HTTP/1.0 knows no 100-continue');
is((post('{"ads":[]}', "X-Deadline-Ms: $_"))[0], 200, "a deadline of $_ ms is far away") for 9223372036855, 999999999999999999;
$s = dial();
put($s, substr $ok, 0, 10);
sleep .2;
put($s, substr $ok, 10);
is((answer($s))[0], 200, 'a request in two pieces');
is((get('/metrics'))[0], 200, '/metrics');
like((get('/metrics'))[2], qr/^ctr_serve_requests_total\{code="413"\} 3$/m, 'counts answers by status');
is(stop(), 0, 'ends with 0');

# ---- limits

my $heavy = $json->encode({ user => $user, context => { hour => 7 }, ads => [(@ads) x ($SAN ? 300 : 3000)] });
my $light = $json->encode({ user => $user, context => { hour => 7 }, ads => [$ads[0]] });
my $expected = piped('lr.model', undef, $merged[0]);
start('lr.model', '--threads', 1, '--queue', 2, '--max-ads', 1000000, '--max-body', '64M', '--request-time', '1s', '--connections', 20);
my @at = map { dial() } 1 .. 5;
put($at[0], message('/v1/score', $heavy));
ok(until_metric('ctr_serve_under_way', 1), 'one request is at work');
put($at[$_], message('/v1/score', $light)) for 1, 2;
ok(until_metric('ctr_serve_under_way', 3), 'two wait');
my $t = time;
put($at[3], message('/v1/score', $light));
my ($code, $head) = answer($at[3]);
note sprintf 'refused after %.1f ms', 1000 * (time - $t);
is($code, 503, 'the third to wait is refused');
like($head, qr/^Retry-After: \d/m, 'with Retry-After');
is(metric('ctr_serve_under_way'), 3, 'while the others wait');
is((answer($at[0]))[0], 200, 'the first has its answer');
is(scores((answer($at[$_]))[2]), $expected, 'those that waited, too') for 1, 2;

put($at[0], message('/v1/score', $heavy));
ok(until_metric('ctr_serve_under_way', 1), 'one at work again');
put($at[1], message('/v1/score', $light, 'X-Deadline-Ms: 1'));
put($at[2], message('/v1/score', $light, 'X-Deadline-Ms: 600000'));
is((answer($at[1]))[0], 504, 'a deadline that passed while it waited');
is((answer($at[2]))[0], 200, 'and one that did not');
answer($at[0]);

@at = ();
ok(until_metric('ctr_serve_connections', 1), 'connections are given back');
@at = map { dial() } 1 .. 20;
ok(defined $_ && put($_, $ok) && (answer($_))[0] == 200, 'one of 20 connections') for $at[0], $at[19];
($code) = answer(dial());
is($code, 503, 'the 21st is refused');
@at = @at[0 .. 9];
sleep .2;
is((get('/healthz'))[0], 200, 'until others end');
@at = ();

$s = dial();
put($s, 'GET /healthz HT');
$t = time;
is((answer($s))[0], 408, 'half a request is cut off');
cmp_ok(time - $t, '>', .8, 'not before its time');
$s = dial();
put($s, message('/v1/score', '{"ads":[]}' . ' ' x 90) =~ s/ {50}$//r);
is((answer($s))[0], 408, 'half a body, too');
my $slow = dial();
put($slow, message('/v1/score', $heavy)) for 1 .. 1;
sleep 1;
ok(until_metric('ctr_serve_under_way', 0), 'a client that takes no answer');
is(stop(), 0, 'ends with 0');

# ---- the end

start('lr.model', '--threads', 1, '--max-ads', 1000000, '--max-body', '64M');
@at = map { dial() } 1 .. 3;
put($at[0], message('/v1/score', $heavy));
ok(until_metric('ctr_serve_under_way', 1), 'a request is at work');
put($at[1], message('/v1/score', $light));
ok(until_metric('ctr_serve_under_way', 2), 'another waits');
kill 'TERM', $server{pid};
is((answer($at[0]))[0], 200, 'SIGTERM: what is at work is answered');
my ($c2, $h2, $b2) = answer($at[1]);
is($c2, 200, 'what waits, too');
like($h2, qr/^Connection: close/m, 'and the connection ends');
is((answer($at[2]))[0], undef, 'an idle one ends');
waitpid $server{pid}, 0;
is($?, 0, 'exit 0');
ok(!-e 'sock', 'the socket is gone');
start('lr.model', '--threads', 1, '--max-ads', 1000000, '--max-body', '64M');
$s = dial();
put($s, message('/v1/score', $heavy));
until_metric('ctr_serve_under_way', 1);
ok(until_metric('ctr_serve_under_way', 0), 'an answer that its client has not taken');
kill 'TERM', $server{pid};
sleep .3;
$t = time;
is((answer($s))[0], 200, 'SIGTERM: it is taken');
is((answer($s))[0], undef, 'its connection ends');
close $s;
waitpid $server{pid}, 0;
is($?, 0, 'exit 0');
cmp_ok(time - $t, '<', 10, 'at once, not after --grace');

# ---- usage

sub fails { my ($want, $re, @args) = @_; my $said = `timeout 60 ctr-serve @args 2>&1 </dev/null`; is($? >> 8, $want, "ctr-serve @args"); like($said, qr/$re/, 'says why'); }
fails(2, 'MODEL');
fails(2, 'ADDR:PORT', '--listen', 'here', 'lr.model');
fails(2, 'no address in numbers', '--listen', 'localhost:80', 'lr.model');
fails(1, 'none.model: cannot open', 'none.model');
fails(1, 'none.map', '--map', 'none.map', 'lr.model');
fails(2, '^ctr-serve: \.: is a directory\n', '--check', '.');
fails(2, 'has no plan', 'plain.model') if sh('ctr-select --columns click,user log.arrows | ctr-select --add "f=hash(user)" | ctr-cat >plain.arrows; printf "1 1:1\n0 2:1\n" | ctr-import -q -f libsvm | ctr-train lr -q -o plain.model -; echo 1');
sh(q{ctr-select --add 'odd=hour % 2' lr.p | ctr-calibrate -q --fit platt --by odd --slice-clicks 5 -o by.map 2>/dev/null});
fails(2, 'fitted by column odd', '--map', 'by.map', 'lr.model');
start('lr.model');
fails(1, 'another server listens there', '--listen', 'unix:sock', 'lr.model');
kill 'KILL', $server{pid};
waitpid $server{pid}, 0;
ok(-e 'sock', 'kill -9 leaves the socket');
unlink 'serve.err';
my $pid = fork // die;
if (!$pid) { open STDERR, '>', 'serve.err'; exec 'ctr-serve', '--listen', 'unix:sock', 'lr.model'; }
$server{pid} = $pid;
for (1 .. 400) { last if slurp('serve.err') =~ /listens/; sleep .05; }
is((get('/healthz'))[0], 200, 'which the next one takes');
is(stop(), 0, 'and ends');
unlink 'serve.err';
my $tcp = fork // die;
if (!$tcp) { open STDERR, '>', 'serve.err'; exec 'ctr-serve', '--listen', '127.0.0.1:0', 'lr.model'; }
$server{pid} = $tcp;
my $port;
for (1 .. 400) { last if ($port) = slurp('serve.err') =~ /listens at 127.0.0.1:(\d+)/; sleep .05; }
$s = IO::Socket::INET->new(PeerAddr => '127.0.0.1', PeerPort => $port);
put($s, $ok);
is((answer($s))[0], 200, 'over TCP');
is(stop(), 0, 'and ends');

is(sh('(ulimit -n 800; timeout 60 ctr-serve --connections 1000 lr.model 2>&1; echo $?) | tail -n 2') =~ s/: raise.*//r, "ctr-serve: --connections 1000 needs 1320 open files, and the limit is 800\n2\n", 'a limit of open files');
unlink 'serve.err';
$pid = fork // die;
if (!$pid) { open STDERR, '>', 'serve.err'; exec 'sh', '-c', 'ulimit -n 800; exec ctr-serve --listen unix:sock lr.model'; }
$server{pid} = $pid;
for (1 .. 400) { last if slurp('serve.err') =~ /listens/; sleep .05; }
is((get('/healthz'))[0], 200, 'which the default keeps to');
is(stop(), 0, 'and ends');

# ---- files of users and ads

sh('ctr-select --columns user,age,past log.arrows | ctr-sort --unique -k user 2>/dev/null | ctr-cat --to file --key user -o users.arrow');
sh('ctr-select --columns ad,price log.arrows | ctr-sort --unique -k ad 2>/dev/null | ctr-cat --to file --key ad -o ads.arrow');
start('lr.model', '--users', 'users.arrow', '--ads', 'ads.arrow', '--threads', 1);
sub joined { # what ctr-join makes of these
    my ($u, @a) = @_;
    spew('ids.jsonl', join '', map { $json->encode({ user => $u, ad => $_, tags => 't1', hour => 3 }) . "\n" } @a);
    sh('ctr-import -q --format jsonl --columns user:int64,ad:utf8,tags:utf8,hour:int64 ids.jsonl | ctr-join -q -k user users.arrow | ctr-join -q -k ad ads.arrow >rows.arrows 2>/dev/null');
    sh('ctr-extract -q lr.model rows.arrows 2>/dev/null | ctr-predict -q lr.model >want.arrows 2>/dev/null');
    return join ',', map { /"score":([^}]*)/ } split /\n/, sh('ctr-export -f jsonl -c score want.arrows');
}
for my $u ($rows[0]{user}, $rows[7]{user}, 987654) {
    my @a = ('a1', 'a39', 'a5', 'a1', 'unknown');
    my $want = joined($u, @a);
    my (undef, undef, $body) = post($json->encode({ user => $u, context => { hour => 3, tags => 't1' }, ads => \@a }));
    is(scores($body), $want, "user $u: keys alone, as ctr-join finds them");
    (undef, undef, $body) = post($json->encode({ user => { user => $u }, context => { hour => 3, tags => 't1' }, ads => [map { { ad => $_ } } @a] }));
    is(scores($body), $want, 'in objects');
}
is(metric('ctr_serve_unknown_users_total'), 2, 'unknown users are counted');
is(metric('ctr_serve_unknown_ads_total'), 6, 'unknown ads, too');
($st, undef, $said) = post('{"context":{"hour":3,"tags":"t1"},"ads":["a1"]}');
is($st, 400, 'no user');
like($said, qr/column user is missing/, 'says so');
($st, undef, $said) = post('{"user":{"user":1,"age":5,"past":null},"context":{"hour":3,"tags":"t1"},"ads":[{"ad":"a1","price":2}]}');
is($st, 200, 'what a request gives wins over the files');
is(scores($said), piped('lr.model', undef, { user => 1, age => 5, past => undef, hour => 3, tags => 't1', ad => 'a1', price => 2 }), 'and makes the score');
my $was = (post($json->encode({ user => 3, context => { hour => 3, tags => 't1' }, ads => ['a1'] })))[2];
sh('ctr-select --add "price=price + 5" log.arrows | ctr-select --columns ad,price | ctr-sort --unique -k ad 2>/dev/null | ctr-cat --to file --key ad -o ads.next && mv ads.next ads.arrow');
ok(until_metric('ctr_serve_loads_total', 1), 'a file is replaced');
my $now = (post($json->encode({ user => 3, context => { hour => 3, tags => 't1' }, ads => ['a1'] })))[2];
isnt($now, $was, 'and read');
is(scores($now), joined(3, 'a1'), 'as it is now');
is(stop(), 0, 'ends with 0');

# ---- rankings

(my $ranked_plan = $plan) =~ s/keep hour/query hour\nid ad\nkeep price/;
$ranked_plan =~ s/^feature (?:known|both).*\n//mg;
$ranked_plan =~ s/^feature ad in item/feature shown in item = ad/m;
$ranked_plan =~ s/of ad/of shown/;
spew('ranked.plan', $ranked_plan);
sh('ctr-train lr -q -o ranked.model ranked.plan log.arrows');
for my $case (['', ''], ['--top 5', '--top 5'], ['--bid price --floor 0.5', '--bid price --floor 0.5'], ['--bid price --price second --top 7', '--bid price --price second --top 7'],
              ['--order price', '--order price'], ['--bid price --price first', '--bid price --price first']) {
    my ($options, $same) = @$case;
    my @bids = grep { defined $_->{ad} && $_->{ad} =~ /^\w+$/ && $_->{price} > 0 } @ads;
    start('ranked.model', split(/ /, $options), '--threads', 1);
    my @in = map { { %$user, hour => 7, %$_ } } @bids;
    piped('ranked.model', undef, @in);
    sh("ctr-rank -q $same want.arrows >order.arrows");
    my ($status, undef, $body) = post(slurp('rows.arrows'), 'Content-Type: application/vnd.apache.arrow.stream');
    ($status, undef, $body) = ask(message('/v1/rank', slurp('rows.arrows'), 'Content-Type: application/vnd.apache.arrow.stream'));
    is($status, 200, "/v1/rank $options");
    spew('got.arrows', $body);
    is(sh('ctr-info --digest got.arrows'), sh('ctr-info --digest order.arrows'), 'a stream is that of ctr-rank');
    ($status, undef, $body) = ask(message('/v1/rank', $json->encode({ user => $user, context => { hour => 7 }, ads => \@bids })));
    my @text = $body =~ /\{"ad":[^}]*\}/g;
    my @want = split /\n/, sh('ctr-export -f jsonl order.arrows');
    is(scalar(@text), scalar(@want), 'as many ads');
    my @got = map { my ($i) = /"ad":(\d+)/; my $t = $_; join ' ', $bids[$i]{ad}, map { $t =~ /"$_":([^,}]*)/ ? "$_ $1" : () } qw(score rank ecpm price) } @text;
    my @wants = map { my $t = $_; join ' ', decode_json($t)->{ad}, map { ($_ ne 'price' || $options =~ /--price/) && $t =~ /"$_":([^,}]*)/ ? "$_ $1" : () } qw(score rank ecpm price) } @want;
    is(join("\n", @got), join("\n", @wants), 'in the same order, with the same numbers');
    ($status, undef, $body) = ask(message('/v1/rank', '{"ads":[]}'));
    like($body, qr/"ranked":\[\]/, 'none of none');
    is(stop(), 0, 'ends with 0');
}
spew('rows.jsonl', join '', map { $json->encode({ %$user, ad => 'a1', price => 1, tags => 't1', hour => $_ }) . "\n" } 8, 7);
sh('ctr-import -q --format jsonl --columns user:int64,age:int64,past:utf8,ad:utf8,price:float64,tags:utf8,hour:int64 -o down.arrows rows.jsonl 2>/dev/null');
start('ranked.model', '--threads', 1);
($st, undef, $said) = ask(message('/v1/rank', slurp('down.arrows'), 'Content-Type: application/vnd.apache.arrow.stream'));
is($st, 400, 'requests that are not sorted');
like($said, qr/row 2.* comes after a request that sorts behind it(?!.*--)/, 'say so, without options of filters');
is(stop(), 0, 'ends with 0');
# ---- keys of a secret

spew('seed', "a secret of some length, which nobody else has\n");
sh('ctr-extract -q --key-seed seed slim.plan log.arrows | ctr-train lr -q -o seeded.model');
fails(2, 'made with a secret', '--check', 'seeded.model');
start('seeded.model', '--key-seed', 'seed', '--threads', 1);
sh('ctr-extract -q --key-seed seed seeded.model rows.arrows 2>/dev/null | ctr-predict -q seeded.model >want.arrows 2>/dev/null');
spew('got.arrows', (post(slurp('rows.arrows'), 'Content-Type: application/vnd.apache.arrow.stream'))[2]);
is(sh('ctr-info --digest got.arrows'), sh('ctr-info --digest want.arrows'), '--key-seed: the scores of the pipe');
is(stop(), 0, 'ends with 0');

fails(2, "--bid nobid: the plan does not keep 'nobid': add a line `keep nobid` to it and train again\n", '--bid', 'nobid', 'ranked.model');
fails(2, "--bid tags: the plan does not keep 'tags': add a line `keep tags` to it and train again\n", '--check', '--bid', 'tags', 'ranked.model');
fails(2, "there is no column 'pricf'; the nearest is 'price'\n", '--check', '--bid', 'pricf', 'ranked.model');
fails(2, "--order: character 1: there is no column 'tags': add a line `keep COLUMN` to the plan and train again\n", '--check', '--order', 'tags', 'ranked.model');

# ---- bids that are none

my @no_bid = ({ ad => 'a1', price => 1, tags => undef }, { ad => 'a2', price => undef, tags => undef });
start('ranked.model', '--bid', 'price', '--threads', 1);
is((ask(message('/v1/rank', $json->encode({ user => { %$user, hour => 7 }, ads => \@no_bid }))))[2],
   '{"error":"ads[1] of hour 7, ad a2: the bid (column price) is null, and must be finite and not negative"}' . "\n", 'a null bid: which ad');
is((ask(message('/v1/rank', $json->encode({ user => $user, ads => [map { { %$_, hour => $_->{ad} eq 'a1' ? 8 : 7, price => 1 } } @no_bid] }))))[2],
   '{"error":"ads[1] of hour 7, ad a2 comes after a request that sorts behind it: sort by the request\'s columns"}' . "\n", 'requests that are not sorted: no options of a filter');
is(stop(), 0, 'ends with 0');
(my $nameless_plan = $ranked_plan) =~ s/^query hour\nid ad$/keep hour/m;
spew('nameless.plan', $nameless_plan);
sh('ctr-train lr -q -o nameless.model nameless.plan log.arrows');
piped('nameless.model', undef, map { { %$user, hour => 7, %$_ } } @no_bid);
start('nameless.model', '--bid', 'price', '--threads', 1);
for (['ads[1]', $json->encode({ user => { %$user, hour => 7 }, ads => \@no_bid })], ['row 2', slurp('rows.arrows'), 'Content-Type: application/vnd.apache.arrow.stream']) {
    my ($name, @body) = @$_;
    is((ask(message('/v1/rank', @body)))[2], "{\"error\":\"$name: the bid (column price) is null, and must be finite and not negative\"}\n", "$name, where no column names ads");
}
is(stop(), 0, 'ends with 0');

# ---- the log is what was asked and answered

mkdir 'logs';
start('lr.model', '--map', 'map', '--threads', 2, '--log', 'logs/served.arrows', '--log-every', '300ms');
my @want_scores;
for my $i (1 .. 12) {
    my $id = "request-$i";
    my ($status, $head, $body) = $i % 3
        ? post($json->encode({ user => { %$user, user => $i }, context => { hour => $i }, ads => [@ads[0 .. $i]] }), "X-Request-Id: $id")
        : post(slurp('rows.arrows'), 'Content-Type: application/vnd.apache.arrow.stream', "X-Request-Id: $id");
    is($status, 200, "request $i") if $i < 4;
    like($head, qr/^X-Request-Id: $id\r$/m, 'has its id') if $i < 4;
    push @want_scores, map { "$id $_" } split /,/, scores($body) if $i % 3;
    sleep .1;
}
like((post('{"ads":[{}]}'))[2], qr/missing/, 'a wrong request');
my %ids = map { ((post($light))[1] =~ /^X-Request-Id: (\w+)/m)[0] => 1 } 1 .. 5;
is(scalar(keys %ids), 5, 'ids of the server differ');
is(stop(), 0, 'ends with 0');
my @files = glob 'logs/*';
cmp_ok(scalar(@files), '>', 1, 'several files');
is(join(' ', @files), join(' ', map { sprintf 'logs/served.%06d.arrows', $_ } 1 .. @files), 'with numbers');
is(sh("ctr-info --check @files >/dev/null && echo whole"), "whole\n", 'each of which is whole');
my @logged = map { my $r = decode_json($_); $r->{request} =~ /^request-/ && $r->{request} !~ /-(?:3|6|9|12)$/ ? "$r->{request} " . (/"score":([^,}]*)/)[0] : () } split /\n/, sh("ctr-cat @files | ctr-export -f jsonl");
is(join(' ', @logged), join(' ', @want_scores), 'rows have the answers');
sh("ctr-cat @files >all.arrows");
is(sh('ctr-extract -q lr.model all.arrows 2>/dev/null | ctr-predict -q lr.model 2>/dev/null | ctr-calibrate -q map | ctr-select --columns score | ctr-info --digest'),
   sh('ctr-select --columns score all.arrows | ctr-info --digest'), 'no skew: the pipe gives the scores in the log');
sh(q{ctr-select --columns request,ad,time=served all.arrows | ctr-select --where 'not is_null(ad) and ad < "a2"' --add 'click=1' | ctr-sort --unique -k request,ad 2>/dev/null >clicks.arrows});
sh(q{ctr-join -q -k request,ad all.arrows clicks.arrows 2>/dev/null >/dev/null; ctr-join -q -k request,ad all.arrows clicks.arrows 2>/dev/null | ctr-select --add 'click=int(fill(click, 0))' | ctr-select --columns user,age,past,ad,price,tags,hour,click >learn.arrows});
is(sh('ctr-train lr -q -o learned.model slim.plan learn.arrows && ctr-info --check learned.model >/dev/null && echo learned'), "learned\n", 'with clicks, a model learns from it');
mkdir 'ranks';
start('lr.model', '--threads', 1, '--top', 4, '--log', 'ranks/served.arrows');
my $order = decode_json((ask(message('/v1/rank', $json->encode({ user => $user, context => { hour => 7 }, ads => [@ads[0 .. 9]] }))))[2])->{ranked};
is(stop(), 0, 'a ranking in the log');
is(sh(q{ctr-export -q -f csv --no-header --columns ad,rank ranks/served.000001.arrows}),
   join('', map { my $i = $_; my ($r) = grep { $_->{ad} == $i } @$order; "$ads[$i]{ad}," . ($r ? $r->{rank} : '') . "\n" } 0 .. 9), 'says which ads it kept, and where');
is(sh(q{ctr-extract -q lr.model ranks/served.000001.arrows 2>/dev/null | ctr-predict -q lr.model 2>/dev/null | ctr-select --columns score | ctr-info --digest}),
   sh(q{ctr-select --columns score ranks/served.000001.arrows | ctr-info --digest}), 'with their scores');
start('lr.model', '--threads', 1, '--log', 'logs/served.arrows');
kill 'KILL', $server{pid};
waitpid $server{pid}, 0;
start('lr.model', '--threads', 1, '--log', 'logs/served.arrows'); # also where a server was killed
fails(1, 'another server writes this log', '--listen', 'unix:second', '--log', './logs/served.arrows', 'lr.model');
is(sh('ctr-serve --check --log logs/served.arrows lr.model | head -c 5'), 'model', '--check writes no log');
post($light);
is(stop(), 0, 'another server');
ok(!-e 'logs/served.arrows.lock', 'its lock is gone');
is(scalar(glob sprintf 'logs/served.%06d.arrows', @files + 1), sprintf('logs/served.%06d.arrows', @files + 1), 'goes on behind the files of the first');
my $reader = fork // die;
if (!$reader) { open STDOUT, '>', 'piped.arrows'; exec 'cat', 'fifo' if !system('mkfifo', 'fifo'); exit 1; }
sleep .05 until -p 'fifo';
start('lr.model', '--threads', 1, '--log', 'fifo');
post($light);
for (1 .. 400) { last if -s 'piped.arrows' > 600; sleep .01; }
cmp_ok(-s 'piped.arrows', '>', 600, 'a pipe gets rows at once');
post($light);
is(stop(), 0, 'ends with 0');
waitpid $reader, 0;
is(sh('ctr-info piped.arrows | head -n 1'), "rows: 2\n", 'and one whole stream');
$reader = fork // die;
if (!$reader) { open STDOUT, '>', 'piped.arrows'; exec 'head', '-c', 1, 'fifo'; exit 1; }
start('lr.model', '--threads', 1, '--log', 'fifo');
waitpid $reader, 0;
{
    local $SIG{ALRM} = sub { kill 'KILL', $server{pid} };
    alarm 60;
    for (1 .. 5) { is((post($light))[0], 200, 'a pipe whose reader has gone stops no answer'); sleep .5; }
    cmp_ok(metric('ctr_serve_log_lost_total'), '>', 2, 'its rows are counted');
    like(slurp('serve.err'), qr/--log: fifo: .*rows are lost/, 'and told');
    $reader = fork // die;
    if (!$reader) { open STDOUT, '>', 'piped.arrows'; exec 'cat', 'fifo'; exit 1; }
    for (1 .. 40) { sleep .1; post($light); last if -s 'piped.arrows'; }
    is(stop(), 0, 'ends with 0');
    alarm 0;
}
waitpid $reader, 0;
like(sh('ctr-info piped.arrows | head -n 1'), qr/^rows: [1-9]/, 'the next reader gets a whole stream');
chmod 0555, 'logs';
SKIP: {
    skip 'root writes everywhere', 3 if $> == 0;
    start('lr.model', '--threads', 1, '--log', 'logs/served.arrows');
    is((post($light))[0], 200, 'a log that cannot be written stops no answer');
    is(metric('ctr_serve_log_lost_total'), 1, 'its rows are counted');
    like(slurp('serve.err'), qr/rows are lost/, 'and told');
    stop();
}
chmod 0755, 'logs';
fails(2, 'the log adds request', '--check', '--log', 'x', 'named.model') if sh(q{ctr-select --columns click,request=ad log.arrows >named.arrows; printf 'label click\nfeature request\n' >named.plan; ctr-train lr -q -o named.model named.plan named.arrows; echo 1});

# ---- models are replaced under load

sh('cp lr.model live.model');
start('live.model', '--threads', 2, '--queue', 1000);
spew("body$_", $json->encode({ user => { %$user, user => $_ }, context => { hour => 7 }, ads => \@ads })) for 1 .. 4;
my $swaps = $ENV{CTR_SWAPS} || ($SAN ? 10 : 30);
my $seconds = $swaps * .16 + 1;
my $rate = $SAN ? 40 : 100;
my $under = "bench-load -r $rate -t $seconds -c 8 unix:sock /v1/score body1 body2 body3 body4";
my %still = $ENV{CTR_SWAPS} ? map { split } split /\n/, sh($under) : (); # the same load without replacements
my $load = fork // die;
if (!$load) { exec "$under >load.out 2>&1"; }
my $bad = 0;
for my $i (1 .. $swaps) {
    my $from = $i % 2 ? 'other.model' : 'lr.model';
    if ($i % 10 == 5) {
        my $text = slurp($from);
        substr($text, length($text) / 2, 1) ^= "\x10";
        spew('next.model', $i % 20 == 5 ? $text : substr($text, 0, length($text) - 100));
        $bad++;
    } else {
        sh("cp $from next.model");
    }
    rename 'next.model', 'live.model';
    sleep .15;
}
sh('cp other.model next.model && mv next.model live.model');
waitpid $load, 0;
is($?, 0, "$swaps replacements, $bad of them bad");
my %load = map { split } split /\n/, slurp('load.out');
note slurp('load.out');
is($load{code_200}, $load{requests}, 'every request has its answer');
is($load{failed}, 0, 'no connection fails');
is($load{mixed}, 0, 'no answer is of two models');
is($load{models}, 2, 'both models have answered');
if (%still) {
    note sprintf 'p50 %.2f ms, p99 %.2f ms; without replacements %.2f and %.2f', @load{qw(p50_ms p99_ms)}, @still{qw(p50_ms p99_ms)};
    cmp_ok($load{p99_ms}, '<=', 1.2 * $still{p99_ms}, 'p99 is at most 1.2 times that without replacements');
}
my $bad_loads = metric('ctr_serve_bad_loads_total');
cmp_ok($bad_loads, '<=', $bad, 'bad files were refused');
cmp_ok($bad_loads, '>=', $SAN ? 0 : 1, 'and found');
like(slurp('serve.err'), qr/live.model: .*what was served before goes on/, 'and told') if $bad_loads;
ok(until_metric('ctr_serve_model_info{model="' . id_of('other.model') . '",map=""}', 1), 'the last one is served');
is(stop(), 0, 'ends with 0');

# ---- many connections

my $many = $ENV{CTR_CONNECTIONS} || ($SAN ? 300 : 2000);
start('lr.model', '--threads', 1, '--connections', $many + 200, '--request-time', '1s', '--idle-time', '60s');
my %load2 = map { split } split /\n/, sh("bench-load -r 50 -t 3 -c 4 -i $many -s 100 unix:sock /v1/score body1 body2");
is($load2{code_200}, 150, "$many idle connections and 100 slow ones: the others have their answers");
is($load2{failed}, 0, 'none fails');
cmp_ok($load2{cut}, '>', 0, 'slow ones are cut off');
is(stop(), 0, 'ends with 0');

# ---- more than it can bear

start('mlp.model', '--threads', 1, '--queue', 3, '--max-ads', 100000);
spew('much', $json->encode({ user => $user, context => { hour => 7 }, ads => [(@ads) x ($SAN ? 3 : 30)] }));
my %over = map { split } split /\n/, sh('bench-load -r 600 -t 2 -c 60 unix:sock /v1/score much');
is(($over{code_200} || 0) + ($over{code_503} || 0), 1200, 'each request is answered or refused');
is($over{mixed}, 0, 'and rightly');
cmp_ok($over{code_200}, '>', 0, 'some are answered');
is((get('/healthz'))[0], 200, 'and it lives');
is(stop(), 0, 'ends with 0');

# ---- train while serving

my %rate = map { my @f = split /\t/; $f[0] => $f[3] } split /\n/, sh("OUT=$dir/example ROUNDS=3 REQUESTS=150 $ENV{CTR_TOP}/examples/serve.sh");
cmp_ok($rate{3}, '>', $rate{1} + .05, 'examples/serve.sh: models that learn from what was served are clicked more');

# ---- the manual's example is what happens

my $page = slurp("$ENV{CTR_TOP}/man/ctr-serve.1");
like($page, qr/^Replace files by rename only/m, 'says how files are replaced');
my ($shown) = $page =~ /^(\{"model":"[0-9a-f]{32}","scores":.*)$/m;
my ($make) = $page =~ /^(printf 'user,ad[^\n]*-o log\.arrows\n.*?)^ctr-serve/ms;
$make =~ s/\\\\/\\/g;
sh("mkdir man && cd man && { $make } 2>/dev/null");
start('man/ads.model');
is((post('{"user": {"user": 3}, "context": {"hour": 7}, "ads": [{"ad": "a1"}, {"ad": "a2"}]}'))[2], "$shown\n", 'the answer in the manual');
is(stop(), 0, 'ends with 0');
done_testing;
