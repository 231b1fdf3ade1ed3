#!/usr/bin/env python3
"""Crops beside Pillow's: images_peers.py UNIT FOLDER IMAGE… makes more pictures in FOLDER, and prints for each kind how many
bytes differ, and by how much at most, where `UNIT crop 224 FILE` and torchvision's recipe on Pillow do not agree."""
import io
import os
import random
import subprocess
import sys

from PIL import Image


def expected(path, side=224):
    image = Image.open(path).convert('RGB')
    w, h = image.size
    resize = side * 8 // 7
    size = (resize, int(resize * h / w)) if w <= h else (int(resize * w / h), resize)
    image = image.resize(size, Image.Resampling.BILINEAR)
    left, top = int(round((size[0] - side) / 2.0)), int(round((size[1] - side) / 2.0))
    return image.crop((left, top, left + side, top + side)).tobytes()


def make(folder):
    r = random.Random(3)
    for n, (w, h) in enumerate([(256, 256), (300, 257), (31, 50), (1000, 333), (257, 900), (3, 2), (640, 480)]):
        rough = Image.frombytes('RGB', (max(w // 7, 1), max(h // 7, 1)), r.randbytes(max(w // 7, 1) * max(h // 7, 1) * 3))
        image = rough.resize((w, h), Image.Resampling.BICUBIC)
        for kind, mode, name, options in [('png', 'RGB', 'png', {}), ('palette', 'P', 'png', {}), ('alpha', 'RGBA', 'png', {}),
                                          ('grey-alpha', 'LA', 'png', {}), ('jpeg', 'RGB', 'jpg', {'quality': 75}),
                                          ('jpeg-444', 'RGB', 'jpg', {'quality': 90, 'subsampling': 0}),
                                          ('jpeg-progressive', 'RGB', 'jpg', {'quality': 75, 'progressive': True}),
                                          ('jpeg-grey', 'L', 'jpg', {}), ('jpeg-cmyk', 'CMYK', 'jpg', {'quality': 80})]:
            path = '%s/%s.%d.%s' % (folder, kind, n, name)
            image.convert(mode).save(path, **options)
            yield kind, path


def main():
    unit, folder, images = sys.argv[1], sys.argv[2], sys.argv[3:]
    worst = {}
    for kind, path in list(make(folder)) + [('real', i) for i in images]:
        got = subprocess.run([unit, 'crop', '224', path], check=True, capture_output=True).stdout
        want = expected(path)
        assert len(got) == len(want), path
        off = [abs(a - b) for a, b in zip(got, want)]
        n, differ, most = worst.get(kind, (0, 0, 0))
        worst[kind] = n + len(off), differ + sum(1 for d in off if d), max(most, max(off))
    for kind, (n, differ, most) in worst.items():
        print('%s %.4f%% %d' % (kind, 100 * differ / n, most))


if __name__ == '__main__':
    main()
