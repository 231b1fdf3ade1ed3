#!/usr/bin/env python3
"""Pictures of a tar archive as vectors that nothing was learned for: thumbnails of SIDE x SIDE pixels, RGB from 0 to 1.

    python3 examples/thumbnails.py 16 images.tar thumbs.npy keys.csv          needs numpy and Pillow

They stand in for the vectors of ctr-embed-images where its network takes too long: colours and shapes, no objects. keys.csv has the stem
of each name, in the order of the rows and sorted, as ctr-cat --key wants it."""
import io
import os
import sys
import tarfile

import numpy as np
from PIL import Image

side, tar, out, keys = int(sys.argv[1]), *sys.argv[2:5]
rows = {}
with tarfile.open(tar) as archive:
    for entry in archive:
        if entry.isfile():
            picture = Image.open(io.BytesIO(archive.extractfile(entry).read()))
            picture.draft('RGB', (side * 2, side * 2))
            rows[os.path.splitext(os.path.basename(entry.name))[0]] = np.asarray(picture.convert('RGB').resize((side, side), Image.BOX), dtype=np.float32) / 255
names = sorted(rows)
np.save(out, np.stack([rows[n].reshape(-1) for n in names]))
with open(keys, 'w') as f:
    print('key', *names, sep='\n', file=f)
