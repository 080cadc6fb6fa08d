// SPDX-License-Identifier: MIT
// Superpages: the superpages' headers, named by number (section 3.2).
//
// "Superpage headers reside in page blocks" of their own, which are never freed: here pieces of 64 headers in
// type-stable metadata. A header whose superpage went back to the OS is recycled, last in first out.
//
// Words     made: how many headers exist (grows by CAS)      pieces[k]: 0 -> where headers 64k … 64k+63 are (CAS)
//           recycled: a tagged stack of the numbers of headers without a superpage
// Names     number 1 …; leaf l of superpage n is called n * leaves + l (26 bits: what a tagged stack's index has)
// Orders    [R1] a piece is published with its zeros; [A1] who is to use its headers sees that, also who came second
// Progress  lock-free       Lost if killed: a header, a piece that was not yet published (the loser of a race, too)
// Checked   papers/streamflow/tests/page_manager_model.cc, page_manager_test.cc
#pragma once

#include "papers/streamflow/size_classes.h"
#include "sync/tagged_stack.h"

namespace freeway::streamflow {

constexpr std::size_t kBibopPage = 4 * kKiB;
constexpr unsigned kPagesPerLeaf = kMinPageBlock / kBibopPage;

template <class Env, unsigned kWords, unsigned kLeaves> struct alignas(64) Superpage {
  template <class T> using Atomic = typename Env::template Atomic<T>;

  Atomic<uptr> base;                                   // the paper's sp_base; meaningful to owners of its leaves
  Atomic<u32> number;                                  // constant
  Atomic<u32> link;                                    // of the LIFO of recycled headers
  Atomic<u64> free[kWords];                            // superpage_word.h; see page_manager.h
  Atomic<u32> links[kWords * kLeaves];                 // page blocks' links in the global caches
  Atomic<u8> bibop[kWords * kLeaves * kPagesPerLeaf];  // bibop.h
};

// `Space` has kMostSuperpages, kPieceHeaders; take_units(units) -> index of so many zeroed units of 64 bytes, 0 =
// refused, and at(index).
template <class Env, class Space, unsigned kWords, unsigned kLeaves> class Superpages {
 public:
  using Header = Superpage<Env, kWords, kLeaves>;
  static constexpr unsigned kLeafCount = kWords * kLeaves;
  static constexpr unsigned kPieceHeaders = Space::kPieceHeaders;
  static constexpr u32 kMost = Space::kMostSuperpages;
  static_assert(kMost % kPieceHeaders == 0 && u64{kMost} * kLeafCount <= u64{1} << StackHead::kIndexBits);
  static constexpr u32 kUnits = sizeof(Header) / 64;

  void init(Space* space) { space_ = space; }

  u32 made() const { return made_.load_relaxed(); }  // numbers 1 … made() exist
  u32 index_of(u32 number) const {
    return pieces_[number / kPieceHeaders].load_relaxed() + number % kPieceHeaders * kUnits;
  }
  Header& at(u32 number) const { return at_index(index_of(number)); }
  Header& at_index(u32 index) const { return *static_cast<Header*>(space_->at(index)); }

  // A header without a superpage, all of it ours; 0: no memory.
  u32 take() {
    const u32 recycled = recycled_.pop(links());
    if (recycled != 0) return recycled;
    u32 seen = made_.load_relaxed();
    do {
      if (seen + 1 >= kMost || !ensure_piece((seen + 1) / kPieceHeaders)) return 0;
      Env::step("superpages.header");
    } while (!made_.cas_relaxed(seen, seen + 1));
    at(seen + 1).number.store_relaxed(seen + 1);
    return seen + 1;
  }
  void recycle(u32 number) { recycled_.push(number, links()); }

 private:
  auto links() {
    return [this](u32 number) -> auto& { return at(number).link; };
  }

  bool ensure_piece(u32 piece) {
    if (pieces_[piece].load_acquire() != 0) return true;  // [A1] pairs with [R1]
    const u32 fresh = space_->take_units(kPieceHeaders * kUnits);
    if (fresh == 0) return false;
    u32 none = 0;
    Env::step("superpages.piece");
    pieces_[piece].cas_acq_rel_acquire(none, fresh);  // [R1] [A1] pairs with [A1] [R1]
    return true;
  }

  Space* space_ = nullptr;
  typename Env::template Atomic<u32> made_;
  typename Env::template Atomic<u32> pieces_[kMost / kPieceHeaders];
  TaggedStack<Env> recycled_;
};

}  // namespace freeway::streamflow
