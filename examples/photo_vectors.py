#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Vectors of photographs made comparable: each centred and of length 1, turned to the principal directions of all, the first N of
these, of length 1 again. Needs numpy. usage: photo_vectors.py N IN.npy OUT.npy"""
import sys

import numpy as np


def unit(x):
    return x / np.maximum(np.linalg.norm(x, axis=1, keepdims=True), 1e-12)


x = unit(np.load(sys.argv[2]).astype(np.float64))
x = unit(x - x.mean(0))
values, directions = np.linalg.eigh(np.cov(x.T))
first = directions[:, ::-1][:, :int(sys.argv[1])]
first *= np.sign(first[np.abs(first).argmax(0), np.arange(first.shape[1])])  # either sign is a direction: the largest number is positive
np.save(sys.argv[3], unit((x - x.mean(0)) @ first).astype(np.float32))
