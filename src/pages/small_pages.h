// SPDX-License-Identifier: MIT
// small_pages.h: where huge pages are forbidden, though the system's default says "always".
//
// A huge page is 2 MiB at the first touch of any byte of it: in a small heap, or in sparsely touched tables, most of that is
// wasted. A large heap gains from huge pages. So the first kSmallPages of each range that grows are advised to use small pages
// (docs/decisions/025). Hints: nothing depends on them.
#pragma once

#include "base/integers.h"

namespace freeway {

constexpr std::size_t kSmallPages = 64 * kMiB;

// For Envs whose kernel has such advice.
template <class Env>
void prefer_small_pages(uptr address, std::size_t bytes) {
  if constexpr (requires { Env::prefer_small(address, bytes); }) Env::prefer_small(address, bytes);
}

// [from, to) of a range that begins at `base` has become accessible.
template <class Env>
void prefer_small_pages_at_first(uptr base, std::size_t from, std::size_t to) {
  if (from < kSmallPages) prefer_small_pages<Env>(base + from, (to < kSmallPages ? to : kSmallPages) - from);
}

}  // namespace freeway
