// SPDX-License-Identifier: MIT
//
// What malloc and free cost in atomic operations (Michael 2004, §3.2.3, §3.2.4, §4.2.1). On the common path malloc has
// two CASes (reserve in Active, pop from Anchor) and free has one (push to Anchor): three a pair. Counted:
// read-modify-writes, the failed ones too.
#include "allocator_world.h"
#include "tests/support/test_env.h"

namespace freeway::michael {
namespace {

class CommonPath : public testing::TestWithParam<Form> {};
INSTANTIATE_TEST_SUITE_P(, CommonPath, testing::ValuesIn(kForms),
                         [](const auto& form) { return std::string("Form") + std::to_string(form.index); });

TEST_P(CommonPath, APairHasThreeReadModifyWrites) {
  World<test::TestEnv> world(2, GetParam().policy, GetParam().list);
  std::vector<uptr> blocks;
  for (int i = 0; i < 10; ++i) blocks.push_back(world.malloc(40));
  for (int i = 0; i < 10; ++i) {
    EXPECT_EQ(test::rmws_of([&] { blocks.push_back(world.malloc(40)); }), 2);
    EXPECT_EQ(test::rmws_of([&] { world.free(blocks[static_cast<std::size_t>(i)]); }), 1);
  }
}

// Over many: 64 credits a time; what the rarer paths add is one CAS in 64 mallocs.
TEST_P(CommonPath, AllPathsTogetherAddLittle) {
  World<test::TestEnv> world(1, GetParam().policy, GetParam().list);
  std::vector<uptr> blocks(640);
  for (auto& block : blocks) block = world.malloc(8);
  const int pairs = 100000;
  const int total = test::rmws_of([&] {
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
