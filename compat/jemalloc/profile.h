// SPDX-License-Identifier: MIT
// profile.h: jemalloc's prof.* over freeway_profile_*.
//
// Words     g_active: whether a profile is being made, as far as calls of this library say; g_interval: bytes between
//           samples; g_dumps: how many files got a name; g_resets, g_short_ones: which intervals were had. Hints for
//           programs, all relaxed: freeway_profile_* itself keeps order
// Progress  as freeway_profile_*. Lost if killed: the rest of a file
#pragma once

#include <cstddef>

namespace freeway_jemalloc::profile {

constexpr std::size_t kLgSample = 19;      // 512 KiB
constexpr const char* kPrefix = "jeprof";  // of files whose names are not given

bool is_active();
std::size_t lg_sample();

// Each returns 0 or what mallctl says.
int set_active(bool active);
// Begins anew, with about 2^lg bytes between samples.
int reset(std::size_t lg);
// Writes to the file `path`; null: <kPrefix>.<pid>.<n>.m<n>.heap in the current directory.
int dump(const char* path);

}  // namespace freeway_jemalloc::profile
