// SPDX-License-Identifier: MIT
//
// A thread that stops at every instruction of the allocator that the drills execute, one after the other: it is parked
// there, by a handler that sleeps, until this thread has gone through many drills; or it ends there for good. Whatever
// the stopped thread has in hand, the other must get and give back everything that it asks for.
#include <pthread.h>
#include <sched.h>

#include <csignal>
#include <cstdio>

#include "tests/whole/signal/support/case_runner.h"
#include "tests/whole/signal/support/drills.h"
#include "tests/whole/signal/support/heap_account.h"
#include "tests/whole/signal/support/instruction_tour.h"
#include "tests/whole/signal/support/loss_account.h"
#include "tests/whole/signal/support/steady_state.h"
#include "tests/whole/stall/signpost.h"

#if !defined(__x86_64__)
int main() { return freeway_test::kSkipStatus; }
#else

namespace {
using namespace freeway_test;

InstructionTour tour;
Drills* drills;         // of the thread that stops
Drills* others_drills;  // of this thread, which goes on

enum Errand : uint32_t { kIdle, kRun, kQuit };
enum State : uint32_t { kWorking, kDone, kStopped };
Signpost errand;  // what the other thread is to do
Signpost state;   // what it does
Signpost gate;    // 0: a parked thread stays
std::atomic<size_t> next_drill{0};
pthread_t other;

void* run_errands(void*) {
  for (;;) {
    errand.wait_while(kIdle);
    const uint32_t what = errand.get();
    errand.set(kIdle);
    if (what == kQuit) return nullptr;
    drills->run(next_drill.load());
    state.set(kDone);
  }
}

void start_other() {
  errand.set(kIdle);
  require(::pthread_create(&other, nullptr, run_errands, nullptr) == 0, "no thread");
}

void stop_other() {
  errand.set(kQuit);
  ::pthread_join(other, nullptr);
}

uint32_t let_other_run(size_t drill) {
  next_drill.store(drill);
  state.set(kWorking);
  errand.set(kRun);
  state.wait_while(kWorking);
  return state.get();
}

// The expensive ones each in its turn.
void run_many_drills() {
  static size_t turn = 0;
  for (size_t drill = 0; drill <= Drills::kGrowing; drill++) others_drills->run(drill);
  others_drills->run(Drills::kGrowing + 1 + turn++ % (Drills::kCount - Drills::kGrowing - 1));
  others_drills->verify_all("a block is damaged beside a stopped thread");
}

void prepare(const Options& options, InstructionTour::Action action) {
  static Drills own(options.seed), others(options.seed + 1);
  drills = &own;
  others_drills = &others;
  tour.prepare(options.seed, action);
}

void parked_at_every_instruction(const Options& options) {
  prepare(options, [](bool) {
    Drills::lift_memory_limit();
    state.set(kStopped);
    gate.wait_while(0);
  });
  start_other();
  const auto visit = [&](size_t drill) {
    gate.set(0);
    if (let_other_run(drill) == kDone) return false;
    run_many_drills();
    state.set(kWorking);
    gate.set(1);
    state.wait_while(kWorking);
    drills->verify_all("a block of the stopped thread is damaged");
    require_clean_audit("audit after a stopped thread went on");
    return true;
  };
  tour.travel("threads parked", Deadline(options.seconds), visit, start_other, stop_other);
  stop_other();
  drills->empty();
  others_drills->empty();
  const freeway_audit_t audit = require_clean_audit("audit after stops at every instruction");
  require(superblocks_lost(audit) == 0 && audit.frames_stranded == 0, "memory was lost though every call came back",
          superblocks_lost(audit), audit.frames_stranded);
}

void gone_at_every_instruction(const Options& options) {
  prepare(options, [](bool) {
    if (inside_allocator == 0) return;
    Drills::lift_memory_limit();
    inside_allocator = 0;
    state.set(kStopped);
    ::syscall(SYS_exit, 0);
  });
  static LossOfEach loss;
  loss.start();
  const auto visit = [](size_t drill) {
    if (let_other_run(drill) == kDone) return false;
    ::pthread_join(other, nullptr);
    loss.check(drills->in_hand(), drills->superblocks_in_hand());
    drills->clear_in_hand();
    run_many_drills();
    start_other();
    return true;
  };
  tour.travel_in_children("threads ended", Deadline(options.seconds), start_other, visit, [] {
    stop_other();
    drills->empty();
    others_drills->empty();
    require_clean_audit("audit after threads went");
    require_steady_state(1);
  });
  loss.write("threads went");
}

}  // namespace

int main(int argc, char** argv) {
  return run_cases(argc, argv,
                   {{"parked_at_every_instruction", parked_at_every_instruction},
                    {"gone_at_every_instruction", gone_at_every_instruction}});
}
#endif
