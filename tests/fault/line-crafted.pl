# Line 16: keys made to share slots of a table by its hash: each table takes them as it takes random ones.
use strict;
use warnings;
use Fault;

# Inverses of mix64(key ^ salt), of which the first tables' homes or places were made, and numbers whose low bits are alike.
my $KEYS = <<'PYTHON';
import random, sys
M = (1 << 64) - 1
def unmix(h):
    for _ in range(2):
        h ^= h >> 32
        h = h * 0xcfee444d8b59a89b & M
    return h ^ h >> 32
kinds = {
    "random": lambda i: random.getrandbits(64),
    "upper": lambda i: unmix(0x1234 << 48 | i) ^ 0x2545f4914f6cdd1d,
    "lower": lambda i: unmix((i & 0xffff) << 48 | i >> 16 << 44 | 5) ^ 0x6a6f696e,
    "twice": lambda i: unmix(unmix(i << 32 | 5)),
    "low": lambda i: i << 32 | 5,
}
n = int(sys.argv[1])
random.seed(1)
for name, key in kinds.items():
    with open(name + ".csv", "w") as csv, open(name + ".svm", "w") as svm:
        row = []
        for i in range(1, n + 1):
            k = key(i)
            csv.write(f"{i % 3 == 0:d},{i / n:.5f},{k - (1 << 64) if k >> 63 else k}\n")
            svm.write(f"{i % 3 == 0:d} {k}:1\n")
            row.append(f"{k}:1")
        svm.write("1 " + " ".join(row[:n // 4]) + "\n")
PYTHON

my @TABLES = (
    ['join'        => 'ctr-join -q -k k %s.right %s.rows'],
    ['join, spilled' => 'ctr-join -q --memory 2M -k k %s.right %s.rows'],
    ['join, many'  => 'ctr-join -q --multi -k k %s.right %s.rows'],
    ['queries'     => 'ctr-sample -q --query k --share .5 %s.rows'],
    ['users'       => 'ctr-eval -q --user k --score s --metrics gauc %s.rows'],
    ['slices'      => 'ctr-eval -q --by k --score s --metrics log_loss --slices 5 %s.rows'],
    ['calibration' => 'ctr-calibrate -q --fit isotonic --by k --score s %s.rows'],
    ['names'       => 'ctr-extract -q --names names.out names.plan %s.rows'],
    ['vocabulary'  => 'ctr-extract -q --fit vocab.plan -o fitted.out %s.rows'],
    ['lr'          => 'ctr-train lr -q %s.keys'],
    ['variants'    => 'ctr-train lr -q --variants two.txt -o "v-%%s.out" %s.keys'],
    ['minibatches' => 'ctr-train lr -q --minibatch 64 %s.keys'],
    ['mlp'         => 'ctr-train mlp -q %s.keys'],
    ['prediction'  => 'ctr-predict -q %s.model %s.keys'],
    ['explain'     => 'ctr-model explain -q -n 2 %s.model %s.keys'],
);

line '16', 'keys that are made to meet', sub {
    my ($quick, $dir) = @_;
    my $python = python() || 'python3';
    my $n = $quick ? 12_000 : 160_000;
    mkdir $dir;
    spew("$dir/keys.py", $KEYS);
    spew("$dir/names.plan", "keep y\nfeature k\n");
    spew("$dir/vocab.plan", "keep y\nfeature k = vocab(k, min=1)\n");
    spew("$dir/two.txt", "a alpha=.1\nb alpha=.2\n");
    make_ok($dir, "$python keys.py $n");
    my @kinds = qw(random upper lower twice low);
    for my $kind (@kinds) {
        make_ok($dir, "ctr-import -f csv --columns y:float64,s:float64,k:int64 --label y -o $kind.rows $kind.csv
            ctr-select --columns k,v=s -o $kind.right $kind.rows
            ctr-import -f libsvm --keys key -o $kind.keys $kind.svm
            ctr-train lr -q -o $kind.model $kind.keys");
    }
    my ($runs, $worst, @bad) = (0, 0);
    for (@TABLES) {
        my ($name, $shell) = @$_;
        my $usual;
        for my $kind (@kinds) {
            my ($status, $signal, $took) = run(dir => $dir, args => ['sh', '-c', 'exec ' . ($shell =~ s/(?<!%)%s/$kind/gr =~ s/%%/%/gr)]);
            $usual = $took unless defined $usual;
            $runs++;
            $worst = $took / ($usual + .1) if $took / ($usual + .1) > $worst;
            push @bad, "$name, $kind: " . outcome($status, $signal) . ': ' . last_words($dir) if $signal || $status;
            push @bad, sprintf('%s, %s: %.2f s where random keys take %.2f', $name, $kind, $took, $usual) if $took > 5 * $usual + 1;
        }
    }
    return (sprintf('%d runs of %d tables, %d keys each: %d within five times what random keys take; at most %.1f times', $runs, scalar @TABLES, $n, $runs - @bad, $worst), @bad);
};
1;
