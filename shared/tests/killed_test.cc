// SPDX-License-Identifier: MIT
//
// Processes that use one heap and are killed with -9 at random moments, thousands of times, also while they recover
// what the ones before them left. Nothing is lost: after recovery the audit is 0, the live blocks are exactly those
// that slots name (alloc_into, free_from), and hold what was written there, by whomever; and the file takes what the
// heap says, to the byte.
//
//   shared_killed [SECONDS [WORKERS [CPUS [SEED]]]]   at most 32 workers; 0 CPUs: all that there are
#include <sys/prctl.h>
#include <sys/resource.h>
#include <time.h>

#include <vector>

#include "shared/tests/shared_file.h"
#include "tests/support/cpu_affinity.h"
#include "tests/support/proof.h"
#include "tests/support/random.h"
#include "tests/whole/signal/support/failure.h"

namespace {
using namespace freeway_test;

constexpr int kMostWorkers = 32;
constexpr size_t kSlots = 300;  // a worker

// What lies in the heap, under the root "table". `contents`: of the block in that slot; 0: nobody has said. So it is
// set after the block was filled, and cleared before it is freed.
struct Table {
  uint64_t slots[kMostWorkers][kSlots];
  uint64_t contents[kMostWorkers][kSlots];  // bytes << 8 | value of each of them
  uint64_t operations[kMostWorkers];
};

uint64_t contents_of(size_t bytes, unsigned char value) { return uint64_t{bytes} << 8 | value; }

size_t random_size(Random& random) {
  if (random.one_in(1000)) return random.between(size_t{2} << 20, size_t{3} << 20);  // memory that goes back at once
  if (random.one_in(200)) return random.between(32'769, 400'000);
  if (random.one_in(10)) return random.between(2000, 32'768);
  return random.between(0, 500);
}

void fill(unsigned char* block, size_t bytes, unsigned char value) {
  ::memset(block, value, bytes < 256 ? bytes : 256);
  if (bytes > 256) block[bytes - 1] = value;
}
bool is_filled(const unsigned char* block, uint64_t contents) {
  const size_t bytes = contents >> 8, whole = bytes < 256 ? bytes : 256;
  const unsigned char value = contents & 0xff;
  for (size_t i = 0; i < whole; i++)
    if (block[i] != value) return false;
  return bytes <= 256 || block[bytes - 1] == value;
}

// Until then what the dead were filling or emptying is in doubt, and nobody may touch it.
void wait_for_recovery(freeway_shared_t* heap) {
  do require(::freeway_shared_recover(heap) >= 0, "recover", static_cast<uint64_t>(errno));
  while (stats_of(heap).seats_dead != 0);
}

// Until it is killed. `self`: whose slots these are; the ones before it may have left blocks there.
[[noreturn]] void work(int fd, freeway_shared_t* inherited, int self, uint64_t seed) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  require(::setpriority(PRIO_PROCESS, 0, 19) == 0, "nice");  // who kills comes first
  Random random(seed);
  // Every second one attaches anew; the others use what their parent had.
  freeway_shared_t* heap = random.one_in(2) ? ::freeway_shared_attach(fd) : inherited;
  require(heap != nullptr, "attach", static_cast<uint64_t>(errno));
  wait_for_recovery(heap);
  auto* table = static_cast<Table*>(::freeway_shared_pointer(heap, ::freeway_shared_root_find(heap, "table")));
  for (;;) {
    const size_t i = random.below(kSlots);
    uint64_t &slot = table->slots[self][i], &contents = table->contents[self][i];
    if (slot == 0) {
      const size_t bytes = random_size(random);
      auto* block = static_cast<unsigned char*>(::freeway_shared_alloc_into(heap, &slot, bytes));
      require(block != nullptr || errno == ENOMEM, "alloc_into", static_cast<uint64_t>(errno));
      if (block == nullptr) continue;
      const auto value = static_cast<unsigned char>(random.next() | 1);
      fill(block, bytes, value);
      __atomic_store_n(&contents, contents_of(bytes, value), __ATOMIC_RELEASE);
    } else {
      auto* block = static_cast<unsigned char*>(::freeway_shared_pointer(heap, slot));
      require(::freeway_shared_usable_size(heap, block) != 0, "a slot names no block", slot);
      require(contents == 0 || is_filled(block, contents), "a block was written to", slot, contents);
      __atomic_store_n(&contents, 0, __ATOMIC_RELEASE);
      require(::freeway_shared_free_from(heap, &slot) == 0, "free_from", static_cast<uint64_t>(errno), slot);
    }
    if (random.one_in(2000)) require(::freeway_shared_recover(heap) >= 0, "recover", static_cast<uint64_t>(errno));
    if (random.one_in(1000)) ::freeway_shared_trim(heap);
    __atomic_store_n(&table->operations[self], table->operations[self] + 1, __ATOMIC_RELAXED);
  }
}

// What is live is what slots name, and the table. What the file takes, the heap knows of.
void check(const File& fd, freeway_shared_t* heap, const Table* table) {
  size_t named = 0, bytes = 0;
  for (int self = 0; self < kMostWorkers; self++)
    for (size_t i = 0; i < kSlots; i++) {
      const uint64_t slot = table->slots[self][i], contents = table->contents[self][i];
      require(slot != 0 || contents == 0, "contents of no block", contents);
      if (slot == 0) continue;
      const auto* block = static_cast<unsigned char*>(::freeway_shared_pointer(heap, slot));
      const size_t usable = ::freeway_shared_usable_size(heap, block);
      require(usable != 0, "a slot names no live block", slot);
      require(contents == 0 || is_filled(block, contents), "a block holds something else", slot, contents);
      ++named;
      bytes += usable;
    }
  const freeway_shared_audit_t audit = audit_of(heap);
  require(audit.lost == 0, "bytes lost", audit.lost);
  require(audit.errors == 0, "errors of the audit", audit.errors);
  require(audit.left_behind == 0, "seats left behind", audit.left_behind);
  require(audit.blocks == named + 1, "live blocks, and slots that name some", audit.blocks, named);
  require(audit.live == bytes + ::freeway_shared_usable_size(heap, table), "live bytes", audit.live, bytes);
  require(forgotten(fd, heap) == 0, "bytes that the heap has forgotten", forgotten(fd, heap), stats_of(heap).backed);
}

uint64_t now_ms() {
  timespec time;
  ::clock_gettime(CLOCK_MONOTONIC, &time);
  return static_cast<uint64_t>(time.tv_sec) * 1000 + static_cast<uint64_t>(time.tv_nsec) / 1'000'000;
}

}  // namespace

int main(int argc, char** argv) {
  const uint64_t milliseconds = argc > 1 ? static_cast<uint64_t>(std::atof(argv[1]) * 1000) : 3000;
  const int workers_wanted = argc > 2 ? std::atoi(argv[2]) : 8;
  require(workers_wanted > 0 && workers_wanted <= kMostWorkers, "1 to 32 workers");
  const size_t cpus_wanted = argc > 3 ? std::strtoull(argv[3], nullptr, 10) : 0;
  const uint64_t seed = argc > 4 ? std::strtoull(argv[4], nullptr, 10) : now_ms();
  Line().text("seed ").number(seed).write_to(1);
  if (std::vector<int> cpus = usable_cpus(); cpus_wanted != 0) {
    if (cpus.size() < cpus_wanted) skip("there are not so many CPUs");
    cpus.resize(cpus_wanted);
    require(stay_on(cpus), "stay on these CPUs");
  }
  Random random(seed);
  const File fd = memory_file();
  // Each worker may have a seat, and another one that it cleans up.
  const freeway_shared_options_t options = {size_t{64} << 20, 2 * static_cast<unsigned>(workers_wanted) + 44};
  freeway_shared_t* heap = ::freeway_shared_create(fd, &options, sizeof(options));
  require(heap != nullptr && fill_tables(fd), "create", static_cast<uint64_t>(errno));
  auto* table = static_cast<Table*>(::freeway_shared_calloc(heap, 1, sizeof(Table)));
  require(table != nullptr, "no table");
  ::freeway_shared_root_replace(heap, "table", 0, ::freeway_shared_offset(heap, table));

  pid_t workers[kMostWorkers] = {};
  uint64_t kills = 0, recovered = 0, audits = 0;
  const auto start = [&](int self) {
    workers[self] = ::fork();
    if (workers[self] == 0) work(fd, heap, self, random.next() + static_cast<uint64_t>(self));
    require(workers[self] > 0, "fork", static_cast<uint64_t>(errno));
    random.next();
  };
  // All of them at once: where there are many on one CPU, each dies when it is its turn.
  const auto end = [&](const std::vector<int>& chosen) {
    for (const int self : chosen) ::kill(workers[self], SIGKILL);
    for (const int self : chosen) require(status_of(workers[self]) == kKilled, "a worker ended by itself");
    kills += chosen.size();
  };
  std::vector<int> all;
  for (int self = 0; self < workers_wanted; self++) all.push_back(self);
  for (const int self : all) start(self);
  for (const uint64_t began = now_ms(); now_ms() - began < milliseconds;) {
    // Some, beside the ones that live; who is killed is cleaned up by anybody.
    for (int i = 0; i < 4 + 160 / workers_wanted; i++) {
      std::vector<int> chosen;
      for (const int self : all)
        if (random.one_in(8)) chosen.push_back(self);
      ::usleep(static_cast<useconds_t>(random.below(3000)));
      end(chosen);
      if (random.one_in(3)) recovered += static_cast<uint64_t>(::freeway_shared_recover(heap));
      for (const int self : chosen) start(self);
    }
    // Then all: nobody is inside, and all must add up.
    end(all);
    const int last = ::freeway_shared_recover(heap);
    require(last >= 0, "recover", static_cast<uint64_t>(errno));
    recovered += static_cast<uint64_t>(last);
    check(fd, heap, table);
    if (random.one_in(2)) ::freeway_shared_trim(heap);
    check(fd, heap, table);
    ++audits;
    for (const int self : all) start(self);
  }
  end(all);
  require(::freeway_shared_recover(heap) >= 0, "recover");
  uint64_t operations = 0;
  for (int self = 0; self < workers_wanted; self++) {
    operations += table->operations[self];
    ::memset(table->contents[self], 0, sizeof(table->contents[self]));
    for (uint64_t& slot : table->slots[self])
      require(::freeway_shared_free_from(heap, &slot) == 0, "free what is left");
  }
  check(fd, heap, table);
  require(::freeway_shared_free(heap, table) == 0, "free the table");
  ::freeway_shared_trim(heap);
  freeway_shared_stats_t stats = stats_of(heap);
  require(stats.live == 0 && stats.superblocks == 0 && stats.backed == 0, "all is given back", stats.live,
          stats.backed);
  require(fd.taken() == frames_begin(fd), "all is given back to the system", fd.taken(), frames_begin(fd));
  ::freeway_shared_detach(heap);
  require(operations > 1000, "hardly anything was done", operations);
  freeway::test::proof("stops and kills", "processes of a shared heap", "processes killed", kills);
  freeway::test::proof("stops and kills", "processes of a shared heap", "audits", audits);
  Line line;
  line.count(operations, "operations")
      .count(kills, "kills")
      .count(recovered, "seats recovered here")
      .count(audits, "audits");
  line.write_to(1);
  return 0;
}
