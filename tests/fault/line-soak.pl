# Line 9: a long stream through four filters: totals and digest exact, resident memory flat. ROWS= sets the length.
use strict;
use warnings;
use Fault;

# VmRSS of /proc/PID/status may be off by 32 pages a processor and kind of memory; here the kernel counts the pages.
sub rss { my ($s) = (slurp("/proc/$_[0]/smaps_rollup") // '') =~ /^Rss:\s+(\d+)/m; return $s }

line '9', 'soak', sub {
    my ($quick, $dir) = @_;
    my $rows  = $ENV{ROWS} || ($quick ? ($SAN ? 40_000 : 400_000) : 10_000_000); # memory is not measured under a sanitizer
    my $piece = $quick ? $rows / 20 : 100_000;
    $piece = $rows if $piece > $rows;
    my $times = int($rows / $piece);
    inputs($dir, $piece, batch => 10000);
    my @f = (['ctr-cat', ('log.arrows') x $times], ['ctr-select', '--where', 'id % 10 != 3', '--add', 'double=price * 2'],
        ['ctr-extract', 'plain.plan'], ['ctr-select', '--columns', 'id,click,who,site,user_site,price']);
    # What one piece becomes, by other batches and alone; its digest over and over is what must come out.
    my $one = join ' | ', map { my @a = @$_; join ' ', map { "'$_'" } $a[0] eq 'ctr-cat' ? qw(ctr-cat --batch 777 log.arrows) : @a } @f;
    make_ok($dir, "$one >one.arrows");
    make_ok($dir, 'ctr-info --digest ' . join(' ', ('one.arrows') x $times) . ' >want');
    my ($per) = slurp("$dir/want") ? do { make_ok($dir, 'ctr-info --json one.arrows >one.json'); slurp("$dir/one.json") =~ /"rows": ?(\d+)/ } : ();
    my (@pid, $in);
    for my $i (0 .. $#f) {
        pipe my $r, my $w or die "pipe: $!\n";
        my $pid = fork;
        if (!$pid) {
            chdir $dir;
            open STDIN, '<&', $in if $in;
            open STDOUT, '>&', $w;
            open STDERR, '>', "err.$i";
            close $r;
            { no warnings; exec @{ $f[$i] }; }
            POSIX::_exit(127);
        }
        push @pid, $pid;
        close $w;
        $in = $r;
    }
    my $pid = fork;
    if (!$pid) {
        chdir $dir;
        open STDIN, '<&', $in;
        open STDOUT, '>', 'got';
        { no warnings; exec qw(ctr-info --json); }
        POSIX::_exit(127);
    }
    close $in;
    my (@early, @late);
    my ($at, $tick) = (0, 0);
    while (waitpid($pid, POSIX::WNOHANG()) == 0) {
        select undef, undef, undef, 0.05;
        my @now = map { rss($_) } @pid;
        next if grep { !defined } @now;
        push @late, \@now;
    }
    my @status = map { waitpid $_, 0; $? } @pid;
    my @bad = map { "$f[$_][0]: status $status[$_]: " . (slurp("$dir/err.$_") // '') } grep { $status[$_] } 0 .. $#f;
    my $got = slurp("$dir/got") // '';
    my ($digest) = $got =~ /"digest": ?"([0-9a-f]+)"/;
    my ($n) = $got =~ /"rows": ?(\d+)/;
    my ($want) = slurp("$dir/want") =~ /([0-9a-f]{32})/;
    push @bad, 'the digest is ' . ($digest // 'none') . ", want $want" if ($digest // '') ne $want;
    push @bad, 'rows: ' . ($n // 'none') . ', want ' . $per * $times if ($n // -1) != $per * $times;
    # From a fifth of the time on nothing grows by more than 1% (and 64 KiB, which is a few pages).
    my $growth = 0;
    if (@late >= 20 && !$SAN) { # a sanitizer keeps what was freed
        my ($from, $to) = ($late[@late / 5], $late[-3]);
        for my $i (0 .. $#f) {
            my $g = ($to->[$i] - $from->[$i]) / $from->[$i];
            $growth = $g if $g > $growth;
            push @bad, sprintf '%s grows from %d to %d KiB', $f[$i][0], $from->[$i], $to->[$i] if $g > 0.01 && $to->[$i] - $from->[$i] > 64;
        }
    }
    my ($max) = sort { $b <=> $a } map { @$_ } @late;
    return (sprintf('%d rows through %d filters: %s rows and digest exact; memory at most %d MiB, growth after the first fifth %s', $piece * $times, scalar @f,
        $n // 'no', ($max || 0) / 1024, @late >= 20 && !$SAN ? sprintf('%.2f%%', 100 * $growth) : 'not measured'), @bad);
};
1;
