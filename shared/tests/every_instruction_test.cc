// SPDX-License-Identifier: MIT
//
// A process that ends at any instruction: a child uses a heap, step by step under ptrace, and after each step that
// changed the file a copy of it is what there would be had it been killed there: nobody has a lock on the copy. Who
// attaches the copy recovers; nothing may be lost, the live blocks are those that slots name, and the copy takes what
// the heap knows of. Then the same for children that do nothing but recover, from states in which the first one was
// stopped.
//
//   shared_every_instruction [STATES [SEED]]   how many of those states; the long form takes more
#include <sys/ptrace.h>
#include <time.h>

#include <cstdint>
#include <vector>

#include "shared/tests/file_states.h"
#include "shared/tests/shared_file.h"
#include "tests/support/proof.h"
#include "tests/support/random.h"
#include "tests/whole/signal/support/failure.h"

namespace {
using namespace freeway_test;

constexpr int kSkipped = 77;
constexpr size_t kSlots = 8;
constexpr size_t kCapacity = 1 << 20;

struct Table {
  uint64_t slots[kSlots];
};

Table* table_of(freeway_shared_t* heap) {
  return static_cast<Table*>(::freeway_shared_pointer(heap, ::freeway_shared_root_find(heap, "table")));
}

// All paths, in few instructions: magazines that run empty and full, superblocks that come and go, large blocks, slots,
// both alive and left behind.
int use(int fd) {
  freeway_shared_t* heap = ::freeway_shared_attach(fd);
  if (heap == nullptr) return 1;
  Table* table = table_of(heap);
  constexpr size_t kSizes[] = {100, 5000, 8192, 70'000, 150'000};
  for (size_t i = 0; i < 5; i++)
    if (::freeway_shared_alloc_into(heap, &table->slots[i], kSizes[i]) == nullptr) return 2;
  for (const size_t i : {1, 3, 0})
    if (::freeway_shared_free_from(heap, &table->slots[i]) != 0) return 3;
  // Of this class a magazine has eight.
  void* blocks[10];
  for (void*& block : blocks)
    if ((block = ::freeway_shared_malloc(heap, 8000)) == nullptr) return 4;
  for (void* block : blocks)
    if (::freeway_shared_free(heap, block) != 0) return 5;
  if (::freeway_shared_free_from(heap, &table->slots[2]) != 0) return 6;
  if (::freeway_shared_root_replace(heap, "another", 0, 1) != 0) return 7;
  ::freeway_shared_trim(heap);
  if (::freeway_shared_alloc_into(heap, &table->slots[6], 10) == nullptr) return 8;
  return ::freeway_shared_detach(heap);
}

int recover(int fd) { return ::freeway_shared_detach(::freeway_shared_attach(fd)); }

// What is there when the copy is recovered. `loose`: blocks that no slot names may be live, the ones of malloc.
void check(const File& fd, size_t most_loose) {
  freeway_shared_t* heap = ::freeway_shared_attach(fd);
  require(heap != nullptr, "attach", static_cast<uint64_t>(errno));
  const Table* table = table_of(heap);
  size_t named = 1;
  for (const uint64_t slot : table->slots) {
    if (slot == 0) continue;
    require(::freeway_shared_usable_size(heap, ::freeway_shared_pointer(heap, slot)) != 0, "a slot names no live block",
            slot);
    ++named;
  }
  const freeway_shared_audit_t audit = audit_of(heap);
  require(audit.lost == 0, "bytes lost", audit.lost);
  require(audit.errors + audit.left_behind == 0, "errors, seats left behind", audit.errors, audit.left_behind);
  require(audit.blocks >= named && audit.blocks <= named + most_loose, "live blocks, those named", audit.blocks, named);
  require(forgotten(fd, heap) == 0, "bytes that the heap has forgotten", forgotten(fd, heap), stats_of(heap).backed);
  ::freeway_shared_detach(heap);
}

struct Counts {
  uint64_t instructions = 0, states = 0;
};

// Goes through f(fd) in a child by single steps; `visit` is told of each state of the file that was not there the step
// before.
template <class F, class Visit>
void step_through(int fd, const Mapping& file, F&& f, Snapshot& state, Counts& counts, Visit&& visit) {
  const pid_t child = ::fork();
  if (child == 0) {
    if (::ptrace(PTRACE_TRACEME, 0, nullptr, nullptr) != 0) ::_exit(kSkipped);
    ::raise(SIGSTOP);
    ::_exit(f(fd));
  }
  int status = 0;
  require(::waitpid(child, &status, 0) == child, "no child");
  if (WIFEXITED(status) && WEXITSTATUS(status) == kSkipped) ::_exit(kSkipped);
  for (;;) {
    require(::ptrace(PTRACE_SINGLESTEP, child, nullptr, nullptr) == 0, "step", static_cast<uint64_t>(errno));
    require(::waitpid(child, &status, 0) == child, "no child");
    if (!WIFSTOPPED(status)) break;
    ++counts.instructions;
    if (!state.update(file)) continue;
    ++counts.states;
    visit(state);
  }
  require(WIFEXITED(status) && WEXITSTATUS(status) == 0, "the child", static_cast<uint64_t>(status));
}

}  // namespace

int main(int argc, char** argv) {
  const size_t wanted = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 0;
  const uint64_t seed = argc > 2 ? std::strtoull(argv[2], nullptr, 10) : static_cast<uint64_t>(::time(nullptr));
  Line().text("seed ").number(seed).write_to(1);
  Random random(seed);
  const File fd = memory_file(), copy = memory_file();
  uint64_t table_at;
  {
    const Heap heap = make_heap(fd, kCapacity, 3);
    void* table = ::freeway_shared_calloc(heap, 1, sizeof(Table));
    table_at = ::freeway_shared_offset(heap, table);
    require(::freeway_shared_root_replace(heap, "table", 0, table_at) == 0 && fill_tables(fd), "no table");
  }
  require(::ftruncate(copy, static_cast<off_t>(fd.length())) == 0, "no copy");
  std::vector<Part> parts = parts_in_use(fd, kCapacity);
  parts.push_back({table_at, sizeof(Table)});
  const Mapping file(fd), copied(copy);

  Snapshot now(file, parts);
  now.put(copied);
  require(fill_tables(copy), "no tables");
  Counts used, recovered;
  std::vector<Snapshot> kept;
  step_through(fd, file, use, now, used, [&](const Snapshot& state) {
    state.put(copied);
    check(copy, /*most_loose=*/10);
    if (kept.size() < wanted) {
      kept.push_back(state);
    } else if (const size_t i = random.below(used.states); i < wanted) {
      kept[i] = state;
    }
  });
  check(fd, 0);
  for (Snapshot& begin : kept) {
    begin.put(file);
    step_through(fd, file, recover, begin, recovered, [&](const Snapshot& state) {
      state.put(copied);
      check(copy, 10);
    });
  }
  require(used.states > 100 && recovered.states >= kept.size(), "hardly anything was seen", used.states,
          recovered.states);
  constexpr char kSubject[] = "a process of a shared heap, instruction by instruction";
  freeway::test::proof("stops and kills", kSubject, "instructions", used.instructions + recovered.instructions);
  freeway::test::proof("stops and kills", kSubject, "states recovered and audited", used.states + recovered.states);
  return 0;
}
