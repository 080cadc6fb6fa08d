// SPDX-License-Identifier: MIT
//
// pair_count: so many pairs of malloc and free, for counting instructions (`lab count`). Counted twice, with N and with
// 2N pairs, the difference is what N pairs cost, without the start of the program. The kinds `nothing...` call a
// function that returns at once: what the loop itself costs, and two returns a pair.
//
//   pair_count KIND PAIRS      KIND: pair-32, pair-1024, nothing; batch-32 (32 blocks allocated, then freed),
//                              nothing-batch
#include <cstdio>
#include <cstdlib>
#include <cstring>

// One instruction on every machine, so that it is known what to add again.
asm(".text\n.globl returns_at_once\n.type returns_at_once, %function\nreturns_at_once:\n  ret\n");
extern "C" void returns_at_once();

namespace {

constexpr long kBatch = 32;

// Volatile pointers: every kind calls the same way, and nothing is known about what it calls.
using Allocate = void* (*)(size_t);
using Free = void (*)(void*);
Allocate volatile allocate = std::malloc;
Free volatile release = std::free;

void pairs(long count, size_t size) {
  for (long i = 0; i < count; ++i) release(allocate(size));
}

void batches(long count, size_t size) {
  static void* blocks[kBatch];
  for (long i = 0; i < count / kBatch; ++i) {
    for (void*& block : blocks) block = allocate(size);
    for (void*& block : blocks) release(block);
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: pair_count KIND PAIRS\n");
    return 2;
  }
  const long count = std::atol(argv[2]);
  if (std::strncmp(argv[1], "nothing", 7) == 0) {
    allocate = reinterpret_cast<Allocate>(returns_at_once);
    release = reinterpret_cast<Free>(returns_at_once);
  }
  if (std::strcmp(argv[1], "pair-32") == 0 || std::strcmp(argv[1], "nothing") == 0) {
    pairs(count, 32);
  } else if (std::strcmp(argv[1], "pair-1024") == 0) {
    pairs(count, 1024);
  } else if (std::strcmp(argv[1], "batch-32") == 0 || std::strcmp(argv[1], "nothing-batch") == 0) {
    batches(count, 32);
  } else {
    std::fprintf(stderr, "pair_count: no kind '%s'\n", argv[1]);
    return 2;
  }
  return 0;
}
