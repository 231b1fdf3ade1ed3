# Line 0: the tables of commands know every option of every tool, every format of text and every operator of plans, so that
# what is new does not stay out of all other lines.
use strict;
use warnings;
use Fault;

my %COMMON = map { $_ => 1 } qw(output jobs device device-memory memory batch flush seed verbose quiet progress help version list-options);
my %ROLE   = map { $_ => 1 } qw(label weight user time query id score);
my %APART  = (
    'ctr-train --follow'     => 'its input has no end: tests/ctr-train-follow.t',
    'ctr-extract --list-ops' => 'has no input: tests/tools.t, as the next two',
    'ctr-embed-images --column' => 'reads binary, which no tool of ours writes: tests/ctr-embed-images.t',
    'ctrkit --list'          => 1,
    'ctrkit --completion'    => 1,
);

line '0', 'the tables of commands', sub {
    my ($quick, $dir) = @_;
    delete local $ENV{NAMES};
    my @argv = map { $_->{argv} } commands();
    push @argv, map { [split] } map { /^[^#|]*\|\s*(\S.*)/ ? "ctr-train $1" : () } split /\n/, slurp("$TOP/tests/fault/resume.txt");
    push @argv, ['ctr-signals', map { slurp("$TOP/tests/fault/$_") =~ /--[\w-]+/g } qw(line-signals.pl Fault.pm)];
    my %role = map { $_ => 1 } grep { /^--/ } map { @$_ } @argv; # one tool for all: they are common code
    my ($n, @bad) = 0;
    for my $tool (map { s{.*/}{}r } glob "$BUILD/bin/*") {
        my %given = map { s/^@//r => 1 } map { @$_ } grep { $_->[0] eq $tool } @argv;
        for (split /\n/, `$tool --list-options`) {
            my ($long, $short, $kind, $values) = split /\t/;
            $long =~ s/^--//;
            next if !$long || $COMMON{$long} || $APART{"$tool --$long"};
            $n++;
            push @bad, "$tool --$long is in no command of tests/fault/commands.txt" unless $given{"--$long"} || $short && $given{$short} || $ROLE{$long} && $role{"--$long"};
            next unless $long eq 'format' && $kind eq 'choice';
            for my $format (split /\|/, $values) {
                $n++;
                push @bad, "$tool --format $format is in no command of tests/fault/commands.txt" unless $given{$format} || $format eq 'table';
            }
        }
    }
    inputs($dir, 45);
    my $plan = slurp("$dir/wide.plan");
    for my $op (grep { $_ ne 'neg' } map { /^(\S+)/ } split /\n/, `ctr-extract --list-ops`) {
        $n++;
        push @bad, "wide.plan, which tests/fault/Fault.pm writes, has no $op" unless index($plan, $op) >= 0;
    }
    return ("$n options, formats and operators: in commands, but for " . keys(%APART) . ' that have tests of their own: ' . ($n - @bad), @bad);
};
1;
