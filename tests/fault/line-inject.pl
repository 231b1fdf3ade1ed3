# Line 3: the N-th allocation and the N-th system call fail, for every N. A clean exit with a message, no leak (allocations
# and descriptors that are left are counted by the injection library itself), every output whole or absent, no temporary;
# EINTR and short counts change nothing.
use strict;
use warnings;
use Fault;
use File::Path qw(make_path remove_tree);

# What may be left by design: the checkpoint of a run that failed, and the spool that was named.
my $KEPT = qr{^out/(c|c\.scores|c\.delta\.\d+|spool)$};

# Where a failure changes nothing but speed, or only what the tool says less precisely.
my %HARMLESS = (THREAD => 1);

sub fresh { my $at = shift; remove_tree("$at/out", "$at/report"); mkdir "$at/out"; }

sub one_run {
    my ($c, $how, $at, $inject) = @_;
    fresh($at);
    return run(dir => $at, args => [command_args($c, $how)], $how eq 'pipe' && !$c->{file} ? (in => $c->{main}) : (),
        out => 'out/stdout', env => { LD_PRELOAD => $INJECT, CTR_INJECT_REPORT => 'report', $inject ? (CTR_INJECT => $inject) : () });
}

# One fault; '' or what is wrong with how the command took it.
sub judge {
    my ($c, $how, $at, $inject, $good, $base) = @_;
    my ($status, $signal) = one_run($c, $how, $at, $inject);
    my %r = report_of($at);
    my $what = "$c->{name} ($how), $inject: ";
    return $what . outcome($status, $signal) . ': ' . last_words($at) if $signal || !%r;
    return ['not reached'] unless $r{fired};
    if (!$SAN && $r{live} > $base->{live}) { return $what . ($r{live} - $base->{live}) . ' allocations leaked' }
    if ($r{fds} > $base->{fds}) { return $what . ($r{fds} - $base->{fds}) . ' descriptors leaked' }
    if ($inject =~ /EINTR|short/) {
        return $what . outcome($status, $signal) . ', though it changes nothing: ' . last_words($at) if $status != $good->{status};
        my $wrong = same_outputs($at, $good->{files}, whole => 1);
        return $wrong ? "$what$wrong" : '';
    }
    if ($status == $good->{status}) { # taken in stride: then the outputs must be whole
        my $wrong = same_outputs($at, $good->{files}, whole => 1, except => $inject =~ /^unlink/ ? $KEPT : undef);
        return $wrong ? $what . "exit $status, but $wrong" : '';
    }
    return "${what}exit $status: " . last_words($at) unless $status == 1 || ($c->{name} eq 'info-check' && $status == 3);
    return $what . 'no message' if last_words($at) eq '';
    my %other = %{ $good->{files} };
    my $stdout = delete $other{'out/stdout'};
    my $got = slurp("$at/out/stdout");
    my $wrong = same_outputs($at, \%other, except => qr{^out/stdout$|$KEPT|^out/world/});
    return "$what$wrong" if $wrong;
    # What went to stdout is a beginning of the good output, and never all of it with its trailer.
    return $what . 'stdout is whole though the command failed'
        if defined $stdout && length $stdout && $got eq $stdout && $inject !~ /^(close|dup|unlink)/ && $stdout =~ /ctr\.rows/;
    return '';
}

# A job is a command in one way with faults of one kind; every N, or a sample of at most `limit`.
sub inject_line {
    my ($dir, $quick, $limit, @faults) = @_;
    inputs($dir, 45);
    # The quick part takes a command one way in the plain build, and the other way under the sanitizers.
    my @jobs = map {
        my $c = $_;
        my @ways = $c->{own} || $c->{file} ? 'file' : qw(file pipe);
        map { [$c, $_] } $quick && @ways > 1 ? $ways[(length($c->{name}) + $SAN) % 2] : @ways;
    } commands();
    my @r = spread(\@jobs, $dir, sub {
        my ($c, $how) = @{ $_[0] };
        my $at = $_[1];
        my ($status, $signal) = one_run($c, $how, $at);
        return { n => 0, bad => ["$c->{name}: without a fault: " . outcome($status, $signal) . ': ' . last_words($at)] } if $signal || $status;
        my %base = report_of($at);
        my $good = { status => $status, files => { outputs($at) } };
        my ($n, @bad) = 0;
        for my $f (some_of($quick && $SAN ? 2 : 1, length $c->{name}, @faults)) {
            my ($kind, @actions) = @$f;
            my $calls = $base{$kind};
            my $step = $quick && $calls > $limit ? $calls / $limit : 1;
            for (my $x = 1; $x <= $calls; $x += $step) {
                my $i = int $x;
                $i = 1 + random_of(7, $i, $calls) if $step > 1;
                for my $action ($quick ? $actions[$i % @actions] : @actions) {
                    my $plus = $action =~ s/\+$// ? '+' : '';
                    my $wrong = judge($c, $how, $at, "$kind:$i$plus:$action", $good, \%base);
                    next if ref $wrong;
                    $n++;
                    push @bad, $wrong if $wrong;
                }
            }
        }
        return { n => $n, bad => \@bad };
    });
    my $n = 0;
    $n += $_->{n} for @r;
    return ($n, scalar(@jobs), map { @{ $_->{bad} } } @r);
}

line '3a', 'the N-th allocation fails', sub {
    my ($quick, $dir) = @_;
    return 'SKIP a sanitizer has its own allocator' if $SAN;
    my ($n, $jobs, @bad) = inject_line($dir, $quick, 6, ['alloc', 'ENOMEM']);
    return ("$n faults in $jobs commands, " . ($quick ? 'a sample of' : 'every') . ' N: ' . ($n - @bad) . ' clean', @bad);
};

line '3b', 'the N-th system call fails', sub {
    my ($quick, $dir) = @_;
    my ($n, $jobs, @bad) = inject_line($dir, $quick, $SAN ? 1 : 2, ['read', 'EIO', 'EINTR', 'short'], ['write', 'ENOSPC', 'EINTR', 'short', 'EIO', 'ENOSPC+'],
        ['fsync', 'EIO', 'EINTR', 'ENOSPC'], ['rename', 'ENOSPC', 'EIO'], ['close', 'EIO', 'EINTR'], ['open', 'EMFILE', 'EIO', 'EINTR'],
        ['mmap', 'ENOMEM', 'ENOMEM+'], ['truncate', 'EIO', 'EINTR'], ['seek', 'EIO'], ['stat', 'EIO'], ['thread', 'EAGAIN'], ['dup', 'EMFILE'],
        ['unlink', 'EIO'], ['mkdir', 'ENOSPC'], ['chmod', 'EACCES'], ['poll', 'EINTR']);
    return ("$n faults in $jobs commands, " . ($quick ? 'a sample of' : 'every') . ' N: ' . ($n - @bad) . ' clean', @bad);
};
1;
