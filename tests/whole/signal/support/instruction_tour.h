// SPDX-License-Identifier: MIT
//
// InstructionTour: interrupts every instruction of the allocator that each function executes in the drills. A stop is a
// function of the interface and an instruction. Each visit runs a drill with an int3 on a random part of the stops that
// were not visited yet, or on all of them, while the program is in the stop's function; the first one that the program
// runs into is visited: the int3s go, and what the test wants happens there. The tour is over when no drill runs into
// any. x86-64 only.
//
// Order     random, so that a run that ends early by its time limit is a fair sample
// Parts     FREEWAY_TOUR_ONLY=x: only symbols with x in their names. FREEWAY_TOUR_ONCE=1: each instruction once, in
//           whichever function gets there first: a quarter of the time, and lists what is not reached
// Sections  the kernel hides which instruction of a restartable section was interrupted: one int3 in each at a time
// Who       one thread is interrupted at a time, and the int3s stand only while it runs a drill
#ifndef FREEWAY_TESTS_SIGNAL_SUPPORT_INSTRUCTION_TOUR_H
#define FREEWAY_TESTS_SIGNAL_SUPPORT_INSTRUCTION_TOUR_H
#if defined(__x86_64__)

#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <vector>

#include "tests/whole/signal/support/case_runner.h"
#include "tests/whole/signal/support/drills.h"
#include "tests/whole/signal/support/library_text.h"
#include "tests/whole/signal/support/shared_memory.h"
#include "tests/whole/signal/support/tour_report.h"

namespace freeway_test {

class InstructionTour {
 public:
  // What happens at an instruction, in the signal handler; `aborted`: it was in a restartable section.
  using Action = void (*)(bool aborted);

  // The heap is warm then: what only the first call executes is first_call_test's.
  void prepare(uint64_t seed, Action action, int flags = 0) {
    require(freeway_is_malloc() || ::getenv("FREEWAY_TEST_ANY_MALLOC") != nullptr, "malloc is not Freeway here");
    text_.load();
    report_.prepare(text_);
    visited_ = share_array<std::atomic<bool>>(kCallCount * text_.instructions.size());
    progress_ = share<std::atomic<size_t>>();
    const auto* start = reinterpret_cast<const unsigned char*>(text_.begin);
    original_.assign(start, start + (text_.end - text_.begin));
    for (std::vector<unsigned char>& planted : planted_) planted = original_;
    section_of_.assign(text_.instructions.size(), kNoSection);
    for (size_t s = 0; s < text_.sections.size(); s++)
      for (size_t i = 0; i < text_.instructions.size(); i++)
        if (text_.sections[s].contains(text_.instructions[i].address)) section_of_[i] = s;
    with_sections_ = rseq_mode();
    random_ = Random(seed);
    action_ = action;
    Drills drills(seed);
    for (int round = 0; round < 3; round++)
      for (size_t drill = 0; drill < Drills::kCount; drill++) drills.run(drill);
    drills.empty();
    install(flags);
  }

  // Again and again calls `visit(drill)`, which runs that drill and says whether it was interrupted. Rare drills are
  // each run in a forked child, in which `begin()` and `finish()` are called before and after. Ends when every stop
  // that the drills get to was visited, or with the time.
  template <class Visit, class Begin, class Finish>
  void travel(const char* what_happens, const Deadline& deadline, Visit visit, Begin begin, Finish finish) {
    watch_calls();
    const Deadline part(most_of(deadline));
    Round round(Drills::kCount, kMisses, random_);
    while (!round.over() && !done(part)) {
      const size_t drill = round.next();
      round.note(drill, visit_once(drill, visit));
    }
    const bool all_rare = visit_rare(deadline, begin, visit, finish);
    finish_tour(what_happens, round.over() && all_rare);
  }
  template <class Visit> void travel(const char* what_happens, const Deadline& deadline, Visit visit) {
    travel(what_happens, deadline, visit, [] {}, [] {});
  }

  // The same where each visit does damage that adds up: a few visits in each of many forked children, all of which
  // begin with the heap as it is now.
  template <class Begin, class Visit, class Finish>
  void travel_in_children(const char* what_happens, const Deadline& deadline, Begin begin, Visit visit, Finish finish) {
    constexpr size_t kVisitsOfAChild = 16;
    watch_calls();
    // Shared with the children: which drills still find something.
    Round& round = *new (share<Round>()) Round(Drills::kCount, kMisses, random_);
    const Deadline part(most_of(deadline));
    while (!round.over() && !done(part))
      in_child(begin, finish, [&] {
        random_ = Random(round.seed());
        for (size_t i = 0; i < kVisitsOfAChild && !round.over() && !done(part); i++) {
          const size_t drill = round.next();
          round.note(drill, visit_once(drill, visit));
        }
      });
    const bool all_rare = visit_rare(deadline, begin, visit, finish);
    finish_tour(what_happens, round.over() && all_rare);
  }

 private:
  static constexpr size_t kNoSection = ~size_t{0};
  static constexpr size_t kMisses = 12, kMissesOfRare = 4;
  static constexpr unsigned char kInt3 = 0xcc;

  // Which drills still run into something new: each in its turn; one that has not several times running is asked no
  // more.
  class Round {
   public:
    Round() = default;
    // `misses`: so many in a row, and a drill is through.
    Round(size_t drills, size_t misses, Random& random) : drills_(drills), most_(misses), random_(random.next()) {}
    bool over() const { return retired_ == drills_; }
    size_t next() {
      do turn_ = (turn_ + 1) % drills_;
      while (misses_[turn_] == most_);
      return turn_;
    }
    void note(size_t drill, bool hit) {
      if (hit) misses_[drill] = 0;
      else if (++misses_[drill] == most_) retired_++;
    }
    uint64_t seed() { return random_.next(); }

   private:
    size_t drills_ = 0, most_ = 0, turn_ = 0, retired_ = 0;
    Random random_{0};
    size_t misses_[32] = {};
  };

  // The time before it is the rare drills' turn.
  static double most_of(const Deadline& deadline) {
    return deadline.seconds_left() * (Drills::count_with_rare() == Drills::kRare ? 1 : 0.7);
  }
  // Enough for a short run to say something.
  bool done(const Deadline& deadline) const { return deadline.passed() && progress_->load() >= 50; }

  template <class Begin, class Finish, class F> static void in_child(Begin begin, Finish finish, F f) {
    const pid_t child = ::fork();
    if (child == 0) {
      begin();
      f();
      failure_context = nullptr;
      finish();
      ::_exit(0);
    }
    require_child_success(child, "a child failed on its tour");
  }

  template <class Begin, class Visit, class Finish>
  bool visit_rare(const Deadline& deadline, Begin begin, Visit visit, Finish finish) {
    if (Drills::count_with_rare() == Drills::kRare) return true;
    RareDrills::age();
    Round& round = *new (share<Round>()) Round(Drills::count_with_rare() - Drills::kRare, kMissesOfRare, random_);
    while (!round.over() && !done(deadline))
      in_child(begin, finish, [&] {
        random_ = Random(round.seed());
        const size_t drill = round.next();
        round.note(drill, visit_once(Drills::kRare + drill, visit));
      });
    return round.over();
  }

  // A random part of the stops first; then all.
  template <class Visit> bool visit_once(size_t drill, Visit& visit) {
    if (const uint64_t fewer = 1 + 3 * random_.below(4); fewer > 1 && !Drills::is_rare(drill))
      if (visit_with(drill, uint64_t{1} << fewer, visit)) return true;
    return visit_with(drill, Drills::is_rare(drill) && random_.one_in(2) ? 64 : 1, visit);
  }

  // With an int3 on one stop of `of`.
  template <class Visit> bool visit_with(size_t drill, uint64_t of, Visit& visit) {
    chosen_of_ = of;
    for (bool& chosen : is_chosen_) chosen = false;
    armed_ = true;
    const bool hit = visit(drill);
    armed_ = false;
    take_away();
    failure_context = nullptr;
    return hit;
  }

  // --- The int3s. ---------------------------------------------------------------------------------------------------

  void watch_calls() {
    active_ = this;
    call_observer.entered = [](Call call) {
      if (active_->armed_) active_->plant(call);
    };
  }

  // The text for this call of this visit. It stays until the program is in another function.
  void plant(Call call) {
    const size_t c = static_cast<size_t>(call);
    if (c == standing_) return;
    if (call == Call::kUnnamed) return take_away();
    if (!is_chosen_[c]) choose(c);
    std::memcpy(reinterpret_cast<void*>(text_.begin), planted_[c].data(), planted_[c].size());
    standing_ = c;
  }
  void take_away() {
    if (standing_ == 0) return;
    std::memcpy(reinterpret_cast<void*>(text_.begin), original_.data(), original_.size());
    standing_ = 0;
  }

  void choose(size_t call) {
    is_chosen_[call] = true;
    std::vector<unsigned char>& planted = planted_[call];
    std::memcpy(planted.data(), original_.data(), original_.size());
    const std::atomic<bool>* visited = visited_ + call * text_.instructions.size();
    size_t open_section = kNoSection;
    for (size_t i = 0; i < text_.instructions.size(); i++) {
      if (visited[i].load(std::memory_order_relaxed) || !report_.is_wanted(i)) continue;
      if (once_ && visited_[i].load(std::memory_order_relaxed)) continue;
      if (chosen_of_ != 1 && !random_.one_in(chosen_of_)) continue;
      if (section_of_[i] != kNoSection) {
        if (section_of_[i] == open_section) continue;
        open_section = section_of_[i];
      }
      planted[text_.instructions[i].address - text_.begin] = kInt3;
    }
  }

  size_t index_of(uintptr_t address) const {
    const auto found = std::lower_bound(text_.instructions.begin(), text_.instructions.end(), address,
                                        [](const Instruction& i, uintptr_t a) { return i.address < a; });
    require(found != text_.instructions.end() && found->address == address, "a trap at no instruction", address);
    return static_cast<size_t>(found - text_.instructions.begin());
  }

  // Where the program was, when the kernel has sent it to the section's abort address.
  size_t planted_in(const RestartableSection& section) const {
    for (size_t i = index_of(section.start); text_.instructions[i].address < section.post_commit; i++)
      if (planted_[standing_][text_.instructions[i].address - text_.begin] == kInt3 &&
          original_[text_.instructions[i].address - text_.begin] != kInt3)
        return i;
    fail("an abort address, but no breakpoint in its section", section.start, section.abort);
  }

  void on_trap(ucontext_t* context) {
    const int saved_errno = errno;
    greg_t& ip = context->uc_mcontext.gregs[REG_RIP];
    const uintptr_t arrived = static_cast<uintptr_t>(ip);
    require(standing_ != 0 && armed_, "a trap without a breakpoint", arrived, standing_);
    size_t index = kNoSection;
    for (const RestartableSection& section : text_.sections)
      if (section.abort == arrived) index = planted_in(section);
    const bool aborted = index != kNoSection;
    if (!aborted) {
      index = index_of(arrived - 1);
      // Where sections are not in use the thread runs into one and leaves it at once.
      require(section_of_[index] == kNoSection || !with_sections_,
              "interrupted in a section, but not sent to its abort address", arrived);
      ip = static_cast<greg_t>(arrived - 1);
    }
    visited_[index] = true;  // of kUnnamed: by whichever call
    visited_[standing_ * text_.instructions.size() + index] = true;
    progress_->fetch_add(1);
    armed_ = false;
    take_away();
    failure_context = text_.function_of(text_.instructions[index]).c_str();
    failure_offset = text_.instructions[index].address - report_.start_of_function(index);
    action_(aborted);
    errno = saved_errno;
  }

  void install(int flags) {
    const uintptr_t page = static_cast<uintptr_t>(::sysconf(_SC_PAGESIZE));
    const uintptr_t low = text_.begin & ~(page - 1);
    const uintptr_t high = (text_.end + page - 1) & ~(page - 1);
    if (::mprotect(reinterpret_cast<void*>(low), high - low, PROT_READ | PROT_WRITE | PROT_EXEC) != 0)
      skip("text cannot be made writable here");
    struct sigaction action = {};
    action.sa_sigaction = [](int, siginfo_t*, void* context) { active_->on_trap(static_cast<ucontext_t*>(context)); };
    action.sa_flags = SA_SIGINFO | flags;
    ::sigaction(SIGTRAP, &action, nullptr);
  }

  void finish_tour(const char* what_happens, bool complete) {
    call_observer = {};
    report_.write(visited_, what_happens, complete || once_);
    require(progress_->load() >= (report_.is_partial() ? 1u : 50u), "hardly anything could be interrupted",
            progress_->load());
  }

  static inline InstructionTour* active_ = nullptr;
  LibraryText text_;
  TourReport report_;
  Action action_ = nullptr;
  Random random_{0};
  std::atomic<bool>* visited_ = nullptr;            // [call][instruction]; shared with forked children
  std::atomic<size_t>* progress_ = nullptr;         // interruptions so far; shared likewise
  std::vector<size_t> section_of_;                  // [instruction]
  std::vector<unsigned char> original_;             // the text
  std::vector<unsigned char> planted_[kCallCount];  // [call]: the text with the int3s of this visit, if chosen
  bool is_chosen_[kCallCount] = {};
  uint64_t chosen_of_ = 1;
  bool with_sections_ = false;
  const bool once_ = ::getenv("FREEWAY_TOUR_ONCE") != nullptr;
  std::atomic<bool> armed_{false};
  volatile size_t standing_ = 0;  // the call whose int3s are in the text; 0: none
};

}  // namespace freeway_test
#endif  // __x86_64__
#endif
