// SPDX-License-Identifier: MIT
//
// The sections that are told a table (cache/rseq_sections.h) change the slab that it has for the CPU that the thread is
// on, and no other; store_if does so only where both words are what is expected. A program with the static library,
// which lets us at hidden names.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "arch/rseq_layout.h"

extern "C" {
uint64_t freeway_rseq_exchange(const void* table, uint64_t offset, uint64_t value);
uint64_t freeway_rseq_store_if(const void* table, uint64_t offset, uint64_t expected, uint64_t other, uint64_t value);
}

namespace {

struct alignas(16) Pair {
  uint64_t word, other;
};
constexpr uint64_t kNoSlab = static_cast<uint64_t>(RSEQ_NO_SLAB);
std::vector<Pair> slabs(RSEQ_IDS, Pair{1, 2});
std::vector<Pair*> table;

void require(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "%s\n", what);
  std::exit(1);
}
// How many slabs are not as they were at first.
unsigned changed() {
  unsigned count = 0;
  for (const Pair& each : slabs) count += each.word != 1 || each.other != 2;
  return count;
}
void reset() {
  for (Pair& each : slabs) each = {1, 2};
}

}  // namespace

int main() {
  std::free(std::malloc(10));
  for (Pair& each : slabs) table.push_back(&each);
  for (int round = 0; round < 1000; ++round) {  // the thread may move
    const uint64_t old = freeway_rseq_exchange(table.data(), 8, 7);
    if (old == kNoSlab) return 77;
    require(old == 2 && changed() == 1, "one slab is changed");
    reset();
    require(freeway_rseq_store_if(table.data(), 0, 5, 2, 3) == 0 && changed() == 0, "the word is another");
    require(freeway_rseq_store_if(table.data(), 0, 1, 5, 3) == 0 && changed() == 0, "its neighbour is another");
    require(freeway_rseq_store_if(table.data(), 8, 2, 1, 3) == 1 && changed() == 1, "both are as expected");
    require(freeway_rseq_store_if(table.data(), 8, 3, 1, 2) <= 1 && changed() <= 1, "it may be moved back");
    reset();
  }
  return 0;
}
