// SPDX-License-Identifier: MIT
//
// calls.cc: the calls that the program makes of the malloc.
#include <cstdio>

#include "tests/whole/simulator/kernel.h"
#include "tests/whole/simulator/library/inside.h"
#include "tests/whole/simulator/program.h"
#include "tests/whole/simulator/state.h"
#include "tests/whole/simulator/world.h"

namespace freeway::sim {
namespace {

std::uint64_t mixed(std::uint64_t x) {
  x = (x ^ (x >> 31)) * 0x9e3779b97f4a7c15;
  return x ^ (x >> 29);
}

}  // namespace

void failed(const char* what, const Block& b) {
  char text[160];
  snprintf(text, sizeof(text), "%s: block of %zu bytes at %#zx", what, b.size, b.address);
  world.fail(text);
}

namespace {

// --- Contents ---

// Calls f(offset) for the bytes of a block that are looked at: all of a small one, ends of a large one.
template <class F> void each_looked_at(std::size_t size, F&& f) {
  constexpr std::size_t kAll = 192, kHead = 96, kTail = 48;
  if (size <= kAll) {
    for (std::size_t i = 0; i < size; ++i) f(i);
    return;
  }
  for (std::size_t i = 0; i < kHead; ++i) f(i);
  for (std::size_t i = size - kTail; i < size; ++i) f(i);
}

unsigned char byte_of(std::uint64_t pattern, std::size_t offset) {
  return static_cast<unsigned char>(mixed(pattern + offset / 8) >> (offset % 8 * 8));
}

void fill(const Block& b, std::size_t from = 0) {
  auto* bytes = reinterpret_cast<volatile unsigned char*>(b.address);
  each_looked_at(b.size, [&](std::size_t i) {
    if (i >= from) bytes[i] = byte_of(b.pattern, i);
  });
}

}  // namespace

// The first `size` bytes, of those that were written.
void verify(const Block& b, std::size_t size, Address at) {
  const auto* bytes = reinterpret_cast<const volatile unsigned char*>(at);
  bool good = true;
  each_looked_at(b.size, [&](std::size_t i) { good = good && (i >= size || bytes[i] == byte_of(b.pattern, i)); });
  if (!good) failed("contents were lost", b);
}

namespace {

// --- Blocks ---

// A block that a call has given out.
void enter(Address address, std::size_t size, std::size_t alignment, int heap, bool sampled, bool filled = false,
           std::uint64_t pattern = 0, std::size_t asked = 0) {
  Block b{address,       size,    filled ? pattern : ++state.patterns, heap,
          world.current, sampled, asked == 0 && !filled ? size : asked};
  if (address % alignment != 0 || address % 16 != 0) failed("not aligned", b);
  const Address end = address + (size == 0 ? 1 : size);
  const auto after = state.places.lower_bound(end);
  if (after != state.places.begin() && std::prev(after)->second > address) failed("given out twice", b);
  const Address page = address & ~(kernel.page - 1);
  if (!kernel.is_accessible(page, (end - page + kernel.page - 1) & ~(kernel.page - 1))) failed("not accessible", b);
  state.places[address] = end;
  if (!filled) fill(b);
  state.blocks.push_back(b);
}

}  // namespace

Block leave(std::size_t index) {
  Block b = state.blocks[index];
  state.blocks[index] = state.blocks.back();
  state.blocks.pop_back();
  state.places.erase(b.address);
  return b;
}

namespace {

// One that the thread may free, by the seed's mix; the number of blocks: there is none.
std::size_t pick() {
  const std::size_t count = state.blocks.size();
  if (count == 0) return count;
  const bool remote = state.random.below(100) < state.plan.remote;
  std::size_t at = state.random.below(count);
  for (int tries = 0; tries < 8; ++tries, at = state.random.below(count)) {
    const Block& b = state.blocks[at];
    if (b.heap >= 0 && state.heaps[b.heap].ends) continue;
    if ((b.owner != world.current) == remote || tries >= 4) return at;
  }
  return count;
}

std::size_t any_size() {
  const Plan& plan = state.plan;
  if (state.random.one_in(plan.large_one_in)) {
    if (state.random.one_in(60)) return state.random.between(std::size_t{255} << 20, std::size_t{260} << 20);
    if (state.random.one_in(24)) return state.random.between(8 << 20, 12 << 20);
    return state.random.between(33 * 1024, state.random.one_in(6) ? 2 << 20 : plan.largest);
  }
  if (state.random.one_in(plan.any_size_one_in)) return state.random.below(33 * 1024);
  const std::size_t size = plan.sizes[state.random.below(plan.size_count)];
  return size - state.random.below(size < 16 ? size + 1 : 8);
}

}  // namespace

// Whether a call may find no memory.
bool may_fail() {
  return kernel.refused_one_in != 0 || kernel.longest != Kernel::kLongest || kernel.most_mappings != ~std::size_t{0} ||
         state.plan.limits;
}

namespace {

// Around a call: other threads may do anything meanwhile, so all that is needed lies on the stack.
// `in_hand`: bytes of blocks, and `superblocks`, that it may take along if it never comes back.
template <class F> auto call(F&& f, std::size_t in_hand = 0, unsigned superblocks = 0) {
  world.begin_call(in_hand, superblocks);
  auto result = f();
  world.end_call(in_hand, superblocks);
  ++totals.calls;
  check_limit();
  return result;
}

// Whether a profile of every block is on: then a number that says since when; else 0.
unsigned is_sampled_now() { return state.every_block && state.profile_changes == 0 ? state.profiles : 0; }

void allocated(void* block, std::size_t size, std::size_t alignment, int heap, unsigned before, bool rounded = false) {
  // Of an aligned block a profile that begins meanwhile may have its class's size, or the one it was rounded to.
  if (block != nullptr)
    return enter(reinterpret_cast<Address>(block), size, alignment, heap, before != 0 && before == is_sampled_now(),
                 /*filled=*/false, 0, rounded || alignment > 16 ? kUnknown : size);
  if (!may_fail() && size < (1 << 20) && heap < 0) {
    char text[80];
    snprintf(text, sizeof(text), "no memory for %zu bytes, and nothing was refused", size);
    world.fail(text);
  }
}

}  // namespace

void call_malloc() {
  const std::size_t size = any_size();
  const unsigned sampled = is_sampled_now();
  world.say("malloc(%zu)", size);
  void* block = call([&] { return freeway_malloc(size); }, size);
  world.say("= %p", block);
  allocated(block, size, 16, -1, sampled);
}

namespace {

void call_calloc() {
  const std::size_t size = any_size();
  const unsigned sampled = is_sampled_now();
  world.say("calloc(1, %zu)", size);
  void* block = call([&] { return freeway_calloc(1, size); }, size);
  world.say("= %p", block);
  if (block != nullptr) {
    const auto* bytes = static_cast<const volatile unsigned char*>(block);
    bool zero = true;
    each_looked_at(size, [&](std::size_t i) { zero = zero && bytes[i] == 0; });
    for (std::size_t i = 0; i + 8 <= size && size <= 64 * 1024; i += 512) zero = zero && bytes[i] == 0;
    if (!zero) failed("calloc gives what is not zero", {reinterpret_cast<Address>(block), size, 0, -1, 0, false, 0});
  }
  allocated(block, size, 16, -1, sampled);
}

void call_aligned() {
  const std::size_t size = any_size(),
                    alignment = std::size_t{16} << state.random.below(state.random.one_in(4) ? 14 : 9);
  const unsigned sampled = is_sampled_now();
  world.say("aligned_alloc(%zu, %zu)", alignment, size);
  void* block = call([&] { return freeway_aligned_alloc(alignment, size); }, size + alignment);
  world.say("= %p", block);
  allocated(block, size, alignment, -1, sampled, /*rounded=*/true);
}

void free_block(std::size_t at) {
  const Block b = leave(at);
  verify(b, b.size, b.address);
  if (b.heap >= 0) ++state.heaps[b.heap].users;
  world.say("free(%#zx) of %zu bytes", b.address, b.size);
  call([&] { return freeway_free(reinterpret_cast<void*>(b.address)), 0; }, b.size);
  if (b.heap >= 0) --state.heaps[b.heap].users;
}

void call_free() {
  const std::size_t at = pick();
  if (at < state.blocks.size()) free_block(at);
}

void call_realloc() {
  const std::size_t at = pick();
  if (at >= state.blocks.size()) return;
  const Block b = leave(at);
  std::size_t size = any_size();
  if (size == 0) size = 1;
  if (b.size >= 8 << 20) size = b.size + state.random.between(1 << 20, 4 << 20);  // its pages may move
  if (b.heap >= 0) ++state.heaps[b.heap].users;
  world.say("realloc(%#zx of %zu bytes, %zu)", b.address, b.size, size);
  void* block = call([&] { return freeway_realloc(reinterpret_cast<void*>(b.address), size); }, b.size + size);
  world.say("= %p", block);
  if (b.heap >= 0) --state.heaps[b.heap].users;
  if (block == nullptr) {
    verify(b, b.size, b.address);
    return enter(b.address, b.size, 16, b.heap, b.sampled, /*filled=*/true, b.pattern, b.asked);
  }
  verify(b, size < b.size ? size : b.size, reinterpret_cast<Address>(block));
  enter(reinterpret_cast<Address>(block), size, 16, b.heap, false, /*filled=*/false, 0, kUnknown);
}

void call_batch() {
  const std::size_t size = any_size(), count = state.random.between(1, 24);
  if (size > 4096 || state.blocks.size() + count > kMostBlocks) return;
  const unsigned sampled = is_sampled_now();
  void* blocks[24];
  world.say("malloc_batch(%zu, %zu)", size, count);
  const std::size_t got = call([&] { return freeway_malloc_batch(size, count, blocks); }, size * count);
  for (std::size_t i = 0; i < got; ++i) allocated(blocks[i], size, 16, -1, sampled);
}

// --- Heaps of the program ---

int any_heap() {
  const int n = static_cast<int>(state.random.below(kMostHeaps));
  return state.heaps[n].handle == nullptr || state.heaps[n].ends ? -1 : n;
}

void call_heap_new() {
  OwnHeap* mine = nullptr;
  for (OwnHeap& each : state.heaps)
    if (each.handle == nullptr && each.users == 0) mine = &each;
  if (mine == nullptr) return;
  mine->users = 1;
  freeway_heap_options_t options = {};
  if (state.random.one_in(3)) options.limit = state.random.between(1, 40) * kFrame;
  world.say("heap_new(limit %zu)", options.limit);
  freeway_heap_t made = call([&] { return freeway_heap_new(&options, sizeof(options)); });
  world.say("= %p", static_cast<void*>(made));
  mine->ends = false;
  mine->handle = made;
  mine->users = 0;
}

void call_heap_malloc() {
  const int n = any_heap();
  if (n < 0) return;
  OwnHeap& heap = state.heaps[n];
  ++heap.users;
  std::size_t size = any_size(), alignment = 16;
  const bool zeroed = state.random.one_in(6);
  if (state.random.one_in(6)) alignment <<= state.random.below(9);
  world.say("heap_%s(%d, %zu, %zu)", zeroed ? "calloc" : "malloc", n, alignment, size);
  void* block = call(
      [&] {
        if (zeroed) return freeway_heap_calloc(heap.handle, 1, size);
        return alignment == 16 ? freeway_heap_malloc(heap.handle, size)
                               : freeway_heap_aligned_alloc(heap.handle, alignment, size);
      },
      size + alignment);
  world.say("= %p", block);
  if (block != nullptr && zeroed)
    each_looked_at(size, [&](std::size_t i) {
      if (static_cast<const volatile unsigned char*>(block)[i] != 0)
        failed("heap_calloc gives what is not zero", {reinterpret_cast<Address>(block), size, 0, n, 0, false, 0});
    });
  allocated(block, size, zeroed ? 16 : alignment, n, 0);
  --heap.users;
}

std::size_t bytes_of(int heap) {
  std::size_t bytes = 0;
  for (const Block& b : state.blocks) bytes += b.heap == heap ? b.size : 0;
  return bytes;
}

void call_heap_trim() {
  const int n = any_heap();
  if (n < 0) return;
  ++state.heaps[n].users;
  world.say("heap_trim(%d)", n);
  call([&] { return freeway_heap_trim(state.heaps[n].handle); }, bytes_of(n));
  --state.heaps[n].users;
}

void call_heap_destroy() {
  const int n = any_heap();
  if (n < 0 || state.heaps[n].users != 0) return;
  OwnHeap& heap = state.heaps[n];
  heap.ends = true;
  heap.users = 1;
  const std::size_t bytes = bytes_of(n);
  for (std::size_t i = 0; i < state.blocks.size();) {
    if (state.blocks[i].heap != n) {
      ++i;
      continue;
    }
    const Block b = leave(i);
    verify(b, b.size, b.address);
  }
  world.say("heap_destroy(%d)", n);
  const int error = call([&] { return freeway_heap_destroy(heap.handle); }, bytes + (8 << 20));
  if (error != 0) world.fail("a heap that there is cannot be destroyed");
  heap.handle = nullptr;
  heap.ends = false;
  heap.users = 0;
}

// --- The rest ---

void call_limit() {
  const std::size_t hard =
      state.random.one_in(4) ? 0 : state.random.between(2, state.random.one_in(2) ? 60 : 800) * kFrame;
  const std::size_t soft = state.random.one_in(3) ? 0
                           : hard == 0            ? state.random.between(8, 800) * kFrame
                                                  : hard / 2 + kFrame;
  world.say("set_limit(%zu, %zu)", soft, hard);
  call([&] { return freeway_set_limit(soft, hard); });
}

}  // namespace

// Whether no other call is under way: one that has looked at the profile already may take it for what it was.
bool is_alone() {
  bool alone = world.thread().depth == 0;
  for (int t = 0; t < kLast; ++t) alone = alone && (t == world.current || !world.threads[t].in_call);
  return alone;
}

namespace {

void call_profile() {
  const bool on = state.random.one_in(2), every = state.plan.every_block || state.random.one_in(2);
  const bool only = state.profile_changes++ == 0;  // of two at once either may be the last
  const unsigned mine = ++state.profiles;
  const bool never = !every && state.random.one_in(2);  // a gap longer than all blocks
  const std::size_t interval = every ? 1 : never ? std::size_t{1} << 40 : state.random.between(2, 5000);
  // A gap of another profile may go on for a while where the next one samples every block (profile/gap_word.h).
  if (on && !every) state.other_profiles = true;
  world.say(on ? "profile_start(%zu)" : "profile_stop()", interval);
  const int error = call([&] { return on ? freeway_profile_start(interval) : (freeway_profile_stop(), 0); });
  --state.profile_changes;
  state.no_block = on && error == 0 && never && only && mine == state.profiles && !state.near_profiles && is_alone();
  if (state.no_block) {
    const World::Quiet quiet;
    state.samples = sim_samples();
  }
  if (on && !never) state.near_profiles = true;
  if (!on || !only || mine != state.profiles) state.every_block = false;
  else if (error == 0) state.every_block = every && !state.other_profiles && is_alone();
}

void call_ask() {
  if (state.blocks.empty()) return;
  const Block b = leave(state.random.below(state.blocks.size()));  // nobody frees it meanwhile
  if (b.heap >= 0 && state.heaps[b.heap].ends) world.fail("a heap ends while it has blocks");
  if (b.heap >= 0) ++state.heaps[b.heap].users;
  void* const block = reinterpret_cast<void*>(b.address);
  const std::uint64_t which = state.random.below(4);
  world.say("asks for %#zx (%d)", b.address, static_cast<int>(which));
  if (which == 0) {
    if (call([&] { return freeway_malloc_usable_size(block); }, b.size) < b.size)
      failed("usable size below what was asked for", b);
  } else if (which == 1) {
    freeway_explanation_t found = {};
    const freeway_kind_t kind = call([&] { return freeway_explain(block, &found, sizeof(found)); }, b.size);
    if (kind == FREEWAY_NOT_OURS || kind == FREEWAY_FREE_MEMORY || kind == FREEWAY_METADATA)
      failed("explained as no block", b);
    if (found.state == FREEWAY_FREE) failed("explained as free", b);
    if (found.begin != nullptr && found.begin != block) failed("explained as part of another", b);
  } else if (which == 2) {
    freeway_block_info_t info = {};
    if (call([&] { return freeway_block_info(block, &info, sizeof(info)); }, b.size) < b.size)
      failed("block_info below its size", b);
    if (info.superblock_live > info.superblock_blocks || info.class_permille > 1000)
      failed("block_info says more than all", b);
  } else {
    freeway_stats_t stats;
    call([&] { return freeway_stats(&stats, sizeof(stats)), 0; }, b.size);
  }
  if (b.heap >= 0) --state.heaps[b.heap].users;
  verify(b, b.size, b.address);
  state.places[b.address] = b.address + (b.size == 0 ? 1 : b.size);
  state.blocks.push_back(b);
}

// As programs do that defragment themselves.
void call_move() {
  const std::size_t at = pick();
  if (at >= state.blocks.size() || state.blocks[at].heap >= 0) return;
  const Block b = leave(at);
  world.say("should_move(%#zx)", b.address);
  const int moves = call([&] { return freeway_should_move(reinterpret_cast<void*>(b.address)); }, b.size);
  const unsigned sampled = is_sampled_now();
  void* fresh = moves == 0 ? nullptr : call([&] { return freeway_malloc(b.size); }, 2 * b.size);
  if (fresh != nullptr) {
    allocated(fresh, b.size, 16, -1, sampled);
    verify(b, b.size, b.address);
    call([&] { return freeway_free(reinterpret_cast<void*>(b.address)), 0; }, b.size);
    return;
  }
  state.places[b.address] = b.address + (b.size == 0 ? 1 : b.size);
  state.blocks.push_back(b);
}

}  // namespace

void make_call(const std::uint64_t (&weights)[kCalls]) {
  std::uint64_t sum = 0;
  for (const auto weight : weights) sum += weight;
  std::uint64_t at = state.random.below(sum);
  int what = 0;
  while (at >= weights[what]) at -= weights[what++];
  if (state.blocks.size() >= state.plan.most_blocks && what != kFree && what >= kMalloc && what <= kBatch) what = kFree;
  switch (what) {
    case kMalloc: return call_malloc();
    case kFree: return call_free();
    case kRealloc: return call_realloc();
    case kCalloc: return call_calloc();
    case kAligned: return call_aligned();
    case kBatch: return call_batch();
    case kTrim: {
      const std::size_t keep = state.random.one_in(2) ? 0 : state.random.below(4 << 20);
      world.say("trim(%zu)", keep);
      call([&] { return freeway_trim(keep); });
      return;
    }
    case kTrimStep: {
      const std::size_t most = state.random.below(1 << 20);
      world.say("trim_step(%zu)", most);
      call([&] { return freeway_trim_step(most); });
      return;
    }
    case kIdle:
      world.say("idle()");
      call([&] { return freeway_idle(), 0; });
      return;
    case kLimit: return call_limit();
    case kProfile: return call_profile();
    case kReserve: {
      const std::size_t size = any_size(), count = state.random.between(1, 40);
      if (size > 40000) return;
      world.say("reserve(%zu, %zu)", size, count);
      // GUARANTEES.md: what was asked for, and for each slab a magazine and a superblock of that class.
      const std::size_t aside = 6 * world.cpus * ((std::size_t{512} << 10) + (1 << 20));
      const std::size_t bytes = size * count + aside + (std::size_t{8} << 20);
      call([&] { return freeway_reserve(size, count); }, bytes, static_cast<unsigned>(bytes / kFrame));
      return;
    }
    case kHeapNew: return call_heap_new();
    case kHeapMalloc: return call_heap_malloc();
    case kHeapTrim: return call_heap_trim();
    case kHeapDestroy: return call_heap_destroy();
    case kAsk: return call_ask();
    case kMove: return call_move();
    default: return;
  }
}

}  // namespace freeway::sim
