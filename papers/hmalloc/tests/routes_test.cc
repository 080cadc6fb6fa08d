// SPDX-License-Identifier: MIT
//
// The two routes as a program sees them, under libfreeway-hmalloc.so: what blocks look like, who may free them, and
// what is said if it was somebody else.
#include <gtest/gtest.h>
#include <malloc.h>
#include <string.h>
#include <unistd.h>

#include <string>
#include <thread>
#include <vector>

#include "freeway/freeway.h"
#include "routes.h"

namespace freeway::hmalloc {
namespace {

uintptr_t at(void* block) { return reinterpret_cast<uintptr_t>(block); }

size_t audit_errors() {
  freeway_audit_t audit;
  return freeway_audit(&audit, sizeof audit);
}

// What goes to fd 2 while f runs.
template <class F> std::string said(F&& f) {
  int ends[2];
  if (pipe(ends) != 0) abort();
  const int old = dup(2);
  dup2(ends[1], 2);
  f();
  dup2(old, 2);
  close(old);
  close(ends[1]);
  char buffer[4096];
  std::string all;
  for (ssize_t n; (n = read(ends[0], buffer, sizeof buffer)) > 0;) all.append(buffer, static_cast<size_t>(n));
  close(ends[0]);
  return all;
}

TEST(Routes, LocalBlocksLieSideBySideSharedOnesOnLinesOfTheirOwn) {
  std::thread([] {  // a heap in which nothing was freed yet, or all
    void* a = malloc_local(24);
    void* b = malloc_local(24);
    EXPECT_EQ(at(b) - at(a), 32u);
    void* c = malloc_shared(24);
    void* d = malloc_shared(24);
    EXPECT_GE(at(d) > at(c) ? at(d) - at(c) : at(c) - at(d), 64u);
    EXPECT_EQ(at(c) % 64, 16u);
    for (void* p : {a, b, c, d}) free(p);
  })
      .join();
}

TEST(Routes, EverySizeIsAlignedAndUsable) {
  for (auto make : {malloc_local, malloc_shared})
    for (size_t bytes :
         {0u, 1u, 15u, 16u, 100u, 4000u, 32000u, 32688u, 32700u, 32768u, 40000u, 1000000u, 3000000u, 9000000u}) {
      void* block = make(bytes);
      ASSERT_NE(block, nullptr) << bytes;
      EXPECT_EQ(at(block) % 16, 0u);
      EXPECT_GE(malloc_usable_size(block), bytes);
      memset(block, 0x5a, bytes);
      free(block);
    }
  EXPECT_EQ(audit_errors(), 0u);
}

TEST(Routes, ALocalBlockCanBeReallocated) {
  auto* block = static_cast<char*>(malloc_local(100));
  void* next = malloc_local(100);
  memset(block, 'x', 100);
  block = static_cast<char*>(realloc(block, 5000));
  for (int i = 0; i < 100; ++i) ASSERT_EQ(block[i], 'x');
  free(block);
  free(next);
}

TEST(Routes, ImpossibleSizesAreRefused) {
  for (auto make : {malloc_local, malloc_shared}) {
    for (const size_t size : {size_t{PTRDIFF_MAX} - 1, size_t{PTRDIFF_MAX}, size_t{PTRDIFF_MAX} + 1,
                              SIZE_MAX - (4 << 20), SIZE_MAX - 65536, SIZE_MAX - 64, SIZE_MAX - 5, SIZE_MAX}) {
      errno = 0;
      EXPECT_EQ(make(size), nullptr) << size;
      EXPECT_EQ(errno, ENOMEM) << size;
    }
  }
}

TEST(Routes, ASharedBlockMayBeFreedByAnybody) {
  std::vector<void*> blocks;
  for (int i = 0; i < 1000; ++i) blocks.push_back(malloc_shared(40));
  std::thread([&] {
    for (void* block : blocks) free(block);
  }).join();
  EXPECT_EQ(audit_errors(), 0u);
}

// This program runs with FREEWAY_ON_ERROR=report.
TEST(Routes, ALocalBlockFreedByAnotherThreadIsReportedAndLives) {
  auto* block = static_cast<char*>(malloc_local(100));
  memset(block, 'x', 100);
  const std::string line = said([&] { std::thread([&] { free(block); }).join(); });
  char address[32];
  snprintf(address, sizeof address, "%p", static_cast<void*>(block));
  EXPECT_NE(line.find("free of another thread's local block"), std::string::npos) << line;
  EXPECT_NE(line.find(address), std::string::npos) << line;
  EXPECT_EQ(line.find('\n'), line.size() - 1) << "one line";
  for (int i = 0; i < 100; ++i) ASSERT_EQ(block[i], 'x');
  EXPECT_EQ(said([&] { free(block); }), "");
  EXPECT_EQ(audit_errors(), 0u);
}

TEST(Routes, TheHeirOfAHeapOwnsItsLocalBlocks) {
  void* block = nullptr;
  std::thread([&] { block = malloc_local(100); }).join();
  const std::string line = said([&] { std::thread([&] { free(malloc(1)), free(block); }).join(); });
  EXPECT_EQ(line, "") << "one heap was free to be inherited";
}

TEST(Routes, ABlockFreedTwiceOrInItsMiddleIsReported) {
  for (auto make : {malloc_local, malloc_shared}) {
    void* keep = make(200);
    void* block = make(200);
    EXPECT_NE(said([&] { free(static_cast<char*>(block) + 8); }).find("misaligned pointer"), std::string::npos);
    if (make == malloc_shared) {
      EXPECT_NE(said([&] { free(static_cast<char*>(block) + 16); }).find("interior pointer"), std::string::npos);
    }
    free(block);
    EXPECT_NE(said([&] { free(block); }).find("double free"), std::string::npos);
    free(keep);
  }
  EXPECT_EQ(audit_errors(), 0u);
}

}  // namespace
}  // namespace freeway::hmalloc
