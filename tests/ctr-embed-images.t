#!/bin/sh
# ctr-embed-images: vectors against plain Python, kinds of images, archives, bad images, --update; the same bytes for any -j and order.
. "${0%/*}/lib.sh"
[ -x "$CTR_BUILD/bin/ctr-embed-images" ] || skip_all 'ctr-embed-images was left out of the build'
cd "$W" || exit 1
reference=$CTR_TOP/tests/images_reference.py
embed() { ctr-embed-images -w tiny.safetensors "$@"; }
vectors() { ctr-export --format jsonl "$@"; }
vector_of() { vectors "$1" | grep "\"key\":\"$2\"" | sed 's/.*vector"://'; }

# near WANT GOT REL: every vector of WANT is in GOT, within REL of its largest number.
cat >near.py <<'PYTHON'
import json, sys
want, got = ({r['key']: r['vector'] for r in map(json.loads, open(p))} for p in sys.argv[1:3])
for k, w in want.items():
    off = max(abs(a - b) for a, b in zip(w, got[k], strict=True)) / max(map(abs, w))
    if not off <= float(sys.argv[3]):
        sys.exit('%s is off by %g' % (k, off))
PYTHON
near() { "$PY" near.py "$@"; }

"$PY" "$reference" make . || exit 1
mkdir bad && mv bomb.png bad
"$PY" "$reference" vectors . >want.jsonl
"$PY" "$reference" vectors . caffe >want-caffe.jsonl

ok 'pictures of all kinds' embed -o all.arrow ./*.png ./*.jpg
vectors all.arrow >got.jsonl
ok 'vectors are those of plain Python, to 1e-5' near want.jsonl got.jsonl 1e-5
exits 'which can tell' 1 near want-caffe.jsonl got.jsonl 1e-5
ok 'keyed' sh -c 'printf "k\nrgb1\nnone\n" | ctr-import --format csv --header | ctr-join -k k=key all.arrow - | ctr-export --format csv --no-header -c k | grep -q rgb1'
is 'progressive JPEG is baseline JPEG' "$(vector_of all.arrow progressive)" "$(vector_of all.arrow baseline)"
vectors all.arrow | grep '"smooth"' >smooth.jsonl
for k in baseline cmyk; do
    vectors all.arrow | grep "\"$k\"" | sed "s/\"$k\"/\"smooth\"/" >like.jsonl
    ok "$k JPEG is near the picture that it was made of" near smooth.jsonl like.jsonl .05
done
ok 'caffe' embed --preprocess caffe -o caffe.arrow ./rgb*.png ./grey*.png ./palette.png
vectors caffe.arrow >got-caffe.jsonl
ok 'is that of plain Python, to 1e-5' near want-caffe.jsonl got-caffe.jsonl 1e-5

# Of grey with 16 bits the high 8 count, as of colours. (Pillow clips it at 255, so that nearly all is white.)
"$PY" - <<'PYTHON'
import struct, zlib
def png(path, bits, pixels, n=40):
    chunk = lambda kind, data: struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    rows = b"".join(b"\0" + b"".join(struct.pack(">H" if bits == 16 else "B", v >> 16 - bits) for v in pixels[i * n:i * n + n]) for i in range(n))
    with open(path, "wb") as f:
        f.write(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", n, n, bits, 0, 0, 0, 0)) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))
pixels = [i * 40503 % 65536 for i in range(1600)]
import os
os.mkdir("grey16"), os.mkdir("grey8")
png("grey16/g.png", 16, pixels)
png("grey8/g.png", 8, pixels)
PYTHON
for bits in 8 16; do (cd grey$bits && ctr-embed-images -q -w ../tiny.safetensors g.png | ctr-export -f jsonl >../grey$bits.jsonl); done
ok 'grey of 16 bits is that of its high 8' sh -c 'test -s grey16.jsonl && cmp grey8.jsonl grey16.jsonl'

# The same bytes, whatever the order, the number of threads, the processor.
ls -r ./*.png ./*.jpg >names
for j in 1 4; do
    # shellcheck disable=SC2046
    ok "-j $j, another order" embed -j $j -o again.arrow $(cat names)
    ok "gives the same bytes" cmp all.arrow again.arrow
done
for cpu in plain avx2; do
    CTR_CPU=$cpu ctr-embed-images -w tiny.safetensors -o again.arrow ./*.png ./*.jpg
    ok "CTR_CPU=$cpu gives the same bytes" cmp all.arrow again.arrow
done
ctr-embed-images -w tiny.safetensors ./*.png ./*.jpg >again.arrow
ok 'to a pipe too' cmp all.arrow again.arrow

# The GPU's text, as loops on the host.
onhost=$CTR_BUILD/onhost/ctr-cuda.so
if [ -f "$onhost" ] && [ -z "$SAN" ]; then
    ok '--device gpu' env CTR_CUDA_PLUGIN="$onhost" ctr-embed-images -w tiny.safetensors --device gpu -o gpu.arrow ./*.png ./*.jpg
    vectors gpu.arrow >got-gpu.jsonl
    ok 'gives those of plain Python, to 1e-5' near want.jsonl got-gpu.jsonl 1e-5
else
    skip '--device gpu' 'no plug-in, or sanitizers'
fi

# Weights.
ok "timm's names" ctr-embed-images -w timm.safetensors -o again.arrow ./*.png ./*.jpg
ok 'give the same bytes' cmp all.arrow again.arrow
mkdir long && cp rgb0.png long/rgb0.png && truncate -s 3G long/rgb0.png
embed -o short.arrow rgb0.png
ok 'what follows the end of a PNG is not read' sh -c 'exec timeout 60 ctr-embed-images -w tiny.safetensors -o long.arrow long/rgb0.png'
is 'and changes nothing' "$(ctr-info --digest long.arrow)" "$(ctr-info --digest short.arrow)"
ctr-embed-images -w bf16.safetensors -o bf16.arrow rgb0.png
ctr-embed-images -w rounded.safetensors -o rounded.arrow rgb0.png
ok 'BF16 is float32 that was cut' cmp bf16.arrow rounded.arrow
ctr-embed-images -w rounded.safetensors --type float16 -o half.arrow rgb0.png
ok 'float16' sh -c 'ctr-info half.arrow | grep -q "fixed_size_list<float16>\[9\]"'
vectors half.arrow >half.jsonl; vectors rounded.arrow >rounded.jsonl
ok 'is within its rounding' near rounded.jsonl half.jsonl 5e-4
exits 'a NaN in FC6' 1 ctr-embed-images -w nan.safetensors rgb0.png
err_like 'names the tensor' 'nan.safetensors: tensor classifier.0.weight is F32 \[9, 5\]: it holds a NaN'
exits 'a convolution of another shape' 1 ctr-embed-images -w shape.safetensors rgb0.png
err_like 'says which fits' 'tensor features.5.weight is F32 \[30, 1, 3, 3\]: \[outputs, 5, 3, 3\] is wanted'
exits 'vectors that overflow' 1 ctr-embed-images -w large.safetensors --type float16 rgb0.png
err_like 'say so' 'not finite|beyond 65504'
sed 's/"F32"/"I32"/' tiny.safetensors >integers.safetensors
exits 'weights of integers' 1 ctr-embed-images -w integers.safetensors rgb0.png
err_like 'say which types fit' 'tensor features.0.weight is of I32: F32, F16 or BF16 fit'
head -c 9000 tiny.safetensors >cut.safetensors
exits 'weights that are cut short' 1 ctr-embed-images -w cut.safetensors rgb0.png
err_like 'name the tensor' 'cut.safetensors: tensor .*: data_offsets'
exits 'weights of another kind' 1 ctr-embed-images -w rgb0.png rgb0.png
err_like 'say so' 'is neither safetensors nor npy'
exits 'no weights' 2 ctr-embed-images rgb0.png

# Archives: of each writer, from a pipe, cut short, damaged.
cat >archive.py <<'PYTHON'
import glob, io, sys, tarfile
kinds = {'ustar': tarfile.USTAR_FORMAT, 'gnu': tarfile.GNU_FORMAT, 'pax': tarfile.PAX_FORMAT}
for kind, f in kinds.items():
    with tarfile.open(kind + '.tar', 'w', format=f) as t:
        d = tarfile.TarInfo('d'); d.type = tarfile.DIRTYPE; t.addfile(d)
        for n in sorted(glob.glob('*.png') + glob.glob('*.jpg')):
            long = 'd/' * (30 if kind == 'ustar' else 200) + n
            t.add(n, long)
    with tarfile.open(kind + '-odd.tar', 'w', format=f) as t:
        for n, type in ('sym', tarfile.SYMTYPE), ('hard', tarfile.LNKTYPE), ('fifo', tarfile.FIFOTYPE), ('cont', b'C'), ('folder', tarfile.DIRTYPE):
            l = tarfile.TarInfo(n); l.type = type; l.linkname = 'rgb0.png' if type in (tarfile.SYMTYPE, tarfile.LNKTYPE) else ''; t.addfile(l)
        t.add('rgb0.png')
PYTHON
"$PY" archive.py
for kind in ustar gnu pax; do
    ok "a $kind archive" embed -o again.arrow $kind.tar
    ok 'gives the same bytes' cmp all.arrow again.arrow
done
embed <pax.tar >again.arrow
ok 'from stdin too' cmp all.arrow again.arrow
head -c 20000 ustar.tar >cut.tar
exits 'an archive that is cut short' 1 embed --bad-images skip -o none.arrow cut.tar
err_like 'says where' 'cut.tar: the archive is truncated: it ends at byte 20000'
ok 'and leaves no output' test ! -e none.arrow
{ head -c 520 ustar.tar; printf X; tail -c +522 ustar.tar; } >flipped.tar
exits 'a header that is damaged' 1 embed -o none.arrow flipped.tar
err_like 'is found by its sum' 'flipped.tar: .*no header of tar'
mkdir -p links && cp rgb0.png links/one.png && ln links/one.png links/two.png && ln -s one.png links/three.png && tar -C links -cf links.tar one.png two.png three.png
exits 'a hard link in an archive' 1 embed -o none.arrow links.tar
err_like 'is a bad image, with a remedy' 'two.png: is a hard link, whose contents are under another name: archive with tar --hard-dereference'
embed --bad-images quarantine=links.tsv -o some.arrow links.tar
is 'which is counted, as a symbolic link is, with its remedy' "$(cat links.tsv; ctr-export -f jsonl --columns key some.arrow)" "$(printf '%s\t%s\n' \
    two.png 'is a hard link, whose contents are under another name: archive with tar --hard-dereference' \
    three.png 'is a symbolic link, without contents: archive with tar --dereference'; echo '{"key":"one"}')"
tar --dereference --hard-dereference -C links -cf links.tar one.png two.png three.png
embed -o some.arrow links.tar
is 'and which these remedies help' "$(ctr-export -f jsonl --columns key some.arrow | tr -d '\n')" '{"key":"one"}{"key":"three"}{"key":"two"}'
for kind in ustar gnu pax; do
    embed -v --bad-images skip -o some.arrow $kind-odd.tar 2>said
    is "other entries of $kind are counted and named, directories are not" \
        "$(grep -o '[a-z]*: is a[n ].*' said | cut -c 1-28 | tr '\n' ';') $(tail -n 1 said) $(ctr-export -f jsonl --columns key some.arrow)" \
        'sym: is a symbolic link, wit;hard: is a hard link, whose ;fifo: is a device or a FIFO,;cont: is an entry of type 67; '"$(
            echo 'ctr-embed-images: 1 image computed, 0 taken over, 4 bad and skipped {"key":"rgb0"}')"
done

# Sparse files, of each format of GNU tar, with a map that goes on behind the header; what follows is read.
"$PY" -c '
with open("holes.png", "wb") as f:
    for i in range(60):
        f.seek(i * 65536)
        f.write(b"x" * 4096)'
for kind in gnu 'posix --sparse-version=0.0' 'posix --sparse-version=0.1' 'posix --sparse-version=1.0'; do
    # shellcheck disable=SC2086
    tar --sparse --format=$kind -cf sparse.tar holes.png rgb0.png
    embed -v --bad-images skip -o some.arrow sparse.tar 2>said
    is "a sparse file of tar --format=$kind" "$(grep -o 'holes.*' said | head -n 1) $(ctr-export -f jsonl --columns key some.arrow)" \
        'holes.png: is a sparse file: archive without tar --sparse {"key":"rgb0"}'
done
rm holes.png
gzip -c ustar.tar >odd.tar.gz
exits 'a compressed archive' 2 embed --bad-images skip -o none.arrow odd.tar.gz
err_like 'is refused with a remedy' 'odd.tar.gz is gzip data, not an image or a tar archive; unpack it first: gzip -dc FILE | ctr-embed-images'
ok 'which helps' sh -c 'gzip -dc odd.tar.gz | ctr-embed-images -w tiny.safetensors -o again.arrow'
ok 'to the same bytes' cmp all.arrow again.arrow
exits 'a key that comes twice' 1 embed -o none.arrow rgb0.png ustar.tar
err_like 'names both' 'rgb0.png: the key rgb0 came before'

# Bad images.
cp rgb1.png bad/png-named.jpg
cp baseline.jpg bad/jpeg-named.png
: >bad/empty.jpg
echo '<html>not found</html>' >bad/page.jpg
printf 'GIF89a.......' >bad/moving.jpg
head -c 500 baseline.jpg >bad/cut.jpg
head -c 300 rgb1.png >bad/short.png
{ head -c 60 rgb1.png; printf XX; tail -c +63 rgb1.png; } >bad/flipped.png
for f in bomb.png empty.jpg page.jpg moving.jpg cut.jpg short.png flipped.png vanished.jpg; do
    exits "$f" 1 embed -o none.arrow rgb0.png bad/$f
    err_like 'is named' "bad/$f: "
done
ok 'bad images leave no output' test ! -e none.arrow
embed --bad-images quarantine=bad.tsv -o good.arrow bad/* bad/vanished.jpg 2>said
is 'quarantine: what is good stays' "$(vectors good.arrow | sed 's/"key":"\([^"]*\).*/\1/' | tr -d '{\n')" 'jpeg-namedpng-named'
is 'a PNG named .jpg is a PNG' "$(vector_of good.arrow png-named)" "$(vector_of all.arrow rgb1)"
is 'a JPEG named .png is a JPEG' "$(vector_of good.arrow jpeg-named)" "$(vector_of all.arrow baseline)"
is 'and the count is told' "$(cat said)" 'ctr-embed-images: 2 images computed, 0 taken over, 8 bad and quarantined'
is 'why, by name' "$(sed 's/IDAT: .*/IDAT: …/' bad.tsv | sort)" "$(printf '%s\t%s\n' \
    bad/bomb.png 'has 60000 x 60000 pixels, more than --max-pixels 67108864' \
    bad/cut.jpg 'JPEG: Premature end of JPEG file' \
    bad/empty.jpg 'is neither JPEG nor PNG, but empty' \
    bad/flipped.png 'PNG: IDAT: …' \
    bad/moving.jpg 'is neither JPEG nor PNG, but GIF' \
    bad/page.jpg 'is neither JPEG nor PNG, but HTML' \
    bad/short.png 'PNG: it ends early' \
    bad/vanished.jpg 'cannot be read: No such file or directory')"
embed -q --bad-images skip -o skipped.arrow bad/*
ok 'skip gives the same bytes' cmp good.arrow skipped.arrow
exits '--max-pixels' 1 embed --max-pixels 1000 rgb0.png
err_like 'says how many there are' 'has 32 x 36 pixels, more than --max-pixels 1000'
exits 'another policy' 2 embed --bad-images ignore rgb0.png
embed -o none.arrow --bad-images skip bad/empty.jpg 2>/dev/null
is 'no image at all: no row' "$(ctr-info none.arrow | grep rows)" 'rows: 0'

# --update: only what is new is computed, and the bytes are those of one run.
embed -o some.arrow rgb*.png
cp some.arrow keep.arrow
embed --update some.arrow -o again.arrow ./*.png ./*.jpg 2>said
ok '--update gives the bytes of one run' cmp all.arrow again.arrow
is 'and says what it computed' "$(cat said)" 'ctr-embed-images: 9 images computed, 7 taken over, 0 bad'
embed --update all.arrow -o again.arrow rgb0.png 2>said
is 'nothing is computed twice' "$(cat said)" 'ctr-embed-images: 0 images computed, 16 taken over, 0 bad'
ok 'with nothing new' cmp all.arrow again.arrow
exits 'of another network' 2 ctr-embed-images -w rounded.safetensors --update some.arrow -o none2.arrow ./*.png
err_like 'is refused' 'some.arrow was made by vgg16-fc6 .*not comparable'
exits 'of another type' 2 embed --type float16 --update some.arrow -o none2.arrow ./*.png
exits 'in place' 2 embed --update some.arrow -o some.arrow ./*.png
ok 'which leaves it as it was' cmp some.arrow keep.arrow

# Several minibatches of the network: a vector does not depend on what is computed beside it, nor on which run of --update computes it.
mkdir many
i=0
while [ $i -lt 75 ]; do
    # shellcheck disable=SC2012
    ln "$(ls ./*.png ./*.jpg | sed -n "$((i % 16 + 1))p")" many/$i.jpg
    i=$((i + 1))
done
ls many >many.names
for j in 1 3; do
    tar --hard-dereference -C many -cf many.tar $([ $j = 1 ] && cat many.names || sort -r many.names)
    embed -j $j -o many$j.arrow many.tar
done
ok '75 images: -j 1, and -j 3 in another order, give the same bytes' cmp many1.arrow many3.arrow
is 'and vectors of each image alone' "$(vector_of many1.arrow 37)" "$(vector_of all.arrow "$(ls ./*.png ./*.jpg | sed -n '6s/^..\(.*\)\....$/\1/p')")"
# shellcheck disable=SC2046
embed -o part1.arrow $(sed -n '1,33s|^|many/|p' many.names)
# shellcheck disable=SC2046
embed -q --update part1.arrow -o part2.arrow $(sed -n '20,70s|^|many/|p' many.names)
embed -v --update part2.arrow -o part3.arrow many.tar 2>said
ok 'in three runs of --update too' cmp many1.arrow part3.arrow
is 'of which the last computes what is new' "$(tail -n 1 said)" 'ctr-embed-images: 5 images computed, 70 taken over, 0 bad'

# kill -9 in the middle of a run: neither the table that it updates nor the one that it would replace changes, and the next run gives the bytes of one
# that was never killed.
cp part1.arrow old.arrow
cp part2.arrow new.arrow
mkfifo pipe
embed --update old.arrow -o new.arrow pipe 2>/dev/null &
pid=$!
exec 8<>pipe
head -c 40000 many.tar >&8
sleep 1
kill -9 $pid
wait $pid
is 'kill -9' $? 137
exec 8>&-
ok 'leaves the table that it updates' cmp old.arrow part1.arrow
ok 'and the one that it would replace' cmp new.arrow part2.arrow
embed -q --update old.arrow -o new.arrow many.tar
ok 'and the next run is whole' cmp new.arrow many1.arrow
rm -r many

# Keys.
cp rgb0.png 7.png; cp rgb1.png 10.png
ok 'integer keys' embed --key-type int64 -o numbers.arrow 10.png 7.png
is 'are sorted as numbers' "$(ctr-export --format csv --no-header -c key numbers.arrow | tr '\n' ' ')" '7 10 '
exits 'a stem that is none' 1 embed --key-type int64 rgb0.png
rm 7.png 10.png

# A stream with a column of binary.
if has_python pyarrow; then
    "$PY" - <<'PYTHON'
import glob, pyarrow as pa
names = sorted(glob.glob('*.png') + glob.glob('*.jpg'))
data = [open(n, 'rb').read() for n in names]
for kind, t in ('binary', pa.binary()), ('large', pa.large_binary()), ('view', pa.binary_view()):
    table = pa.table({'n': pa.array(range(len(names))), 'key': [n.rsplit('.', 1)[0] for n in names], 'bytes': pa.array(data, t)})
    with pa.ipc.new_stream(kind + '.arrows', table.schema) as w:
        w.write_table(table, max_chunksize=5)
PYTHON
    for kind in binary large view; do
        ok "a column of $kind" embed --column bytes --id key -o again.arrow $kind.arrows
        is 'gives the same rows' "$(ctr-info --digest again.arrow)" "$(ctr-info --digest all.arrow)"
    done
    ok 'integer keys of a stream' embed --column bytes --id n -o again.arrow binary.arrows
    exits 'a column that is no binary' 2 embed --column n --id key binary.arrows
    exits 'a stream without --column' 2 embed binary.arrows
    err_like 'names the option' 'is a record stream: --column'
    exits 'other tools still refuse bytes that are no text' 1 ctr-export --format csv binary.arrows
else
    skip 'a column of binary' 'no pyarrow'
fi
exits '--id without --column' 2 embed --id key rgb0.png
exits '--key-type with --column' 2 embed --column c --key-type int64 rgb0.png
exits '/dev/full' 1 sh -c 'ctr-embed-images -w tiny.safetensors rgb0.png >/dev/full'

# The example that fetches VGG16's convolutions writes nothing from a file that holds others.
if has_python numpy; then
    "$PY" - <<'PYTHON'
def field(number, data):
    n, size = len(data), b''
    while n > 127:
        size, n = size + bytes([n & 127 | 128]), n >> 7
    return bytes([number << 3 | 2]) + size + bytes([n]) + data
graph, width = b'', 3
for block, convs, out in (1, 2, 64), (2, 2, 128), (3, 3, 256), (4, 3, 512), (5, 3, 512):
    for conv in range(1, convs + 1):
        for end, n in ('convolution/ReadVariableOp:0', out * width * 9), ('Squeeze:0', out):
            name = 'functional_1/block%d_conv%d_1/%s' % (block, conv, end)
            graph += field(5, field(8, name.encode()) + field(9, bytes(4 * n)))
        width = out
open('zeros.onnx', 'wb').write(field(7, graph))
open('other.onnx', 'wb').write(field(7, field(5, field(8, b'w') + field(9, bytes(4)))))
PYTHON
    exits 'vgg16-weights.py with other weights' 1 "$PY" "$CTR_TOP/examples/vgg16-weights.py" --model zeros.onnx weights.safetensors
    err_like 'tells their sum' 'the convolutions have 58858752 bytes and sha256 [0-9a-f]{64}: they are not those that are expected'
    exits 'with another network' 1 "$PY" "$CTR_TOP/examples/vgg16-weights.py" --model other.onnx weights.safetensors
    err_like 'names what is missing' 'has no initializer functional_1/block1_conv1_1/convolution'
    ok 'and writes nothing' sh -c '! ls weights.safetensors*'
    rm zeros.onnx
else
    skip 'vgg16-weights.py' 'no numpy'
fi

# Real posters: 3,867 progressive, 4 baseline, a PNG named .jpg.
posters=$DATA/ml1m_posters/posters.tar
if [ -f "$posters" ] && [ -z "$SAN" ]; then
    ok 'ml1m_posters' embed -q --key-type int64 -o posters.arrow "$posters"
    is 'all of them' "$(ctr-info posters.arrow | grep rows)" 'rows: 3872'
else
    skip 'ml1m_posters' 'not there, or sanitizers'
fi
done_testing
