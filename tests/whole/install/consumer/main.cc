// SPDX-License-Identifier: MIT
//
// A program that links Freeway: its malloc and its operator new must be Freeway's, and the header must fit the library.
#include <freeway/freeway.h>

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

namespace {

std::size_t live_blocks() {
  freeway_stats_t stats{};
  freeway_stats(&stats, sizeof stats);
  return stats.live_blocks;
}

int failures = 0;
void expect(bool condition, const char* what) {
  if (condition) return;
  std::printf("failed: %s\n", what);
  ++failures;
}

}  // namespace

int main() {
  const std::string wanted = std::to_string(FREEWAY_VERSION_MAJOR) + "." + std::to_string(FREEWAY_VERSION_MINOR) + "." +
                             std::to_string(FREEWAY_VERSION_PATCH);
  expect(freeway_version() == wanted, "the header's version is the library's");

  constexpr std::size_t kBlocks = 10000;
  const std::size_t before = live_blocks();
  {
    std::vector<void*> by_malloc;
    std::vector<std::unique_ptr<int>> by_new;
    for (std::size_t i = 0; i < kBlocks; ++i) {
      by_malloc.push_back(std::malloc(40));
      by_new.push_back(std::make_unique<int>(static_cast<int>(i)));
    }
    expect(live_blocks() >= before + 2 * kBlocks, "Freeway counts what malloc and new gave out");
    expect(freeway_malloc_usable_size(by_malloc[0]) >= 40, "Freeway knows a block of malloc");
    for (void* block : by_malloc) freeway_free(block);
  }
  expect(live_blocks() < before + kBlocks, "Freeway counts what was freed");
  std::printf("%s, Freeway %s\n", failures == 0 ? "ok" : "FAILED", freeway_version());
  return failures == 0 ? 0 : 1;
}
