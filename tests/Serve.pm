# A server of ctr-serve and its client, for tests: one server at a time, which listens at unix:sock of the current folder.
package Serve;
use strict;
use warnings;
use Exporter 'import';
use IO::Socket::UNIX;
use Time::HiRes qw(sleep time);
our @EXPORT = qw(spew slurp sh start stop crash dial answer put request message ask post rank get metric until_metric %server);

$SIG{PIPE} = 'IGNORE';
our %server;

sub spew { my ($file, $text) = @_; open my $f, '>', $file or die "$file: $!"; print $f $text; close $f or die; }
sub slurp { my ($file) = @_; local $/; open my $f, '<', $file or return ''; return scalar <$f>; }
sub sh { my ($text) = @_; my $out = `$text`; die "failed: $text\n" if $?; return $out; }

sub start { # start OPTION…: its pid; 0: it has ended
    my @args = @_;
    unlink 'sock', 'serve.err';
    my $pid = fork // die;
    if (!$pid) {
        open STDERR, '>', 'serve.err' or die;
        open STDIN, '<', '/dev/null';
        exec 'ctr-serve', '--listen', 'unix:sock', @args or die;
    }
    for (1 .. 12000) {
        return $server{pid} = $pid if slurp('serve.err') =~ /listens at/;
        if (waitpid($pid, 1) == $pid) { return $server{pid} = 0; }
        sleep .005;
    }
    die 'it does not listen';
}

sub ended { my ($signal) = @_; my $pid = delete $server{pid} or return -1; kill $signal, $pid; waitpid $pid, 0; return $? >> 8 || $? & 127; }
sub stop { return ended('TERM'); } # its exit status
sub crash { return ended('KILL'); }
END { local $?; kill 'KILL', $server{pid} if $server{pid}; }

sub dial { return IO::Socket::UNIX->new(Peer => 'sock') || die "sock: $!"; }

sub answer { # of a connection: status, head, body; nothing: it has ended
    my ($s) = @_;
    my $text = '';
    until ($text =~ /\r\n\r\n/) { sysread($s, $text, 65536, length $text) or return; }
    my ($head, $body) = split /\r\n\r\n/, $text, 2;
    my ($n) = $head =~ /^Content-Length: (\d+)/m;
    while (length $body < $n) { sysread($s, $body, 65536, length $body) or return; }
    my ($status) = $head =~ m{^HTTP/1.1 (\d+)};
    return ($status, $head, $body);
}

sub put { my ($s, $text) = @_; my $at = 0; while ($at < length $text) { my $n = syswrite($s, $text, length($text) - $at, $at) or return; $at += $n; } return 1; }

sub request {
    my ($method, $path, $body, @head) = @_;
    my $n = length $body;
    return join "\r\n", "$method $path HTTP/1.1", 'Host: x', "Content-Length: $n", @head, '', $body;
}
sub message { return request('POST', @_); }
sub ask { my $s = dial(); put($s, $_[0]); return answer($s); }
sub post { return ask(message('/v1/score', @_)); }
sub rank { return ask(message('/v1/rank', @_)); }
sub get { return ask("GET $_[0] HTTP/1.1\r\nHost: x\r\n\r\n"); }
sub metric { my ($name) = @_; my (undef, undef, $text) = get('/metrics'); return $text =~ /^\Q$name\E (\S+)$/m ? $1 : ''; }
sub until_metric { my ($name, $value) = @_; for (1 .. 2400) { return 1 if metric($name) eq $value; sleep .01; } return 0; }
1;
