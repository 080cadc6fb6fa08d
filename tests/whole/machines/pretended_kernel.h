// SPDX-License-Identifier: MIT
//
// pretended_kernel.h: a machine that is not there. The library's sources are compiled once more for these tests: their
// raw system calls come here (pretended/os/syscall.h), so do getauxval, __rseq_size and __rseq_offset (by renaming,
// CMakeLists.txt), and each thread's struct rseq is one that the test fills in: a thread is on the CPU that it says.
//
// The kernel does not know of these structs, so it interrupts no section: the test must see to it that of the threads
// that say the same CPU only one runs (shapes_test.cc).
//
// Memory is the real kernel's, in pages of the pretended size: addresses that are no multiples of it are refused, as a
// kernel with such pages refuses them.
#ifndef FREEWAY_TESTS_MACHINES_PRETENDED_KERNEL_H
#define FREEWAY_TESTS_MACHINES_PRETENDED_KERNEL_H

#include <atomic>
#include <bitset>
#include <cstddef>
#include <cstdint>

namespace freeway::test {

struct PretendedKernel {
  static constexpr unsigned kMostCpus = 16384;
  static constexpr unsigned kMostNodes = 1024;

  // CPU numbers are below this (nr_cpu_ids): the length of the masks that it gives and wants.
  unsigned possible = 64;
  std::bitset<kMostCpus> allowed{1};  // sched_getaffinity's answer
  int affinity_error = 0;             // its errno, instead
  bool registers_rseq = true;
  unsigned rseq_size = 20;     // __rseq_size
  unsigned feature_size = 28;  // AT_RSEQ_FEATURE_SIZE; mm_cid ends at 28
  unsigned alignment = 32;     // AT_RSEQ_ALIGN
  unsigned registered = 32;    // the length with which libc registered
  std::size_t page = 4096;
  bool has_membarrier = true;

  std::bitset<kMostNodes> nodes{1};  // that the process may use
  int nodes_error = 0;               // get_mempolicy's errno, instead: a kernel without NUMA
  unsigned (*node_of_cpu)(unsigned cpu) = [](unsigned) { return 0u; };

  std::atomic<std::uint64_t> placed[64] = {};  // bytes that mbind placed on a node
  std::atomic<std::uint64_t> misaligned{0};    // memory calls that were refused because they were not in whole pages
};

PretendedKernel& pretended_kernel();
// Tells the library where the structs rseq are; before its first call, and after what pretended_kernel() is to be.
void boot();

// The calling thread is on CPU `cpu` from now on, with concurrency id `mm_cid`.
void run_on(unsigned cpu, unsigned mm_cid);
// It is not registered for rseq from now on. All threads begin so.
void run_unregistered();

}  // namespace freeway::test

#endif  // FREEWAY_TESTS_MACHINES_PRETENDED_KERNEL_H
