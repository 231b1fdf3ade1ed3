# Line 9: a long stream through four filters: totals and digest exact, resident memory flat within 2%. ROWS= sets the length.
use strict;
use warnings;
use Fault;

# A field of a file of /proc/PID.
sub proc { my ($pid, $file, $field) = @_; my ($n) = (slurp("/proc/$pid/$file") // '') =~ /^$field:\s+(\d+)/m; return $n }

# What is resident of a process, in KiB, as the kernel counts its pages one by one. A mapping for huge pages counts whole: how much of
# it is there is the kernel's choice, and the one whose pages a pipe is lent is given back and comes again all the time.
sub resident {
    my ($pid) = @_;
    my $kb = 0;
    for my $map (split /^(?=[0-9a-f]+-[0-9a-f]+ )/m, slurp("/proc/$pid/smaps") // '') {
        my $field = $map =~ /^VmFlags:.* hg\b/m ? 'Size' : 'Rss';
        $kb += $1 if $map =~ /^$field:\s+(\d+)/m;
    }
    return $kb || undef;
}

line '9', 'soak', sub {
    my ($quick, $dir) = @_;
    my $rows  = $ENV{ROWS} || (!$quick ? 10_000_000 : $SAN ? 40_000 : 5_000_000); # memory is not measured under a sanitizer
    my $piece = $rows < 2_000_000 ? $rows / 20 : 100_000;
    my $settled = $rows < 10_000_000 ? .4 : .2; # the part of the input before memory is compared
    my $times = int($rows / $piece);
    inputs($dir, $piece / 10, batch => 10000); # models of many rows, which are not needed here, would take most of the time
    make_ok($dir, 'ctr-cat --batch 10000 -o piece.arrows ' . join ' ', ('log.arrows') x 10);
    my @f = (['ctr-cat', ('piece.arrows') x $times], ['ctr-select', '--where', 'id % 10 != 3', '--add', 'double=price * 2'],
        ['ctr-extract', 'plain.plan'], ['ctr-select', '--columns', 'id,click,who,site,user_site,price']);
    # What one piece becomes, by other batches and alone; its digest over and over is what must come out.
    my $one = join ' | ', map { my @a = @$_; join ' ', map { "'$_'" } $a[0] eq 'ctr-cat' ? qw(ctr-cat --batch 777 piece.arrows) : @a } @f;
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
    # After that nothing maps 256 KiB more (the heap grows by 132) and nothing has 2% more resident.
    my ($input, $max, $seen, @from, @most) = ($times * -s "$dir/piece.arrows", 0, 0);
    while (waitpid($pid, POSIX::WNOHANG()) == 0) {
        select undef, undef, undef, 0.02 + $rows / 1e10; # the longer, the less often
        my @now = map { [proc($_, 'status', 'VmData'), resident($_)] } @pid;
        my $read = proc($pid[0], 'io', 'rchar');
        next if !defined $read || grep { !defined } map { @$_ } @now; # one has ended
        for (@now) { $max = $_->[1] if $_->[1] > $max }
        next if $read < $settled * $input;
        @from = map { [@$_] } @most = @now unless $seen++;
        for my $i (0 .. $#f) { for (0, 1) { $most[$i][$_] = $now[$i][$_] if $now[$i][$_] > $most[$i][$_] } }
    }
    my @status = map { waitpid $_, 0; $? } @pid;
    my @bad = map { "$f[$_][0]: status $status[$_]: " . (slurp("$dir/err.$_") // '') } grep { $status[$_] } 0 .. $#f;
    my $got = slurp("$dir/got") // '';
    my ($digest) = $got =~ /"digest": ?"([0-9a-f]+)"/;
    my ($n) = $got =~ /"rows": ?(\d+)/;
    my ($want) = slurp("$dir/want") =~ /([0-9a-f]{32})/;
    push @bad, 'the digest is ' . ($digest // 'none') . ", want $want" if ($digest // '') ne $want;
    push @bad, 'rows: ' . ($n // 'none') . ', want ' . $per * $times if ($n // -1) != $per * $times;
    my ($mapped, $grown) = (0, 0);
    for my $i ($SAN ? () : 0 .. $#from) { # a sanitizer keeps what was freed
        my ($m, $r) = map { $most[$i][$_] - $from[$i][$_] } 0, 1;
        my $share = 100 * $r / $from[$i][1];
        $mapped = $m if $m > $mapped;
        $grown = $share if $share > $grown;
        push @bad, "$f[$i][0] maps $from[$i][0] KiB, and then $most[$i][0]" if $m > 256;
        push @bad, "$f[$i][0] has $from[$i][1] KiB resident, and then $most[$i][1]" if $share > 2;
    }
    push @bad, "it was over before memory was looked at more than $seen times" if $seen < 5 && !$SAN;
    return (sprintf('%d rows through %d filters: %s rows and digest exact; at most %d MiB resident, %s', $piece * $times, scalar @f, $n // 'no', $max / 1024,
        $SAN ? 'growth not measured' : sprintf('after the first %d%% of the input %.2f%% more; mapped %d KiB more', 100 * $settled, $grown, $mapped)), @bad);
};
1;
