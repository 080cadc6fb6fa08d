// SPDX-License-Identifier: MIT
//
// Tests of os/kernel_release.h: the names that kernels give themselves, and which of them are known to restart
// sections.
#include "os/kernel_release.h"

#include <gtest/gtest.h>

#include <string>

namespace freeway::test {
namespace {

struct Named {
  const char* release;
  bool restarts;  // on aarch64
};

constexpr Named kReleases[] = {
    // Before the change of 6.19.
    {"3.7.0", true},
    {"4.18.0-553.el8_10.aarch64", true},
    {"5.4.0-216-generic", true},
    {"5.10.0-35-arm64", true},
    {"5.14.0-570.12.1.el9_6.aarch64+64k", true},
    {"6.1.0-44-cloud-arm64", true},
    {"6.12.38+deb13-arm64-16k", true},
    {"6.18.44", true},
    {"6.18.0-rc7", true},
    {"6.2", true},
    // Broken, and what may be.
    {"6.19.0", false},
    {"6.19", false},
    {"6.19.0-rc1", false},
    {"6.19-rc8-next", false},
    {"6.19.14+deb14-arm64", false},
    {"6.20.1", false},
    {"7.0", false},
    {"7.0-rc3", false},
    {"7.0.0-31-generic", false},
    {"7.0.9+deb14-arm64", false},
    {"7.0.13", false},
    {"7.0.x", false},
    {"7.1-rc1", false},
    {"7.1.0-rc2", false},
    {"7.1.0-0.rc2.17.fc45.aarch64", false},
    {"7.1.0-070100rc2-generic", false},
    // Mended.
    {"7.0.14", true},
    {"7.0.14-rc1", true},
    {"7.0.14+deb14-arm64", true},
    {"7.0.100", true},
    {"7.1.0", true},
    {"7.1", true},
    {"7.1.3+deb14-arm64", true},
    {"7.1.0-generic", true},
    {"7.2-rc1", true},
    {"7.10.0", true},
    {"8.0.0", true},
    {"10.19.3", true},
    // No aarch64 kernel was ever called so: a pretended number (personality UNAME26), or none at all.
    {"2.6.60-31-generic", false},
    {"3.6.11", false},
    {"", false},
    {"linux", false},
    {"7", false},
    {"7.", false},
    {".1", false},
    {"-7.1", false},
    {"7.x", false},
    {"99999999999999999999.1", false},
};

TEST(KernelRelease, OnlyReleasesThatAreKnownToRestartSectionsAreTrusted) {
  for (const Named& named : kReleases)
    EXPECT_EQ(restarts_sections(Processor::kAarch64, named.release), named.restarts) << "'" << named.release << "'";
}

TEST(KernelRelease, OnX86AllOfThemDo) {
  for (const Named& named : kReleases) EXPECT_TRUE(restarts_sections(Processor::kX86_64, named.release));
}

TEST(KernelRelease, EveryPatchOfTheBrokenOnesIsKnown) {
  for (u32 patch = 0; patch < 300; ++patch) {
    const std::string number = std::to_string(patch);
    EXPECT_FALSE(restarts_sections(Processor::kAarch64, ("6.19." + number).c_str()));
    EXPECT_EQ(restarts_sections(Processor::kAarch64, ("7.0." + number + "-arm64").c_str()), patch >= 14);
    EXPECT_TRUE(restarts_sections(Processor::kAarch64, ("7.1." + number).c_str()));
    EXPECT_TRUE(restarts_sections(Processor::kAarch64, ("6.18." + number).c_str()));
  }
}

TEST(KernelRelease, NumbersAreReadUpToWhatIsNone) {
  constexpr KernelRelease kRelease = KernelRelease::read("6.12.38+deb13-arm64");
  static_assert(kRelease.major == 6 && kRelease.minor == 12 && kRelease.patch == 38 && !kRelease.candidate);
  EXPECT_TRUE(KernelRelease::read("7.1-rc2").candidate);
  EXPECT_FALSE(KernelRelease::read("7.1.2-arch-rc").candidate);
  EXPECT_EQ(KernelRelease::read("6.1234567.1").major, 0u) << "a number that is none";
}

}  // namespace
}  // namespace freeway::test
