#!/usr/bin/env perl
# ctr-serve under what servers meet: more requests than it can bear, mutated requests, full disks, writers of models that are killed,
# many restarts. CTR_OVERLOAD=30 (seconds), CTR_MUTATIONS=1000000, CTR_KILLS=200 and CTR_RESTARTS=1000 run the long forms; those of
# replaced models and many connections are CTR_SWAPS and CTR_CONNECTIONS of ctr-serve.t.
use strict;
use warnings;
use File::Temp qw(tempdir);
use JSON::PP;
use Test::More;
use Time::HiRes qw(sleep time);
use lib "$ENV{CTR_TOP}/tests";
use Serve;

my $B = $ENV{CTR_BUILD};
my $SAN = $B =~ /-san/;
$ENV{PATH} = "$B/bin:$B/bench:$ENV{PATH}";
$ENV{LC_ALL} = 'C';
plan skip_all => 'ctr-serve was left out of the build' unless -x "$B/bin/ctr-serve";
my $dir = tempdir(CLEANUP => 1);
chdir $dir or die;
my $json = JSON::PP->new->canonical;

srand 4;
spew('log.csv', "click,user,ad,price\n" . join '', map { join(',', rand() < .3 ? 1 : 0, int rand 30, 'a' . int rand 20, int(rand 100) / 8) . "\n" } 1 .. 2000);
sh('ctr-import -q --header --columns click:int8,user:int64,ad:utf8,price:float64 -o log.arrows log.csv');
spew('ads.plan', "label click\nfeature user\nfeature ad\ndense price\n");
sh('ctr-train mlp -q --embedding 8 --hidden 200,80 --minibatch 64 -o ads.model ads.plan log.arrows');
sub body { my ($u, $n) = @_; return $json->encode({ user => { user => $u }, ads => [map { { ad => 'a' . ($_ * 7 + $u) % 25, price => $_ / 8 } } 1 .. $n] }); }
sub load { my (@options) = @_; return map { split } split /\n/, sh("bench-load @options"); }
sub memory { my ($pid) = @_; return slurp("/proc/$pid/status") =~ /^VmHWM:\s+(\d+)/m ? $1 / 1024 : 0; }

# ---- more than it can bear

my $seconds = $ENV{CTR_OVERLOAD} || ($SAN ? 1 : 3);
spew('heavy', body(3, $SAN ? 60 : 400));
start('ads.model', '--threads', 1, '--queue', 8);
my %most = load('-r 100000 -t', $ENV{CTR_OVERLOAD} ? .03 : .003, '-c 8 unix:sock /v1/score heavy'); # as fast as 8 connections go
my $most = $most{code_200} / $most{seconds};
my %before = load(sprintf '-r %.1f -t %g -c 16 unix:sock /v1/score heavy', $most / 3, CORE::int($seconds / 3) || 1);
my $base = memory($server{pid});
my %over = load(sprintf '-r %.1f -t %g -c 64 unix:sock /v1/score heavy', 5 * $most, $seconds);
my $goodput = $over{code_200} / $over{seconds} / $most;
my $grown = memory($server{pid}) - $base;
sleep 1;
my %after = load(sprintf '-r %.1f -t %g -c 16 unix:sock /v1/score heavy', $most / ($ENV{CTR_OVERLOAD} ? 3 : 8), CORE::int($seconds / 3) || 1);
note sprintf '%.0f requests/s at most; at 5 times that for %g s: goodput %.2f, refused after %.1f ms at most, %.1f MB more; p99 %.1f ms before, %.1f ms after', $most, $seconds, $goodput,
    $over{refused_max_ms}, $grown, $before{p99_ms}, $after{p99_ms};
is(($over{code_200} || 0) + ($over{code_503} || 0) + $over{failed}, $over{requests}, 'each request is answered or refused');
is($over{failed} + $over{mixed}, 0, 'and rightly');
cmp_ok($over{code_503}, '>', 0, 'some are refused');
cmp_ok($goodput, '>=', $ENV{CTR_OVERLOAD} ? .9 : .1, 'goodput');
SKIP: {
    skip 'a sanitizer keeps what is freed', 1 if $ENV{CTR_BUILD} =~ /-san/;
    cmp_ok($grown, '<', 64, 'memory is bounded');
}
cmp_ok($after{code_200}, '>=', ($ENV{CTR_OVERLOAD} ? 1 : .8) * $after{requests}, 'a second later all are answered');
cmp_ok($after{p99_ms}, '<', 2 * $before{p99_ms} + 2, 'in their time') if $ENV{CTR_OVERLOAD};
is(stop(), 0, 'ends with 0');

# ---- mutated requests

# One byte, a run of bytes, or a piece of another request: of heads and bodies that are good.
my $mutations = $ENV{CTR_MUTATIONS} || 3000;
my @good = (message('/v1/score', body(1, 3)), message('/v1/rank', body(2, 3)), message('/v1/clicks', '{"request":"r1","ads":[0,1]}'), message('/v1/score', body(4, 2), 'X-Request-Id: r1', 'X-Deadline-Ms: 1000'),
            "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n", message('/v1/score', slurp('log.arrows') =~ s/^(.{3000}).*/$1/sr, 'Content-Type: application/vnd.apache.arrow.stream'));
sub mutate {
    my ($text) = @_;
    for (1 .. 1 + int rand 3) {
        my $at = int rand length $text;
        my $kind = int rand 5;
        if ($kind == 0) { substr($text, $at, 1) = chr int rand 256; }
        elsif ($kind == 1) { substr($text, $at, 1 + int rand 8) = ''; }
        elsif ($kind == 2) { substr($text, $at, 0) = ('"', '{', '[', ',', "\r\n", "\x00", '-1e999', '9' x 30, '\u0000', 'null', ':')[int rand 11]; }
        elsif ($kind == 3) { my $o = $good[rand @good]; substr($text, $at, 0) = substr $o, int rand length $o, 1 + int rand 40; }
        else { $text = substr($text, 0, $at) if $at > 20; }
        last if !length $text;
    }
    return $text;
}
start('ads.model', '--threads', 2, '--clicks', 1000, '--request-time', '2s', '--log', 'mutated.arrows', '--memory', '256M');
my ($sent, %code, @open) = (0);
srand($ENV{CTR_SEED} // 11);
while ($sent < $mutations) { # several at a time: a connection that waits for more ends with what we send
    push @open, map { my $s = dial(); put($s, mutate($good[rand @good])); shutdown $s, 1; $sent++; $s } 1 .. 20;
    for my $s (@open) { my ($c) = answer($s); $code{ $c // 'none' }++; }
    @open = ();
}
note join ' ', map { "$_: $code{$_}" } sort keys %code;
is((get('/healthz'))[0], 200, "$mutations mutated requests: it lives");
is($code{500} || 0, 0, 'none is an error of its own');
cmp_ok($code{400} || 0, '>', $mutations / 10, 'wrong ones are refused');
cmp_ok($code{200} || 0, '>', 0, 'some are still good');
my @fine = decode_json((post(body(1, 3)))[2])->{scores};
is(scalar(@{ $fine[0] }), 3, 'and it scores');
is(stop(), 0, 'ends with 0');
unlike(slurp('serve.err'), qr/Sanitizer|runtime error/, 'the sanitizers found nothing');
is(sh('ctr-info --check mutated.*.arrows >/dev/null && echo whole'), "whole\n", 'its log is whole');

# ---- full disks

start('ads.model', '--threads', 1, '--log', '/dev/full');
for (1 .. 5) { is((post(body(1, 30)))[0], 200, 'a full disk stops no answer'); sleep .15; }
cmp_ok(metric('ctr_serve_log_lost_total'), '>', 0, 'rows that the log lost are counted');
like(slurp('serve.err'), qr{--log: /dev/full: .*No space left on device.*rows are lost}, 'and told');
is(stop(), 0, 'ends with 0');
{
    local $SIG{XFSZ} = 'IGNORE';
    unlink 'serve.err', 'sock';
    my $pid = fork // die; # files of 8 KB at most
    if (!$pid) { open STDERR, '>', 'serve.err'; exec 'sh', '-c', 'ulimit -f 16; exec ctr-serve --listen unix:sock --threads 1 --log small.arrows --log-every 200ms ads.model'; }
    $server{pid} = $pid;
    for (1 .. 2400) { last if slurp('serve.err') =~ /listens/; sleep .01; }
    for (1 .. 30) { my ($c) = post(body($_, 40)); $code{small}{$c}++; }
    is_deeply($code{small}, { 200 => 30 }, 'files that cannot grow stop no answer');
    ok((sub { for (1 .. 400) { return 1 if metric('ctr_serve_log_lost_total') > 0; post(body(1, 40)); sleep .01; } })->(), 'what is lost is counted');
    sleep 1.5;
    post(body(7, 1));
    is(stop(), 0, 'ends with 0');
    my @files = glob 'small.0*.arrows';
    is(system("ctr-info --check @files >/dev/null 2>&1"), 0, 'files that are there are whole') if @files;
    is_deeply([glob 'small*tmp*'], [], 'no other ones are');
}

# ---- the writer of models is killed

my $kills = $ENV{CTR_KILLS} || ($SAN ? 3 : 15);
sh('cp ads.model live.model');
start('live.model', '--threads', 1);
my ($killed, $asked, $right) = (0, 0, 0);
for my $i (1 .. $kills) {
    my $pid = fork // die;
    if (!$pid) { exec "exec ctr-train mlp -q --passes 3 --seed $i --embedding 8 --hidden 200,80 --minibatch 64 -o live.model ads.plan log.arrows"; }
    my $until = time + rand($SAN ? 2 : .25);
    while (time < $until) { $asked++; $right += ((post(body(1, 2)))[0] // 0) == 200; sleep .005; }
    kill 'KILL', $pid;
    waitpid $pid, 0;
    $killed += ($? & 127) == 9;
}
note "$killed of $kills were killed, the others had finished";
is($right, $asked, "the writer of models is killed $kills times: each request has its answer");
is(metric('ctr_serve_bad_loads_total'), 0, 'nothing half written is seen');
is(sh('ctr-info --check live.model >/dev/null && echo whole'), "whole\n", 'the model is whole');
is(stop(), 0, 'ends with 0');

# ---- restarts

my $restarts = $ENV{CTR_RESTARTS} || ($SAN ? 4 : 20);
my ($served, $stopped) = (0, 0);
for my $i (1 .. $restarts) {
    start('ads.model', '--threads', 2, '--log', 'again.arrows') or last;
    my ($c) = post(body($i, 2), "X-Request-Id: r$i");
    $served += ($c // 0) == 200;
    if ($i % 2) { crash(); } else { $stopped += stop() == 0; }
}
is($served, $restarts, "$restarts restarts, every other after kill -9: each serves");
is($stopped, int($restarts / 2), 'and ends with 0');
is(sh(q{ctr-cat again.0*.arrows | ctr-select --columns request | ctr-sort --unique -k request 2>/dev/null | ctr-export -q -f csv --no-header | wc -l}) + 0, $stopped, 'the log has what was served by those that ended, once');
done_testing;
