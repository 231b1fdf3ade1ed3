#!/usr/bin/env perl
# ctr-serve: pre-rank, rankings that explore, the log and clicks together: a place is that of the request, in the answer, in the log, in clicks and
# in errors, whatever the pre-rank leaves out; streams beside JSON.
use strict;
use warnings;
use File::Temp qw(tempdir);
use JSON::PP;
use Test::More;
use lib "$ENV{CTR_TOP}/tests";
use Serve;

my $B = $ENV{CTR_BUILD};
$ENV{PATH} = "$B/bin:$B/bench:$ENV{PATH}";
$ENV{LC_ALL} = 'C';
plan skip_all => 'ctr-serve was left out of the build' unless -x "$B/bin/ctr-serve";
my $dir = tempdir(CLEANUP => 1);
chdir $dir or die;
my $json = JSON::PP->new->canonical;

# ---- a world

srand 5;
my @ads = map { { ad => sprintf('a%03d', $_), price => ($_ * 37 % 100 + 1) / 8, kind => 'k' . $_ % 7 } } 0 .. 199;
my %ad = map { $_->{ad} => $_ } @ads;
my @log = map { my ($u, $a) = (int rand 40, $ads[rand @ads]); { click => rand() < ($u % 7 == substr($a->{ad}, 1) % 7 ? .7 : .1) ? 1 : 0, user => $u, %$a } } 1 .. 2000;
sub lines { my ($file, @r) = @_; spew($file, join '', map { $json->encode($_) . "\n" } @r); }
lines('log.jsonl', @log);
lines('ads.jsonl', @ads);
sh('ctr-import -q --format jsonl --columns click:int8,user:int64,ad:utf8,price:float64,kind:utf8 -o log.arrows log.jsonl');
sh('ctr-import -q --format jsonl --columns ad:utf8,price:float64,kind:utf8 ads.jsonl | ctr-sort -q -k ad >ads.arrows && ctr-cat --to file --key ad -o ads.arrow ads.arrows');
my $plan = "label click\nid item = ad\nfeature user\nfeature ad\nfeature kind\n";
spew('rank.plan', $plan . "keep price\nfeature both = cross(user, kind)\n");
spew('tower.plan', $plan);
sh('ctr-train lr -q --alpha .2 -o rank.model rank.plan log.arrows');
sh('ctr-train two-tower -q --user-features user --ad-features ad,kind --embedding 4 --hidden 8 --vector 6 --rate .05 --minibatch 100 -o tower.model tower.plan log.arrows');
sh(q{ctr-select -q --add 'user=0' ads.arrows | ctr-extract -q tower.model 2>/dev/null | ctr-select -q -c item,ad,kind | ctr-predict -q --tower ad tower.model 2>/dev/null >ads.vec});
my @files = ('rank.model', '--ads', 'ads.arrow', '--prerank', 'tower.model', '--vectors', 'ads.vec', '--prerank-top', 12, '--threads', 2);

# 60 ads, one of them twice; the user is unlike the one before.
sub asked { my ($i) = @_; my @a = map { $ads[($_ * 53 + $i * 11) % @ads]{ad} } 1 .. 59; return @a, $a[7]; }
sub clicks { my ($id, @place) = @_; return (ask(message('/v1/clicks', $json->encode({ request => $id, ads => \@place }))))[2]; }
sub csv { return split /\n/, sh("ctr-cat -q $_[0] | ctr-select -q --columns $_[1] | ctr-export -q -f csv --no-header"); }

# ---- places, of requests with ads and without

for my $case (['', ''], ['--explore ucb=1.5 --bid price --price second --slots 1,0.5,0.25', ''], ['--explore thompson --slots 3', ''], ['--explore epsilon=0.7 --top 4', ''],
              ['--bid price --top 12', '']) {
    my ($options) = @$case;
    unlink glob '*.0*.arrows';
    start(@files, '--log', 'served.arrows', '--clicks', 1000, '--clicks-log', 'clicks.arrows', '--seed', 7, split / /, $options) or die slurp('serve.err');
    my (%shown, %key); # by request and place: rank and propensity in the answer, and the key of the ad
    for my $i (1 .. 8) {
        for my $path ('score', 'rank') {
            my @ask = $i % 4 ? asked($i) : ();
            my $id = "$path$i";
            my (undef, undef, $said) = ask(message("/v1/$path", $json->encode({ user => { user => $i }, @ask ? (ads => \@ask) : () }), "X-Request-Id: $id"));
            my $all = eval { decode_json($said) } or die $said;
            my @place = map { $_->{ad} } @{ $all->{ranked} || [] };
            @place = @ask ? @{ $all->{ads} } : 0 .. $#{ $all->{ads} } if $path eq 'score';
            for my $n (0 .. $#place) {
                my $r = $path eq 'rank' ? $all->{ranked}[$n] : {};
                $shown{"$id,$place[$n]"} = join ',', map { $_ // '' } @$r{qw(rank propensity)};
                $key{"$id,$place[$n]"} = @ask ? $ask[$place[$n]] : $r->{key} // $all->{ads}[$n];
            }
            my %is = map { $_ => 1 } @place;
            my ($other) = grep { !$is{$_} } 0 .. 60;
            is(clicks($id, @place, $other), sprintf(qq({"joined":%d,"unknown":1,"repeated":0}\n), scalar @place), "$id $options: clicks on what the answer has are joined, another is not");
        }
    }
    is(stop(), 0, 'ends with 0');
    my $chance = $options =~ /explore/ ? ',propensity' : '';
    my (%logged, %exact, %ad_of);
    for (csv('served.*.arrows', "request,place,ad,rank$chance")) {
        my ($id, $at, $ad, $rank, $p) = split /,/, $_, -1;
        $ad_of{"$id,$at"} = $ad;
        $exact{"$id,$at"} = "$rank," . ($p // '');
        $logged{"$id,$at"} = $rank . ',' . (length($p // '') ? $p + 0 : '') if $id =~ /score/ || length $rank;
    }
    is(scalar keys %ad_of, 16 * 12, 'the log has the ads that were scored, each at a place of its own');
    is_deeply([grep { ($ad_of{$_} // 'none') ne $key{$_} } sort keys %key], [], 'it has the ad that the request has at this place');
    is_deeply(\%logged, \%shown, 'and rank and propensity of the answer');
    my @clicked = csv('clicks.*.arrows', 'request,place');
    sh(q{ctr-join -q -k request,place --next served=clicked clicks.000001.arrows served.000001.arrows | ctr-select --where 'not is_null(clicked)' >joined.arrows});
    is_deeply([sort(csv('joined.arrows', 'request,place,ad'))], [sort map { exists $key{$_} ? "$_,$key{$_}" : exists $ad_of{$_} ? "$_,$ad_of{$_}" : () } @clicked], 'clicks find the rows of their ads');
    next unless $options =~ /explore/;
    my $uncertain = $options =~ /epsilon/ ? '' : '--uncertainty';
    sh("ctr-cat -q served.*.arrows | ctr-select -q --where 'not is_null(seed)' >of.arrows && ctr-select -q --columns request,place of.arrows >who.arrows");
    sh("ctr-select -q -c user,ad,price,kind of.arrows | ctr-extract -q rank.model 2>/dev/null | ctr-predict -q $uncertain rank.model 2>/dev/null | ctr-join -q --by-row who.arrows | ctr-rank -q --by request --seed 7 $options >ranked.arrows");
    is_deeply([sort(csv('ranked.arrows', 'request,place,rank,propensity'))], [sort map { "$_,$exact{$_}" } grep { /^rank/ } keys %logged], 'ctr-rank gives the same order for the rows of the log');
}

# ---- errors, and streams beside JSON

my $said = `ctr-serve --check @files --images ads.vec 2>&1`;
is($? >> 8, 2, 'images that neither the model nor the tower takes');
like($said, qr/rank.model: neither it nor the model of --prerank takes images/, 'are refused');
spew('photo.plan', $plan . "image photo = ad\n");
sh('ctr-train dicm --base lr -q --embedding 4 --hidden 8 --minibatch 100 --images ads.vec --images-tower 5 --missing-image zero -o photo.model photo.plan log.arrows');
like(`ctr-serve --check photo.model @files[1 .. $#files] --images ads.vec 2>&1`, qr/^model\t\w{32}\ntower\t/, 'a model that takes images, behind a tower that takes none');

start(@files, '--bid', 'price');
my @bad = map { { ad => $_ } } asked(1);
(undef, undef, $said) = rank($json->encode({ user => { user => 1 }, ads => \@bad }));
my @kept = sort { $a <=> $b } map { $_->{ad} } @{ decode_json($said)->{ranked} };
cmp_ok($kept[-1], '>', 11, 'an ad is kept whose place is not its row');
$_->{price} = 1 for @bad;
$bad[$kept[-1]]{price} = -1;
my $code;
($code, undef, $said) = rank($json->encode({ user => { user => 1 }, ads => \@bad }));
is($code, 400, 'a bid below 0');
like($said, qr/ads\[$kept[-1]\]/, 'is named by its place in the request');
post($json->encode({ user => { user => 1 }, ads => [asked(1), 'x1', 'x2'] }));
my @missed = map { metric("ctr_serve_unknown_$_") } qw(vectors_total ads_total);
is($missed[0], 2, 'two ads have no vector');
sh('ctr-select -q -c user,ad,price,kind log.arrows | ctr-select -q --head 100 >ask.arrows');
for (1 .. 3) {
    ($code, undef, $said) = ask(message('/v1/score', slurp('ask.arrows'), 'Content-Type: application/vnd.apache.arrow.stream'));
    is($code, 200, 'a stream');
}
spew('said.arrows', $said);
is(sh('ctr-info --digest said.arrows'), sh('ctr-extract -q rank.model ask.arrows 2>/dev/null | ctr-predict -q rank.model 2>/dev/null | ctr-info --digest'), 'is not cut, and has the bits of the pipe');
is_deeply([map { metric("ctr_serve_unknown_$_") } qw(vectors_total ads_total)], \@missed, 'and counts nobody again');
is(stop(), 0, 'ends with 0');
done_testing;
