// SPDX-License-Identifier: MIT
//
// A program that has Freeway beside its own malloc: nothing but what it asks Freeway for is Freeway's.
#include <freeway/freeway.h>
#include <freeway/pmr.h>

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <vector>

namespace {

int failures = 0;
void expect(bool condition, const char* what) {
  if (condition) return;
  std::printf("failed: %s\n", what);
  ++failures;
}

bool is_freeways(const void* block) { return freeway_block_info(block, nullptr, 0) != 0; }

}  // namespace

int main() {
  void* own = freeway_malloc(100);
  expect(is_freeways(own), "Freeway knows a block of freeway_malloc");
  freeway_free(own);

  void* others = std::malloc(100);
  expect(others != nullptr && !is_freeways(others), "malloc is not Freeway's");
  std::free(others);
  const auto made = std::make_unique<int[]>(1000);
  expect(!is_freeways(made.get()), "new is not Freeway's");

  std::pmr::vector<int> numbers(1000, 7, freeway::resource());
  expect(is_freeways(numbers.data()), "a container with freeway::resource() is");

  std::printf("%s, Freeway %s beside another malloc\n", failures == 0 ? "ok" : "FAILED", freeway_version());
  return failures == 0 ? 0 : 1;
}
