// SPDX-License-Identifier: MIT
//
// A process that is stopped in the middle of a call delays nobody. It makes one call by single steps, is left standing
// at some of its instructions, at the last of them by SIGSTOP, and each time another process makes all calls that there
// are, many times. Nothing is timed: the other one *finishes*, or the test hangs. Then the first goes on to its end,
// and everything adds up: what both had written is there, and afterwards the heap is empty.
//
//   shared_stopped [PASSES [INSTRUCTIONS [SEED]]]   how many times each call is made; how many of its instructions are
//                                                   gone through at most (0: all)
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <time.h>

#include <algorithm>
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
constexpr size_t kCapacity = 4 << 20, kWatched = 1 << 20;  // where the stopped one's blocks lie
constexpr unsigned kSeats = 8;
constexpr size_t kSmall = 100, kMiddle = 8000, kLarge = 150'000;  // of kMiddle a magazine has eight
constexpr size_t kHuge = 2'100'000;                               // goes back to the system at once
constexpr size_t kStops = 3;                                      // in one call

// What the two processes know of each other.
struct Common {
  bool returned;  // the call that is stepped through
  struct {
    uint64_t block;  // its offset; 0: there is none
    unsigned value;  // of each of its bytes; 0: anything
  } kept[24];
};
Common* common;

// --- The process that is stopped. ------------------------------------------------------------------------------------

int heap_fd;
freeway_shared_t *mine, *guest;  // `guest`: attached once more
void* result;

void* block_of(size_t i) { return ::freeway_shared_pointer(mine, common->kept[i].block); }

void keep(size_t i, void* block, unsigned value) {
  require(block != nullptr, "no memory", i, static_cast<uint64_t>(errno));
  if (value != 0) ::memset(block, static_cast<int>(value), ::freeway_shared_usable_size(mine, block));
  common->kept[i] = {::freeway_shared_offset(mine, block), value};
}
void make(size_t i, size_t bytes) { keep(i, ::freeway_shared_malloc(mine, bytes), static_cast<unsigned>(i) + 1); }
void unmake(size_t i) {
  void* block = block_of(i);
  common->kept[i] = {};
  require(::freeway_shared_free(mine, block) == 0, "free", i, static_cast<uint64_t>(errno));
}

// Slots lie in the block 0.
uint64_t* slot() { return static_cast<uint64_t*>(block_of(0)); }
void make_slot() { keep(0, ::freeway_shared_calloc(mine, 1, 8), 0); }
void fill_slot(size_t bytes) { require(::freeway_shared_alloc_into(mine, slot(), bytes) != nullptr, "alloc_into"); }
void empty_slot() { require(::freeway_shared_free_from(mine, slot()) == 0 && *slot() == 0, "free_from"); }

// Magazines, superblocks and large blocks' frames that have been used.
void use_and_give_back(freeway_shared_t* heap) {
  void* blocks[12];
  for (size_t i = 0; i < 12; i++)
    require((blocks[i] = ::freeway_shared_malloc(heap, i % 3 == 0 ? kMiddle
                                                       : i == 7   ? kLarge
                                                                  : kSmall << (i / 2))) != nullptr,
            "no memory", i);
  for (void* block : blocks) require(::freeway_shared_free(heap, block) == 0, "free");
}

struct Call {
  const char* name;
  bool among_dead;  // somebody has been killed
  void (*before)();
  void (*run)();  // by steps
  void (*after)();
};

void nothing() {}
void keep_result() { keep(1, result, 99); }
const Call kCalls[] = {
    {"malloc in a heap that has to grow", false, nothing, [] { result = ::freeway_shared_malloc(mine, kSmall); },
     keep_result},
    {"malloc from a magazine", false, [] { make(0, kSmall); }, [] { result = ::freeway_shared_malloc(mine, kSmall); },
     keep_result},
    {"malloc of large blocks", false, nothing, [] { result = ::freeway_shared_malloc(mine, kLarge); }, keep_result},
    {"free, until a magazine is full", false,
     [] {
       for (size_t i = 0; i < 20; i++) make(i, kMiddle);
     },
     [] {
       for (size_t i = 0; i < 20; i++) unmake(i);
     },
     nothing},
    {"free of large blocks", false, [] { make(0, kLarge); }, [] { unmake(0); }, nothing},
    {"free of huge blocks", false, [] { make(0, kHuge); }, [] { unmake(0); }, nothing},
    {"alloc_into", false, make_slot, [] { fill_slot(kSmall); },
     [] { keep(1, ::freeway_shared_pointer(mine, *slot()), 88); }},
    {"alloc_into of large blocks", false, make_slot, [] { fill_slot(kLarge); },
     [] { keep(1, ::freeway_shared_pointer(mine, *slot()), 88); }},
    {"free_from", false, [] { make_slot(), fill_slot(kMiddle); }, empty_slot, nothing},
    {"free_from of large blocks", false, [] { make_slot(), fill_slot(kLarge); }, empty_slot, nothing},
    {"recover", true, nothing, [] { require(::freeway_shared_recover(mine) >= 0, "recover"); }, nothing},
    {"attach", true, nothing,
     [] { require((guest = ::freeway_shared_attach(heap_fd)) != nullptr, "attach", static_cast<uint64_t>(errno)); },
     [] { ::freeway_shared_detach(guest); }},
    {"detach", false,
     [] {
       guest = ::freeway_shared_attach(heap_fd);
       use_and_give_back(guest);
     },
     [] { require(::freeway_shared_detach(guest) == 0, "detach"); }, nothing},
    {"trim", false, [] { use_and_give_back(mine); }, [] { ::freeway_shared_trim(mine); }, nothing},
    {"root_replace", false, nothing,
     [] { require(::freeway_shared_root_replace(mine, "a name of the stopped one's", 0, 7) == 0, "root_replace"); },
     nothing},
};

// Exits with 0, or kSkipped.
[[noreturn]] void be_stopped(const Call& call) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  require((mine = ::freeway_shared_attach(heap_fd)) != nullptr, "attach", static_cast<uint64_t>(errno));
  call.before();
  if (::ptrace(PTRACE_TRACEME, 0, nullptr, nullptr) != 0) ::_exit(kSkipped);
  ::raise(SIGSTOP);
  call.run();
  __atomic_store_n(&common->returned, true, __ATOMIC_RELEASE);
  call.after();
  ::_exit(::freeway_shared_detach(mine));
}

// --- The other one. --------------------------------------------------------------------------------------------------

// Dies with full magazines, and superblocks of its own.
void leave_somebody_dead(freeway_shared_t* heap) {
  const auto die = [heap] {
    use_and_give_back(heap);
    ::kill(::getpid(), SIGKILL);
    return 1;
  };
  require(in_child(die) == kKilled, "who was to be killed");
}

void expect(const unsigned char* block, size_t bytes, unsigned value) {
  for (size_t i = 0; i < bytes; i++) require(block[i] == value, "a block was written to", i, block[i]);
}

// All calls that there are, many times; afterwards it has nothing in the heap, and nobody dead is there.
void work_beside(freeway_shared_t* heap, uint64_t& operations) {
  const auto use = [&](size_t bytes) {
    auto* block = static_cast<unsigned char*>(::freeway_shared_malloc(heap, bytes));
    require(block != nullptr, "no memory beside", bytes, static_cast<uint64_t>(errno));
    ::memset(block, 0xaa, bytes);
    expect(block, bytes, 0xaa);
    require(::freeway_shared_free(heap, block) == 0, "free beside", static_cast<uint64_t>(errno));
    ++operations;
  };
  for (size_t i = 0; i < 40; i++) use(kSmall + 16 * i);
  for (size_t i = 0; i < 3; i++) use(kLarge);
  auto* slots = static_cast<uint64_t*>(::freeway_shared_calloc(heap, 20, sizeof(uint64_t)));
  require(slots != nullptr, "no slots");
  for (size_t i = 0; i < 20; i++)
    require(::freeway_shared_alloc_into(heap, &slots[i],
                                        i == 0   ? kLarge
                                        : i < 10 ? kMiddle
                                                 : kSmall) != nullptr,
            "alloc_into beside");
  for (size_t i = 0; i < 20; i++) require(::freeway_shared_free_from(heap, &slots[i]) == 0, "free_from beside");
  require(::freeway_shared_free(heap, slots) == 0, "free the slots");
  // To the end of the heap, which grows as far as it can.
  std::vector<void*> all;
  while (void* block = ::freeway_shared_malloc(heap, 4 * kMiddle)) all.push_back(block);
  require(errno == ENOMEM && all.size() > 30, "the whole heap", static_cast<uint64_t>(errno), all.size());
  for (void* block : all) require(::freeway_shared_free(heap, block) == 0, "free all");
  ::freeway_shared_trim(heap);  // its magazines are nobody else's
  const uint64_t root = ::freeway_shared_root_find(heap, "beside");
  require(::freeway_shared_root_replace(heap, "beside", root, root + 1) == 0, "root_replace beside");
  leave_somebody_dead(heap);
  require(::freeway_shared_recover(heap) >= 1, "recover beside", static_cast<uint64_t>(errno));
  {
    const Heap another(::freeway_shared_attach(heap_fd));
    require(another != nullptr, "attach beside", static_cast<uint64_t>(errno));
    use_and_give_back(another);
  }
  stats_of(heap);
  audit_of(heap);
  ::freeway_shared_trim(heap);
  operations += 40 + 2 * all.size() + 30;
}

// Frees what the stopped one had, when it has ended; the heap is empty then.
void expect_all_in_order(const File& file, freeway_shared_t* heap) {
  size_t blocks = 0;
  for (const auto& kept : common->kept) blocks += kept.block != 0;
  require(::freeway_shared_recover(heap) == 0, "somebody is dead");
  const freeway_shared_audit_t audit = audit_of(heap);
  require(audit.lost == 0, "bytes lost", audit.lost);
  require(audit.errors + audit.left_behind == 0, "errors, seats left behind", audit.errors, audit.left_behind);
  require(audit.blocks == blocks, "live blocks, those that somebody has", audit.blocks, blocks);
  for (const auto& kept : common->kept) {
    if (kept.block == 0) continue;
    auto* block = static_cast<unsigned char*>(::freeway_shared_pointer(heap, kept.block));
    if (kept.value != 0) expect(block, ::freeway_shared_usable_size(heap, block), kept.value);
    require(::freeway_shared_free(heap, block) == 0, "free", kept.block);
  }
  ::freeway_shared_trim(heap);
  const freeway_shared_stats_t stats = stats_of(heap);
  require(stats.live + stats.superblocks + stats.backed == 0, "all is given back", stats.superblocks, stats.backed);
  require(stats.attached == 1 && stats.seats == 1, "who is there", stats.attached, stats.seats);
  require(forgotten(file, heap) == 0, "bytes that the heap has forgotten", forgotten(file, heap));
}

// --- Both. -----------------------------------------------------------------------------------------------------------

class Stopped {
 public:
  explicit Stopped(const Call& call) : child_(::fork()) {
    if (child_ == 0) be_stopped(call);
    require(child_ > 0, "fork", static_cast<uint64_t>(errno));
    int status = 0;
    require(::waitpid(child_, &status, 0) == child_, "no child");
    if (WIFEXITED(status) && WEXITSTATUS(status) == kSkipped) skip("may not step through a process");
    require(WIFSTOPPED(status) && WSTOPSIG(status) == SIGSTOP, "it does not begin", static_cast<uint64_t>(status));
  }
  // One instruction. False: the call has returned.
  bool step() {
    if (__atomic_load_n(&common->returned, __ATOMIC_ACQUIRE)) return false;
    require(::ptrace(PTRACE_SINGLESTEP, child_, nullptr, nullptr) == 0, "step", static_cast<uint64_t>(errno));
    wait_for_stop(SIGTRAP);
    return true;
  }
  // No more steps. It stands where it is, as any process that somebody has stopped.
  void stop() {
    require(::ptrace(PTRACE_DETACH, child_, nullptr, SIGSTOP) == 0, "detach", static_cast<uint64_t>(errno));
    wait_for_stop(SIGSTOP);
  }
  void go_on() {
    ::kill(child_, SIGCONT);
    require(status_of(child_) == 0, "the stopped one has ended otherwise");
  }

 private:
  void wait_for_stop(int signal) {
    int status = 0;
    require(::waitpid(child_, &status, WUNTRACED) == child_, "no child");
    require(WIFSTOPPED(status) && WSTOPSIG(status) == signal, "it does not stop", static_cast<uint64_t>(status));
  }
  pid_t child_;
};

// A call's instructions, and after which of them the file was another.
struct Course {
  uint64_t instructions = 0;
  std::vector<uint64_t> changes;
};

struct Counts {
  uint64_t stops = 0, operations = 0;
};

// f(heap, what is stopped), and what it left.
template <class F> void with_heap(const Call& call, F&& f) {
  const File fd = memory_file();
  heap_fd = fd;
  const Heap heap = make_heap(fd, kCapacity, kSeats);
  require(heap != nullptr && fill_tables(fd), "create", static_cast<uint64_t>(errno));
  *common = {};
  Stopped stopped(call);
  if (call.among_dead) leave_somebody_dead(heap);
  f(heap, stopped);
  stopped.go_on();
  expect_all_in_order(fd, heap);
}

Course course_of(const Call& call, uint64_t most) {
  Course course;
  with_heap(call, [&](freeway_shared_t*, Stopped& stopped) {
    const File file(::dup(heap_fd));
    const Mapping mapping(file);
    const std::vector<Part> parts = parts_in_use(file, kWatched);
    Snapshot state(mapping, parts);
    for (; course.instructions < most && stopped.step(); ++course.instructions)
      if (state.update(mapping)) course.changes.push_back(course.instructions);
    stopped.stop();
  });
  return course;
}

void stop_at(const Call& call, const std::vector<uint64_t>& places, Counts& counts) {
  with_heap(call, [&](freeway_shared_t* heap, Stopped& stopped) {
    uint64_t at = 0;
    for (const uint64_t& place : places) {
      while (at <= place && stopped.step()) ++at;
      if (at <= place) break;  // the others' work has spared it some
      if (&place == &places.back()) stopped.stop();
      work_beside(heap, counts.operations);
      ++counts.stops;
    }
    if (at <= places.back()) stopped.stop();
  });
}

}  // namespace

int main(int argc, char** argv) {
  const uint64_t passes = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 1;
  const uint64_t given = argc > 2 ? std::strtoull(argv[2], nullptr, 10) : 0, most = given != 0 ? given : ~uint64_t{0};
  const uint64_t seed = argc > 3 ? std::strtoull(argv[3], nullptr, 10) : static_cast<uint64_t>(::time(nullptr));
  Line().text("seed ").number(seed).write_to(1);
  Random random(seed);
  common =
      static_cast<Common*>(::mmap(nullptr, sizeof(Common), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  require(common != MAP_FAILED, "no memory in common");
  Counts counts;
  for (const Call& call : kCalls) {
    failure_context = call.name;
    const Course course = course_of(call, most);
    Line line;
    line.text(call.name).text(":").count(course.instructions, "instructions,").count(course.changes.size(), "changes");
    line.write_to(1);
    require(course.instructions > 100, "hardly anything was seen", course.instructions);
    for (uint64_t pass = 0; pass < passes; pass++) {
      std::vector<uint64_t> places;
      for (size_t i = 0; i < kStops; i++)
        places.push_back(course.changes.empty() || random.one_in(2)
                             ? random.below(course.instructions)
                             : course.changes[random.below(course.changes.size())]);
      std::sort(places.begin(), places.end());
      places.erase(std::unique(places.begin(), places.end()), places.end());
      stop_at(call, places, counts);
    }
  }
  require(counts.stops >= passes * std::size(kCalls), "stops", counts.stops);
  constexpr char kSubject[] = "a process of a shared heap that is stopped in a call";
  freeway::test::proof("stops and kills", kSubject, "stops", counts.stops);
  freeway::test::proof("stops and kills", kSubject, "operations of others beside it", counts.operations);
  return 0;
}
