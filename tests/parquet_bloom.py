"""Files with bloom filters as BloomFilter.md says, made byte by byte: parquet_bloom.py DIR writes DIR/bloom.parquet, and bloom-KIND.parquet
with filters that bound nothing. XXH64 and the split blocks are written from their descriptions."""
import os, struct, sys

where = sys.argv[1]
from parquet_raw import BYTES, INT32, INT64, REQUIRED, Struct, element, page, varint, zigzag

DOUBLE, M = 5, (1 << 64) - 1
P1, P2, P3, P4, P5 = 0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9, 0x85EBCA77C2B2AE63, 0x27D4EB2F165667C5
SALT = [0x47b6137b, 0x44974d91, 0x8824ad5b, 0xa2b7289d, 0x705495c7, 0x2df1424b, 0x9efc4947, 0x5c6bfb31]


def rotl(x, r):
    return (x << r | x >> 64 - r) & M


def xxh64(data):
    """Of fewer than 32 bytes, seed 0."""
    assert len(data) < 32
    h, i = (P5 + len(data)) & M, 0
    while i + 8 <= len(data):
        k = rotl(struct.unpack_from("<Q", data, i)[0] * P2 & M, 31) * P1 & M
        h, i = (rotl(h ^ k, 27) * P1 + P4) & M, i + 8
    if i + 4 <= len(data):
        h, i = (rotl(h ^ struct.unpack_from("<I", data, i)[0] * P1 & M, 23) * P2 + P3) & M, i + 4
    for b in data[i:]:
        h = rotl(h ^ b * P5 & M, 11) * P1 & M
    h = (h ^ h >> 33) * P2 & M
    h = (h ^ h >> 29) * P3 & M
    return h ^ h >> 32


assert xxh64(b"") == 0xEF46DB3751D8E999 and xxh64(b"abc") == 0x44BC2CF5AD770999


def bloom(values, kind="", blocks=8):
    words = [[0] * 8 for _ in range(blocks)]
    for v in values:
        h = xxh64(v)
        for i in range(8):
            words[(h >> 32) * blocks >> 32][i] |= 1 << (((h & 0xffffffff) * SALT[i] & 0xffffffff) >> 27)
    choice = lambda n: Struct().struct(n, Struct())
    head = Struct().i32(1, blocks * 32 - (kind == "short")).struct(2, choice(2 if kind == "kind" else 1)).struct(3, choice(2 if kind == "hash" else 1))
    head.struct(4, choice(2 if kind == "packed" else 1))
    return head.end() + b"".join(struct.pack("<8I", *w) for w in words)


LEAVES = [("n", INT64, None, "<q"), ("s", BYTES, 0, None), ("f", DOUBLE, None, "<d"), ("d", INT32, 6, "<i")]
GROUPS = [[(1, b"one", .25, 18262), (5, b"five", .5, 18267), (10, b"ten", 9., 18300)],
          [(1, b"one", .25, 18262), (6, b"six", .75, 18268), (10, b"ten", 9., 18300)]]


def make(kind=""):
    body, groups = b"PAR1", []
    for rows in GROUPS:
        chunks, start = [], len(body)
        for (name, type, _, form), values in zip(LEAVES, zip(*rows)):
            raw = [struct.pack(form, v) if form else v for v in values]
            plain = b"".join(raw) if form else b"".join(struct.pack("<I", len(v)) + v for v in raw)
            at, data = len(body), page([(0, 0)] * len(rows), plain, 0, 0)
            body += data
            filter_at = 1 << 40 if kind == "far" else len(body)
            body += bloom(raw, kind)
            s = Struct()
            for number, v in ((5, max(raw) if not form else struct.pack(form, max(values))), (6, min(raw) if not form else struct.pack(form, min(values)))):
                s.field(number, 8, varint(len(v)) + v)
            meta = Struct().i32(1, type).list(2, 5, [zigzag(0)]).list(3, 8, [varint(len(name)) + name.encode()]).i32(4, 0)
            meta.i64(5, len(rows)).i64(6, len(data)).i64(7, len(data)).i64(9, at).struct(12, s).i64(14, filter_at)
            chunks.append(Struct().i64(2, 0).struct(3, meta).end())
        groups.append(Struct().list(1, 12, chunks).i64(2, len(body) - start).i64(3, len(rows)).end())
    elements = [element("m", children=len(LEAVES))] + [element(n, REQUIRED, t, converted=c) for n, t, c, _ in LEAVES]
    footer = Struct().i32(1, 1).list(2, 12, elements).i64(3, sum(map(len, GROUPS))).list(4, 12, groups)
    footer.list(7, 12, [Struct().struct(1, Struct()).end()] * len(LEAVES))
    footer = footer.end()
    return body + footer + struct.pack("<I", len(footer)) + b"PAR1"


for kind in "", "kind", "hash", "packed", "short", "far":
    with open(os.path.join(where, f"bloom{kind and '-' + kind}.parquet"), "wb") as f:
        f.write(make(kind))
