// SPDX-License-Identifier: MIT
//
// fuzzer.h: what a fuzzer of this folder is to those who run it: libFuzzer, and replay_main.cc, which runs kept inputs
// without clang.
#ifndef FREEWAY_TESTS_FUZZ_FUZZER_H
#define FREEWAY_TESTS_FUZZ_FUZZER_H

#include <cstddef>
#include <cstdint>

// Runs one input; ends the process with a message if a promise was broken.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace freeway::test {

// What this fuzzer tries, for proof().
extern const char* const kFuzzerSubject;
// How many operations all inputs so far have run.
extern uint64_t operations;

// Says on fd 2 what was broken, and aborts.
[[noreturn]] void broken(const char* what);

}  // namespace freeway::test

#endif  // FREEWAY_TESTS_FUZZ_FUZZER_H
