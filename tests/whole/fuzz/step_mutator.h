// SPDX-License-Identifier: MIT
//
// step_mutator.h: mutations of inputs that are sequences of steps of one length: else one byte put in changes all steps
// behind it.
#ifndef FREEWAY_TESTS_FUZZ_STEP_MUTATOR_H
#define FREEWAY_TESTS_FUZZ_STEP_MUTATOR_H

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "tests/support/random.h"

// libFuzzer's own; absent where inputs are only replayed.
extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t most) __attribute__((weak));

namespace freeway::test {

inline size_t mutate_steps(uint8_t* data, size_t size, size_t most, unsigned seed, size_t length) {
  Random random(seed);
  const size_t room = most / length;
  size_t steps = size / length;
  const auto at = [&](size_t step) { return data + step * length; };
  const size_t from = steps == 0 ? 0 : random.below(steps);
  const size_t some = steps == 0 ? 0 : 1 + random.below(steps - from < 16 ? steps - from : 16);
  switch (random.below(8)) {
    case 0:  // out
      if (steps <= some) break;
      memmove(at(from), at(from + some), (steps - from - some) * length);
      return (steps - some) * length;
    case 1:  // once more, behind themselves
      if (some == 0 || steps + some > room) break;
      memmove(at(from + some), at(from), (steps - from) * length);
      return (steps + some) * length;
    case 2:  // somewhere else
      if (some == 0) break;
      memmove(at(random.below(steps - some + 1)), at(from), some * length);
      return steps * length;
    case 3:  // by the other thread
      for (size_t i = from; i < from + some; ++i) *at(i) ^= 0x80;
      if (some != 0) return steps * length;
      break;
    case 4:
    case 5: {  // new ones
      size_t fresh = 1 + random.below(8);
      if (steps + fresh > room) break;
      memmove(at(from + fresh), at(from), (steps - from) * length);
      for (uint8_t* byte = at(from); byte < at(from + fresh); ++byte) *byte = static_cast<uint8_t>(random.next());
      return (steps + fresh) * length;
    }
    default: break;
  }
  if (steps == 0) return LLVMFuzzerMutate(data, size, most);
  uint8_t step[64];
  memcpy(step, at(from), length);
  LLVMFuzzerMutate(step, length, length);
  memcpy(at(from), step, length);
  return steps * length;
}

}  // namespace freeway::test

#endif  // FREEWAY_TESTS_FUZZ_STEP_MUTATOR_H
