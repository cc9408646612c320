#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the GPU kernels' fat binary as C++: embed.py FATBIN OUT.cc"""
import sys

fatbin, out = sys.argv[1:]
with open(fatbin, "rb") as file:
    data = file.read()
rows = (data[at:at + 32] for at in range(0, len(data), 32))
with open(out, "w") as file:
    file.write('#include "transports/cuda/kernels.h"\n\nnamespace echelon {\n\n'
               "alignas(16) static const unsigned char kImage[] = {\n")
    file.writelines("".join(f"{byte}," for byte in row) + "\n" for row in rows)
    file.write("};\n\nstd::span<const unsigned char> kernel_image() { return kImage; }\n\n}\n")
