// SPDX-License-Identifier: MIT
// explorer.h: runs a small concurrent program in all its executions and reports the first that goes wrong.
//
// A program is a class: its constructor sets things up, `thread(id)` is run by kThreads model threads, `finish()`
// looks at the end state. Its shared words are ModelEnv's Atomic and Plain (model_env.h), so templates over Env run
// unchanged.
//
//     struct Program {
//       static constexpr int kThreads = 2;
//       ModelEnv::Atomic<u32> word;
//       void thread(int id) { word.fetch_add_relaxed(1); }
//       void finish() { model_check(word.load_relaxed() == 2, "both counted"); }
//     };
//     Result result = explore<Program>();
//     EXPECT_TRUE(result.ok()) << result.report();
//
// A class may also have `const char* stepped(int thread)`, which is asked after each write of a thread, and each plain
// field that went with it: null, or what is broken. It looks at words as they are then (their newest values). Of
// executions that differ in the order of independent steps only, one is seen, so some states are not.
//
// The program is built anew, in the same zeroed memory, for each execution; all it does must follow from the choices
// made here. Only atomic operations are choice points: (which thread, which of the values that it may read;
// memory.h). No destructor runs: no member may own heap memory.
//
// Reductions (docs in search.h): kDpor and kSleep see each distinguishable execution at least once, kFull all of them.
#pragma once

#include <cstdint>
#include <functional>
#include <new>
#include <set>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "tests/explorer/memory.h"

namespace freeway::model {

enum class Reduction { kFull, kSleep, kDpor };
enum class MemoryModel { kWeak, kSequential };  // kSequential: a load reads the newest value
enum class Part { kAcquire, kRelease };

// Takes the acquire or the release part away from the operations at one place of the code: a mutant.
struct Weakening {
  Site site;
  Part part;
};

// Keeps only the bits of `mask` in whatever is stored to locations whose name begins with `location`: a mutant
// (a stack without its tag, an anchor without a flag).
struct BitLoss {
  std::string location;
  std::uint64_t mask;
};

struct Options {
  Reduction reduction = Reduction::kDpor;
  MemoryModel memory = MemoryModel::kWeak;
  // Bounds; -1: none. A bounded search sees the executions with at most so many switches away from a thread that
  // could go on, and so many reads of values that are not the newest; it is made without reduction, which would not
  // keep that.
  int preemptions = -1;
  int stale_reads = -1;
  // This thread stops for ever after this many atomic operations.
  int stall_thread = -1;
  int stall_after = 0;
  // > 0: so many random executions instead of a search.
  std::uint64_t random_walks = 0;
  std::uint64_t seed = 1;
  // A thread that needs more atomic operations of its own is taken not to finish at all: a failure. That is the bound
  // in "every thread finishes in a bounded number of its own steps", whatever the others do or whoever has stopped.
  int max_steps = 1000;
  // How often a section is sent back to its start before it gets through (model_section).
  int restarts = 1;
  std::uint64_t max_executions = 0;  // 0: no limit; else Result::exhausted tells whether it was reached
  std::string replay = {};           // Result::choices of an earlier run: only that execution
  // Planted faults.
  std::vector<Weakening> weaken = {};
  std::string mutant = {};  // the name for which Env::mutant() says true
  std::vector<BitLoss> lose_bits = {};
};

struct Result {
  bool failed = false;
  bool exhausted = false;  // every execution within the bounds was covered
  std::string what;
  std::string choices;
  std::string trace;
  std::string bounds;
  std::uint64_t executions = 0;  // run to their end
  std::uint64_t pruned = 0;      // left because what remained was covered elsewhere
  std::uint64_t transitions = 0;
  int max_depth = 0;
  std::vector<int> max_operations;  // of each thread
  double seconds = 0;
  std::set<std::uint64_t> outcomes;  // what the program observed (model_observe)
  // Operations with an acquire or release part that were executed.
  std::vector<Weakening> order_sites;

  bool ok() const { return !failed; }
  std::string summary() const;
  std::string report() const;
  // Adds another search of the same program to this one.
  void absorb(const Result& other);
};

// A program without its type.
struct ProgramType {
  int threads;
  unsigned made_later;  // threads that wait for model_make_threads()
  std::size_t bytes;
  std::function<void(void*)> construct;
  void (*run)(void*, int);
  void (*finish)(void*);
  const char* (*stepped)(void*, int) = nullptr;
};

Result explore_program(const ProgramType& program, const Options& options);
// Without a stall, then once for each thread and each number of operations after which it can stop for ever.
Result explore_program_stalls(const ProgramType& program, const Options& options);

template <class Program, class... Args> ProgramType program_type(Args... args) {
  unsigned made_later = 0;
  if constexpr (requires { Program::kMadeLater; }) made_later = Program::kMadeLater;
  const char* (*stepped)(void*, int) = nullptr;
  if constexpr (requires(Program& program) { program.stepped(0); })
    stepped = [](void* program, int id) { return static_cast<Program*>(program)->stepped(id); };
  return {Program::kThreads,
          made_later,
          sizeof(Program),
          [args...](void* memory) { new (memory) Program(args...); },
          [](void* program, int id) { static_cast<Program*>(program)->thread(id); },
          [](void* program) { static_cast<Program*>(program)->finish(); },
          stepped};
}

template <class Program, class... Args> Result explore(const Options& options = {}, Args... args) {
  return explore_program(program_type<Program>(args...), options);
}

template <class Program, class... Args> Result explore_stalls(const Options& options = {}, Args... args) {
  return explore_program_stalls(program_type<Program>(args...), options);
}

// For programs --------------------------------------------------------------------------------------------------------

// Ends the execution as a failure if `condition` is false.
void model_check(bool condition, const char* what);
// Adds to what distinguishes this execution's outcome (finish() only).
void model_observe(std::uint64_t value);
// Any of 0 … alternatives - 1: all are explored.
int model_choose(int alternatives);
// What the running thread has done to plain fields since its latest operation, a releasing RMW, counts as part of that
// operation: whoever acquires from it sees it. For the end of a step that cannot be interrupted from within (a
// restartable section: an RMW on a word that stands for its CPU, plain accesses, this).
void model_end_of_step();
// The running thread; -1 in the constructor and finish().
int model_thread();
// The thread that was stopped for ever in this execution, -1: none.
int model_stalled();
// Restartable sections and forks ------------------------------------------------------------------------------------
//
// Programs with them are searched with Reduction::kSleep (or kFull): what one thread may do depends on which CPU others
// run on, and source sets know of words only.

// The running thread is on this CPU from its next operation on. -1, as at first: a CPU of its own.
void model_cpu(int cpu);
// Runs `f` as a restartable section: if another thread of the CPU runs, or somebody interrupts all sections, between
// f's first and last operation, f begins again (Options::restarts times at most; from then on the other threads of the
// CPU wait for its end). f's last operation is its committing one. f sees what was done in the CPU's earlier sections:
// a switch of threads is a full barrier.
template <class F> auto model_section(F&& f);
// membarrier(2): afterwards no thread is inside a section that began before, and everybody has seen what was done
// before.
void model_interrupt_sections();
// The running thread goes on as the only one of the child of a fork: the others stay behind. The child has memory as it
// is now (the kernel takes write access to all pages away and flushes what CPUs remember of it, so what each thread had
// written by then is there, and nothing after it). The wiped pages are the program's to wipe.
void model_fork();
// Starts the threads in the mask Program::kMadeLater, which do not run before.
void model_make_threads();

// Gives the shared words within [, object + bytes) a name in traces.
void model_name(const void* object, std::size_t bytes, const char* name, int index = -1);
template <class T> void model_name(const T& object, const char* name, int index = -1) {
  model_name(&object, sizeof(T), name, index);
}

struct Restart {};  // thrown by an operation of a section that was interrupted
void model_section_begin();
void model_section_end();

template <class F> auto model_section(F&& f) {
  for (;;) {
    model_section_begin();
    try {
      if constexpr (std::is_void_v<decltype(f())>) {
        f();
        return model_section_end();
      } else {
        auto result = f();
        model_section_end();
        return result;
      }
    } catch (const Restart&) {}
  }
}

}  // namespace freeway::model
