// SPDX-License-Identifier: MIT
//
// profile_settings_test.cc: what FREEWAY_PROFILE may say.
#include "profile/settings.h"

#include <gtest/gtest.h>
#include <signal.h>

#include <string>

namespace freeway::profile {
namespace {

Settings read(const char* text) {
  Settings settings;
  EXPECT_TRUE(parse_settings(text, &settings)) << text;
  return settings;
}

TEST(ProfileSettings, AnIntervalAloneDumpsAtExit) {
  const Settings settings = read("512k");
  EXPECT_EQ(settings.interval, 524288u);
  EXPECT_TRUE(settings.at_exit);
  EXPECT_EQ(settings.signal, 0);
  EXPECT_EQ(settings.every, 0u);
  EXPECT_EQ(read("1").interval, 1u);
}
TEST(ProfileSettings, AllOfThem) {
  const Settings settings = read("1m,prefix=/tmp/a.b,dump=signal:USR2,dump=every:2g,stacks=1000,blocks=1m");
  EXPECT_EQ(std::string(settings.prefix, settings.prefix_length), "/tmp/a.b");
  EXPECT_EQ(settings.signal, SIGUSR2);
  EXPECT_EQ(settings.every, u64{2} << 30);
  EXPECT_FALSE(settings.at_exit) << "others were asked for";
  EXPECT_EQ(settings.sites, 1024u) << "the next power of two";
  EXPECT_EQ(settings.blocks, u32{1} << 20);
  EXPECT_TRUE(read("1m,dump=signal:USR2,dump=exit").at_exit);
}
TEST(ProfileSettings, ThePeakIsInAllDumps) {
  EXPECT_FALSE(read("512k").peak);
  EXPECT_TRUE(read("512k,dump=peak").peak);
  EXPECT_TRUE(read("512k,dump=peak").at_exit);
  EXPECT_FALSE(read("512k,dump=signal:USR1,dump=peak").at_exit);
}
TEST(ProfileSettings, WhereToHold) {
  const Settings settings = read("1,dump=hold:/tmp/a.b/socket,blocks=1m");
  EXPECT_EQ(std::string(settings.hold, settings.hold_length), "/tmp/a.b/socket");
  EXPECT_FALSE(settings.at_exit) << "no file was asked for";
  EXPECT_EQ(read("1").hold, nullptr);
  EXPECT_TRUE(read("1,dump=hold:/s,dump=exit").at_exit);
  const std::string longest = "1,dump=hold:" + std::string(kLongestHold, 'a');
  EXPECT_EQ(read(longest.c_str()).hold_length, kLongestHold);
  Settings none;
  EXPECT_FALSE(parse_settings((longest + "a").c_str(), &none)) << "no socket has such a name";
}
TEST(ProfileSettings, CopiesOfStacks) {
  EXPECT_EQ(read("512k").copy, 8192u);
  EXPECT_EQ(read("512k,copy=0").copy, 0u);
  EXPECT_EQ(read("512k,copy=1000").copy, 1024u) << "whole lines";
}
TEST(ProfileSettings, WhatIsNotUnderstoodIsRefusedWhole) {
  for (const char* text : {"",
                           "0",
                           "x",
                           "5%",
                           "512k,",
                           "512k,prefix",
                           "512k,prefix=",
                           "512k,dump=",
                           "512k,dump=now",
                           "512k,dump=hold:",
                           "512k,dump=signal:",
                           "512k,dump=signal:KILL",
                           "512k,dump=signal:USR1x",
                           "512k,dump=every:0",
                           "512k,stacks=0",
                           "512k,copy=2m",
                           "512k,copy=",
                           "512k,blocks=1t",
                           "512k,what=1",
                           "prefix=/tmp,512k",
                           "512kk"}) {
    Settings settings;
    EXPECT_FALSE(parse_settings(text, &settings)) << text;
    EXPECT_EQ(settings.interval, 0u) << text;
  }
}

}  // namespace
}  // namespace freeway::profile
