// SPDX-License-Identifier: MIT
// build.h: the builds that the paper compares (Streamflow 2006, section 4.1), and one with the paper's object classes.
//
//   headers      objects have a header of 8 bytes that leads to their page block: the paper's base implementation
//   headerless   no headers: the page block is found through the BIBOP bytes (default)
//   superpages   headerless, and page blocks lie in superpages of 2 MiB for which huge pages are asked for
//   packed       headerless with object classes every 4 bytes, as in the paper: its blocks are aligned to 4 bytes
//                only, which is not a malloc for real programs
#pragma once

#include "base/integers.h"

#ifndef FREEWAY_STREAMFLOW_BUILD
#define FREEWAY_STREAMFLOW_BUILD kHeaderless
#endif

namespace freeway::streamflow {

struct Build {
  unsigned object_header;  // bytes before each object: 0 or 8
  unsigned class_step;     // bytes from one object class to the next
  unsigned words;          // superpage: words of state ...
  unsigned leaves;         // ... and leaves of 16 KiB that each of them describes
  bool huge_pages;

  constexpr std::size_t superpage_bytes() const { return std::size_t{words} * leaves * 16 * kKiB; }
};

// Without superpages the page manager is the same, over runs of 256 KiB of ordinary pages.
constexpr Build kHeaders{8, 16, 1, 16, false};
constexpr Build kHeaderless{0, 16, 1, 16, false};
constexpr Build kSuperpages{0, 16, 2, 64, true};
constexpr Build kPacked{0, 4, 1, 16, false};

constexpr Build kBuild = FREEWAY_STREAMFLOW_BUILD;

}  // namespace freeway::streamflow
