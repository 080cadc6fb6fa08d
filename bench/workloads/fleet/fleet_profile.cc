// SPDX-License-Identifier: MIT
//
// fleet_profile: a steady heap with the sizes and lifetimes of a measured service: lines "size, blocks allocated a
// second, live blocks", as Google publishes them (fleetbench, fleetbench/tcmalloc/distributions/*.csv).
//
// A thread's heap is its share of the profile, scaled to --live bytes. Of each size blocks come at the profile's rate
// and live exponentially long, live / rate in the mean. Time goes round: what comes near the end of a lap may go at the
// beginning of the next, so each lap of the recorded operations begins with the blocks that the last one left.
// Blocks that would outlive a lap are allocated once and stay.
// One operation is one new or one delete with its size; a new block is written to at its beginning and once a page, at
// any line. A share of the deletes (--remote percent) is done by the next thread, in batches, without the size.
// Prints rss_per_live: what became resident, over the bytes that live at the end of a lap.
// --profile FILE, --live (MiB of all threads, 64), --threads (1), --operations (of a lap, 1000000), --laps (20; as many
// again, but at most 10, before the clock starts), --remote (percent, 0), --shrink (laps).
#include <algorithm>
#include <atomic>
#include <barrier>
#include <cmath>
#include <new>
#include <thread>

#include "support/measure.h"

namespace {

// The laps must not lie on the heap that they measure.
template <class T> struct Mapped {
  using value_type = T;
  T* allocate(std::size_t count) {
    void* memory = mmap(nullptr, count * sizeof(T), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) bench::die("mmap");
    return static_cast<T*>(memory);
  }
  void deallocate(T* memory, std::size_t count) { munmap(memory, count * sizeof(T)); }
  bool operator==(const Mapped&) const = default;
};
template <class T> using Array = std::vector<T, Mapped<T>>;

struct Row {
  std::size_t size;
  double rate, live;
};

Array<Row> read_profile(const char* path) {
  std::FILE* file = std::fopen(path, "r");
  if (file == nullptr) bench::die(path);
  Array<Row> rows;
  Row row{};
  while (std::fscanf(file, "%zu , %lf , %lf", &row.size, &row.rate, &row.live) == 3)
    if (row.size > 0 && row.live > 0) rows.push_back(row);
  const bool whole = std::feof(file) != 0;
  std::fclose(file);
  if (!whole || rows.empty()) {
    std::fprintf(stderr, "%s: lines of 'size, rate, live blocks' are wanted\n", path);
    std::exit(2);
  }
  return rows;
}

constexpr std::uint32_t kDelete = 1u << 31, kByOther = 1u << 30, kBlock = kByOther - 1;

// A lap of one thread.
struct Lap {
  Array<std::uint32_t> operations;  // block, kDelete, kByOther
  Array<std::size_t> sizes;         // of each block
  Array<std::uint32_t> first;       // blocks that are live when a lap begins, in random order
  std::size_t live_bytes = 0;       // of those
  Array<void*> addresses;           // of each block; the worker's
};

// A whole number near `expected`, which it is in the mean.
std::size_t rounded(double expected, bench::Random& random) {
  return static_cast<std::size_t>(expected + static_cast<double>(random.next() >> 11) * 0x1p-53);
}
double unit(bench::Random& random) { return (static_cast<double>(random.next() >> 11) + 0.5) * 0x1p-53; }

Lap make_lap(const Array<Row>& rows, double live_bytes, std::size_t operations, unsigned remote, unsigned seed) {
  struct Event {
    double time;
    std::uint32_t operation;
  };
  bench::Random random(seed);
  double bytes = 0, rate = 0;
  for (const Row& row : rows) {
    bytes += static_cast<double>(row.size) * row.live;
    rate += row.rate;
  }
  const double scale = live_bytes / bytes;
  const double length = static_cast<double>(operations / 2) / (rate * scale);

  Lap lap;
  Array<Event> events;
  const auto begin_with = [&](std::uint32_t block) {
    lap.first.push_back(block);
    lap.live_bytes += lap.sizes[block];
  };
  for (const Row& row : rows) {
    const double life = row.rate > 0 ? row.live / row.rate : INFINITY;
    for (std::size_t left = rounded(row.rate * scale * length, random); left > 0; --left) {
      const auto block = static_cast<std::uint32_t>(lap.sizes.size());
      lap.sizes.push_back(row.size);
      const double born = unit(random) * length;
      double dies = born + std::fmin(-life * std::log(unit(random)), length * 0.999999);
      const bool goes_round = dies >= length;
      if (goes_round) {
        dies -= length;
        begin_with(block);
      }
      const std::uint32_t other = random.below(100) < remote ? kByOther : 0;
      events.push_back({born, block});
      events.push_back({dies, block | kDelete | other});
    }
  }
  for (const Row& row : rows) {
    const double stays = row.rate > 0 ? std::exp(-length * row.rate / row.live) : 1;
    for (std::size_t left = rounded(row.live * scale * stays, random); left > 0; --left) {
      lap.sizes.push_back(row.size);
      begin_with(static_cast<std::uint32_t>(lap.sizes.size() - 1));
    }
  }
  for (std::size_t i = lap.first.size(); i > 1; --i) std::swap(lap.first[i - 1], lap.first[random.below(i)]);
  std::sort(events.begin(), events.end(), [](const Event& a, const Event& b) { return a.time < b.time; });
  for (const Event& event : events) lap.operations.push_back(event.operation);
  lap.addresses.assign(lap.sizes.size(), nullptr);
  return lap;
}

// Blocks on their way to one thread from the one before it.
struct alignas(128) Inbox {
  static constexpr std::size_t kBatch = 128;
  std::atomic<bool> full{false};
  std::atomic<int> ended{0};  // phases for which the thread before has handed over everything
  void* blocks[kBatch];
  std::size_t count = 0;
};

class Worker {
 public:
  Worker(Lap& lap, Inbox& inbox, Inbox& next) : lap_(lap), inbox_(inbox), next_(next) {}

  void begin() {
    for (const std::uint32_t block : lap_.first) allocate(block);
  }
  void run_lap() {
    for (const std::uint32_t operation : lap_.operations) {
      const std::uint32_t block = operation & kBlock;
      if ((operation & kDelete) == 0) allocate(block);
      else if ((operation & kByOther) != 0) hand_over(lap_.addresses[block]);
      else free(lap_.addresses[block], lap_.sizes[block]);
    }
  }
  // Hands over the rest, and frees what the thread before hands over until it has done the same.
  void finish_phase() {
    send();
    next_.ended.fetch_add(1);
    for (++phases_; inbox_.ended.load() < phases_;)
      if (!receive()) std::this_thread::yield();
    receive();
  }
  std::uint64_t checksum() const { return checksum_; }

 private:
  static constexpr std::size_t kPage = 4096, kLine = 64;

  void allocate(std::uint32_t block) {
    const std::size_t size = lap_.sizes[block];
    auto* bytes = static_cast<char*>(::operator new(size));
    for (std::size_t at = kPage + block * kLine % kPage; at < size; at += kPage) bytes[at] = 1;
    bench::stamp_as<std::uint8_t>(bytes, block);
    lap_.addresses[block] = bytes;
  }
  void free(void* block, std::size_t size) {
    checksum_ += bench::stamp_of_as<std::uint8_t>(block);
    ::operator delete(block, size);
  }
  void hand_over(void* block) {
    going_[leaving_++] = block;
    if (leaving_ == Inbox::kBatch) send();
  }
  void send() {
    while (next_.full.load(std::memory_order_acquire))
      if (!receive()) std::this_thread::yield();
    std::copy(going_, going_ + leaving_, next_.blocks);
    next_.count = std::exchange(leaving_, 0);
    next_.full.store(true, std::memory_order_release);
    receive();
  }
  bool receive() {
    if (!inbox_.full.load(std::memory_order_acquire)) return false;
    for (std::size_t i = 0; i < inbox_.count; ++i) {
      checksum_ += bench::stamp_of_as<std::uint8_t>(inbox_.blocks[i]);
      ::operator delete(inbox_.blocks[i]);
    }
    inbox_.full.store(false, std::memory_order_release);
    return true;
  }

  Lap& lap_;
  Inbox &inbox_, &next_;
  void* going_[Inbox::kBatch];
  std::size_t leaving_ = 0;
  int phases_ = 0;
  std::uint64_t checksum_ = 0;
};

}  // namespace

int main(int argc, char** argv) {
  const char* path = bench::text_argument(argc, argv, "profile", nullptr);
  if (path == nullptr) {
    std::fprintf(stderr, "--profile FILE is wanted: lines of 'size, rate, live blocks'\n");
    return 2;
  }
  const auto threads = static_cast<std::size_t>(bench::number_argument(argc, argv, "threads", 1));
  const double live = static_cast<double>(bench::number_argument(argc, argv, "live", 64)) * 0x1p20;
  const auto operations = static_cast<std::size_t>(bench::number_argument(argc, argv, "operations", 1'000'000));
  const long laps = bench::scaled(argc, argv, bench::number_argument(argc, argv, "laps", 20));
  const char* share = bench::text_argument(argc, argv, "remote", "0");
  const long remote = std::strcmp(share, "0") == 0 ? 0 : bench::positive_number("remote", share);
  if (remote > 100) {
    std::fprintf(stderr, "--remote: percent, not %ld\n", remote);
    return 2;
  }
  const Array<Row> rows = read_profile(path);

  Array<Lap> plans;
  Array<Inbox> inboxes(threads);
  std::size_t live_bytes = 0, done = 0;
  for (std::size_t t = 0; t < threads; ++t) {
    plans.push_back(make_lap(rows, live / static_cast<double>(threads), operations, static_cast<unsigned>(remote),
                             static_cast<unsigned>(t + 1)));
    live_bytes += plans[t].live_bytes;
    done += plans[t].operations.size() * static_cast<std::size_t>(laps);
  }

  const long before = bench::rollup_kib("Rss:");
  std::atomic<std::uint64_t> checksum{0};
  bench::Stopwatch watch;
  std::barrier warm(static_cast<std::ptrdiff_t>(threads), [&]() noexcept { watch.start(); });
  std::barrier end(static_cast<std::ptrdiff_t>(threads), [&]() noexcept { watch.stop(); });
  std::vector<std::thread> members;
  for (std::size_t t = 0; t < threads; ++t)
    members.emplace_back([&, t] {
      Worker worker(plans[t], inboxes[t], inboxes[(t + 1) % threads]);
      worker.begin();
      for (long lap = 0; lap < std::min(laps, 10L); ++lap) worker.run_lap();
      worker.finish_phase();
      warm.arrive_and_wait();
      for (long lap = 0; lap < laps; ++lap) worker.run_lap();
      worker.finish_phase();
      checksum += worker.checksum();
      end.arrive_and_wait();
    });
  for (std::thread& member : members) member.join();

  const double resident = static_cast<double>(bench::rollup_kib("Rss:") - before) * 1024;
  bench::report("fleet_profile", static_cast<double>(done), watch, checksum,
                {{"rss_per_live", resident / static_cast<double>(live_bytes)}});
}
