"""Makes random blocks of every GGUF type, and the values to which the gguf package unpacks them.

Writes OUT/TYPE.blocks (the bytes) and OUT/TYPE.values (fp32, little-endian), four random blocks per type. Needs gguf.
"""

import argparse
import os

import numpy as np
from gguf import GGML_QUANT_SIZES, GGMLQuantizationType
from gguf.quants import dequantize

# offsets of the fp16 scales and minimums in a block of each type; None: the type has no blocks
HALVES = {"F16": None, "BF16": None, "Q4_0": [0], "Q4_1": [0, 2], "Q5_0": [0], "Q5_1": [0, 2], "Q8_0": [0],
          "Q4_K": [0, 2], "Q5_K": [0, 2], "Q6_K": [208]}

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("out", help="the directory to write")
out = parser.parse_args().out
os.makedirs(out, exist_ok=True)
random = np.random.default_rng(7)
for name, halves in HALVES.items():
    kind = GGMLQuantizationType[name]
    elements, size = GGML_QUANT_SIZES[kind]
    if halves is None:
        values = random.normal(size=128).astype(np.float32)
        if name == "F16":
            data = values.astype(np.float16).view(np.uint8)
        else:
            data = (values.view(np.uint32) >> 16).astype(np.uint16).view(np.uint8)
    else:
        data = random.integers(0, 256, size=4 * size, dtype=np.uint8)
        for block in range(4):
            for at in halves:
                scale = np.array([random.normal() * 0.05], dtype=np.float16).view(np.uint8)
                data[block * size + at:block * size + at + 2] = scale
    unpacked = dequantize(data.reshape(1, -1), kind).astype("<f4").reshape(-1)
    data.tofile(os.path.join(out, name + ".blocks"))
    unpacked.tofile(os.path.join(out, name + ".values"))
    print(name, data.size, unpacked.size)
