#!/usr/bin/env python3
"""ctr-embed-images against plain Python: pictures, networks and vectors, with the standard library alone.

    images_reference.py make DIR                 writes pictures (*.png, *.jpg) and networks (*.safetensors)
    images_reference.py vectors DIR [caffe]      JSON lines {"key", "vector"} of the PNGs, by loops that read like the page
"""
import base64
import json
import math
import random
import struct
import sys
import zlib

WIDTHS = [4, 5, 6, 4, 7, 4, 5, 6, 4, 5, 4, 6, 5]
CONVS = [0, 2, 5, 7, 10, 12, 14, 17, 19, 21, 24, 26, 28]
POOLED = {2, 7, 14, 21, 28}
OUT, SIDE = 9, 32

# What Pillow writes for a smooth picture of 48 x 36 pixels: (40 + 4x, 200 - 5y, 60 + 2x + y), quality 60.
JPEGS = {
    'baseline': '''
/9j/4AAQSkZJRgABAQAAAQABAAD/2wBDAA0JCgsKCA0LCgsODg0PEyAVExISEyccHhcgLikxMC4pLSwzOko+MzZGNywtQFdBRkxOUlNSMj5aYVpQYEpRUk//2wBDAQ4ODhMREyYVFSZP
NS01T09PT09PT09PT09PT09PT09PT09PT09PT09PT09PT09PT09PT09PT09PT09PT09PT0//wAARCAAkADADASIAAhEBAxEB/8QAHwAAAQUBAQEBAQEAAAAAAAAAAAECAwQFBgcICQoL
/8QAtRAAAgEDAwIEAwUFBAQAAAF9AQIDAAQRBRIhMUEGE1FhByJxFDKBkaEII0KxwRVS0fAkM2JyggkKFhcYGRolJicoKSo0NTY3ODk6Q0RFRkdISUpTVFVWV1hZWmNkZWZnaGlqc3R1
dnd4eXqDhIWGh4iJipKTlJWWl5iZmqKjpKWmp6ipqrKztLW2t7i5usLDxMXGx8jJytLT1NXW19jZ2uHi4+Tl5ufo6erx8vP09fb3+Pn6/8QAHwEAAwEBAQEBAQEBAQAAAAAAAAECAwQF
BgcICQoL/8QAtREAAgECBAQDBAcFBAQAAQJ3AAECAxEEBSExBhJBUQdhcRMiMoEIFEKRobHBCSMzUvAVYnLRChYkNOEl8RcYGRomJygpKjU2Nzg5OkNERUZHSElKU1RVVldYWVpjZGVm
Z2hpanN0dXZ3eHl6goOEhYaHiImKkpOUlZaXmJmaoqOkpaanqKmqsrO0tba3uLm6wsPExcbHyMnK0tPU1dbX2Nna4uPk5ebn6Onq8vP09fb3+Pn6/9oADAMBAAIRAxEAPwByS1OktZSS
1OktcKonkUqRqpL71OktZSS1OkvvVqiejSpGqkvvU6S1lJLU6S1aono0qRxyS+9TpLWUktTpLXcqJwUqRqpL71OktZSS1OkvvVqiejSpGqktTpLWUkvvU6S1aonoUqRyKManRjRRW6PK
pE6ManRjRRVo9GkToxqdGNFFWj0aR//Z''',
    'progressive': '''
/9j/4AAQSkZJRgABAQAAAQABAAD/2wBDAA0JCgsKCA0LCgsODg0PEyAVExISEyccHhcgLikxMC4pLSwzOko+MzZGNywtQFdBRkxOUlNSMj5aYVpQYEpRUk//2wBDAQ4ODhMREyYVFSZP
NS01T09PT09PT09PT09PT09PT09PT09PT09PT09PT09PT09PT09PT09PT09PT09PT09PT0//wgARCAAkADADASIAAhEBAxEB/8QAGQABAQEBAQEAAAAAAAAAAAAAAgQAAwUB/8QAFwEB
AQEBAAAAAAAAAAAAAAAABAIBA//aAAwDAQACEAMQAAAB+uV8B1uV6mtyukeO5X34VuV6ityukeR02sr6bUh9NtT/AP/EABYQAQEBAAAAAAAAAAAAAAAAABEAIP/aAAgBAQABBQJmZmZm
ZmZmZmZmZmd//8QAFREBAQAAAAAAAAAAAAAAAAAAAgD/2gAIAQMBAT8BJiYmJiYmMY3/xAAWEQEBAQAAAAAAAAAAAAAAAAASACD/2gAIAQIBAT8BEIQhDH//xAAUEAEAAAAAAAAAAAAA
AAAAAABA/9oACAEBAAY/Anf/xAAVEAEBAAAAAAAAAAAAAAAAAAABAP/aAAgBAQABPyEhCEIQhCEIQhCEIQhCEIQYYYYYb//aAAwDAQACAAMAAAAQVWVUXVihi//EABQRAQAAAAAAAAAA
AAAAAAAAADD/2gAIAQMBAT8QH/8A/wD/xAAVEQEBAAAAAAAAAAAAAAAAAAAAAf/aAAgBAgEBPxCEIQhCIj//xAAYEAADAQEAAAAAAAAAAAAAAAAAAWEQIP/aAAgBAQABPxDPvnfn/vv3
zv3/AP3L5uHDhw4cf//Z''',
    'greyscale': '''
/9j/4AAQSkZJRgABAQAAAQABAAD/2wBDAA0JCgsKCA0LCgsODg0PEyAVExISEyccHhcgLikxMC4pLSwzOko+MzZGNywtQFdBRkxOUlNSMj5aYVpQYEpRUk//wAALCAAkADABAREA/8QA
HwAAAQUBAQEBAQEAAAAAAAAAAAECAwQFBgcICQoL/8QAtRAAAgEDAwIEAwUFBAQAAAF9AQIDAAQRBRIhMUEGE1FhByJxFDKBkaEII0KxwRVS0fAkM2JyggkKFhcYGRolJicoKSo0NTY3
ODk6Q0RFRkdISUpTVFVWV1hZWmNkZWZnaGlqc3R1dnd4eXqDhIWGh4iJipKTlJWWl5iZmqKjpKWmp6ipqrKztLW2t7i5usLDxMXGx8jJytLT1NXW19jZ2uHi4+Tl5ufo6erx8vP09fb3
+Pn6/9oACAEBAAA/AHJLU6S1OkvvU6S1OkvvU6S1xyS1OktTpLU6S+9TpLU6S1xyS+9TpLU6S+9TpLU6S1OktccktTpLU6S1OkvvU6S+9TpLXIoxqdGNToxqdGNToxqdGNf/2Q==''',
    'cmyk': '''
/9j/7gAOQWRvYmUAZAAAAAAA/9sAQwANCQoLCggNCwoLDg4NDxMgFRMSEhMnHB4XIC4pMTAuKS0sMzpKPjM2RjcsLUBXQUZMTlJTUjI+WmFaUGBKUVJP/8AAFAgAJAAwBEMRAE0RAFkR
AEsRAP/EAB8AAAEFAQEBAQEBAAAAAAAAAAABAgMEBQYHCAkKC//EALUQAAIBAwMCBAMFBQQEAAABfQECAwAEEQUSITFBBhNRYQcicRQygZGhCCNCscEVUtHwJDNicoIJChYXGBkaJSYn
KCkqNDU2Nzg5OkNERUZHSElKU1RVVldYWVpjZGVmZ2hpanN0dXZ3eHl6g4SFhoeIiYqSk5SVlpeYmZqio6Slpqeoqaqys7S1tre4ubrCw8TFxsfIycrS09TV1tfY2drh4uPk5ebn6Onq
8fLz9PX29/j5+v/aAA4EQwBNAFkASwAAPwDkbftXRfafeucjWvTq1LftR9p96sxrRWpb9qPtPvVqNaK1LftR9p96tRrRWnb9qPtPvVqNaK1LftR9p96tRrRXjlv2rG+0+9cnGtFalv2o
+0+9WY1orUt+1H2n3q1GtFalv2o+0+9Wo1orTt+1H2n3q1GtFalv2o+0+9Wo1orxy37VjfafeuSjWitS37UfaferUa0VqW/aj7T71ajWitS37UfaferUa0Vp2/aj7T71ajWitS37Ufaf
erUa0V45b9qx/tPvXJRrRWpb9qPtPvVqNaK1LftR9p96tRrRWpb9qPtPvVqNaK07ftR9p96tRrRWpb9qPtPvVqNaK8ct+1ZXmN61yUYorUt+1HmN61ZjFFalv2o8xvWrUYorUt+1HmN6
1ajFFadv2o8xvWrUYorUt+1HmN61ajFFf//Z''',
}


# ---- networks ----

def network():
    r = random.Random(7)
    shapes, width = {}, 3
    for layer, out in zip(CONVS, WIDTHS):
        shapes['features.%d.weight' % layer], shapes['features.%d.bias' % layer], width = [out, width, 3, 3], [out], out
    shapes['classifier.0.weight'], shapes['classifier.0.bias'] = [OUT, width], [OUT]
    values = {}
    for name, shape in shapes.items():
        deviation = math.sqrt(2 / math.prod(shape[1:])) if len(shape) > 1 else .1
        values[name] = [f32(r.gauss(0, deviation)) for _ in range(math.prod(shape))]
    return shapes, values


def f32(x):
    return struct.unpack('<f', struct.pack('<f', x))[0]


def bf16(x):
    return struct.pack('<f', x)[2:]


def write_network(path, shapes, values, dtype='F32', rename=None):
    head, data = {'__metadata__': {'format': 'pt'}}, b''
    for name, shape in shapes.items():
        v = b''.join(struct.pack('<f', x) if dtype == 'F32' else struct.pack('<e', x) if dtype == 'F16' else bf16(x)
                     for x in values[name])
        head[(rename or {}).get(name, name)] = {'dtype': dtype, 'shape': shape, 'data_offsets': [len(data), len(data) + len(v)]}
        data += v
    head = json.dumps(head).encode()
    head += b' ' * (-len(head) % 8)
    with open(path, 'wb') as f:
        f.write(struct.pack('<Q', len(head)) + head + data)


# ---- pictures: pixels (r, g, b), and PNG of them ----

def picture(n):
    width, height = [(32, 36), (50, 36), (36, 61), (17, 90), (200, 33)][n]
    r = random.Random(n)
    p = [r.randrange(256) for _ in range(6)]
    return width, height, [[((p[0] + 5 * x + y) % 256, (p[1] + 3 * y * (x // 7)) % 256, (p[2] + x * y // 5) % 256)
                            for x in range(width)] for y in range(height)]


def png(width, height, depth, colour, lines, extra=b''):
    def chunk(kind, data):
        return struct.pack('>I', len(data)) + kind + data + struct.pack('>I', zlib.crc32(kind + data))
    return (b'\x89PNG\r\n\x1a\n' + chunk(b'IHDR', struct.pack('>IIBBBBB', width, height, depth, colour, 0, 0, 0)) + extra
            + chunk(b'IDAT', zlib.compress(b''.join(b'\0' + line for line in lines))) + chunk(b'IEND', b''))


def palette_chunk(colours):
    data = b''.join(bytes(c) for c in colours)
    return struct.pack('>I', len(data)) + b'PLTE' + data + struct.pack('>I', zlib.crc32(b'PLTE' + data))


def pictures():
    """key: (bytes of a PNG, width, height, pixels as RGB)"""
    all_ = {}
    for n in range(5):
        w, h, p = picture(n)
        all_['rgb%d' % n] = (png(w, h, 8, 2, [b''.join(bytes(c) for c in line) for line in p]), w, h, p)
    w, h, p = picture(0)
    all_['rgba'] = (png(w, h, 8, 6, [b''.join(bytes(c) + bytes([x * 7 % 256]) for x, c in enumerate(line)) for line in p]), w, h, p)
    all_['rgb16'] = (png(w, h, 16, 2, [b''.join(struct.pack('>HHH', *(256 * v + 77 for v in c)) for c in line) for line in p]), w, h, p)
    grey = [[(c[0],) * 3 for c in line] for line in p]
    all_['grey'] = (png(w, h, 8, 0, [bytes(c[0] for c in line) for line in p]), w, h, grey)
    all_['greyalpha16'] = (png(w, h, 16, 4, [b''.join(struct.pack('>HH', 256 * c[0] + 200, 3) for c in line) for line in p]), w, h, grey)
    bits = [[255 * (c[0] > 127) for c in line] for line in p]
    packed = [bytes(int(''.join('1' if v else '0' for v in line[i:i + 8]), 2) for i in range(0, w, 8)) for line in bits]
    all_['grey1'] = (png(w, h, 1, 0, packed), w, h, [[(v,) * 3 for v in line] for line in bits])
    colours = [(i * 16, 255 - i * 9, (i * 55) % 256) for i in range(16)]
    index = [[c[1] % 16 for c in line] for line in p]
    packed = [bytes(line[i] << 4 | line[i + 1] for i in range(0, w, 2)) for line in index]
    all_['palette'] = (png(w, h, 4, 3, packed, palette_chunk(colours)), w, h, [[colours[i] for i in line] for line in index])
    return all_


# ---- the page, in loops ----

def filter_of(size, out):
    """Pillow's bilinear filter: for each output position the first input and weights of 22 bits."""
    scale = size / out
    wide = max(scale, 1.0)
    rows = []
    for i in range(out):
        center = (i + .5) * scale
        low, high = max(int(center - wide + .5), 0), min(int(center + wide + .5), size)
        w = [max(0.0, 1.0 - abs((k - center + .5) / wide)) for k in range(low, high)]
        rows.append((low, [int(.5 + v / sum(w) * (1 << 22)) for v in w]))
    return rows


def resized(line, rows):
    """line: pixels or numbers in tuples; along it."""
    return [tuple(min(max(((1 << 21) + sum(line[low + k][c] * v for k, v in enumerate(w))) >> 22, 0), 255) for c in range(3))
            for low, w in rows]


def crop(width, height, pixels, side):
    resize = side * 8 // 7
    if width <= height:
        w, h = resize, int(resize * height / width)
    else:
        w, h = int(resize * width / height), resize
    left, top = int(round((w - side) / 2.0)), int(round((h - side) / 2.0))
    across, down = filter_of(width, w)[left:left + side], filter_of(height, h)[top:top + side]
    lines = [resized(line, across) for line in pixels]
    columns = [resized([line[x] for line in lines], down) for x in range(side)]
    return [[columns[x][y] for x in range(side)] for y in range(side)]


def numbers(c, caffe):
    if caffe:
        return [c[2] - 103.939, c[1] - 116.779, c[0] - 123.68]
    return [(c[k] / 255 - m) / s for k, (m, s) in enumerate(((.485, .229), (.456, .224), (.406, .225)))]


def convolution(x, weight, bias, n_in, n_out):
    side = len(x)
    zero = [0.0] * n_in
    w = [[weight[(o * n_in + c) * 9 + t] for t in range(9) for c in range(n_in)] for o in range(n_out)]
    y = []
    for i in range(side):
        line = []
        for j in range(side):
            window = []
            for u in (i - 1, i, i + 1):
                for v in (j - 1, j, j + 1):
                    window += x[u][v] if 0 <= u < side and 0 <= v < side else zero
            line.append([max(0.0, b + sum(map(float.__mul__, window, row))) for b, row in zip(bias, w)])
        y.append(line)
    return y


def vector(pixels, values, caffe):
    x = [[numbers(c, caffe) for c in line] for line in pixels]
    width = 3
    for layer, out in zip(CONVS, WIDTHS):
        x = convolution(x, values['features.%d.weight' % layer], values['features.%d.bias' % layer], width, out)
        width = out
        if layer in POOLED:
            x = [[[max(x[i + a][j + b][c] for a in (0, 1) for b in (0, 1)) for c in range(width)]
                  for j in range(0, len(x), 2)] for i in range(0, len(x), 2)]
    flat = x[0][0]
    w, b = values['classifier.0.weight'], values['classifier.0.bias']
    return [max(0.0, b[o] + sum(v * w[o * width + c] for c, v in enumerate(flat))) for o in range(OUT)]


def main():
    command, folder = sys.argv[1:3]
    shapes, values = network()
    if command == 'make':
        write_network(folder + '/tiny.safetensors', shapes, values)
        timm = {'classifier.0.weight': 'pre_logits.fc1.weight', 'classifier.0.bias': 'pre_logits.fc1.bias'}
        write_network(folder + '/timm.safetensors', {**shapes, 'classifier.0.weight': [OUT, WIDTHS[-1], 1, 1]}, values, rename=timm)
        rounded = {k: [struct.unpack('<f', b'\0\0' + bf16(x))[0] for x in v] for k, v in values.items()}
        write_network(folder + '/bf16.safetensors', shapes, values, 'BF16')
        write_network(folder + '/rounded.safetensors', shapes, rounded)
        write_network(folder + '/nan.safetensors', shapes, {**values, 'classifier.0.weight': [math.nan] * len(values['classifier.0.weight'])})
        write_network(folder + '/shape.safetensors', {**shapes, 'features.5.weight': [WIDTHS[2] * WIDTHS[1], 1, 3, 3]}, values)
        write_network(folder + '/large.safetensors', shapes, {k: [x * 3e3 for x in v] for k, v in values.items()})
        for key, (data, *_) in pictures().items():
            with open('%s/%s.png' % (folder, key), 'wb') as f:
                f.write(data)
        for key, text in JPEGS.items():
            with open('%s/%s.jpg' % (folder, key), 'wb') as f:
                f.write(base64.b64decode(text))
        smooth = [b''.join(bytes((40 + 4 * x, 200 - 5 * y, 60 + 2 * x + y)) for x in range(48)) for y in range(36)]
        with open(folder + '/smooth.png', 'wb') as f:
            f.write(png(48, 36, 8, 2, smooth))
        with open(folder + '/bomb.png', 'wb') as f:  # 60,000 x 60,000 pixels, in 62 bytes and a lie
            f.write(png(60000, 60000, 8, 2, []))
    elif command == 'vectors':
        for key, (_, w, h, pixels) in sorted(pictures().items()):
            print(json.dumps({'key': key, 'vector': vector(crop(w, h, pixels, SIDE), values, 'caffe' in sys.argv)}))


if __name__ == '__main__':
    main()
