// SPDX-License-Identifier: MIT
//
// language_test.cc: what a C++ run-time does with malloc behind the program's back: exceptions, also handed between
// threads, and libraries that are loaded, allocate in constructors, keep thread-local objects, and are unloaded again.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <exception>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "stress_test.h"

namespace freeway::test {
namespace {

void throw_deep(int depth, uint64_t number) {
  const std::string local(size_t(depth) * 50, 'd');
  if (depth == 0) throw std::runtime_error(std::to_string(number) + std::string(number % 3000, 'e'));
  throw_deep(depth - 1, number);
}

TEST(Exceptions, AreThrownAndCaughtByManyThreads) {
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < 8; ++t) {
    threads.emplace_back([&, t] {
      for (uint64_t i = 0; i < 3000; ++i) {
        try {
          throw_deep(int(i % 8), i * 8 + t);
        } catch (const std::runtime_error& error) {
          if (std::to_string(i * 8 + t) + std::string((i * 8 + t) % 3000, 'e') != error.what()) ++wrong;
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

TEST(Exceptions, MayBeFreedByAnotherThread) {
  constexpr int kCount = 2000;
  static std::atomic<std::exception_ptr*> slots[16];
  std::atomic<int> caught{0};
  std::atomic<bool> done{false};
  std::thread thrower([&] {
    for (int i = 0; i < kCount; ++i) {
      try {
        throw_deep(3, uint64_t(i));
      } catch (...) {
        auto* error = new std::exception_ptr(std::current_exception());
        std::exception_ptr* expected = nullptr;
        while (!slots[i % 16].compare_exchange_weak(expected, error)) {
          expected = nullptr;
          std::this_thread::yield();
        }
      }
    }
    done = true;
  });
  std::thread catcher([&] {
    while (caught < kCount) {
      for (auto& slot : slots) {
        std::exception_ptr* error = slot.exchange(nullptr);
        if (error == nullptr) continue;
        try {
          std::rethrow_exception(*error);
        } catch (const std::runtime_error&) { ++caught; }
        delete error;
      }
      std::this_thread::yield();
    }
  });
  thrower.join();
  catcher.join();
  EXPECT_EQ(caught, kCount);
}

// What the library in plugin.cc exports.
using Allocate = void* (*)(size_t);
using Count = int (*)();

TEST(Plugin, LoadingAndUnloadingItManyTimesLosesNothing) {
  std::vector<void*> survivors;
  size_t after_warm_up = 0;
  for (int round = 0; round < 300; ++round) {
    void* library = dlopen(FREEWAY_TEST_PLUGIN, RTLD_NOW | RTLD_LOCAL);
    ASSERT_NE(library, nullptr) << dlerror();
    const auto allocate = reinterpret_cast<Allocate>(dlsym(library, "plugin_allocate"));
    const auto use_thread_object = reinterpret_cast<void (*)()>(dlsym(library, "plugin_use_thread_object"));
    const auto live = reinterpret_cast<Count>(dlsym(library, "plugin_live_objects"));
    ASSERT_TRUE(allocate != nullptr && live != nullptr && use_thread_object != nullptr);
    EXPECT_GT(live(), 0) << "its constructors ran";
    void* block = allocate(size_t(round) * 17);
    fill(block, size_t(round) * 17, unsigned(round));
    survivors.push_back(block);
    // A thread that ends while the library is loaded runs the destructors of its thread-local objects.
    std::thread([&] { use_thread_object(), free(allocate(1000)); }).join();
    ASSERT_EQ(dlclose(library), 0);
    ASSERT_EQ(dlopen(FREEWAY_TEST_PLUGIN, RTLD_NOW | RTLD_NOLOAD), nullptr) << "it was not unloaded";
    if (round == 100) after_warm_up = anonymous_rss();
  }
  for (size_t i = 0; i < survivors.size(); ++i) {
    EXPECT_TRUE(holds(survivors[i], i * 17, unsigned(i))) << "what a library allocated outlives it";
    free(survivors[i]);
  }
  EXPECT_LE(anonymous_rss(), after_warm_up + 4 * kMiB);
}

TEST(Plugin, IsLoadedAndUnloadedWhileOthersAllocate) {
  std::atomic<bool> done{false};
  std::atomic<int> damaged{0};
  std::vector<std::thread> others;
  for (unsigned t = 0; t < 4; ++t)
    others.emplace_back([&, t] {
      Random random(t);
      while (!done) {
        Parcel* parcel = make_parcel(program_like_size(random), t);
        if (parcel == nullptr || !is_intact(parcel)) ++damaged;
        free(parcel);
      }
    });
  for (int round = 0; round < 100; ++round) {
    void* library = dlopen(FREEWAY_TEST_PLUGIN, RTLD_NOW | RTLD_LOCAL);
    ASSERT_NE(library, nullptr) << dlerror();
    free(reinterpret_cast<Allocate>(dlsym(library, "plugin_allocate"))(100));
    dlclose(library);
  }
  done = true;
  for (std::thread& thread : others) thread.join();
  EXPECT_EQ(damaged, 0);
}

}  // namespace
}  // namespace freeway::test
