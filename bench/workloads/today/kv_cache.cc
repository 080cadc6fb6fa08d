// SPDX-License-Identifier: MIT
//
// kv_cache: a cache of keys and values with a limit of bytes, least recently used first out, as redis and memcached are
// used. Keys follow Zipf's law. The sizes of the values change from epoch to epoch, while popular old items stay: what
// is freed is not what is wanted next, and an allocator that cannot use its holes grows beyond the limit. Such changes
// of size are what S. M. Rumble, A. Kejriwal and J. Ousterhout, "Log-structured memory for DRAM-based storage" (FAST
// 2014), measured allocators with; the ranges are in kEpochs.
//
// One operation is one request: 85 % get (a miss sets the value, as a cache in front of a database does), 14 % set, 1 %
// delete. The memory is the main figure:
//   rss_over_live_1 … 8   anonymous resident memory at the end of each epoch, over the bytes that the items asked for
//   rss_over_live_max, rss_over_live (after the last epoch), hit_percent, evicted, items
// --threads (1), --limit (MiB, 64), --keys (10^6), --requests (each epoch, 600000), --skew (s of Zipf, 0.99), --shrink
// (divides limit, keys and requests).
//
// The items are in 64 stores with a lock each. Which request does what depends on its number only, and the checksum on
// the requests only, so it is the same for every number of threads; an item that is not what was written ends the
// program.
#include <barrier>
#include <mutex>
#include <thread>

#include "support/measure.h"
#include "support/memory_use.h"
#include "today/lru_store.h"
#include "today/zipf.h"

namespace {

// Bytes of most values of an epoch.
struct Range {
  std::uint32_t least, most;
};
constexpr Range kEpochs[] = {{100, 150},   {200, 250}, {100, 200},    {1000, 2000},
                             {1500, 2500}, {50, 150},  {5000, 15000}, {100, 150}};
constexpr std::size_t kEpochCount = std::size(kEpochs);
constexpr std::uint32_t kLeastOther = 16;  // one value in ten is of any size from 16 bytes to 16 KiB, in every epoch
constexpr std::size_t kStores = 64;
constexpr long kChunk = 1024;  // requests that one thread makes in a row

struct alignas(128) Shard {
  std::mutex lock;
  bench::LruStore store;
};

struct alignas(128) Sum {
  std::uint64_t checksum = 0;
  long gets = 0, hits = 0, broken = 0;
};

struct Plan {
  std::size_t threads, limit;
  std::uint64_t keys;
  long requests;
  bench::Zipf popularity;
};

std::uint32_t value_size(std::size_t epoch, bench::Random& random) {
  const std::uint64_t bits = random.next();
  const Range range = kEpochs[epoch];
  if ((bits & 0xff) >= 26)
    return range.least + static_cast<std::uint32_t>((bits >> 32) % (range.most - range.least + 1));
  const std::uint32_t base = kLeastOther << (bits >> 8) % 10;
  return base + (static_cast<std::uint32_t>(bits >> 32) & (base - 1));
}

class Cache {
 public:
  explicit Cache(const Plan& plan) : plan_(plan), buckets_(kStores * kBuckets), shards_(kStores) {
    for (std::size_t i = 0; i < kStores; ++i)
      shards_[i].store.open(&buckets_[i * kBuckets], kBuckets, plan.limit / kStores);
  }

  // Fills the cache before the first epoch, the least popular keys first.
  void fill() {
    bench::Random random(1);
    for (std::uint64_t id = plan_.keys; id > 0; --id) shard(id).store.set(id, value_size(0, random));
  }

  void requests(std::size_t epoch, std::size_t thread, Sum& sum) {
    const long chunks = (plan_.requests + kChunk - 1) / kChunk;
    for (long chunk = static_cast<long>(thread); chunk < chunks; chunk += static_cast<long>(plan_.threads)) {
      bench::Random random(epoch * 1'000'000 + static_cast<std::uint64_t>(chunk) + 17);
      const long end = (chunk + 1) * kChunk < plan_.requests ? (chunk + 1) * kChunk : plan_.requests;
      for (long number = chunk * kChunk; number < end; ++number) request(epoch, random, sum);
    }
  }

  std::size_t live() {
    return total([](bench::LruStore& store) { return store.used(); });
  }
  std::size_t items() {
    return total([](bench::LruStore& store) { return store.count(); });
  }
  std::size_t evicted() {
    return total([](bench::LruStore& store) { return store.evicted(); });
  }
  std::size_t broken() {
    return total([](bench::LruStore& store) { return store.broken(); });
  }
  void clear() {
    for (Shard& one : shards_) one.store.clear();
  }

 private:
  static constexpr std::size_t kBuckets = 1 << 14;

  Shard& shard(std::uint64_t id) { return shards_[(id * 0x9E3779B97F4A7C15u) >> 58]; }

  void request(std::size_t epoch, bench::Random& random, Sum& sum) {
    const std::uint64_t bits = random.next();
    // Popularity wanders, too: by a hundredth of the keys each epoch.
    const std::uint64_t id = (plan_.popularity.draw(random) + epoch * (plan_.keys / 100)) % plan_.keys + 1;
    const std::uint32_t size = value_size(epoch, random);
    sum.checksum += id * 31 + size + (bits & 0xff);
    Shard& one = shard(id);
    const std::lock_guard guard(one.lock);
    const std::uint64_t choice = bits % 100;
    if (choice < 14) {
      one.store.set(id, size);
      return;
    }
    bench::LruStore::Item* item = one.store.find(id);
    if (choice == 14) {
      if (item != nullptr) one.store.erase(item);
      return;
    }
    ++sum.gets;
    if (item == nullptr) {
      one.store.set(id, size);
    } else {
      ++sum.hits;
      sum.broken += bench::LruStore::intact(*item) ? 0 : 1;
    }
  }

  template <class Get> std::size_t total(Get get) {
    std::size_t sum = 0;
    for (Shard& one : shards_) sum += get(one.store);
    return sum;
  }

  const Plan& plan_;
  bench::MappedArray<bench::LruStore::Item*> buckets_;
  std::vector<Shard> shards_;
};

Plan read_plan(int argc, char** argv) {
  const char* skew = bench::text_argument(argc, argv, "skew", "0.99");
  const double s = std::strtod(skew, nullptr);
  if (!(s > 0 && s < 10)) {
    std::fprintf(stderr, "--skew wants a number above 0, not '%s'\n", skew);
    std::exit(2);
  }
  const long limit_kib = bench::scaled(argc, argv, 1024 * bench::number_argument(argc, argv, "limit", 64));
  const auto keys =
      static_cast<std::uint64_t>(bench::scaled(argc, argv, bench::number_argument(argc, argv, "keys", 1'000'000)));
  return {static_cast<std::size_t>(bench::number_argument(argc, argv, "threads", 1)),
          static_cast<std::size_t>(limit_kib) * 1024, keys,
          bench::scaled(argc, argv, bench::number_argument(argc, argv, "requests", 600'000)), bench::Zipf(keys, s)};
}

// All epochs. Between two of them everybody waits while main looks at the memory; the watch stands still then.
void run_epochs(const Plan& plan, Cache& cache, bench::MappedArray<Sum>& sums, bench::Stopwatch& watch, long empty_kib,
                double (&ratios)[kEpochCount]) {
  std::barrier turn(static_cast<std::ptrdiff_t>(plan.threads) + 1);
  std::vector<std::thread> threads;
  for (std::size_t t = 0; t < plan.threads; ++t)
    threads.emplace_back([&, t] {
      for (std::size_t epoch = 0; epoch < kEpochCount; ++epoch) {
        turn.arrive_and_wait();
        cache.requests(epoch, t, sums[t]);
        turn.arrive_and_wait();
      }
    });
  for (double& ratio : ratios) {
    watch.start();
    turn.arrive_and_wait();
    turn.arrive_and_wait();
    watch.stop();
    const auto resident = static_cast<double>(bench::rollup_kib("Anonymous:") - empty_kib) * 1024;
    ratio = resident / static_cast<double>(cache.live());
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace

int main(int argc, char** argv) {
  const Plan plan = read_plan(argc, argv);
  bench::MappedArray<Sum> sums(plan.threads);
  Cache cache(plan);
  const long empty_kib = bench::rollup_kib("Anonymous:");
  bench::Stopwatch watch;
  double ratios[kEpochCount];
  watch.start();
  cache.fill();
  watch.stop();
  run_epochs(plan, cache, sums, watch, empty_kib, ratios);

  const auto items = static_cast<double>(cache.items());
  cache.clear();
  Sum all;
  for (const Sum& sum : sums) {
    all.checksum += sum.checksum;
    all.gets += sum.gets;
    all.hits += sum.hits;
    all.broken += sum.broken;
  }
  if (all.broken != 0 || cache.broken() != 0) {
    std::fprintf(stderr, "items are not what was written\n");
    return 1;
  }
  double worst = 0;
  for (const double ratio : ratios) worst = ratio > worst ? ratio : worst;
  bench::report("kv_cache", static_cast<double>(plan.requests) * kEpochCount, watch, all.checksum,
                {{"rss_over_live_1", ratios[0]},
                 {"rss_over_live_2", ratios[1]},
                 {"rss_over_live_3", ratios[2]},
                 {"rss_over_live_4", ratios[3]},
                 {"rss_over_live_5", ratios[4]},
                 {"rss_over_live_6", ratios[5]},
                 {"rss_over_live_7", ratios[6]},
                 {"rss_over_live_8", ratios[7]},
                 {"rss_over_live_max", worst},
                 {"rss_over_live", ratios[kEpochCount - 1]},
                 {"hit_percent", 100 * static_cast<double>(all.hits) / static_cast<double>(all.gets)},
                 {"evicted", static_cast<double>(cache.evicted())},
                 {"items", items}});
}
