// SPDX-License-Identifier: MIT
//
// process.h: a logical process, what of it a rollback must bring back, and what a model sees of an execution.
//
// A model is a class with
//   Payload, State                    what an event carries, what a process keeps: plain structs
//   kMaxSends                         how many events one execution sends at most
//   processes()                       how many logical processes there are
//   lookahead()                       ticks, >= 1: the least delay of an event to another process
//   start(context, state)             the first events of a process, at time 0
//   execute(context, state, payload)  one event; all randomness comes from the context
//   digest(payload), digest(state)    64 bits of the contents, for the checksum
#ifndef FREEWAY_BENCH_SIMULATION_PROCESS_H
#define FREEWAY_BENCH_SIMULATION_PROCESS_H

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>

#include "simulation/blocks.h"
#include "simulation/event.h"

namespace simulation {

[[noreturn]] inline void fail(const char* what) {
  std::fprintf(stderr, "simulation: %s\n", what);
  std::abort();
}

// The finaliser of SplitMix64 (Steele, Lea, Flood 2014): every bit of the result depends on every bit of the argument.
inline std::uint64_t scramble(std::uint64_t x) {
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
  return x ^ (x >> 31);
}

// `hash` after one more value; the order of values matters.
inline std::uint64_t fold(std::uint64_t hash, std::uint64_t value) {
  return scramble(hash * 0x9E3779B97F4A7C15u + scramble(value + 0x9E3779B97F4A7C15u));
}

// A process's own random numbers (SplitMix64): one word, so it is cheap to save.
class RandomStream {
 public:
  RandomStream() = default;
  RandomStream(std::uint64_t seed, ProcessId process) : state_(fold(seed, process)) {}

  std::uint64_t next() { return scramble(state_ += 0x9E3779B97F4A7C15u); }
  // In [0, bound), bound < 2^32.
  std::uint32_t below(std::uint32_t bound) { return static_cast<std::uint32_t>(((next() >> 32) * bound) >> 32); }
  // Exponentially distributed with this mean; ticks, rounded down.
  Time exponential(Time mean) {
    const double uniform = (static_cast<double>(next() >> 11) + 1) * 0x1p-53;  // in (0, 1]
    return static_cast<Time>(-std::log(uniform) * static_cast<double>(mean));
  }

  bool operator==(const RandomStream&) const = default;

 private:
  std::uint64_t state_ = 0;
};

// All that an execution changes in its process, and so all that a saved state holds.
template <class State> struct Image {
  State state;
  RandomStream random;
  std::uint32_t next_sequence = 0;
};

template <class Model> struct SavedState;

template <class Model> struct LogicalProcess {
  Image<typename Model::State> now{};
  // The executed events that may yet be rolled back, oldest to newest (Time Warp only).
  SavedState<Model>* oldest = nullptr;
  SavedState<Model>* newest = nullptr;
  // What was committed: it depends on all events of this process and their order.
  std::uint64_t committed = 0;
  std::uint64_t history = 0;

  void commit(const Event<typename Model::Payload>& event) {
    history = fold(history, event.key.time);
    history = fold(history, (std::uint64_t{event.key.source} << 32) | event.key.sequence);
    history = fold(history, Model::digest(event.payload));
    ++committed;
  }

  // Of the committed events and the state they led to.
  std::uint64_t checksum() const {
    std::uint64_t hash = fold(history, Model::digest(now.state));
    RandomStream random = now.random;
    hash = fold(hash, random.next());
    return fold(hash, now.next_sequence);
  }
};

// One execution, as its model sees it.
template <class Model> class Context {
 public:
  using Payload = typename Model::Payload;

  // `owners[p]` is the thread of process p; `self` is on thread `thread`.
  Context(Image<typename Model::State>& image, Blocks& blocks, const std::uint16_t* owners, ProcessId self, Time now,
          Time lookahead)
      : image_(image), blocks_(blocks), owners_(owners), self_(self), now_(now), lookahead_(lookahead) {}

  ProcessId self() const { return self_; }
  Time now() const { return now_; }
  RandomStream& random() { return image_.random; }

  // An event `delay` ticks from now: at least 1, and at least the lookahead if it is for another process.
  void send(ProcessId destination, Time delay, const Payload& payload) {
    if (delay < (destination == self_ ? 1 : lookahead_)) fail("an event is sent with less delay than promised");
    const Key key{now_ + delay, destination, self_, image_.next_sequence++};
    const auto reach = owners_[destination] == owners_[self_] ? Blocks::Reach::kThisThread : Blocks::Reach::kAnyThread;
    auto* event = blocks_.make<Event<Payload>>(reach, key, payload);
    *end_of_sent_ = event;
    end_of_sent_ = &event->next;
  }

  // What was sent, in that order; each is the caller's now.
  Event<Payload>* take_sent() {
    Message* first = first_sent_;
    first_sent_ = nullptr;
    end_of_sent_ = &first_sent_;
    return static_cast<Event<Payload>*>(first);
  }

 private:
  Image<typename Model::State>& image_;
  Blocks& blocks_;
  const std::uint16_t* owners_;
  ProcessId self_;
  Time now_;
  Time lookahead_;
  Message* first_sent_ = nullptr;
  Message** end_of_sent_ = &first_sent_;
};

}  // namespace simulation

#endif  // FREEWAY_BENCH_SIMULATION_PROCESS_H
