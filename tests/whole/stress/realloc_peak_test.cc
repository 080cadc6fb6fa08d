// SPDX-License-Identifier: MIT
//
// realloc_peak_test.cc: what a process needs at most while blocks grow and shrink: hardly more than the blocks hold.
// Each program runs in a child of its own, since the kernel's high-water mark (VmHWM) never falls; and once more where
// the kernel refuses to move pages, where long blocks are copied piece by piece.
#include <gtest/gtest.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <functional>

#include "stress_test.h"

namespace freeway::test {
namespace {

constexpr size_t kPage = 4096;

size_t status_kib(const char* name) {
  FILE* file = fopen("/proc/self/status", "r");
  if (file == nullptr) abort();
  char line[256];
  size_t kib = 0;
  while (fgets(line, sizeof line, file) != nullptr)
    if (strncmp(line, name, strlen(name)) == 0) kib = strtoull(line + strlen(name), nullptr, 10);
  fclose(file);
  return kib;
}

// A block whose pages say where in it they lie.
class Growing {
 public:
  explicit Growing(uint32_t name) : name_(name) {}
  ~Growing() { free(block_); }

  size_t bytes() const { return bytes_; }
  void resize(size_t bytes) {
    auto* block = static_cast<unsigned char*>(realloc(block_, bytes));
    if (block == nullptr) abort();
    block_ = block;
    for (size_t at = bytes_; at < bytes; at += kPage) pattern::write(block_, at, at + 16, name_);
    bytes_ = bytes;
  }
  void check() const {
    for (size_t at = 0; at < bytes_; at += kPage)
      if (pattern::compare(block_, at, at + 16, name_) != at + 16) abort();
  }

 private:
  unsigned char* block_ = nullptr;
  size_t bytes_ = 0;
  uint32_t name_;
};

void refuse_mremap() {
  sock_filter filter[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_mremap, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const sock_fprog program = {4, filter};
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0) abort();
}

// Runs the program, which answers how many bytes it held at most, in a child; the peak as a percentage of that.
size_t peak_percent(bool moves, const std::function<size_t()>& program) {
  int ends[2];
  if (pipe(ends) != 0) abort();
  const pid_t child = fork();
  if (child == 0) {
    if (!moves) refuse_mremap();
    const size_t before = status_kib("VmRSS:");
    const size_t held = program() / kKiB;
    const size_t percent = (status_kib("VmHWM:") - before) * 100 / held;
    _exit(write(ends[1], &percent, sizeof percent) == sizeof percent ? 0 : 1);
  }
  close(ends[1]);
  size_t percent = 0;
  const bool said = read(ends[0], &percent, sizeof percent) == sizeof percent;
  close(ends[0]);
  int status = -1;
  waitpid(child, &status, 0);
  if (!said || status != 0) abort();
  printf("  peak: %zu %% of what was held%s\n", percent, moves ? "" : ", where nothing can be moved");
  return percent;
}

size_t two_by_turns(size_t top, size_t step, size_t part) {
  Growing one(1), other(2);
  while (one.bytes() < top) {
    const size_t more = part != 0 ? one.bytes() / part / kPage * kPage : 0;
    const size_t next = std::min(top, one.bytes() + step + more);
    one.resize(next);
    other.resize(next);
  }
  one.check();
  other.check();
  return 2 * top;
}

TEST(ReallocPeak, TwoBlocksThatGrowByTurnsNeedWhatTheyHold) {
  const auto by_a_mebibyte = [] { return two_by_turns(64 * kMiB, kMiB, 0); };
  const auto by_the_half = [] { return two_by_turns(64 * kMiB, kPage, 2); };
  const auto to_the_double = [] { return two_by_turns(64 * kMiB, kPage, 1); };
  EXPECT_LE(peak_percent(true, by_a_mebibyte), 110u);
  EXPECT_LE(peak_percent(true, by_the_half), 110u);
  EXPECT_LE(peak_percent(true, to_the_double), 110u);
  // What was copied while they were short may lie there still.
  EXPECT_LE(peak_percent(false, to_the_double), 125u);
}

size_t one_grows(size_t top, size_t step) {
  Growing block(1);
  while (block.bytes() < top) block.resize(std::min(top, block.bytes() + step));
  block.check();
  return top;
}

TEST(ReallocPeak, ABlockThatGrowsInsideAnArenaAndBeyondNeedsWhatItHolds) {
  EXPECT_LE(peak_percent(true, [] { return one_grows(300 * kMiB, kMiB); }), 110u);
  EXPECT_LE(peak_percent(false, [] { return one_grows(300 * kMiB, 16 * kMiB); }), 110u);
}

TEST(ReallocPeak, BlocksThatGrowAndShrinkByTurnsNeedLittleMore) {
  const auto three_by_turns = [] {
    Growing blocks[] = {Growing(1), Growing(2), Growing(3)};
    size_t most = 0;
    for (size_t step = 0; step < 200; ++step)
      for (size_t i = 0; i < 3; ++i) {
        blocks[i].resize(((step + 13 * i) % 40 + 1) * kMiB);
        most = std::max(most, blocks[0].bytes() + blocks[1].bytes() + blocks[2].bytes());
      }
    for (const Growing& block : blocks) block.check();
    return most;
  };
  // A third more: what a block has given back may stay dirty for a moment (docs/decisions/013).
  EXPECT_LE(peak_percent(true, three_by_turns), 140u);
}

// Blocks that were moved leave no mapping behind: a million of them would else meet the kernel's limit of 65,530.
TEST(ReallocPeak, MovedBlocksLeaveNoMappings) {
  const auto mappings = [] {
    FILE* file = fopen("/proc/self/maps", "r");
    if (file == nullptr) abort();
    size_t lines = 0;
    for (int c; (c = fgetc(file)) != EOF;) lines += c == '\n';
    fclose(file);
    return lines;
  };
  size_t before = 0;
  for (int round = 0; round < 3000; ++round) {
    if (round == 100) before = mappings();
    void* one = malloc(9 * kMiB);
    void* other = malloc(9 * kMiB);
    *static_cast<char*>(one) = 'x';
    auto* moved = static_cast<char*>(realloc(one, 20 * kMiB));
    ASSERT_EQ(moved[0], 'x');
    free(other);
    free(moved);
  }
  EXPECT_LE(mappings(), before + 2);
}

}  // namespace
}  // namespace freeway::test
