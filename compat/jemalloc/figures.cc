// SPDX-License-Identifier: MIT
#include "figures.h"

#include <sys/auxv.h>

#include <algorithm>
#include <atomic>

#include "freeway/freeway.h"

namespace freeway_jemalloc {
namespace {

using Which = std::uint64_t Figures::*;
constexpr Which kAll[] = {&Figures::allocated, &Figures::active, &Figures::metadata, &Figures::resident,
                          &Figures::mapped,    &Figures::dirty,  &Figures::cached,   &Figures::small,
                          &Figures::large,     &Figures::purges, &Figures::purged};
static_assert(sizeof kAll / sizeof *kAll * sizeof(std::uint64_t) == sizeof(Figures));

constinit std::atomic<std::uint64_t> g_taken[sizeof kAll / sizeof *kAll];
constinit std::atomic<std::uint64_t> g_epoch{0};

std::uint64_t whole_pages(std::uint64_t bytes) { return (bytes + page_size() - 1) & ~std::uint64_t{page_size() - 1}; }

}  // namespace

std::size_t page_size() { return getauxval(AT_PAGESZ); }

Figures measure() {
  freeway_stats_t s = {};
  freeway_stats(&s, sizeof s);
  Figures f = {};
  // Other threads go on while Freeway counts: each figure is of some moment, and what cannot be is put right here.
  f.allocated = s.live;
  f.active = whole_pages(std::max<std::uint64_t>(s.mapped > s.dirty ? s.mapped - s.dirty : 0, f.allocated));
  f.metadata = s.metadata;
  f.resident = std::max<std::uint64_t>(whole_pages(s.held), f.active);
  f.mapped = std::max<std::uint64_t>(whole_pages(s.mapped + s.metadata), f.resident);
  f.dirty = s.dirty;
  f.cached = s.cached;
  f.large = std::min<std::uint64_t>(s.large + s.huge, f.allocated);
  f.small = f.allocated - f.large;
  f.purges = s.purges;
  f.purged = s.purged;
  return f;
}

std::uint64_t take() {
  const Figures f = measure();
  for (std::size_t i = 0; i < sizeof kAll / sizeof *kAll; ++i) g_taken[i].store(f.*kAll[i], std::memory_order_relaxed);
  return g_epoch.fetch_add(1, std::memory_order_release) + 1;  // [F1] pairs with [F2]
}

std::uint64_t epoch() {
  const std::uint64_t taken = g_epoch.load(std::memory_order_acquire);  // [F2] pairs with [F1]
  return taken != 0 ? taken : take();
}

std::uint64_t read(Which which) {
  epoch();
  for (std::size_t i = 0; i < sizeof kAll / sizeof *kAll; ++i)
    if (kAll[i] == which) return g_taken[i].load(std::memory_order_relaxed);
  return 0;
}

}  // namespace freeway_jemalloc
