// SPDX-License-Identifier: MIT
// Front: the malloc family over an engine: what the C interface calls.
//
// The engine knows small blocks; the front does the rest the same way for all: impossible sizes, the first call, large
// blocks, alignment, realloc, retries when memory is refused, errno, bad pointers, statistics.
//
// Who may enter: any thread, any signal handler, the child of any fork; whether they get through unhindered is up to the
// engine, the front itself has no lock and no state but its substrate's.
//
// Word      ready_: 0 -> 1 once the environment could be read and the engine has started. Before that (a few allocations
//           that the C library makes before it sets `environ`) blocks come from the large path, unless the engine
//           starts early
// Orders    front_blocks.h:[R1] publishes what start() stored; front_blocks.h:[A1] sees it
// Checked   tests/abi, tests/differential, tests/stress, tests/signal, with each engine
#pragma once

#include <errno.h>
#include <stdint.h>
#include <string.h>

#include <concepts>

#include "freeway/heap.h"
#include "front/substrate.h"
#include "front/summary.h"
#include "guard/guarded.h"
#include "os/process.h"
#include "os/report.h"
#include "profile/dumps.h"
#include "profile/profiler.h"

namespace freeway {

// What free did with an address; anything but kOk: nothing, and the front reports it.
using Verdict = Fault;

// What an engine's small blocks add up to.
struct Account {
  // In: whether to look for broken invariants. Only while nobody else is inside: else a walk sees what was and what is.
  bool audit = false;
  u64 live_blocks = 0, live_bytes = 0;  // in the program's hands
  u64 cached_blocks = 0, cached_bytes = 0;  // free, in caches in front of superblocks, where an engine has those
  u64 free_bytes = 0;                   // other free blocks in superblocks
  u64 superblocks = 0;
  u64 metadata_bytes = 0;               // beside what the substrate's Metadata holds
  u64 errors = 0;                       // broken invariants; each was named on fd 2
  u64 slow_mallocs = 0, slow_frees = 0, refills = 0, flushes = 0;  // where an engine counts them
};

template <class E>
concept Engine = requires(E e, Substrate& substrate, uptr address, u32 value, std::size_t bytes, Account& account) {
  { E::kName } -> std::convertible_to<const char*>;
  // The largest size in bytes that allocate() takes; larger blocks are the front's.
  { E::kMaxSmall } -> std::convertible_to<std::size_t>;
  // Bytes kept before a large block (0 or 16), and the word that is written just before it: the paper's header.
  { E::kLargePrefix } -> std::convertible_to<std::size_t>;
  { E::large_prefix(bytes) } -> std::same_as<u64>;
  // Large blocks of so many frames or more are mappings of their own; 1: all, "straight to the OS".
  { E::kHugeFrom } -> std::convertible_to<std::size_t>;
  // Several threads and handlers may start it at once, and again. False: no memory.
  { e.start(substrate) } -> std::same_as<bool>;
  // A block of at least `bytes` (0 to kMaxSmall), aligned to 16; null if memory is refused.
  { e.allocate(bytes) } -> std::same_as<void*>;
  // A block of at least `bytes` aligned to `alignment` (a power of two above 16); null if it has none such.
  { e.allocate_aligned(bytes, bytes) } -> std::same_as<void*>;
  // `address` lies in a frame whose page-map entry is FrameInfo::small(value).
  { e.free(address, value) } -> std::same_as<Verdict>;
  // Bytes that may be used from `address` on, 0 if no block begins there.
  { e.usable(address, value) } -> std::same_as<std::size_t>;
  // Whether a block, live or free, begins there.
  { e.begins_block(address, value) } -> std::same_as<bool>;
  // Gives what is empty back to the substrate.
  { e.trim() } -> std::same_as<void>;
  { e.account(account) } -> std::same_as<void>;
  // Whether its metadata says that it owns the frame.
  { e.owns(value, address) } -> std::same_as<bool>;
};

template <Engine E>
class Front {  // all zero until start()
 public:
  // Initialises what can be by now. False: there is no memory to begin with.
  bool start();
  bool ready() const { return ready_.load_relaxed() != 0; }

  // malloc. Sizes are bytes; `caller` below is the return address that reports name.
  void* allocate(std::size_t bytes);
  void* allocate_aligned(std::size_t bytes, std::size_t alignment);  // alignment: a power of two
  void* allocate_zeroed(std::size_t bytes);
  void* reallocate(void* block, std::size_t bytes, const void* caller);
  void free(void* block, const void* caller);
  std::size_t usable_size(const void* block, const void* caller);
  std::size_t allocate_batch(std::size_t bytes, std::size_t count, void** blocks);
  // What was to be freed at once is no array.
  void bad_batch(std::size_t count, const void* blocks, const void* caller) {
    report_batch(count, blocks, caller, substrate_.options().report_only);
  }

  // Gives memory without live blocks back, keeping about `keep` bytes ready; bytes given back.
  std::size_t trim(std::size_t keep);
  // Bytes, see freeway_set_limit; 0 or an error's number.
  int set_limit(std::size_t soft, std::size_t hard);
  // Makes memory ready for `count` blocks of so many bytes; for how many it is.
  std::size_t reserve(std::size_t bytes, std::size_t count);
  // The same piece by piece: about `most` bytes, or as much work as they would be; 0: there is nothing more, else at least 1.
  std::size_t trim_step(std::size_t most);
  // The thread is about to sleep: gives back what the purge policy lets go, and what its cache has not needed lately.
  void idle();
  // See freeway_profile_start, _stop; of engines that have no profile ENOTSUP.
  int begin_profile(u64 interval);
  void end_profile();
  // Heaps of one's own, see freeway/heap.h. Handles are heap/heaps.h's; of engines without them: 0 with ENOTSUP. Functions that
  // return an int: 0 or an error's number; blocks: null with errno.
  u64 make_heap(std::size_t limit, const char* name);
  int destroy_heap(u64 handle);
  void* allocate_in(u64 handle, std::size_t bytes);
  void* allocate_in(u64 handle, std::size_t bytes, std::size_t alignment, bool zeroed);
  template <class Record>
  void* allocate_in_record(Record& heap, std::size_t bytes);  // of at most kMaxSmall bytes
  void* reallocate_in(u64 handle, void* block, std::size_t bytes, const void* caller);
  std::size_t trim_heap(u64 handle);
  int fill_heap_stats(u64 handle, freeway_heap_stats_t& stats);

  void fill_stats(freeway_stats_t& stats);
  void fill_audit(freeway_audit_t& audit);
  void explain(uptr address, freeway_explanation_t& explanation);
  // What is known of the live block that begins at the address; all 0 if none does. Whether moving it would help.
  void block_info(uptr address, freeway_block_info_t& info);
  bool should_move(uptr address);
  void write_summary(int fd);
  void write_summary_json(int fd);
  // At exit: does what FREEWAY_STATS asked for.
  void finish();
  // What the engine is and which of its forms is in use: a word or two.
  const char* mode() {
    if constexpr (requires { engine_.mode(); })
      if (has_engine()) return engine_.mode();
    return E::kName;
  }

  // Calls f(from, to, bytes, superblocks, live bytes, cached bytes) for each size class in use that the engine tells of.
  template <class F>
  void each_class(F&& f);

  Substrate& substrate() { return substrate_; }
  E& engine() { return engine_; }

 private:
  friend struct Describe;  // engine/freeway/describe.cc
  static constexpr std::size_t kMaxSize = PTRDIFF_MAX;
  // Whether the engine brings malloc and free itself, in assembly, and this front is only its slow path.
  static constexpr bool kOwnEntry = requires { requires E::kOwnEntry; };
  // Whether the program may make heaps (front_heaps.h).
  static constexpr bool kOwnHeaps = requires(E e) { e.own_heaps(); };
  // Whether threads have heaps of their own, which a handler that interrupted them cannot enter.
  static constexpr bool kThreadHeaps = requires { requires E::kThreadHeaps; };
  // Whether the engine can be used before its options can be read.
  static constexpr bool kStartsEarly = requires { requires E::kStartsEarly; };

  void profile_as_asked();
  static void* refused() {
    errno = ENOMEM;
    return nullptr;
  }
  // Whether the engine has been started by now: it is not while memory is refused, or the environment cannot be read.
  bool has_engine() { return start() && (kStartsEarly || ready()); }
  // Whether the engine has blocks of so many bytes; the largest may be an option, then it has largest().
  bool is_small(std::size_t bytes) const {
    if constexpr (requires { engine_.largest(); }) return bytes <= engine_.largest();
    return bytes <= E::kMaxSmall;
  }
  // malloc and free from within: on the fast path, where there is one.
  void* obtain(std::size_t bytes);
  void release(void* block, const void* caller);
  void* allocate_slow(std::size_t bytes);
  void* large(std::size_t bytes, std::size_t alignment, bool* zero);
  void profile_large(uptr address, std::size_t bytes);
  void* large_once(std::size_t bytes, std::size_t alignment, bool* zero);
  static bool begins_large(uptr address) {
    const std::size_t offset = address % kFrameSize;
    return offset == 0 || offset == E::kLargePrefix;
  }
  // What precedes the block: 0 for an over-aligned one.
  static std::size_t prefix_of(uptr address) { return address % kFrameSize; }
  static void write_prefix(uptr block, std::size_t bytes) {
    if (E::kLargePrefix != 0 && prefix_of(block) != 0) *reinterpret_cast<u64*>(block - 8) = E::large_prefix(bytes);
  }
  void free_large(uptr address, FrameInfo info, const void* caller);
  bool resize_large(uptr& address, FrameInfo info, std::size_t bytes);
  void* move_block(void* block, std::size_t old_bytes, std::size_t bytes, const void* caller);
  void scavenge();
  void bad(Fault fault, const char* function, const void* pointer, const void* caller) {
    // Where there has been no memory to start with, the options have not been read.
    const bool go_on = ready() || !options_available() ? substrate_.options().report_only : read_options(false).report_only;
    report(fault, function, pointer, caller, go_on);
  }
  Fault classify(uptr address, FrameInfo info);
  void guard_large();
  void free_guarded(uptr address, const void* caller);
  void free_of_heap(uptr address, FrameInfo info, const void* caller);
  std::size_t usable_of_heap(uptr address, FrameInfo info);
  void* reallocate_of_heap(uptr address, FrameInfo info, std::size_t bytes, const void* caller);
  template <class Record>
  void* allocate_of(Record& heap, std::size_t bytes, std::size_t alignment, bool zeroed);
  template <class Record>
  void* allocate_of_once(Record& heap, std::size_t bytes, std::size_t alignment, bool zeroed);
  void block_info_of_heap(uptr address, FrameInfo info, freeway_block_info_t& found);
  void explain_of_heap(uptr address, FrameInfo info, freeway_explanation_t& explanation);
  void write_heaps(int fd);
  void write_heaps_json(int fd);
  bool explain_large(uptr address, freeway_explanation_t& explanation);
  void explain_rest(uptr address, freeway_explanation_t& explanation);

  Substrate substrate_;
  E engine_;
  Atomic<u32> ready_;
  Atomic<u32> barren_parts_;  // that trim_step did without finding anything, one after the other: a hint
};

}  // namespace freeway

#include "front/front_blocks.h"
#include "front/front_explain.h"
#include "front/front_figures.h"
#include "front/front_heaps.h"
