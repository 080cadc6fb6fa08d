// SPDX-License-Identifier: MIT
// offsets.h: the offsets by which the assembly reads, in bytes:
// `freeway_rseq`.
// Written by tests/whole/golden/offsets.py from malloc/offsets.cc, which says why it is kept. Both processors have
// the same.
#pragma once

#define RSEQ_PLACE_AREA 0
#define RSEQ_PLACE_ID 8
#define RSEQ_PLACE_BYTES 16
#define RSEQ_PLACE_ALONE 24
