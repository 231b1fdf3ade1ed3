# Line 13: commands under the limits of a process (setrlimit): files, descriptors, memory. Each comes to its good outputs or
# fails with a message that names the limit, and leaves nothing.
use strict;
use warnings;
use Fault;
use File::Path qw(remove_tree);

my $KEPT = qr{^out/(c|c\.scores|c\.delta\.\d+|spool)$};

# A run under prlimit(1): '' or what is wrong. Its words go through a pipe, which no limit of files is about.
sub limited {
    my ($c, $how, $at, $limit, $good, $says, %o) = @_;
    remove_tree("$at/out");
    mkdir "$at/out";
    my ($status, $signal) = run(dir => $at, args => ['sh', '-c', 'exec 3>&1; { prlimit "$@" 2>&1 >&3 3>&-; echo "status $?"; } | cat >said', 'sh', $limit, command_args($c, $how)],
        in => $how eq 'pipe' ? $c->{main} : '/dev/null', out => $how eq 'pipe' ? 'out/stdout' : '/dev/null');
    my $said = slurp("$at/said");
    my ($got) = $said =~ s/status (\d+)\n\z// ? $1 : 99;
    my $what = "$c->{name} ($how), $limit: ";
    return $what . outcome($status, $signal) if $signal || $status;
    my %files = %$good;
    if ($got == 0) {
        my $wrong = same_outputs($at, $good, whole => 1, except => qr{^out/stdout$});
        return $wrong ? "${what}exit 0, but $wrong" : '';
    }
    return "${what}status $got: $said" unless $got == 1 && $said =~ $says || $o{starts} && $said =~ $o{starts};
    my $wrong = same_outputs($at, $good, except => qr{^out/stdout$|$KEPT|^out/world/});
    return $wrong ? "$what$wrong" : '';
}

sub limit_line {
    my ($dir, $quick, $each, $rows, $limits, @more) = @_;
    inputs($dir, $rows);
    my @jobs = commands();
    @jobs = some_of($each, 2, @jobs) if $quick;
    my @r = spread(\@jobs, $dir, sub {
        my ($c, $at) = @_;
        remove_tree("$at/out");
        mkdir "$at/out";
        my ($status, $signal) = run(dir => $at, args => [command_args($c, 'file')]);
        return [0, "$c->{name}: without a limit: " . outcome($status, $signal) . ': ' . last_words($at)] if $signal || $status;
        my $good = { outputs($at) };
        my @wrong = map { limited($c, 'file', $at, $_, $good, @more) } $limits->($c, $good);
        return [scalar(@wrong), grep { $_ } @wrong];
    });
    my ($n, @bad) = 0;
    for (@r) { my ($k, @b) = @$_; $n += $k; push @bad, @b; }
    return ("$n runs of " . @jobs . ' commands: whole outputs, or a message and none: ' . ($n - @bad), @bad);
}

line '13a', 'a limit of the size of files', sub {
    my ($quick, $dir) = @_;
    return limit_line($dir, $quick, 12, 700, sub {
        my ($c, $good) = @_;
        my ($largest) = sort { $b <=> $a } map { length } values %$good;
        return map { '--fsize=' . random_of(40 + length $c->{name}, $_, $largest || 1) } 1 .. ($quick ? 2 : 12);
    }, qr/File too large/);
};

line '13b', 'a limit of descriptors', sub {
    my ($quick, $dir) = @_;
    local $ENV{ASAN_OPTIONS} = "$ENV{ASAN_OPTIONS}:detect_leaks=0"; # the search for leaks opens files
    return limit_line($dir, $quick, 12, 45, sub { map { "--nofile=$_" } $quick ? (4, 6, 9) : (3 .. 20) }, qr/Too many open files|Bad file descriptor|No file descriptors/,
        starts => qr/error while loading|cannot open shared|prlimit:/);
};

line '13c', 'a limit of memory', sub {
    my ($quick, $dir) = @_;
    return 'SKIP a sanitizer takes what it wants' if $SAN;
    return limit_line($dir, $quick, 12, 2000, sub { map { "--as=$_" } map { $_ << 20 } $quick ? (9, 40) : (4, 6, 8, 9, 10, 11, 12, 14, 16, 20, 24, 28, 32, 40, 48, 64, 80, 96, 128, 160, 192, 256) },
        qr/memory|allocate|thread|needs/i, starts => qr/error while loading|prlimit:|failed to map/);
};

line '13d', 'a small stack', sub {
    my ($quick, $dir) = @_;
    return 'SKIP a sanitizer takes what it wants' if $SAN;
    return limit_line($dir, $quick, 12, 700, sub { map { "--stack=$_" } map { $_ << 10 } $quick ? (192) : (96, 128, 192, 256, 512, 1024) }, qr/memory|thread|stack/i,
        starts => qr/Argument list too long/);
};
1;
