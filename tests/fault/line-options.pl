# Line 8c: training with each of its options (resume.txt has the table) makes the same model to the byte for any -j, set of
# instructions, batches of the input, with and without checkpoints; and predictions of the same digest.
use strict;
use warnings;
use Fault;
use File::Path qw(remove_tree);

my @WAYS = (
    ['-j 1', ['-j', 1]],
    ['-j 2', ['-j', 2]],
    ['-j 3', ['-j', 3]],
    ['-j 8', ['-j', 8]],
    ['plain', [], { CTR_CPU => 'plain' }],
    ['plain, -j 4', ['-j', 4], { CTR_CPU => 'plain' }],
    ['avx2', [], { CTR_CPU => 'avx2' }],
    ['batches of 1', [], {}, 1],
    ['batches of 7, -j 2', ['-j', 2], {}, 7],
    ['batches of 1000', [], {}, 1000],
    ['--batch 50', ['--batch', 50]],
    ['--memory 64M', ['--memory', '64M']],
    ['a locale', [], { LC_ALL => 'de_DE.UTF-8', TZ => 'Asia/Kathmandu' }],
    ['checkpoints', ['--checkpoint', 'out/c', '--checkpoint-every', 100]],
);

# Models to the byte; of predictions, which are cut where the input is, the digest.
sub learned {
    my ($at, $args, $input, $more, $env, $rows) = @_;
    remove_tree("$at/out");
    mkdir "$at/out";
    if ($rows) {
        my $cut = "cut-$rows-$input";
        run(dir => $at, args => ['ctr-cat', '--batch', $rows, '-o', $cut, $input]) unless -e "$at/$cut";
        $input = $cut;
    }
    my ($status, $signal) = run(dir => $at, args => [@$args, @$more, $input], env => $env || {});
    return outcome($status, $signal) . ': ' . last_words($at) if $status || $signal;
    my %got = outputs($at);
    delete $got{'out/spool'};
    if ($got{'out/scores'}) {
        run(dir => $at, args => ['ctr-info', '--digest', 'out/scores'], out => 'digest', err => 'err.digest');
        $got{'out/scores'} = slurp("$at/digest");
    }
    return \%got;
}

line '8c', 'the same model with every option', sub {
    my ($quick, $dir) = @_;
    resume_inputs($dir, $quick ? 600 : 6000);
    my @rows = some_of($quick && $SAN ? 6 : 1, 1, resume_rows());
    my @r = spread(\@rows, $dir, sub {
        my ($name, $args, $input) = @{ $_[0] };
        my $at = $_[1];
        my %drop = ('--checkpoint' => 2, '--checkpoint-every' => 2, '--checkpoint-deltas' => 2, '--resume' => 1, '-j' => 2);
        my @a = @$args;
        for (my $i = 0; $i < @a; ) { my $n = $drop{ $a[$i] }; if ($n) { splice @a, $i, $n } else { $i++ } }
        my $good = learned($at, \@a, $input, []);
        return [0, "$name: $good"] unless ref $good;
        my ($n, @bad) = 0;
        for my $way ($quick ? $WAYS[unpack('%32C*', $name) % @WAYS] : @WAYS) {
            my ($what, @how) = @$way;
            $n++;
            my $got = learned($at, \@a, $input, @how);
            push @bad, ref $got ? map { "$name, $what: $_ is another" } grep { ($got->{$_} // '') ne ($good->{$_} // '') } keys %{ { %$good, %$got } } : "$name, $what: $got";
        }
        return [$n, @bad];
    });
    my ($n, @bad) = 0;
    for (@r) { my ($k, @b) = @$_; $n += $k; push @bad, @b; }
    return ("$n runs of " . @rows . ' kinds of training, -j 1/2/3/8, plain/AVX2/AVX-512, batches, memory, locale, checkpoints: ' . ($n - @bad) . ' the same', @bad);
};
1;
