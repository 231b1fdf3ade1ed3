#!/bin/sh
# ctr-import: npy and safetensors to streams: there and back, what is refused, headers that lie. No NumPy is needed.
. "${0%/*}/lib.sh"
cd "$W" || exit 1

# npy VERSION DESCR SHAPE BYTES(hex) FILE [ORDER]; safetensors HEADER(json) DATA(hex) FILE
cat >make.py <<'PYTHON'
import struct, sys
def npy(version, descr, shape, data, path, order='False'):
    text = "{'descr': %s, 'fortran_order': %s, 'shape': %s, }" % (descr if descr[0] == '[' else repr(descr), order, shape)
    head = text.encode() + b' ' * (-(len(text) + 11) % 64) + b'\n'
    size = struct.pack('<H' if version == '1' else '<I', len(head))
    open(path, 'wb').write(b'\x93NUMPY' + bytes([int(version), 0]) + size + head + bytes.fromhex(data))
def safetensors(head, data, path, length=None):
    head = head.encode()
    open(path, 'wb').write(struct.pack('<Q', int(length) if length else len(head)) + head + bytes.fromhex(data))
globals()[sys.argv[1]](*sys.argv[2:])
PYTHON
npy() { "$PY" make.py npy "$@"; }
safetensors() { "$PY" make.py safetensors "$@"; }
rows() { ctr-import "$@" | ctr-export --format jsonl | tr '\n' ' '; }

npy 1 '<f4' '(2, 3)' 0000803f0000004000004040000080400000a0400000c040 m.npy
is 'a matrix is a column of lists' "$(rows m.npy)" '{"value":[1,2,3]} {"value":[4,5,6]} '
is 'from stdin' "$(ctr-import --format npy <m.npy | ctr-info --digest)" "$(ctr-import m.npy | ctr-info --digest)"
is 'renamed' "$(rows -c vector=value m.npy)" '{"vector":[1,2,3]} {"vector":[4,5,6]} '
ctr-import m.npy | ctr-export --format npy >back.npy
is 'and back' "$(tail -c 24 back.npy | od -An -tx1)" "$(tail -c 24 m.npy | od -An -tx1)"
npy 2 '<i8' '(2,)' 0100000000000000ffffffffffffffff v.npy
is 'a vector is a column of numbers' "$(rows v.npy)" '{"value":1} {"value":-1} '
npy 3 '|b1' '(3,)' 010001 b.npy
is 'bools' "$(rows b.npy)" '{"value":true} {"value":false} {"value":true} '
npy 1 '<M8[ms]' '(1,)' 0000000000000000 t.npy
is 'times' "$(rows t.npy)" '{"value":"1970-01-01T00:00:00Z"} '
npy 1 '<f8' '()' 000000000000f03f s.npy
is 'one number is one row' "$(rows s.npy)" '{"value":1} '
npy 1 '<f4' '(0, 3)' '' e.npy
is 'no row' "$(ctr-import e.npy | ctr-info | grep rows)" 'rows: 0'
npy 1 '<u2' '(1, 2, 2)' 0100020003000400 d.npy
is 'more dimensions are one list' "$(rows -q d.npy)" '{"value":[1,2,3,4]} '
ctr-import d.npy 2>said >/dev/null
is 'which is told' "$(cat said)" 'ctr-import: value U16 [1, 2, 2]: what lies behind the first dimension becomes one list, in C order'

refused() { # refused FILE REGEX [ARG…]
    _f=$1 _re=$2
    shift 2
    exits "$_f $* is refused" 1 ctr-import "$@" "$_f"
    err_like 'and says why' "$_re"
}
npy 1 '<f4' '(2, 2)' 0000803f0000004000004040000080400000a040 long.npy
refused long.npy 'tensor value: the header gives it 20 bytes'
npy 1 '<f4' '(2, 2)' 0000803f short.npy
refused short.npy 'tensor value: the header gives it 4 bytes'
npy 1 '<f4' '(4611686018427387904, 8)' 00 huge.npy
refused huge.npy 'more than 2\^63 elements'
npy 1 '>f4' '(1,)' 00000000 big.npy
refused big.npy "npy of '>f4' is not read: little-endian"
npy 1 '<f4' '(1, 2)' 0000000000000000 fortran.npy True
refused fortran.npy 'Fortran order: numpy.ascontiguousarray'
npy 1 "[('a', '<f4')]" '(1,)' 00000000 records.npy
refused records.npy 'an array of records is not read'
npy 1 '|b1' '(1,)' 02 two.npy
refused two.npy 'a bool is 2'
npy 9 '<f4' '(1,)' 00000000 nine.npy
refused nine.npy 'npy of version 9'
head -c 30 m.npy >cut.npy
refused cut.npy 'the header says that it ends at byte'
exits 'options of text' 2 ctr-import --header m.npy
exits 'two files' 2 ctr-import m.npy m.npy
exits 'an unknown tensor' 2 ctr-import -c vectors=valu m.npy
err_like 'and what there is' "there is no tensor 'valu'"

head='{"__metadata__":{"format":"pt"},"v":{"dtype":"F32","shape":[2,2],"data_offsets":[0,16]},"k":{"dtype":"I64","shape":[2],"data_offsets":[16,32]}}'
data=0000803f000000400000404000008040 keys=01000000000000000200000000000000
safetensors "$head" $data$keys a.safetensors
is 'tensors are columns' "$(rows a.safetensors)" '{"v":[1,2],"k":1} {"v":[3,4],"k":2} '
is 'those that are named, in that order' "$(rows -c key=k,vector=v a.safetensors)" '{"key":1,"vector":[1,2]} {"key":2,"vector":[3,4]} '
is 'a role' "$(ctr-import --id k a.safetensors | ctr-info | awk '$1 == "k" { print $3 }')" id
ctr-import a.safetensors | ctr-export --format safetensors -o b.safetensors
is 'and back' "$(ctr-import -c v,k b.safetensors | ctr-info --digest)" "$(ctr-import a.safetensors | ctr-info --digest)"
ctr-import -c key=k,vector=v a.safetensors | ctr-cat --to file --key key -o table.arrow
is 'a table of images' "$(printf 'key\n2\n' | ctr-import --format csv --header | ctr-join -k key table.arrow - | ctr-export --format jsonl)" \
    '{"key":2,"vector":[3,4]}'
safetensors '{"h":{"dtype":"BF16","shape":[1,2],"data_offsets":[0,4]}}' c03f80bf h.safetensors
is 'BF16 becomes float32' "$(rows h.safetensors)" '{"h":[1.5,-1]} '

lie() { # lie NAME HEADER DATA REGEX [LENGTH]
    safetensors "$2" "$3" lie.safetensors ${5:+"$5"}
    exits "safetensors: $1" 1 ctr-import lie.safetensors
    err_like 'and says so' "$4"
}
lie 'rows that differ' "$(echo "$head" | sed 's/"I64","shape":\[2\]/"I32","shape":[4]/')" $data$keys 'name tensors of one first dimension'
lie 'a length beyond the file' "$head" $data$keys 'header says that it ends at byte 100008' 100000
lie 'a length of 2^64-1' "$head" '' 'the header says' 18446744073709551615
lie 'data that ends early' "$head" $data 'tensor k: data_offsets 16 and 32 of 16'
lie 'bytes behind the last' "$head" $data${keys}00 'the tensors end at byte'
lie 'a hole' "$(echo "$head" | sed 's/\[16,32\]/[24,40]/')" $data$keys$keys 'where the data before it ends'
lie 'an overlap' "$(echo "$head" | sed 's/\[16,32\]/[8,24]/')" $data$keys 'where the data before it ends'
lie 'a shape that is none of its bytes' "$(echo "$head" | sed 's/\[2,2\]/[2,3]/')" $data$keys 'not what its shape takes'
lie 'offsets the wrong way' "$(echo "$head" | sed 's/\[16,32\]/[32,16]/')" $data$keys 'data_offsets 32 and 16'
lie 'a negative shape' "$(echo "$head" | sed 's/\[2,2\]/[-2,-2]/')" $data$keys 'no integer of 0 or more'
lie 'a type that is not read' "$(echo "$head" | sed 's/"F32"/"F8_E4M3"/')" $data$keys 'a dtype is none of'
lie 'a name twice' "$(echo "$head" | sed 's/"k"/"v"/')" $data$keys 'two tensors have the name v'
lie 'no JSON' '{"v":' '' 'no JSON object|ends early'
lie 'no tensor' '{}' '' 'there is no tensor'
lie 'a shape of nine dimensions' "$(echo "$head" | sed 's/\[2,2\]/[1,1,1,1,1,1,1,2,2]/')" $data$keys 'an array is too long'
exits '/dev/full' 1 sh -c 'ctr-import a.safetensors >/dev/full'
done_testing
