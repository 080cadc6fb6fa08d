// SPDX-License-Identifier: MIT
// memory.h: C++ acquire/release/relaxed memory as messages with views.
//
// Location  all values that were ever stored to one atomic word, in its modification order. The position of a value
//           in it is its timestamp; there is room between two timestamps.
// View      what a thread (or a message) knows: for each location the oldest timestamp that may still be read, and
//           for each thread the last moment that happened before (a vector clock)
// Load      may read any value not older than the thread's view of the location. acquire: the message's view joins
//           the thread's; relaxed: it is kept aside and joins at the next fence_acquire()
// Store     goes to any place after the thread's view, but not between an RMW and what that read. release: its
//           message carries the thread's view; relaxed: nothing
// RMW       reads a value that no other RMW has read, and goes right after it; its message also carries on the view
//           of the message read (release sequence). Where nobody stores blindly that is the newest value
// CAS       the same, or fails on any value not older than the thread's view that differs from what it expects
// Plain     not a choice: an access that is not ordered with another thread's conflicting one is a race, and is
//           found in whatever order the two are executed, since every thread's last access is remembered
//
// That is C++20 without seq_cst, less one thing: loads read only what was executed before, so no load happens after
// a later store of its own thread ("load buffering"). Loads ordered before stores by a dependency or an acquire
// never do; machines whose loads are satisfied in order (x86-64) have none.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace freeway::model {

constexpr int kMaxThreads = 4;
constexpr int kMainThread = kMaxThreads;  // runs the constructor and finish()
constexpr int kClocks = 8;
constexpr int kMaxLocations = 120;
using Timestamp = std::int16_t;

struct Site {
  const char* file;
  int line;
  bool operator==(const Site& other) const;
};

enum class Kind : std::uint8_t {
  kLoad,
  kStore,
  kExchange,
  kAdd,
  kSub,
  kOr,
  kAnd,
  kCas,
  kChoose,
  kRestart,
  kBarrier,
  kFork
};
enum Order : std::uint8_t { kRelaxed = 0, kAcquire = 1, kRelease = 2, kAcqRel = 3 };

struct View {
  // [0, kClocks): the vector clock; then one timestamp a location.
  alignas(16) std::array<Timestamp, kClocks + kMaxLocations> at{};

  void clear(int locations);
  void join(const View& other, int locations);
};

struct Message {
  std::uint64_t value;
  int event;  // index of the transition that stored it, -1 before the threads start
  Timestamp at;
  bool rmw;  // it read the message before it: nothing may come between
  View view;
};

struct Location {
  std::string name;
  std::vector<Message> messages;  // in modification order; the first `count` are of this execution
  std::size_t count;
  int last_write;          // transition, -1: none (for the search)
  std::vector<int> reads;  // transitions that only read, since last_write

  Timestamp newest() const { return messages[count - 1].at; }
  std::size_t index_of(Timestamp ts) const {
    std::size_t index = count - 1;
    while (messages[index].at != ts) --index;
    return index;
  }
  // True if something may still be put right after the message at `index`.
  bool open_after(std::size_t index) const { return index + 1 == count || !messages[index + 1].rmw; }
};

// An operation as a thread announces it; result and outcome are filled in when it is executed.
struct Operation {
  Kind kind;
  Order order;
  Order failure_order;  // CAS only
  std::uint8_t bytes;
  int location;  // -1 for kChoose and what follows it
  std::uint64_t operand;
  std::uint64_t expected;
  Site site;
  std::uint64_t result;  // value read, or chosen
  bool wrote;
};

struct PlainField {
  std::string name;
  int writer = -1;
  Timestamp write_clock = 0;
  std::array<Timestamp, kClocks> read_clock{};
};

class Memory {
 public:
  void reset();
  int add_location(std::string name, std::uint64_t initial);
  int add_plain(std::string name);
  // Setup is over: its last values are the initial ones and happened before everything.
  void start_threads(int threads);

  Location& location(int id) { return locations_[static_cast<std::size_t>(id)]; }
  PlainField& plain(int id) { return plains_[static_cast<std::size_t>(id)]; }
  int locations() const { return location_count_; }

  // The outcomes open to `op`, newest first: timestamps of the message to read or, for a store, to follow.
  // `oldest`: what it will have learnt of op's word before it executes op.
  void outcomes(int thread, const Operation& op, Timestamp oldest, std::vector<Timestamp>& choices) const;
  Timestamp newest(int location) const { return locations_[static_cast<std::size_t>(location)].newest(); }
  // Executes `op` with one of these outcomes; what it writes loses the bits outside `kept`. `event` is remembered.
  void execute(int thread, Operation& op, Timestamp ts, int event, std::uint64_t kept);
  void fence_acquire(int thread);
  // The latest operation's message also carries what `thread`, which made it, has done since.
  void extend_latest(int thread);
  // `thread` sees from now on what `other` has done so far.
  void learn(int thread, int other);
  void learn(int thread, const View& view);
  // All that `thread` has done and seen; what it does from here on is not covered.
  View all_seen_by(int thread);
  // Null, or what is wrong.
  const char* plain_read(int thread, int field);
  const char* plain_write(int thread, int field);

 private:
  struct ThreadViews {
    View current;
    View fenced;  // joins `current` at the next acquire fence
  };
  Message& insert(Location& word, std::size_t index);
  bool happened(int by_thread, Timestamp clock, int before_thread) const;

  std::vector<Location> locations_;
  std::vector<PlainField> plains_;
  int location_count_ = 0;
  int plain_count_ = 0;
  int latest_ = 0;  // location of the latest operation
  std::array<ThreadViews, kMaxThreads + 1> threads_;
};

}  // namespace freeway::model
