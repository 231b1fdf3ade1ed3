# Line 17: training over ranks (mpirun), each kind of it by turns (NAMES='^lr' picks some). A rank, which varies too, is killed, at random moments or at a system call of a checkpoint; its disk is full; its
# memory runs out; its input is damaged. All ranks end within 30 seconds, not well and with a message; no model is written, the last
# checkpoint is whole, and the run goes on from it to the bytes of a run that nothing happened to.
use strict;
use warnings;
use Fault;
use File::Path qw(remove_tree);
use Time::HiRes qw(time sleep);

my $RANKS = 3;
my @MPIRUN = qw(mpirun --oversubscribe); # with its own words: of a rank that was killed it alone can tell
my @MLP = qw(mlp --embedding 4 --hidden 4);
my @DICM = qw(dicm --images users.vec --missing-image zero --images-pool attentive --attention-hidden 3 --embedding 3 --hidden 4 --images-tower 3);
my @KINDS = ( # name, the prefix of its shards, what is trained
    ['mlp',         's', @MLP, qw(--progressive out/p-%d)],
    ['lr',          's', qw(lr --l1 .1 --progressive out/p-%d)],
    ['dicm-ams',    'f', @DICM, qw(--images-at ams)],
    ['dicm-server', 'f', @DICM, qw(--images-at server)],
    ['deltas',      's', @MLP, qw(--l2 .01 --checkpoint-deltas 2)],
    ['spill',       's', @MLP, qw(--l2 .01 --memory 2500K --spill . --prefetch 1)],
);
my %INPUT = (s => 'feat.arrows', f => 'faces.arrows');
@KINDS = grep { !$ENV{NAMES} || $_->[0] =~ /$ENV{NAMES}/ } @KINDS;
my ($kind, @train, @shards); # of the job at hand
sub pick {
    my ($i) = @_;
    my ($name, $prefix, @what) = @{ $KINDS[$i % @KINDS] };
    $kind = { name => $name, input => $INPUT{$prefix}, predict => [$prefix eq 'f' ? qw(--images users.vec) : ()] };
    @train = ('ctr-train', @what, qw(-q --minibatch 50 --passes 2 --checkpoint out/c --checkpoint-every 300 --resume -o out/main));
    @shards = map { "$prefix$_.arrows" } 0 .. $RANKS - 1;
}
$ENV{$_} = 1 for qw(OMPI_ALLOW_RUN_AS_ROOT OMPI_ALLOW_RUN_AS_ROOT_CONFIRM);
$ENV{OMPI_MCA_btl_vader_single_copy_mechanism} = 'none';

# Where one rank fails, mpirun itself may hang after all ranks have ended (PMIx_server_finalize of Open MPI 4.1.4): then it is killed.
sub watch {
    my $mpirun = $$;
    return if fork;
    my ($idle, $began) = (0, time);
    while (kill 0, $mpirun) {
        sleep .5;
        my $alive = grep { /\S/ } split /\n/, `ps -eo ppid=,stat=,comm= | awk '\$1 == $mpirun && \$2 !~ /^Z/ && \$3 ~ /^ctr-train/'`;
        $idle = $alive || time - $began < 5 ? 0 : $idle + .5;
        kill 9, $mpirun if $idle >= 8 || time - $began > 80;
    }
    POSIX::_exit(0);
}

# Of all ranks; that of rank `at` (all without it) under env, of whose values %d is the rank, or behind a command `before`.
sub ranks {
    my ($dir, %o) = @_;
    my @all = @MPIRUN;
    my @before = $o{env} ? ('env', map { "$_=$o{env}{$_}" } sort keys %{ $o{env} }) : @{ $o{before} || [] };
    for my $r (0 .. $RANKS - 1) {
        push @all, ':' if $r;
        push @all, '-n', 1, (!defined $o{at} || $r == $o{at} ? map { s/%d/$r/r } @before : ()), @train, @{ $o{files} || \@shards };
    }
    my $began = time;
    my ($status, $signal) = run(dir => $dir, args => \@all, limit => 0, setup => sub { watch(); $o{setup}->() if $o{setup} });
    return ($status, $signal, time - $began);
}

sub no_mpirun {
    return 'SKIP no MPI under the sanitizers' if $SAN;
    return 'SKIP a build without Open MPI' unless -e "$BUILD/lib/ctr/ctr-mpi.so";
    return 'SKIP mpirun starts no processes here' if system "timeout 60 @MPIRUN -n 2 true >/dev/null 2>&1 </dev/null";
    return @KINDS ? '' : "SKIP no kind of training over ranks is called $ENV{NAMES}";
}

sub clear { my $at = shift; remove_tree("$at/out", "$at/report"); mkdir "$at/out"; }

sub never_disturbed {
    my ($at) = @_;
    my $kept = "$at/.good-$kind->{name}";
    return Storable::retrieve($kept) if -e $kept;
    my $prefix = substr $shards[0], 0, 1;
    system("cd $at && ctr-split -q --shards $RANKS -o '$prefix%d.arrows' $kind->{input}") == 0 or die "ctr-split fails\n";
    clear($at);
    my ($status) = ranks($at, env => { LD_PRELOAD => $INJECT, CTR_INJECT_REPORT => 'report-%d' });
    die "training $kind->{name} fails: " . last_words($at) . "\n" if $status;
    my @calls;
    for my $r (0 .. $RANKS - 1) {
        rename "$at/report-$r", "$at/report";
        push @calls, { report_of($at) };
    }
    my $good = { outputs => { outputs($at) }, calls => \@calls };
    Storable::store($good, $kept);
    return $good;
}

# What is wrong after a fault: ''. `may_be_good`: the fault may have hit nothing that matters.
sub ended {
    my ($at, $good, $status, $signal, $took, %o) = @_;
    return 'ends after ' . int($took) . ' s' if $took > 30;
    if (!$signal && defined $status && $status == 0) {
        return $o{may_be_good} ? same_outputs($at, $good->{outputs}, whole => 1) : 'ends well';
    }
    return 'no message' unless length slurp("$at/err");
    return 'a model is there, and another one' if -e "$at/out/main" && slurp("$at/out/main") ne $good->{outputs}{'out/main'}; # killed at the very end
    if (-e "$at/out/c") {
        my ($s) = run(dir => $at, args => ['ctr-predict', @{ $kind->{predict} }, 'out/c', $kind->{input}], err => 'err.check');
        return 'the checkpoint is damaged: ' . slurp("$at/err.check") if $s;
    }
    ($status, $signal) = ranks($at);
    return 'resuming: ' . outcome($status, $signal) . ': ' . last_words($at) if $status || $signal;
    return same_outputs($at, $good->{outputs}, whole => 1, except => qr{\.tmp\.\w{6}$});
}

sub counted {
    my ($what, @r) = @_;
    my @bad = grep { $_ } @r;
    return (scalar(@r) . " $what; all ranks ended within 30 s and the run went on to the same bytes: " . (@r - @bad), @bad);
}

line '17a', 'kill -9 of a rank at random moments', sub {
    my ($quick, $dir) = @_;
    my $skip = no_mpirun();
    return $skip if $skip;
    inputs($dir, 2000, batch => 50);
    my @jobs = (1 .. ($quick ? 1 : 60));
    return counted('runs of which a rank was killed', spread(\@jobs, $dir, sub {
        my ($i, $at) = @_;
        pick($i);
        my $good = never_disturbed($at);
        clear($at);
        my $wait = .2 + random_of(31, $i, 1_500_000) / 1e6;
        my @r = ranks($at, setup => sub {
            my $mpirun = $$;
            return if fork;
            sleep $wait;
            my @ranks = grep { $_ } split /\s+/, `ps -eo pid=,ppid=,comm= | awk '\$2 == $mpirun && \$3 ~ /^ctr-train/ { print \$1 }'`;
            kill 9, $ranks[random_of(32, $i, scalar @ranks)] if @ranks;
            POSIX::_exit(0);
        });
        my $wrong = ended($at, $good, @r, may_be_good => 1);
        return $wrong && "$kind->{name}: run $i, after $wait s: $wrong";
    }));
};

line '17b', 'a rank at each system call of a checkpoint', sub {
    my ($quick, $dir) = @_;
    my $skip = no_mpirun();
    return $skip if $skip;
    inputs($dir, 2000, batch => 50);
    my @jobs = map { my $k = $_; map { [$k, $_] } qw(kill killed) } qw(fsync rename write close);
    push @jobs, map { [$_, 'ENOSPC'] } qw(fsync rename); # MPI writes, to more than files: write and close are left to the limit
    my @faults = map { my $i = $_; map { [$i, @$_] } @jobs } 0 .. $#KINDS;
    @faults = ([0, 'rename', 'kill']) if $quick;
    my ($n, @bad) = 0;
    for (spread(\@faults, $dir, sub {
        my ($k, $call, $action) = @{ $_[0] };
        my $at = $_[1];
        pick($k);
        my $good = never_disturbed($at);
        my ($n, @bad) = 0;
        for my $r (0 .. ($quick ? 0 : $RANKS - 1)) {
            my $calls = $good->{calls}[$r]{$call} || 0;
            my $step = 1 + int($calls / ($quick ? 1 : $r ? 2 : 4));
            for (my $i = 1 + random_of(37, $n, $quick ? 1 : $step); $i <= $calls; $i += $step) {
                clear($at);
                my $fault = "$call:$i" . ($action eq 'ENOSPC' ? '+' : '') . ":$action";
                my $wrong = ended($at, $good, ranks($at, at => $r, env => { LD_PRELOAD => $INJECT, CTR_INJECT => $fault }), may_be_good => 1);
                push @bad, "$kind->{name}: rank $r: $fault: $wrong" if $wrong;
                $n++;
            }
        }
        return [$n, @bad];
    })) { my ($k, @b) = @$_; $n += $k; push @bad, @b; }
    return ("$n kills and full disks of a rank; all ranks ended within 30 s and the run went on to the same bytes: " . ($n - @bad), @bad);
};

line '17f', 'a limit of the size of files on one rank', sub {
    my ($quick, $dir) = @_;
    my $skip = no_mpirun();
    return $skip if $skip;
    return 'SKIP no prlimit' if system 'command -v prlimit >/dev/null';
    inputs($dir, 2000, batch => 50);
    my @jobs = (1 .. ($quick ? 1 : 30));
    return counted('limits of a rank', spread(\@jobs, $dir, sub {
        my ($i, $at) = @_;
        pick($i - 1);
        my $r = $quick ? 0 : random_of(38, $i, $RANKS);
        my $good = never_disturbed($at);
        clear($at);
        my $most = 1 + int(random_of(35, $i, length $good->{outputs}{'out/main'}));
        my $wrong = ended($at, $good, ranks($at, at => $r, before => ['prlimit', "--fsize=$most"]), may_be_good => 1);
        return $wrong && "$kind->{name}: rank $r: $most bytes: $wrong";
    }));
};

line '17c', 'memory that runs out on one rank', sub {
    my ($quick, $dir) = @_;
    my $skip = no_mpirun();
    return $skip if $skip;
    inputs($dir, 2000, batch => 50);
    my @jobs = (1 .. ($quick ? 1 : 40));
    return counted('allocations of a rank that failed', spread(\@jobs, $dir, sub {
        my ($i, $at) = @_;
        pick($i + 1);
        my $r = $quick ? 1 : random_of(39, $i, $RANKS);
        my $good = never_disturbed($at);
        clear($at);
        my $call = 1 + int($good->{calls}[$r]{alloc} * ($quick ? .9 : (random_of(33, $i, 1000) / 1000)));
        my $wrong = ended($at, $good, ranks($at, at => $r, env => { LD_PRELOAD => $INJECT, CTR_INJECT => "alloc:$call+:ENOMEM" }), may_be_good => 1);
        return $wrong && "$kind->{name}: rank $r: alloc:$call+: $wrong";
    }));
};

line '17d', 'damaged input of one rank', sub {
    my ($quick, $dir) = @_;
    my $skip = no_mpirun();
    return $skip if $skip;
    inputs($dir, 2000, batch => 50);
    my @jobs = (1 .. ($quick ? 1 : 40));
    return counted('inputs of a rank with a flipped bit, or cut', spread(\@jobs, $dir, sub {
        my ($i, $at) = @_;
        pick($i + 3);
        my $r = $quick ? 1 : random_of(40, $i, $RANKS);
        my $good = never_disturbed($at);
        clear($at);
        my $bytes = slurp("$at/$shards[$r]");
        my $where = random_of(34, $i, length $bytes);
        if ($i % 2) { substr($bytes, $where) = '' } else { substr($bytes, $where, 1) ^= chr(1 << $i % 8) }
        spew("$at/bad.arrows", $bytes);
        my $wrong = ended($at, $good, ranks($at, files => [map { $_ == $r ? 'bad.arrows' : $shards[$_] } 0 .. $#shards]), may_be_good => 1);
        return $wrong && "$kind->{name}: rank $r: byte $where: $wrong";
    }));
};

# Runs of all that ranks do: $dir/runs has what is trained, a line each.
my @CHECKED = ( # ranks, the prefix of shards, what is trained
    [2, 's', qw(lr --minibatch 50 --l1 .2 --checkpoint c --checkpoint-every 300 --checkpoint-deltas 2)],
    [3, 's', qw(lr --minibatch 50 --l1 .1 --validation s0.arrows --validation-every 500 --patience 9)],
    [2, 's', @MLP, qw(--minibatch 50 --l2 .01 --prefetch 1 --checkpoint c --checkpoint-every 300 --validation s0.arrows -j 2)],
    [3, 's', @MLP, qw(--minibatch 50 --memory 2500K --spill . --progressive p-%d)],
    [3, 'f', @DICM, qw(--minibatch 50 --images-at ams --checkpoint c --checkpoint-every 300 --checkpoint-deltas 2)],
    [2, 'f', @DICM, qw(--minibatch 50 --images-at server --prefetch 1)],
);
sub checked {
    my ($dir, $what, @before) = @_;
    inputs($dir, 1000, batch => 50);
    for my $prefix (sort keys %INPUT) {
        system("cd $dir && ctr-split -q --shards 3 -o '$prefix%d.arrows' $INPUT{$prefix}") == 0 or die "ctr-split fails\n";
    }
    my @bad;
    for (@CHECKED) {
        my ($ranks, $prefix, @what) = @$_;
        unlink glob "$dir/c*";
        my ($status, $signal) =
            run(dir => $dir, args => [@MPIRUN, '-n', $ranks, @before, @what, qw(-q -o model), map { "$prefix$_.arrows" } 0 .. 2], limit => 300);
        push @bad, "@what: " . outcome($status, $signal) . ': ' . last_words($dir) if $status || $signal || !-s "$dir/model" || length slurp("$dir/err");
        unlink "$dir/model";
    }
    return (@CHECKED . " runs of two or three ranks under $what without a report: " . (@CHECKED - @bad), @bad);
}

line '17g', 'valgrind over ranks', sub {
    my ($quick, $dir) = @_;
    my $skip = no_mpirun();
    return $skip if $skip;
    return 'SKIP a part of make fault only' if $quick;
    return 'SKIP no valgrind' if system 'command -v valgrind >/dev/null';
    my @supp = map { "--suppressions=$_" } grep { -e } '/usr/share/openmpi/openmpi-valgrind.supp', "$TOP/tests/fault/openmpi.supp";
    local $ENV{OMPI_MCA_pml} = 'ob1';
    return checked($dir, 'valgrind', qw(valgrind -q --error-exitcode=9), @supp, "$BUILD/bin/ctr-train");
};

line '17h', 'ThreadSanitizer over ranks', sub {
    my ($quick, $dir) = @_;
    my $skip = no_mpirun();
    return $skip if $skip;
    my $built = "$TOP/build/opt-tsan";
    my @units = map { "unit/unit-$_" } qw(comm lr-ranks);
    my @missing = grep { !-e "$built/$_" } 'bin/ctr-train', 'lib/ctr/ctr-mpi.so', @units;
    return 'SKIP a part of make fault only' if $quick;
    return 'SKIP not built: make TSAN=1 ' . join ' ', map { "build/opt-tsan/$_" } @missing if @missing;
    local $ENV{OMPI_MCA_pml} = 'ob1';
    local $ENV{TSAN_OPTIONS} = 'ignore_noninstrumented_modules=1'; # Open MPI has threads of its own
    my ($told, @bad) = checked($dir, 'ThreadSanitizer', "$built/bin/ctr-train");
    for my $unit (@units) {
        my $out = `$built/$unit 2>&1`;
        push @bad, "$unit: " . join ' ', grep { /^not ok|WARNING|SUMMARY/ } split /^/, $out if $? || $out =~ /WARNING: Thread/;
    }
    return ("$told; ranks as threads: " . @units . ' programs', @bad);
};

line '17e', 'ranks on hosts whose network delays, loses, is cut', sub {
    my ($quick) = @_;
    return 'SKIP a part of make fault only' if $quick;
    my @tap = split /\n/, `$TOP/tests/fault/ranks-netns`;
    return "SKIP $1" if @tap && $tap[0] =~ /^1\.\.0 # SKIP (.*)/;
    my @good = grep { /^ok / } @tap;
    my @bad = grep { /^not ok / } @tap;
    push @bad, 'it broke off' unless @tap && $tap[-1] =~ /^1\.\.\d+$/;
    return ('three network namespaces over TCP: ' . @good . ' checks hold', @bad);
};
1;
