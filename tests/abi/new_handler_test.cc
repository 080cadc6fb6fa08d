// SPDX-License-Identifier: MIT
//
// new_handler_test.cc: what operator new does when memory is refused ([new.delete.single], 17.6.3.2): it calls the
// installed handler again and again until memory can be had, the handler throws, or there is no handler any more
// (bad_alloc); the nothrow forms turn every exception into null.
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <new>

#include "abi_test.h"

namespace freeway::test {
namespace {

constexpr size_t kNever = SIZE_MAX - 8 * kMiB;
int handler_calls = 0;

class NewHandler : public testing::Test {
 protected:
  void SetUp() override {
    handler_calls = 0;
    ASSERT_EQ(getrlimit(RLIMIT_AS, &unlimited_), 0);
  }
  void TearDown() override {
    std::set_new_handler(nullptr);
    setrlimit(RLIMIT_AS, &unlimited_);
  }

 public:
  // From now on mappings that do not fit into `spare` bytes more are refused.
  static void refuse_beyond(size_t spare) {
    rlimit limit = unlimited_;
    limit.rlim_cur = address_space() + spare;
    ASSERT_EQ(setrlimit(RLIMIT_AS, &limit), 0);
  }
  static void allow_all() { setrlimit(RLIMIT_AS, &unlimited_); }

 private:
  static inline rlimit unlimited_{};
};

struct GivenUp {
  int after;
};

[[noreturn]] void throw_bad_alloc() {
  ++handler_calls;
  throw std::bad_alloc();
}

void give_up_at_fifth_call() {
  if (++handler_calls == 5) throw GivenUp{handler_calls};
}

void resign_at_third_call() {
  if (++handler_calls == 3) std::set_new_handler(nullptr);
}

void allow_at_fourth_call() {
  if (++handler_calls == 4) NewHandler::allow_all();
}

TEST_F(NewHandler, NoneMeansBadAllocAtOnce) {
  std::set_new_handler(nullptr);
  EXPECT_THROW(hide(::operator new(hide(kNever))), std::bad_alloc);
}

TEST_F(NewHandler, IsCalledUntilItThrowsAndTheExceptionComesThrough) {
  std::set_new_handler(give_up_at_fifth_call);
  EXPECT_THROW(hide(::operator new(hide(kNever))), GivenUp);
  EXPECT_EQ(handler_calls, 5);
  handler_calls = 0;
  EXPECT_THROW(hide(::operator new[](hide(kNever))), GivenUp);
  EXPECT_EQ(handler_calls, 5);
  handler_calls = 0;
  EXPECT_THROW(hide(::operator new(hide(kNever), std::align_val_t{64})), GivenUp);
  EXPECT_EQ(handler_calls, 5);
  handler_calls = 0;
  EXPECT_THROW(hide(::operator new[](hide(kNever), std::align_val_t{4096})), GivenUp);
  EXPECT_EQ(handler_calls, 5);
}

TEST_F(NewHandler, IsCalledUntilItIsTakenAway) {
  std::set_new_handler(resign_at_third_call);
  EXPECT_THROW(hide(::operator new(hide(kNever))), std::bad_alloc);
  EXPECT_EQ(handler_calls, 3);
  handler_calls = 0;
  std::set_new_handler(resign_at_third_call);
  EXPECT_EQ(hide(::operator new(hide(kNever), std::nothrow)), nullptr);
  EXPECT_EQ(handler_calls, 3);
}

TEST_F(NewHandler, NothrowFormsCallItToo) {
  std::set_new_handler(throw_bad_alloc);
  EXPECT_EQ(hide(::operator new(hide(kNever), std::nothrow)), nullptr);
  EXPECT_EQ(hide(::operator new[](hide(kNever), std::nothrow)), nullptr);
  EXPECT_EQ(hide(::operator new(hide(kNever), std::align_val_t{64}, std::nothrow)), nullptr);
  EXPECT_EQ(hide(::operator new[](hide(kNever), std::align_val_t{64}, std::nothrow)), nullptr);
  EXPECT_EQ(handler_calls, 4);
}

TEST_F(NewHandler, NothrowFormsSwallowWhateverItThrows) {
  std::set_new_handler(give_up_at_fifth_call);
  EXPECT_EQ(hide(::operator new(hide(kNever), std::nothrow)), nullptr);
  EXPECT_EQ(handler_calls, 5);
}

TEST_F(NewHandler, SuccessAfterMemoryWasMadeAvailable) {
  refuse_beyond(4 * kMiB);
  std::set_new_handler(allow_at_fourth_call);
  void* block = hide(::operator new(hide(2 * kLargestLarge)));
  EXPECT_NE(block, nullptr);
  EXPECT_EQ(handler_calls, 4);
  ::operator delete(block);
}

TEST_F(NewHandler, SuccessAfterItFreedMemory) {
  static void* reserve;
  reserve = hide(malloc(hide(3 * kLargestLarge)));
  ASSERT_NE(reserve, nullptr);
  refuse_beyond(4 * kMiB);
  std::set_new_handler([] {
    ++handler_calls;
    free(reserve);
    reserve = nullptr;
  });
  void* block = hide(::operator new(hide(2 * kLargestLarge), std::nothrow));
  EXPECT_NE(block, nullptr);
  EXPECT_EQ(handler_calls, 1);
  ::operator delete(block);
  free(reserve);
}

TEST_F(NewHandler, MallocDoesNotCallIt) {
  std::set_new_handler(throw_bad_alloc);
  EXPECT_EQ(hide(malloc(hide(kNever))), nullptr);
  EXPECT_EQ(hide(calloc(1, hide(kNever))), nullptr);
  EXPECT_EQ(handler_calls, 0);
}

}  // namespace
}  // namespace freeway::test
