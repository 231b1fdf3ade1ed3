"""Parquet files made byte by byte, of shapes that no installed writer makes: parquet_raw.py DIR writes DIR/NAME.parquet and what their rows
are, DIR/NAME.jsonl. Nothing but Python is needed."""
import os, struct, sys, zlib


def varint(n):
    out = b""
    while True:
        n, byte = n >> 7, n & 127
        if not n:
            return out + bytes([byte])
        out += bytes([byte | 128])


def zigzag(n):
    return varint((n << 1) ^ (n >> 63))


class Struct:
    """Thrift's compact protocol."""

    def __init__(self):
        self.bytes, self.last = b"", 0

    def field(self, number, wire, value):
        self.bytes += bytes([number - self.last << 4 | wire]) + value
        self.last = number
        return self

    def i32(self, number, n):
        return self if n is None else self.field(number, 5, zigzag(n))

    def i64(self, number, n):
        return self.field(number, 6, zigzag(n))

    def text(self, number, s):
        return self.field(number, 8, varint(len(s)) + s.encode())

    def struct(self, number, s):
        return self.field(number, 12, s.end())

    def list(self, number, wire, values):
        head = bytes([len(values) << 4 | wire]) if len(values) < 15 else bytes([0xf0 | wire]) + varint(len(values))
        return self.field(number, 9, head + b"".join(values))

    def end(self):
        return self.bytes + b"\0"


REQUIRED, OPTIONAL, REPEATED = 0, 1, 2
INT32, INT64, BYTES = 1, 2, 6
DELTA_BYTE_ARRAY = 7
MAP, LIST = 1, 3


def element(name, repetition=None, type=None, children=None, converted=None, scale=None, precision=None):
    return Struct().i32(1, type).i32(3, repetition).text(4, name).i32(5, children).i32(6, converted).i32(7, scale).i32(8, precision).end()


def rle(levels, width):
    """Levels as runs of one, with their length before them."""
    data = b"".join(varint(1 << 1) + bytes([v]) for v in levels) if width else b""
    return struct.pack("<I", len(data)) + data if width else b""


def msb(levels, width):
    """The deprecated packing: the most significant bit first."""
    bits = "".join(format(v, f"0{width}b") for v in levels)
    bits += "0" * (-len(bits) % 8)
    return bytes(int(bits[i:i + 8], 2) for i in range(0, len(bits), 8))


def page(levels, values, most_rep, most_def, packed=False, encoding=0):
    """A data page of (repetition, definition) levels and PLAIN values, or bytes of another encoding."""
    width = lambda most: most.bit_length()
    pack = msb if packed else rle
    body = (pack([r for r, _ in levels], width(most_rep)) if most_rep else b"") + (pack([d for _, d in levels], width(most_def)) if most_def else b"")
    body += values if isinstance(values, bytes) else b"".join(struct.pack("<i", v) if isinstance(v, int) else struct.pack("<I", len(v)) + v for v in values)
    how = 4 if packed else 3
    head = Struct().i32(1, 0).i32(2, len(body)).i32(3, len(body)).struct(5, Struct().i32(1, len(levels)).i32(2, encoding).i32(3, how).i32(4, how))
    return head.end() + body


def file(rows, elements, leaves, codec=0, statistics=None, ordered=False):
    """leaves: (path, type, number of levels, pages); statistics: of each of them; ordered: whether bounds have the order of the type."""
    body, chunks = b"PAR1", []
    for path, type, n, pages in leaves:
        data = b"".join(pages)
        meta = Struct().i32(1, type).list(2, 5, [zigzag(0)]).list(3, 8, [varint(len(p)) + p.encode() for p in path]).i32(4, codec)
        meta.i64(5, n).i64(6, len(data)).i64(7, len(data)).i64(9, len(body))
        if statistics:
            meta.struct(12, statistics)
        chunks.append(Struct().i64(2, 0).struct(3, meta).end())
        body += data
    group = Struct().list(1, 12, chunks).i64(2, len(body)).i64(3, rows).end()
    footer = Struct().i32(1, 1).list(2, 12, elements).i64(3, rows).list(4, 12, [group])
    if ordered:
        footer.list(7, 12, [Struct().struct(1, Struct()).end()] * len(leaves))
    footer = footer.end()
    return body + footer + struct.pack("<I", len(footer)) + b"PAR1"


def constant(n, v):
    """n times v, in DELTA_BINARY_PACKED: a block of deltas of no bits."""
    return varint(128) + varint(4) + varint(n) + zigzag(v) + (zigzag(0) + bytes(4)) * -(-(n - 1) // 128)


# Decimals of two bytes as byte arrays whose common beginnings are left out, of which there are none.
CENTS = [i * 37 % 20000 - 10000 for i in range(300)]
DELTAS = constant(300, 0) + constant(300, 2) + b"".join(struct.pack(">h", v) for v in CENTS)

# Lists of rows [1,2], [], [3] in two pages, the second beginning within the first row.
LEVELS = [[(0, 1)], [(1, 1), (0, 0), (0, 1)]]
VALUES = [[1], [2, 3]]


def lists(most_def, shift, elements, path, packed=False):
    pages = [page([(r, d + shift) for r, d in levels], values, 1, most_def, packed) for levels, values in zip(LEVELS, VALUES)]
    return file(3, elements, [(path, INT32, 4, pages)])


ROWS = ['{"l":[1,2]}', '{"l":[]}', '{"l":[3]}']
FILES = {
    # a repeated value without an annotation: never null
    "repeated": (lists(1, 0, [element("m", children=1), element("l", REPEATED, INT32)], ["l"]), ROWS),
    # two levels: the repeated field is the element
    "two": (lists(2, 1, [element("m", children=1), element("l", OPTIONAL, children=1, converted=LIST), element("array", REPEATED, INT32)],
                  ["l", "array"]), ROWS),
    # three levels, and an element that is required
    "three": (lists(2, 1, [element("m", children=1), element("l", OPTIONAL, children=1, converted=LIST), element("bag", REPEATED, children=1),
                           element("array_element", REQUIRED, INT32)], ["l", "bag", "array_element"]), ROWS),
    # the only member of a struct, in a repeated group whose name says that it is the element
    "tuple": (lists(1, 0, [element("m", children=1), element("l", REQUIRED, children=1, converted=LIST), element("l_tuple", REPEATED, children=1),
                           element("n", REQUIRED, INT32)], ["l", "l_tuple", "n"]), ['{"l":{"n":[1,2]}}', '{"l":{"n":[]}}', '{"l":{"n":[3]}}']),
    # levels in the packing that is no longer written
    "packed": (lists(2, 1, [element("m", children=1), element("l", OPTIONAL, children=1, converted=LIST), element("array", REPEATED, INT32)],
                     ["l", "array"], True), ROWS),
    "decimals": (file(300, [element("m", children=1), element("d", REQUIRED, BYTES, converted=5, scale=2, precision=4)],
                      [(["d"], BYTES, 300, [page([(0, 0)] * 300, DELTAS, 0, 0, encoding=DELTA_BYTE_ARRAY)])]),
                 ['{"d":"%s%d.%02d"}' % ("-" if v < 0 else "", abs(v) // 100, abs(v) % 100) for v in CENTS]),
    "clock": (file(1, [element("m", children=1), element("t", REQUIRED, INT64, converted=8)], [(["t"], INT64, 1, [page([(0, 0)], struct.pack("<q", 7000), 0, 0)])]),
              ['{"t":7}']),
    "number": (file(1, [element("m", children=1), element("t", REQUIRED, INT64)], [(["t"], INT64, 1, [page([(0, 0)], struct.pack("<q", 7000), 0, 0)])]),
               ['{"t":7000}']),
    # a struct that may be missing, of a value that may be
    "struct": (file(3, [element("m", children=1), element("s", OPTIONAL, children=1), element("x", OPTIONAL, BYTES, converted=0)],
                    [(["s", "x"], BYTES, 3, [page([(0, 2), (0, 1), (0, 0)], [b"a"], 0, 2)])]), ['{"s":{"x":"a"}}', '{"s":{"x":null}}', '{"s":{"x":null}}']),
}
REFUSED = {
    "map": file(1, [element("m", children=2), element("k", OPTIONAL, children=1, converted=MAP), element("key_value", REPEATED, children=2),
                    element("key", REQUIRED, INT32), element("value", OPTIONAL, INT32), element("n", REQUIRED, INT32)],
                [(["k", "key_value", "key"], INT32, 1, [page([(0, 2)], [1], 1, 2)]), (["k", "key_value", "value"], INT32, 1, [page([(0, 3)], [1], 1, 3)]),
                 (["n"], INT32, 1, [page([(0, 0)], [7], 0, 0)])]),
    "deep": file(1, [element("m", children=1), element("l", REPEATED, children=1), element("x", REPEATED, INT32)],
                 [(["l", "x"], INT32, 1, [page([(0, 2)], [1], 2, 2)])]),
    "invalid": file(1, [element("m", children=1), element("t", REQUIRED, BYTES)], [(["t"], BYTES, 1, [page([(0, 0)], [b"\xff"], 0, 0)])]),
    # lies: a tree without an end, one of more children than there are, more rows and fewer than there are, a page without its values
    "cycle": file(0, [element("m", children=1)] * 9, []),
    "childless": file(0, [element("m", children=1 << 30)], []),
    "more": file(5, [element("m", children=1), element("n", REQUIRED, INT32)], [(["n"], INT32, 1, [page([(0, 0)], [7], 0, 0)])]),
    "fewer": file(1, [element("m", children=1), element("n", REQUIRED, INT32)], [(["n"], INT32, 2, [page([(0, 0)] * 2, [7, 8], 0, 0)])]),
    "empty": file(2, [element("m", children=1), element("n", REQUIRED, INT32)], [(["n"], INT32, 2, [page([(0, 0)] * 2, [7], 0, 0)])]),
    "huge": file(1 << 40, [element("m", children=1), element("n", REQUIRED, INT32)], [(["n"], INT32, 1 << 40, [page([(0, 0)] * 2, [7, 8], 0, 0)])]),
}

def bounded(old, low, high, ordered=True, nulls=None, converted=None):
    """The numbers 7 and -5 with these bounds, in the deprecated fields or the others."""
    s = Struct()
    put = lambda number, v: s.field(number, 8, varint(len(v)) + v)
    if old:
        put(1, high), put(2, low)
    if nulls is not None:
        s.i64(3, nulls)
    if not old:
        put(5, high), put(6, low)
    return file(2, [element("m", children=1), element("n", OPTIONAL, INT32, converted=converted)],
                [(["n"], INT32, 2, [page([(0, 1)] * 2, [7, -5], 0, 1)])], statistics=s, ordered=ordered)


i32 = lambda v: struct.pack("<i", v)
BOUNDED = {
    "bounds": bounded(False, i32(-5), i32(7), nulls=0),
    "bounds-old": bounded(True, i32(-5), i32(7), False),
    # what bounds nothing: signed bounds of an unsigned column, no order, reversed, of another size, more nulls than rows
    "bounds-unsigned": bounded(True, i32(-5), i32(7), False, converted=13),
    "bounds-unordered": bounded(False, i32(0), i32(1), False),
    "bounds-reversed": bounded(False, i32(1), i32(0)),
    "bounds-short": bounded(False, b"\1", b"\2"),
    "bounds-nulls": bounded(False, i32(-5), i32(7), nulls=9),
}
for name, data in BOUNDED.items():
    with open(os.path.join(sys.argv[1], name + ".parquet"), "wb") as f:
        f.write(data)

# two columns of one name, and a column of nothing but nulls that has values
REFUSED["twice"] = file(1, [element("m", children=2), element("a.b", REQUIRED, INT32), element("a", REQUIRED, children=1), element("b", REQUIRED, INT32)],
                        [(["a.b"], INT32, 1, [page([(0, 0)], [7], 0, 0)]), (["a", "b"], INT32, 1, [page([(0, 0)], [8], 0, 0)])])
unknown = Struct().i32(1, INT32).i32(3, OPTIONAL).text(4, "u").struct(10, Struct().struct(11, Struct())).end()
REFUSED["filled"] = file(1, [element("m", children=1), unknown], [(["u"], INT32, 1, [page([(0, 1)], [7], 0, 1)])])
FILES["unknown"] = (file(1, [element("m", children=1), unknown], [(["u"], INT32, 1, [page([(0, 0)], [], 0, 1)])]), ['{"u":null}'])


def bomb(size, said):
    """A page of zeros in gzip, which is said to unpack to so many bytes."""
    z = zlib.compressobj(9, zlib.DEFLATED, 31)
    data = z.compress(bytes(size)) + z.flush()
    head = Struct().i32(1, 0).i32(2, said).i32(3, len(data)).struct(5, Struct().i32(1, said // 4).i32(2, 0).i32(3, 3).i32(4, 3))
    return file(said // 4, [element("m", children=1), element("n", REQUIRED, INT32)], [(["n"], INT32, said // 4, [head.end() + data])], codec=2)


REFUSED["bomb"], REFUSED["announced"] = bomb(64 << 20, 64 << 20), bomb(400, 1 << 30)

for name, (data, rows) in FILES.items():
    with open(os.path.join(sys.argv[1], name + ".parquet"), "wb") as f:
        f.write(data)
    with open(os.path.join(sys.argv[1], name + ".jsonl"), "w") as f:
        f.write("".join(r + "\n" for r in rows))
for name, data in REFUSED.items():
    with open(os.path.join(sys.argv[1], name + ".parquet"), "wb") as f:
        f.write(data)
