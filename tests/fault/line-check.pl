# Line 10: valgrind over the commands; a ThreadSanitizer build over those that use threads.
use strict;
use warnings;
use Fault;
use File::Path qw(remove_tree);

sub have { return system("command -v $_[0] >/dev/null 2>&1") == 0 }

line '10a', 'valgrind', sub {
    my ($quick, $dir) = @_;
    return 'SKIP a sanitizer checks memory' if $SAN;
    return 'SKIP there is no valgrind' unless have('valgrind');
    inputs($dir, 45);
    my @jobs = commands();
    @jobs = some_of(16, 5, @jobs) if $quick;
    my @bad = grep { $_ } spread(\@jobs, $dir, sub {
        my ($c, $at) = @_;
        remove_tree("$at/out");
        mkdir "$at/out";
        my @args = command_args($c, 'file');
        my ($status, $signal) = run(dir => $at, limit => 300, env => { CTR_CPU => 'avx2' },
            args => ['valgrind', '-q', '--error-exitcode=99', '--leak-check=full', '--show-leak-kinds=all', '--errors-for-leak-kinds=all', @args]);
        return $status || $signal ? "$c->{name}: " . outcome($status, $signal) . ': ' . substr(slurp("$at/err"), 0, 1500) : '';
    });
    return (scalar(@jobs) . ' commands: ' . (@jobs - @bad) . ' without a report, nothing left allocated', @bad);
};

line '10b', 'ThreadSanitizer', sub {
    my ($quick, $dir) = @_;
    my $tsan = "$TOP/build/opt-tsan";
    return 'SKIP its build is a part of make fault only' if $quick;
    system("make -s -C '$TOP' TSAN=1 bins >'$dir.make' 2>&1") == 0 or return ('nothing', 'make TSAN=1 fails: ' . slurp("$dir.make"));
    inputs($dir, 3000, batch => 100);
    my @jobs = commands(sub { $_[0]{name} ne 'ctrkit' });
    my @bad = grep { $_ } spread(\@jobs, $dir, sub {
        my ($c, $at) = @_;
        remove_tree("$at/out");
        mkdir "$at/out";
        my @args = command_args($c, 'file');
        $args[0] = "$tsan/bin/$args[0]";
        splice @args, $args[0] =~ /ctr-(train|model)$/ ? 2 : 1, 0, '-j', 4;
        my ($status, $signal) = run(dir => $at, limit => 300, args => \@args, env => { TSAN_OPTIONS => 'exitcode=66 halt_on_error=1' });
        return $status || $signal ? "$c->{name}: " . outcome($status, $signal) . ': ' . substr(slurp("$at/err"), 0, 1500) : '';
    });
    return (scalar(@jobs) . ' commands with -j 4: ' . (@jobs - @bad) . ' without a report', @bad);
};
1;
