// SPDX-License-Identifier: MIT
// explorer.cc: what can be done with a program: search it, walk it at random, replay one execution, stall each thread.
#include "tests/explorer/explorer.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <random>
#include <sstream>

#include "tests/explorer/execution.h"
#include "tests/explorer/search.h"

namespace freeway::model {

namespace {

std::string describe_bounds(const Options& options) {
  std::string text = options.memory == MemoryModel::kWeak ? "weak memory" : "sequentially consistent";
  if (options.random_walks != 0) return text + ", random walks, seed " + std::to_string(options.seed);
  if (options.preemptions >= 0) text += ", at most " + std::to_string(options.preemptions) + " preemptions";
  if (options.stale_reads >= 0) text += ", at most " + std::to_string(options.stale_reads) + " stale reads";
  if (options.preemptions >= 0 || options.stale_reads >= 0) return text + ", no reduction";
  if (options.reduction == Reduction::kDpor) return text + ", unbounded, source-DPOR";
  return text + (options.reduction == Reduction::kSleep ? ", unbounded, sleep sets" : ", unbounded, no reduction");
}

struct Choice {
  int thread;
  Timestamp outcome;
  bool usual;
};

std::string to_text(const std::vector<Choice>& choices) {
  std::string text;
  for (const Choice& choice : choices) {
    if (!text.empty()) text += ' ';
    text += std::to_string(choice.thread);
    if (!choice.usual) text += "." + std::to_string(choice.outcome);
  }
  return text;
}

// Runs one execution whose choices `next` makes: it fills in a Choice, or takes none and returns false to stop.
template <class Next> std::vector<Choice> run_one(Execution& execution, Result& result, Next&& next) {
  std::vector<Choice> made;
  execution.begin();
  while (!execution.failed() && execution.runnable() != 0) {
    Choice choice = next(made.size());
    execution.step(choice.thread, choice.outcome, static_cast<int>(made.size()));
    made.push_back(choice);
    ++result.transitions;
  }
  execution.end();
  ++result.executions;
  result.max_depth = std::max(result.max_depth, static_cast<int>(made.size()));
  return made;
}

void walk_at_random(Execution& execution, const Options& options, Result& result) {
  std::mt19937_64 random(options.seed);
  std::vector<Timestamp> outcomes;
  for (std::uint64_t walk = 0; walk < options.random_walks; ++walk) {
    int thread = -1;
    // Some walks switch at nearly each step, others rarely.
    const unsigned stay = static_cast<unsigned>(random() % 16);
    auto made = run_one(execution, result, [&](std::size_t) {
      unsigned runnable = execution.runnable();
      if (thread < 0 || (runnable & (1U << thread)) == 0 || random() % 16 >= stay) {
        do thread = static_cast<int>(random() % kMaxThreads);
        while ((runnable & (1U << thread)) == 0);
      }
      execution.outcomes(thread, outcomes);
      Timestamp usual = execution.usual_outcome(thread);
      bool any = execution.pending(thread).kind == Kind::kChoose || random() % 4 == 0;
      Timestamp outcome = any ? outcomes[random() % outcomes.size()] : usual;
      return Choice{thread, outcome, outcome == usual};
    });
    if (execution.failed()) {
      result.choices = to_text(made);
      return;
    }
    result.outcomes.insert(execution.observed());
  }
}

// Follows `text`, then the lowest thread with the newest values to the end.
void replay(Execution& execution, const std::string& text, Result& result) {
  std::istringstream words(text);
  run_one(execution, result, [&](std::size_t) {
    std::string word;
    int thread = __builtin_ctz(execution.runnable());
    if (words >> word) {
      int wanted = std::stoi(word);
      if (wanted >= 0 && wanted < kMaxThreads && (execution.runnable() & (1U << wanted)) != 0) thread = wanted;
    }
    Timestamp usual = execution.usual_outcome(thread);
    Timestamp outcome = usual;
    if (auto dot = word.find('.'); dot != std::string::npos) {
      std::vector<Timestamp> open;
      execution.outcomes(thread, open);
      Timestamp wanted = static_cast<Timestamp>(std::stoi(word.substr(dot + 1)));
      if (std::find(open.begin(), open.end(), wanted) != open.end()) outcome = wanted;
    }
    return Choice{thread, outcome, outcome == usual};
  });
}

}  // namespace

Result explore_program(const ProgramType& program, const Options& given) {
  auto start = std::chrono::steady_clock::now();
  Options options = given;
  if (options.preemptions >= 0 || options.stale_reads >= 0) options.reduction = Reduction::kFull;
  Result result;
  result.bounds = describe_bounds(options);
  Execution execution(program, options);
  if (!options.replay.empty()) {
    std::vector<std::string> lines;
    execution.trace_into(&lines);
    replay(execution, options.replay, result);
    for (const std::string& line : lines) result.trace += line + "\n";
    result.choices = options.replay;
  } else if (options.random_walks != 0) {
    walk_at_random(execution, options, result);
  } else {
    Search search(execution, options, result);
    search.run();
    if (execution.failed()) result.choices = search.choices();
  }
  result.failed = execution.failed();
  result.what = execution.what();
  if (result.failed && options.replay.empty()) {
    std::vector<std::string> lines;
    Result ignored;
    execution.trace_into(&lines);
    replay(execution, result.choices, ignored);
    for (const std::string& line : lines) result.trace += line + "\n";
  }
  for (int thread = 0; thread < program.threads; ++thread)
    result.max_operations.push_back(execution.max_operations(thread));
  result.order_sites = execution.order_sites();
  result.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return result;
}

Result explore_program_stalls(const ProgramType& program, const Options& given) {
  Options options = given;
  Result total = explore_program(program, options);
  for (int thread = 0; thread < program.threads && total.ok(); ++thread) {
    const int operations = total.max_operations[static_cast<std::size_t>(thread)];
    for (int after = 0; after < operations && total.ok(); ++after) {
      options.stall_thread = thread;
      options.stall_after = after;
      total.absorb(explore_program(program, options));
      if (total.failed)
        total.what += " (thread " + std::to_string(thread) + " stopped after " + std::to_string(after) + " operations)";
    }
  }
  total.bounds += ", each thread stopped for ever at each operation";
  return total;
}

void Result::absorb(const Result& other) {
  failed = failed || other.failed;
  exhausted = exhausted && other.exhausted;
  if (other.failed) {
    what = other.what;
    choices = other.choices;
    trace = other.trace;
  }
  executions += other.executions;
  pruned += other.pruned;
  transitions += other.transitions;
  seconds += other.seconds;
  max_depth = std::max(max_depth, other.max_depth);
  outcomes.insert(other.outcomes.begin(), other.outcomes.end());
  for (const Weakening& site : other.order_sites) {
    bool known = false;
    for (const Weakening& mine : order_sites) known = known || (mine.site == site.site && mine.part == site.part);
    if (!known) order_sites.push_back(site);
  }
}

std::string Result::summary() const {
  std::ostringstream text;
  text << executions << " executions (" << pruned << " pruned), " << transitions << " transitions, depth " << max_depth
       << ", " << static_cast<int>(seconds * 1000) << " ms; " << bounds;
  if (!failed && !exhausted) text << "; not exhausted";
  return text.str();
}

std::string Result::report() const {
  if (!failed) return summary();
  return what + "\n" + trace + "replay: \"" + choices + "\"\n" + summary();
}

}  // namespace freeway::model
