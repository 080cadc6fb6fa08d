// SPDX-License-Identifier: MIT
// kernel_release.h: kernels whose rseq breaks its promises.
//
// On aarch64 Linux 6.19 to 7.0.13 do not restart a section after a preemption on the same CPU: the thread continues in
// the middle, though others were inside meanwhile. (The first release candidates of 7.1 neither.) A distribution's
// kernel names the release it began with, not its later fixes: unless it is known to be good it is not trusted.
#pragma once

#include "base/integers.h"

namespace freeway {

enum class Processor : u8 { kX86_64, kAarch64 };
#if defined(__x86_64__)
constexpr Processor kThisProcessor = Processor::kX86_64;
#else
constexpr Processor kThisProcessor = Processor::kAarch64;
#endif

// A release in the kernel's way: 7.0.0-31-generic, 6.12.38+deb13-arm64, 7.1-rc2.
struct KernelRelease {
  u32 major = 0, minor = 0, patch = 0;  // major 0: it does not begin with two numbers
  bool candidate = false;               // "rc" and a number follow

  static constexpr KernelRelease read(const char* text) {
    KernelRelease release;
    const char* at = number(text, &release.major);
    if (at == nullptr || *at != '.') return {};
    at = number(at + 1, &release.minor);
    if (at == nullptr) return {};
    if (*at == '.')
      if (const char* after = number(at + 1, &release.patch)) at = after;
    for (; *at != 0; ++at)  // anywhere behind: 7.1.0-0.rc2.17.fc45, 7.1.0-070100rc2-generic
      release.candidate |= at[0] == 'r' && at[1] == 'c' && at[2] >= '0' && at[2] <= '9';
    return release;
  }

  constexpr bool is_before(u32 a, u32 b, u32 c = 0) const {
    return major != a ? major < a : minor != b ? minor < b : patch < c;
  }

 private:
  // Reads digits into `value`. Returns their end; null if there are none or more than fit.
  static constexpr const char* number(const char* text, u32* value) {
    const char* at = text;
    u32 read = 0;
    for (; *at >= '0' && *at <= '9' && at - text < 6; ++at) read = read * 10 + static_cast<u32>(*at - '0');
    if (at == text || (*at >= '0' && *at <= '9')) return nullptr;
    *value = read;
    return at;
  }
};

// Whether a kernel that calls itself `text` is known to restart all sections that it interrupted.
constexpr bool restarts_sections(Processor processor, const char* text) {
  if (processor != Processor::kAarch64) return true;
  const KernelRelease release = KernelRelease::read(text);
  if (release.is_before(3, 7)) return false;  // no number, or none that an aarch64 kernel ever had: a pretended one
  if (release.is_before(6, 19)) return true;
  if (release.is_before(7, 0, 14)) return false;
  return !(release.major == 7 && release.minor == 1 && release.patch == 0 && release.candidate);
}

}  // namespace freeway
