// SPDX-License-Identifier: MIT
//
// server_day: a server's memory over a day, in seconds: busy, quiet, busy again, quiet. When it is busy its threads
// replace blocks of 16 bytes to 16 KiB, most of them young, some old; at the end of each busy time nine of ten blocks
// are freed, those that stay lie anywhere. When it is quiet nobody calls. Who runs it watches its memory
// (over_time.py).
//
//   start_s                monotonic time at which it began
//   live_pages_kib         pages that the blocks lie on which stay, at the end
//   end_kib                anonymous memory then, over that at the start
// One operation is one malloc and one free. --threads (4), --slots (of each, 200000), --busy (seconds, 10), --quiet
// (10).
#include <algorithm>
#include <chrono>
#include <deque>
#include <thread>
#include <vector>

#include "support/measure.h"
#include "support/memory_use.h"

namespace {

using Clock = std::chrono::steady_clock;
constexpr std::size_t kPage = 4096;

class Worker {
 public:
  Worker(std::size_t slots, std::uint64_t seed) : random_(seed), blocks_(slots) {
    for (Block& block : blocks_) block = {};
  }

  void work_until(Clock::time_point end) {
    while (Clock::now() < end)
      for (int i = 0; i < 1000; ++i) replace(blocks_[slot()]);
  }
  void close_most() {
    for (Block& block : blocks_)
      if (random_.below(10) != 0) drop(block);
  }
  void each_page(std::vector<std::uintptr_t>& pages) {
    for (const Block& block : blocks_) {
      const auto begin = reinterpret_cast<std::uintptr_t>(block.at);
      for (auto page = begin / kPage; begin != 0 && page <= (begin + block.size - 1) / kPage; ++page)
        pages.push_back(page);
    }
  }
  std::uint64_t done() const { return done_; }
  std::uint64_t checksum() const { return checksum_; }

 private:
  struct Block {
    char* at;
    std::size_t size;
  };

  // Nine of ten replacements are among the first tenth of the slots: those blocks are young.
  std::size_t slot() {
    const std::size_t all = blocks_.size();
    return random_.below(10) != 0 ? random_.below(all / 10) : random_.below(all);
  }
  // Each doubling of size half as often.
  std::size_t size() {
    std::size_t largest = 32;
    while (largest < 16384 && (random_.next() & 1) != 0) largest *= 2;
    return largest / 2 + random_.below(largest / 2) + 1;
  }
  void replace(Block& block) {
    drop(block);
    block.size = size();
    block.at = static_cast<char*>(bench::must_malloc(block.size));
    std::memset(block.at, static_cast<int>(done_), block.size);
    ++done_;
  }
  void drop(Block& block) {
    if (block.at == nullptr) return;
    checksum_ += static_cast<unsigned char>(block.at[block.size - 1]);
    std::free(block.at);
    block = {};
  }

  bench::Random random_;
  bench::MappedArray<Block> blocks_;
  std::uint64_t done_ = 0, checksum_ = 0;
};

}  // namespace

int main(int argc, char** argv) {
  const auto threads = static_cast<std::size_t>(bench::number_argument(argc, argv, "threads", 4));
  const auto slots = static_cast<std::size_t>(bench::number_argument(argc, argv, "slots", 200'000));
  const auto busy = std::chrono::seconds(bench::number_argument(argc, argv, "busy", 10));
  const auto quiet = std::chrono::seconds(bench::number_argument(argc, argv, "quiet", 10));
  std::deque<Worker> workers;
  for (std::size_t t = 0; t < threads; ++t) workers.emplace_back(slots, t + 1);
  const long at_start = bench::rollup_kib("Anonymous:");
  const Clock::time_point start = Clock::now();
  bench::Stopwatch watch;
  watch.start();
  std::vector<std::thread> team;
  for (Worker& worker : workers)
    team.emplace_back([&] {
      for (int day = 0; day < 2; ++day) {
        worker.work_until(start + day * (busy + quiet) + busy);
        worker.close_most();
        std::this_thread::sleep_until(start + (day + 1) * (busy + quiet));
      }
    });
  for (std::thread& thread : team) thread.join();
  watch.stop();
  const long at_end = bench::rollup_kib("Anonymous:");
  std::vector<std::uintptr_t> pages;
  std::uint64_t done = 0, checksum = 0;
  for (Worker& worker : workers) {
    worker.each_page(pages);
    done += worker.done();
    checksum += worker.checksum();
  }
  std::sort(pages.begin(), pages.end());
  const auto distinct = std::unique(pages.begin(), pages.end()) - pages.begin();
  bench::report("server_day", static_cast<double>(done), watch, checksum,
                {{"live_pages_kib", static_cast<double>(distinct) * kPage / 1024},
                 {"end_kib", static_cast<double>(at_end - at_start)},
                 {"start_s", std::chrono::duration<double>(start.time_since_epoch()).count()}});
}
