// SPDX-License-Identifier: MIT
//
// Threads that stop at every step of every slow path: at each place that is marked with Env::step in src/, found by
// reading the sources. A thread is parked there until other threads have gone through all paths; or ends there; or the
// process forks there and both go on. A place where no thread could be stopped fails the test.
//
// The library is the product's, compiled with stepping/os/machine.h. Each stop is in a process of its own, in which
// something is in the way of the first arena and of the first segment of metadata, so that further ones are needed
// soon.
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sys/prctl.h>

#include <csignal>
#include <cstddef>
#include <cstdio>

#include "tests/support/confined_heap.h"
#include "tests/support/engine_under_test.h"
#include "tests/support/proof.h"
#include "tests/whole/signal/support/case_runner.h"
#include "tests/whole/signal/support/heap_account.h"
#include "tests/whole/signal/support/loss_account.h"
#include "tests/whole/signal/support/shared_memory.h"
#include "tests/whole/stall/signpost.h"
#include "tests/whole/stall/stepping/first_call.h"
#include "tests/whole/stall/stepping/paths.h"
#include "tests/whole/stall/stepping/sites.h"

namespace {
using namespace freeway_test;

enum Way { kParked, kGone, kForked };
enum State : uint32_t { kWorking, kStopped };

constexpr int kNotReached = 9;  // exit status: the thread came through without passing the place
constexpr size_t kOthers = 2;
constexpr size_t kArena = size_t{128} << 20, kSegment = size_t{1} << 20;  // bytes that the heap has at first

// A thread that stops at a place.
struct Visitor {
  pthread_t thread;
  const Site* site = nullptr;
  Way way = kParked;
  void (*program)(Visitor&) = nullptr;
  unsigned skips = 0;  // passes over the place before the one at which it stops
  bool armed = false;
  Paths* paths = nullptr;
  Signpost state;
};

constinit thread_local Visitor* visiting = nullptr;
Signpost gate;  // 0: parked threads stay
volatile bool in_child = false;
std::atomic<uint64_t> legs_of_others{0};

void go_beside_others(Paths& paths) {
  paths.run_beside_others();
  paths.empty();
  legs_of_others.fetch_add(Paths::kLegsBesideOthers);
}

void stop_here(Visitor& self) {
  self.armed = false;
  Paths::lift_memory_limit();
  if (self.way == kForked) {
    const auto child = static_cast<pid_t>(::syscall(SYS_clone, SIGCHLD, nullptr, nullptr, nullptr, nullptr));
    if (child == 0) {
      in_child = true;
      Paths paths;
      paths.begin(1);
      go_beside_others(paths);
      return;  // the interrupted call goes on, in the child
    }
    require_child_success(child, "the child of a fork at a step failed");
    self.state.set(kStopped);
    return;
  }
  self.state.set(kStopped);
  if (self.way == kGone) ::syscall(SYS_exit, 0);
  gate.wait_while(0);
}

}  // namespace

extern "C" void stepping_at(const char* name, const char* file, int line) {
  if (first_call != kNotAsked) first_call_at(name);
  Visitor* self = visiting;
  if (self == nullptr || !self->armed || !self->site->is_at(name, file, line)) return;
  if (self->skips > 0) {
    self->skips--;
    return;
  }
  stop_here(*self);
}

namespace {

// A second thread's part in the visitor's way: it frees blocks of the visitor's, and leaves it its own.
enum Errand : uint32_t { kNoErrand, kFree, kFill, kErrandDone };
Signpost errand;

void* life_of_a_partner(void* argument) {
  Paths& paths = *static_cast<Paths*>(argument);
  for (;;) {
    const uint32_t what = errand.get();
    if (what == kFree) paths.empty();
    if (what == kFill) paths.leave_some();
    if (what == kFree || what == kFill) errand.set(kErrandDone);
    else errand.wait_while(what);
  }
}

void ask_partner(Visitor& self, uint32_t what) {
  if (!self.armed) return;  // it has stopped; in the child of a fork there is no partner
  errand.set(what);
  errand.wait_while(what);
}

// The visitor's way through the library, until it has stopped; what is cheap comes first.
void visit_all_paths(Visitor& self) {
  self.paths->empty();  // what an ended thread left
  if (self.armed) self.paths->leave_some();
  ask_partner(self, kFree);
  if (self.armed) self.paths->run(Paths::kSmall);
  if (self.armed) self.paths->run(Paths::kPartial);
  ask_partner(self, kFill);
  if (self.armed) self.paths->empty();
  for (size_t round = 0; round < 2; round++)
    for (size_t leg = 0; leg < Paths::kBulk && self.armed; leg++) self.paths->run(leg);
  if (self.armed && freeway::test::on_flagship()) self.paths->run(Paths::kBulk);  // for the layers below the engines
  if (self.armed) self.paths->leave_some();
}

void* life_of_a_visitor(void* argument) {
  Visitor& self = *static_cast<Visitor*>(argument);
  visiting = &self;
  self.armed = true;
  self.program(self);
  if (in_child) {
    visiting = nullptr;
    self.paths->verify("a block is damaged in the child of a fork at a step");
    self.paths->empty();
    require_clean_audit("audit in the child of a fork at a step");
    ::_exit(0);
  }
  return nullptr;  // armed, if it has not stopped: the thread's end is a slow path, too
}

// Stacks that are had also where large mappings are refused.
void start_thread(pthread_t* thread, void* (*life)(void*), void* argument) {
  pthread_attr_t attributes;
  ::pthread_attr_init(&attributes);
  ::pthread_attr_setstacksize(&attributes, 256 << 10);
  const int error = ::pthread_create(thread, &attributes, life, argument);
  require(error == 0, "no thread", error);
}

// Starts the visitor and waits until it has stopped; false: it has ended.
bool stops(Visitor& visitor, bool keep_the_cpu = false) {
  visitor.state.set(kWorking);
  start_thread(&visitor.thread, life_of_a_visitor, &visitor);
  while (visitor.state.get() == kWorking) {
    if (::pthread_tryjoin_np(visitor.thread, nullptr) == 0) return false;
    const timespec pause{0, 200'000};
    if (!keep_the_cpu) ::nanosleep(&pause, nullptr);
  }
  return true;
}

void* life_of_another(void* argument) {
  go_beside_others(*static_cast<Paths*>(argument));
  return nullptr;
}

// Ends before the visitor begins, which may inherit from it.
void* life_of_one_before(void* argument) {
  static_cast<Paths*>(argument)->leave_some();
  return nullptr;
}

Paths paths_of_others[kOthers];

// Others begin, and end, beside what is stopped.
void let_others_work(uint64_t seed) {
  pthread_t threads[kOthers];
  for (size_t i = 0; i < kOthers; i++) {
    paths_of_others[i].begin(seed + i);
    start_thread(&threads[i], life_of_another, &paths_of_others[i]);
  }
  for (const pthread_t thread : threads) ::pthread_join(thread, nullptr);
}

// --- What the visitor finds. -----------------------------------------------------------------------------------------

// kDrained: somebody is stopped who has every CPU's slab in hand. kLeftBehind: he was, in the process that this one was
// forked from. kCramped: others have all slabs that one may claim instead. kOwned: without rseq, others are in all
// slabs that threads own. kFirst: the process's first call.
enum Surroundings {
  kPlain,
  kFirst,
  kDrained,
  kLeftBehind,
  kCramped,
  kOwned,
  kNoMembarrier,
  kNoMunmap,
  kNoMmap,
  kSurroundings
};

// A system call that is refused from now on: membarrier, so that other CPUs' slabs cannot be taken out; munmap of 64
// MiB and more, as at the kernel's limit of mappings; mmap of 1 MiB and more, so that large blocks are runs of frames.
// Not refused are pieces of arenas and metadata: addresses at most 3 TiB above the heap's first (src/os/window.h).
void refuse(long call, uint32_t from_bytes, uint32_t error) {
  void* const block = ::malloc(100);
  const auto base = static_cast<uint32_t>(reinterpret_cast<uintptr_t>(block) >> 32);
  ::free(block);
  sock_filter code[] = {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
                        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, static_cast<uint32_t>(call), 0, 6),
                        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, args[1])),
                        BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, from_bytes, 0, 4),
                        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, args[0]) + 4),
                        BPF_STMT(BPF_ALU | BPF_SUB | BPF_K, base),
                        BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, 3 << 8, 0, 1),
                        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | error),
                        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
  const sock_fprog program = {std::size(code), code};
  if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0)
    ::_exit(kNotReached);
}

void use_a_slab(Visitor& self) { self.paths->run(Paths::kSmall); }
// What is taken out is the slab of the number that the thread has, too, which nobody may have had before.
void use_a_slab_and_trim(Visitor& self) {
  use_a_slab(self);
  trim_heap();
}

constexpr size_t kMostKeepers = 600;
Visitor keepers[kMostKeepers];
size_t keepers_parked = 0;

// Parks as many threads at the place called `name` as stop there.
void park_keepers(const std::vector<Site>& sites, const char* name, void (*program)(Visitor&)) {
  static Paths paths[kMostKeepers];  // later all of them go on at once
  for (const Site& site : sites)
    for (unsigned in_vain = 0; site.name == name && in_vain < 4 && keepers_parked < kMostKeepers;) {
      Visitor& keeper = keepers[keepers_parked];
      keeper.site = &site;
      keeper.program = program;
      keeper.paths = &paths[keepers_parked];
      keeper.paths->begin(5);
      stops(keeper) ? keepers_parked++ : in_vain++;
    }
}

// --- One stop, in a process of its own. ------------------------------------------------------------------------------

struct Plan {
  const Site* site;
  Way way;
  Surroundings surroundings;
  unsigned skips;
  uint64_t seed;
};

struct Counts {
  std::atomic<uint64_t> stops{0}, others{0}, superblocks_lost{0}, frames_stranded{0}, bytes_held{0};
};
Counts* counts;

void most(std::atomic<uint64_t>& figure, uint64_t seen) {
  for (uint64_t old = figure.load(); old < seen && !figure.compare_exchange_weak(old, seen);) continue;
}

[[noreturn]] void stop_one_thread(const Plan& plan, const std::vector<Site>& sites) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  failure_context = plan.site->name.c_str();
  static Paths paths;
  static Visitor visitor;
  paths.begin(plan.seed);
  for (Paths& each : paths_of_others) each.begin(plan.seed);
  visitor.site = plan.site;
  visitor.way = plan.way;
  visitor.program = visit_all_paths;
  visitor.skips = plan.skips;
  visitor.paths = &paths;
  const freeway_audit_t before = require_clean_audit("audit before a thread was stopped");
  if (plan.surroundings == kNoMembarrier) refuse(SYS_membarrier, 0, EPERM);
  if (plan.surroundings == kNoMunmap) refuse(SYS_munmap, 64 << 20, ENOMEM);
  if (plan.surroundings == kNoMmap) refuse(SYS_mmap, 1 << 20, ENOMEM);
  if (plan.surroundings == kDrained || plan.surroundings == kLeftBehind || plan.surroundings == kCramped)
    park_keepers(sites, "drain.taken_out", use_a_slab_and_trim);
  if (plan.surroundings == kOwned || plan.surroundings == kCramped) park_keepers(sites, "spare.entered", use_a_slab);
  if (plan.surroundings == kCramped) park_keepers(sites, "spare.claimed", use_a_slab);
  if (plan.surroundings == kLeftBehind) {
    const pid_t child = ::fork();
    if (child != 0) {
      const int status = wait_for(child);
      ::_exit(WIFEXITED(status) ? WEXITSTATUS(status) : 1);
    }
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    keepers_parked = 0;
    ::free(::malloc(64));  // the first to claim something in this process is the thread that it began with
  }
  pthread_t earlier, partner;
  start_thread(&earlier, life_of_one_before, &paths);
  ::pthread_join(earlier, nullptr);
  start_thread(&partner, life_of_a_partner, &paths);
  // Left behind: keeps its CPU's number, so that the visitor has another.
  if (!stops(visitor, plan.surroundings == kLeftBehind)) ::_exit(kNotReached);

  let_others_work(plan.seed);
  if (freeway::test::on_engine("streamflow")) audit_errors_tolerated = 1;
  const freeway_audit_t beside = require_clean_audit("audit beside a stopped thread");
  if (keepers_parked == 0 && plan.surroundings != kLeftBehind && plan.way != kForked) {
    const size_t in_hand = paths.in_hand();
    require(superblocks_lost(beside) <= superblocks_lost(before) + 1, "one thread has several superblocks in hand",
            superblocks_lost(beside), superblocks_lost(before));
    require(beside.frames_stranded * kFrameBytes <= in_hand + kLargestSpan, "one thread has more frames in hand",
            beside.frames_stranded, in_hand);
    require(beside.superblocks_adrift <= 1, "one thread was listing several superblocks", beside.superblocks_adrift);
    require(beside.slabs_held <= 1, "one thread has several slabs in hand", beside.slabs_held);
    require(beside.bytes_held <= kMostHeld, "one thread has more free blocks in hand than promised", beside.bytes_held);
    counts->superblocks_lost.fetch_add(superblocks_lost(beside));
    counts->frames_stranded.fetch_add(beside.frames_stranded);
    most(counts->bytes_held, beside.bytes_held);
  }
  gate.set(1);
  ::pthread_join(visitor.thread, nullptr);
  for (size_t i = 0; i < keepers_parked; i++) ::pthread_join(keepers[i].thread, nullptr);
  paths.verify("a block of the stopped thread is damaged");
  paths.empty();
  let_others_work(plan.seed + 7);
  if (plan.way != kGone) {
    audit_errors_tolerated = 0;
    const freeway_audit_t after = require_clean_audit("audit after a stopped thread went on");
    require_nothing_lost(after);
  }
  counts->stops.fetch_add(1);
  counts->others.fetch_add(legs_of_others);
  ::_exit(0);
}

// In main, after a first call that was stopped for a while.
void go_on_after_first_call() {
  if (!first_call_stopped) use_the_heap_early();  // what came before main was perhaps a large block only
  if (!first_call_stopped) ::_exit(kNotReached);
  Paths::lift_memory_limit();
  let_others_work(1);
  const freeway_audit_t audit = require_clean_audit("audit after a stopped first call");
  require_nothing_lost(audit);
}

[[noreturn]] void stop_a_first_call(const Plan& plan) {
  const std::string where = plan.site->name + (plan.way == kGone ? ":1" : ":0");
  ::setenv("FREEWAY_TEST_FIRST", where.c_str(), 1);
  ::execl("/proc/self/exe", "first", nullptr);
  fail("exec");
}

bool stops_there(const Plan& plan, const std::vector<Site>& sites) {
  if (!freeway::test::on_flagship() && plan.surroundings >= kDrained && plan.surroundings <= kNoMembarrier)
    return false;
  if (plan.surroundings == kOwned && rseq_mode()) return false;
  const pid_t child = ::fork();
  if (child == 0 && plan.surroundings == kFirst) stop_a_first_call(plan);
  if (child == 0) stop_one_thread(plan, sites);
  require(child > 0, "no process");
  const int status = wait_for(child);
  if (WIFEXITED(status) && WEXITSTATUS(status) == kNotReached) return false;
  if (status != 0)
    std::fprintf(stderr, "at %s (src/%s:%d), surroundings %d, seed %llu\n", plan.site->name.c_str(),
                 plan.site->file.c_str(), plan.site->line, plan.surroundings,
                 static_cast<unsigned long long>(plan.seed));
  require(status == 0, "a thread was stopped at a step, and something failed", static_cast<unsigned>(status));
  if (plan.surroundings == kFirst) counts->stops.fetch_add(1);
  return true;
}

void stop_everywhere(const Options& options, Way way, const char* subject) {
  require(confine_heap(kArena, kSegment), "nothing could be put in the way of the heap");
  std::vector<Site> sites = sites_of_this_library();
  std::erase_if(sites, belongs_to_another_form);
  const std::vector<Site> all = sites;
  if (const char* only = std::getenv("FREEWAY_TEST_STEP"))  // for a debugger
    std::erase_if(sites, [only](const Site& site) { return site.name != only; });
  std::vector<Surroundings> known(sites.size(), kPlain);
  counts = share<Counts>();
  Random random(options.seed);
  Deadline deadline(options.seconds);
  size_t missing = 0, rounds = 0;
  do {
    for (size_t i = 0; i < sites.size(); i++) {
      bool stopped = false;
      // Where the thread does not come past so often, or only in other surroundings, it is tried again.
      const unsigned skips = rounds == 0 ? 0 : static_cast<unsigned>(random.below(12));
      if (skips > 0) stopped = stops_there({&sites[i], way, known[i], skips, random.next()}, all);
      for (int attempt = 0; attempt < 8 * kSurroundings && !stopped; attempt++) {
        stopped = stops_there({&sites[i], way, known[i], 0, random.next()}, all);
        if (!stopped) known[i] = static_cast<Surroundings>((known[i] + 1) % kSurroundings);
      }
      if (stopped) continue;
      missing++;
      std::fprintf(stderr, "no thread comes past %s (src/%s:%d)\n", sites[i].name.c_str(), sites[i].file.c_str(),
                   sites[i].line);
    }
    rounds++;
  } while (!deadline.passed() && missing == 0);
  if (missing > 0) ::_exit(1);
  using freeway::test::proof;
  proof("stops and kills", subject, "places", sites.size());
  proof("stops and kills", subject, "stops", counts->stops);
  proof("stops and kills", subject, "paths gone by others", counts->others);
  proof("stops and kills", subject, "audits", counts->stops * 3);
  Line()
      .count(counts->superblocks_lost, "superblocks in the hands of stopped threads")
      .count(counts->frames_stranded, "frames")
      .count(counts->bytes_held >> 10, "KiB of free blocks in one's hands at most")
      .write_to(1);
}

void parked_at_every_step(const Options& options) { stop_everywhere(options, kParked, "parked at every step"); }
void gone_at_every_step(const Options& options) { stop_everywhere(options, kGone, "ended at every step"); }
void forked_at_every_step(const Options& options) { stop_everywhere(options, kForked, "forked at every step"); }

}  // namespace

int main(int argc, char** argv) {
  if (std::getenv("FREEWAY_TEST_FIRST") != nullptr) return go_on_after_first_call(), 0;
  return run_cases(argc, argv,
                   {{"parked_at_every_step", parked_at_every_step},
                    {"gone_at_every_step", gone_at_every_step},
                    {"forked_at_every_step", forked_at_every_step}});
}
