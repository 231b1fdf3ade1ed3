# Line 7: training that is killed at any moment goes on with --resume to the bytes of a run that was never killed; a full disk
# while a checkpoint is saved leaves the old one whole.
use strict;
use warnings;
use Fault;
use File::Path qw(remove_tree);

my @TRAIN = qw(ctr-train lr -q --l1 0.1 --passes 2 --checkpoint out/c --checkpoint-every 200 --resume --progressive out/scores -o out/main feat.arrows);

sub train {
    my ($at, %o) = @_;
    return run(dir => $at, args => \@TRAIN, %o);
}

sub start_anew { my $at = shift; remove_tree("$at/out", "$at/report"); mkdir "$at/out"; }

# Runs to the end and compares: '' or what is wrong.
sub resumed {
    my ($at, $good) = @_;
    my ($status, $signal) = train($at);
    return 'resuming: ' . outcome($status, $signal) . ': ' . last_words($at) if $status || $signal;
    return same_outputs($at, $good, whole => 1, except => qr{\.tmp\.\w{6}$}); # those of a killed run stay
}

sub never_killed {
    my ($at) = @_;
    start_anew($at);
    my ($status) = train($at, env => { LD_PRELOAD => $INJECT, CTR_INJECT_REPORT => 'report' });
    die 'training fails: ' . last_words($at) . "\n" if $status;
    my %calls = report_of($at);
    return ({ outputs($at) }, \%calls);
}

line '7a', 'kill -9 of training at random moments', sub {
    my ($quick, $dir) = @_;
    inputs($dir, $quick ? ($SAN ? 700 : 2000) : 20000, batch => 100);
    my $kills = $quick ? 6 : 100;
    my @jobs = (1 .. $kills);
    my @r = spread(\@jobs, $dir, sub {
        my ($i, $at) = @_;
        my ($good) = never_killed($at) unless -e "$at/.good";
        if ($good) { Storable::store($good, "$at/.good") } else { $good = Storable::retrieve("$at/.good") }
        start_anew($at);
        my ($killed, $signal) = (0, 9);
        for my $try (1 .. 3) { # up to three kills of one run
            my $wait = random_of(20 + $try, $i, $quick ? 30000 : 120000) / 1e6;
            my $pid = fork;
            if (!$pid) {
                POSIX::setsid();
                (undef, $signal) = train($at, setup => sub { my $me = $$; if (!fork) { select undef, undef, undef, $wait; kill 9, $me; POSIX::_exit(0) } });
                POSIX::_exit($signal == 9 ? 9 : 0);
            }
            waitpid $pid, 0;
            $killed++ if $? >> 8 == 9;
        }
        my $wrong = resumed($at, $good);
        return [$killed, $wrong ? "run $i, killed $killed times: $wrong" : ''];
    });
    my $n = 0;
    $n += $_->[0] for @r;
    my @bad = grep { $_ } map { $_->[1] } @r;
    push @bad, 'no run was killed' unless $n;
    return ("$n kills of " . @jobs . ' runs; after --resume model and predictions are those of a run that was never killed: ' . (@jobs - @bad), @bad);
};

line '7b', 'kill -9 at each system call', sub {
    my ($quick, $dir) = @_;
    inputs($dir, 700, batch => 100);
    my @kinds = qw(read write fsync rename close open mmap truncate unlink chmod seek);
    my @jobs = map { my $k = $_; map { [$k, $_] } qw(kill killed) } @kinds;
    my @r = spread(\@jobs, $dir, sub {
        my ($kind, $action) = @{ $_[0] };
        my $at = $_[1];
        my ($good, $calls) = never_killed($at);
        my ($n, @bad) = 0;
        for (my $i = 1; $i <= $calls->{$kind}; $i += $quick ? 1 + int($calls->{$kind} / 2) : 1) {
            start_anew($at);
            my ($status, $signal) = train($at, env => { LD_PRELOAD => $INJECT, CTR_INJECT => "$kind:$i:$action" });
            $n++;
            if ($signal != 9) { push @bad, "$kind:$i:$action: not killed: " . outcome($status, $signal); next }
            my $wrong = resumed($at, $good);
            push @bad, "$kind:$i:$action: $wrong" if $wrong;
        }
        return [$n, @bad];
    });
    my ($n, @bad) = 0;
    for (@r) { my ($k, @b) = @$_; $n += $k; push @bad, @b; }
    return ("$n kills before and after " . ($quick ? 'a sample of the' : 'every') . ' system calls of a run; resumed to the same bytes: ' . ($n - @bad), @bad);
};

line '7c', 'full disk while saving a checkpoint', sub {
    my ($quick, $dir) = @_;
    inputs($dir, 700, batch => 100);
    my @jobs = map { my $k = $_; map { [$k, $_] } 0 .. 1 } qw(write fsync rename close open);
    my @r = spread(\@jobs, $dir, sub {
        my ($kind, $half) = @{ $_[0] };
        my $at = $_[1];
        my ($good, $calls) = never_killed($at);
        my ($n, $kept, @bad) = (0, 0);
        for (my $i = 1 + $half; $i <= $calls->{$kind}; $i += $quick && $kind ne 'fsync' ? 6 : 2) {
            start_anew($at);
            my ($status, $signal) = train($at, env => { LD_PRELOAD => $INJECT, CTR_INJECT => "$kind:$i+:ENOSPC" });
            $n++;
            next if !$signal && !$status && !same_outputs($at, $good, whole => 1); # what failed was not about an output
            if ($signal || $status != 1) { push @bad, "$kind:$i+:ENOSPC: " . outcome($status, $signal); next }
            if (-e "$at/out/c") { # a checkpoint that is there is whole: it predicts
                ($status) = run(dir => $at, args => ['ctr-predict', 'out/c', 'feat.arrows']);
                push @bad, "$kind:$i+:ENOSPC: the checkpoint is damaged: " . last_words($at) if $status;
                $kept++;
            }
            my $wrong = resumed($at, $good);
            push @bad, "$kind:$i+:ENOSPC: $wrong" if $wrong;
        }
        return [$n, $kept, @bad];
    });
    my ($n, $kept, @bad) = (0, 0);
    for (@r) { my ($k, $c, @b) = @$_; $n += $k; $kept += $c; push @bad, @b; }
    return ("$n moments; the old checkpoint whole in $kept of $kept that had one, resumed to the same bytes in " . ($n - @bad), @bad);
};
1;
