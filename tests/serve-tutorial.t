#!/usr/bin/env perl
# The tutorial "From a model to a server" of ctrkit(7): its commands run behind those of the page's first example, and print what
# the page shows.
use strict;
use warnings;
use File::Temp qw(tempdir);
use Test::More;

my $B = $ENV{CTR_BUILD};
plan skip_all => 'ctr-serve was left out of the build' unless -x "$B/bin/ctr-serve";
plan skip_all => 'the plain half runs it' if $B =~ /-san/;
my $dir = tempdir(CLEANUP => 1);
chdir $dir or die;
mkdir 'bin';
$ENV{PATH} = "$B/bin:$dir/bin:$ENV{PATH}";
$ENV{LC_ALL} = 'C';
sub spew { my ($file, $text) = @_; open my $f, '>', $file or die; print $f $text; close $f or die; }
# What the page uses of curl, for machines without it, which ask for nothing else.
spew('bin/curl', <<'END');
#!/usr/bin/env perl
use IO::Socket::UNIX;
my ($sock, $url, $body, @head);
while (@ARGV) {
    my $o = shift;
    if ($o eq '--unix-socket') { $sock = shift } elsif ($o eq '-d') { $body = shift } elsif ($o eq '-H') { push @head, shift } elsif ($o ne '-s') { $url = $o }
}
my ($path) = $url =~ m{^http://localhost(/.*)} or die;
my $s = IO::Socket::UNIX->new(Peer => $sock) or die;
my $method = defined $body ? 'POST' : 'GET';
syswrite $s, join "\r\n", "$method $path HTTP/1.1", 'Host: localhost', 'Connection: close', @head, (defined $body ? 'Content-Length: ' . length $body : ()), '', $body // '';
local $/;
print((split /\r\n\r\n/, <$s>, 2)[1]);
END
chmod 0755, 'bin/curl';

open my $page, '<', "$ENV{CTR_TOP}/man/ctrkit.7" or die;
my ($on, $in, @first, @lines, $title, $blocks) = (0, 0);
while (<$page>) {
    if (/^\.S[sh] (.*)/) { $title = $1; $blocks = 0; }
    elsif (/^\.Bd/) { $in = 1; $blocks++; }
    elsif (/^\.Ed/) { $in = 0; }
    elsif ($in) {
        s/\\e/\\/g, s/\\\\/\\/g, s/\\&//g;
        push @first, $_ if $title eq 'EXAMPLES' && $blocks == 1;
        push @lines, $_ if $title eq 'From a model to a server';
    }
}
my (@commands, @want);
for (@lines) {
    if (s/^\$ //) { push @commands, $_; push @want, ''; }
    elsif (@commands && $commands[-1] =~ /(?:\\|\|)\n\z/) { $commands[-1] .= $_; }
    else { $want[-1] .= $_; }
}
cmp_ok(scalar(@commands), '>', 5, 'the page has commands');
spew('script', join '', "exec 2>errors\nset -eu\n(\n", @first, ") >first.out\n", map { $commands[$_] . "printf '\\n\@\@%d\\n' $_\n" } 0 .. $#commands);
my $out = `sh script </dev/null`;
is($?, 0, 'they run') or do { open my $e, '<', 'errors'; diag join '', (<$e>)[-5 .. -1]; };
my @got = split /\n@@\d+\n/, $out;
for my $i (0 .. $#commands) {
    my ($name) = split /\n/, $commands[$i];
    my ($got, $want) = map { ($_ // '') =~ s/\s+\z//r } $got[$i], $want[$i];
    is($got, $want, $name);
}
system 'kill $(cat pid) 2>/dev/null' if -e 'pid';
done_testing;
