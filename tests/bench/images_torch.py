#!/usr/bin/env python3
"""VGG16 to FC6 beside PyTorch: ctr-embed-images and torchvision on the same weights and images, in one run.

    images_torch.py --weights FILE.safetensors [--threads 2] [--batch 8] [--runs 3] [--bin build/opt/bin] IMAGE…

Prints the largest difference of a vector, relative to the largest number of torchvision's, and images a second of both:
the median of the runs, which take turns; a second time by processor seconds, which other work on the machine disturbs
less. PyTorch's time is the network's alone, with and without channels_last, and with
decoding and resizing by Pillow; ours is that of the whole program, and less what it takes for no image (reading the
weights)."""
import argparse
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time


def network(path):
    import torch
    import torchvision
    from safetensors.torch import load_file
    weights = load_file(path)
    model = torchvision.models.vgg16(weights=None)
    own = model.state_dict()
    model.load_state_dict({**own, **{k: v for k, v in weights.items() if k in own}})
    parts = [model.features, model.avgpool, torch.nn.Flatten(), model.classifier[0], torch.nn.ReLU()]
    return torch.nn.Sequential(*parts).eval()


def main():
    p = argparse.ArgumentParser()
    p.add_argument('--weights', required=True)
    p.add_argument('--threads', type=int, default=2)
    p.add_argument('--batch', type=int, default=8)
    p.add_argument('--runs', type=int, default=3)
    p.add_argument('--bin', default='build/opt/bin')
    p.add_argument('images', nargs='+')
    a = p.parse_args()
    os.environ.pop('OPENBLAS_CORETYPE', None)
    import numpy as np
    import torch
    from PIL import Image
    from torchvision import transforms as T
    torch.set_num_threads(a.threads)
    model = network(a.weights)
    lasting = network(a.weights).to(memory_format=torch.channels_last)
    prepare = T.Compose([T.Resize(256), T.CenterCrop(224), T.ToTensor(),
                         T.Normalize([.485, .456, .406], [.229, .224, .225])])

    def pixels():
        return torch.stack([prepare(Image.open(i).convert('RGB')) for i in a.images])

    def spent():
        return sum(sum(resource.getrusage(who)[:2]) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))

    def timed(f):
        start, processor = time.perf_counter(), spent()
        result = f()
        return (time.perf_counter() - start, spent() - processor), result

    def run(net, x):
        with torch.inference_mode():
            return torch.cat([net(x[i:i + a.batch]) for i in range(0, len(x), a.batch)])

    with tempfile.TemporaryDirectory() as tmp:
        out = os.path.join(tmp, 'v.arrow')
        ours = [os.path.join(a.bin, 'ctr-embed-images'), '-q', '-w', a.weights, '-j', str(a.threads), '-o', out]
        none = os.path.join(tmp, 'none.tar')
        with open(none, 'wb') as f:  # an archive of one directory: no image
            h = bytearray(512)
            h[0:2], h[100:107], h[124:135], h[136:147], h[156] = b'd/', b'0000755', b'0' * 11, b'0' * 11, ord('5')
            h[148:156] = b' ' * 8
            h[148:156] = b'%06o\0 ' % sum(h)
            f.write(bytes(h) + bytes(1024))
        times = {k: [] for k in ('ours', 'start', 'torch', 'last', 'pillow')}
        x = pixels()
        run(model, x[:a.batch]), run(lasting, x[:a.batch].to(memory_format=torch.channels_last))
        for _ in range(a.runs):
            times['start'].append(timed(lambda: subprocess.run(ours + [none], check=True))[0])
            times['ours'].append(timed(lambda: subprocess.run(ours + a.images, check=True))[0])
            times['pillow'].append(timed(pixels)[0])
            t, want = timed(lambda: run(model, x))
            times['torch'].append(t)
            times['last'].append(timed(lambda: run(lasting, x.to(memory_format=torch.channels_last)))[0])
        text = subprocess.run([os.path.join(a.bin, 'ctr-export'), '-f', 'npy', out], check=True, capture_output=True)
        import io
        got = np.load(io.BytesIO(text.stdout))
        order = sorted(range(len(a.images)), key=lambda i: os.path.basename(a.images[i]))
        want = want.numpy()[order]
        print('largest difference %.2e of the largest number %.4g; of vectors %.2e' %
              (abs(got - want).max() / abs(want).max(), abs(want).max(),
               (np.linalg.norm(got - want, axis=1) / np.linalg.norm(want, axis=1)).max()))
    n = len(a.images)
    print('%d images, %d threads, batch %d of PyTorch %s' % (n, a.threads, a.batch, torch.__version__))
    for i, unit in enumerate(('second', 'processor second')):
        m = {k: statistics.median(t[i] for t in v) for k, v in times.items()}
        print('images a %s: ours %.2f (whole program %.2f); PyTorch %.2f, channels_last %.2f, with Pillow %.2f' %
              (unit, n / (m['ours'] - m['start']), n / m['ours'], n / m['torch'], n / m['last'],
               n / (min(m['torch'], m['last']) + m['pillow'])))


if __name__ == '__main__':
    sys.exit(main())
