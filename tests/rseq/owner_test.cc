// SPDX-License-Identifier: MIT
//
// The sections that know a cache's address (arch/rseq.h: store_if, pop_own) do what they do only where the owner's word is the
// number of the CPU that the thread is on: all of its 64 bits, since who has seized a cache writes a name there. A program with the
// static library, which lets us at hidden names.
#include <cstdint>
#include <cstdio>
#include <cstdlib>

extern "C" {
uint64_t freeway_rseq_store_if(const void* owner, void* word, uint64_t expected, const void* other, uint64_t others,
                               uint64_t value);
uint64_t freeway_rseq_pop_own(const void* owner, void* top);
}

namespace {

constexpr uint64_t kNumbers = 8192;  // CPUs are below

void require(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "%s\n", what);
  std::exit(1);
}

// Whether both did it.
bool is_done(uint64_t owner) {
  uint64_t slots[] = {0, 5}, top = reinterpret_cast<uint64_t>(slots + 2), word = 1, other = 2;
  require(freeway_rseq_store_if(&owner, &word, 0, &other, 2, 3) == 0 && word == 1, "the word is another");
  require(freeway_rseq_store_if(&owner, &word, 1, &other, 0, 3) == 0 && word == 1, "the other word is another");
  const uint64_t popped = freeway_rseq_pop_own(&owner, &top);
  require(popped == 0 || popped == 5, "the block on top");
  require(top == reinterpret_cast<uint64_t>(slots + (popped == 0 ? 2 : 1)), "top moves with it");
  const uint64_t stored = freeway_rseq_store_if(&owner, &word, 1, &other, 2, 3);
  require(stored <= 1 && word == (stored == 1 ? 3 : 1), "the word changes with it");
  return popped != 0 && stored == 1;
}

}  // namespace

int main() {
  std::free(std::malloc(10));
  unsigned own = 0, others = 0;
  for (int round = 0; round < 10; ++round)  // the thread may move
    for (uint64_t number = 0; number < kNumbers; ++number) {
      own += is_done(number);
      others += is_done(number | uint64_t{1} << 32) + is_done((number + 1) << 21 | 1);
    }
  std::printf("done for %u numbers of CPUs, and for %u names\n", own, others);
  require(others == 0, "a cache that is seized is nobody's");
  require(own < kNumbers, "a CPU's cache is no other CPU's");
  return own != 0 ? 0 : 77;
}
