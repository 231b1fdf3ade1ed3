# Line 9: a long stream through four filters: totals and digest exact, memory flat. ROWS= sets the length.
use strict;
use warnings;
use Fault;

# A field of a file of /proc/PID. What grows is told by the memory that a process has mapped, VmData: of what is resident 2 MiB come
# and go with the pages that it lends to a pipe, and more with the kernel's huge pages.
sub proc { my ($pid, $file, $field) = @_; my ($n) = (slurp("/proc/$pid/$file") // '') =~ /^$field:\s+(\d+)/m; return $n }

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
    my ($max, @seen) = 0; # what the last one has read by then, and the memory of each
    while (waitpid($pid, POSIX::WNOHANG()) == 0) {
        select undef, undef, undef, 0.01;
        my @now = (proc($pid, 'io', 'rchar'), map { proc($_, 'status', 'VmData') } @pid);
        next if grep { !defined } @now;
        push @seen, \@now;
        for (@pid) { my $rss = proc($_, 'smaps_rollup', 'Rss') || 0; $max = $rss if $rss > $max }
    }
    my @status = map { waitpid $_, 0; $? } @pid;
    my @bad = map { "$f[$_][0]: status $status[$_]: " . (slurp("$dir/err.$_") // '') } grep { $status[$_] } 0 .. $#f;
    my $got = slurp("$dir/got") // '';
    my ($digest) = $got =~ /"digest": ?"([0-9a-f]+)"/;
    my ($n) = $got =~ /"rows": ?(\d+)/;
    my ($want) = slurp("$dir/want") =~ /([0-9a-f]{32})/;
    push @bad, 'the digest is ' . ($digest // 'none') . ", want $want" if ($digest // '') ne $want;
    push @bad, 'rows: ' . ($n // 'none') . ', want ' . $per * $times if ($n // -1) != $per * $times;
    # From a fifth of the bytes on nothing grows by more than 256 KiB: the heap grows by 132.
    my ($growth, $to) = (0, $seen[-1]);
    my ($from) = grep { $_->[0] * 5 >= $to->[0] } @seen;
    my $measured = !$SAN && $from && $from->[0] * 2 < $to->[0]; # a sanitizer keeps what was freed
    for my $i ($measured ? 0 .. $#f : ()) {
        my $g = $to->[$i + 1] - $from->[$i + 1];
        $growth = $g if $g > $growth;
        push @bad, "$f[$i][0] grows from $from->[$i + 1] to $to->[$i + 1] KiB" if $g > 256;
    }
    return (sprintf('%d rows through %d filters: %s rows and digest exact; memory at most %d MiB, growth after the first fifth %s', $piece * $times, scalar @f,
        $n // 'no', $max / 1024, $measured ? "$growth KiB" : 'not measured'), @bad);
};
1;
