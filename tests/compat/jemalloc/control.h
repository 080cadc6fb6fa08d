// SPDX-License-Identifier: MIT
// control.h: mallctl in a word, for tests.
#pragma once

#include <gtest/gtest.h>

#include <cerrno>
#include <string>

#include "jemalloc/jemalloc.h"

// The value `name`; a failure if it cannot be read as a T.
template <class T> T value_of(const std::string& name) {
  T value{};
  std::size_t size = sizeof value;
  EXPECT_EQ(mallctl(name.c_str(), &value, &size, nullptr, 0), 0) << name;
  EXPECT_EQ(size, sizeof value) << name;
  return value;
}

// What mallctl says to writing `value`.
template <class T> int set(const std::string& name, T value) {
  return mallctl(name.c_str(), nullptr, nullptr, &value, sizeof value);
}

inline int act(const std::string& name) { return mallctl(name.c_str(), nullptr, nullptr, nullptr, 0); }

inline void advance_epoch() { ASSERT_EQ(set<std::uint64_t>("epoch", 1), 0); }
