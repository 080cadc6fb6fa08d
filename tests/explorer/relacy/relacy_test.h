// SPDX-License-Identifier: MIT
// relacy_test.h: what tests in Relacy expect and record.
#pragma once

#include <gtest/gtest.h>

#include <cstdio>

#include "tests/explorer/relacy/relacy_env.h"
#include "tests/support/proof.h"

namespace freeway::model {

class RelacyTest : public ::testing::Test {
 protected:
  explicit RelacyTest(const char* subject) : subject_(subject) {}
  void SetUp() override {
    RelacyEnv::kept_bits = ~u64{0};
    RelacyEnv::releases = true;
    RelacyEnv::planted.clear();
  }

  void expect_holds(const RelacyResult& result, bool exhausted) {
    EXPECT_TRUE(result.ok()) << result.text.substr(0, 20000);
    const auto executions = static_cast<unsigned long long>(result.executions);
    std::printf("  %s%llu executions\n", exhausted ? "all " : "", executions);
    EXPECT_GT(executions, 100U);
    test::proof("models", subject_, "programs", 1);
    test::proof("models", subject_, "exhausted", exhausted ? 1 : 0);
    test::proof("models", subject_, "executions", executions);
  }
  void expect_found(const RelacyResult& result, const char* fault) {
    EXPECT_TRUE(result.is_fault()) << fault << " is not found\n" << result.text.substr(0, 1000);
    std::printf("  %s: found in execution %llu\n", fault, static_cast<unsigned long long>(result.executions));
    test::proof("mutants", subject_, "planted", 1);
    test::proof("mutants", subject_, "caught", result.is_fault() ? 1 : 0);
  }

 private:
  const char* subject_;
};

}  // namespace freeway::model
