# Line 2: streams that end early, with a bit flipped, with a message dropped, repeated or swapped, through whole tools: seen by
# each one, or (a bit in a column that the tool does not read) the product is the good one to the byte. What came out before is a
# beginning of the good output. In a chain of four tools the last one fails.
use strict;
use warnings;
use Fault;
use File::Path qw(remove_tree);

# What is damaged: the main input, or another one that a command reads to its end.
sub targets {
    my @t;
    for my $c (commands()) {
        push @t, [$c, $c->{main}] if $c->{main} && !$c->{text};
        my @a = @{ $c->{argv} };
        push @t, map { [$c, $a[$_]] } grep { $a[$_] =~ /\.(?:arrows?|model|fitted)$/ && $a[$_] ne ($c->{main} // '') && $a[$_ - 1] ne '--like' && $a[$_] !~ /@/ } 1 .. $#a;
    }
    return @t;
}

# Offsets of the messages of a stream: a mark, a size, metadata of ours.
sub messages {
    my ($s, @at) = @_;
    for (my $i = 0; ($i = index $s, "\xff\xff\xff\xff", $i) >= 0; $i++) {
        next if $i % 8 || $i + 8 > length $s;
        my $n = unpack 'V', substr $s, $i + 4, 4;
        push @at, $i if $n == 0 || ($n < 1 << 20 && index(substr($s, $i + 8, $n), 'ctr.') >= 0);
    }
    return @at;
}

sub good_run {
    my ($c, $at) = @_;
    remove_tree("$at/out");
    mkdir "$at/out";
    my $pipe = !$c->{own} && !$c->{file};
    my ($status, $signal) = run(dir => $at, args => [command_args($c, $pipe ? 'pipe' : 'file')], out => 'out/stdout', $pipe ? (in => $c->{main}) : ());
    return ($status, $signal);
}

# One damage: 'seen', 'harmless', or what is wrong.
sub judge_damage {
    my ($c, $at, $what, $good) = @_;
    my ($status, $signal) = good_run($c, $at);
    return "$c->{name}: $what: " . outcome($status, $signal) . ': ' . last_words($at) if $signal;
    if ($status == 0) {
        my $wrong = same_outputs($at, $good, whole => 1);
        return $wrong ? "$c->{name}: $what: not seen: $wrong" : 'harmless';
    }
    return "$c->{name}: $what: exit $status: " . last_words($at) if $status > 1 && !($status == 3 && $c->{name} eq 'info-check') && $status != 2;
    return "$c->{name}: $what: no message" if last_words($at) eq '';
    my $got = slurp("$at/out/stdout");
    return "$c->{name}: $what: what came out is no beginning of the good output" if index($good->{'out/stdout'}, $got) != 0;
    my %files = %$good;
    delete $files{'out/stdout'};
    my $wrong = same_outputs($at, \%files, except => qr{^out/(stdout|c|c\.scores|c\.delta\.\d+|spool)$});
    return $wrong ? "$c->{name}: $what: $wrong" : 'seen';
}

# Each target damaged in `count` ways of `make(bytes, i)`, which returns (words, damaged bytes) or nothing.
sub damage_line {
    my ($dir, $quick, $per_target, $must_see, $make) = @_;
    inputs($dir, 45);
    my @jobs = targets();
    @jobs = some_of(2, $must_see, @jobs) if $quick && $SAN; # a target is cut, or has a flipped bit and a message that is not in its place
    my @r = spread(\@jobs, $dir, sub {
        my ($c, $file) = @{ $_[0] };
        my $at = $_[1];
        my ($status) = good_run($c, $at);
        return { bad => ["$c->{name}: without damage: exit $status: " . last_words($at)] } if $status;
        my $good = { outputs($at) };
        my $bytes = slurp("$at/$file");
        my %n = (seen => 0, harmless => 0, bad => []);
        for my $i (0 .. $per_target - 1) {
            my ($what, $damaged) = $make->($bytes, $i, "$c->{name} $file") or last;
            next if $damaged eq $bytes;
            spew("$at/$file", $damaged);
            my $r = judge_damage($c, $at, "$file $what", $good);
            $r = "$c->{name}: $file $what: not seen" if $r eq 'harmless' && $must_see && !$c->{part};
            if ($n{$r}++) { }
            elsif ($r ne 'seen' && $r ne 'harmless') { push @{ $n{bad} }, $r }
        }
        spew("$at/$file", $bytes);
        return \%n;
    });
    my ($seen, $harmless) = (0, 0);
    $seen += $_->{seen} || 0, $harmless += $_->{harmless} || 0 for @r;
    return ($seen, $harmless, scalar(@jobs), map { @{ $_->{bad} } } @r);
}

sub seed_of { my $h = 5; $h = ($h * 33 + ord) & 0xffffffff for split //, $_[0]; return $h }

line '2a', 'truncation', sub {
    my ($quick, $dir) = @_;
    my ($seen, $harmless, $n, @bad) = damage_line($dir, $quick, $quick ? ($SAN ? 1 : 3) : 80, 1, sub {
        my ($bytes, $i, $who) = @_;
        my @cut = messages($bytes);
        my $at = $i < ($quick ? 2 : @cut) ? $cut[$quick ? random_of(seed_of($who), $i, scalar @cut || 1) : $i] : random_of(seed_of($who), $i, length $bytes);
        $at = random_of(3, $i, length $bytes) unless defined $at;
        return ("cut at $at", substr $bytes, 0, $at);
    });
    return (($seen + $harmless + @bad) . " cuts at message boundaries and random offsets of $n inputs: $seen seen, $harmless after what the tool reads", @bad);
};

line '2b', 'flipped bits', sub {
    my ($quick, $dir) = @_;
    my ($seen, $harmless, $n, @bad) = damage_line($dir, $quick, $quick ? ($SAN ? 1 : 3) : ($ENV{FLIPS} || 400), 0, sub {
        my ($bytes, $i, $who) = @_;
        my $bit = random_of(seed_of($who), $i, 8 * length $bytes);
        vec($bytes, $bit, 1) ^= 1;
        return ("bit $bit flipped", $bytes);
    });
    return (($seen + $harmless + @bad) . " random flips in $n inputs of tools: $seen seen, $harmless in what the tool does not read (the good product), "
        . scalar(@bad) . ' missed', @bad);
};

line '2c', 'messages dropped, repeated, swapped', sub {
    my ($quick, $dir) = @_;
    my ($seen, $harmless, $n, @bad) = damage_line($dir, $quick, $quick ? ($SAN ? 1 : 3) : 60, 0, sub {
        my ($bytes, $i, $who) = @_;
        my @at = messages($bytes);
        return if $bytes =~ /^ARROW1/ || !@at; # packed text has none
        push @at, length $bytes;
        my @m = map { substr $bytes, $at[$_], $at[$_ + 1] - $at[$_] } 0 .. $#at - 1;
        return if !$quick && $i >= 3 * @m;
        my ($k, $way) = $quick ? (random_of(seed_of($who), $i, scalar @m), $SAN ? random_of(4, seed_of($who), 3) : $i) : (int($i / 3), $i % 3);
        return ("message $k of " . @m . ' dropped',  join '', @m[grep { $_ != $k } 0 .. $#m]) if $way == 0;
        return ("message $k repeated", join '', @m[0 .. $k, $k .. $#m]) if $way == 1;
        my $o = $k + 1 < @m ? $k + 1 : 0;
        @m[$k, $o] = @m[$o, $k];
        return ("messages $k and $o swapped", join '', @m);
    });
    return (($seen + $harmless + @bad) . " in $n inputs: $seen seen, $harmless after what the tool reads, " . scalar(@bad) . ' missed', @bad);
};

line '2e', 'every cut and every bit of small streams', sub {
    my ($quick, $dir) = @_;
    my $unit = "$BUILD/unit/unit-stream-fault";
    return 'SKIP it runs as a unit test' if $quick;
    return "SKIP $unit is not built" unless -x $unit;
    my @said = split /\n/, `$unit`;
    my (%n, $missed);
    for (@said) {
        $n{$2} += $1 while /(\d+) (truncations|bit flips|lies|random changes)/g;
        $n{orders} += $1 if /swapped in (\d+) ways/;
        $missed += $1 while /(\d+) (?:missed|let bad rows out)/g;
    }
    my $text = join ', ', map { "$n{$_} $_" } grep { $n{$_} } 'truncations', 'bit flips', 'orders', 'lies', 'random changes';
    return ("$text: $missed missed or let rows out", grep { /^not ok/ } @said);
};

line '2d', 'chains of four without pipefail', sub {
    my ($quick, $dir) = @_;
    $quick ? inputs($dir, 400, batch => 100) : inputs($dir, 300);
    my @stage = ('ctr-cat', "ctr-select --where true", 'ctr-sort -k id', 'ctr-cat -z zstd', 'ctr-select --add x=1', 'ctr-sort --shuffle',
        'ctr-join -q --prefix r_ -k user users.arrows', 'ctr-cat --to file', 'ctr-calibrate map.arrows');
    my @last = ('ctr-info', 'ctr-export', 'ctr-eval', 'ctr-cat', 'ctr-sort -k price', 'ctr-calibrate --fit power', 'ctr-info --digest');
    my @jobs = 0 .. ($quick ? 30 : 500) - 1;
    my @bad = grep { $_ } spread(\@jobs, $dir, sub {
        my ($i, $at) = @_;
        my $bytes = slurp("$at/log.arrows");
        my $cut = random_of(11, $i, length $bytes);
        my $flip = $i % 3 == 0;
        vec($bytes, 8 * $cut, 1) ^= 1 if $flip;
        spew("$at/bad.arrows", $flip ? $bytes : substr $bytes, 0, $cut);
        my $chain = join ' | ', 'ctr-cat bad.arrows', map({ $stage[random_of(12 + $_, $i, scalar @stage)] } 1, 2), $last[random_of(15, $i, scalar @last)];
        my ($status, $signal) = run(dir => $at, args => ['sh', '-c', $chain]);
        return $status ? '' : "$chain: succeeds with " . ($flip ? "bit 0 of byte $cut flipped" : "the first $cut bytes");
    });
    return (scalar(@jobs) . ' chains of a damaged input: the last tool failed in ' . (@jobs - @bad), @bad);
};
1;
