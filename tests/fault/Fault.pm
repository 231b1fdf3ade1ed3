# What the lines of the scorecard share: the table of commands, their inputs, a way to run one under faults, workers.
package Fault;
use strict;
use warnings;
use Exporter 'import';
use Cwd qw(abs_path);
use File::Basename qw(dirname);
use File::Copy qw(copy);
use File::Path qw(make_path remove_tree);
use File::Temp qw(tempdir);
use IO::Handle;
use Storable qw(store retrieve);
our @EXPORT = qw($TOP $BUILD $SAN $INJECT commands command_args inputs run outputs slurp spew spread make_ok last_words
    report_of random_of some_of same_outputs outcome python packer
    in_child);

our $TOP    = dirname(dirname(dirname(abs_path(__FILE__))));
our $BUILD  = $ENV{CTR_BUILD} || "$TOP/build/opt";
our $SAN    = $BUILD =~ /san$/ ? 1 : 0;
our $INJECT = "$BUILD/fault/inject.so";
$ENV{PATH}   = "$BUILD/bin:$ENV{PATH}";
$ENV{LC_ALL} = 'C';
$ENV{TZ}     = 'UTC';
# What a sanitizer reports is no clean exit of a tool; its library need not come first when ours is preloaded.
$ENV{ASAN_OPTIONS}  = 'verify_asan_link_order=0:exitcode=99';
$ENV{LSAN_OPTIONS}  = 'exitcode=99';
$ENV{UBSAN_OPTIONS} = 'exitcode=99:print_stacktrace=1';

sub slurp {
    open my $f, '<:raw', $_[0] or return undef;
    local $/;
    my $s = <$f>;
    return defined $s ? $s : '';
}

sub spew {
    open my $f, '>:raw', $_[0] or die "$_[0]: $!\n";
    print $f $_[1] or die "$_[0]: $!\n";
    close $f or die "$_[0]: $!\n";
}

# The words of a command line: blanks separate, single quotes group.
sub words {
    my @w;
    push @w, defined $1 ? $1 : $2 while $_[0] =~ /\G\s*(?:'([^']*)'|(\S+))/gc;
    return @w;
}

# The program that packs a file of this ending, or undef.
sub packer {
    my $p = { gz => 'gzip', zst => 'zstd', lz4 => 'lz4', bz2 => 'bzip2', xz => 'xz' }->{ $_[0] };
    return system("command -v $p >/dev/null 2>&1") == 0 ? $p : undef;
}

# The table: hashes of name, flags, argv (with @FILE), main. NAMES=REGEX picks some of it.
sub commands {
    my ($pick) = @_;
    my @all;
    open my $f, '<', "$TOP/tests/fault/commands.txt" or die "commands.txt: $!\n";
    while (<$f>) {
        next if /^\s*(#|$)/;
        my ($name, $flags, $line) = map { s/^\s+|\s+$//gr } split /\|/, $_, 3;
        my @argv = words($line);
        next unless -x "$BUILD/bin/$argv[0]"; # its library is missing
        next if $ENV{NAMES} && $name !~ /$ENV{NAMES}/;
        my ($main) = map { /^(?:\w+=)?@(.*)/ ? $1 : () } @argv;
        next if $main && $main =~ /\.(zst|lz4|bz2|xz)$/ && !packer($1);
        my $c = { name => $name, argv => \@argv, main => $main, map { $_ => 1 } split ' ', $flags };
        push @all, $c if !$pick || $pick->($c);
    }
    return @all;
}

# The argument vector: `how` is "file" (input named, product in out/main) or "pipe" (stdin, stdout).
sub command_args {
    my ($c, $how, $main) = @_;
    $main = $c->{main} unless defined $main;
    my $named = $how eq 'file' || $c->{file};
    my @a = map { !/^(\w+=)?@/ ? $_ : $named ? ($1 || '') . $main : $1 ? "$1-" : () } @{ $c->{argv} };
    splice @a, $a[0] eq 'ctrkit' || $a[0] =~ /^ctr-(train|model)$/ ? 2 : 1, 0, '-o', 'out/main'
        if $how eq 'file' && !$c->{own} && !$c->{quiet};
    return @a;
}

# run(dir => …, args => [], in => FILE, out => FILE, env => {}, limit => seconds, closed => [fds], setup => sub in the child):
# returns (exit status or undef, signal or 0), and what the processor did for it, in seconds. What it said is in DIR/err.
sub run {
    my %o = (out => '/dev/null', err => 'err', env => {}, limit => 120, closed => [], @_);
    $o{in} = '/dev/null' unless defined $o{in};
    my ($us, $status) = ref $o{in} || ref $o{out} || $o{setup} ? forked(%o) : spawned(%o);
    return ($status & 127 ? undef : $status >> 8, $status & 127, $us / 1e6);
}

# By spawn, a small program that does what forked() does. Each process of ours has its own, which ends with it.
my ($spawn, $spawn_of, $requests, $replies) = (0, 0);
sub spawned {
    my %o = @_;
    if ($spawn_of != $$) {
        pipe my $in, $requests or die "pipe: $!\n";
        pipe $replies, my $out or die "pipe: $!\n";
        $spawn = fork;
        die "fork: $!\n" unless defined $spawn;
        if (!$spawn) {
            open STDIN,  '<&', $in  or POSIX::_exit(126);
            open STDOUT, '>&', $out or POSIX::_exit(126);
            exec "$BUILD/fault/spawn" or POSIX::_exit(127);
        }
        $spawn_of = $$;
        $requests->autoflush;
    }
    my %env = (%ENV, %{ $o{env} });
    my $request = join '', map { "$_\0" } @o{qw(dir in out err limit)}, join('', @{ $o{closed} }), map({ "$_=$env{$_}" } keys %env), '', @{ $o{args} };
    print $requests pack('L<', length $request), $request or die "spawn: $!\n";
    read($replies, my $reply, 16) == 16 or die "spawn has ended\n";
    return unpack 'q<2', $reply;
}
sub spawn_ends {
    return if $spawn_of != $$;
    close $requests;
    waitpid $spawn, 0;
    $spawn_of = 0;
}
END { local $?; spawn_ends() }

sub forked {
    my %o = @_;
    my @before = times;
    my $pid = fork;
    die "fork: $!\n" unless defined $pid;
    if (!$pid) {
        chdir $o{dir} or POSIX::_exit(126);
        $ENV{$_} = $o{env}{$_} for keys %{ $o{env} };
        open STDIN,  '<', $o{in}  or POSIX::_exit(126) if !ref $o{in};
        open STDIN,  '<&', $o{in} or POSIX::_exit(126) if ref $o{in};
        open STDOUT, '>', $o{out} or POSIX::_exit(126) if !ref $o{out};
        open STDOUT, '>&', $o{out} or POSIX::_exit(126) if ref $o{out};
        open STDERR, '>', $o{err} or POSIX::_exit(126);
        $o{setup}->() if $o{setup};
        POSIX::close($_) for @{ $o{closed} };
        alarm $o{limit};
        { no warnings; exec { $o{args}[0] } @{ $o{args} }; }
        POSIX::_exit(127);
    }
    waitpid $pid, 0;
    my ($status, @after) = ($?, times);
    return (1e6 * ($after[2] + $after[3] - $before[2] - $before[3]), $status);
}

sub outcome { # words for a status
    my ($status, $signal) = @_;
    return $signal ? ($signal == 14 ? 'ran out of time' : "signal $signal") : "exit $status";
}

sub last_words { my $e = slurp("$_[0]/err"); $e = '' unless defined $e; $e =~ s/\s+\z//; $e =~ s/.*\n(?=.)//s; return substr $e, 0, 200 }

# Every file under DIR/out: path => bytes.
sub outputs {
    my ($dir, $at, %f) = ($_[0], $_[1] || 'out');
    opendir my $d, "$dir/$at" or return ();
    for my $n (grep { !/^\.\.?$/ } readdir $d) {
        if (-d "$dir/$at/$n") { %f = (%f, outputs($dir, "$at/$n")); }
        else                  { $f{"$at/$n"} = slurp("$dir/$at/$n"); }
    }
    return %f;
}

# What is wrong with outputs that shall be whole (whole => 1: all of the good ones) or absent: '' or words. A model out/saved is
# saved again and again: of a run that failed an earlier one may be there, whole.
sub same_outputs {
    my ($dir, $good, %o) = @_;
    my %got = outputs($dir);
    for my $n (sort keys %got) {
        next if $o{except} && $n =~ $o{except};
        return "$n is left behind" unless exists $good->{$n};
        next if $got{$n} eq $good->{$n} || $n eq 'out/saved' && !$o{whole} && sealed($dir, $n);
        return "$n differs from the good one";
    }
    if ($o{whole}) {
        for my $n (sort keys %$good) { return "$n is missing" unless exists $got{$n}; }
    }
    return '';
}

sub sealed {
    my ($dir, $file) = @_;
    my ($status, $signal) = run(dir => $dir, args => ['ctr-info', '--check', $file], err => 'err.check');
    return !$signal && !$status;
}

# The last line that the injection library reported in DIR/report, as a hash.
sub report_of {
    my $text = slurp("$_[0]/report");
    return () unless $text && $text =~ /([^\n]+)\n\z/;
    return map { /(\w+)=(-?\d+)/ ? ($1, $2) : () } split ' ', $1;
}

# Counter-based random numbers: random_of(SEED, I, N) is in 0..N-1.
sub random_of {
    my ($seed, $i, $n) = @_;
    my $x = ($seed * 0x9e3779b1 + $i * 0x85ebca6b + 0x27d4eb2f) & 0xffffffff;
    for (1 .. 2) {
        $x ^= $x >> 16;
        $x = ($x * 0x45d9f3b) & 0xffffffff;
    }
    $x ^= $x >> 16;
    return $x % $n;
}

# Each N-th, the first of them by FROM: what is enough where another run tries them all.
sub some_of {
    my ($n, $from, @all) = @_;
    return @all[grep { $_ % $n == $from % $n } 0 .. $#all];
}

# spread(\@jobs, sub { my ($job, $dir) = @_; … return result }): in `J` workers, each in a copy of the inputs.
sub spread {
    my ($jobs, $inputs, $do) = @_;
    my $workers = $ENV{J} || 2;
    my @dirs = map { tempdir("$inputs.XXXXXX") } 1 .. $workers;
    my @pids;
    for my $w (0 .. $workers - 1) {
        my $pid = fork;
        die "fork: $!\n" unless defined $pid;
        if ($pid) { push @pids, $pid; next; }
        copy_inputs($inputs, $dirs[$w]);
        my @r;
        for (my $i = $w; $i < @$jobs; $i += $workers) { push @r, [$i, $do->($jobs->[$i], $dirs[$w])]; }
        store \@r, "$dirs[$w]/.result";
        spawn_ends();
        POSIX::_exit(0);
    }
    my @result;
    for my $w (0 .. $#pids) {
        waitpid $pids[$w], 0;
        die "a worker of the scorecard failed\n" if $?;
        $result[$_->[0]] = $_->[1] for @{ retrieve("$dirs[$w]/.result") };
    }
    remove_tree(@dirs);
    return @result;
}

sub copy_inputs {
    my ($from, $to) = @_;
    make_path("$to/out");
    opendir my $d, $from or die "$from: $!\n";
    for (grep { -f "$from/$_" } readdir $d) { copy("$from/$_", "$to/$_") or die "$_: $!\n"; }
}

# A large thing is made in a process of its own: perl keeps the memory, and every fork after it would copy its page tables.
sub in_child {
    my ($do) = @_;
    my $pid = fork;
    die "fork: $!\n" unless defined $pid;
    if (!$pid) {
        eval { $do->(); 1 } and POSIX::_exit(0);
        print STDERR $@;
        POSIX::_exit(1);
    }
    waitpid $pid, 0;
    die "a child of the scorecard failed\n" if $?;
}

sub make_ok {
    my ($dir, $what) = @_;
    system('sh', '-c', "cd '$dir' && { $what\n} >>.make 2>&1") == 0 or die "making the inputs failed: " . (slurp("$dir/.make") // "") . "\n";
}

sub python {
    for my $py ($ENV{CTR_PYTHON}, "$TOP/build/venv/bin/python", 'python3') {
        return $py if defined $py && system("'$py' -c 'import pyarrow' 2>/dev/null") == 0;
    }
    return undef;
}

# Inputs of the commands in DIR: a log of `rows` rows in every format, and what is made from it; made once for all lines.
my %made;
sub inputs {
    my ($dir, $rows, %o) = @_;
    my $batch = $o{batch} || 20;
    my $kept = dirname($dir) . "/inputs-$rows-$batch";
    in_child(sub { make_inputs($kept, $rows, $batch) }) unless $made{$kept}++;
    copy_inputs($kept, $dir);
    return $dir;
}

sub make_inputs {
    my ($dir, $rows, $batch) = @_;
    make_path($dir);
    my (@csv, @tsv, @json, @svm, @ffm, @vw, @bad);
    for my $i (0 .. $rows - 1) {
        my ($u, $s) = (random_of(1, $i, 9), random_of(2, $i, 4));
        my $p = $i % 37 == 9 ? '1e-310' : random_of(3, $i, 4000) / 100; # denormals too are kept
        my $c = random_of(4, $i, 1000) < 300 + 90 * $s ? 1 : 0;
        my $q = (random_of(5, $i, 998) + 1) / 1000;
        my $t = sprintf '2026-01-%02dT%02d:%02d:00Z', 1 + ($i / 1440) % 28, ($i / 60) % 24, $i % 60;
        my $tags = join ' ', map { 't' . random_of(6 + $_, $i, 5) } 1 .. 1 + $i % 3;
        push @csv,  join(',', $i, "u$u", $c, $t, "s$s", $i % 11 ? $p : '', $q, $i % 3 + 1, $tags) . "\n";
        push @tsv,  join("\t", $i, "u$u", $c, $p) . "\n";
        push @json, sprintf qq({"id":%d,"user":"u%d","click":%d,"price":%s,"tag\\u0073":"%s","more":{"deep":[1,{"a":"\\u00e9"}]}}\n), $i, $u, $c, $p, $tags;
        push @svm,  "$c " . join(' ', map { $_ . ':' . (random_of($_, $i, 50) / 10) } 1 .. 5) . "\n";
        push @ffm,  "$c " . join(' ', map { "$_:" . random_of($_, $i, 30) . ':1' } 1 .. 4) . "\n";
        push @vw,   ($c ? 1 : -1) . " |u user=$u |s site=$s price:$p\n";
        push @bad,  $i % 5 == 3 ? "x$i,u$u,$c\n" : "$i,u$u,$c\n";
    }
    spew("$dir/log.csv", join '', "id,user,click,time,site,price,score,w,tags\n", @csv);
    spew("$dir/log.tsv", join '', "id\tuser\tclick\tprice\n", @tsv);
    spew("$dir/log.jsonl", join '', @json);
    spew("$dir/log.svm", join '', @svm);
    spew("$dir/log.ffm", join '', @ffm);
    spew("$dir/log.vw", join '', @vw);
    spew("$dir/bad.csv", join '', "id,user,click\n", @bad);
    spew("$dir/log.plan", <<'PLAN');
label click
user user
keep id, time
feature who = vocab(user, min=2)
feature site
feature tags = split(tags, " ")
feature user_site = cross(user, site)
dense price = log1p(price)
PLAN
    spew("$dir/wide.plan", <<'PLAN'); # every operator, as line 0 sees to
label click
user user
time time
keep id, price = if(price < 5 or price >= 30, fill(price, 0), -abs(price))
query page = floor(number(substr(user, 1, 2)) / 2)
day = day_of_week(time)
half = id // 2
list = split(tags, " ")
text = concat("{\"a\":{\"b\":[", w, ",", id % 7, "]},\"c\":\"", nfc(lower(user)), "\"}")
feature who = vocab(user, min=2, max=5)
feature price_of = quantiles(price, 4)
feature seen = lookup("key.arrow", id, "rsite")
feature when = hour_of_day(time + 8h)
feature old = bucket(age(time, ts"2026-01-01T00:00Z") / 1h, [0.1, 0.4])
feature step = log_bucket(price * 10)
feature square = square_log_bucket(clip(price, 1, 30) - 0.5)
feature grams = ngrams(list, 2)
feature word in grams = words(tags)
feature few = hash_bits(join(list, "+"), 6)
feature pair = cross(list, day)
feature raw = hash(site)
feature inner = json_get(text, "a.b[1]")
feature elements = json_list(text, "a.b")
feature first = at(list, 0)
feature key_of in grams = keywords(list, k=2)
feature ends = concat(before(tags, " "), after(tags, "t"))
feature order = join(sort(unique(list)), ",")
feature best in grams = top(list, 2)
near = similarity("vectors.arrow", at(list, 0), list, "value")
feature alike in grams = top_by(list, near, 2)
feature often = mode(list)
feature host = url_part(url_decode(replace(text, "{", "http://h/?q=")), "host")
feature asked = query_value(tags, "q")
feature zone = concat(year(time), month(time), week(time), day(time, "Europe/Paris"), hour_of_day(time, "Asia/Tokyo"))
feature clock = format_time(parse_time(format_time(time, "%F %I %p"), "%F %I %p"), "%a %I %p")
feature parts = concat(extract(tags, "t([0-9])"), replace_matches(site, "[a-z]", "<$0>"), matches(site, "^s[0-9]"))
feature chosen = concat(site in ["s0", "s1"], id not in [1, 2], between(price, 2, 9), least(w, 1), greatest(w, 1))
dense rounded = round(price) + ceil(price) + sqrt(abs(price)) + cosine([1.0, 2.0], [0.5, 0.25])
image like_t1 = not like(tags, "t1%") and site != "s1" or is_null(price)
dense n = length(list)
dense tier = histogram(near, -1, 1, 4)
dense place = at(embedding("vectors.arrow", list, "value"), 0)
dense total = sum([1, 2]) + mean([1, 2]) + max([1, 2]) + min([1, 2])
dense both = dot([1.0, 2.0], [0.5, 0.25]) + int(price > 20)
dense scale = standardize(log1p(price)) + minmax(price) + log_scale(abs(price))
dense logs = log(exp(w))
dense same = int(site == "s0" or w <= 2) + half
PLAN
    spew("$dir/views.plan", "from log\nwhere price > 2\nlabel click\nfeature site\n");
    spew("$dir/past.plan", "label click\nfeature user\nfeature past in user of user = split(tags, \" \")\n");
    spew("$dir/faces.plan", "label click\nfeature site\nimage face = user\nimage faces in face of face = split(tags, \" \")\n");
    spew("$dir/few.txt", "base\nslow alpha=0.02 beta=3\nless out=user*\nunbiased bias=no\n");
    spew("$dir/variants.txt", "base\nslow alpha=0.02\nless out=user* precision=f32\nbits precision=q2.13 optimizer=ogd\n");
    spew("$dir/groups.txt", "base\nless out=user*\nunbiased bias=no\n");
    make_ok($dir, <<"SH");
set -e
gzip -nc log.csv >log.csv.gz
! command -v zstd || zstd -qc log.csv >log.csv.zst
! command -v lz4 || lz4 -qc log.csv >log.csv.lz4
! command -v bzip2 || bzip2 -qc log.csv >log.csv.bz2
! command -v xz || xz -qc log.csv >log.csv.xz
ctr-import --batch $batch --format csv --header --label click --score score --time time --user user -o log.arrows log.csv
ctr-cat --to file -o log.arrow log.arrows
ctr-cat -z zstd -o zstd.arrows log.arrows
ctr-select --batch $batch --columns id,rsite=site,rprice=price -o row.arrows log.arrows
ctr-cat --to file --key id -o key.arrow row.arrows
ctr-select --batch $batch --columns user,site,seen=time,other=price --where 'id % 7 == 3 and user != "u4"' log.arrows | ctr-sort --batch $batch -k seen -o right.arrows
ctr-sort --unique -k user right.arrows | ctr-cat --batch $batch >users.arrows
ctr-select --columns id,user,click,price -o tsv.arrows log.arrows
sed 's/vocab(user, min=2)/hash(user)/' log.plan >plain.plan
ctr-select --batch $batch --add 'tags=split(tags, " ")' -o tags.arrows log.arrows
ctr-extract --fit log.plan -o fitted.arrows log.arrows
ctr-select --columns price,id log.arrows | ctr-select --where 'not is_null(price)' -o numbers.arrows
cp "$ENV{CTR_TOP}/tests/golden/parquet/arrow.parquet" rows.parquet
ctr-export --format npy -o vectors.npy numbers.arrows
ctr-import --format npy vectors.npy | ctr-join --by-row numbers.arrows | ctr-select --add 'tag=concat("t", id)' | ctr-sort -k tag | ctr-cat --to file --key tag -o vectors.arrow
ctr-extract --fit wide.plan -o wide.fitted log.arrows
ctr-extract --batch $batch --names names.arrows -o feat.arrows fitted.arrows log.arrows
ctr-train lr -q -o model.arrows feat.arrows
ctr-train mlp -q --embedding 3 --hidden 4 --minibatch 16 -o mlp.arrows feat.arrows
ctr-extract --batch $batch -o past.arrows past.plan log.arrows
ctr-train din -q --embedding 3 --hidden 4 --attention-hidden 3 --minibatch 16 -o din.arrows past.arrows
ctr-train two-tower -q --user-features 'user*,who' --ad-features 'site,tags,price' --embedding 3 --hidden 4 --minibatch 16 -o towers.arrows feat.arrows
ctr-select --columns user,who,user_site --where 'not is_null(user)' -o sides.arrows feat.arrows
ctr-sort --unique -k user sides.arrows | ctr-predict --tower user -o users.vec towers.arrows
ctr-extract --batch $batch -o faces.arrows faces.plan log.arrows
ctr-train dicm -q --images users.vec --missing-image zero --images-pool attentive --attention-hidden 3 --embedding 3 --hidden 4 --images-tower 3 --minibatch 16 -o dicm.arrows faces.arrows
ctr-train two-tower -q --images users.vec --missing-image zero --images-tower 3 --user-features faces --ad-features face,site --embedding 3 --hidden 4 --minibatch 16 -o face-towers.arrows faces.arrows
ctr-select --columns faces -o face-users.arrows faces.arrows
ctr-sort -k user users.vec | ctr-cat --to file --key user -o users.arrow
ctr-select --columns id,site,tags,price feat.arrows | ctr-predict --tower ad -o ads.vec towers.arrows
ctr-select --columns user,id --where 'not is_null(user)' -o pairs.arrows feat.arrows
ctr-calibrate --fit isotonic --label click --score score --by site --slice-clicks 2 -o map.arrows log.arrows
ctr-stats --label click --profile log.profile -o log.stats log.arrows
ctr-calibrate --fit platt --label click --score score -o plain.map log.arrows
ctr-model slim -q -o serving.arrow model.arrows
ctr-select --head 45 feat.arrows | ctr-cat --batch 10 | head -c -200 >broken.arrows
! ctr-train lr -q --checkpoint state.ckpt --checkpoint-every 20 --checkpoint-deltas 9 -o none broken.arrows
test -s state.ckpt.delta.2
cp model.arrows dict.arrows
ctr-train lr -q --l1 0.5 -o model2.arrows feat.arrows
ctr-extract plain.plan log.arrows | ctr-train lr -q -o plain.model
ctr-extract -o plain.arrows plain.plan log.arrows
ctr-train two-tower -q --user-features 'user*,who' --ad-features 'site,tags,price' --embedding 3 --hidden 4 --minibatch 16 -o plain-towers.model plain.arrows
ctr-select --columns id,site,tags,price plain.arrows | ctr-predict --tower ad -o plain-ads.vec plain-towers.model
ctr-extract --key-seed log.plan plain.plan log.arrows | ctr-train lr -q -o seeded.model
ctr-eval --by site --label click --score score --user user --format stream -o table.arrows log.arrows
ctr-eval --window 1h --time time --label click --score score --user user --format stream -o windows.arrows log.arrows
ctr-stats --format stream --against log.profile -o drift.arrows log.arrows
SH
    make_ok($dir, <<"SH");
set -e
ctr-export --format safetensors -o numbers.safetensors numbers.arrows
SH
    make_ok($dir, <<"SH") if -x "$BUILD/bin/ctr-embed-images";
set -e
python3 "$TOP/tests/images_reference.py" make .
rm -f bomb.png
tar -cf pictures.tar *.png *.jpg
cp rgb0.png 10.png
cp rgb1.png 7.png
tar -cf numbered.tar 10.png 7.png
echo none >page.jpg
tar -cf mixed.tar *.png page.jpg
ctr-embed-images -w tiny.safetensors -o pictures.arrow rgb0.png rgb1.png
printf 'label click\nimage photo = if(price > 1, "rgb0", "rgb1")\n' >pictures.plan
ctr-train dicm -q --images pictures.arrow --embedding 3 --hidden 4 --images-tower 3 --minibatch 16 -o pictures.model pictures.plan log.arrows
SH
    make_ok($dir, <<"SH") if -x "$BUILD/bin/ctr-signals";
set -e
export CTR_SIGNALS=index.db
sed 's/^feature site/& = lower(site)/' plain.plan >newer.plan
for words in "add --owner ann plain.plan" "allow who" "allow site" "allow tags" "allow user_site" "allow price" "register --model m plain.model" "add newer.plan" "annotate site why" "vet feat.arrows"; do
    ctr-signals -q \$words
done
SH
}

require POSIX;
1;
