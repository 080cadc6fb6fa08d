// SPDX-License-Identifier: MIT
//
// What malloc and free cost in atomic operations (Michael 2004, §3.2.3, §3.2.4, §4.2.1). On the common path malloc has
// two CASes (reserve in Active, pop from Anchor) and free has one (push to Anchor): three a pair. Counted:
// read-modify-writes, the failed ones too.
#include "allocator_world.h"
#include "os/machine.h"
#include "tests/support/acting_fault.h"

namespace freeway::michael {
namespace {

int rmws = 0;

struct CountingEnv {
  static bool mutant(const char* name) { return test::fault_acts(name); }  // asked by planted headers alone
  template <class T> class Atomic : public freeway::Atomic<T> {
    using Base = freeway::Atomic<T>;

   public:
    using Base::Base;
#define FREEWAY_COUNT(order)                                                                       \
  T exchange_##order(T value) { return ++rmws, Base::exchange_##order(value); }                    \
  T fetch_add_##order(T value) { return ++rmws, Base::fetch_add_##order(value); }                  \
  T fetch_sub_##order(T value) { return ++rmws, Base::fetch_sub_##order(value); }                  \
  T fetch_or_##order(T value) { return ++rmws, Base::fetch_or_##order(value); }                    \
  T fetch_and_##order(T value) { return ++rmws, Base::fetch_and_##order(value); }                  \
  bool cas_##order(T& expected, T desired) { return ++rmws, Base::cas_##order(expected, desired); }
    FREEWAY_COUNT(relaxed)
    FREEWAY_COUNT(acquire)
    FREEWAY_COUNT(release)
    FREEWAY_COUNT(acq_rel)
#undef FREEWAY_COUNT
    bool cas_relaxed_acquire(T& e, T d) { return ++rmws, Base::cas_relaxed_acquire(e, d); }
    bool cas_acquire_acquire(T& e, T d) { return ++rmws, Base::cas_acquire_acquire(e, d); }
    bool cas_acq_rel_acquire(T& e, T d) { return ++rmws, Base::cas_acq_rel_acquire(e, d); }
  };
  template <class T> using Plain = freeway::Plain<T>;
  static void step(const char*) {}
};

template <class F> int counted(F&& f) {
  rmws = 0;
  f();
  return rmws;
}

class CommonPath : public testing::TestWithParam<Form> {};
INSTANTIATE_TEST_SUITE_P(, CommonPath, testing::ValuesIn(kForms),
                         [](const auto& form) { return std::string("Form") + std::to_string(form.index); });

TEST_P(CommonPath, APairHasThreeReadModifyWrites) {
  World<CountingEnv> world(2, GetParam().policy, GetParam().list);
  std::vector<uptr> blocks;
  for (int i = 0; i < 10; ++i) blocks.push_back(world.malloc(40));
  for (int i = 0; i < 10; ++i) {
    EXPECT_EQ(counted([&] { blocks.push_back(world.malloc(40)); }), 2);
    EXPECT_EQ(counted([&] { world.free(blocks[static_cast<std::size_t>(i)]); }), 1);
  }
}

// Over many: 64 credits a time; what the rarer paths add is one CAS in 64 mallocs.
TEST_P(CommonPath, AllPathsTogetherAddLittle) {
  World<CountingEnv> world(1, GetParam().policy, GetParam().list);
  std::vector<uptr> blocks(640);
  for (auto& block : blocks) block = world.malloc(8);
  const int pairs = 100000;
  const int total = counted([&] {
    for (int i = 0; i < pairs; ++i) {
      uptr& block = blocks[static_cast<std::size_t>(i) % blocks.size()];
      world.free(block);
      block = world.malloc(8);
    }
  });
  EXPECT_GE(total, 3 * pairs);
  EXPECT_LE(total, 3 * pairs + pairs / 8) << "at most four more for each refill of 64 credits, or so";
}

}  // namespace
}  // namespace freeway::michael
