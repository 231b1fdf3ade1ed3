# Line 3: ctr-signals changes its index in place, so what must be whole is what the index says: under a fault or kill -9 at any
# call it is as before the action or as after it, it can be read at once, and exit 0 means after.
use strict;
use warnings;
use Fault;
use Digest::MD5 qw(md5);
use File::Copy qw(copy);

# From the index `base.db`; the first one makes an index.
my @ACTIONS = (
    ['create',     qw(add --owner ann plain.plan)],
    ['add',        qw(add --platform web --description more other.plan)],
    ['by hand',    qw(add --definition words words)],
    ['allow',      qw(allow site)],
    ['disallow',   qw(disallow who)],
    ['deprecate',  qw(deprecate who site)],
    ['annotate',   qw(annotate who why)],
    ['register',   qw(register --model m2 plain.model)],
    ['unregister', qw(unregister m1)],
    ['json',       qw(register --json consumers.json)],
    ['pin',        qw(pin who)],
    ['unpin',      qw(unpin site)],
    ['accept',     qw(accept site)],
    ['remove',     qw(remove spare)],
    ['vet',        qw(vet --max-auc 1 --max-missing 1 --max-psi 1 --allow plain.arrows)],
    ['median',     qw(vet --reference median --days 3 --stream s --model m1 --max-auc 1 --max-missing 1 --max-missing-change 1 --max-psi 1 --max-unseen 1 plain.arrows)],
);

sub signals {
    my ($at, $db, $inject, @words) = @_;
    return run(dir => $at, args => ['ctr-signals', '-q', '--db', $db, @words], $inject
        ? (env => { LD_PRELOAD => $INJECT, CTR_INJECT_REPORT => 'report', $inject eq 'count' ? () : (CTR_INJECT => $inject) }) : (err => 'err.ask'));
}

# What the index says, without its times; '' for one that is not there, or is an empty file. undef and words: it cannot be read.
# The same bytes, without a journal beside them, say the same.
my %said;
sub says {
    my ($at, $db) = @_;
    return '' unless -s "$at/$db";
    my @beside = glob "$at/$db-*";
    my $bytes = @beside ? undef : md5(slurp("$at/$db"));
    return $said{$bytes} if defined $bytes && defined $said{$bytes};
    my ($all, $why) = asked($at, $db);
    $said{$bytes} = $all if defined $bytes;
    return ($all, $why);
}
sub asked {
    my ($at, $db) = @_;
    my $all = '';
    for my $list (qw(versions consumers notes vettings)) {
        my ($status) = run(dir => $at, args => ['ctr-signals', '--db', $db, $list, '--format', 'jsonl'], out => 'said', err => 'err.ask');
        my $why = slurp("$at/err.ask");
        return '' if $why =~ /an empty file/; # what a killed first `add` began was undone
        return (undef, "$list: exit $status: $why") if !defined $status || $status;
        $all .= slurp("$at/said") =~ s/"(time|since|unused)":"[^"]*"/"$1":""/gr;
    }
    return $all;
}

sub base {
    my ($at) = @_;
    unlink glob "$at/base.db*";
    spew("$at/spare.plan", "label click\nfeature spare = user\n");
    spew("$at/other.plan", "label click\nfeature site = lower(site)\nfeature more = cross(user, site)\n");
    spew("$at/consumers.json", qq({"model":"m3","signal":"who","version":1}\n{"model":"m3","signal":"site"}\n));
    make_ok($at, 'set -e; for w in "add plain.plan" "add spare.plan" "allow who" "register --model m1 plain.model"; do ctr-signals -q --db base.db $w; done
        ctr-extract -o plain.arrows plain.plan log.arrows
        for auc in 1 1 .5; do ctr-signals -q --db base.db vet --max-auc $auc --max-missing 1 plain.arrows >vetted.txt || test $? = 3; done');
}

sub begin {
    my ($at, $create) = @_;
    unlink glob("$at/work.db*"), "$at/report";
    copy("$at/base.db", "$at/work.db") or die "base.db: $!\n" unless $create;
}

sub judge_action {
    my ($at, $name, $words, $inject, $base, $before, $after) = @_;
    begin($at, $name eq 'create');
    my ($status, $signal) = signals($at, 'work.db', $inject, @$words);
    my $words_of = last_words($at);
    my %r = report_of($at);
    my $kill = $inject =~ /kill/;
    my $what = "ctr-signals $name, $inject: ";
    return $what . outcome($status, $signal) . ": $words_of" if $kill ? $signal && $signal != 9 : $signal || !%r;
    return undef if $kill ? !$signal : !$r{fired};
    my ($now, $why) = says($at, 'work.db');
    return "${what}the index cannot be read: $why" unless defined $now;
    return "${what}the index is neither as before nor as after" if $now ne $before && $now ne $after;
    return '' if $kill;
    return $what . outcome($status, $signal) . ": $words_of" if $status > 1;
    return "${what}no message" if $status && $words_of eq '';
    return "${what}exit 0, but nothing happened" if !$status && $now ne $after;
    return $what . ($r{live} - $base->{live}) . ' allocations leaked' if !$SAN && $r{live} > $base->{live};
    return $what . ($r{fds} - $base->{fds}) . ' descriptors leaked' if $r{fds} > $base->{fds};
    return '';
}

line '3c', 'an index of signals under faults', sub {
    my ($quick, $dir) = @_;
    return 'SKIP ctr-signals was left out of the build' unless -x "$BUILD/bin/ctr-signals";
    inputs($dir, 45);
    my @faults = (['read', 'EIO', 'EINTR', 'short'], ['write', 'ENOSPC', 'EIO', 'EINTR', 'short', 'ENOSPC+', 'kill', 'killed'], ['fsync', 'EIO', 'kill', 'killed'],
        ['open', 'EMFILE', 'EIO'], ['close', 'EIO'], ['truncate', 'EIO', 'kill', 'killed'], ['stat', 'EIO'], ['unlink', 'EIO', 'kill', 'killed'], ['mmap', 'ENOMEM']);
    push @faults, ['alloc', 'ENOMEM'] unless $SAN;
    my @actions = some_of($quick && $SAN ? 4 : 1, 0, @ACTIONS);
    my @r = spread(\@actions, $dir, sub {
        my ($name, @words) = @{ $_[0] };
        my $at = $_[1];
        base($at) unless -e "$at/base.db";
        begin($at, $name eq 'create');
        my ($before) = says($at, 'work.db');
        my ($status, $signal) = signals($at, 'work.db', 'count', @words);
        return [0, "ctr-signals $name: without a fault: " . outcome($status, $signal) . ': ' . last_words($at)] if $status || $signal;
        my %base = report_of($at);
        my ($after, $why) = says($at, 'work.db');
        return [0, "ctr-signals $name: " . (defined $after ? 'changes nothing' : $why)] if !defined $after || $after eq $before;
        my ($n, @bad) = 0;
        for my $f (@faults) {
            my ($kind, @how) = @$f;
            my $most = $quick ? 2 : $kind eq 'alloc' ? 100 : 1 << 30;
            my $step = $base{$kind} > $most ? $base{$kind} / $most : 1;
            for (my $x = 1; $x <= $base{$kind}; $x += $step) {
                my $i = $quick && $step > 1 ? 1 + random_of(length $name, int $x, $base{$kind}) : int $x;
                for my $action ($quick ? $how[$i % @how] : @how) {
                    my $plus = $action =~ /\+$/ ? '+' : '';
                    my $wrong = judge_action($at, $name, \@words, "$kind:$i$plus:" . $action =~ s/\+$//r, \%base, $before, $after);
                    next unless defined $wrong;
                    $n++;
                    push @bad, $wrong if $wrong;
                }
            }
        }
        return [$n, @bad];
    });
    my ($n, @bad) = 0;
    for (@r) { my ($k, @b) = @$_; $n += $k; push @bad, @b; }
    return ("$n faults and kills in " . @actions . ' actions; the index can be read, and is as before or as after: ' . ($n - @bad), @bad);
};
1;
