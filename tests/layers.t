#!/usr/bin/env perl
# The folders of src/common form layers: includes between them have no cycle, nothing includes the registry of models but
# tools, and other folders include only what a folder offers. V=1 shows the graph.
use strict;
use warnings;
use Test::More;

chdir "$ENV{CTR_TOP}/src/common" or die;

# A folder's public header is FOLDER/FOLDER.h. Besides, these are for all: texts that C, C++ and NVRTC share, and instruction sets.
my %offered = map { $_ => 1 } qw(base/isa.h base/mix64.h base/mathbody.h compute/element.h op/oplayer.h);
# Other headers that are included from outside; the list may only get shorter. many
# models in one pass use lr's kernels, ctr-join and metric read JSON.
my %known = map { $_ => 1 } qw(lr/ftrl_x8.h lr/inclusion.h lr/lanes.h text/json.h);

sub includes {
    my %graph;
    my %inner;
    for my $file (@_) {
        my ($folder) = $file =~ m{^([^/]+)/} or next;
        $graph{$folder} ||= {};
        open my $f, '<', $file or die "$file: $!\n";
        while (<$f>) {
            my ($to, $header) = m{^\s*#\s*include "common/([a-z]+)/([^"]+)"} or next;
            next if $to eq $folder;
            $graph{$folder}{$to} = 1;
            $inner{"$to/$header"}{$folder} = 1 unless $header eq "$to.h" || $offered{"$to/$header"};
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

my ($graph, $inner) = includes(glob '*/*.[ch]');
my ($order, $cycle) = layers($graph);
note join ' ', @$_ for @$order;
note "$_ <- @{[sort keys %{$graph->{$_}}]}" for sort keys %$graph;
is "@$cycle", '', 'no cycle among the folders of src/common';
is join(' ', grep { $graph->{$_}{models} } sort keys %$graph), '', 'no folder includes models/';
my @new = grep { !$known{$_} } sort keys %$inner;
is join(' ', @new), '', 'other folders include public headers only';
is join(' ', grep { !$inner->{$_} } sort keys %known), '', 'and the list of other headers has no row that is not needed';

my (undef, $found) = layers({ a => { b => 1 }, b => { c => 1 }, c => { b => 1 }, d => {} });
is "@$found", 'a b c', 'a cycle is found';
done_testing;
