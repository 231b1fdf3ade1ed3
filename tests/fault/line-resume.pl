# Line 7d: whatever training keeps from row to row is in its checkpoint. For each row of resume.txt a run is killed before and
# after the rename of a checkpoint in each pass (all of them, but for the quick part), and resumed to the bytes of the run that
# was never killed: models, predictions and the words about them.
use strict;
use warnings;
use Fault;
use File::Path qw(make_path remove_tree);

no warnings 'qw';
my $EVERY = 130;

sub resume_inputs {
    my ($dir, $rows) = @_;
    $rows ||= 600;
    make_path("$dir/out");
    my @csv;
    for my $i (0 .. $rows - 1) { # some keys are common, some come once; five days
        my ($u, $s) = (random_of(1, $i, 1 + random_of(2, $i, $rows / 5)), random_of(3, $i, 7));
        push @csv, join(',', $i, $u, $s, join(' ', map { 't' . random_of(5 + $_, $i, 25) } 1 .. 1 + $i % 3), random_of(9, $i, 400) / 100, 1 + $i % 4 / 2,
            random_of(4, $i, 10) < 2 + $u % 5 ? 1 : 0, sprintf '2026-01-%02dT%02d:00:00Z', 1 + int(5 * $i / $rows), $i / 5 % 24) . "\n";
    }
    spew("$dir/log.csv", join '', "id,user,site,tags,price,w,click,time\n", @csv);
    spew("$dir/plain.plan", "label click\ntime time\nkeep id, w\nfeature user\nfeature site\nfeature tags = split(tags, \" \")\nfeature both = cross(user, site)\ndense price = log1p(price)\n");
    spew("$dir/few.txt", "base\nslow alpha=0.02 beta=3\nno-users out=user\nads in=tag*\nunbiased bias=no\n");
    spew("$dir/whole.txt", "base\nslow alpha=0.02 beta=3\nunbiased bias=no\n");
    spew("$dir/groups.txt", "base\nno-users out=user\nads in=tag*\nunbiased bias=no\n");
    spew("$dir/few.flat", "base\nno-users out=user\nunbiased bias=no\n");
    spew("$dir/eights.txt", join '', map { "m$_ alpha=0.$_" . ('', ' l1=0.1', ' out=user', ' l2=0.5 beta=2')[$_ % 4] . "\n" } 1 .. 19);
    spew("$dir/list.txt", <<'LIST');
base
slow alpha=0.02 l1=0.1
no-users out=user
unbiased bias=no
single precision=f32
ogd optimizer=ogd
rda optimizer=rda l1=0.01
bits precision=q2.13
counts learning-rate=counts
holds optimizer=ogd-count threshold=2
LIST
    spew("$dir/photos.jsonl", join '', map { my $p = $_; sprintf "{\"key\": \"t%d\", \"vector\": [%s]}\n", $p, join ', ', map { random_of(20 + $_, $p, 200) / 100 } 1 .. 5 } 0 .. 24);
    make_ok($dir, <<'SH');
set -e
ctr-import --batch 90 --format csv --header --time time -o log.arrows log.csv
ctr-extract -q --batch 90 -o feat.arrows plain.plan log.arrows
grep -v 'tags\|dense' plain.plan >flat.plan
ctr-extract -q --batch 90 -o flat.arrows flat.plan log.arrows
cat >past.plan <<'PLAN'
label click
time time
keep id, w
feature user
feature site
feature past in site of site = split(tags, " ")
dense price = log1p(price)
image photo = concat("t", site)
image seen in photo of photo = split(tags, " ")
PLAN
ctr-extract -q --batch 90 -o seen.arrows past.plan log.arrows
grep -v '^image' past.plan >din.plan
ctr-extract -q --batch 90 -o past.arrows din.plan log.arrows
ctr-import -f jsonl -q photos.jsonl | ctr-sort -q -k key | ctr-cat -q --to file --key key -o photos.arrow
ctr-train lr -q --alpha 0.3 --l1 0.2 -o first.arrows feat.arrows
ctr-train mlp -q --embedding 4 --hidden 8,4 --l2 0.01 -o first-mlp.arrows feat.arrows
SH
    return $dir;
}

sub resume_rows {
    my @rows;
    open my $f, '<', "$TOP/tests/fault/resume.txt" or die "resume.txt: $!\n";
    while (<$f>) {
        next if /^\s*(#|$)/;
        my ($name, $words) = map { s/^\s+|\s+$//gr } split /\|/, $_, 2;
        next if $ENV{NAMES} && $name !~ /$ENV{NAMES}/;
        my @o = split ' ', $words;
        push @o, qw(--embedding 4) if $o[0] ne 'lr';
        push @o, qw(--hidden 8,4) if $o[0] !~ /^(lr|fm)$/ && $words !~ /--hidden/;
        push @o, qw(--passes 2) unless $words =~ /--passes/;
        push @o, qw(-o out/main) unless $words =~ / -o /;
        push @rows, [$name, ['ctr-train', @o, '--resume', '--checkpoint', 'out/c', '--checkpoint-every', $EVERY,
            $words =~ /--validation-every/ ? () : ('--progressive', 'out/scores')], $name =~ /^(flat|past|seen)/ ? "$1.arrows" : 'feat.arrows'];
    }
    return @rows;
}

sub resume_run {
    my ($at, $args, $input, %env) = @_;
    return run(dir => $at, args => [@$args, $input], env => \%env);
}

# The table at the end, but for what is about memory and disk, and the uses of images, which are those of one process.
sub said {
    my ($table) = (slurp("$_[0]/err") // '') =~ /^(rows .*)/ms;
    return join '', map { s/ \(.*\)//r } grep { !/^(?:bytes a key|shared values|memory|disk|images named)/ } ($table // 'nothing') =~ /.*\n?/g;
}

line '7d', 'resumed with every kind of state', sub {
    my ($quick, $dir) = @_;
    resume_inputs($dir);
    my @rows = some_of($quick && $SAN ? 3 : 1, 0, resume_rows());
    my @r = spread(\@rows, $dir, sub {
        my ($name, $args, $input) = @{ $_[0] };
        my $at = $_[1];
        my $fresh = sub { remove_tree("$at/out", "$at/report"); mkdir "$at/out" };
        $fresh->();
        my ($status, $signal) = resume_run($at, $args, $input, LD_PRELOAD => $INJECT, CTR_INJECT_REPORT => 'report');
        return [0, "$name: never killed: " . outcome($status, $signal) . ': ' . last_words($at)] if $status || $signal;
        my ($good, $words, %calls) = ({ outputs($at) }, said($at), report_of($at));
        my ($n, @bad) = 0;
        my @kills = map { ["rename:$_:killed"], ["rename:$_:kill"] } 1 .. $calls{rename} - 1;
        @kills = $kills[@kills * (length($name) % 2 ? 0.3 : 0.8)] if $quick; # in the first pass, or in the last
        for (map { @$_ } @kills) {
            $fresh->();
            (undef, $signal) = resume_run($at, $args, $input, LD_PRELOAD => $INJECT, CTR_INJECT => $_);
            if ($signal != 9) { push @bad, "$name: $_: not killed"; next }
            $n++;
            next if !-e "$at/out/c" && /:1:kill$/; # there is no checkpoint yet
            ($status, $signal) = resume_run($at, $args, $input);
            my $wrong = $status || $signal ? outcome($status, $signal) . ': ' . last_words($at) : same_outputs($at, $good, whole => 1, except => qr{\.tmp\.\w{6}$});
            $wrong ||= 'says something else: ' . said($at) . 'instead of ' . $words if said($at) ne $words;
            push @bad, "$name: $_: $wrong" if $wrong;
        }
        return [$n, @bad];
    });
    my ($n, @bad) = 0;
    for (@r) { my ($k, @b) = @$_; $n += $k; push @bad, @b; }
    return ("$n kills at checkpoints of " . @rows . ' kinds of training; after --resume models, predictions and words are those of the run that was never killed: '
        . ($n - @bad), @bad);
};
1;
