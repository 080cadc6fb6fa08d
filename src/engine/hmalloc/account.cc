// SPDX-License-Identifier: MIT
//
// account.cc: what all heaps hold, and whether it adds up.
#include "engine/hmalloc/engine.h"
#include "os/report.h"

namespace freeway::hmalloc {

namespace {

using Heap = Engine::Heap;

class Counter {
 public:
  explicit Counter(Account& account) : account_(account) {}

  // From now on it counts a heap which nobody has been inside of for sure, or not.
  void begin(bool at_rest) { at_rest_ = at_rest; }

  // Freed local blocks count as live until coalescence, for nobody can have them before.
  void operator()(const Heap::Local& sb) {
    const std::size_t used = sb.current_addr.load_relaxed() - sb.start_addr.get();
    expect(sb.freed_num.get() <= sb.allocated_num.get(), "more local blocks freed than allocated", &sb);
    expect((used == 0) == sb.empty(), "a local superblock without blocks was not cleared", &sb);
    ++account_.superblocks;
    account_.live_blocks += sb.live_blocks();
    account_.live_bytes += used;
    account_.free_bytes += sb.available_space();
  }

  void operator()(const Heap::Shared& sb) {
    const u64 object = sb.object_size.get();
    const u64 used = sb.total_objects.get() - sb.vacant_objects.get();
    expect(sb.current_addr.get() == sb.start_addr.get() + used * object, "CurrentAddr and VacantObjects differ", &sb);
    expect(sb.index.get() < sb.total_objects.get(), "Index beyond TotalObjects", &sb);
    ++account_.superblocks;
    account_.free_bytes += u64{sb.vacant_objects.get()} * object;
    sb.each_used([&](uptr block, u64 flag) {
      if (Flag<PaperSizes>::is_occupied(flag)) {
        ++account_.live_blocks;
        account_.live_bytes += object - Flag<PaperSizes>::offset(flag);
      } else if (Flag<PaperSizes>::is_cached(flag)) {
        ++account_.cached_blocks;
        account_.cached_bytes += object;
      } else {
        expect(flag == Flag<PaperSizes>::kFree, "a flag that means nothing", pointer(block));
        account_.free_bytes += object;
      }
      return true;
    });
  }

  void expect(bool good, const char* what, const void* where) {
    if (good || !at_rest_) return;
    ++account_.errors;
    Line().text("freeway: audit: ").text(what).text(": ").hex(reinterpret_cast<u64>(where)).write();
  }

 private:
  static const void* pointer(uptr address) { return reinterpret_cast<const void*>(address); }
  Account& account_;
  bool at_rest_ = true;
};

}  // namespace

// In a forked child the heaps of threads that stayed behind may be in the middle of something, for ever; so may a lost one.
void Engine::account(Account& account) {
  Counter count(account);
  u64 in_lists = 0;
  bool all_at_rest = true;
  const process::Claimant claimant = process::claimant();
  heaps_.each(source_, [&](const Heap& heap) {
    const u64 owner = heap.owner.load_relaxed();
    const bool at_rest = owner == 0 || (owner != Heap::kLost && !claimant.may_replace(owner));
    all_at_rest = all_at_rest && at_rest;
    count.begin(at_rest);
    heap.each_superblock(count);
    for (unsigned c = 0; c < PaperSizes::kClasses; ++c) {
      in_lists += heap.cached(c);
      count.expect(heap.cached(c) <= PaperSizes::kCacheLimit, "a block cache list is too long", &heap);
    }
  });
  count.begin(all_at_rest);
  count.expect(in_lists == account.cached_blocks, "flags and block cache lists count differently", nullptr);
}

bool Engine::owns(u32 value, uptr address) {
  if (!is_kind(value)) return false;
  const uptr start = superblock_of<PaperSizes>(address, static_cast<Kind>(value));
  bool found = false;
  heaps_.each(source_, [&](const Heap& heap) {
    found = found || (is_local(static_cast<Kind>(value)) ? heap.holds(*reinterpret_cast<const Heap::Local*>(start))
                                                         : heap.holds(*reinterpret_cast<const Heap::Shared*>(start)));
  });
  return found;
}

}  // namespace freeway::hmalloc
