# Line 15: standard input and output that do not block (another program that shares them may want it so), a writer of
# one byte at a time, a reader that is slow: the same bytes.
use strict;
use warnings;
use Fault;
use Fcntl;
use File::Path qw(remove_tree);

# Feeds FILE to a pipe in pieces, with pauses so that the reader meets an empty one; returns its end.
sub feed {
    my ($file, $piece) = @_;
    pipe my $r, my $w or die "pipe: $!\n";
    if (!fork) {
        close $r;
        my $bytes = slurp($file);
        my $n = 0;
        for (my $i = 0; $i < length $bytes; $i += $piece) {
            syswrite $w, substr $bytes, $i, $piece or last;
            select undef, undef, undef, 0.005 if $n++ < 20;
        }
        POSIX::_exit(0);
    }
    return $r;
}

# A pipe whose reader takes pieces, slowly, into FILE; returns the writer's end and the reader's process.
sub drain {
    my ($file, $piece) = @_;
    pipe my $r, my $w or die "pipe: $!\n";
    my $pid = fork;
    if (!$pid) {
        close $w;
        open my $f, '>:raw', $file or POSIX::_exit(1);
        my $n = 0;
        while (sysread $r, my $got, $piece) {
            print $f $got;
            select undef, undef, undef, 0.005 if $n++ < 20;
        }
        close $f or POSIX::_exit(1);
        POSIX::_exit(0);
    }
    return ($w, $pid);
}

sub never_waits { fcntl $_[0], F_SETFL, O_NONBLOCK | fcntl $_[0], F_GETFL, 0 }

line '15', 'slow and non-blocking pipes', sub {
    my ($quick, $dir) = @_;
    inputs($dir, $quick ? 300 : 1500, batch => 100);
    my @jobs = commands(sub { !$_[0]{own} && !$_[0]{file} });
    @jobs = some_of($SAN ? 12 : 6, 1, @jobs) if $quick;
    my @r = spread(\@jobs, $dir, sub {
        my ($c, $at) = @_;
        remove_tree("$at/out");
        mkdir "$at/out";
        my ($status, $signal) = run(dir => $at, args => [command_args($c, 'pipe')], in => $c->{main}, out => 'out/stdout');
        return [0, "$c->{name}: from a file: " . outcome($status, $signal) . ': ' . last_words($at)] if $signal || $status;
        my $good = slurp("$at/out/stdout");
        my ($n, @bad) = 0;
        for (['bytes one by one', 1, 1 << 16, 0], ['pipes that do not block', 5000, 3000, 1], ['a slow reader', 1 << 16, 700, 1]) {
            my ($what, $in_piece, $out_piece, $never_waits) = @$_;
            my $in = feed("$at/$c->{main}", $in_piece);
            my ($out, $reader) = drain("$at/out/stdout", $out_piece);
            if ($never_waits) { never_waits($_) for $in, $out }
            ($status, $signal) = run(dir => $at, args => [command_args($c, 'pipe')], in => $in, out => $out);
            close $in;
            close $out;
            waitpid $reader, 0;
            $n++;
            push @bad, "$c->{name}, $what: " . outcome($status, $signal) . ': ' . last_words($at) if $signal || $status;
            push @bad, "$c->{name}, $what: other bytes" if !$signal && !$status && slurp("$at/out/stdout") ne $good;
        }
        1 while waitpid(-1, POSIX::WNOHANG()) > 0;
        return [$n, @bad];
    });
    my ($n, @bad) = 0;
    for (@r) { my ($k, @b) = @$_; $n += $k; push @bad, @b; }
    return ("$n runs of " . @jobs . ' filters: the same bytes: ' . ($n - @bad), @bad);
};
1;
