// SPDX-License-Identifier: MIT
#include "papers/michael/engine.h"

#include <new>

#include "os/report.h"

namespace freeway {

constinit Front<SelectedEngine> process_heap;

namespace michael {

namespace {

constinit thread_local u32 thread_number = 0;  // 0: none yet

void complain(const char* what, uptr address) {
  Line line;
  line.text("freeway: michael: ").text(what).text(" at ").hex(address).write();
}

}  // namespace

bool Engine::start(Substrate& substrate) {
  os_.init(&substrate);
  return allocator_.get([&] { return make_allocator(substrate); }, [](u64) {}) != 0;
}

// Its address, 0 without memory.
u64 Engine::make_allocator(Substrate& substrate) {
  const u64 asked = engine_option(kName, "HEAPS");
  const u32 heaps = static_cast<u32>(asked != 0 ? asked : clamp(substrate.cpus(), 1, 1024));
  const Policy policy = {
      static_cast<u32>(clamp(engine_option(kName, "PARTIAL_SLOTS"), 1, ProcHeap<Machine>::kMostSlots)),
      engine_option(kName, "NEWSB") != 0,
      engine_option(kName, "SUPERBLOCK") == 0 ? anchor::Form::kLinked : anchor::Form::kUntouched};
  const ListKind list = engine_option(kName, "PARTIAL_LIST") == 0 ? ListKind::kFifo : ListKind::kLifo;
  const u32 units = static_cast<u32>(ceil_div(Michael::bytes(heaps), Metadata<Machine>::kUnit));
  const u32 index = os_.units(units + Michael::kDummies);
  if (index == 0) return 0;
  auto* fresh = new (os_.at(index)) Michael;
  fresh->init(&os_, heaps, policy, list, index + units);
  return reinterpret_cast<u64>(fresh);
}

FREEWAY_INLINE u32 heap_of_thread(Atomic<u32>& threads, u32 heaps) {
  if (heaps == 1) return 0;  // §4.2.4: threads do not need to know their id
  if (FREEWAY_UNLIKELY(thread_number == 0)) thread_number = threads.fetch_add_relaxed(1) + 1;
  return thread_number % heaps;
}

void* Engine::allocate(std::size_t bytes) {
  Michael& michael = allocator();
  return reinterpret_cast<void*>(michael.malloc(bytes, heap_of_thread(threads_, michael.heap_count())));
}

void* Engine::allocate_aligned(std::size_t bytes, std::size_t alignment) {
  if (alignment > kMaxSmall || bytes + alignment > kMaxSmall) return nullptr;
  Michael& michael = allocator();
  return reinterpret_cast<void*>(
      michael.malloc_aligned(bytes, alignment, heap_of_thread(threads_, michael.heap_count())));
}

void Engine::account(Account& account) {
  u64 errors = 0;
  const Figures figures = allocator().figures(
      [&](const char* what, uptr address) {
        if (!account.audit) return;
        ++errors;
        complain(what, address);
      },
      account.audit);
  account.live_blocks += figures.live_blocks;
  account.live_bytes += figures.live_bytes;
  account.free_bytes += figures.free_bytes;
  account.superblocks += figures.superblocks;
  account.errors += errors;
}

}  // namespace michael
}  // namespace freeway
