// SPDX-License-Identifier: MIT
// homes.h: blocks go home: to the CPU whose slab cuts the superblock that they lie in.
//
// A block freed on another CPU than its neighbours are used on goes to that CPU's magazine, from where it is handed out
// again and again: two CPUs then write to the same cache line for good (false sharing). So free compares the *home* of
// the block's frame with that of its slab. They differ: the block is *foreign*, and kept none the less, since threads
// that pass blocks on live from that; but each kPatience foreign frees of a slab the topmost blocks of the magazine are
// looked at, and foreign ones go back to their superblocks, where the CPU that cuts them finds them. So a line is
// shared for that many frees at most.
//
// Where there are several NUMA nodes blocks also go home to their node. There the look is at more blocks, and taken
// more often: each of them is worth more, and of blocks that go from node to node few would be among the topmost.
//
// Bytes     home of a frame: the home that the slab which last held its superblock has for the class; written when a
//           superblock is held. home of a slab, for each class: constant. For classes whose blocks share no line with
//           their neighbours they are nodes instead: that which the superblock belongs to, and that on which the slab
//           was last used off the fast path. With one node both are 0, so these are never foreign
// Numbers   a byte holds 255 of them: slabs whose numbers differ by a multiple of 255 take each other's blocks for
//           their own
// Hints     all of it: a wrong one sends a block home that need not go, or leaves one
// Checked   tests/cache/homes_test.cc, tests/cache/spare_slabs_model.cc, tests/whole/stress/false_sharing_test.cc
#pragma once

#include "cache/slab.h"

namespace freeway::homes {

constexpr u32 kPatience = 64;
constexpr unsigned kSentAtOnce = 4;  // blocks that are looked at
constexpr u32 kNodePatience = 8;     // these two where there are several nodes
constexpr unsigned kNodeSentAtOnce = 64;
constexpr u32 kLine = 64;  // bytes of a cache line

// Whether blocks of class `c` lie in one line with others of their superblock.
constexpr bool shares_lines(unsigned c) { return kSizeClasses[c].size % kLine != 0; }
// Counts a foreign free of the slab; whether blocks are to be sent home. The fast path does the same.
inline bool is_due(Slab& slab) {
  const u32 left = slab.patience.load_relaxed() - 1;
  slab.patience.store_relaxed(left);
  return left > kPatience;
}
// The home of slab `n` for class `c`; where blocks share no lines, before the slab is used on a node but 0.
constexpr u8 of_slab(u32 n, unsigned c) { return shares_lines(c) ? static_cast<u8>(1 + n % 255) : 0; }

}  // namespace freeway::homes
