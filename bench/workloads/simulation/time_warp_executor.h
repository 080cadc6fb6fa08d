// SPDX-License-Identifier: MIT
//
// TimeWarpExecutor: one thread of an optimistic simulation (Jefferson, "Virtual Time", TOPLAS 1985).
//
// It executes its earliest event whatever the others do. Before each execution the process's state is saved in a block
// of its own; when an event arrives that should have come earlier (a straggler), the process is rolled back: states are
// restored, newest first, executed events are pending again, and what they sent is taken back. An event for this thread
// is withdrawn at once, one for another thread by an anti-message, which may roll back that thread's process in turn.
// Threads share memory, so an anti-message names its event by address (Fujimoto's direct cancellation).
//
//   an event     sent -> pending <-> executed -> committed (freed)
//                        pending  -> annihilated (freed)
//   Invariants   a process's saved states, oldest to newest, have rising keys, and every event it has executed and not
//                committed has one;  an event is alive while the saved state of the execution that sent it is: that one
//                is earlier, and GVT has not passed it
//   Who          everything here is the owning thread's; other threads push into its inbox only
//
// GVT, global virtual time: no event before it is pending anywhere or on its way. Saved states and events before it are
// committed and freed (fossil collection). It is agreed upon in time_warp.h.
#ifndef FREEWAY_BENCH_SIMULATION_TIME_WARP_EXECUTOR_H
#define FREEWAY_BENCH_SIMULATION_TIME_WARP_EXECUTOR_H

#include <algorithm>

#include "simulation/world.h"

namespace simulation {

// What a test may break, to see that the breakage is noticed.
struct NoFaults {
  using Order = TotalOrder;
  static constexpr bool kDropAntiMessages = false;
  static constexpr bool kKeepRandomStream = false;  // over a rollback
  [[noreturn]] static void broken(const char* what) { fail(what); }
};

// What an execution changed and sent. A block from malloc, freed by the thread that made it.
template <class Model> struct SavedState {
  using Event = simulation::Event<typename Model::Payload>;

  SavedState(Event* of, const Image<typename Model::State>& image) : event(of), before(image) {}

  SavedState* older = nullptr;
  SavedState* newer = nullptr;
  Event* event;
  Image<typename Model::State> before;
  std::uint32_t sent_count = 0;
  Event* sent[Model::kMaxSends];
};

template <class Model, class Faults = NoFaults>
class TimeWarpExecutor : public Executor<Model, typename Faults::Order> {
 public:
  using Base = Executor<Model, typename Faults::Order>;
  using typename Base::Payload;
  using typename Base::Process;
  using Event = simulation::Event<Payload>;
  using Saved = SavedState<Model>;
  using Order = typename Faults::Order;

  TimeWarpExecutor(World<Model>& world, std::uint32_t self) : Base(world, self) {}

  void start() {
    this->start_processes([this](Event* event) { deliver(event); });
  }

  // Takes all that has arrived, and undoes what was too early. Returns the number of messages.
  std::uint64_t receive() {
    std::uint64_t received = 0;
    for (Message* message = this->world_.inboxes[this->self_].take_all(); message != nullptr; ++received) {
      Message* next = message->next;
      if (message->kind == Message::Kind::kEvent) insert(static_cast<Event*>(message));
      else annihilate(static_cast<AntiMessage<Payload>*>(message));
      message = next;
    }
    return received;
  }

  // Executes up to `most` events before `bound`. Returns how many.
  std::uint64_t execute_before(Time bound, std::uint64_t most) {
    bound = std::min(bound, this->world_.settings.end);
    std::uint64_t executed = 0;
    for (; executed < most && this->earliest() < bound; ++executed) execute(this->queue_.take_earliest());
    return executed;
  }

  // Commits and frees all executed events before `gvt`, which is at most the run's end.
  void collect_before(Time gvt) {
    gvt_ = gvt;
    this->each_process([&](ProcessId p) {
      Process& process = this->world_.processes[p];
      while (process.oldest != nullptr && process.oldest->event->key.time < gvt) commit_oldest(process);
    });
  }

  std::uint64_t executed() const { return executed_; }
  std::uint64_t rolled_back() const { return rolled_back_; }
  std::uint64_t rollbacks() const { return rollbacks_; }
  std::uint64_t anti_messages() const { return anti_messages_; }

 private:
  void commit_oldest(Process& process) {
    Saved* saved = process.oldest;
    process.oldest = saved->newer;
    (process.oldest == nullptr ? process.newest : process.oldest->older) = nullptr;
    process.commit(*saved->event);
    this->drop(saved->event);
    this->blocks_.drop(saved, false);
  }

  void execute(Event* event) {
    Process& process = this->process_of(*event);
    auto* saved = this->blocks_.template make<Saved>(Blocks::Reach::kThisThread, event, process.now);
    saved->older = process.newest;
    (process.newest == nullptr ? process.oldest : process.newest->newer) = saved;
    process.newest = saved;
    event->place = Event::Place::kExecuted;
    ++executed_;
    // All are noted before the first is delivered: a delivery may roll back processes of this thread (never this
    // execution, which is earlier than what it sends).
    this->execute_event(*event, [saved](Event* sent) {
      if (saved->sent_count == Model::kMaxSends) fail("a model sends more than it promised");
      saved->sent[saved->sent_count++] = sent;
    });
    for (std::uint32_t i = 0; i < saved->sent_count; ++i) deliver(saved->sent[i]);
  }

  void deliver(Event* event) {
    const std::uint32_t owner = this->owner_of(event->key.destination);
    if (owner == this->self_) insert(event);
    else this->world_.inboxes[owner].push(event);
  }

  void insert(Event* event) {
    if (event->key.time < gvt_) Faults::broken("an event is earlier than GVT");
    roll_back(this->process_of(*event), event->key);
    this->queue_.insert(event);
    withdraw_doomed();
  }

  void annihilate(AntiMessage<Payload>* anti_message) {
    if (anti_message->time < gvt_) Faults::broken("an event that was committed is taken back");
    doom(anti_message->target);
    this->blocks_.drop(anti_message, true);
    withdraw_doomed();
  }

  // Undoes all executions in `process` that are not before `key`. What they sent to this thread is doomed afterwards.
  void roll_back(Process& process, const Key& key) {
    if (process.newest == nullptr || Order::before(process.newest->event->key, key)) return;
    ++rollbacks_;
    do undo(process);
    while (process.newest != nullptr && !Order::before(process.newest->event->key, key));
  }

  void undo(Process& process) {
    Saved* saved = process.newest;
    process.newest = saved->older;
    (process.newest == nullptr ? process.oldest : process.newest->newer) = nullptr;
    const RandomStream random = process.now.random;
    process.now = saved->before;
    if constexpr (Faults::kKeepRandomStream) process.now.random = random;
    saved->event->place = Event::Place::kPending;
    this->queue_.insert(saved->event);
    for (std::uint32_t i = 0; i < saved->sent_count; ++i) take_back(saved->sent[i]);
    this->blocks_.drop(saved, false);
    ++rolled_back_;
  }

  void take_back(Event* event) {
    if constexpr (Faults::kDropAntiMessages) return;
    const std::uint32_t owner = this->owner_of(event->key.destination);
    if (owner == this->self_) {
      doom(event);
    } else {
      ++anti_messages_;
      this->world_.inboxes[owner].push(
          this->blocks_.template make<AntiMessage<Payload>>(Blocks::Reach::kAnyThread, event));
    }
  }

  // A list instead of recursion: one straggler can undo a long chain of events from process to process.
  void doom(Event* event) {
    event->next = doomed_;
    doomed_ = event;
  }

  void withdraw_doomed() {
    while (doomed_ != nullptr) {
      auto* event = static_cast<Event*>(doomed_);
      doomed_ = event->next;
      // If it was executed, this makes it pending again.
      if (event->place == Event::Place::kExecuted) roll_back(this->process_of(*event), event->key);
      this->queue_.remove(event);
      this->drop(event);
    }
  }

  Message* doomed_ = nullptr;  // events of this thread that were taken back and are still here
  Time gvt_ = 0;
  std::uint64_t executed_ = 0;
  std::uint64_t rolled_back_ = 0;  // executions undone
  std::uint64_t rollbacks_ = 0;    // occasions
  std::uint64_t anti_messages_ = 0;
};

}  // namespace simulation

#endif  // FREEWAY_BENCH_SIMULATION_TIME_WARP_EXECUTOR_H
