#!/usr/bin/env perl
# The folders of src/common form layers: includes between them have no cycle, nothing includes the registry of models but
# tools, and folders, tools and plug-ins include only what a folder offers. V=1 shows the graph. Long files explain themselves.
use strict;
use warnings;
use Test::More;

chdir "$ENV{CTR_TOP}/src" or die;

# A folder's public header is FOLDER/FOLDER.h, which includes others that it offers. Besides, these may be included, by all
# or by the folders that are named.
my %offered = (
    'base/isa.h'             => [],             # instruction sets
    'base/mix64.h'           => [],             # text that C, C++ and NVRTC share
    'base/mathbody.h'        => [],             # the same
    'base/timebody.h'        => [],             # the same
    'compute/element.h'      => [],             # the same
    'base/memory.h'          => [qw(cli stream text parquet)], # the bound of --memory: what batches may take
    'base/words.h'           => ['rows'],       # words of filters and of statements, in messages
    'stream/batch.h'         => [],             # schemas and columns, for what knows no stream
    'stream/condition.h'     => [qw(parquet plan text)], # what a condition says about columns of which bounds are known
    'stream/matched.h'       => ['rows'],       # streams whose columns differ, by name
    'compute/comm.h'         => [],             # what ranks send to each other
    'compute/compute_impl.h' => ['cuda'],       # what a back end fills
    'compute/mpi_plugin.h'   => ['mpi'],        # the interface of the plug-in
    'op/local.h'             => ['text'],       # local times of a zone
    'op/gpu.h'               => [qw(plan tools)], # a layer of operators as one kernel
    'rows/relation.h'        => ['tools'],      # sort, join, group
    'rows/rank.h'            => ['tools'],      # candidates of a request in order
    'rows/history.h'         => ['tools'],      # behaviours and counts as of an event
    'rows/select.h'          => ['tools'],      # rows and columns by expressions
    'rows/flow.h'            => ['tools'],      # the statements of a plan
    'parquet/parquet_write.h' => ['tools'],     # batches to a file
    'text/json.h'            => [qw(metric tools)], # JSON that is no stream: in pages and in heads of files
    'text/tensor.h'          => [qw(image tools)],      # one of them
    'table/keypages.h'       => ['lr'],         # keys and states in pages on disk
    'lr/variants.h'          => ['tools'],      # many models of lr in one pass
    'model/models.h'         => ['tools'],      # the table of models, which is linked with every learner: no folder may include it
    'metric/calmap.h'        => ['tools'],      # a calibration map, loaded and applied
    'metric/calstate.h'      => ['tools'],      # what such a map is, for what fits one
    'metric/evalstate.h'     => ['tools'],      # slices by number and sorted rows, on which calibration and pages stand, too
    'model/vectors.h'        => ['tools'],      # vectors of towers: products, the best ads
    'model/row_transform.h'  => ['tools'],      # what is done to a row's values before learning, which explanations undo
    'rows/relkey.h'          => ['tools'],      # values of key columns, hashed
    'rows/spool.h'           => ['tools'],      # rows kept until their number is known, for --head and --tail by percent
    'deep/image_table.h'     => ['tools'],      # vectors of images: no part of a network, so not in deep.h
    'deep/model_tower.h'     => ['tools'],      # the tower of a trained model alone, likewise
);

sub includes {
    my %graph;
    my %inner;
    for my $file (@_) {
        my ($folder) = $file =~ m{^(?:common/)?([^/]+)/} or next;
        $graph{$folder} ||= {};
        open my $f, '<', $file or die "$file: $!\n";
        while (<$f>) {
            my ($root, $to, $header) = m{^\s*#\s*include "(?:(common|tools|cuda|mpi)/)([a-z]+/)?([^"]+)"} or next;
            ($to = $to && $root eq 'common' ? $to : "$root/") =~ s{/$}{};
            next if $to eq $folder;
            $graph{$folder}{$to} = 1;
            $inner{"$to/$header"}{$folder} = 1 unless $header eq "$to.h";
        }
    }
    return (\%graph, \%inner);
}

# The folders in an order in which each includes only those before it, and those that have none.
sub layers {
    my ($graph) = @_;
    my (%done, @order);
    my @left = sort keys %$graph;
    while (my @ready = grep { my $n = $_; !grep { !$done{$_} } keys %{ $graph->{$n} } } @left) {
        push @order, \@ready;
        $done{$_} = 1 for @ready;
        @left = grep { !$done{$_} } @left;
    }
    return (\@order, \@left);
}

# Headers that are included and not offered: "HEADER (by FOLDER)".
sub not_offered {
    my ($inner) = @_;
    my @bad;
    for my $header (sort keys %$inner) {
        my $to = $offered{$header};
        my %may = map { $_ => 1 } @{ $to || [] };
        push @bad, map { "$header (by $_)" } grep { !$to || (%may && !$may{$_}) } sort keys %{ $inner->{$header} };
    }
    return @bad;
}

my ($graph, $inner) = includes(glob('common/*/*.[ch]'), glob('tools/*.[ch]'), glob('tools/*/*.[ch]'), glob('cuda/*.{cu,h}'), glob('mpi/*.[ch]'));
my ($order, $cycle) = layers($graph);
note join ' ', @$_ for @$order;
note "$_ <- @{[sort keys %{$graph->{$_}}]}" for sort keys %$graph;
is "@$cycle", '', 'no cycle among the folders of src/common, tools and plug-ins';
my @above = grep { my $f = $_; grep { $graph->{$f}{$_} } qw(tools cuda mpi) } sort keys %$graph;
is "@above", '', 'nothing includes headers of tools or plug-ins';
is join(' ', not_offered($inner)), '', 'other folders include public headers only';
is join(' ', grep { !$inner->{$_} } sort keys %offered), '', 'and the list of other headers has no row that is not needed';
is join(' ', not_offered({ 'op/gpu.h' => { deep => 1, plan => 1 }, 'lr/lr_rows.h' => { tools => 1 } })), 'lr/lr_rows.h (by tools) op/gpu.h (by deep)',
    'a header that is not offered is found';
cmp_ok scalar(keys %{ $graph->{tools} }), '>', 12, 'includes of tools are seen';
is join(' ', sort keys %{ $graph->{cuda} }), 'compute', 'a plug-in stands on what it implements';
is join(' ', sort keys %{ $graph->{mpi} }), 'base compute', 'the other too';

my @others;
for my $file (glob('tools/*.c'), glob('tools/*/*.[ch]')) {
    my ($own) = $file =~ m{^tools/(ctr-[^/.]+)};
    open my $f, '<', $file or die "$file: $!\n";
    push @others, "$file: $_" for grep { defined && $_ ne ($own // '') } map { m{^\s*#\s*include "tools/([^/"]+)/} ? $1 : undef } <$f>;
}
is "@others", '', 'a tool includes no files of another';

my (undef, $found) = layers({ a => { b => 1 }, b => { c => 1 }, c => { b => 1 }, d => {} });
is "@$found", 'a b c', 'a cycle is found';

# ---- long files explain themselves: behind the head, or in it, a comment shows what happens to an example
sub explains {
    my ($text) = @_;
    my ($head, @more) = $text =~ m{(/\*.*?\*/)}sg;
    return $head =~ /^ \*     \S/m || grep { tr/\n// >= 5 } @more;
}
my @silent;
for my $file (grep { $_ ne 'common/op/body_table.h' } glob('common/*/*.[ch]'), glob('tools/*.c'), glob('tools/*/*.[ch]'), glob('cuda/*.{cu,h}')) {
    open my $f, '<', $file or die "$file: $!\n";
    my $text = do { local $/; <$f> };
    push @silent, $file if ($text =~ tr/\n//) > 400 && !explains($text);
}
is "@silent", '', 'files of more than 400 lines explain their design by an example';
ok !explains("/* head: what it is\n * and more */\nint x;\n/* one line */\n"), 'a file without one is found';
done_testing;
