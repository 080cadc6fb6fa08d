// SPDX-License-Identifier: MIT
//
// malloc_fuzzer.cc: bytes as a trace of the whole malloc family by two threads in turn, against the oracle of
// tests/whole/differential/trace.h. Which engine and which mode: as the process was started.
#include "fuzzer.h"
#include "step_mutator.h"
#include "tests/whole/differential/heaps.h"
#include "tests/whole/differential/trace.h"

namespace freeway::test {

const char* const kFuzzerSubject = "malloc family";

}  // namespace freeway::test

using namespace freeway::test;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static auto& turns = *new Turns;
  const Replayed replayed = replay<FreewayHeap>(data, size, turns);
  operations += replayed.steps;
  if (!replayed.fault.empty()) broken(replayed.fault.c_str());
  return 0;
}

// Whole steps are taken out, doubled and moved; the bytes of one are left to libFuzzer.
extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t most, unsigned seed) {
  return mutate_steps(data, size, most, seed, sizeof(Step));
}
