# Line 8: the same bytes for any number of threads, instruction set, locale and time zone, from a pipe or a file; the same digest
# for any --batch of the input and the output.
use strict;
use warnings;
use Fault;
use File::Path qw(remove_tree);

my @SAME_BYTES = (
    ['-j 2',        ['-j', 2], {}],
    ['-j 8',        ['-j', 8], {}],
    ['CTR_CPU=plain', [], { CTR_CPU => 'plain' }],
    ['CTR_CPU=avx2',  [], { CTR_CPU => 'avx2' }],
    ['a locale',    [], { LC_ALL => 'de_DE.UTF-8', LANG => 'tr_TR.UTF-8' }],
    ['TZ',          [], { TZ => 'Asia/Kathmandu' }],
    ['--memory',    ['--memory', '64M'], {}],
);

sub product {
    my ($c, $at, $how, $more, $env, $main) = @_;
    remove_tree("$at/out");
    mkdir "$at/out";
    my @args = command_args($c, $how, $main);
    splice @args, $args[0] =~ /^ctrkit$|ctr-(train|model)$/ ? 2 : 1, 0, @$more;
    my ($status, $signal) = run(dir => $at, args => \@args, env => $env,
        $how eq 'pipe' && !$c->{file} ? (in => $main || $c->{main}) : (), out => $how eq 'pipe' ? 'out/main' : 'out/stdout');
    return $status || $signal ? "$c->{name} (@$more): " . outcome($status, $signal) . ': ' . last_words($at) : '';
}

line '8a', 'the same bytes', sub {
    my ($quick, $dir) = @_;
    inputs($dir, $quick ? 400 : 30000, batch => 100);
    my @jobs = commands();
    my @r = spread(\@jobs, $dir, sub {
        my ($c, $at) = @_;
        my ($n, @bad) = (0);
        my $wrong = product($c, $at, 'file', [], {});
        return [0, $wrong] if $wrong;
        my %good = outputs($at);
        my @ways = map { ['file', @$_] } @SAME_BYTES;
        push @ways, ['pipe', 'a pipe', [], {}] unless $c->{own} || $c->{file} || $c->{quiet};
        for my $w (some_of($quick ? ($SAN ? 8 : 2) : 1, length $c->{name}, @ways)) {
            my ($how, $what, $more, $env) = @$w;
            next if $what eq '--memory' && $c->{name} =~ /spill/;
            $n++;
            $wrong = product($c, $at, $how, $more, $env);
            delete $good{'out/stdout'} if $how eq 'pipe';
            push @bad, $wrong || do { my $w = same_outputs($at, \%good, whole => 1); $w ? "$c->{name}, $what: $w" : () };
        }
        return [$n, grep { $_ } @bad];
    });
    my ($n, @bad) = 0;
    for (@r) { my ($k, @b) = @$_; $n += $k; push @bad, @b; }
    return ("$n runs of " . @jobs . ' commands: -j 1/2/8, plain/AVX2/AVX-512, locale, time zone, memory, pipe: ' . ($n - @bad) . ' the same', @bad);
};

line '8b', 'the same digest for any --batch', sub {
    my ($quick, $dir) = @_;
    inputs($dir, $quick ? 400 : 5000, batch => 100);
    # Not: what shows batches (info), what is text of a number of batches, and what has no stream of rows as its input.
    my @jobs = commands(sub { !$_[0]{quiet} && !$_[0]{file} && $_[0]{name} !~ /^(info|synth|import|extract-explain)/ && $_[0]{main} =~ /\.arrows$/ && $_[0]{main} ne 'fitted.arrows' });
    @jobs = some_of(3, 0, @jobs) if $quick && $SAN;
    my @r = spread(\@jobs, $dir, sub {
        my ($c, $at) = @_;
        my $wrong = product($c, $at, 'file', [], {});
        return [0, $wrong] if $wrong;
        my (%good, $n, @bad);
        my $digests = sub {
            my %d = outputs($at);
            for (keys %d) {
                next unless $d{$_} =~ /^(\xff\xff\xff\xff|ARROW1)/;
                my ($s, $signal) = run(dir => $at, args => ['ctr-info', '--digest', $_], out => 'digest', err => 'err.digest');
                $d{$_} = $s || $signal ? 'no digest: ' . outcome($s, $signal) : slurp("$at/digest");
            }
            return %d;
        };
        %good = $digests->();
        $n = 0;
        for my $rows ($quick ? (7) : (1, 7, 64, 4096)) {
            my ($s) = run(dir => $at, args => ['ctr-cat', '--batch', $rows, '-o', 'cut.arrows', $c->{main}]);
            for my $more (['--batch', 100], ['--batch', $rows]) {
                next if $c->{name} eq 'cat-of-file';
                $n++;
                $wrong = product($c, $at, 'file', $more, {}, 'cut.arrows');
                my %got = $wrong ? () : $digests->();
                for (sort keys %good) {
                    last if $wrong;
                    $wrong = "$c->{name}, batches of $rows, @$more: $_ has another digest: " . ($got{$_} // 'it is not there') if !defined $got{$_} || $got{$_} ne $good{$_};
                }
                push @bad, $wrong if $wrong;
            }
        }
        return [$n, @bad];
    });
    my ($n, @bad) = 0;
    for (@r) { my ($k, @b) = @$_; $n += $k; push @bad, @b; }
    return ("$n runs of " . @jobs . ' commands with batches cut otherwise: ' . ($n - @bad) . ' with the same digest', @bad);
};
1;
