// SPDX-License-Identifier: MIT
//
// guard_test.h: what the tests of FREEWAY_GUARD share. Their scenarios run with FREEWAY_GUARD=1: whatever leaves the
// fast path is guarded, and while nothing is cached that is every block.
#ifndef FREEWAY_TESTS_GUARD_GUARD_TEST_H
#define FREEWAY_TESTS_GUARD_GUARD_TEST_H

#include <gtest/gtest.h>

#include <string>

#include "freeway/freeway.h"
#include "tests/abi/abi_test.h"
#include "tests/abi/scenario.h"

namespace freeway::test {

inline bool is_guarded(const void* block) { return freeway_explain(block, nullptr, 0) == FREEWAY_GUARDED_BLOCK; }

enum class At { kEnd, kBeginning };
inline size_t page_bytes() { return static_cast<size_t>(sysconf(_SC_PAGESIZE)); }

// A guarded block that ends, or begins, where its page does. Others are kept: they have served.
__attribute__((noinline)) inline char* guarded_block(size_t size, At place) {
  for (int i = 0; i < 150; ++i) {
    char* block = static_cast<char*>(hide(malloc(size)));
    require(block != nullptr && is_guarded(block), "a guarded block");
    const bool at_beginning = reinterpret_cast<uintptr_t>(block) % page_bytes() == 0;
    if (at_beginning == (place == At::kBeginning)) return block;
  }
  require(false, "a block at that end of its page");
  return nullptr;
}

inline bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

// Checks that the scenario died of `signal` with an explanation that has these words.
inline void expect_explained(const Outcome& outcome, int signal, std::initializer_list<const char*> words) {
  EXPECT_EQ(outcome.signal, signal) << outcome.err;
  for (const char* word : words) EXPECT_TRUE(contains(outcome.err, word)) << word << "\n" << outcome.err;
}

inline Outcome run_guarded(const std::string& name, long argument = 0) {
  return run_scenario(name, argument, {"FREEWAY_GUARD=1"});
}

}  // namespace freeway::test

#endif  // FREEWAY_TESTS_GUARD_GUARD_TEST_H
