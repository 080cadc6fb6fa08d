// SPDX-License-Identifier: MIT
//
// InstructionTour: visits every instruction of the allocator that the drills execute. A survey first runs each drill
// once with an int3 on every instruction, to learn which drill gets where; the tour then plants one breakpoint at a
// time and runs a drill that comes by. x86-64 only.
//
// The tour follows a random order, so that a run that ends early by its time limit is a fair sample.
#ifndef FREEWAY_TESTS_SIGNAL_SUPPORT_INSTRUCTION_TOUR_H
#define FREEWAY_TESTS_SIGNAL_SUPPORT_INSTRUCTION_TOUR_H
#if defined(__x86_64__)

#include <algorithm>
#include <vector>

#include "signal/support/breakpoint.h"
#include "signal/support/case_runner.h"
#include "signal/support/drills.h"
#include "signal/support/shared_memory.h"

namespace freeway_test {

struct Stop {
  const Instruction* instruction;
  size_t drill;  // one that executes it
};

class InstructionTour {
 public:
  LibraryText text;
  Breakpoint breakpoint;
  std::vector<Stop> stops;

  // Finds the stops. Run on a warm heap, it does not see what only a cold one executes.
  void prepare(uint64_t seed, Breakpoint::Action action, int flags = 0) {
    require(freeway_is_malloc() || ::getenv("FREEWAY_TEST_ANY_MALLOC") != nullptr, "malloc is not Freeway here");
    progress_ = share<Progress>();
    text.load();
    breakpoint.install(text, action, flags);  // makes the text writable
    Drills drills(seed);
    for (int round = 0; round < 3; round++)
      for (size_t drill = 0; drill < Drills::kCount; drill++) drills.run(drill);
    survey(drills);
    drills.empty();
    breakpoint.install(text, action, flags);
    Random random(seed);
    for (size_t i = stops.size(); i > 1; i--) std::swap(stops[i - 1], stops[random.below(i)]);
  }

  // Plants a breakpoint at each stop in turn and calls `visit(drill)`, which runs that drill and says whether the
  // breakpoint was hit; if the stop's own drill misses it, all others are tried. Ends with the list or with the time;
  // fails if most stops were missed.
  template <class Visit>
  void travel(const Deadline& deadline, Visit visit) {
    for (size_t i = 0; i < stops.size() && !done(deadline); i++) visit_stop(stops[i], visit);
    print_totals();
  }

  // The same where each visit does damage that adds up: a few stops in each of many forked children, all of which begin
  // with the heap as it is now. `begin()` and `finish()` are called in the child before and after its stops.
  template <class Begin, class Visit, class Finish>
  void travel_in_children(const Deadline& deadline, Begin begin, Visit visit, Finish finish) {
    constexpr size_t kStopsOfAChild = 16;
    for (size_t from = 0; from < stops.size() && !done(deadline); from += kStopsOfAChild) {
      const pid_t child = ::fork();
      if (child == 0) {
        begin();
        for (size_t i = from; i < std::min(from + kStopsOfAChild, stops.size()); i++) visit_stop(stops[i], visit);
        failure_context = nullptr;
        finish();
        ::_exit(0);
      }
      require_child_success(child, "a child failed on its tour");
    }
    print_totals();
  }

 private:
  // Shared with forked children.
  struct Progress {
    std::atomic<size_t> visited{0}, hit{0};
  };

  bool done(const Deadline& deadline) const { return deadline.passed() && progress_->visited.load() >= 50; }

  template <class Visit>
  void visit_stop(const Stop& stop, Visit& visit) {
    progress_->visited.fetch_add(1);
    bool hit = visit_by(stop, stop.drill, visit) || visit_by(stop, stop.drill, visit);
    for (size_t drill = 0; drill < Drills::kCount && !hit; drill++) hit = visit_by(stop, drill, visit);
    if (hit) progress_->hit.fetch_add(1);
  }

  template <class Visit>
  bool visit_by(const Stop& stop, size_t drill, Visit& visit) {
    failure_context = text.function_of(*stop.instruction).c_str();
    failure_offset = stop.instruction->address - start_of_function(stop.instruction);
    breakpoint.plant(stop.instruction->address);
    const bool hit = visit(drill);
    breakpoint.clear();
    return hit;
  }

  void print_totals() {
    failure_context = nullptr;
    const size_t visited = progress_->visited.load(), hit = progress_->hit.load();
    Line()
        .count(text.instructions.size(), "instructions")
        .count(stops.size(), "executed by the drills")
        .count(visited, "visited")
        .count(hit, "interrupted")
        .write_to(1);
    require(hit * 2 > visited, "most instructions could not be interrupted", hit, visited);
  }

  uintptr_t start_of_function(const Instruction* instruction) const {
    while (instruction > text.instructions.data() && instruction[-1].function == instruction->function) instruction--;
    return instruction->address;
  }

  static volatile unsigned char* byte_at(uintptr_t address) {
    return reinterpret_cast<volatile unsigned char*>(address);
  }

  void put_back(size_t i) {
    *byte_at(text.instructions[i].address) = original_[i];
    executed_[i] = true;
  }

  // Inside a restartable section the kernel hides which instruction it was, and all of them are executed anyway.
  void on_survey_trap(ucontext_t* context) {
    greg_t& ip = context->uc_mcontext.gregs[REG_RIP];
    const uintptr_t arrived = static_cast<uintptr_t>(ip);
    for (const RestartableSection& section : text.sections)
      if (section.abort == arrived)
        for (size_t i = 0; i < text.instructions.size(); i++)
          if (section.contains(text.instructions[i].address)) put_back(i);
    if (text.is_abort_address(arrived)) return;
    const auto found = std::lower_bound(text.instructions.begin(), text.instructions.end(), arrived - 1,
                                        [](const Instruction& i, uintptr_t address) { return i.address < address; });
    require(found != text.instructions.end() && found->address == arrived - 1, "a trap at no instruction", arrived);
    put_back(static_cast<size_t>(found - text.instructions.begin()));
    ip = static_cast<greg_t>(arrived - 1);
  }

  void survey(Drills& drills) {
    surveying_ = this;
    struct sigaction action = {};
    action.sa_sigaction = [](int, siginfo_t*, void* context) {
      surveying_->on_survey_trap(static_cast<ucontext_t*>(context));
    };
    action.sa_flags = SA_SIGINFO;
    ::sigaction(SIGTRAP, &action, nullptr);
    const size_t count = text.instructions.size();
    original_.resize(count);
    executed_.resize(count);
    std::vector<bool> known(count);
    stops.reserve(count);
    for (size_t i = 0; i < count; i++) original_[i] = *byte_at(text.instructions[i].address);
    for (size_t drill = 0; drill < Drills::kCount; drill++) {
      std::fill(executed_.begin(), executed_.end(), 0);
      for (size_t i = 0; i < count; i++) *byte_at(text.instructions[i].address) = kInt3;
      for (int i = 0; i < 4; i++) drills.run(drill);
      for (size_t i = 0; i < count; i++) *byte_at(text.instructions[i].address) = original_[i];
      for (size_t i = 0; i < count; i++)
        if (executed_[i] && !known[i]) {
          known[i] = true;
          stops.push_back({&text.instructions[i], drill});
        }
    }
  }

  static constexpr unsigned char kInt3 = 0xcc;
  static inline InstructionTour* surveying_ = nullptr;
  Progress* progress_ = nullptr;
  std::vector<unsigned char> original_;
  std::vector<char> executed_;
};

}  // namespace freeway_test
#endif  // __x86_64__
#endif
