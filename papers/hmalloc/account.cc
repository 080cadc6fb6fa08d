// SPDX-License-Identifier: MIT
//
// account.cc: what the superblocks hold (statistics, beside other threads), and whether it adds up (audits, alone).
//
// Statistics find superblocks through the page map and believe nothing that they read there: heaps belong to threads,
// which may be making, filling or giving back a superblock just now. Its memory stays readable in any case. Audits walk
// the heaps.
#include "os/report.h"
#include "papers/hmalloc/engine.h"

namespace freeway::hmalloc {

namespace {

using Heap = Engine::Heap;
using S = PaperSizes;

// Freed local blocks count as live until coalescence, for nobody can have them before.
void count(const Heap::Local& sb, std::size_t bytes, Account& account) {
  const uptr begin = reinterpret_cast<uptr>(&sb), end = begin + bytes;
  const uptr start = clamp(sb.start_addr.get_unowned(), begin, end),  // OPTIMISTIC: accounts
      current = clamp(sb.current_addr.load_relaxed(), start, end);
  ++account.superblocks;
  const u32 live = sb.allocated_num.get_unowned() - sb.freed_num.get_unowned();  // OPTIMISTIC: accounts
  account.live_blocks += clamp(live, 0, (current - start) / S::kLocalStep);
  account.live_bytes += current - start;
  account.free_bytes += end - current;
}

void count(const Heap::Shared& sb, std::size_t bytes, Account& account) {
  const u64 object = sb.object_size.get_unowned();                               // OPTIMISTIC: accounts
  if (object == 0 || object % S::kLine != 0 || !fits_shared<S>(object)) return;  // not made yet
  const uptr start = reinterpret_cast<uptr>(&sb) + Heap::Shared::header_bytes();
  const u64 total = (reinterpret_cast<uptr>(&sb) + bytes - start) / object;
  const uptr current = clamp(sb.current_addr.get_unowned(), start, start + total * object);  // OPTIMISTIC: accounts
  ++account.superblocks;
  u64 live = 0, cached = 0;
  for (uptr block = start; block < current; block += object) {
    const u64 flag = flag_of<Machine>(block).load_relaxed();
    if (Flag<S>::is_occupied(flag)) {
      ++live;
      account.live_bytes += object - clamp(Flag<S>::offset(flag), 0, object);
    } else {
      cached += Flag<S>::is_cached(flag);
    }
  }
  account.live_blocks += live;
  account.cached_blocks += cached;
  account.cached_bytes += cached * object;
  account.free_bytes += (total - live - cached) * object;
}

class Checker {
 public:
  // What follows concerns heaps that nobody is inside of for sure, or not.
  void begin(bool at_rest) { at_rest_ = at_rest; }

  void operator()(const Heap::Local& sb) {
    expect(sb.freed_num.get() <= sb.allocated_num.get(), "more local blocks freed than allocated", &sb);
    expect((sb.current_addr.load_relaxed() == sb.start_addr.get()) == sb.empty(), "a local superblock was not cleared",
           &sb);
  }
  void operator()(const Heap::Shared& sb) {
    const u64 used = sb.total_objects.get() - sb.vacant_objects.get();
    expect(sb.current_addr.get() == sb.start_addr.get() + used * sb.object_size.get(),
           "CurrentAddr and VacantObjects differ", &sb);
    expect(sb.index.get() < sb.total_objects.get(), "Index is beyond TotalObjects", &sb);
    sb.each_used([&](uptr block, u64 flag) {
      expect(flag == Flag<S>::kFree || Flag<S>::is_occupied(flag) || Flag<S>::is_cached(flag), "a flag means nothing",
             reinterpret_cast<const void*>(block));
      return true;
    });
  }

  void expect(bool good, const char* what, const void* where) {
    if (good || !at_rest_) return;
    ++errors;
    Line().text("freeway: audit: ").text(what).text(": ").hex(reinterpret_cast<u64>(where)).write();
  }

  u64 errors = 0;

 private:
  bool at_rest_ = true;
};

}  // namespace

void Engine::account(Account& account) {
  source_.each_span([&](uptr start, Kind kind) {
    if (is_local(kind)) count(*reinterpret_cast<const Heap::Local*>(start), bytes_of<S>(kind), account);
    else count(*reinterpret_cast<const Heap::Shared*>(start), bytes_of<S>(kind), account);
  });
}

// The caller's heap is checked, and those of ended threads. Those of other threads may be in the middle of something:
// for ever, if the thread vanished there, or stayed behind in the parent of a fork.
void Engine::audit(freeway_audit_t& audit) {
  Account all;
  account(all);
  audit.blocks_live = all.live_blocks;
  audit.blocks_cached = all.cached_blocks;
  Checker check;
  u64 in_lists = 0;
  bool all_at_rest = true;
  heaps_.each(source_, [&](const Heap& heap) {
    const bool at_rest = heap.owned.load_relaxed() == 0 || &heap == heap_at_rest();
    all_at_rest = all_at_rest && at_rest;
    check.begin(at_rest);
    heap.each_superblock(check);
    for (unsigned c = 0; c < S::kClasses; ++c) {
      in_lists += heap.cached(c);
      check.expect(heap.cached(c) <= S::kCacheLimit, "a block cache list is too long", &heap);
    }
  });
  check.begin(all_at_rest);
  check.expect(in_lists == all.cached_blocks, "flags and block cache lists count differently", nullptr);
  audit.errors = check.errors;
}

bool Engine::owns(u32 value, uptr address) {
  if (!is_kind(value)) return false;
  const auto kind = static_cast<Kind>(value);
  const uptr start = superblock_of<S>(address, kind);
  bool found = false;
  heaps_.each(source_, [&](const Heap& heap) {
    found = found || (is_local(kind) ? heap.holds(*reinterpret_cast<const Heap::Local*>(start))
                                     : heap.holds(*reinterpret_cast<const Heap::Shared*>(start)));
  });
  return found;
}

}  // namespace freeway::hmalloc
