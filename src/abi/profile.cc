// SPDX-License-Identifier: MIT
// profile.cc: heap profiles (freeway/freeway.h).
#include "freeway/freeway.h"
#include "malloc/family.h"
#include "profile/dump.h"
#include "profile/profiler.h"

namespace family = freeway::family;

extern "C" {

FREEWAY_EXPORT int freeway_profile_start(std::size_t interval) noexcept { return family::begin_profile(interval); }

FREEWAY_EXPORT void freeway_profile_stop() noexcept { family::end_profile(); }

FREEWAY_EXPORT int freeway_profile_dump(int fd) noexcept { return freeway::profile::dump(fd); }

FREEWAY_EXPORT std::uint64_t freeway_tag(std::uint64_t tag) noexcept { return freeway::profile::tag(tag); }
}
