// SPDX-License-Identifier: MIT
// search.cc: the search of search.h.
#include "tests/explorer/search.h"

#include <algorithm>

namespace freeway::model {

namespace {
unsigned bit(int thread) { return 1U << thread; }
}  // namespace

void Search::run() {
  do {
    bool complete = run_once();
    if (execution_.failed()) {
      ++result_.executions;
      return;
    }
    if (complete) {
      ++result_.executions;
      result_.outcomes.insert(execution_.observed());
    } else {
      ++result_.pruned;
    }
    if (options_.max_executions != 0 && result_.executions + result_.pruned >= options_.max_executions) return;
  } while (backtrack());
  result_.exhausted = true;
}

// False if the execution was left in the middle, because all that could follow was covered elsewhere.
bool Search::run_once() {
  execution_.begin();
  last_event_.fill(-1);
  int depth = 0;
  for (; !execution_.failed() && execution_.runnable() != 0; ++depth) {
    if (depth == depth_) open(depth);
    if (!ready(nodes_[static_cast<std::size_t>(depth)])) {
      depth_ = depth;
      return false;
    }
    execute(depth);
    ++result_.transitions;
  }
  depth_ = depth;
  result_.max_depth = std::max(result_.max_depth, depth);
  execution_.end();
  return true;
}

// Makes a node for the state that the execution has just reached.
void Search::open(int depth) {
  if (static_cast<std::size_t>(depth) == nodes_.size()) nodes_.emplace_back();
  ++depth_;
  Node& node = nodes_[static_cast<std::size_t>(depth)];
  node.thread = -1;
  node.runnable = execution_.runnable();
  node.done = 0;
  node.awake = node.runnable;
  node.sleep.clear();
  node.previous = -1;
  node.preemptions = node.stale_reads = 0;
  if (depth > 0) {
    const Node& parent = nodes_[static_cast<std::size_t>(depth - 1)];
    node.previous = parent.thread;
    bool preempted =
        parent.previous >= 0 && parent.thread != parent.previous && (parent.runnable & bit(parent.previous)) != 0;
    node.preemptions = parent.preemptions + preempted;
    node.stale_reads = parent.stale_reads + (!parent.usual && parent.event.location >= 0);
    for (const Sleeper& sleeper : parent.sleep)
      if (sleeper.thread != parent.thread && !dependent(sleeper, parent.event)) node.sleep.push_back(sleeper);
  }
  if (!node.sleep.empty()) {
    for (int thread = 0; thread < kMaxThreads; ++thread) {
      if ((node.runnable & bit(thread)) == 0) continue;
      execution_.outcomes(thread, scratch_);
      if (std::all_of(scratch_.begin(), scratch_.end(), [&](Timestamp c) { return asleep(node, thread, c); }))
        node.awake &= ~bit(thread);
    }
  }
  bool previous_goes_on = node.previous >= 0 && (node.runnable & bit(node.previous)) != 0;
  node.backtrack = node.runnable;
  if (options_.preemptions >= 0 && node.preemptions >= options_.preemptions && previous_goes_on) {
    node.backtrack = bit(node.previous);
  } else if (options_.reduction == Reduction::kDpor) {
    unsigned first = node.previous >= 0 ? node.awake & bit(node.previous) : 0U;
    node.backtrack = first != 0 ? first : node.awake & (~node.awake + 1);
  }
}

// Makes sure that the node has a thread and an outcome to go on with.
bool Search::ready(Node& node) {
  while (node.thread < 0 || node.choice == node.choices.size()) {
    if (node.thread >= 0) node.done |= bit(node.thread);
    unsigned left = candidates(node);
    if (left == 0) return false;
    bool stay = node.previous >= 0 && (left & bit(node.previous)) != 0;
    node.thread = stay ? node.previous : __builtin_ctz(left);
    execution_.outcomes(node.thread, scratch_);
    if (options_.stale_reads >= 0 && node.stale_reads >= options_.stale_reads &&
        execution_.pending(node.thread).location >= 0)
      scratch_.resize(1);
    node.choices.clear();
    node.choice = 0;
    for (Timestamp choice : scratch_)
      if (!asleep(node, node.thread, choice)) node.choices.push_back(choice);
  }
  return true;
}

bool Search::asleep(const Node& node, int thread, Timestamp choice) const {
  for (const Sleeper& sleeper : node.sleep)
    if (sleeper.thread == thread && sleeper.choice == choice) return true;
  return false;
}

// To the deepest node where something is left to explore; false if there is none.
bool Search::backtrack() {
  for (; depth_ > 0; --depth_) {
    Node& node = nodes_[static_cast<std::size_t>(depth_ - 1)];
    if (options_.reduction != Reduction::kFull && node.choice < node.choices.size())
      node.sleep.push_back(
          {node.thread, node.choices[node.choice], node.event.location, node.event.wrote, node.event.scope});
    if (node.choice < node.choices.size()) ++node.choice;
    if (node.choice < node.choices.size()) return true;
    if ((candidates(node) & ~bit(node.thread)) != 0) return true;
  }
  return false;
}

bool Search::dependent(const Sleeper& sleeper, const Event& event) const {
  if (sleeper.scope.meets(event.scope)) return true;
  if (sleeper.location != event.location || event.location < 0) return false;
  return sequential() ? sleeper.writes || event.wrote : sleeper.writes && event.wrote;
}

void Search::depend_on(Event& event, int earlier) const {
  if (earlier < 0) return;
  const auto& clock = nodes_[static_cast<std::size_t>(earlier)].event.clock;
  for (std::size_t i = 0; i < clock.size(); ++i) event.clock[i] = std::max(event.clock[i], clock[i]);
}

void Search::execute(int depth) {
  const int thread = nodes_[static_cast<std::size_t>(depth)].thread;
  Event event{};
  Timestamp choice;
  {
    Node& node = nodes_[static_cast<std::size_t>(depth)];
    choice = node.choices[node.choice];
    node.usual = choice == execution_.usual_outcome(thread);
  }
  event.thread = thread;
  depend_on(event, last_event_[static_cast<std::size_t>(thread)]);
  const auto before = event.clock;
  event.index = ++event.clock[static_cast<std::size_t>(thread)];
  const Operation& pending = execution_.pending(thread);
  const Kind kind = pending.kind;
  event.location = pending.location;
  event.scope = execution_.scope(thread);
  int last_write = -1;
  int read_from = -1;
  if (event.location >= 0) {
    const Location& word = execution_.memory().location(event.location);
    last_write = word.last_write;
    if (kind != Kind::kStore) read_from = word.messages[word.index_of(choice)].event;
  }

  event.wrote = execution_.step(thread, choice, depth).wrote;
  event.failed_cas = kind == Kind::kCas && !event.wrote;
  last_event_[static_cast<std::size_t>(thread)] = depth;
  if (event.location >= 0) {
    Location& word = execution_.memory().location(event.location);
    depend_on(event, read_from);
    if (event.wrote || sequential()) depend_on(event, last_write);
    if (event.wrote && sequential())
      for (int read : word.reads) depend_on(event, read);
    nodes_[static_cast<std::size_t>(depth)].event = event;
    if (options_.reduction == Reduction::kDpor) find_races(depth, last_write, before);
    if (event.wrote) {
      word.last_write = depth;
      word.reads.clear();
    } else {
      word.reads.push_back(depth);
    }
  } else {
    nodes_[static_cast<std::size_t>(depth)].event = event;
  }
}

// Asks for the reversal of each race between the transition at `depth` and an earlier one. `before` is what the thread
// depended on before it.
void Search::find_races(int depth, int last_write, const std::array<std::int16_t, kMaxThreads>& before) {
  const Event& event = nodes_[static_cast<std::size_t>(depth)].event;
  auto consider = [&](int earlier) {
    const Event& other = nodes_[static_cast<std::size_t>(earlier)].event;
    if (other.thread == event.thread || before[static_cast<std::size_t>(other.thread)] >= other.index) return;
    reverse(earlier, depth);
  };
  if (event.wrote)
    for (int read : execution_.memory().location(event.location).reads) consider(read);
  if (last_write >= 0 && (event.wrote || event.failed_cas || sequential())) consider(last_write);
}

// Sees to it that the node of `earlier` will explore a thread that leads to the transition `later` happening before it:
// one whose next transition can come first among those in between that do not depend on `earlier`, and `later`.
void Search::reverse(int earlier, int later) {
  Node& node = nodes_[static_cast<std::size_t>(earlier)];
  std::array<int, kMaxThreads> first{};  // index of the thread's first event among those
  unsigned initials = 0;
  for (int at = earlier + 1; at <= later; ++at) {
    const Event& event = nodes_[static_cast<std::size_t>(at)].event;
    if (at != later && event.after(node.event)) continue;
    if (first[static_cast<std::size_t>(event.thread)] != 0) continue;
    bool initial = true;
    for (std::size_t other = 0; other < first.size(); ++other)
      if (first[other] != 0 && event.clock[other] >= first[other]) initial = false;
    first[static_cast<std::size_t>(event.thread)] = event.index;
    if (initial) initials |= bit(event.thread);
  }
  if ((node.backtrack & initials) != 0) return;
  int thread = nodes_[static_cast<std::size_t>(later)].thread;
  node.backtrack |= (initials & bit(thread)) != 0 ? bit(thread) : initials & (~initials + 1);
}

std::string Search::choices() const {
  std::string text;
  for (int depth = 0; depth < depth_; ++depth) {
    const Node& node = nodes_[static_cast<std::size_t>(depth)];
    if (depth > 0) text += ' ';
    text += std::to_string(node.thread);
    if (!node.usual) text += "." + std::to_string(node.choices[node.choice]);
  }
  return text;
}

}  // namespace freeway::model
