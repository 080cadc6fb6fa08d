// SPDX-License-Identifier: MIT
#include "os/vm.h"

#include <errno.h>
#include <linux/mman.h>
#include <sys/auxv.h>
#include <time.h>

#include "arch/tsan.h"
#include "base/check.h"
#include "os/machine.h"
#include "os/process.h"
#include "os/random.h"
#include "os/syscall.h"
#include "os/text_file.h"
#include "os/window.h"
#include "sync/claim.h"
#include "sync/once.h"

namespace freeway::vm {

constinit Once<Machine> window_word;

namespace {

constexpr u64 kReadOnly = 1;                    // PROT_READ
constexpr u64 kReadWrite = 1 | 2;               // PROT_READ | PROT_WRITE
constexpr u64 kPrivateAnonymous = 0x02 | 0x20;  // MAP_PRIVATE | MAP_ANONYMOUS
constexpr u64 kFixed = 0x10;                    // MAP_FIXED
constexpr u64 kNoReserve = 0x4000;              // MAP_NORESERVE
constexpr u64 kDontNeed = 4;                    // MADV_DONTNEED
constexpr u64 kHugePage = 14;                   // MADV_HUGEPAGE
constexpr u64 kNoHugePage = 15;                 // MADV_NOHUGEPAGE
constexpr u64 kWipeOnFork = 18;                 // MADV_WIPEONFORK
constexpr u64 kDontNeedLocked = 24;             // MADV_DONTNEED_LOCKED, since Linux 5.18
constexpr u64 kMoveTo = 1 | 2;                  // MREMAP_MAYMOVE | MREMAP_FIXED
constexpr u64 kLeaveSource = 4;                 // MREMAP_DONTUNMAP, since Linux 5.7
constexpr u64 kPopulateWrite = 23;              // MADV_POPULATE_WRITE, since Linux 5.14
constexpr u64 kCold = 20;                       // MADV_COLD, since Linux 5.4

bool failed(long result) { return result < 0 && result >= -4095; }

uptr map_raw(std::size_t bytes, u64 protection, u64 flags) {
  long result = raw_syscall(SYS_mmap, 0, bytes, protection, flags, ~u64{0}, 0);
  tsan::after_map();
  return failed(result) ? 0 : static_cast<uptr>(result);
}

// Maps exactly there, if nothing is there.
Extended map_at(uptr address, std::size_t bytes, u64 protection, u64 flags) {
  const long result = raw_syscall(SYS_mmap, address, bytes, protection, flags | MAP_FIXED_NOREPLACE, ~u64{0}, 0);
  tsan::after_map();
  if (failed(result)) return result == -EEXIST ? Extended::kOccupied : Extended::kRefused;
  if (static_cast<uptr>(result) == address) return Extended::kDone;
  release(static_cast<uptr>(result), bytes);  // before Linux 4.17 the address is a hint
  return Extended::kOccupied;
}

// --- The window (os/window.h): chosen once, by the first thread that needs it; if two choose, nothing must be undone.
// ---

constexpr u64 kNoWindow = 1, kBitsMask = window::kGranule - 1;
constinit window::Region<Machine> ranges, small_mappings, large_mappings;
constexpr std::size_t kLarge = 32 * kMiB;
constexpr std::size_t kFar = 64 * kGiB;  // an alignment of which the address space has few multiples
constexpr std::size_t kGap =
    64 * kKiB;  // between large mappings: mappings that the kernel joins cannot be ended one by one

// Whether something could be mapped there. The probing page is unmapped again; kStuck: that was refused.
enum class Probe { kFree, kOccupied, kRefused, kStuck };
Probe probe(uptr address) {
  const Extended got = map_at(address, page_size(), 0, kPrivateAnonymous | kNoReserve);
  if (got != Extended::kDone) return got == Extended::kOccupied ? Probe::kOccupied : Probe::kRefused;
  return release(address, page_size()) ? Probe::kFree : Probe::kStuck;
}

u64 choose_window() {
  constexpr int kTries = 8;
  const unsigned bits = window::address_bits(getauxval(AT_RANDOM));  // the address lies on the first stack
  if (bits < window::kLeastBits || tsan::fixes_addresses()) return kNoWindow;
  const u64 random = random::kernel_bits();
  for (int i = 0; i < kTries; ++i) {
    const uptr base =
        window::base(bits, random == 0 ? static_cast<u64>(i) * 1024 : window::mixed(random + static_cast<u64>(i)));
    const Probe got = probe(base + window::part_begin(window::Part::kRanges, bits));
    if (got == Probe::kFree) return base | bits;
    if (got == Probe::kOccupied) continue;
    if (got == Probe::kStuck) return kNoWindow;
    const uptr anywhere = map_raw(page_size(), 0, kPrivateAnonymous | kNoReserve);
    if (anywhere == 0) return 0;  // the kernel maps nothing anywhere now
    release(anywhere, page_size());
  }
  return kNoWindow;
}

// A part of the window; empty if there is no window, or no memory to find one.
struct Span {
  uptr begin = 0, end = 0;
};
Span part_of_window(window::Part part) {
  const u64 word = window_word.get(choose_window, [](u64) {});
  if (word <= kNoWindow) return {};
  const uptr base = word & ~kBitsMask;
  const auto bits = static_cast<unsigned>(word & kBitsMask);
  return {base + window::part_begin(part, bits), base + window::part_end(part, bits)};
}

// --- Mappings at addresses that the kernel chooses. ------------------------------------------------------------------

// A mapping that was to be ended and could not be (at the mapping limit, or by a filter). While there is one, nothing
// is mapped that may have to be ended, or the process would lose its address space piece by piece: others go below it.
//
// Words     stuck: 0, or the mapping's address     stuck_bytes: its length     stuck_claim: their holder (sync/claim.h)
// Lost if killed: a mapping in hand, and the claim: then a later stuck mapping is lost. No memory: it was never touched
constinit Atomic<uptr> stuck;
constinit Atomic<std::size_t> stuck_bytes;
constinit Claim<Machine> stuck_claim;
constexpr u64 kSomebody = 1;  // threads have no names here: naming them maps memory

// False: it is stuck.
bool end_or_keep(uptr address, std::size_t bytes) {
  if (release(address, bytes)) return true;
  if (!stuck_claim.take(kSomebody)) return false;
  if (stuck.load_relaxed() == 0) {
    stuck.store_relaxed(address);
    stuck_bytes.store_relaxed(bytes);
  }
  stuck_claim.release();
  return false;
}

// The address of the mapping that is still stuck, or 0.
uptr end_stuck() {
  if (stuck.load_relaxed() == 0 || !stuck_claim.take(kSomebody)) return 0;
  uptr address = stuck.load_relaxed();  // another thread may have ended it
  if (address != 0 && release(address, stuck_bytes.load_relaxed())) stuck.store_relaxed(address = 0);
  stuck_claim.release();
  return address;
}

// A mapping somewhere below `at`, which is stuck.
uptr map_below(uptr at, std::size_t bytes, std::size_t alignment, u64 protection, u64 flags) {
  for (std::size_t distance = bytes + alignment; distance >= bytes && distance < at; distance *= 2) {
    const uptr place = align_down(at - distance, alignment);
    const Extended got = map_at(place, bytes, protection, flags);
    if (got == Extended::kDone) return place;
    if (got == Extended::kRefused) return 0;
  }
  return 0;
}

// Maps more than asked for and cuts off the unaligned ends. If the cut is refused (mapping limit) the whole mapping is
// given back.
uptr map_aligned(std::size_t bytes, std::size_t alignment, u64 protection, u64 flags) {
  if (const uptr at = end_stuck()) return map_below(at, bytes, alignment, protection, flags);
  uptr address = map_raw(bytes, protection, flags);
  if (address == 0 || address % alignment == 0) return address;
  if (!end_or_keep(address, bytes)) return 0;
  std::size_t padded = bytes + alignment - page_size();
  if (padded < bytes) return 0;
  address = map_raw(padded, protection, flags);
  if (address == 0) return 0;
  uptr aligned = align_up(address, alignment);
  uptr end = aligned + bytes;
  if (aligned != address && !release(address, aligned - address)) {
    end_or_keep(address, padded);
    return 0;
  }
  if (end != address + padded && !release(end, address + padded - end)) {
    end_or_keep(aligned, address + padded - aligned);
    return 0;
  }
  return aligned;
}

// For a multiple so large that parts of the window may have none: maps anywhere.
uptr map_far(std::size_t bytes, std::size_t alignment, u64 protection, u64 flags) {
  const unsigned bits = window::address_bits(getauxval(AT_RANDOM));
  for (uptr at = alignment; at >> bits == 0; at += alignment) {
    const Extended got = map_at(at, bytes, protection, flags);
    if (got != Extended::kOccupied) return got == Extended::kDone ? at : 0;
  }
  return 0;
}

uptr map_somewhere(std::size_t bytes, std::size_t alignment, u64 protection, u64 flags) {
  const bool large = bytes >= kLarge || alignment > window::kSmallAlignment;
  const Span span = part_of_window(large ? window::Part::kLarge : window::Part::kSmall);
  if (bytes < span.end - span.begin) {
    auto& region = large ? large_mappings : small_mappings;
    const std::size_t room = large ? bytes + kGap : align_up(bytes, alignment);
    const auto place = [&](uptr at) { return large ? at : window::mirrored(span.begin, span.end, at, room); };
    const auto taken = region.take(span.begin, span.end, room, alignment,
                                   [&](uptr at) { return map_at(place(at), bytes, protection, flags); });
    if (taken.address != 0) return place(taken.address);
    if (taken.refused) return 0;
  }
  if (alignment >= kFar) return map_far(bytes, alignment, protection, flags);
  return map_aligned(bytes, alignment, protection, flags);
}

// A place that is unmapped can be mapped again.
void forget_mapping(uptr address, std::size_t bytes) {
  const u64 word = window_word.peek();
  if (word <= kNoWindow) return;
  const Span small = part_of_window(window::Part::kSmall), large = part_of_window(window::Part::kLarge);
  if (small.begin <= address && address < small.end)  // as it was mapped, if for a multiple of 64 KiB
    small_mappings.lower(window::mirrored(small.begin, small.end, address, align_up(bytes, 64 * kKiB)));
  if (large.begin <= address && address < large.end) large_mappings.lower(address);
}

}  // namespace

std::size_t page_size() { return getauxval(AT_PAGESZ); }

bool has_window() { return part_of_window(window::Part::kRanges).begin != 0; }

Space space(std::size_t bytes, std::size_t alignment) {
  const Span span = part_of_window(window::Part::kRanges);
  std::size_t stride = bytes;  // to get past a mapping of unknown length
  while (const uptr base = span.begin == 0 ? 0 : ranges.claim(span.begin, span.end, bytes, alignment)) {
    const Probe got = probe(base);
    if (got == Probe::kRefused) return {};
    if (got == Probe::kFree) return {base};
    if (got == Probe::kStuck) break;
    ranges.claim(span.begin, span.end, stride, window::kGranule);
    stride *= 2;
  }
  return {map_aligned(bytes, alignment, 0, kPrivateAnonymous | kNoReserve), true};
}

// Not accounted as committed if the kernel leaves the choice: a range is never shorter than it once had to be, and if a
// mapping were longer than the machine's memory, no fork would succeed.
Extended extend(uptr address, std::size_t bytes) {
  return map_at(address, bytes, kReadWrite, kPrivateAnonymous | kNoReserve);
}

uptr reserve(std::size_t bytes, std::size_t alignment) {
  return map_somewhere(bytes, alignment, 0, kPrivateAnonymous | kNoReserve);
}

uptr map(std::size_t bytes, std::size_t alignment) {
  return map_somewhere(bytes, alignment, kReadWrite, kPrivateAnonymous);
}

bool commit(uptr address, std::size_t bytes) { return raw_syscall(SYS_mprotect, address, bytes, kReadWrite) == 0; }

bool forbid(uptr address, std::size_t bytes) { return raw_syscall(SYS_mprotect, address, bytes, 0) == 0; }

bool purge(uptr address, std::size_t bytes) {
  const long result = raw_syscall(SYS_madvise, address, bytes, kDontNeed);
  if (result == -EINVAL) return raw_syscall(SYS_madvise, address, bytes, kDontNeedLocked) == 0;  // mlock, mlockall
  return result == 0;
}

void prefer_huge(uptr address, std::size_t bytes) { raw_syscall(SYS_madvise, address, bytes, kHugePage); }

void forbid_huge(uptr address, std::size_t bytes) { raw_syscall(SYS_madvise, address, bytes, kNoHugePage); }

namespace {

// When the system gives huge pages. kAlways (where they fit) is also assumed if the kernel does not say.
enum HugeDefault : u64 { kAlways = 1, kOnRequest, kNever };

HugeDefault read_huge_default() {
  char text[32];  // "always [madvise] never": the one in brackets holds
  const std::size_t bytes = TextFile("/sys/kernel/mm/transparent_hugepage/enabled").read(text, sizeof(text));
  if (bytes == 0 || text[0] == '[') return kAlways;
  for (std::size_t i = 0; i + 1 < bytes; ++i)
    if (text[i] == '[') return text[i + 1] == 'm' ? kOnRequest : kNever;
  return kNever;
}

constinit Once<Machine> huge_default_word;

u64 huge_default() {
  return huge_default_word.get([]() -> u64 { return read_huge_default(); }, [](u64) {});
}

// CPU time: other threads that run meanwhile do not count.
u64 time_of(void (*f)(uptr, std::size_t), uptr address, std::size_t bytes) {
  const u64 before = process::time_ns(CLOCK_THREAD_CPUTIME_ID);
  f(address, bytes);
  return process::time_ns(CLOCK_THREAD_CPUTIME_ID) - before;
}

}  // namespace

void prefer_small(uptr address, std::size_t bytes) {
  if (huge_default() == kAlways) forbid_huge(address, bytes);
}

bool huge_on_request() { return page_size() == 4 * kKiB && huge_default() == kOnRequest; }

bool populate(uptr address, std::size_t bytes) {
  const long result = raw_syscall(SYS_madvise, address, bytes, kPopulateWrite);
  if (result != -EINVAL) return result == 0;
  for (uptr at = address; at < address + bytes; at += page_size())
    reinterpret_cast<Atomic<u8>*>(at)->fetch_or_relaxed(0);
  return true;
}

u64 populate_huge(uptr address, std::size_t bytes) {
  prefer_huge(address, bytes);
  return populate_small(address, bytes);
}

u64 populate_small(uptr address, std::size_t bytes) {
  const u64 time = time_of([](uptr at, std::size_t length) { populate(at, length); }, address, bytes);
  forbid_huge(address, bytes);
  return time;
}

std::size_t resident(uptr address, std::size_t bytes) {
  const std::size_t page = page_size();
  std::size_t backed = 0;
  while (bytes > 0) {
    unsigned char pages[256];
    const std::size_t piece = clamp(bytes, 0, sizeof(pages) * page);
    if (raw_syscall(SYS_mincore, address, piece, reinterpret_cast<u64>(pages)) != 0) return backed + bytes;
    for (std::size_t i = 0; i < piece / page; ++i) backed += (pages[i] & 1) != 0 ? page : 0;
    address += piece;
    bytes -= piece;
  }
  return backed;
}

bool release(uptr address, std::size_t bytes) {
  tsan::before_unmap();
  if (raw_syscall(SYS_munmap, address, bytes) != 0) return false;
  forget_mapping(address, bytes);
  return true;
}

namespace {
constinit Atomic<u32> abandoned;  // reservations
constexpr u32 kMostAbandoned = 16;

// Whether a few more mappings can be made. Near its limit of them the kernel refuses moves at once.
bool has_mappings_to_spare() {
  constexpr std::size_t kSplits = 3;  // each makes two more
  const std::size_t page = page_size(), bytes = (2 * kSplits + 1) * page;
  const uptr area = map_raw(bytes, 0, kPrivateAnonymous | kNoReserve);
  if (area == 0) return false;
  bool spare = true;
  for (std::size_t i = 0; spare && i < kSplits; ++i)
    spare = raw_syscall(SYS_mprotect, area + (2 * i + 1) * page, page, kReadOnly) == 0;
  release(area, bytes);
  return spare;
}

}  // namespace

bool can_move(std::size_t more_bytes) {
  const u32 lost = abandoned.load_relaxed();
  if (lost >= kMostAbandoned || (lost != 0 && !has_mappings_to_spare())) return false;
  const uptr probe = map_raw(more_bytes, kReadWrite, kPrivateAnonymous);
  if (probe != 0) release(probe, more_bytes);
  return probe != 0;
}

namespace {

bool move_as(u64 flags, uptr from, std::size_t old_bytes, uptr to, std::size_t new_bytes) {
  tsan::before_unmap();
  const long result = raw_syscall(SYS_mremap, from, old_bytes, new_bytes, flags, to);
  tsan::after_map();
  if (!failed(result)) {
    if (flags == kMoveTo) forget_mapping(from, old_bytes);  // else it is still mapped
    return true;
  }
  // The kernel did not even look; nor does it at a flag that it does not know.
  if (result == -ENOSYS || result == -EPERM || (result == -EINVAL && flags != kMoveTo)) {
    release(to, new_bytes);
    return false;
  }
  // If the place is free now, the kernel has ended the reservation. If not, it is still ours, or already another's.
  const u64 probe = kPrivateAnonymous | kNoReserve | MAP_FIXED_NOREPLACE;
  const long seen = raw_syscall(SYS_mmap, to, page_size(), 0, probe, ~u64{0}, 0);
  if (!failed(seen)) release(static_cast<uptr>(seen), page_size());
  if (static_cast<uptr>(seen) != to) abandoned.fetch_add_relaxed(1);
  return false;
}

}  // namespace

bool move(uptr from, std::size_t old_bytes, uptr to, std::size_t new_bytes) {
  return move_as(kMoveTo, from, old_bytes, to, new_bytes);
}

bool move_out(uptr from, std::size_t bytes, uptr to) {
  // Moving pages out of a locked mapping would unlock all of it. The kernel refuses MADV_COLD on a locked page.
  if (raw_syscall(SYS_madvise, from, page_size(), kCold) != 0) {
    release(to, bytes);
    return false;
  }
  if (!move_as(kMoveTo | kLeaveSource, from, bytes, to, bytes)) return false;
  // qemu's user-mode emulation takes the source for unmapped: it looks at a write's buffer first, then at the file. A
  // kernel looks at the file first, which does not exist.
  if (raw_syscall(SYS_write, ~u64{0}, from, 1) == -EFAULT)
    raw_syscall(SYS_mmap, from, bytes, kReadWrite, kPrivateAnonymous | kNoReserve | kFixed, ~u64{0}, 0);
  return true;
}

bool resize(uptr address, std::size_t old_bytes, std::size_t new_bytes) {
  tsan::before_unmap();
  const bool done = !failed(raw_syscall(SYS_mremap, address, old_bytes, new_bytes, 0));
  tsan::after_map();
  return done;
}

Answer wipe_on_fork(uptr address, std::size_t bytes) {
  const long result = raw_syscall(SYS_madvise, address, bytes, kWipeOnFork);
  const bool never = result == -EINVAL || result == -EPERM || result == -ENOSYS;  // the kernel, or a filter
  return result == 0 ? Answer::kDone : never ? Answer::kNotOffered : Answer::kRefused;
}

}  // namespace freeway::vm
