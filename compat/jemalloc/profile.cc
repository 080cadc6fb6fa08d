// SPDX-License-Identifier: MIT
#include "profile.h"

#include <unistd.h>
#include <cerrno>

#include <atomic>
#include <bit>

#include "freeway/freeway.h"
#include "os/output_file.h"
#include "text.h"

namespace freeway_jemalloc::profile {
namespace {

constinit std::atomic<bool> g_active{false};
constinit std::atomic<std::size_t> g_interval{std::size_t{1} << kLgSample};
constinit std::atomic<std::uint64_t> g_dumps{0};
constinit std::atomic<std::uint64_t> g_resets{1};      // 0: the interval of the beginning
constinit std::atomic<std::uint64_t> g_short_ones{0};  // a bit, itself, for each interval

constexpr std::size_t kMostLgSample = 61;  // of freeway_profile_start
constexpr std::size_t kLeastLgVaried = 6;

// What mallctl says where freeway_profile_start says `error`.
int meaning_of(int error) {
  switch (error) {
    case 0:
    case EBUSY: return 0;  // FREEWAY_PROFILE, or the program, is making one with another interval
    case ENOMEM: return EAGAIN;
    case ENOTSUP: return ENOENT;
    default: return EFAULT;
  }
}

}  // namespace

bool is_active() { return g_active.load(std::memory_order_relaxed); }

std::size_t lg_sample() {
  return static_cast<std::size_t>(std::bit_width(g_interval.load(std::memory_order_relaxed)) - 1);
}

int set_active(bool active) {
  if (!active) {
    freeway_profile_stop();
    g_active.store(false, std::memory_order_relaxed);
    return 0;
  }
  const int said = meaning_of(freeway_profile_start(g_interval.load(std::memory_order_relaxed)));
  if (said == 0) g_active.store(true, std::memory_order_relaxed);
  return said;
}

// Freeway begins anew with an interval that it has not had: each reset takes one that is a few bytes longer, at most a
// 64th. Intervals too short for that are had once each.
int reset(std::size_t lg) {
  if (lg > kMostLgSample) lg = kMostLgSample;
  std::size_t interval = std::size_t{1} << lg;
  if (lg >= kLeastLgVaried) interval += g_resets.fetch_add(1, std::memory_order_relaxed) % (interval >> kLeastLgVaried);
  else if ((g_short_ones.fetch_or(interval, std::memory_order_relaxed) & interval) != 0) return EFAULT;
  freeway_profile_stop();
  const int said = meaning_of(freeway_profile_start(interval));
  if (!is_active()) freeway_profile_stop();
  if (said == 0) g_interval.store(interval, std::memory_order_relaxed);
  return said;
}

int dump(const char* path) {
  using namespace freeway::output_file;
  Text name;
  const auto next_name = [&] {
    const std::uint64_t number = g_dumps.fetch_add(1, std::memory_order_relaxed);
    name = Text()
               .text(kPrefix)
               .text(".")
               .number(static_cast<std::uint64_t>(getpid()))
               .text(".")
               .number(number)
               .text(".m")
               .number(number)
               .text(".heap");
    return name.c_str();
  };
  const long fd = path == nullptr ? create_first(kOwnersAlone, next_name) : open_chosen(path, kOwnersAlone);
  if (fd < 0) return EFAULT;
  const int error = freeway_profile_dump(static_cast<int>(fd));
  close(static_cast<int>(fd));
  return error == 0 ? 0 : EFAULT;
}

}  // namespace freeway_jemalloc::profile
