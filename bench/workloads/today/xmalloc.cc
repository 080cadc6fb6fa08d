// SPDX-License-Identifier: MIT
//
// xmalloc: T threads that each allocate a batch of blocks, swap it for somebody's batch and free that (the pattern of
// Lever and Boreham's malloc-test with blocks freed by other threads). Every free is remote, from any thread to any
// other, and nobody waits: the swap is one atomic exchange with a random mailbox.
//
// One operation is one malloc and one free. --threads (2), --batch (blocks, 120), --blocks (of all threads, 36000000),
// --shrink. Sizes: 16 to 512 bytes, small ones more often.
#include <atomic>
#include <thread>

#include "support/measure.h"

namespace {

constexpr std::size_t kMailboxes = 64;

// A batch is itself a malloc'ed block: an array of pointers behind their number.
struct Batch {
  std::size_t count;
  void* blocks[];
};

alignas(128) std::atomic<Batch*> mailboxes[kMailboxes];

std::uint64_t free_batch(Batch* batch) {
  if (batch == nullptr) return 0;
  std::uint64_t checksum = 0;
  for (std::size_t i = 0; i < batch->count; ++i) {
    checksum += bench::stamp_of(batch->blocks[i]);
    std::free(batch->blocks[i]);
  }
  std::free(batch);
  return checksum;
}

Batch* make_batch(std::size_t count, bench::Random& random) {
  auto* batch = static_cast<Batch*>(bench::must_malloc(sizeof(Batch) + count * sizeof(void*)));
  batch->count = count;
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint64_t bits = random.next();
    // The smaller of two uniform numbers: small sizes are the common ones.
    const std::uint64_t one = bits & 0x1ff, other = (bits >> 9) & 0x1ff;
    batch->blocks[i] = bench::must_malloc(16 + (one < other ? one : other));
    bench::stamp(batch->blocks[i], bits);
  }
  return batch;
}

struct alignas(128) Sum {
  std::uint64_t checksum = 0;
};

}  // namespace

int main(int argc, char** argv) {
  const long threads = bench::number_argument(argc, argv, "threads", 2);
  const long batch_size = bench::number_argument(argc, argv, "batch", 120);
  const long blocks = bench::number_argument(argc, argv, "blocks", 36'000'000);
  const long turns = bench::scaled(argc, argv, blocks / batch_size / threads);
  bench::MappedArray<Sum> sums(static_cast<std::size_t>(threads));
  bench::Stopwatch watch;
  watch.start();
  {
    std::vector<std::thread> workers;
    for (std::size_t t = 0; t < static_cast<std::size_t>(threads); ++t)
      workers.emplace_back([&, t] {
        bench::Random random(t + 1);
        bench::Random post(t + 1000);
        std::uint64_t checksum = 0;
        for (long turn = 0; turn < turns; ++turn) {
          Batch* mine = make_batch(static_cast<std::size_t>(batch_size), random);
          Batch* theirs = mailboxes[post.below(kMailboxes)].exchange(mine, std::memory_order_acq_rel);
          checksum += free_batch(theirs);
        }
        sums[t].checksum = checksum;
      });
    for (auto& worker : workers) worker.join();
  }
  watch.stop();
  std::uint64_t checksum = 0;
  for (const Sum& sum : sums) checksum += sum.checksum;
  for (auto& mailbox : mailboxes) checksum += free_batch(mailbox.exchange(nullptr));
  bench::report("xmalloc", static_cast<double>(turns * threads * batch_size), watch, checksum);
}
