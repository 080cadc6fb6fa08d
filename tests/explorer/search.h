// SPDX-License-Identifier: MIT
// search.h: depth-first search over all executions, without repeating those that cannot be told apart.
//
// A transition is (thread, value read or place in the modification order). Two of them from different threads are
// *independent* if they touch different words, or none writes, or one reads an older value while the other writes:
// both orders lead to the same state (and neither runs on the other's
// CPU, forks, or interrupts sections: explorer.h). The search backtracks over transitions with *sleep sets* (a
// transition explored at a node needs no exploring below its siblings until something dependent happens) and, with
// kDpor, *source sets* (Abdulla, Aronsson, Jonsson, Sagonas: "Optimal dynamic partial order reduction", POPL 2014,
// Algorithm 1): at each node only one thread is taken at first, others when a reversible race asks for them.
//
// What reverses is wider than what is dependent, because an order can offer an outcome without forbidding the other:
//   read, then write         with the write first, the read may see it
//   write, then write        the other modification order
//   write, then failed CAS   with the CAS first, it may succeed
//   write, then load         nothing: each older value that the load could have seen is a choice of the load itself
// Under MemoryModel::kSequential reads and writes of one word are dependent both ways.
//
// That the reductions lose nothing is checked by tests/explorer/explorer_reduction_test.cc on random programs.
#pragma once

#include <array>
#include <vector>

#include "tests/explorer/execution.h"

namespace freeway::model {

class Search {
 public:
  Search(Execution& execution, const Options& options, Result& result)
      : execution_(execution), options_(options), result_(result) {}

  // Explores until all is covered, something fails, or the limit of executions is reached.
  void run();
  // The choices of the latest execution, as Options::replay takes them.
  std::string choices() const;

 private:
  // A transition as it was executed. `clock[t]`: how many of t's transitions it depends on, itself included.
  struct Event {
    int thread;
    int index;  // 1-based among the thread's own
    int location;
    bool wrote;
    bool failed_cas;
    Execution::Scope scope;
    std::array<std::int16_t, kMaxThreads> clock;

    bool after(const Event& other) const { return clock[static_cast<std::size_t>(other.thread)] >= other.index; }
  };
  struct Sleeper {
    int thread;
    Timestamp choice;
    int location;
    bool writes;
    Execution::Scope scope;
  };
  struct Node {
    int thread;                      // -1: none taken yet
    std::vector<Timestamp> choices;  // of `thread`
    std::size_t choice;
    bool usual;                    // the present choice need not be spelt out
    unsigned runnable;             // threads, as bit masks: that can go on,
    unsigned backtrack, done;      // to be explored here, and explored,
    unsigned awake;                // with an outcome that is not in `sleep`
    int previous;                  // thread of the node before, -1
    int preemptions, stale_reads;  // up to here
    std::vector<Sleeper> sleep;
    Event event;
  };

  bool run_once();
  bool backtrack();
  void open(int depth);
  bool ready(Node& node);
  unsigned candidates(const Node& node) const { return node.backtrack & node.awake & ~node.done; }
  bool asleep(const Node& node, int thread, Timestamp choice) const;
  void execute(int depth);
  void depend_on(Event& event, int earlier) const;
  void find_races(int depth, int last_write, const std::array<std::int16_t, kMaxThreads>& before);
  void reverse(int earlier, int later);
  bool dependent(const Sleeper& sleeper, const Event& event) const;
  bool sequential() const { return options_.memory == MemoryModel::kSequential; }

  Execution& execution_;
  const Options& options_;
  Result& result_;
  std::vector<Node> nodes_;
  int depth_ = 0;  // nodes in use
  std::array<int, kMaxThreads> last_event_{};
  std::vector<Timestamp> scratch_;
};

}  // namespace freeway::model
