// SPDX-License-Identifier: MIT
#include "whole/simulator/program.h"

#include <errno.h>

#include <cstdio>
#include <cstring>
#include <initializer_list>
#include <map>
#include <vector>

#include "freeway/freeway.h"
#include "freeway/heap.h"
#include "whole/simulator/kernel.h"
#include "whole/simulator/library/inside.h"
#include "whole/simulator/world.h"

extern "C" {
extern char** sim_environment;
extern char sim_single_threaded;
extern unsigned sim_rseq_size;
extern unsigned long sim_feature_size;
extern unsigned sim_address_bits;
}

namespace freeway::sim {

Totals totals;

namespace {

using Address = std::uintptr_t;

constexpr std::size_t kFrame = 64 * 1024;
constexpr std::size_t kUnknown = ~std::size_t{0};
constexpr unsigned kMostBlocks = 400;
constexpr int kMostHeaps = 3;

struct Block {
  Address address = 0;
  std::size_t size = 0;
  std::uint64_t pattern = 0;
  int heap = -1;         // of the program's
  int owner = 0;
  bool sampled = false;  // by a profile of every block
  std::size_t asked = 0;  // its first size, which a profile has
};

struct OwnHeap {
  freeway_heap_t handle = nullptr;
  unsigned users = 0;  // calls on it
  bool ends = false;
};

enum Call {
  kMalloc, kFree, kRealloc, kCalloc, kAligned, kBatch, kTrim, kTrimStep, kIdle, kLimit, kProfile, kReserve, kHeapNew,
  kHeapMalloc, kHeapTrim, kHeapDestroy, kAsk, kMove, kCalls
};

// What the seed chose: each seed leaves many kinds of things out, so that the others come close together.
struct Plan {
  int threads = 1;
  unsigned calls = 100;  // of each thread
  std::uint64_t weights[kCalls] = {};
  std::size_t sizes[4] = {};
  unsigned size_count = 1;
  std::uint64_t large_one_in = 0, any_size_one_in = 0;
  std::size_t largest = 300 * 1024;  // of most of the large ones
  std::uint64_t remote = 50;  // percent of frees
  unsigned most_blocks = 100;
  bool limits = false, hardened = false, guarded = false;
  std::vector<std::string> options;
};

struct State {
  Plan plan;
  Random random;
  std::vector<Block> blocks;
  std::map<Address, Address> places;  // of live blocks: begin, end
  OwnHeap heaps[kMostHeaps];
  unsigned next_thread = 0;
  std::uint64_t patterns = 0;
  bool every_block = false;  // a profile of every block is on, as far as is known
  unsigned profile_changes = 0;  // that are under way, or may have been left there
  unsigned profiles = 0;
  bool other_profiles = false, near_profiles = false;
  bool no_block = false;  // a profile is on that samples none, by all odds
  std::uint64_t samples = 0;
  std::uint64_t last_hard = 0, last_held = 0;  // frames
  std::vector<char*> environment;
};
State state;

std::uint64_t mixed(std::uint64_t x) {
  x = (x ^ (x >> 31)) * 0x9e3779b97f4a7c15;
  return x ^ (x >> 29);
}

void failed(const char* what, const Block& b) {
  char text[160];
  snprintf(text, sizeof(text), "%s: block of %zu bytes at %#zx", what, b.size, b.address);
  world.fail(text);
}

void audit(freeway_audit_t& found);

// --- Contents ----------------------------------------------------------------------------------------------------------

// Calls f(offset) for the bytes of a block that are looked at: all of a small one, ends of a large one.
template <class F>
void each_looked_at(std::size_t size, F&& f) {
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

// The first `size` bytes, of those that were written.
void verify(const Block& b, std::size_t size, Address at) {
  const auto* bytes = reinterpret_cast<const volatile unsigned char*>(at);
  bool good = true;
  each_looked_at(b.size, [&](std::size_t i) { good = good && (i >= size || bytes[i] == byte_of(b.pattern, i)); });
  if (!good) failed("contents were lost", b);
}

// --- Blocks ------------------------------------------------------------------------------------------------------------

// A block that a call has given out.
void enter(Address address, std::size_t size, std::size_t alignment, int heap, bool sampled, bool filled = false,
           std::uint64_t pattern = 0, std::size_t asked = 0) {
  Block b{address, size, filled ? pattern : ++state.patterns, heap, world.current, sampled, asked == 0 && !filled ? size : asked};
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

Block leave(std::size_t index) {
  Block b = state.blocks[index];
  state.blocks[index] = state.blocks.back();
  state.blocks.pop_back();
  state.places.erase(b.address);
  return b;
}

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

// Whether a call may find no memory.
bool may_fail() { return kernel.refused_one_in != 0 || kernel.longest != Kernel::kLongest || kernel.most_mappings != ~std::size_t{0} || state.plan.limits; }

// Between two looks the heap does not grow beyond its limit. If it was beyond it when the limit was set, it does not grow.
void check_limit() {
  if (!state.plan.limits) return;
  const World::Quiet quiet;
  const std::uint64_t hard = sim_hard_limit(), held = sim_held_frames();
  if (hard != 0 && hard == state.last_hard && held > hard && held > state.last_held) {
    char text[100];
    snprintf(text, sizeof(text), "%llu frames are held, the limit is %llu", static_cast<unsigned long long>(held),
             static_cast<unsigned long long>(hard));
    world.fail(text);
  }
  state.last_hard = hard;
  state.last_held = held;
}

// Around a call: other threads may do anything meanwhile, so all that is needed lies on the stack.
// `in_hand`: bytes of blocks, and `superblocks`, that it may take along if it never comes back.
template <class F>
auto call(F&& f, std::size_t in_hand = 0, unsigned superblocks = 0) {
  world.begin_call(in_hand, superblocks);
  auto result = f();
  world.end_call(in_hand, superblocks);
  ++totals.calls;
  check_limit();
  return result;
}

// Whether a profile of every block is on: then a number that says since when; else 0.
unsigned is_sampled_now() { return state.every_block && state.profile_changes == 0 ? state.profiles : 0; }

void allocated(void* block, std::size_t size, std::size_t alignment, int heap, unsigned before) {
  // Of an aligned block a profile that begins meanwhile may have its class's size.
  if (block != nullptr)
    return enter(reinterpret_cast<Address>(block), size, alignment, heap, before != 0 && before == is_sampled_now(),
                 /*filled=*/false, 0, alignment > 16 ? kUnknown : size);
  if (!may_fail() && size < (1 << 20) && heap < 0) {
    char text[80];
    snprintf(text, sizeof(text), "no memory for %zu bytes, and nothing was refused", size);
    world.fail(text);
  }
}

void call_malloc() {
  const std::size_t size = any_size();
  const unsigned sampled = is_sampled_now();
  world.say("malloc(%zu)", size);
  void* block = call([&] { return freeway_malloc(size); }, size);
  world.say("= %p", block);
  allocated(block, size, 16, -1, sampled);
}

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
  const std::size_t size = any_size(), alignment = std::size_t{16} << state.random.below(state.random.one_in(4) ? 14 : 9);
  const unsigned sampled = is_sampled_now();
  world.say("aligned_alloc(%zu, %zu)", alignment, size);
  void* block = call([&] { return freeway_aligned_alloc(alignment, size); }, size + alignment);
  world.say("= %p", block);
  allocated(block, size, alignment, -1, sampled);
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

// --- Heaps of the program ----------------------------------------------------------------------------------------------

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
  void* block = call([&] {
    if (zeroed) return freeway_heap_calloc(heap.handle, 1, size);
    return alignment == 16 ? freeway_heap_malloc(heap.handle, size) : freeway_heap_aligned_alloc(heap.handle, alignment, size);
  }, size + alignment);
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

// --- The rest ----------------------------------------------------------------------------------------------------------

void call_limit() {
  const std::size_t hard = state.random.one_in(4) ? 0 : state.random.between(2, state.random.one_in(2) ? 60 : 800) * kFrame;
  const std::size_t soft = state.random.one_in(3) ? 0 : hard == 0 ? state.random.between(8, 800) * kFrame : hard / 2 + kFrame;
  world.say("set_limit(%zu, %zu)", soft, hard);
  call([&] { return freeway_set_limit(soft, hard); });
}

// Whether no other call is under way: one that has looked at the profile already may take it for what it was.
bool is_alone() {
  bool alone = world.thread().depth == 0;
  for (int t = 0; t < kLast; ++t) alone = alone && (t == world.current || !world.threads[t].in_call);
  return alone;
}

void call_profile() {
  const bool on = state.random.one_in(2), every = state.random.one_in(2);
  ++state.profile_changes;
  const unsigned mine = ++state.profiles;
  const bool never = !every && state.random.one_in(2);  // a gap longer than all blocks
  const std::size_t interval = every ? 1 : never ? std::size_t{1} << 40 : state.random.between(2, 5000);
  // A gap of another profile may go on for a while where the next one samples every block (profile/gap_word.h).
  if (on && !every) state.other_profiles = true;
  world.say(on ? "profile_start(%zu)" : "profile_stop()", interval);
  const int error = call([&] { return on ? freeway_profile_start(interval) : (freeway_profile_stop(), 0); });
  --state.profile_changes;
  state.no_block = on && error == 0 && never && mine == state.profiles && !state.near_profiles && is_alone();
  if (state.no_block) {
    const World::Quiet quiet;
    state.samples = sim_samples();
  }
  if (on && !never) state.near_profiles = true;
  if (!on || mine != state.profiles) state.every_block = false;
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
    if (call([&] { return freeway_malloc_usable_size(block); }, b.size) < b.size) failed("usable size below what was asked for", b);
  } else if (which == 1) {
    freeway_explanation_t found = {};
    const freeway_kind_t kind = call([&] { return freeway_explain(block, &found, sizeof(found)); }, b.size);
    if (kind == FREEWAY_NOT_OURS || kind == FREEWAY_FREE_MEMORY || kind == FREEWAY_METADATA) failed("explained as no block", b);
    if (found.state == FREEWAY_FREE) failed("explained as free", b);
    if (found.begin != nullptr && found.begin != block) failed("explained as part of another", b);
  } else if (which == 2) {
    freeway_block_info_t info = {};
    if (call([&] { return freeway_block_info(block, &info, sizeof(info)); }, b.size) < b.size) failed("block_info below its size", b);
    if (info.superblock_live > info.superblock_blocks || info.class_permille > 1000) failed("block_info says more than all", b);
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

void on_signal() {
  const std::uint64_t calls = state.random.between(1, 3);
  for (std::uint64_t i = 0; i < calls; ++i) make_call(state.plan.weights);
}

// --- What must hold ----------------------------------------------------------------------------------------------------

void audit(freeway_audit_t& found) {
  if (freeway_audit(&found, sizeof(found)) != 0) world.fail("the audit finds errors");
}

void check_clean() {
  sim_each_clean(
      [](void*, std::uintptr_t address, std::size_t bytes) {
        if (const Address page = Kernel::first_filled(address, bytes))
          failed("a free frame that is said to be zero is not", {page, kFrame, 0, -1, 0, false, 0});
      },
      nullptr);
}

// At any moment, with all threads stopped where they are.
void look() {
  freeway_audit_t found;
  audit(found);
  for (int i = 0; i < 3 && !state.blocks.empty(); ++i) {
    const Block& b = state.blocks[state.random.below(state.blocks.size())];
    verify(b, b.size, b.address);
  }
  if (state.random.one_in(8)) check_clean();
}

void equal(const char* what, std::uint64_t found, std::uint64_t wanted) {
  if (found == wanted) return;
  char text[160];
  snprintf(text, sizeof(text), "%s: %llu, not %llu", what, static_cast<unsigned long long>(found),
           static_cast<unsigned long long>(wanted));
  world.fail(text);
}
void at_most(const char* what, std::uint64_t found, std::uint64_t most) {
  if (found <= most) return;
  char text[160];
  snprintf(text, sizeof(text), "%s: %llu, more than %llu", what, static_cast<unsigned long long>(found),
           static_cast<unsigned long long>(most));
  world.fail(text);
}

// All calls have come back.
void check_sums(const freeway_audit_t& found) {
  std::size_t small = 0, of_heap[kMostHeaps] = {};
  for (const Block& b : state.blocks) {
    if (b.heap >= 0) ++of_heap[b.heap];
    else if (b.size <= 40 * 1024)
      small += freeway_explain(reinterpret_cast<void*>(b.address), nullptr, 0) == FREEWAY_SMALL_BLOCK;
  }
  equal("live blocks", found.blocks_live, small);
  if (kernel.refusals == 0) equal("frames that belong to nothing", found.frames_stranded, 0);
  equal("frames in hand", found.frames_held, 0);
  equal("superblocks that no list has", found.superblocks_adrift, 0);
  equal("superblocks in hand", found.superblocks_held, found.superblocks_held_by_slabs);
  equal("slabs in hand", found.slabs_held, 0);
  equal("free blocks in hand", found.bytes_held, 0);
  equal("frames charged", sim_held_frames(), found.frames_charged);
  equal("dirty frames counted", sim_dirty_counted(), sim_dirty_found());
  if (!sim_has_form()) world.fail("malloc has not the form that the profile asks for");
  if (const Address frame = sim_hidden_frame()) failed("a free frame that no search finds", {frame, kFrame, 0, -1, 0, false, 0});
  for (int n = 0; n < kMostHeaps; ++n) {
    const OwnHeap& heap = state.heaps[n];
    if (heap.handle == nullptr || heap.ends) continue;
    freeway_heap_stats_t stats = {};
    if (freeway_heap_stats(heap.handle, &stats, sizeof(stats)) != 0) world.fail("a heap is unknown");
    equal("live blocks of a heap", stats.live_blocks, of_heap[n]);
    if (stats.limit != 0) at_most("bytes that a heap holds", stats.held, stats.limit);
  }
}

void check_samples() {
  if (state.no_block && state.profile_changes == 0) equal("samples of a profile that takes one byte in 2^40", sim_samples(), state.samples);
  std::map<Address, std::size_t> sampled;
  sim_each_sampled([](void* to, SimSampled one) { (*static_cast<decltype(sampled)*>(to))[one.address] = one.bytes; }, &sampled);
  std::map<Address, const Block*> live;
  for (const Block& b : state.blocks) live[b.address] = &b;
  if (world.lost_calls == 0)
    for (const auto& [address, bytes] : sampled) {
      const auto at = live.find(address);
      if (at == live.end()) failed("the profile follows what is not live", {address, bytes, 0, -1, 0, false, 0});
      if (at->second->asked != kUnknown && bytes != at->second->asked) failed("the profile has another size", *at->second);
    }
  if (sim_lost_samples() != 0 || world.lost_calls != 0 || may_fail()) return;  // without memory a block is not sampled
  for (const Block& b : state.blocks)
    if (b.sampled && sampled.count(b.address) == 0) failed("the profile of every block has not this one", b);
}

// The last thread, when all others have ended or stopped for ever: looks, frees everything, and looks again.
void finish(int) {
  const World::Quiet quiet;
  freeway_audit_t found;
  audit(found);
  for (const Block& b : state.blocks) verify(b, b.size, b.address);
  for (const Block& b : state.blocks)
    if (freeway_malloc_usable_size(reinterpret_cast<void*>(b.address)) < b.size) failed("usable size below what was asked for", b);
  check_clean();
  check_samples();
  const unsigned lost = world.lost_calls;
  if (lost == 0) check_sums(found);
  while (!state.blocks.empty()) {
    const Block b = leave(state.blocks.size() - 1);
    freeway_free(reinterpret_cast<void*>(b.address));
  }
  for (OwnHeap& heap : state.heaps)
    if (heap.handle != nullptr && !heap.ends && freeway_heap_destroy(heap.handle) != 0) world.fail("a heap cannot be destroyed");
  freeway_profile_stop();
  freeway_trim(0);
  freeway_trim(0);
  audit(found);
  check_samples();
  if (lost == 0) {
    // A frame that is one page is lost with its guard, where that cannot be opened (pages/large.h).
    at_most("frames that belong to nothing at the end", found.frames_stranded,
            state.plan.guarded && kernel.page == kFrame ? kernel.refusals : 0);
    equal("live blocks at the end", found.blocks_live, 0);
    equal("cached blocks at the end", found.blocks_cached, 0);
    equal("frames of superblocks at the end", found.frames_small, 0);
    equal("frames of large blocks at the end", found.frames_large, 0);
    equal("frames of huge blocks at the end", found.frames_huge, 0);
    at_most("dirty frames at the end", found.frames_dirty, sim_kept_frames());
    equal("frames charged at the end", sim_held_frames(), found.frames_charged);
    return;
  }
  // What calls that never came back may take along: GUARANTEES.md; tests/signal/support/loss_account.h says the same of the product.
  constexpr std::size_t kMostOfSlab = std::size_t{19} << 20, kLargestSuperblock = 1 << 20, kMostPurged = 4 << 20;
  at_most("blocks that are lost", found.blocks_live, lost * (96 + kernel.page / 16));
  at_most("superblocks that are lost", found.superblocks_held - found.superblocks_held_by_slabs, world.lost_superblocks);
  at_most("superblocks that no list has", found.superblocks_adrift, world.lost_superblocks);
  at_most("slabs that are lost", found.slabs_held, 3 * lost);
  at_most("bytes of free blocks that are lost", found.bytes_held,
          found.slabs_held * kMostOfSlab + world.lost_superblocks * kLargestSuperblock);
  at_most("frames that are lost", found.frames_stranded + found.frames_large,
          (world.lost_bytes + lost * (kMostPurged + kLargestSuperblock)) / kFrame + (state.plan.guarded ? kernel.refusals : 0));
  at_most("dirty frames at the end", found.frames_dirty, sim_kept_frames() + lost * kMostPurged / kFrame);
  at_most("frames charged too little", found.frames_charged, sim_held_frames() + found.frames_stranded);
}

void run_thread(int t) {
  const Plan& plan = state.plan;
  if (t == 0) call_malloc();  // as the C library does before it makes a thread
  for (unsigned i = 0; i < plan.calls; ++i) {
    // The first thread starts the others, one by one.
    if (t == 0 && state.next_thread < static_cast<unsigned>(plan.threads) && i >= plan.calls * state.next_thread / 32) {
      sim_single_threaded = 0;
      world.start(static_cast<int>(state.next_thread), run_thread, static_cast<unsigned>(world.random.below(world.cpus)),
                  !world.random.one_in(24));
      ++state.next_thread;
    }
    make_call(plan.weights);
    if (world.lost_calls == 0 && is_alone() && state.random.one_in(24)) {
      const World::Quiet quiet;
      freeway_audit_t found;
      audit(found);
      check_sums(found);
    }
    if (world.is_child && i + 12 < plan.calls) i = plan.calls - 12;
  }
}

// Some seeds are about one thing: that comes often then.
enum Theme { kMixed, kHeaps, kSpare, kPages, kLimits, kGuards, kProfiles, kStart, kSmallSpace, kThemes };

// Before the plan's other choices, which look at the weights.
void weigh(Theme theme, Random& random) {
  Plan& plan = state.plan;
  auto& weights = plan.weights;
  const auto only = [&](std::initializer_list<std::pair<Call, std::uint64_t>> calls) {
    for (auto& weight : weights) weight = 0;
    for (const auto& [what, weight] : calls) weights[what] = weight;
  };
  switch (theme) {
    case kHeaps:
      only({{kMalloc, 4}, {kFree, 20}, {kHeapNew, 8}, {kHeapMalloc, 40}, {kHeapDestroy, 8}, {kHeapTrim, 4}, {kTrim, 6},
            {kRealloc, 3}, {kAsk, 3}});
      break;
    case kSpare: only({{kMalloc, 30}, {kFree, 30}, {kTrim, 10}, {kTrimStep, 4}, {kIdle, 4}}); break;
    case kPages:
      only({{kMalloc, 30}, {kFree, 30}, {kRealloc, 24}, {kCalloc, 10}, {kTrim, 6}, {kTrimStep, 6}, {kAligned, 4}});
      break;
    case kLimits: only({{kMalloc, 30}, {kFree, 24}, {kLimit, 6}, {kCalloc, 4}, {kTrim, 1}}); break;
    case kGuards:
      only({{kMalloc, 40}, {kFree, 36}, {kRealloc, 10}, {kAsk, 20}, {kHeapNew, 3}, {kHeapMalloc, 20}, {kHeapDestroy, 3}});
      break;
    case kProfiles: only({{kMalloc, 40}, {kFree, 36}, {kProfile, 14}, {kRealloc, 4}, {kAligned, 4}}); break;
    default: return;
  }
  for (auto& weight : weights)
    if (random.one_in(4)) weight *= 4;
  if (weights[kFree] == 0) weights[kFree] = 1;
}

// After them.
void stress(Theme theme, Random& random) {
  Plan& plan = state.plan;
  switch (theme) {
    case kSpare: sim_rseq_size = 0; break;
    case kPages:
    case kSmallSpace:
      plan.large_one_in = random.between(1, 2);
      plan.most_blocks = static_cast<unsigned>(random.between(4, 16));
      if (random.one_in(2)) break;
      plan.largest = 2 * kFrame;  // full chunks
      plan.most_blocks = static_cast<unsigned>(random.between(30, 60));
      break;
    case kLimits: plan.large_one_in = random.between(1, 3); break;
    case kGuards:
      plan.guarded = true;
      plan.options.push_back("FREEWAY_GUARD=" + std::to_string(random.between(1, 3)) + (random.one_in(2) ? ",large" : ""));
      if (random.one_in(2)) plan.large_one_in = random.between(1, 3);
      break;
    case kStart:
      plan.calls = static_cast<unsigned>(random.between(1, 4));
      world.pace = std::uint64_t{1} << random.below(5);
      world.weights[kSignal] = 20;
      break;
    default: break;
  }
  if (theme != kSmallSpace) return;
  // No window: the arenas lie where the kernel puts them, and it has no long ones.
  sim_address_bits = 35;
  kernel.longest = std::size_t{4} << (20 + random.below(4));
}

// --- A seed ------------------------------------------------------------------------------------------------------------

constexpr std::uint64_t kUsually[kCalls] = {60, 40, 8, 6, 6, 3, 1, 2, 2, 1, 1, 1, 2, 20, 1, 1, 4, 3};

void choose(std::uint64_t seed) {
  state = State();
  Random& random = state.random;
  random = Random(~seed);
  Plan& plan = state.plan;
  plan.threads = static_cast<int>(random.between(1, kMostProgramThreads));
  world.cpus = static_cast<unsigned>(random.between(1, 4));
  world.nodes = random.one_in(5) ? 2 : 1;
  world.pace = std::uint64_t{2} << random.below(8);
  plan.calls = static_cast<unsigned>(random.between(10, 240) / static_cast<unsigned>(plan.threads)) + 8;
  // Calls: each kind but malloc and free may be left out, and some come more often.
  for (int i = 0; i < kCalls; ++i) {
    plan.weights[i] = kUsually[i];
    if (i > kFree && random.one_in(2)) plan.weights[i] = 0;
    if (random.one_in(6)) plan.weights[i] *= 8;
  }
  if (random.one_in(2)) plan.weights[kHeapNew] = plan.weights[kHeapMalloc] = 0;
  const Theme theme = random.one_in(3) ? kMixed : static_cast<Theme>(random.below(kThemes));
  weigh(theme, random);
  plan.limits = plan.weights[kLimit] != 0;
  constexpr std::size_t kSizes[] = {16, 32, 64, 112, 576, 1024, 4096, 8192, 16384, 32768};
  plan.size_count = static_cast<unsigned>(random.between(1, 4));
  for (unsigned i = 0; i < plan.size_count; ++i) plan.sizes[i] = kSizes[random.below(10)];
  plan.large_one_in = random.one_in(2) ? 0 : random.between(2, 20);
  plan.any_size_one_in = random.one_in(2) ? 0 : random.between(2, 30);
  plan.remote = random.one_in(3) ? 90 : random.below(100);
  plan.most_blocks = static_cast<unsigned>(random.between(4, random.one_in(4) ? 300 : 60));
  // Events.
  constexpr std::uint64_t kWeights[kEvents] = {40, 6, 6, 3, 1, 4, 1, 1};
  for (int i = 0; i < kEvents; ++i) world.weights[i] = i == kSwitch || !random.one_in(2) ? kWeights[i] << random.below(3) : 0;
  if (world.weights[kKill] != 0) world.kills_left = static_cast<unsigned>(random.between(1, 3));
  if (world.weights[kFork] != 0 && random.one_in(6)) world.forks_left = 1;
  world.audits_left = static_cast<unsigned>(random.below(8));
  world.signals_left = static_cast<unsigned>(random.between(1, 60));
  // The kernel.
  kernel.random = Random(seed ^ 0x6b65726e656c);
  if (random.one_in(4)) kernel.refused_one_in = random.between(2, 40);
  if (random.one_in(12)) kernel.most_mappings = random.between(6, 40);
  sim_address_bits = random.one_in(6) ? 38 : 36;
  kernel.page = random.one_in(6) ? 16384 : random.one_in(12) ? 65536 : 4096;
  if (random.one_in(10))
    for (std::uint64_t i = random.between(1, 6); i > 0; --i)
      kernel.occupy((sim_address_bits == 36 ? Kernel::kBegin : Kernel::kFarBegin) + random.between(1, 1024) * kFrame, random.between(1, 20) * kFrame);
  // How the library is set.
  sim_rseq_size = random.one_in(4) ? 0 : 20;
  sim_feature_size = random.one_in(5) ? 20 : 28;
  sim_single_threaded = 1;
  if (random.one_in(6)) {
    plan.hardened = true;
    const char* kinds[] = {"FREEWAY_HARDEN=1", "FREEWAY_HARDEN=1,quarantine=4096", "FREEWAY_HARDEN=1,fill"};
    plan.options.push_back(kinds[random.below(3)]);
  }
  if (theme != kGuards && random.one_in(8)) {
    plan.guarded = true;
    plan.options.push_back("FREEWAY_GUARD=" + std::to_string(random.between(1, 10)) + (random.one_in(2) ? ",large" : ""));
  }
  if (random.one_in(4)) plan.options.push_back("FREEWAY_BACKGROUND=1");
  if (random.one_in(20)) plan.options.push_back("FREEWAY_PURGE=never");
  if (random.one_in(20)) plan.options.push_back(random.one_in(2) ? "FREEWAY_HUGE=always" : "FREEWAY_HUGE=never");
  stress(theme, random);
  for (std::string& option : plan.options) state.environment.push_back(option.data());
  state.environment.push_back(nullptr);
  sim_environment = state.environment.data();
}

}  // namespace

std::string run_seed(std::uint64_t seed, bool trace) {
  world.reset(seed);
  world.trace = trace;
  choose(seed);
  if (trace) {
    printf("seed %llu: %d threads, %u calls each, %u CPUs, %u nodes, an event each %llu operations\n",
           static_cast<unsigned long long>(seed), state.plan.threads, state.plan.calls, world.cpus, world.nodes,
           static_cast<unsigned long long>(world.pace));
    for (const std::string& option : state.plan.options) printf("  %s\n", option.c_str());
    for (int i = 0; i < kEvents; ++i) printf("  %s %llu", kEventNames[i], static_cast<unsigned long long>(world.weights[i]));
    printf("\n  refused: one in %llu; page %zu; rseq %s\n", static_cast<unsigned long long>(kernel.refused_one_in), kernel.page,
           sim_rseq_size == 0 ? "none" : sim_feature_size < 28 ? "by cpu_id" : "by mm_cid");
  }
  world.handler(on_signal);
  world.auditor(look);
  state.next_thread = 1;
  world.start(0, run_thread, 0, true);
  world.start(kLast, finish, 0, false);
  world.threads[kAuditor].registered = false;
  world.run();
  for (int i = 0; i < kEvents; ++i) totals.events[i] += world.happened[i];
  totals.children += world.children;
  totals.refusals += kernel.refusals;
  totals.lost += world.lost_calls;
  return world.failure();
}

}  // namespace freeway::sim
