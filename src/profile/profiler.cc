// SPDX-License-Identifier: MIT
#include "profile/profiler.h"

#include <elf.h>
#include <errno.h>
#include <signal.h>
#include <sys/auxv.h>

#include "os/once.h"
#include "os/process.h"
#include "os/syscall.h"
#include "profile/code_ranges.h"
#include "profile/dumps.h"
#include "profile/gap.h"
#include "profile/mappings.h"
#include "profile/probes.h"
#include "profile/settings.h"
#include "profile/wanted.h"

extern "C" FREEWAY_HIDDEN const Elf64_Ehdr __ehdr_start;  // the linker's: the beginning of what this code lies in

namespace freeway::profile {
namespace {

constinit Wanted<Machine> the_wanted;
constinit Atomic<u64> lottery, began_ms;
constinit Atomic<u64> samples, lost_stacks, lost_blocks;
constinit Atomic<u32> site_count, block_count;
constinit Once<Machine> tables;
constinit Sites<Machine> the_sites;
constinit LiveBlocks<Machine> the_blocks;
constinit StackCopies<Machine> the_copies;
constinit CodeRanges<Machine> the_code;
constinit Atomic<u64> copy_bytes{kUsualCopy}, code_read_ms;
constinit Atomic<uptr> own_code, own_code_bytes;
constinit thread_local u64 the_tag = 0;

u64 coarse_ms() { return process::coarse_time_ns() / 1000000; }

// Where the library's own code lies, whose frames are nobody's business. None where it is a part of the program.
void find_own_code() {
  const Elf64_Ehdr& file = __ehdr_start;
  const auto base = reinterpret_cast<uptr>(&file);
  if (getauxval(AT_PHDR) == base + file.e_phoff) return;
  const auto* segments = reinterpret_cast<const Elf64_Phdr*>(base + file.e_phoff);
  for (unsigned i = 0; i < file.e_phnum; ++i) {
    if (segments[i].p_type != PT_LOAD || (segments[i].p_flags & PF_X) == 0) continue;
    own_code.store_relaxed(base + segments[i].p_vaddr);
    own_code_bytes.store_relaxed(segments[i].p_memsz);
  }
}

bool is_own_code(u64 address) { return address - own_code.load_relaxed() < own_code_bytes.load_relaxed(); }

constexpr std::size_t kPlaceUnit = 64 * kKiB;  // of memory from the kernel

bool make_tables() {
  u32 none = 0;
  site_count.cas_relaxed(none, kUsualSites);
  none = 0;
  block_count.cas_relaxed(none, kUsualBlocks);
  const u32 sites = site_count.load_relaxed(), blocks = block_count.load_relaxed();
  const std::size_t site_bytes = align_up(Sites<Machine>::bytes(sites), kPlaceUnit);
  const std::size_t block_bytes = align_up(LiveBlocks<Machine>::bytes(blocks), kPlaceUnit);
  const std::size_t piece = copy_bytes.load_relaxed();
  const u32 copies = piece == 0 ? 0 : kCopies;
  const std::size_t bytes =
      site_bytes + block_bytes + align_up(StackCopies<Machine>::bytes(copies, piece), kPlaceUnit);
  const auto make = [bytes]() -> u64 {
    const uptr fresh = vm::map(bytes, kPlaceUnit);
    if (fresh != 0) vm::prefer_small(fresh, bytes);
    return fresh;
  };
  const uptr memory = tables.get(make, [bytes](u64 late) { vm::release(late, bytes); });
  if (memory == 0) return false;
  the_sites.init(memory, sites);
  the_blocks.init(memory + site_bytes, blocks);
  the_copies.init(memory + site_bytes + block_bytes, copies, piece);
  u64 never = 0;
  began_ms.cas_relaxed(never, coarse_ms());
  find_own_code();
  return true;
}

// The kernel copies the set before it finds that there is no such operation.
bool can_read(uptr page) {
  constexpr u64 kNoOperation = ~u64{0};
  return raw_syscall(SYS_rt_sigprocmask, kNoOperation, page, 0, sizeof(u64)) != -EFAULT;
}

// Reads where code lies, at most once a second.
FREEWAY_NOINLINE void read_code() {
  constexpr u64 kLeastMs = 1000;
  const u64 now = coarse_ms();
  u64 seen = code_read_ms.load_relaxed();
  if ((seen != 0 && now - seen < kLeastMs) || !code_read_ms.cas_relaxed(seen, now)) return;
  the_code.read([](auto&& add) {
    each_mapping([&](const char* line, const char* end) {
      u64 from, to;
      if (parse_code(line, end, from, to)) add(from, to);
    });
  });
}

// A stack as far as frame pointers tell, and if they do not, its shape: what lies there that looks like return addresses.
struct Taken {
  Stack stack;
  Registers registers;
  uptr begin = 0, end = 0;  // what of the stack may be copied
};

constexpr unsigned kToldByFrames = 3;  // frames of ours not counted: malloc's caller is known also without frame pointers

void take_shape(Taken& taken) {
  const std::size_t page = vm::page_size();
  taken.begin = taken.registers.values[1];
  taken.end = align_down(taken.begin, page) + page;
  while (taken.end - taken.begin < the_copies.piece() && can_read(taken.end)) taken.end += page;
  if (taken.stack.depth > 0 && !the_code.contains(taken.stack.frames[0])) read_code();
  const std::size_t bytes = clamp(taken.end - taken.begin, 0, the_copies.piece());
  u64 shape = 1;
  for (std::size_t at = 0; at < bytes; at += 8) {
    const u64 word = *reinterpret_cast<const volatile u64*>(taken.begin + at);
    if (the_code.contains(word) && !is_own_code(word)) shape = window::mixed(shape ^ word);
  }
  taken.stack.shape = shape;
}

// The stack of the caller's callers that are not the library's.
FREEWAY_NOINLINE void take_stack(Taken& taken) {
  read_registers(taken.registers);
  taken.stack.depth =
      walk_stack(reinterpret_cast<uptr>(__builtin_frame_address(0)), vm::page_size(), taken.stack.frames, kMostFrames,
                 can_read, [](u64 address) { return !is_own_code(address); });
  if (taken.stack.depth < kToldByFrames && the_copies.is_on()) take_shape(taken);
}

}  // namespace

void set_copy(u64 bytes) { copy_bytes.store_relaxed(bytes); }

void set_sizes(u32 sites, u32 blocks) {
  site_count.store_relaxed(sites);
  block_count.store_relaxed(blocks);
}

namespace {

// What comes before each profile; false: no memory for its tables.
bool make_ready() {
  if (!make_tables()) return false;
  lottery.fetch_add_relaxed(process::coarse_time_ns() ^ process::id() << 32);
  return true;
}

}  // namespace

int start(u64 bytes) {
  if (bytes == 0 || bytes > wanted::kMostInterval) return EINVAL;
  if (!make_ready()) return ENOMEM;
  return the_wanted.want(wanted::kProgram, bytes) ? 0 : EBUSY;
}
void stop() { the_wanted.want_no_more(wanted::kProgram); }
bool follow_listeners() { return the_wanted.follow_tracers(anybody_listens(), kUsualInterval, make_ready); }

u64 interval() { return the_wanted.interval(); }
u64 confirm_interval() { return the_wanted.confirm(); }

u64 next_gap() { return gap(window::mixed(lottery.fetch_add_relaxed(window::kStep)), interval()); }

bool draws(std::size_t bytes) { return next_gap() <= bytes; }

void sampled(uptr block, std::size_t bytes) {
  const u64 every = interval();
  if (every == 0) return;
  samples.fetch_add_relaxed(1);
  Taken taken;
  take_stack(taken);
  const u32 site = the_sites.at(taken.stack, the_tag, bytes, every);
  if (site == Sites<Machine>::kNone) return lost_stacks.fetch_add_relaxed(1), void();
  const u64 now = now_ms();
  if (!the_blocks.put({block, site, bytes, now})) return lost_blocks.fetch_add_relaxed(1), void();
  the_sites.allocated(site, bytes, now);
  if (taken.end != 0 && the_sites.wants_copy(site))
    if (const u32 copy = the_copies.add(taken.registers, taken.begin, taken.end); copy != StackCopies<Machine>::kNone)
      the_sites.set_copy(site, copy);
  tell_allocated(block, bytes, every, the_tag);
  dump_if_due(bytes > every ? bytes : every);
}

void freed(uptr block) {
  LiveBlock gone;
  if (!the_blocks.take(block, gone)) return;
  const u64 now = now_ms();
  the_sites.freed(static_cast<u32>(gone.site), gone.bytes, gone.born, now);
  tell_freed(gone, now);
}

bool has_samples() { return samples.load_relaxed() != 0; }

u64 tag(u64 value) {
  const u64 old = the_tag;
  the_tag = value;
  return old;
}

Figures figures() {
  return {the_wanted.last(), samples.load_relaxed(), lost_stacks.load_relaxed(), lost_blocks.load_relaxed()};
}

u64 now_ms() { return coarse_ms() - began_ms.load_relaxed(); }

const Sites<Machine>* sites() { return tables.peek() != 0 ? &the_sites : nullptr; }
const StackCopies<Machine>& stack_copies() { return the_copies; }

}  // namespace freeway::profile
