// SPDX-License-Identifier: MIT
#include "papers/streamflow/engine.h"

#include "os/thread_exit.h"

namespace freeway {

constinit Front<streamflow::Engine> process_heap;

namespace streamflow {
namespace {

// kNew: the thread has had no heap. kHas: it has one, in `own` unless a call is inside. kGone: its exit hook has run.
enum State : u32 { kNew, kHas, kGone };
constinit thread_local Atomic<Engine::Heap*> own;
constinit thread_local Atomic<State> state;  // kNew at first

// What a handler on this thread sees is in program order.
FREEWAY_INLINE void keep_order() { __atomic_signal_fence(__ATOMIC_SEQ_CST); }

// What the word before an object says (headers), or the second word in it (headerless), once it is freed.
constexpr u64 kFreeMark = 0xf7eef7eef7eef7ee;
constexpr u64 kHeaderMark = 0x5f10a5f10a5f10a5;

u64& word_at(uptr address) { return *reinterpret_cast<u64*>(address); }
[[maybe_unused]] constexpr u64 header_of(uptr block) { return block ^ kHeaderMark; }

}  // namespace

uptr Space::take_superpage(std::size_t bytes, u32 header) {
  const uptr address = substrate_->take_span(bytes / kFrameSize, bytes / kFrameSize, header);
  if (kBuild.huge_pages && address != 0) vm::prefer_huge(address, bytes);
  return address;
}

bool Engine::start(Substrate& substrate) {
  space_.init(&substrate);
  pages_.init(&space_);
  allocator_.init(&pages_, static_cast<u32>(engine_option(kName, "LOCAL_CACHE")),
                  static_cast<u32>(engine_option(kName, "GLOBAL_CACHE")));
  return true;
}

// --- The thread's heap -----------------------------------------------------------------------------------------------

// The caller's heap, taken out; null: it has none, or a call that was interrupted has it.
FREEWAY_INLINE Engine::Heap* Engine::take_own() {
  Heap* heap = own.load_relaxed();
  if (FREEWAY_LIKELY(heap != nullptr)) own.store_relaxed(nullptr);
  keep_order();
  return heap;
}
FREEWAY_INLINE void Engine::put_own(Heap* heap) {
  keep_order();
  if (heap != nullptr) own.store_relaxed(heap);
}

// For a thread without a heap outside of us: its first one, if it has had none yet.
FREEWAY_NOINLINE Engine::Heap* Engine::make_heap() {
  if (state.load_relaxed() != kNew) return nullptr;
  state.store_relaxed(kHas);  // from here on a nested call (a handler's, libc's for the key) finds no heap
  u32 id = heaps_.pop([this](u32 i) -> auto& { return heap_at(i).link; });
  if (id == 0) {
    id = space_.take_units(static_cast<u32>(ceil_div(sizeof(Heap), 64)));
    if (id == 0) {
      state.store_relaxed(kNew);
      return nullptr;
    }
    heap_at(id).id = id;
  }
  thread_exit::watch(&at_exit, &heap_at(id));
  return &heap_at(id);
}

void Engine::at_exit(void* ended) {
  Engine& engine = process_heap.engine();
  auto* heap = static_cast<Heap*>(ended);
  state.store_relaxed(kGone);
  if (own.load_relaxed() != heap) return;  // the thread jumped out of a call: nobody knows in what state the heap is
  own.store_relaxed(nullptr);
  keep_order();
  engine.allocator_.retire(*heap);
  engine.heaps_.push(heap->id, [&engine](u32 i) -> auto& { return engine.heap_at(i).link; });
}

// --- Objects ---------------------------------------------------------------------------------------------------------

FREEWAY_INLINE void* Engine::allocate_from(Heap* heap, std::size_t bytes) {
  const auto object = allocator_.allocate(*heap, Classes::class_of(bytes));
  put_own(heap);
  if (FREEWAY_UNLIKELY(object.block == nullptr)) return nullptr;
  const uptr address = object.block->address() + object.offset;
  if constexpr (kHasHeaders) word_at(address - 8) = header_of(object.block->address());
  else if (kHasMarks) word_at(address + 8) = 0;  // not marked free
  return reinterpret_cast<void*>(address);
}

void* Engine::allocate(std::size_t bytes) {
  Heap* heap = take_own();
  return FREEWAY_LIKELY(heap != nullptr) ? allocate_from(heap, bytes) : allocate_first(bytes);
}
FREEWAY_NOINLINE void* Engine::allocate_first(std::size_t bytes) {
  Heap* heap = make_heap();
  return heap != nullptr ? allocate_from(heap, bytes) : nullptr;
}

void* Engine::allocate_aligned(std::size_t bytes, std::size_t alignment) {
  if (alignment > kMaxSmall || bytes + alignment > kMaxSmall) return nullptr;
  void* block = allocate(clamp(bytes, 1, bytes) + alignment - kBuild.class_step);  // also 0 bytes are inside the object
  if (block == nullptr) return nullptr;
  const auto address = reinterpret_cast<uptr>(block);
  const uptr aligned = align_up(address, alignment);
  if (aligned == address) return block;
  if constexpr (kHasHeaders) {
    word_at(aligned - 8) = word_at(address - 8);
  } else {
    const uptr header = bibop::find(pages_.header_at(process_heap.substrate().map().get(address).value()), address);
    reinterpret_cast<Block*>(header)->holds_aligned.store_relaxed(1);
  }
  return reinterpret_cast<void*>(aligned);
}

FREEWAY_INLINE Engine::Found Engine::find(uptr address, u32 superpage) {
  uptr header;
  if constexpr (kHasHeaders) {
    if (address % 8 != 0 || address % kBuild.superpage_bytes() < kPageBlockHeader) return {nullptr, 0, false};
    header = align_down(word_at(address - 8) ^ kHeaderMark, 2);
    constexpr std::size_t kSuperpage = kBuild.superpage_bytes();
    const bool plausible = header % kMinPageBlock == 0 && header < address &&
                           align_down(header, kSuperpage) == align_down(address, kSuperpage);
    if (!plausible || !reinterpret_cast<Block*>(header)->is_header()) return {nullptr, 0, false};
  } else {
    header = bibop::find(pages_.header_at(superpage), address);
    if (FREEWAY_UNLIKELY(header == 0)) return {nullptr, 0, false};
  }
  auto* b = reinterpret_cast<Block*>(header);
  const auto offset = static_cast<u32>(address - header);
  const u32 object = b->object_at(offset);
  const bool exact =
      FREEWAY_LIKELY(object == offset) || kHasHeaders || (address % 32 == 0 && b->holds_aligned.load_relaxed() != 0);
  return {b, object, exact && object != 0};
}

FREEWAY_INLINE bool Engine::is_marked_free(const Found& found) {
  const uptr object = found.block->address() + found.object;
  if constexpr (kHasHeaders) return word_at(object - 8) != header_of(found.block->address());
  return kHasMarks && word_at(object + 8) == (kFreeMark ^ object);
}

Verdict Engine::free(uptr address, u32 superpage) {
  const Found found = find(address, superpage);
  if (FREEWAY_UNLIKELY(!found.exact)) return Verdict::kInterior;
  if (FREEWAY_UNLIKELY(is_marked_free(found))) return Verdict::kDoubleFree;
  const uptr object = found.block->address() + found.object;
  if constexpr (kHasHeaders) word_at(object - 8) = header_of(found.block->address()) ^ 1;
  else if (kHasMarks) word_at(object + 8) = kFreeMark ^ object;
  Heap* heap = take_own();
  if (FREEWAY_UNLIKELY(!AllocatorOf::owns(heap, *found.block))) return free_elsewhere(heap, *found.block, found.object);
  if (FREEWAY_UNLIKELY(!AllocatorOf::free_own(*heap, *found.block, found.object))) return rearrange(heap, *found.block);
  put_own(heap);
  return Verdict::kOk;
}
FREEWAY_NOINLINE Verdict Engine::rearrange(Heap* heap, Block& b) {
  allocator_.rearrange(*heap, b);
  put_own(heap);
  return Verdict::kOk;
}
FREEWAY_NOINLINE Verdict Engine::free_elsewhere(Heap* heap, Block& b, u32 object) {
  // Only to adopt: the first call of many threads is a free, of what their creator gave them; or the C library's, when
  // no exit hook will run any more and a heap would be lost.
  if (heap == nullptr && AllocatorOf::is_orphan(b)) heap = make_heap();
  allocator_.free(heap, b, object);
  put_own(heap);
  return Verdict::kOk;
}

std::size_t Engine::usable(uptr address, u32 superpage) {
  const Found found = find(address, superpage);
  if (!found.exact || is_marked_free(found)) return 0;
  const auto inside = static_cast<u32>(address - found.block->address()) - found.object;
  return found.block->stride.get() - kBuild.object_header - inside;
}

bool Engine::begins_block(uptr address, u32 superpage) {
  const Found found = find(address, superpage);
  return found.exact;
}

// --- Accounts --------------------------------------------------------------------------------------------------------

void Engine::trim() {
  Heap* heap = take_own();
  allocator_.trim(heap);
  put_own(heap);
}

bool Engine::owns(u32 superpage, uptr address) {
  const auto& s = pages_.header_at(superpage);
  return s.base.load_relaxed() == align_down(address, kBuild.superpage_bytes());
}

namespace {

using Block = Engine::Block;

// The page block's class; null: it is on its way, or in the global cache. Read once: others may be at it.
const ObjectClass* class_of(const Block& b) {
  const u32 c = b.size_class.get_unowned();  // OPTIMISTIC: accounts
  return b.is_header() && c - 1 < Engine::Classes::kClasses ? &Engine::Classes::kAll[c] : nullptr;
}

// Objects in the list that begins with `object`; bounded, and within the page block, whatever is going on there.
u32 count_list(const Block& b, const ObjectClass& k, u32 object) {
  u32 n = 0;
  for (; object >= k.first && object < k.limit && n < k.objects(); ++n)
    object = const_cast<Block&>(b).link(object).get_unowned();  // OPTIMISTIC: accounts
  return n;
}
u32 remote_count(const Block& b, const ObjectClass& k) {
  return count_list(b, k, remotely_freed::head(b.remotely_freed.load_relaxed()));
}

// Every object is with the program, in one of the two lists, or was never allocated.
bool adds_up(const Block& b, const ObjectClass& k) {
  const u32 ever = (b.unallocated.get() - k.first) / k.stride;
  return remote_count(b, k) <= b.live.get() && count_list(b, k, b.freed.get()) + b.live.get() == ever;
}

}  // namespace

void Engine::account(Account& account) {
  pages_.each_block([&](uptr address) {
    const Block& b = *reinterpret_cast<const Block*>(address);
    const ObjectClass* k = class_of(b);
    if (k == nullptr) return;
    const u32 taken = static_cast<u32>(clamp(b.live.get_unowned(), 0, k->objects()));  // OPTIMISTIC: accounts
    const u32 live = taken - static_cast<u32>(clamp(remote_count(b, *k), 0, taken));
    ++account.superblocks;
    account.live_blocks += live;
    account.live_bytes += u64{live} * k->usable;
    account.free_bytes += u64{k->objects() - live} * k->stride;
    if (!account.audit || adds_up(b, *k)) return;
    ++account.errors;
    Line().text("freeway: streamflow: the objects of the page block at ").hex(address).text(" do not add up").write();
  });
  account.free_bytes += pages_.free_bytes();
}

}  // namespace streamflow
}  // namespace freeway
