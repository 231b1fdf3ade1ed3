# Line 1: every output that a command names, at a place where it cannot be; and a FIFO whose reader goes away.
use strict;
use warnings;
use Fault;
use File::Path qw(remove_tree);
use POSIX ();

# What may stay when a run fails: what --resume needs, and the spool that was named.
my $KEPT = qr{^out/(c|c\.scores|c\.delta\.\d+|spool)$};

# Places, and what the message names.
my @PLACES = (
    ['/dev/full',       qr/No space left on device/],
    ['/dev/fd/9',       qr/Bad file descriptor/],
    ['none/there',      qr/No such file or directory/],
    ['log.csv/there',   qr/Not a directory/],
    ['.',               qr/Is a directory/],
    ['sealed/there',    qr/Permission denied/],
    ['x' x 255 . '/x',  qr/No such file or directory/],
    ['x' x 256,         qr/File name too long/],
);

# Pairs of a command and the position of an output among its arguments.
sub output_options {
    my @all;
    for my $c (commands()) {
        my @args = command_args($c, 'file');
        push @all, map { [$c, $_] } grep { $args[$_] =~ m{(?:^|=)out/} } 0 .. $#args;
    }
    return @all;
}

sub prepare {
    my ($at) = @_;
    remove_tree("$at/out");
    mkdir "$at/out";
    unlink "$at/fifo";
    return if -d "$at/sealed";
    mkdir "$at/sealed";
    chmod 0555, "$at/sealed";
    chmod 0777, $at;
}

# Root may write anywhere: a run about permissions lacks that right. It stays root, which may read the clone wherever it lies.
my @MORTAL = $> ? () : ('setpriv', '--bounding-set', '-dac_override,-dac_read_search');

line '1c', 'outputs where they cannot be', sub {
    my ($quick, $dir) = @_;
    inputs($dir, 45);
    my @jobs = map { my $o = $_; map { [@$o, $_] } @PLACES } output_options();
    @jobs = some_of($SAN ? 14 : 7, 3, @jobs) if $quick;
    my @r = spread(\@jobs, $dir, sub {
        my ($c, $i, $place) = @{ $_[0] };
        my $at = $_[1];
        my ($path, $want) = @$place;
        prepare($at);
        run(dir => $at, args => [command_args($c, 'file')]);
        my $good = { outputs($at) };
        prepare($at);
        my @args = command_args($c, 'file');
        my $many = $args[$i] =~ /%/ || $c->{name} =~ /^synth/; # a folder
        return undef if $many && $path !~ m{/there} || $args[$i] eq 'out/saved' && $path =~ m{^/dev|^\.$}; # refused: no file
        return undef if $c->{name} eq 'serve-check' && $path =~ m{^/dev}; # --check opens no log
        my $option = $args[$i - 1];
        $args[$i] =~ s{out/.*?(?=%|$)}{$path};
        my ($status, $signal) = run(dir => $at, args => [$path =~ /sealed/ ? @MORTAL : (), @args]);
        # A checkpoint may not be there yet, unless it is one.
        $want = qr/$want|is no checkpoint|is a directory|is not an Arrow stream|cannot be kept/ if $option eq '--checkpoint';
        my $what = "$c->{name}, $option " . substr($path, 0, 20) . ': ';
        my $said = slurp("$at/err");
        return $what . outcome($status, $signal) . ': ' . last_words($at) if $signal || ($status != 1 && $status != 2) || $said !~ $want;
        my $wrong = same_outputs($at, $good, except => $KEPT); # one that was whole before the product failed may be there
        return $wrong ? "$what$wrong" : '';
    });
    my @ran = grep { defined } @r;
    return (scalar(@ran) . ' runs: each failed, named the errno and left no part of an output', grep { $_ } @ran);
};

line '1d', 'vanished readers of outputs', sub {
    my ($quick, $dir) = @_;
    inputs($dir, 3000, batch => 100);
    my @jobs = grep { my @a = command_args($_->[0], 'file'); $a[$_->[1] - 1] ne '--checkpoint' && $a[$_->[1]] !~ /%|saved/ && $_->[0]{name} !~ /^synth/ } output_options();
    @jobs = some_of($SAN ? 16 : 8, 2, @jobs) if $quick;
    my @bad = grep { $_ } spread(\@jobs, $dir, sub {
        my ($c, $i) = @{ $_[0] };
        my $at = $_[1];
        prepare($at);
        run(dir => $at, args => [command_args($c, 'file')]);
        my $good = { outputs($at) };
        prepare($at);
        POSIX::mkfifo("$at/fifo", 0600) or die "fifo: $!\n";
        my $reader = fork;
        if (!$reader) { open my $f, '<', "$at/fifo"; POSIX::_exit(0) } # gone as soon as it is there
        my @args = command_args($c, 'file');
        $args[$i] =~ s{out/.*}{fifo};
        my ($status, $signal) = run(dir => $at, args => \@args);
        kill 9, $reader;
        waitpid $reader, 0;
        my $what = "$c->{name}, $args[$i - 1] fifo: ";
        my $small = length($good->{ (command_args($c, 'file'))[$i] =~ s/.*?=//r } // '') <= 1 << 19; # the pipe may have taken it
        return $what . outcome($status, $signal) . ': ' . last_words($at) if $signal != 13 && !($small && !$signal && !$status) || slurp("$at/err") =~ /write failed|Broken pipe/;
        my $wrong = $signal && same_outputs($at, $good, except => $KEPT);
        return $wrong ? "$what$wrong" : '';
    });
    return (scalar(@jobs) . ' outputs: SIGPIPE, silent, no part of another output: ' . (@jobs - @bad), @bad);
};

# What a command reads, by three names: as it is, another spelling, a hard link; and its other outputs by another spelling.
sub taken_names {
    my ($c, $i, $at) = @_;
    my @args = command_args($c, 'file');
    my @read = grep { -f "$at/$_" } grep { !/^-/ } @args[1 .. $#args];
    my @written = map { s/.*?=//r } grep { m{(?:^|=)out/} && $_ ne $args[$i] && !/%/ } @args;
    return ((map { ($_, "./$_", "out/hard/$_") } @read), map { "out/../$_" } @written);
}

line '1e', 'outputs that are inputs or other outputs', sub {
    my ($quick, $dir) = @_;
    inputs($dir, 45);
    my @jobs = grep { my @a = command_args($_->[0], 'file'); $a[$_->[1]] !~ /%/ && $_->[0]{name} !~ /^synth/ } output_options();
    @jobs = some_of($SAN ? 16 : 8, 2, @jobs) if $quick;
    my @r = spread(\@jobs, $dir, sub {
        my ($c, $i) = @{ $_[0] };
        my $at = $_[1];
        my ($n, @bad) = 0;
        prepare($at);
        for my $name (taken_names($c, $i, $at)) {
            prepare($at);
            my @args = command_args($c, 'file');
            my ($file) = $name =~ m{^out/hard/(.*)|^\./(.*)} ? $1 // $2 : $name;
            my $before = slurp("$at/$file");
            if ($name =~ /hard/) { mkdir "$at/out/hard"; link "$at/$file", "$at/$name" or die "$name: $!\n" }
            $args[$i] =~ s{out/.*}{$name};
            my ($status, $signal) = run(dir => $at, args => \@args);
            $n++;
            my $what = "$c->{name}, $args[$i - 1] $name: ";
            push @bad, $what . outcome($status, $signal) . ': ' . last_words($at) if $signal || $status != 2;
            next unless defined $before && slurp("$at/$file") ne $before;
            push @bad, "$what$file was changed";
            spew("$at/$file", $before);
        }
        return [$n, @bad];
    });
    my ($n, @bad) = 0;
    for (@r) { my ($k, @b) = @$_; $n += $k; push @bad, @b; }
    return ("$n outputs by the name of an input or another output: refused, and nothing is changed: " . ($n - @bad), @bad);
};
1;
