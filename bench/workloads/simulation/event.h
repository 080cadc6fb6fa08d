// SPDX-License-Identifier: MIT
//
// event.h: simulated time, the total order of events, and the blocks that travel between threads.
//
// Time is a whole number of ticks, so that comparisons are exact. Events are executed in the order of their keys: time,
// destination, source, and the source's own count of what it has sent. No two events of one run have the same key, and
// an event that is sent again after a rollback has the key that it had before, so the order of all committed events
// follows from the seed alone.
#ifndef FREEWAY_BENCH_SIMULATION_EVENT_H
#define FREEWAY_BENCH_SIMULATION_EVENT_H

#include <cstdint>
#include <limits>

namespace simulation {

using Time = std::uint64_t;  // ticks
constexpr Time kNever = std::numeric_limits<Time>::max();

using ProcessId = std::uint32_t;  // of a logical process, from 0

struct Key {
  Time time;
  ProcessId destination;
  ProcessId source;
  std::uint32_t sequence;

  bool operator==(const Key&) const = default;
};

// The order in which events happen.
struct TotalOrder {
  static bool before(const Key& a, const Key& b) {
    if (a.time != b.time) return a.time < b.time;
    if (a.destination != b.destination) return a.destination < b.destination;
    if (a.source != b.source) return a.source < b.source;
    return a.sequence < b.sequence;
  }
};

// What an inbox carries: an event, or the order to forget one.
struct Message {
  enum class Kind : std::uint8_t { kEvent, kAntiMessage };
  Message* next = nullptr;  // in an inbox, or in the list of what one execution has sent
  Kind kind;
};

// One block from malloc. It belongs to the sender until it is sent, and then to the thread of its destination, which
// frees it; `key` and `payload` never change after sending.
template <class Payload> struct Event : Message {
  // Whether the destination's thread has it before or behind it. Only that thread looks.
  enum class Place : std::uint8_t { kPending, kExecuted };

  Event(const Key& with_key, const Payload& with_payload)
      : Message{nullptr, Kind::kEvent}, key(with_key), payload(with_payload) {}

  Place place = Place::kPending;
  Key key;
  Event* child = nullptr;  // EventQueue's links
  Event* sibling = nullptr;
  Event* previous = nullptr;
  Payload payload;
};

// Takes back `target`, which the same thread sent before. Freed by the receiver, too.
template <class Payload> struct AntiMessage : Message {
  explicit AntiMessage(Event<Payload>* of) : Message{nullptr, Kind::kAntiMessage}, target(of), time(of->key.time) {}
  Event<Payload>* target;
  Time time;  // the target's: if GVT had passed it, the target would be gone
};

}  // namespace simulation

#endif  // FREEWAY_BENCH_SIMULATION_EVENT_H
