// SPDX-License-Identifier: MIT
//
// World: one run's processes, dealt out to threads, and their inboxes. Executor: what one thread does in every form of
// synchronisation.
#ifndef FREEWAY_BENCH_SIMULATION_WORLD_H
#define FREEWAY_BENCH_SIMULATION_WORLD_H

#include <cstdint>
#include <new>

#include "simulation/event_queue.h"
#include "simulation/inbox.h"
#include "simulation/process.h"
#include "support/measure.h"

namespace simulation {

// How logical processes are dealt out to threads.
enum class Mapping {
  kBlocks,      // neighbours to the same thread: in the grid models most events then stay there
  kRoundRobin,  // neighbours to different threads
};

struct Settings {
  std::uint32_t threads = 1;
  Mapping mapping = Mapping::kBlocks;
  Time end = 0;  // events from here on are not executed
  std::uint64_t seed = 1;
  // Time Warp: nothing is executed this much or more ahead of GVT, so that memory stays bounded.
  Time window = kNever;
  std::uint64_t gvt_interval = 1024;  // events that a thread executes before it asks for a new GVT
  AllocateLocally local = nullptr;    // for blocks that the allocating thread frees; null: malloc
};

template <class Model> struct World {
  using Process = LogicalProcess<Model>;

  World(const Model& the_model, const Settings& the_settings)
      : model(the_model),
        settings(the_settings),
        processes(the_model.processes()),
        owners(the_model.processes()),
        inboxes(the_settings.threads) {
    for (Inbox& inbox : inboxes) new (&inbox) Inbox;
    for (ProcessId p = 0; p < processes.size(); ++p) {
      new (&processes[p]) Process;
      processes[p].now.random = RandomStream(settings.seed, p);
      owners[p] = static_cast<std::uint16_t>(settings.mapping == Mapping::kRoundRobin
                                                 ? p % settings.threads
                                                 : std::uint64_t{p} * settings.threads / processes.size());
    }
  }

  std::uint64_t committed() {
    std::uint64_t sum = 0;
    for (const Process& process : processes) sum += process.committed;
    return sum;
  }
  // Of all committed events, each process's in their order, and of the processes' last states.
  std::uint64_t checksum() {
    std::uint64_t hash = 0;
    for (const Process& process : processes) hash = fold(hash, process.checksum());
    return hash;
  }

  const Model& model;
  const Settings settings;
  bench::MappedArray<Process> processes;
  bench::MappedArray<std::uint16_t> owners;  // the thread of each process
  bench::MappedArray<Inbox> inboxes;         // one for each thread
};

template <class Model, class Order = TotalOrder> class Executor {
 public:
  using Payload = typename Model::Payload;
  using Process = LogicalProcess<Model>;

  Executor(World<Model>& world, std::uint32_t self)
      : world_(world), self_(self), lookahead_(world.model.lookahead()), blocks_(world.settings.local) {}

  // When the next of this thread's events happens; kNever if it has none.
  Time earliest() const { return queue_.earliest() == nullptr ? kNever : queue_.earliest()->key.time; }

  const BlockCounts& counts() const { return blocks_.counts(); }

  // Frees what is left after the end.
  void finish() {
    while (auto* event = queue_.take_earliest()) drop(event);
  }

 protected:
  // Calls visit(p) for each of this thread's processes.
  template <class Visit> void each_process(Visit visit) {
    for (ProcessId p = 0; p < world_.processes.size(); ++p)
      if (world_.owners[p] == self_) visit(p);
  }

  // Lets the model make its first events and hands each to `deliver`.
  template <class Deliver> void start_processes(Deliver deliver) {
    each_process([&](ProcessId p) {
      auto& image = world_.processes[p].now;
      Context<Model> context(image, blocks_, world_.owners.begin(), p, 0, lookahead_);
      world_.model.start(context, image.state);
      each_sent(context, deliver);
    });
  }

  // Executes `event`, which is not in the queue, and hands what it sends to `deliver`.
  template <class Deliver> void execute_event(const Event<Payload>& event, Deliver deliver) {
    auto& image = process_of(event).now;
    Context<Model> context(image, blocks_, world_.owners.begin(), event.key.destination, event.key.time, lookahead_);
    world_.model.execute(context, image.state, event.payload);
    each_sent(context, deliver);
  }

  Process& process_of(const Event<Payload>& event) { return world_.processes[event.key.destination]; }
  std::uint32_t owner_of(ProcessId process) { return world_.owners[process]; }
  void drop(Event<Payload>* event) { blocks_.drop(event, owner_of(event->key.source) != self_); }

  World<Model>& world_;
  const std::uint32_t self_;
  const Time lookahead_;
  EventQueue<Event<Payload>, Order> queue_;
  Blocks blocks_;

 private:
  template <class Deliver> static void each_sent(Context<Model>& context, Deliver deliver) {
    for (auto* event = context.take_sent(); event != nullptr;) {
      auto* next = static_cast<Event<Payload>*>(event->next);  // delivering reuses the link
      deliver(event);
      event = next;
    }
  }
};

}  // namespace simulation

#endif  // FREEWAY_BENCH_SIMULATION_WORLD_H
