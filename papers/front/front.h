// SPDX-License-Identifier: MIT
// Front: the malloc family over a paper's system: what src/abi calls by way of family.cc.
//
// The engine (what the paper is about) knows small blocks; the front does the rest the same way for all: impossible
// sizes, the first call, large blocks, alignment, realloc, retries when memory is refused, errno, bad pointers,
// statistics.
//
// Who may enter: any thread, any signal handler, the child of any fork; whether they get through unhindered is up to
// the engine, the front itself has no lock and no state but its substrate's.
//
// Word      ready_: 0 -> 1 once the environment could be read and the engine has started. Before that (a few
//           allocations that the C library makes before it sets `environ`) blocks come from the large path
// Orders    blocks.h:[R1] publishes what start() stored; blocks.h:[A1] sees it
// Checked   tests/abi, tests/whole/differential, tests/whole/stress, tests/whole/signal, with each engine
#pragma once

#include <errno.h>
#include <stdint.h>
#include <string.h>

#include <concepts>

#include "freeway/freeway.h"
#include "look/explanation.h"
#include "look/summary.h"
#include "os/fault.h"
#include "os/process.h"
#include "os/report.h"
#include "pages/substrate.h"
#include "papers/front/options.h"

namespace freeway {

// What free did with an address; anything but kOk: nothing, and the front reports it.
using Verdict = Fault;

// What an engine's small blocks add up to.
struct Account {
  // In: whether to look for broken invariants. Only while nobody else is inside: else a walk sees what was and what is.
  bool audit = false;
  u64 live_blocks = 0, live_bytes = 0;      // in the program's hands
  u64 cached_blocks = 0, cached_bytes = 0;  // free, in caches in front of superblocks, where an engine has those
  u64 free_bytes = 0;                       // other free blocks in superblocks
  u64 superblocks = 0;
  u64 metadata_bytes = 0;                                          // beside what the substrate's Metadata holds
  u64 errors = 0;                                                  // broken invariants; each was named on fd 2
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
// An engine may also have: mode(), write_classes(fd), audit(audit) in the place of account's, largest() where kMaxSmall
// is an option, and kThreadHeaps where threads have heaps that a handler which interrupted them cannot enter.

template <Engine E> class Front {  // all zero until start()
 public:
  // Initialises what can be by now. False: there is no memory to begin with.
  bool start();
  bool ready() const { return ready_.load_relaxed() != 0; }
  // The same, and the engine is started. False: also while the environment cannot be read.
  bool open() { return start() && ready(); }
  void finish();

  // As family.h has them.
  void* allocate(std::size_t bytes);
  void* allocate_aligned(std::size_t bytes, std::size_t alignment);
  void* allocate_zeroed(std::size_t bytes);
  void* reallocate(void* block, std::size_t bytes, const void* caller);
  void free(void* block, const void* caller);
  std::size_t usable_size(const void* block, const void* caller);
  std::size_t trim(std::size_t keep);
  void fill_stats(freeway_stats_t& stats);
  void fill_audit(freeway_audit_t& audit);
  void explain(uptr address, freeway_explanation_t& found);
  void block_info(uptr address, freeway_block_info_t& info);
  void write_summary(int fd);

  Substrate& substrate() { return substrate_; }
  E& engine() { return engine_; }

 private:
  static constexpr std::size_t kMaxSize = PTRDIFF_MAX;
  static constexpr bool kThreadHeaps = requires { requires E::kThreadHeaps; };

  static void* refused() {
    errno = ENOMEM;
    return nullptr;
  }
  bool is_small(std::size_t bytes) const {
    if constexpr (requires { engine_.largest(); }) return bytes <= engine_.largest();
    return bytes <= E::kMaxSmall;
  }
  const char* mode() {
    if constexpr (requires { engine_.mode(); })
      if (open()) return engine_.mode();
    return E::kName;
  }
  void* allocate_slow(std::size_t bytes);
  void* large(std::size_t bytes, std::size_t alignment, bool* zero);
  void* large_once(std::size_t bytes, std::size_t alignment, bool* zero);
  // What precedes the block: 0 for an over-aligned one.
  static std::size_t prefix_of(uptr address) { return address % kFrameSize; }
  static bool begins_large(uptr address) { return prefix_of(address) == 0 || prefix_of(address) == E::kLargePrefix; }
  static void write_prefix(uptr block, std::size_t bytes) {
    if (E::kLargePrefix != 0 && prefix_of(block) != 0) *reinterpret_cast<u64*>(block - 8) = E::large_prefix(bytes);
  }
  std::size_t large_bytes(uptr address, FrameInfo info) {
    return substrate_.large().bytes_of(info) - prefix_of(address);
  }
  void free_large(uptr address, FrameInfo info, const void* caller);
  bool resize_large(uptr& address, FrameInfo info, std::size_t bytes);
  void* move_block(void* block, std::size_t old_bytes, std::size_t bytes, const void* caller);
  void scavenge();
  void bad(Fault fault, const char* function, const void* pointer, const void* caller) {
    // Where there has been no memory to start with, the options have not been read.
    const bool go_on =
        ready() || !options_available() ? substrate_.options().report_only : read_options(false).report_only;
    report(fault, function, pointer, caller, go_on);
  }
  Fault classify(uptr address, FrameInfo info);

  Substrate substrate_;
  E engine_;
  Atomic<u32> ready_;
};

}  // namespace freeway

#include "papers/front/blocks.h"
#include "papers/front/figures.h"
