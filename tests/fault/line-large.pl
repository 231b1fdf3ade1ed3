# Line 12: lengths above 2 and 4 GiB: what the format allows is read and written, what 32-bit offsets cannot say is refused.
use strict;
use warnings;
use Fault;

line '12', 'lengths above 2 GiB', sub {
    my ($quick, $dir) = @_;
    mkdir $dir;
    my ($s, $sig) = run(dir => $dir, args => ["$BUILD/unit/unit-large"], out => 'got', limit => 900, env => { $quick ? () : (CTR_LARGE => 1) });
    my @lines = split /\n/, slurp("$dir/got") // '';
    my @bad   = grep { /^(?:not ok|Bail)/ } @lines;
    push @bad, outcome($s, $sig) . ': ' . last_words($dir) if $s || $sig;
    my ($peak) = sort { $b <=> $a } map { /at most (\d+) MiB/ ? $1 : () } @lines;
    return (scalar(grep { /^ok/ } @lines) . ' cases of streams, files, compressed bodies, columns and csv of 2 to 4.7 GiB'
        . ($quick ? '' : ", at most $peak MiB of memory"), @bad);
};
1;
