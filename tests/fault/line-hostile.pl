# Line 5: inputs that lie or are monstrous: an error under a cap of memory and within a second.
# Line 6: bad rows: policies count exactly; what is quarantined and what is kept are together the input, each once.
use strict;
use warnings;
use Fault;

sub i32 { pack 'l<', $_[0] }

# The stream without its seal: as another program would have written it.
sub foreign { return slurp($_[0]) =~ s/ctr\.(?!role)/xtr./gr }

# Of a stream of 2 rows in 2 buffers: the batch's length of body, or its numbers of rows, claim 2 GiB.
sub lying {
    my ($s, $what) = @_;
    my $n = 0;
    if ($what eq 'rows') { $n = $s =~ s/\x02\0{7}/pack('q<', 0x7ffffff0)/ge }
    else {
        my @from;
        push @from, $-[0] while $s =~ /\xff{4}/g;
        for my $from (@from) {
            next if $from + 16 > length $s;
            my $size = unpack 'l<', substr $s, $from + 4, 4;
            next if $size <= 0 || $size > length $s;
            my $t = $from + 8 + unpack 'L<', substr $s, $from + 8, 4; # the Message table, and its vtable
            my $v = $t - unpack 'l<', substr $s, $t, 4;
            my ($vsize, undef, undef, undef, undef, $body) = unpack 'S<6', substr $s, $v, 12;
            next if $vsize < 12 || !$body || !unpack 'q<', substr $s, $t + $body, 8;
            substr($s, $t + $body, 8) = pack 'q<', 0x7fffffc0;
            $n++;
        }
    }
    die "the stream for lies is not what it was\n" unless $n;
    return $s;
}

# name, cap in MiB, how the input is made (bytes, or a shell command that writes it), argv, what it says
my $DEEP = 1_000_000; # no constant: perl would fold a constant range into a list at once, and every fork would copy it
my @HOSTILE = (
    ['100 bytes claim 2 GiB of metadata', 16, sub { i32(-1) . i32(0x7ffffff0) . 'x' x 92 }, ['ctr-info'], qr/metadata|message|truncated/],
    ['100 bytes claim 2 GiB, as a file', 16, sub { 'ARROW1' . "\0\0" . 'x' x 78 . i32(0x7ffffff0) . 'ARROW1' }, ['ctr-info'], qr/footer|damaged|file/],
    ['a stream whose body claims 2 GiB', 16, sub { lying(slurp("$_[0]/good.arrows"), 'body') }, ['ctr-info'], qr/truncated|damaged/],
    ['a foreign stream whose body claims 2 GiB', 16, sub { lying(foreign("$_[0]/good.arrows"), 'body') }, ['ctr-info'], qr/truncated|damaged/],
    ['a foreign stream of 2 billion rows', 16, sub { lying(foreign("$_[0]/good.arrows"), 'rows') }, ['ctr-info'], qr/bytes where its column needs|rows/],
    ['negative metadata', 16, sub { i32(-1) . i32(-5) . 'x' x 92 }, ['ctr-cat'], qr/./],
    ['JSON nested a million deep', 100, sub { '{"a":' x $DEEP . '1' . '}' x $DEEP . "\n" }, [qw(ctr-import -f jsonl -c a:int64)], qr/deep|nest/],
    ['JSON arrays a million deep', 100, sub { '{"a":' . '[' x $DEEP . ']' x $DEEP . "}\n" }, [qw(ctr-import -f jsonl)], qr/deep|nest|no JSON object/],
    ['JSON a million deep, guessed', 100, sub { '{"a":' x $DEEP . '1' . '}' x $DEEP . "\n" }, [qw(ctr-import -f jsonl)], qr/deep|nest|no JSON object/],
    ['500,000 JSON members, guessed', 100, sub { '{' . join(',', map { qq("k$_":$_) } 1 .. $DEEP / 2) . "}\n" }, [qw(ctr-import -f jsonl)], qr/members|columns/],
    ['a million columns of csv', 100, sub { join(',', 1 .. $DEEP) . "\n" }, [qw(ctr-import -f csv)], qr/columns|cells/],
    ['a million columns in a header', 100, sub { join(',', map { "c$_" } 1 .. $DEEP) . "\n" }, [qw(ctr-import -f csv --header)], qr/columns|cells/],
    ['a million columns asked for', 100, sub { "1\n" }, [qw(ctr-import -f csv -c X[1..1000000])], qr/columns|1000000|more than/],
    ['a million columns of vw', 100, sub { '1 ' . join(' ', map { "|n$_ a" } 1 .. $DEEP) . "\n" }, [qw(ctr-import -f vw)], qr/namespaces|columns|fields/],
    ['a million fields of libffm', 100, sub { '1 ' . join(' ', map { "$_:1:1" } 1 .. $DEEP) . "\n" }, [qw(ctr-import -f libffm)], qr/fields/],
    ['a plan of a million brackets', 100, sub { 'a,b' . "\n1,2\n" }, ['sh', '-c', 'ctr-select --where "$(perl -e \'print "(" x 100000\')" good.arrows'], qr/nest|deep|bracket|\(/],
    ['an expression of 30,000 nots', 100, sub { '' }, ['sh', '-c', 'ctr-select --where "$(perl -e \'print "not " x 30000, "true"\')" good.arrows'], qr/nest|deep|long/],
    ['a plan nested 100,000 deep', 100, sub { 'label click' . "\nfeature x = " . 'abs(' x 100000 . 'click' . ')' x 100000 . "\n" }, ['sh', '-c', 'cat >deep.plan; ctr-extract deep.plan good.arrows'], qr/nest|deep|long|line/],
);
my @MONSTERS = ( # made by a pipe, not held here: name, cap, shell, says
    ['a number of 1 GiB in csv', 100, "{ printf 'a\\n'; head -c 1G /dev/zero | tr '\\0' 7; } | ctr-import -f csv --header -c a:int64", qr/line|long|larger|MiB/],
    ['a string of 1 GiB in csv', 100, "{ printf 'a\\n\"'; head -c 1G /dev/zero | tr '\\0' x; } | ctr-import -f csv --header -c a:utf8", qr/line|quote|long|MiB/],
    ['a string of 1 GiB in JSON', 100, "{ printf '{\"a\":\"'; head -c 1G /dev/zero | tr '\\0' x; } | ctr-import -f jsonl -c a:utf8", qr/line|long|MiB/],
    ['a number of 1 GiB in JSON', 100, "{ printf '{\"a\":1'; head -c 1G /dev/zero | tr '\\0' 1; } | ctr-import -f jsonl -c a:int64", qr/line|long|MiB/],
    ['a line of 1 GiB of libsvm', 100, "{ printf '1 '; head -c 1G /dev/zero | tr '\\0' 1; } | ctr-import -f libsvm", qr/line|long|MiB/],
    ['a line of 1 GiB of vw', 100, "{ printf '1 |a '; head -c 1G /dev/zero | tr '\\0' 1; } | ctr-import -f vw", qr/line|long|MiB/],
    (map { ["a bomb that is a line of 1 GiB, $_", 100, "ctr-import -f csv -c a:utf8 <bomb.$_", qr/line|long|MiB/] } qw(gz zst lz4)),
    (map { ["a bomb in a bomb, $_", 100, "ctr-import -f csv -c a:utf8 <bombs.$_", qr/./] } qw(gz zst lz4)),
    ['a frame of zstd with a window of 2 GiB', 100, "printf '\\50\\265\\57\\375\\0\\250xxxxxxxx' | ctr-import -f csv -c a:utf8", qr/window/],
);

sub hostile {
    my ($name, $cap, $args, $says, $at, %o) = @_;
    unlink "$at/report";
    my ($status, $signal, $took) = run(dir => $at, args => $args, env => { LD_PRELOAD => $INJECT, CTR_INJECT_REPORT => "report" }, %o);
    my ($peak) = sort { $b <=> $a } map { /rss=(\d+)/ ? $1 : 0 } grep { /alloc=/ } split /\n/, slurp("$at/report") // '';
    my $wrong = $signal || $status == 0 || $status > 2 ? outcome($status, $signal) . ': ' . last_words($at)
        : !$SAN && ($peak || 0) > $cap * 1024 ? int($peak / 1024) . " MiB of memory, the cap is $cap"
        : !$SAN && $took > 1 ? sprintf('%.2f s of the processor', $took)
        : last_words($at) !~ $says ? 'says: ' . last_words($at) : '';
    return [$wrong ? "$name: $wrong" : '', $took, ($peak || 0) / 1024, $name];
}

line '5', 'lies and monsters', sub {
    my ($quick, $dir) = @_;
    mkdir $dir;
    mkdir "$dir/out";
    spew("$dir/good.csv", "a,click\n1,0\n2,1\n");
    make_ok($dir, 'ctr-import -f csv --header -o good.arrows good.csv');
    for my $ending ($quick ? () : qw(gz zst lz4)) {
        my $packer = packer($ending) or next;
        make_ok($dir, "head -c 1G /dev/zero | $packer -1c >bomb.$ending && $packer -1c bomb.$ending >bombs.$ending");
    }
    my @r;
    for (@HOSTILE) {
        my ($name, $cap, $make, $args, $says) = @$_;
        in_child(sub { spew("$dir/in", $make->($dir)) });
        push @r, hostile($name, $cap, $args, $says, $dir, in => 'in');
    }
    for ($quick ? @MONSTERS[0, 2, -1] : @MONSTERS) {
        my ($name, $cap, $shell, $says) = @$_;
        next if $shell =~ /<(\S+)/ && !-e "$dir/$1";
        push @r, hostile($name, $cap, ['sh', '-c', $shell], $says, $dir);
    }
    my @slow = sort { $b->[1] <=> $a->[1] } @r;
    my @big  = sort { $b->[2] <=> $a->[2] } @r;
    return (sprintf('%d inputs: errors under their caps of memory and within a second of the processor; slowest %.2f s (%s), largest %.0f MiB (%s)', scalar @r, @{ $slow[0] }[1, 3], @{ $big[0] }[2, 3]),
        grep { $_ } map { $_->[0] } @r);
};

# ---- 6: formats: how a good row i looks, the ways in which a row is bad, options, and how kept rows are shown
my %FORMAT = (
    csv   => { args => ['-c', 'id:int64,v:float64,t:timestamp,u:utf8'], good => sub { "$_[0],$_[0].5,2026-01-01T00:00:00Z,u$_[0]" },
        bad => [sub { "$_[0],x,2026-01-01,u" }, sub { "$_[0],1" }, sub { "$_[0],1,2026-01-01,u,more" }, sub { "99999999999999999999,1,2026-01-01,u" },
            sub { "$_[0],1,2026-13-01,u" }, sub { "$_[0],1,2026-01-01,\xff\xfe" }, sub { "$_[0],1,2026-01-01,\"open\"x" }] },
    tsv   => { args => ['-c', 'id:int64,v:float64,u:utf8'], good => sub { "$_[0]\t$_[0].5\tu$_[0]" },
        bad => [sub { "$_[0]\t1..5\tu" }, sub { "$_[0]" }, sub { "\xc0$_[0]\t1\tu" }, sub { "$_[0]\t1\tu\tx" }] },
    jsonl => { args => ['-c', 'id:int64,v:float64,u:utf8'], good => sub { qq({"id":$_[0],"v":$_[0].5,"u":"u$_[0]"}) },
        bad => [sub { qq({"id":$_[0],"v":1.5,"u":"u") }, sub { qq({"id":"x","v":1}) }, sub { 'null' }, sub { qq({"id":$_[0],"v":tru}) }, sub { qq({"id":$_[0]}}) },
            sub { qq({"id":1.5}) }, sub { qq({"u":"\\ud800"}) }] },
    libsvm => { args => [], good => sub { '1 1:' . $_[0] . ' 7:0.5' }, bad => [sub { "1 $_[0]" }, sub { 'x 1:1' }, sub { '1 1:x' }, sub { '1 :1' }] },
    libffm => { args => [], good => sub { "1 1:$_[0]:1 7:3:0.5" }, bad => [sub { "1 1:$_[0]" }, sub { 'x 1:1:1' }, sub { '1 1:1:x' }, sub { '1 :1:1' }] },
    vw    => { args => [], good => sub { "1 |a id=$_[0] x:0.5" }, bad => [sub { "one |a x$_[0]" }, sub { "1 |a x:y$_[0]" }] },
);

line '6', 'bad rows', sub {
    my ($quick, $dir) = @_;
    mkdir $dir;
    mkdir "$dir/out";
    my $rows = $quick ? 3000 : 100000; # in each format, of which about a half is bad
    my @jobs = sort keys %FORMAT;
    my @r = spread(\@jobs, $dir, sub {
        my ($format, $at) = @_;
        my $f = $FORMAT{$format};
        my (@good, @all, $bad, $kept) = ();
        my @lost;
        for my $i (1 .. $rows) {
            my $is_bad = random_of(30, $i, 2);
            my $l = $is_bad ? $f->{bad}[random_of(31, $i, scalar @{ $f->{bad} })]->($i) : $f->{good}->($i);
            push @all, $l;
            push @{ $is_bad ? \@lost : \@good }, $l;
        }
        my $text = sub { join '', map { "$_\n" } @_ };
        spew("$at/all", $text->(@all));
        spew("$at/good", $text->(@good));
        my @import = ('ctr-import', '-f', $format, @{ $f->{args} });
        my @w;
        my $check = sub { my ($what, $want, $max_args, @more) = @_;
            my ($s, $sig) = run(dir => $at, args => [@import, '--bad-rows', @$max_args, @more], limit => 100);
            push @w, "$format, $what: " . outcome($s, $sig) . ': ' . last_words($at) if $sig || $s != $want;
        };
        run(dir => $at, args => [@import, '-o', 'want.arrows', 'good'], limit => 100);
        for my $j (1, 4) {
            $check->("skip, as many as there are, -j $j", 0, ['skip=' . @lost], '-j', $j, '-o', 'kept.arrows', 'all');
            push @w, "$format: kept rows are not the good ones" if (digest($at, 'kept.arrows') // '?') ne (digest($at, 'want.arrows') // '!');
            my $said = slurp("$at/err");
            my $n = @lost;
            push @w, "$format: its words do not count $n: " . last_words($at) unless $said =~ /\b$n\b/ || $said =~ join ',', scalar(reverse((scalar reverse $n) =~ s/(\d{3})(?=\d)/$1,/gr));
            $check->("skip, one less, -j $j", 1, ['skip=' . (@lost - 1)], '-j', $j, '-o', 'x.arrows', 'all');
            push @w, "$format: a refused import left its output" if -e "$at/x.arrows";
            $check->("quarantine, -j $j", 0, ['quarantine=q'], '-j', $j, '-o', 'kept.arrows', 'all');
            push @w, "$format: quarantined lines are not the bad ones" if slurp("$at/q") ne $text->(@lost);
            push @w, "$format: rows kept beside a quarantine are not the good ones" if (digest($at, 'kept.arrows') // '?') ne (digest($at, 'want.arrows') // '!');
            unlink "$at/q";
        }
        return [scalar(@lost), scalar(@good), @w];
    });
    my ($lost, $good, @bad) = (0, 0);
    for (@r) { my ($l, $g, @b) = @$_; $lost += $l; $good += $g; push @bad, @b; }
    return ("$lost bad rows among " . ($lost + $good) . ' of ' . @jobs . ' formats, -j 1 and 4: counts exact, quarantined + kept = the input, each once', @bad);
};

sub digest {
    my ($at, $file) = @_;
    my ($s) = run(dir => $at, args => ['ctr-info', '--digest', $file], out => 'digest', err => 'err.digest');
    return $s ? undef : slurp("$at/digest");
}
1;
