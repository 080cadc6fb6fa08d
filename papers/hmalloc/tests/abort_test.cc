// SPDX-License-Identifier: MIT
//
// Without FREEWAY_ON_ERROR=report a local block freed by another thread ends the process.
#include <gtest/gtest.h>

#include <thread>

#include "routes.h"

namespace freeway::hmalloc {
namespace {

TEST(RoutesDeathTest, ALocalBlockFreedByAnotherThreadEndsTheProcess) {
  EXPECT_DEATH(
      {
        void* block = malloc_local(100);
        std::thread([&] { free(block); }).join();
      },
      "free of another thread's local block 0x[0-9a-f]+ by 0x[0-9a-f]+");
}

}  // namespace
}  // namespace freeway::hmalloc
