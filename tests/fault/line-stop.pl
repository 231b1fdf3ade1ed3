# Line 14: SIGTERM before and after each system call of every command: it ends, by the signal or with a message, and leaves
# nothing but whole outputs and what --resume needs; with a checkpoint, it goes on to the good outputs.
use strict;
use warnings;
use Fault;
use File::Path qw(remove_tree);

my $KEPT = qr{^out/(c|c\.scores|c\.delta\.\d+|spool)$};

sub stopped {
    my ($c, $at, $inject, $good) = @_;
    my @args = command_args($c, 'file');
    remove_tree("$at/out", "$at/report");
    mkdir "$at/out";
    my ($status, $signal) = run(dir => $at, args => \@args, env => { LD_PRELOAD => $INJECT, CTR_INJECT => $inject });
    my $what = "$c->{name}, $inject: ";
    my $said = last_words($at);
    return $what . outcome($status, $signal) . ": $said" unless $signal == 15 || defined $status && ($status == 0 || $status == 1 && $said ne '');
    my $wrong = same_outputs($at, $good, whole => defined $status && $status == 0, except => qr{$KEPT|^out/world/});
    return "$what$wrong" if $wrong;
    return '' unless grep { $_ eq '--resume' } @args;
    ($status, $signal) = run(dir => $at, args => \@args);
    return "${what}resuming: " . outcome($status, $signal) . ': ' . last_words($at) if $status || $signal;
    $wrong = same_outputs($at, $good, whole => 1);
    return $wrong ? "${what}resumed, $wrong" : '';
}

line '14', 'SIGTERM at each system call', sub {
    my ($quick, $dir) = @_;
    inputs($dir, 45);
    my @jobs = commands();
    @jobs = some_of($SAN ? 12 : 6, 3, @jobs) if $quick;
    my @r = spread(\@jobs, $dir, sub {
        my ($c, $at) = @_;
        remove_tree("$at/out", "$at/report");
        mkdir "$at/out";
        my ($status, $signal) = run(dir => $at, args => [command_args($c, 'file')], env => { LD_PRELOAD => $INJECT, CTR_INJECT_REPORT => 'report' });
        return [0, "$c->{name}: without a signal: " . outcome($status, $signal) . ': ' . last_words($at)] if $signal || $status;
        my %calls = report_of($at);
        my $good = { outputs($at) };
        my ($n, @bad) = 0;
        for my $kind (qw(open write fsync close rename unlink read mmap chmod mkdir)) {
            my $step = $quick && $calls{$kind} > 2 ? $calls{$kind} / 2 : 1;
            for (my $x = 1; $x <= $calls{$kind}; $x += $step) {
                for my $action ($quick ? ('term', 'termed')[$x % 2] : qw(term termed)) {
                    $n++;
                    my $wrong = stopped($c, $at, sprintf('%s:%d:%s', $kind, $x, $action), $good);
                    push @bad, $wrong if $wrong;
                }
            }
        }
        return [$n, @bad];
    });
    my ($n, @bad) = 0;
    for (@r) { my ($k, @b) = @$_; $n += $k; push @bad, @b; }
    return ("$n signals in " . @jobs . ' commands: outputs whole or absent, nothing left, resumed to the good ones: ' . ($n - @bad), @bad);
};
1;
