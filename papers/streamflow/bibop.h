// SPDX-License-Identifier: MIT
// bibop.h: "big bag of pages": from any address in a page block to its header, without object headers (section 3.1.1).
//
// Byte      one for each page of 4 KiB: bit 7 = a page of a page block (small objects), bits 0–6 = how many pages
//           before it the page block's header lies (up to 512 KiB). 0 = no page block. The paper has one table for a
//           32-bit address space, and suggests a tree for 64 bits: here the root is the page map, which leads from a
//           frame of 64 KiB to the superpage's header, and the leaves are in there
// Who       set, clear: the owner of the page block.   find: anybody, for any address of the superpage
// Orders    relaxed: an object's address reaches another thread by the program's own synchronisation, which carries
//           them
// Checked   papers/streamflow/tests/page_manager_test.cc
#pragma once

#include "papers/streamflow/superpages.h"

namespace freeway::streamflow::bibop {

constexpr u8 kSmall = 0x80;
static_assert(kMaxPageBlock / kBibopPage <= kSmall, "the distance has seven bits");

// Superpages are aligned to their size.
template <class Header> constexpr unsigned page_of(const Header& s, uptr address) {
  // NOLINTNEXTLINE(bugprone-sizeof-expression): the length of an array
  return static_cast<unsigned>(address / kBibopPage) % (sizeof(s.bibop) / sizeof(s.bibop[0]));
}

template <class Header> void set(Header& s, uptr block, std::size_t bytes) {
  const unsigned first = page_of(s, block);
  for (unsigned i = 0; i < bytes / kBibopPage; ++i) s.bibop[first + i].store_relaxed(static_cast<u8>(kSmall | i));
}
template <class Header> void clear(Header& s, uptr block, std::size_t bytes) {
  const unsigned first = page_of(s, block);
  for (unsigned i = 0; i < bytes / kBibopPage; ++i) s.bibop[first + i].store_relaxed(0);
}

// The page block that `address` lies in, 0: none.
template <class Header> uptr find(const Header& s, uptr address) {
  const u8 byte = s.bibop[page_of(s, address)].load_relaxed();
  return byte == 0 ? 0 : align_down(address, kBibopPage) - static_cast<uptr>(byte - kSmall) * kBibopPage;
}

}  // namespace freeway::streamflow::bibop
