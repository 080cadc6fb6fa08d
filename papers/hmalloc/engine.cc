// SPDX-License-Identifier: MIT
#include "papers/hmalloc/engine.h"

#include "freeway/hmalloc.h"
#include "os/report.h"
#include "os/thread_exit.h"

namespace freeway {

constinit Front<SelectedEngine> process_heap;

namespace hmalloc {

namespace {

enum State : u32 { kFresh, kOwner, kPast };

struct ThisThread {
  Source::Heap* heap;  // also when it is past: the heap that it had
  State state;
  u32 busy;
  u32 exits;  // rounds of destructors
};
constinit thread_local ThisThread this_thread = {};

// While one of these lives the calling thread is inside its heap, and handlers keep out of it.
class Inside {
 public:
  Inside() {
    this_thread.busy = 1;
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
  }
  ~Inside() {
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    this_thread.busy = 0;
  }
  Inside(const Inside&) = delete;
};

FREEWAY_INLINE bool busy() { return this_thread.busy != 0; }
FREEWAY_INLINE void* pointer(uptr address) { return reinterpret_cast<void*>(address); }

template <class Superblock> Superblock& superblock(uptr address, u32 value) {
  return *reinterpret_cast<Superblock*>(superblock_of<PaperSizes>(address, static_cast<Kind>(value)));
}

}  // namespace

void Source::freed_twice(uptr block) {
  Line line;
  line.text("freeway: double free of ").hex(block).text(" (freed earlier, in a handler or a dying thread)").write();
  if (!options().report_only) die();
}

void Source::purge(uptr address, std::size_t bytes) {
  const std::size_t resident = vm::resident(address, bytes);
  if (resident != 0 && vm::purge(address, bytes)) substrate_->frames().policy().on_purge_bytes(resident);
}

bool Engine::start(Substrate& substrate) {
  source_.init(&substrate);
  return true;
}

// The heap of the calling thread, which is inside; null if it has none and gets none.
FREEWAY_INLINE Engine::Heap* Engine::own_heap() {
  if (FREEWAY_LIKELY(this_thread.state == kOwner)) return this_thread.heap;
  return this_thread.state == kPast ? nullptr : join();
}

Engine::Heap* Engine::join() {
  Heap* heap = heaps_.join(source_);
  if (heap == nullptr) return nullptr;
  heap->owned.store_relaxed(1);
  this_thread.heap = heap;
  this_thread.state = kOwner;
  thread_exit::watch(at_thread_exit, heap);  // if it fails, nobody inherits the heap
  return heap;
}

void Engine::at_thread_exit(void* heap) {
  if (busy() || this_thread.state != kOwner) return;  // left by siglongjmp: nobody knows what state the heap is in
  if (this_thread.exits++ == 0 && thread_exit::watch(at_thread_exit, heap)) return;
  Inside inside;
  this_thread.state = kPast;
  this_thread.heap->owned.store_relaxed(0);
  Engine& engine = process_heap.engine();
  engine.heaps_.leave(engine.source_, this_thread.heap);
}

// Of the heaps that the caller may touch: its own, and those of ended threads. First all their cache lists are emptied,
// since one heap's list may hold another's blocks.
void Engine::trim() {
  if (busy()) return;
  Inside inside;
  Heap* mine = this_thread.state == kOwner ? this_thread.heap : nullptr;
  if (mine != nullptr) mine->empty_caches();
  heaps_.each_ended(source_, [](Heap& heap) { heap.empty_caches(); }, [](Heap& heap) { heap.trim(); });
  if (mine != nullptr) mine->trim();
}

const Engine::Heap* Engine::heap_at_rest() {
  return busy() || this_thread.state != kOwner ? nullptr : this_thread.heap;
}

// --- malloc ----------------------------------------------------------------------------------------------------------

void* Engine::allocate(std::size_t bytes) {
  if constexpr (kRouteLocal) return allocate_local(bytes);
  return allocate_shared(bytes);
}

void* Engine::allocate_shared(std::size_t bytes) {
  if (FREEWAY_UNLIKELY(busy())) return nullptr;
  Inside inside;
  Heap* heap = own_heap();
  return heap == nullptr ? nullptr : pointer(heap->allocate_shared(bytes));
}

void* Engine::allocate_local(std::size_t bytes) {
  if (FREEWAY_UNLIKELY(busy()) || bytes > kMaxLocal) return nullptr;
  Inside inside;
  Heap* heap = own_heap();
  return heap == nullptr ? nullptr : pointer(heap->allocate_local(bytes));
}

// A larger block, freed by the address that is handed out: a shared block's flag says where in it that lies, a local
// one's bit moves there.
void* Engine::allocate_aligned(std::size_t bytes, std::size_t alignment) {
  if (alignment > kMaxSmall || bytes + alignment > kMaxSmall) return nullptr;
  return pointer(kRouteLocal ? allocate_local_aligned(bytes, alignment) : allocate_shared_aligned(bytes, alignment));
}

uptr Engine::allocate_shared_aligned(std::size_t bytes, std::size_t alignment) {
  const auto address = reinterpret_cast<uptr>(allocate_shared(bytes + alignment));
  if (address == 0) return 0;
  const uptr aligned = align_up(address, alignment), block = address - PaperSizes::kFlagArea;
  flag_of<Machine>(block).store_relaxed(Flag<PaperSizes>::occupied(aligned - block));
  return aligned;
}

uptr Engine::allocate_local_aligned(std::size_t bytes, std::size_t alignment) {
  const auto address = reinterpret_cast<uptr>(allocate_local(bytes + alignment));
  if (address == 0) return 0;
  Inside inside;
  const uptr aligned = align_up(address, alignment);
  source_.local_of(address)->move_start(address, aligned);
  return aligned;
}

// --- free ------------------------------------------------------------------------------------------------------------

namespace {
Verdict verdict(Freed freed) {
  return freed == Freed::kYes ? Verdict::kOk : freed == Freed::kTwice ? Verdict::kDoubleFree : Verdict::kInterior;
}
}  // namespace

Verdict Engine::free(uptr address, u32 value) {
  FREEWAY_DCHECK(is_kind(value));
  if (FREEWAY_UNLIKELY(is_local(static_cast<Kind>(value))))
    return free_local(superblock<Heap::Local>(address, value), address);
  const Heap::Shared& sb = superblock<Heap::Shared>(address, value);
  if (FREEWAY_UNLIKELY(busy())) return verdict(Heap::free_shared(nullptr, sb, address));
  Inside inside;
  // No heap is made for it: the C library frees when no exit hook will run any more, and a heap would be lost.
  Heap* mine = this_thread.state == kOwner ? this_thread.heap : nullptr;
  return verdict(Heap::free_shared(mine, sb, address));
}

Verdict Engine::free_local(Heap::Local& sb, uptr address) {
  if (!sb.may_start_at(address)) return Verdict::kInterior;
  const Heap* heap = this_thread.heap;
  if (heap == nullptr || heap->index() != sb.heap.get()) return Verdict::kOtherThreads;
  if (FREEWAY_UNLIKELY(busy() || this_thread.state == kPast)) {
    if (!sb.is_live(address)) return Verdict::kDoubleFree;
    this_thread.heap->free_late(address);
    return Verdict::kOk;
  }
  Inside inside;
  return verdict(Heap::free_local(sb, address));
}

std::size_t Engine::usable(uptr address, u32 value) {
  if (!is_local(static_cast<Kind>(value))) return superblock<Heap::Shared>(address, value).usable(address);
  const auto& sb = superblock<Heap::Local>(address, value);
  return sb.is_live(address) ? sb.usable(address) : 0;
}

bool Engine::begins_block(uptr address, u32 value) {
  if (!is_local(static_cast<Kind>(value))) return superblock<Heap::Shared>(address, value).begins_block(address);
  return superblock<Heap::Local>(address, value).may_start_at(address);
}

}  // namespace hmalloc
}  // namespace freeway

// --- The interface that says which kind of memory a block is (HMalloc 2020, section 3). ------------------------------

using freeway::process_heap;

// What a route does not serve (too large, refused, interrupted inside the heap) plain malloc gets from elsewhere.
extern "C" {
FREEWAY_EXPORT void* freeway_malloc_local(std::size_t size) noexcept {
  if (process_heap.open())
    if (void* block = process_heap.engine().allocate_local(size)) return block;
  return process_heap.allocate(size);
}

FREEWAY_EXPORT void* freeway_malloc_shared(std::size_t size) noexcept {
  if (size <= freeway::hmalloc::kMaxShared && process_heap.open())
    if (void* block = process_heap.engine().allocate_shared(size)) return block;
  return process_heap.allocate(size);
}
}
