#!/usr/bin/env perl
# ctr-serve --images: the bits of the pipe for every kind of model that takes images; the file is replaced under load; photographs by PUT are
# embedded at once, outlive the server, and bad ones do no harm.
use strict;
use warnings;
use File::Temp qw(tempdir);
use JSON::PP;
use Test::More;
use Time::HiRes qw(sleep time);
use lib "$ENV{CTR_TOP}/tests";
use Serve qw(spew slurp sh start stop crash dial answer put request metric %server);

my $B = $ENV{CTR_BUILD};
my $SAN = $B =~ /-san/;
$ENV{PATH} = "$B/bin:$B/bench:$ENV{PATH}";
$ENV{LC_ALL} = 'C';
plan skip_all => 'ctr-serve was left out of the build' unless -x "$B/bin/ctr-serve";
plan skip_all => 'ctr-embed-images was left out of the build' unless -x "$B/bin/ctr-embed-images";
my $dir = tempdir(CLEANUP => 1);
chdir $dir or die;

sub begin { my $s = dial(); put($s, request(@_, 'Connection: close')); return $s; } # METHOD PATH BODY HEADER…
sub end { my ($status, $head, $body) = answer(@_); return ($status, $body, $head); }
sub ask { return end(begin('POST', @_)); }
sub photo { my ($key, $body, @head) = @_; return end(begin('PUT', "/v1/images/$key", $body, @head)); }
sub fails {
    my ($want, $re, @args) = @_;
    my $said = `ctr-serve --check @args 2>&1 >/dev/null`;
    is($? >> 8, $want, "--check @args: exit status");
    like($said, qr/$re/, 'says why');
}
my $json = JSON::PP->new->canonical;

# ---- a world: photographs, their vectors, what a tower makes of them, models of every kind that takes images

my $py = $ENV{CTR_PYTHON} || 'python3';
sh("$py $ENV{CTR_TOP}/tests/images_reference.py make .");
my %file = map { /^(.*)\.(?:png|jpg)$/ ? ($1 => $_) : () } grep { !/^bomb/ } glob '*.png *.jpg';
my @keys = sort keys %file;
my @held = @keys[0 .. 3]; # come later, as photographs
my @known = @keys[4 .. $#keys];
my $all = join ' ', map { $file{$_} } @keys;
sub network { my ($out, @of) = @_; sh("ctr-embed-images -q -w tiny.safetensors -o $out " . join ' ', map { $file{$_} } @of); }
network('all.arrow', @keys);
network('known.arrow', @known);
srand 2;
my @rows = map { { click => rand() < .4 ? 1 : 0, user => int rand 30, ad => 'a' . int(rand 20), photo => rand() < .1 ? undef : $known[rand @known],
                   seen => [map { $known[rand @known] } 1 .. int rand 4] } } 1 .. 1500;
spew('log.jsonl', join '', map { $json->encode($_) . "\n" } @rows);
my $import = 'ctr-import -q --format jsonl --columns "click:int8,user:int64,ad:utf8,photo:utf8,seen:list<utf8>"';
sh("$import -o log.arrows log.jsonl");
spew('plan', "label click\nfeature user\nfeature ad\nimage photo\nimage past in photo of photo = seen\n");
my $small = '--embedding 4 --hidden 8 --minibatch 100 --images all.arrow --images-tower 5 --missing-image zero';
for (['lr', 'dicm --base lr'], ['mlp', 'dicm --base mlp --images-pool attentive --attention-hidden 3'], ['scaled', 'dicm --base mlp --images-scale standard'], ['din', 'dicm --base din --attention-hidden 3'],
     ['towers', 'two-tower --user-features user,past --ad-features ad,photo']) {
    my ($name, $how) = @$_;
    sh("ctr-train $how $small -q -o $name.model plan log.arrows");
    sh("ctr-embed-images -q --tower $name.model --vectors -o $name.$_.arrow $_.arrow") for qw(all known);
}
my @asked = map { { ad => "a$_", photo => $keys[$_ % @keys] } } 0 .. 29;
push @asked, { ad => 'a1', photo => undef }, { ad => 'a2', photo => 'nobody' };
my $user = { user => 3, seen => [@held[0, 1], $known[2]] };
my $body = $json->encode({ user => $user, ads => \@asked });
spew('rows.jsonl', join '', map { $json->encode({ click => 0, %$user, %$_ }) . "\n" } @asked);
sh("$import -o rows.arrows rows.jsonl");
sub piped { my ($model, $images) = @_; return join ',', map { /"score":([^}]*)/ } split /\n/, sh("ctr-extract -q $model.model rows.arrows | ctr-predict -q --images $images $model.model 2>/dev/null | ctr-export -f jsonl -c score"); }
sub scores { my ($text) = @_; return $text =~ /"scores":\[(.*)\]/ ? $1 : "none: $text"; }

# ---- the pipe's bits, before and after photographs come

for my $model (qw(lr mlp scaled din towers)) {
    for my $images ('known.arrow', "$model.known.arrow") {
        mkdir 'inbox';
        my @options = ("$model.model", '--images', $images, '--image-inbox', 'inbox', '--image-weights', 'tiny.safetensors', '--threads', 2);
        start(@options);
        my ($status, $text) = ask('/v1/score', $body);
        is(scores($text), piped($model, $images), "$model, $images: the scores are those of the pipe");
        for my $key (@held) { is((photo($key, slurp($file{$key})))[0], 200, "photograph $key"); }
        ($status, $text) = ask('/v1/score', $body);
        (my $whole = $images) =~ s/known/all/;
        is(scores($text), piped($model, $whole), 'after photographs they are those with all images');
        ($status, $text) = ask('/v1/score', $json->encode({ ads => [map { { %$user, %$_ } } @asked] }));
        is(scores($text), piped($model, $whole), 'also where each ad has all columns');
        is(metric('ctr_serve_images_total'), 4, 'they are counted');
        is($model eq 'lr' ? crash() : stop(), $model eq 'lr' ? 9 : 0, 'ends');
        start(@options);
        ($status, $text) = ask('/v1/score', $body);
        is(scores($text), piped($model, $whole), 'a server that starts again has them');
        sh("cp $model.model next && mv next $model.model && cp $images next && mv next $images");
        for (1 .. 200) { last if slurp('serve.err') =~ /serves model.*\n.*serves model/; sleep .05; }
        ($status, $text) = ask('/v1/score', $body);
        is(scores($text), piped($model, $whole), 'so has a model, and a file of images, that is replaced');
        is(stop(), 0, 'ends with 0');
        is(sh('ctr-cat inbox/*.arrows known.arrow | ctr-sort -q -k key | ctr-cat --to file --key key >union.arrow && ctr-info --digest union.arrow'), sh('ctr-info --digest all.arrow'),
           'the files of the inbox are vectors like those of ctr-embed-images');
        sh('rm -r inbox');
    }
}

# ---- keys, limits, bad photographs

mkdir 'inbox';
my @inbox = ('mlp.model', '--images', 'known.arrow', '--image-inbox', 'inbox', '--image-weights', 'tiny.safetensors', '--threads', 1);
my $good = slurp($file{ $held[0] });
start(@inbox, '--max-body', length $good);
my $bomb = slurp('bomb.png');
my @bad = (
    ['x', '', 400, 'neither JPEG nor PNG, but empty'],
    ['x', 'no picture', 400, 'neither JPEG nor PNG'],
    ['x', 'GIF89a....', 400, 'but GIF'],
    ['x', substr($good, 0, length($good) / 2), 400, 'PNG|JPEG'],
    ['x', substr($good, 0, 40), 400, 'PNG|JPEG'],
    ['x', $good . ' ', 413, 'at most ' . length $good],
    ['', $good, 400, 'the key is missing'],
    ['%', $good, 400, 'two hexadecimal digits'],
    ['%4', $good, 400, 'two hexadecimal digits'],
    ['a%00b', $good, 400, 'byte 0'],
    ['%ff', $good, 400, 'not UTF-8'],
);
for (@bad) {
    my ($key, $bytes, $want, $re) = @$_;
    my ($status, $said) = photo($key, $bytes);
    is($status, $want, "a bad photograph: $re");
    like($said, qr/$re/, 'says why');
}
is((photo('x', $bomb))[0], 400, 'one of too many pixels') if length $bomb <= length $good;
is((ask('/v1/images/x', $good))[0], 405, 'POST is no PUT');
is((photo('x', $good, 'X-Deadline-Ms: 0'))[0], 504, 'a deadline');
is(scalar(@{ [glob 'inbox/*'] }), 0, 'none of them is kept');
is((photo('%68eld%2F0%20%C3%A9', $good))[0], 200, 'a good one of --max-body bytes, after them');
is(sh('ctr-export -q -f csv --no-header --columns key inbox/000001.arrows'), "held/0 é\n", 'has the key of the path');
my $ask = sub { scores((ask('/v1/score', $json->encode({ user => { user => 1, seen => [] }, ads => [map { { ad => 'a1', photo => $_ } } @_] })))[1]) };
my ($new, $zero, $known) = split /,/, $ask->('held/0 é', 'nobody', $known[0]);
isnt($new, $zero, 'it is found');
is((photo($known[0], $good))[0], 200, 'another photograph of a key of the file');
is($ask->($known[0]), $new, 'counts');
is((photo('held%2f0%20%c3%a9', slurp($file{ $known[1] })))[0] // 0, length slurp($file{ $known[1] }) <= length $good ? 200 : 413, 'another one of a photograph');
is($ask->('held/0 é'), $ask->($known[1]), 'counts, too') if length slurp($file{ $known[1] }) <= length $good;
is(stop(), 0, 'ends with 0');
start(@inbox);
is($ask->($known[0]), $new, 'the last one counts when the server starts again');
my $second = `timeout 20 ctr-serve --listen unix:second @inbox 2>&1`;
like($second, qr/another server fills this inbox/, 'two servers have two inboxes');

# ---- photographs do not hold up requests; more than can be borne are refused at once

spew('body', $body);
my $load = fork // die;
if (!$load) { exec 'bench-load -r 50 -t 3 -c 4 unix:sock /v1/score body >load.out 2>&1'; }
my @many = map { begin('PUT', "/v1/images/many$_", $good) } 1 .. 60;
my %codes;
$codes{ (end($_))[0] // 'none' }++ for @many;
waitpid $load, 0;
my %load = map { split } split /\n/, slurp('load.out');
is($load{code_200}, $load{requests}, 'requests are answered while photographs are embedded');
is($load{mixed} + $load{failed}, 0, 'rightly');
is(($codes{200} || 0) + ($codes{503} || 0), 60, 'each photograph is taken or refused') or diag explain \%codes;
cmp_ok($codes{200}, '>=', 17, 'as many as may wait are taken');
is(scalar(@{ [glob 'inbox/*.arrows'] }), 3 + $codes{200}, 'and kept') or diag join ' ', glob 'inbox/*';
is(stop(), 0, 'ends with 0');

# ---- vectors of int8 beside photographs; a file of images that is refused changes nothing

sub ends { my ($re) = @_; for (1 .. 400) { return 1 if slurp('serve.err') =~ $re; sleep .05; } return 0; }
my $alone = sub { my ($images, $key) = @_; spew('one.jsonl', $json->encode({ click => 0, user => 1, seen => [], ad => 'a1', photo => $key })); return sh("$import one.jsonl | ctr-extract -q mlp.model | ctr-predict -q --images $images mlp.model 2>/dev/null | ctr-export -f csv --no-header -c score") =~ s/\n//r; };
sh('ctr-embed-images -q -w tiny.safetensors --type int8 -o eight.arrow ' . join ' ', map { $file{$_} } @known);
sh('cp eight.arrow live.arrow && mkdir box');
my @box = ('mlp.model', '--images', 'live.arrow', '--image-inbox', 'box', '--image-weights', 'tiny.safetensors', '--threads', 2);
start(@box);
is((photo($held[0], $good))[0], 200, 'a photograph beside vectors of int8');
is((photo($known[1], $good))[0], 200, 'and one of a key that has such a vector');
isnt($alone->('eight.arrow', $known[0]), $alone->('known.arrow', $known[0]), 'int8 is another vector');
is($ask->($held[0], $known[0], $known[1]), join(',', $alone->('all.arrow', $held[0]), $alone->('eight.arrow', $known[0]), $alone->('all.arrow', $held[0])), 'each has its own vector');
my $names = join '\n', 'key', 1 .. @known;
sh("printf '$names\\n' | ctr-import -q --header --columns key:int64 -f csv >number.arrows && ctr-select -q -c vector known.arrow | ctr-join -q --by-row number.arrows | ctr-cat --to file --key key -o next && mv next live.arrow");
ok(ends(qr/keys are of another type.*what was served before goes on/), 'images by number are refused') or diag slurp('serve.err');
is((photo($held[1], slurp($file{ $held[1] })))[0], 200, 'a photograph by name comes after that');
is($ask->($held[1]), $alone->('all.arrow', $held[1]), 'and counts');
sh('cp known.arrow next && mv next live.arrow');
ok(ends(qr/serves model/), 'images by name are taken');
is($ask->($held[1], $known[0], $known[1]), join(',', map { $alone->('all.arrow', $_) } $held[1], $known[0], $held[0]), 'and those of the inbox are there');
is(stop(), 0, 'ends with 0');
start(@box);
is($ask->($held[1], $known[0], $known[1]), join(',', map { $alone->('all.arrow', $_) } $held[1], $known[0], $held[0]), 'also when the server starts again');
is(stop(), 0, 'ends with 0');

# ---- the file is replaced under load

sh('cp mlp.all.arrow live.arrow');
start('mlp.model', '--images', 'live.arrow', '--threads', 2, '--queue', 1000);
my %want = map { $_ => piped('mlp', "mlp.$_.arrow") } qw(all known);
isnt($want{all}, $want{known}, 'two files of images give two answers');
my $seconds = 5;
$load = fork // die;
if (!$load) { exec "bench-load -r 50 -t $seconds -c 6 unix:sock /v1/score body >load.out 2>&1"; }
my ($until, $swaps, $odd) = (time + $seconds - 1, 0, 0);
while (time < $until) {
    my $name = $swaps++ % 2 ? 'all' : 'known';
    if ($swaps % 3 == 0) { spew('next', substr slurp("mlp.$name.arrow"), 0, 900); }
    else { sh("cp mlp.$name.arrow next"); }
    rename 'next', 'live.arrow';
    sleep .25;
    my $got = scores((ask('/v1/score', $body))[1]);
    $odd++ if $got ne $want{all} && $got ne $want{known};
}
waitpid $load, 0;
%load = map { split } split /\n/, slurp('load.out');
is($load{code_200}, $load{requests}, "$swaps replacements of the images, some bad: every request has its answer");
is($odd + $load{failed}, 0, 'each answer is of one file');
like(slurp('serve.err'), qr/live.arrow: .*what was served before goes on/, 'bad files are told');
sh('cp mlp.known.arrow next && mv next live.arrow');
for (1 .. 200) { last if scores((ask('/v1/score', $body))[1]) eq $want{known}; sleep .05; }
is(scores((ask('/v1/score', $body))[1]), $want{known}, 'the last one is served');
is(stop(), 0, 'ends with 0');

# ---- what does not fit

network('half.arrow', @known);
sh('ctr-embed-images -q -w tiny.safetensors --preprocess caffe -o caffe.arrow ' . join ' ', map { $file{$_} } @known);
my $with = '--image-inbox inbox --image-weights tiny.safetensors';
fails(2, 'no images', '--images known.arrow', $with, 'x.model') if sh('printf "label click\nfeature user\n" >lr.plan; ctr-train lr -q -o x.model lr.plan log.arrows; echo 1');
fails(1, "inbox/000001.arrows: its vectors are by vgg16-fc6.*torchvision, those of the inbox by vgg16-fc6.*caffe", '--images caffe.arrow', $with, 'mlp.model');
fails(2, 'needs --images|--images', $with, 'mlp.model');
fails(2, 'needs --image-weights|--image-weights', '--images known.arrow --image-inbox inbox mlp.model');
fails(1, 'cannot open the folder', '--images known.arrow --image-inbox none --image-weights tiny.safetensors mlp.model');
fails(1, 'cannot open|No such file', '--images known.arrow --image-inbox inbox --image-weights none mlp.model');
{ my $text = slurp('inbox/000001.arrows'); substr($text, 300, 1) ^= "\x40"; spew('inbox/000001.arrows', $text); }
fails(1, 'inbox/000001.arrows', '--images known.arrow', $with, 'mlp.model');
done_testing;
