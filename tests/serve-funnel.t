#!/usr/bin/env perl
# ctr-serve --prerank: what a request gets is what the funnel offline gives, bit for bit, of all ads and of those of the request; the tower and the
# vectors are replaced while requests come; files that do not fit are refused.
use strict;
use warnings;
use File::Temp qw(tempdir);
use JSON::PP;
use Test::More;
use Time::HiRes qw(sleep time);
use lib "$ENV{CTR_TOP}/tests";
use Serve qw(spew slurp sh start stop message metric %server);

my $B = $ENV{CTR_BUILD};
my $SAN = $B =~ /-san/;
$ENV{PATH} = "$B/bin:$B/bench:$ENV{PATH}";
$ENV{LC_ALL} = 'C';
plan skip_all => 'ctr-serve was left out of the build' unless -x "$B/bin/ctr-serve";
my $dir = tempdir(CLEANUP => 1);
chdir $dir or die;

sub ask { # PATH BODY: status, body, head
    my ($status, $head, $body) = Serve::ask(message(@_, 'Connection: close'));
    return ($status, $body, $head);
}
sub until_err { my ($re) = @_; for (1 .. 1200) { return 1 if slurp('serve.err') =~ $re; sleep .05; } return 0; }
sub fails { # fails STATUS REGEX OPTION…
    my ($want, $re, @args) = @_;
    my $said = `ctr-serve --check @args 2>&1 >/dev/null`;
    is($? >> 8, $want, "--check @args: exit status");
    like($said, qr/$re/, 'says why');
}
my $json = JSON::PP->new->canonical;

# ---- a world: ads with columns of their own, a rank model with crosses, a tower that knows the user by id and history

srand 3;
my $ads = 700;
my @ads = map { { ad => sprintf('a%03d', $_), price => ($_ * 37 % 100) / 8, kind => 'k' . $_ % 9 } } 0 .. $ads - 1;
my (@rows, %past);
for my $i (0 .. 3999) {
    my $u = int(rand() * rand() * 60);
    my $a = $ads[int rand $ads];
    my $click = rand() < ($u % 9 == substr($a->{ad}, 1) % 9 ? .7 : .1) ? 1 : 0;
    push @rows, { click => $click, user => $u, past => join('|', map { $_ // () } @{ $past{$u} || [] }[0 .. 4]), hour => $i % 24, %$a };
    unshift @{ $past{$u} }, $a->{ad} if $click;
}
sub csv { my ($file, $names, @r) = @_; spew($file, join '', map { my $r = $_; join(',', map { ref $r ? $r->{$_} // '' : $_ } @$names) . "\n" } { map { $_ => $_ } @$names }, @r); }
my @columns = qw(click user past hour ad price kind);
csv('log.csv', \@columns, @rows);
csv('ads.csv', [qw(ad price kind)], @ads);
sh('ctr-import -q --header --columns click:int8,user:int64,past:utf8,hour:int64,ad:utf8,price:float64,kind:utf8 log.csv | ctr-select -q --add "prerank=0.25" --add "visit=user" -o log.arrows');
sh('ctr-import -q --header --columns ad:utf8,price:float64,kind:utf8 ads.csv | ctr-sort -q -k ad -o ads.arrows && ctr-cat --batch 100 --to file --key ad -o ads.arrow ads.arrows');
my $common = "label click\nquery visit\nid item = ad\nfeature user\nfeature ad\nfeature past in ad of ad = split(past, \"|\")\nfeature kind\nfeature h = bucket(hour, [6, 12, 18])\ndense price\n";
spew('rank.plan', $common . "keep hour, prerank, bid = price\nfeature both = cross(user, kind)\n");
spew("tower.plan", "keep user\n" . $common); # its feature is the column user.feature
sh('ctr-train lr -q --alpha .1 --progressive p.arrows -o rank.model rank.plan log.arrows && ctr-calibrate -q --fit platt -o map p.arrows 2>/dev/null');
for ([1, ''], [2, '--seed 9']) {
    my ($n, $how) = @$_;
    sh("ctr-train two-tower -q $how --user-features user.feature,past,h --ad-features ad,kind,price --embedding 4 --hidden 8 --vector 6 --rate .02 --minibatch 100 -o tower$n.model tower.plan log.arrows");
    sh(qq{ctr-select -q --add 'user=0' --add 'hour=0' --add 'past=""' --add 'visit=0' ads.arrows | ctr-extract -q tower$n.model 2>/dev/null | ctr-select -q -c item,ad,kind,price | }
       . qq{ctr-predict -q --tower ad tower$n.model 2>/dev/null >ads$n.vec && ctr-cat --batch 64 --to file --key item -o ads$n.arrow ads$n.vec});
}
sub requests { # requests USER…: the funnel's requests.arrows and context.arrows
    spew('requests.jsonl', join '', map { $json->encode($_) . "\n" } @_);
    sh('ctr-import -q --format jsonl --columns visit:int64,user:int64,past:utf8,hour:int64 requests.jsonl -o requests.arrows');
}
sub funnel { # funnel TOWER K RANK…: the lines of the ranking
    my ($n, $k, $map, $rank) = @_;
    sh(qq{ctr-select -q --add 'ad=""' --add 'kind=""' --add 'price=0.0' requests.arrows | ctr-extract -q tower$n.model 2>/dev/null | ctr-select -q -c 'visit,user.feature,past,h' | ctr-predict -q --tower user tower$n.model 2>/dev/null >users.vec});
    sh(qq{ctr-predict -q --dot --top $k users.vec ads$n.arrow 2>/dev/null | ctr-select -q -c visit,ad=item,prerank=score | ctr-join -q -k ad ads.arrows | ctr-join -q -k visit requests.arrows | }
       . qq{ctr-extract -q rank.model 2>/dev/null | ctr-predict -q rank.model 2>/dev/null} . ($map ? '| ctr-calibrate -q map' : '') . ' >scored.arrows');
    sh("ctr-rank -q $rank scored.arrows >ranked.arrows") if defined $rank;
    return split /\n/, sh('ctr-export -f jsonl ' . (defined $rank ? 'ranked' : 'scored') . '.arrows');
}
sub numbers { my ($line, @of) = @_; return join ' ', map { $line =~ /"$_":("[^"]*"|[^,}]*)/ ? "$_ $1" : "no $_" } @of; }

# ---- without ads: the best of all

my @users = map { { user => $_, past => join("|", grep { defined } @{ $past{$_} || [] }[0 .. ($_ % 3)]), hour => $_ % 24, visit => $_ } } 1, 4, 17, 33, 4711;
my @models = ('rank.model', '--ads', 'ads.arrow', '--prerank', 'tower1.model', '--vectors');
for my $case (['ads1.arrow', 50, 0, '', ''], ['ads1.vec', 7, 1, '--bid bid --price second --top 5', '--bid bid --price second --top 5'], ['ads1.arrow', 1000, 0, '--bid bid', '--bid bid']) {
    my ($vectors, $k, $map, $online, $rank) = @$case;
    start(@models, $vectors, '--prerank-top', $k, '--threads', 2, split(/ /, $online), $map ? ('--map', 'map') : ());
    for my $u (@users) {
        requests($u);
        my @want = funnel(1, $k, $map, $rank);
        my ($status, $body, $head) = ask('/v1/rank', $json->encode({ user => { user => $u->{user}, past => $u->{past} }, context => { hour => $u->{hour}, visit => $u->{user} } }));
        is($status, 200, "user $u->{user} of $vectors, K $k: an answer");
        my @got = $body =~ /\{"ad":[^}]*\}/g;
        my @of = ('score', 'rank', ($online ? 'ecpm' : ()), ($online =~ /price/ ? 'price' : ()));
        is(join("\n", map { (/"key":("[^"]*")/)[0] . ' ' . numbers($_, @of) } @got), join("\n", map { (/"item":("[^"]*")/)[0] . ' ' . numbers($_, @of) } @want), 'is the funnel, bit for bit');
        @want = funnel(1, $k, $map, undef);
        ($status, $body) = ask('/v1/score', $json->encode({ user => $u }));
        is(($body =~ /"ads":\[(.*?)\]/)[0], join(',', map { (/"item":("[^"]*")/)[0] } @want), 'scores: the ads of the pre-rank, in its order');
        is(($body =~ /"scores":\[(.*?)\]/)[0], join(',', map { (/"score":([^,}]*)/)[0] } @want), 'with their scores');
        like($head, qr/^X-Tower: \w{32}\r$/m, 'the answer names the tower');
    }
    is(stop(), 0, 'ends with 0');
}

# ---- with ads: the best of these, in their order

start(@models, 'ads1.arrow', '--prerank-top', 20, '--threads', 2, '--map', 'map', '--log', 'served.arrows');
my $u = $users[2];
my $of = { user => $u };
my @asked = @ads[map { $_ * 211 % $ads } 1 .. 60];
requests($u);
my %score = map { (/"item":"([^"]*)"/)[0] => (/"prerank":([^,}]*)/)[0] } funnel(1, $ads, 1, undef);
my %final = map { (/"item":"([^"]*)"/)[0] => (/"score":([^,}]*)/)[0] } split /\n/, sh('ctr-export -f jsonl scored.arrows');
my @best = sort { $a <=> $b } (sort { $score{ $asked[$b]{ad} } <=> $score{ $asked[$a]{ad} } || $a <=> $b } 0 .. $#asked)[0 .. 19];
for (['keys', [map { $_->{ad} } @asked]], ['objects', [map { { ad => $_->{ad} } } @asked]], ['all columns', \@asked]) {
    my ($name, $list) = @$_;
    my ($status, $body) = ask('/v1/score', $json->encode({ %$of, ads => $list }));
    is(($body =~ /"ads":\[(.*?)\]/)[0], join(',', @best), "ads as $name: the places of the best 20, in the order of the request");
    is(($body =~ /"scores":\[(.*?)\]/)[0], join(',', map { $final{ $asked[$_]{ad} } } @best), 'with their scores');
    ($status, $body) = ask('/v1/rank', $json->encode({ %$of, ads => $list }));
    my @got = map { [/"ad":(\d+),"score":([^,}]*)/] } $body =~ /\{"ad":[^}]*\}/g;
    is(join(' ', sort { $a <=> $b } map { $_->[0] } @got), join(' ', @best), 'a ranking names their places');
    is(join(' ', map { $_->[1] } @got), join(' ', map { $final{ $asked[ $_->[0] ]{ad} } } @got), 'and their scores');
    is(join(' ', map { $_->[1] } @got), join(' ', sort { $b <=> $a } map { $_->[1] } @got), 'the best first');
}
my ($status, $body) = ask('/v1/score', $json->encode({ %$of, ads => [map { $_->{ad} } @asked[0 .. 19]] }));
unlike($body, qr/"ads"/, 'no more than K: all are kept');
is(($body =~ /"scores":\[(.*?)\]/)[0], join(',', map { $final{ $_->{ad} } } @asked[0 .. 19]), 'with their scores');
($status, $body) = ask('/v1/score', $json->encode({ %$of, ads => ['new1', (map { $_->{ad} } @asked[0 .. 18]), 'new2'] }));
is(($body =~ /"ads":\[(.*?)\]/)[0], join(',', 0 .. 19), 'of ads without a vector the first is kept where there is room');
($status, $body) = ask('/v1/score', $json->encode({ %$of, ads => ['new1', (map { $_->{ad} } @asked[0 .. 19]), 'new2', { ad => undef }] }));
is(($body =~ /"ads":\[(.*?)\]/)[0] // $body, join(',', 1 .. 20), 'and none before those that have one') or diag $body;
is(metric('ctr_serve_unknown_vectors_total'), 2 + 3, 'they are counted');
($status, $body) = ask('/v1/score', $json->encode({ %$of, ads => [] }));
like($body, qr/"scores":\[\]/, 'no ads, no scores');
for ([{ user => { user => 3, hour => 1, visit => 3 } }, 'column past is missing: the user or the context give it'],
     [{ %$of, ads => [map { { ad => $_->{ad}, user => 1 } } @asked] }, 'column user is in user and in ads: give it once|column user is in'],
     [{ user => { past => "", hour => 1, visit => 1 }, ads => [map { { ad => $_->{ad}, user => 1 } } @asked] }, 'column user is in ads: the pre-rank wants it of the user'],
     [{ %$of, ads => [map { { kind => 'k1' } } @asked] }, 'the pre-rank wants their key, ad'],
     [{ %$of, context => { hour => 3 } }, 'column hour is in user and in context: give it once'],
     [{ %$of, ads => 3 }, 'ads: wants a list']) {
    my ($request, $re) = @$_;
    ($status, $body) = ask('/v1/score', $json->encode($request));
    is($status, 400, 'a wrong request');
    like($body, qr/$re/, 'says why');
}
is(stop(), 0, 'ends with 0');
is(sh(q{ctr-cat served.0*.arrows | ctr-select -c score | ctr-info --digest}), sh(q{ctr-cat served.0*.arrows | ctr-select -q -c -score | ctr-extract -q rank.model 2>/dev/null | ctr-predict -q rank.model 2>/dev/null | ctr-calibrate -q map | ctr-select -c score | ctr-info --digest}),
   'the log has the column prerank: the pipe gives its scores') if sh(q{ctr-cat served.0*.arrows | ctr-select -q -c prerank | ctr-info | grep -c prerank});

# ---- streams: the same, of several requests at once

sub stream { # PATH FILE HEADER…
    my ($path, $file, @headers) = @_;
    return Serve::ask(message($path, slurp($file), 'Content-Type: application/vnd.apache.arrow.stream', 'Connection: close', @headers));
}
sub lines { my ($body, @of) = @_; return $body if $body =~ m{^\{}; spew('answer.arrows', $body); return join "\n", map { numbers($_, @of) } split /\n/, sh('ctr-export -f jsonl answer.arrows'); }
start(@models, 'ads1.arrow', '--prerank-top', 20, '--threads', 2, '--map', 'map', '--log', 'streams.arrows', '--bid', 'bid', '--top', 5, '--clicks', 1000);
requests(@users);
my @all = funnel(1, 20, 1, undef);
my $head;
($status, $head, $body) = stream('/v1/score', 'requests.arrows');
is($status, 200, 'rows without ads: an answer') or diag $body;
is(lines($body, qw(visit item score prerank)), join("\n", map { numbers($_, qw(visit item score prerank)) } @all), 'each gets the best of all, bit for bit as in the funnel');
@all = funnel(1, 20, 1, '--by visit --bid bid --top 5');
is(lines((stream('/v1/rank', 'requests.arrows'))[2], qw(visit item score ecpm rank)), join("\n", map { numbers($_, qw(visit item score ecpm rank)) } @all), 'a ranking, too');
my @mine = map { my $r = $_; { user => $users[$r % 3], ad => $ads[$r * 211 % $ads]{ad} } } 0 .. 119; # three requests, in turn
csv('mine.csv', [qw(user past hour visit ad)], map { { %{ $_->{user} }, ad => $_->{ad} } } @mine, { user => $users[0], ad => 'new' });
my $types = '--columns user:int64,past:utf8,hour:int64,visit:int64,ad:utf8';
sh("ctr-import -q --header $types mine.csv | ctr-join -q -k ad ads.arrows >mine.arrows && ctr-select -q -c -kind,-price mine.arrows >ids.arrows && ctr-select -q -c -past ids.arrows >short.arrows && ctr-select -q -c -ad ids.arrows >many.arrows");
my (%product, %of_pair);
requests(@users[0 .. 2]);
for (funnel(1, $ads, 1, undef)) { my ($visit, $item) = /"visit":(\d+).*"item":"([^"]*)"/ ? ($1, $2) : (/"visit":(\d+)/, /"item":"([^"]*)"/); ($product{$visit}{$item}) = /"prerank":([^,}]*)/; $of_pair{$visit}{$item} = $_; }
my @left;
for my $u (@users[0 .. 2]) {
    my $visit = $u->{visit};
    my @rows = grep { $mine[$_]{user} == $u } 0 .. $#mine;
    push @left, (sort { $product{$visit}{ $mine[$b]{ad} } <=> $product{$visit}{ $mine[$a]{ad} } || $a <=> $b } @rows)[0 .. 19];
}
@left = sort { $a <=> $b } @left;
my $want = join "\n", map { numbers($of_pair{ $mine[$_]{user}{visit} }{ $mine[$_]{ad} }, qw(visit item score prerank)) } @left;
for (['mine', 'all columns'], ['ids', 'ids alone']) {
    my ($file, $name) = @$_;
    is(lines((stream('/v1/score', "$file.arrows"))[2], qw(visit item score prerank)), $want, "rows with ads, $name: the best 20 of each request, in the order of the stream");
}
sh('ctr-select -q --add "visit=1" ids.arrows >one.arrows');
sh('ctr-select -q -c -ad mine.arrows >half.arrows');
for (['short', 'column past is missing: the user'], ['half', 'column (kind|price) is one of the ads, and the pre-rank wants their key, ad'], ['one', 'rows 1 and 2 are of one request, but differ in user, which the pre-rank reads of the user']) {
    my ($file, $re) = @$_;
    ($status, $head, $body) = stream('/v1/score', "$file.arrows");
    is($status, 400, "$file.arrows is refused");
    like($body, qr/$re/, 'says why');
}
SKIP: {
    my $py = $ENV{CTR_PYTHON} || 'python3';
    skip 'no pyarrow: set CTR_PYTHON', 10 if system("$py -c 'import pyarrow' 2>/dev/null");
    sh(qq{$py -c 'if True:
        import pyarrow as pa
        t = pa.ipc.open_stream("ids.arrows").read_all()
        lists = pa.array([[[1]]] * t.num_rows)
        t = t.set_column(t.column_names.index("ad"), "ad", lists).append_column("more", lists)
        with pa.ipc.new_stream("lists.arrows", t.schema) as w: w.write_table(t)'});
    ($status, $head, $body) = stream('/v1/score', 'lists.arrows');
    is($status, 400, 'a key of a type that is not read is not a request without ads');
    like($body, qr/column ad is of a type that is not read: list of lists/, 'says why');
    sh(qq{$py -c 'if True:
        import pyarrow as pa, struct
        n = 1 << 27
        runs = lambda v: pa.RunEndEncodedArray.from_arrays(pa.array([n], pa.int32()), v)
        user = runs(pa.array([1], pa.int64()))
        t = pa.table({"user": user, "hour": user, "visit": user, "past": runs(pa.array([""])), "ad": runs(pa.array(["a000"]))})
        with pa.ipc.new_stream("runs.arrows", t.schema) as w: w.write_table(t)
        t = pa.ipc.open_stream("ids.arrows").read_all()
        long = pa.DictionaryArray.from_arrays(pa.array([0] * t.num_rows, pa.int32()), pa.array(["x" * 200000]))
        t = t.set_column(t.column_names.index("past"), "past", long)
        with pa.ipc.new_stream("long.arrows", t.schema) as w: w.write_table(t)
        text = b"x" * 200000
        view = struct.pack("<i4sii", len(text), text[:4], 0, 0)
        shared = pa.Array.from_buffers(pa.string_view(), t.num_rows, [None, pa.py_buffer(view * t.num_rows), pa.py_buffer(text)])
        t = t.set_column(t.column_names.index("past"), "past", shared)
        with pa.ipc.new_stream("shared.arrows", t.schema) as w: w.write_table(t)
        runs = pa.RunEndEncodedArray.from_arrays(pa.array([t.num_rows], pa.int32()), pa.array(["x" * 200000]))
        t = t.set_column(t.column_names.index("past"), "past", runs)
        with pa.ipc.new_stream("same.arrows", t.schema) as w: w.write_table(t)'});
    my $written = 'rows of more than 16 MiB, with each text and list written out, are not taken \\(--max-body\\)';
    for (['runs', 'more than 10000 rows are not taken \\(--max-ads\\)'], ['long', 'rows of more than 16 MiB, without dictionaries, are not taken \\(--max-body\\)'],
         ['shared', $written], ['same', $written]) {
        my ($file, $re) = @$_;
        ($status, $head, $body) = stream('/v1/score', "$file.arrows");
        is($status, 413, "$file.arrows: few bytes of very many rows, or of one long text in each");
        like($body, qr/$re/, 'says why');
    }
}
sh('ctr-cat many.arrows many.arrows many.arrows many.arrows many.arrows >many5.arrows');
($status, $head, $body) = stream('/v1/score', 'many5.arrows');
is($status, 413, 'too many ads');
like($body, qr/20 ads for each of 605 requests are more than 10000 \(--max-ads\)/, 'says why');
is(stop(), 0, 'ends with 0');
is(sh(q{ctr-cat streams.0*.arrows | ctr-select -c score | ctr-info --digest}), sh(q{ctr-cat streams.0*.arrows | ctr-select -q -c -score | ctr-extract -q rank.model 2>/dev/null | ctr-predict -q rank.model 2>/dev/null | ctr-calibrate -q map | ctr-select -c score | ctr-info --digest}),
   'the log of streams: the pipe gives its scores');
my @places = split /\n/, sh(q{ctr-cat streams.0*.arrows | ctr-select -q -c request,place,ad | ctr-export -q -f tsv --no-header | tail -60 | cut -f2});
is("@places", "@left", 'it has the places of ads in the stream');

# Without a pre-rank, too, what a stream leaves out comes from the files of users and ads.
csv('users.csv', [qw(user past)], @users);
sh('ctr-import -q --header --columns user:int64,past:utf8 users.csv | ctr-sort -q -k user | ctr-cat --to file --key user -o users.arrow && ctr-select -q --add "prerank=0.5" -c user,hour,visit,ad,prerank ids.arrows >few.arrows');
start('rank.model', '--users', 'users.arrow', '--ads', 'ads.arrow', '--threads', 1);
sh('ctr-join -q -k ad ads.arrows few.arrows | ctr-join -q -k user users.arrow | ctr-extract -q rank.model 2>/dev/null | ctr-predict -q rank.model >joined.arrows 2>/dev/null');
is(lines((stream('/v1/score', 'few.arrows'))[2], qw(visit item score)), lines(slurp('joined.arrows'), qw(visit item score)), 'ids alone: the columns of the files');
is(metric('ctr_serve_unknown_ads_total') . ' ' . metric('ctr_serve_unknown_users_total'), '1 0', 'keys that the files do not have are counted');
is(stop(), 0, 'ends with 0');

# ---- streams of a plan without a query: the columns of the user that the server knows tell requests apart, for pre-rank and ranking

(my $no_query = $common) =~ s/^query visit\n//m;
spew('plain.plan', $no_query . "keep user, prerank\n");
sh('ctr-train lr -q -o plain.model plain.plan log.arrows');
(my $no_ads = $no_query) =~ s/^id item = ad\n//m;
spew('no-ads.plan', $no_ads . "keep user\n");
sh('ctr-train lr -q -o no-ads.model no-ads.plan log.arrows');
sh('ctr-select -q --add "row=0" ids.arrows | ctr-sort -q -k user >by-user.arrows && ctr-select -q -c user,hour,ad,prerank --add "prerank=0.5" by-user.arrows >keys.arrows && ctr-select -q -c user,hour,ad,prerank --add "prerank=0.5" ids.arrows >mixed.arrows');
sub ranked { # ranked FILE TOP: what ctr-rank makes of the scores of the same server
    my ($file) = @_;
    spew('scores.arrows', (stream('/v1/score', $file))[2]);
    sh('ctr-rank -q --by user --top 7 scores.arrows >order.arrows');
    return lines(slurp('order.arrows'), qw(user item score rank));
}
for (['the key of --users', '--users', 'users.arrow', '--ads', 'ads.arrow'], ['what the tower reads', @models[1 .. $#models], 'ads1.arrow', '--prerank-top', 12, '--users', 'users.arrow']) {
    my ($name, @options) = @$_;
    start('plain.model', @options, '--threads', 1, '--top', 7);
    my @all = split /\n/, my $want = ranked('keys.arrows');
    is(scalar(@all), 21, "$name: seven of each of three users");
    is(lines((stream('/v1/rank', 'keys.arrows'))[2], qw(user item score rank)), $want, 'in the order of ctr-rank --by user');
    ($status, $head, $body) = stream('/v1/rank', 'mixed.arrows');
    is($status, 400, 'users in turn');
    like($body, qr/rows 1 and 4 are of one user, with others between them: sort the rows by user/, 'are refused');
    is(stop(), 0, 'ends with 0');
}
csv('crowd.csv', [qw(user hour ad prerank)], map { my $u = $_; map { { user => $u, hour => 1, ad => $ads[$_ * 31]{ad}, prerank => .5 } } 1 .. 6 } 1 .. 20);
sh('ctr-import -q --header --columns user:int64,hour:int64,ad:utf8,prerank:float64 -o crowd.arrows crowd.csv');
start('plain.model', '--users', 'users.arrow', '--ads', 'ads.arrow', '--threads', 1, '--explore', 'epsilon=0.5', '--seed', 1);
spew('crowd.ranked', (stream('/v1/rank', 'crowd.arrows', 'X-Request-Id: crowd'))[2]);
my (%scores, %how); # by user, in the order of ranks
push @{ $scores{ $_->{user} } }, $_->{score} for map { decode_json($_) } split /\n/, sh('ctr-export -f jsonl crowd.ranked');
$how{ join(' ', @$_) eq join(' ', sort { $b <=> $a } @$_) ? 'by score' : 'at random' }++ for values %scores;
is(join(', ', sort keys %how), 'at random, by score', 'users of one stream explore, each for itself') or diag explain \%how;
is(stop(), 0, 'ends with 0');
start('plain.model', @models[1 .. $#models], 'ads1.arrow', '--prerank-top', 12, '--threads', 1, '--top', 7);
is(lines((stream('/v1/rank', 'requests.arrows'))[2], qw(user item score rank)), ranked('requests.arrows'), 'rows without ads: each is a request');
sh('ctr-cat requests.arrows requests.arrows >twice.arrows');
is(join(' ', map { /rank (\d+)/ } split /\n/, lines((stream('/v1/rank', 'twice.arrows'))[2], 'rank')), join(' ', (1 .. 7) x 6), 'two of one user, too');
is(stop(), 0, 'ends with 0');
sh('ctr-join -q -k ad ads.arrows keys.arrows | ctr-join -q -k user users.arrow >whole.arrows');
start('plain.model', '--threads', 1, '--top', 7);
is(join(' ', map { /rank (\d+)/ } split /\n/, lines((stream('/v1/rank', 'whole.arrows'))[2], 'rank')), join(' ', 1 .. 7), 'where the server knows no user: one request');
($status, $head, $body) = stream('/v1/score', 'keys.arrows');
is($status, 400, 'a column that is missing');
is($body, '{"error":"column past is missing: the user, the context or the ads give it (null: not known)"}' . "\n", 'is told as in JSON');
is(stop(), 0, 'ends with 0');
start('no-ads.model', @models[1 .. $#models], 'ads1.arrow', '--threads', 1);
for my $path ('/v1/score', '/v1/rank') {
    ($status, $head, $body) = stream($path, 'requests.arrows');
    is($status, 400, "$path: rows without ads, of a plan that does not keep them");
    like($body, qr/the answer could not say which ad has which score: add a line `keep ad` to the plan/, 'are refused');
}
like((ask('/v1/score', $json->encode({ user => $u })))[1], qr/"ads":\["a/, 'JSON names them');
is((stream('/v1/score', 'mine.arrows'))[0], 200, 'rows with ads are scored');
is(stop(), 0, 'ends with 0');

# ---- files that do not fit

is(sh('ctr-serve --check rank.model --ads ads.arrow --prerank tower1.model --vectors ads1.arrow | grep -v ^model | cut -f1,2,4 | sed "s/tower.*/tower/"'),
   "tower\ncolumn\tvisit\trequest\ncolumn\tad\tads\ncolumn\tuser\trequest\ncolumn\tpast\trequest\ncolumn\tkind\tads\ncolumn\thour\trequest\ncolumn\tprice\tads\ncolumn\tprerank\tprerank\n", '--check says where columns come from');
fails(2, 'needs --vectors|--vectors', '--prerank tower1.model rank.model');
fails(2, 'needs --prerank|--prerank', '--vectors ads1.arrow rank.model');
fails(1, 'the vectors of the users are of model \w+, those of the ads of model \w+: make both with one model', '--ads ads.arrow --prerank tower1.model --vectors ads2.arrow rank.model');
fails(2, '^ctr-serve: rank\.model: models of kind lr have no output user', '--ads ads.arrow --prerank rank.model --vectors ads1.arrow rank.model');
fails(2, 'no column holds vectors', '--ads ads.arrow --prerank tower1.model --vectors ads.arrow rank.model');
fails(2, 'these are vectors of the user', '--ads ads.arrow --prerank tower1.model --vectors users.vec rank.model');
fails(2, q{its key 'item' is no column that the model reads: give a file of ads}, '--prerank tower1.model --vectors ads1.arrow rank.model');
sh('ctr-cat ads1.vec ads1.vec >twice.vec && ctr-select -q --head 0 ads1.vec >none.vec');
sh(q{head -c 3000 ads1.arrow >cut.arrow});
fails(1, 'rows 1 and 701 have the same key: ctr-sort --unique keeps the first', '--ads ads.arrow --prerank tower1.model --vectors twice.vec rank.model');
fails(1, 'it has no vectors', '--ads ads.arrow --prerank tower1.model --vectors none.vec rank.model');
fails(1, 'cut.arrow', '--ads ads.arrow --prerank tower1.model --vectors cut.arrow rank.model');
sh('cp ads1.arrow flipped.arrow');
{ open my $f, '+<', 'flipped.arrow' or die; seek $f, 6000, 0; read $f, my $byte, 1; seek $f, 6000, 0; print $f $byte ^ "\x10"; close $f; }
fails(1, 'flipped.arrow', '--ads ads.arrow --prerank tower1.model --vectors flipped.arrow rank.model');

# ---- replaced while requests come

sh('cp ads1.arrow live.arrow && cp tower1.model live.model');
start('rank.model', '--ads', 'ads.arrow', '--prerank', 'live.model', '--vectors', 'live.arrow', '--prerank-top', 30, '--threads', 2, '--queue', 1000);
my %want;
requests($u);
for my $n (1, 2) { $want{$n} = join ',', map { (/"item":("[^"]*")/)[0] } funnel($n, 30, 0, undef); }
isnt($want{1}, $want{2}, 'two towers find other ads');
spew('body', $json->encode($of));
my $load = fork // die;
my $seconds = $SAN ? 6 : 8;
if (!$load) { exec "bench-load -r 60 -t $seconds -c 6 unix:sock /v1/score body >load.out 2>&1"; }
my $until = time + $seconds - 1.5;
my ($swaps, $odd) = (0, 0);
while (time < $until) {
    my $n = $swaps++ % 2 ? 1 : 2;
    sh("cp flipped.arrow next && mv next live.arrow && sleep .15") if $swaps % 3 == 0;
    sh("cp tower$n.model next && mv next live.model && sleep .2 && cp ads$n.arrow next && mv next live.arrow && sleep .3");
    ($status, $body) = ask('/v1/score', slurp('body'));
    my ($got) = $body =~ /"ads":\[(.*?)\]/;
    $odd++ if $status != 200 || ($got ne $want{1} && $got ne $want{2});
}
waitpid $load, 0;
my %load = map { split } split /\n/, slurp('load.out');
note slurp('load.out');
is($load{code_200}, $load{requests}, "$swaps replacements of tower and vectors, some bad: every request has its answer");
is($load{failed}, 0, 'no connection fails');
is($odd, 0, 'each answer is of one tower and its vectors');
like(slurp('serve.err'), qr/of model \w+.*what was served before goes on/, 'a tower whose vectors have not come yet waits for them');
my $last = $swaps % 2 ? 2 : 1;
for (1 .. 200) { ($status, $body) = ask('/v1/score', slurp('body')); last if ($body =~ /"ads":\[(.*?)\]/)[0] eq $want{$last}; sleep .05; }
is(($body =~ /"ads":\[(.*?)\]/)[0], $want{$last}, 'the last pair is served');
is(stop(), 0, 'ends with 0');
done_testing;
