// SPDX-License-Identifier: MIT
// offsets.h: the assembly's offsets, in bytes: `freeway_rseq`.
// Both processors have the same. Written by tests/whole/golden/offsets.py from malloc/offsets.cc, which says why.
#pragma once

#define RSEQ_PLACE_AREA 0
#define RSEQ_PLACE_ID 8
#define RSEQ_PLACE_BYTES 16
#define RSEQ_PLACE_ALONE 24
