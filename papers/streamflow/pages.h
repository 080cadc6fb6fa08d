// SPDX-License-Identifier: MIT
// Pages: where the front-end's page blocks come from: the page manager, and the BIBOP bytes of what it hands out.
#pragma once

#include "papers/streamflow/bibop.h"
#include "papers/streamflow/page_manager.h"

namespace freeway::streamflow {

template <class Env, class Space, Build kWhich> class Pages {
 public:
  using Manager = PageManager<Env, Space, kWhich.words, kWhich.leaves>;
  using Header = typename Manager::Header;

  void init(Space* space) { manager_.init(space); }
  Manager& manager() { return manager_; }

  typename Manager::Taken take(unsigned order) {
    const auto taken = manager_.take(order);
    if (taken.address != 0) bibop::set(header(taken.name), taken.address, page_block_bytes(order));
    return taken;
  }
  void give(u32 name, unsigned order) {
    bibop::clear(header(name), at(name), page_block_bytes(order));
    manager_.give(name, order);
  }
  uptr at(u32 name) const { return manager_.address_of(name); }
  auto& link(u32 name) const { return manager_.link(name); }

  Header& header(u32 name) { return manager_.headers().at(Manager::number_of(name)); }
  Header& header_at(u32 index) { return manager_.headers().at_index(index); }

  // Calls f(address) for each page block, while nobody else moves.
  template <class F> void each_block(F&& f) {
    for (u32 n = 1; n <= manager_.headers().made(); ++n) {
      const Header& s = manager_.headers().at(n);
      for (unsigned leaf = 0; leaf < Manager::kLeafCount; ++leaf)
        if (s.bibop[leaf * kPagesPerLeaf].load_relaxed() == bibop::kSmall)
          f(s.base.load_relaxed() + leaf * kMinPageBlock);
    }
  }
  // Bytes that are in superpages and in no page block.
  std::size_t free_bytes() {
    std::size_t leaves = 0;
    for (u32 n = 1; n <= manager_.headers().made(); ++n)
      for (const auto& word : manager_.headers().at(n).free) leaves += popcount(word.load_relaxed());
    return leaves * kMinPageBlock;
  }

 private:
  Manager manager_;
};

}  // namespace freeway::streamflow
