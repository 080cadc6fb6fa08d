// SPDX-License-Identifier: MIT
#include "tests/whole/machines/pretended_kernel.h"

#include <sys/auxv.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "os/syscall.h"

namespace freeway::test {
namespace {

// As the kernel lays struct rseq out.
struct alignas(32) Rseq {
  std::uint32_t cpu_id_start = 0;
  std::int32_t cpu_id = -1;
  std::uint64_t section = 0;
  std::uint32_t flags = 0, node_id = 0, mm_cid = 0, pad = 0;
};
// Where libc's struct is in all threads at the same distance from the thread pointer, so is this.
[[gnu::tls_model("initial-exec")]] constinit thread_local Rseq rseq;

constexpr unsigned long kFeatureSizeEntry = 27, kAlignmentEntry = 28;  // AT_RSEQ_FEATURE_SIZE, AT_RSEQ_ALIGN

long answer(long result) { return result < 0 ? -errno : result; }

long real(long number, u64 a, u64 b, u64 c, u64 d, u64 e, u64 f) {
  const int before = errno;
  const long result = answer(::syscall(number, a, b, c, d, e, f));
  errno = before;
  return result;
}

u64 round_up(u64 bytes) {
  const u64 page = pretended_kernel().page;
  return (bytes + page - 1) / page * page;
}

// Whether a kernel with the pretended pages takes this address.
bool is_page(u64 address) {
  if (address % pretended_kernel().page == 0) return true;
  ++pretended_kernel().misaligned;
  return false;
}

template <std::size_t bits> void write_mask(const std::bitset<bits>& set, u64* mask, std::size_t bytes) {
  std::memset(mask, 0, bytes);
  for (std::size_t i = 0; i < bytes * 8 && i < bits; ++i)
    if (set[i]) mask[i / 64] |= u64{1} << (i % 64);
}

// As kernel/sched/syscalls.c answers: the mask must have room for all possible CPUs, and as many whole words are
// written.
long get_affinity(u64 bytes, u64* mask) {
  const PretendedKernel& kernel = pretended_kernel();
  if (kernel.affinity_error != 0) return -kernel.affinity_error;
  const u64 wanted = (kernel.possible + 63) / 64 * 8;
  if (bytes * 8 < kernel.possible || bytes % 8 != 0) return -EINVAL;
  const u64 written = bytes < wanted ? bytes : wanted;
  write_mask(kernel.allowed, mask, written);
  return static_cast<long>(written);
}

long get_nodes(u64* mask, u64 most) {
  const PretendedKernel& kernel = pretended_kernel();
  if (kernel.nodes_error != 0) return -kernel.nodes_error;
  if (most < PretendedKernel::kMostNodes) return -EINVAL;
  write_mask(kernel.nodes, mask, most / 8);
  return 0;
}

long bind(u64 address, u64 bytes, const u64* mask) {
  PretendedKernel& kernel = pretended_kernel();
  if (!is_page(address)) return -EINVAL;
  for (unsigned node = 0; node < PretendedKernel::kMostNodes; ++node)
    if ((mask[node / 64] >> (node % 64) & 1) != 0) {
      if (!kernel.nodes[node]) return -EINVAL;
      kernel.placed[node % 64] += bytes;
    }
  return 0;
}

// A mapping at a multiple of the pretended page, cut out of a larger one.
long map(u64 bytes, u64 protection, u64 flags) {
  const u64 page = pretended_kernel().page, rounded = round_up(bytes);
  const long got = real(SYS_mmap, 0, rounded + page, protection, flags, ~u64{0}, 0);
  if (got < 0) return got;
  const u64 from = static_cast<u64>(got), at = round_up(from), end = at + rounded;
  if (at != from) real(SYS_munmap, from, at - from, 0, 0, 0, 0);
  if (end != from + rounded + page) real(SYS_munmap, end, from + rounded + page - end, 0, 0, 0, 0);
  return static_cast<long>(at);
}

// A byte for each pretended page: any of its real pages is there.
long residence(u64 address, u64 bytes, unsigned char* pages) {
  const u64 page = pretended_kernel().page, small = static_cast<u64>(::getpagesize());
  for (u64 at = address; at < address + bytes; at += page, ++pages) {
    unsigned char flags[16] = {};
    const long failed = real(SYS_mincore, at, page, reinterpret_cast<u64>(flags), 0, 0, 0);
    if (failed != 0) return failed;
    *pages = 0;
    for (u64 i = 0; i < page / small; ++i) *pages |= flags[i] & 1;
  }
  return 0;
}

}  // namespace

PretendedKernel& pretended_kernel() {
  static PretendedKernel one;
  return one;
}

void run_on(unsigned cpu, unsigned mm_cid) {
  rseq.mm_cid = pretended_kernel().feature_size >= 28 ? mm_cid : 0;  // an old kernel leaves it alone
  rseq.node_id = pretended_kernel().feature_size >= 24 ? pretended_kernel().node_of_cpu(cpu) : ~0u;
  rseq.cpu_id_start = cpu;
  rseq.cpu_id = static_cast<std::int32_t>(cpu);
}

void run_unregistered() { rseq.cpu_id = -1; }

}  // namespace freeway::test

using freeway::test::pretended_kernel;

extern "C" {
// What __rseq_size and __rseq_offset are called in the sources under test.
unsigned freeway_test_rseq_size;
std::ptrdiff_t freeway_test_rseq_offset;

// getauxval, likewise.
unsigned long freeway_test_getauxval(unsigned long type) {
  switch (type) {
    case AT_PAGESZ: return pretended_kernel().page;
    case freeway::test::kFeatureSizeEntry: return pretended_kernel().feature_size;
    case freeway::test::kAlignmentEntry: return pretended_kernel().alignment;
    default: return ::getauxval(type);
  }
}
}

namespace freeway::test {

void boot() {
  freeway_test_rseq_size = pretended_kernel().registers_rseq ? pretended_kernel().rseq_size : 0;
  freeway_test_rseq_offset =
      reinterpret_cast<const char*>(&rseq) - static_cast<const char*>(__builtin_thread_pointer());
}

}  // namespace freeway::test

namespace freeway {

long raw_syscall(long number, u64 a, u64 b, u64 c, u64 d, u64 e, u64 f) {
  using namespace freeway::test;
  switch (number) {
    case SYS_sched_getaffinity: return get_affinity(b, reinterpret_cast<u64*>(c));
    case SYS_membarrier: return pretended_kernel().has_membarrier ? 0 : -ENOSYS;
    case SYS_get_mempolicy: return get_nodes(reinterpret_cast<u64*>(b), c);
    case SYS_mbind: return bind(a, b, reinterpret_cast<const u64*>(d));
    case SYS_getcpu: {
      const unsigned cpu = rseq.cpu_id < 0 ? 0 : static_cast<unsigned>(rseq.cpu_id);
      if (a != 0) *reinterpret_cast<unsigned*>(a) = cpu;
      if (b != 0) *reinterpret_cast<unsigned*>(b) = pretended_kernel().node_of_cpu(cpu);
      return 0;
    }
    case SYS_mmap: return map(b, c, d);
    case SYS_munmap:
    case SYS_mprotect:
    case SYS_madvise: return is_page(a) ? real(number, a, round_up(b), c, d, e, f) : -EINVAL;
    case SYS_mincore: return is_page(a) ? residence(a, b, reinterpret_cast<unsigned char*>(c)) : -EINVAL;
    case SYS_mremap: return is_page(a) && is_page(e) ? real(number, a, round_up(b), round_up(c), d, e, f) : -EINVAL;
    default: return real(number, a, b, c, d, e, f);
  }
}

}  // namespace freeway
