// SPDX-License-Identifier: MIT
// main.cc: main of a room's program: all its tests, or those of the sources that are named, without their endings:
// `unit_pages arena_test limits_test`; with --long those instead whose names begin with DISABLED_: they take minutes.
#include <gtest/gtest.h>

#include <cstdio>
#include <filesystem>
#include <set>
#include <string>

namespace {

std::string chosen(const std::set<std::string>& sources, bool is_long) {
  const testing::UnitTest& all = *testing::UnitTest::GetInstance();
  std::string filter;
  for (int s = 0; s < all.total_test_suite_count(); ++s) {
    const testing::TestSuite& suite = *all.GetTestSuite(s);
    for (int t = 0; t < suite.total_test_count(); ++t) {
      const testing::TestInfo& test = *suite.GetTestInfo(t);
      const bool has_name = std::string(test.name()).starts_with("DISABLED_");
      if (has_name != is_long || sources.count(std::filesystem::path(test.file()).stem()) == 0) continue;
      filter += (filter.empty() ? "" : ":") + std::string(suite.name()) + "." + test.name();
    }
  }
  return filter;
}

}  // namespace

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  std::set<std::string> sources(argv + 1, argv + argc);
  const bool is_long = sources.erase("--long") != 0;
  if (!sources.empty()) {
    const std::string filter = chosen(sources, is_long);
    if (filter.empty()) return std::fprintf(stderr, "no test is in such a source\n"), 2;
    testing::GTEST_FLAG(filter) = filter;
    testing::GTEST_FLAG(also_run_disabled_tests) = is_long;
  }
  return RUN_ALL_TESTS();
}
