# Line 11: streams, models and maps of earlier versions are read: the digests of tests/golden/digests.txt, and the same predictions.
use strict;
use warnings;
use Fault;
use File::Copy qw(copy);

line '11', 'golden files of earlier versions', sub {
    my ($quick, $dir) = @_;
    mkdir $dir;
    mkdir "$dir/out";
    my (@bad, $n);
    for my $version (map { m{/([^/]+)/digests\.txt$} ? $1 : () } glob "$TOP/tests/golden/*/digests.txt") {
        my $from = "$TOP/tests/golden/$version";
        for (split /\n/, slurp("$from/digests.txt")) {
            my ($file, @want) = split;
            $n++;
            for my $args (['ctr-info', '--check', "$from/$file"], ['ctr-info', '--digest', "$from/$file"]) {
                my ($s, $sig) = run(dir => $dir, args => $args, out => 'got');
                push @bad, "$version/$file: @$args[0, 1]: " . outcome($s, $sig) . ': ' . last_words($dir) if $sig || $s;
            }
            my $got = join ' ', map { /([0-9a-f]{32})/ ? $1 : () } split /\n/, slurp("$dir/got") // '';
            push @bad, "$version/$file: digest $got, want @want" if $got ne "@want";
        }
        # What a version made of the log with its fitted plan, model and map is what this one makes.
        my %use = ('feat' => ['ctr-extract', "$from/fitted.arrows", "$from/log.arrows"], 'scored' => ['ctr-predict', "$from/model.arrows", "$from/feat.arrows"],
            'calibrated' => ['ctr-calibrate', "$from/map.arrows", "$from/log.arrows"], 'joined' => ['ctr-join', '-q', '-k', 'id', "$from/key.arrow", "$from/log.arrows"]);
        for my $made (sort keys %use) {
            $n++;
            my ($s, $sig) = run(dir => $dir, args => $use{$made}, out => 'got.arrows');
            push @bad, "$version, $made: " . outcome($s, $sig) . ': ' . last_words($dir) if $sig || $s;
            my @d = map { run(dir => $dir, args => ['ctr-export', '-f', 'jsonl', $_], out => 'text'); slurp("$dir/text") } 'got.arrows', "$from/$made.arrows";
            push @bad, "$version: $made.arrows comes out otherwise" if $d[0] ne $d[1] || !length $d[0];
        }
    }
    return (($n || 0) . ' files and uses', @bad, $n ? () : 'there are none');
};
1;
