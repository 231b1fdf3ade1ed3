# Line 1: outputs that are full or closed, an input that is closed, a reader that is gone.
use strict;
use warnings;
use Fault;

line '1a', 'full and closed stdio', sub {
    my ($quick, $dir) = @_;
    inputs($dir, 45);
    my @jobs = map { my $c = $_; map { [$c, $_] } qw(full closed_out closed_in) } commands(sub { !$_[0]{own} });
    @jobs = @jobs[grep { $_ % 3 == int($_ / 3) % 3 } 0 .. $#jobs] if $quick && $SAN; # each command one way
    my @r = spread(\@jobs, $dir, sub {
        my ($c, $what) = @{ $_[0] };
        my $at = $_[1];
        return undef if $c->{ $what eq 'closed_in' ? 'file' : 'quiet' };
        my $want = $what eq 'full' ? qr/No space left on device/ : qr/Bad file descriptor/;
        my ($status, $signal);
        for (1 .. 3) { # a hanging command hangs each time, a stalled machine does not
            ($status, $signal) = run(dir => $at, args => [command_args($c, 'pipe')], in => $c->{main}, limit => $SAN ? 60 : 10,
                out => $what eq 'full' ? '/dev/full' : '/dev/null', closed => $what eq 'closed_out' ? [1] : $what eq 'closed_in' ? [0] : []);
            last if $signal != POSIX::SIGALRM;
        }
        return '' if !$signal && $status == ($c->{name} eq 'info-check' ? 3 : 1) && last_words($at) =~ $want;
        return '' if !$signal && $status == 1 && last_words($at) =~ $want;
        return "$c->{name}, $what: " . outcome($status, $signal) . ': ' . last_words($at);
    });
    my @ran = grep { defined } @r;
    return (scalar(@ran) . ' runs: each ended within 10 s, not 0, with the errno named', grep { $_ } @ran);
};

line '1b', 'vanished reader', sub {
    my ($quick, $dir) = @_;
    my $rows = $quick ? ($SAN ? 4000 : 20000) : 100000;
    inputs($dir, $rows, batch => 1000);
    my @jobs = commands(sub { $_[0]{pipe} });
    my @r = spread(\@jobs, $dir, sub {
        my ($c, $at) = @_;
        pipe my $reader, my $writer or die "pipe: $!\n";
        close $reader;
        open my $in, '<', "$at/$c->{main}" or die "$c->{main}: $!\n";
        my @args = command_args($c, 'pipe');
        splice @args, 1, 0, '--batch', 1000;
        my ($status, $signal) = run(dir => $at, args => \@args, in => $in, out => $writer);
        my $read = sysseek $in, 0, 1;
        my $said = last_words($at);
        return [$c->{name}, "$c->{name}: " . outcome($status, $signal) . ": $said"] if $signal != 13 || $said ne '';
        return [$c->{name}, '', $read, -s $in];
    });
    my ($most, $who) = (0, '');
    for (@r) { ($most, $who) = ($_->[2], $_->[0]) if defined $_->[2] && $_->[2] > $most && $_->[3] > 1 << 20; }
    my @long = map { "$_->[0]: read $_->[2] of $_->[3] bytes after its reader had gone" } grep { defined $_->[2] && $_->[3] > 4 << 20 && $_->[2] > $_->[3] / 2 } @r;
    return (scalar(@r) . " filters: SIGPIPE, silent; the most that one read was $most bytes ($who)", @long, grep { $_ } map { $_->[1] } @r);
};
1;
