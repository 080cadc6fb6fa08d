// SPDX-License-Identifier: MIT
// memory.cc: what each operation does to messages and views; see memory.h for the rules.
#include "tests/explorer/memory.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>

namespace freeway::model {

namespace {

std::uint64_t truncate(std::uint64_t value, int bytes) {
  return bytes == 8 ? value : value & ((std::uint64_t{1} << (8 * bytes)) - 1);
}

std::uint64_t value_after(const Operation& op, std::uint64_t before) {
  switch (op.kind) {
    case Kind::kAdd: return truncate(before + op.operand, op.bytes);
    case Kind::kSub: return truncate(before - op.operand, op.bytes);
    case Kind::kOr: return before | op.operand;
    case Kind::kAnd: return before & op.operand;
    default: return op.operand;
  }
}

}  // namespace

void View::clear(int locations) { std::fill_n(at.begin(), kClocks + locations, Timestamp{0}); }

void View::join(const View& other, int locations) {
  // Whole groups of eight, so that the compiler makes vector code of it; what lies past the last location is zero.
  int end = (kClocks + locations + 7) & ~7;
  for (int i = 0; i < end; ++i)
    at[static_cast<std::size_t>(i)] = std::max(at[static_cast<std::size_t>(i)], other.at[static_cast<std::size_t>(i)]);
}

void Memory::reset() {
  for (auto& thread : threads_) {
    thread.current = View{};
    thread.fenced = View{};
  }
  location_count_ = 0;
  plain_count_ = 0;
}

int Memory::add_location(std::string name, std::uint64_t initial) {
  if (location_count_ == kMaxLocations) {
    std::fprintf(stderr, "model: more than %d atomic locations are touched in one execution\n", kMaxLocations);
    std::abort();
  }
  if (static_cast<std::size_t>(location_count_) == locations_.size()) {
    locations_.emplace_back();
    locations_.back().messages.resize(8);
  }
  Location& location = locations_[static_cast<std::size_t>(location_count_)];
  location.name = std::move(name);
  location.count = 1;
  location.last_write = -1;
  location.reads.clear();
  Message& first = location.messages[0];
  first = Message{.value = initial, .event = -1, .at = 0, .rmw = false, .view = {}};
  return location_count_++;
}

int Memory::add_plain(std::string name) {
  if (static_cast<std::size_t>(plain_count_) == plains_.size()) plains_.emplace_back();
  PlainField& field = plains_[static_cast<std::size_t>(plain_count_)];
  field = PlainField{};
  field.name = std::move(name);
  return plain_count_++;
}

void Memory::start_threads(int threads) {
  for (int id = 0; id < location_count_; ++id) {
    Location& word = location(id);
    std::uint64_t value = word.messages[word.count - 1].value;
    word.count = 1;
    word.messages[0] = Message{.value = value, .event = -1, .at = 0, .rmw = false, .view = {}};
    word.last_write = -1;
    word.reads.clear();
  }
  for (int field = 0; field < plain_count_; ++field) plain(field) = PlainField{.name = std::move(plain(field).name)};
  for (int id = 0; id < threads; ++id) {
    threads_[static_cast<std::size_t>(id)].current.at[static_cast<std::size_t>(id)] = 1;
  }
}

void Memory::outcomes(int thread, const Operation& op, Timestamp oldest, std::vector<Timestamp>& choices) const {
  const Location& word = locations_[static_cast<std::size_t>(op.location)];
  oldest = std::max(
      oldest, threads_[static_cast<std::size_t>(thread)].current.at[static_cast<std::size_t>(kClocks + op.location)]);
  for (std::size_t index = word.count; index-- > 0 && word.messages[index].at >= oldest;) {
    const Message& message = word.messages[index];
    const bool only_reads = op.kind == Kind::kLoad || (op.kind == Kind::kCas && message.value != op.expected);
    if (only_reads || word.open_after(index)) choices.push_back(message.at);
  }
}

// Room for a message right after the one at `index`. Timestamps of the first messages are far apart, as many may have
// to come between them.
Message& Memory::insert(Location& word, std::size_t index) {
  const int distance = word.count < 16 ? 1024 : word.count < 128 ? 64 : 8;
  if (word.count == word.messages.size()) word.messages.resize(2 * word.messages.size());
  const int before = word.messages[index].at;
  const int after = index + 1 == word.count ? before + 2 * distance : word.messages[index + 1].at;
  if (after - before < 2 || after - distance > INT16_MAX) {
    std::fprintf(stderr, "model: no timestamp left for %s\n", word.name.c_str());
    std::abort();
  }
  for (std::size_t i = word.count; i > index + 1; --i) word.messages[i] = word.messages[i - 1];
  ++word.count;
  word.messages[index + 1].at = static_cast<Timestamp>((before + after) / 2);
  return word.messages[index + 1];
}

void Memory::execute(int thread, Operation& op, Timestamp ts, int event, std::uint64_t kept) {
  ThreadViews& self = threads_[static_cast<std::size_t>(thread)];
  Location& word = location(op.location);
  const std::size_t slot = static_cast<std::size_t>(kClocks + op.location);
  const std::size_t chosen = word.index_of(ts);
  const bool reads = op.kind != Kind::kStore;
  latest_ = op.location;

  Order order = op.order;
  op.wrote = op.kind != Kind::kLoad;
  if (reads) {
    const Message& read = word.messages[chosen];
    op.result = read.value;
    if (op.kind == Kind::kCas && read.value != op.expected) {
      op.wrote = false;
      order = op.failure_order;
    }
    (order & kAcquire ? self.current : self.fenced).join(read.view, location_count_);
    self.current.at[slot] = std::max(self.current.at[slot], ts);
  }
  if (op.wrote) {
    Message& fresh = insert(word, chosen);
    const Message& before = word.messages[chosen];
    fresh.value = value_after(op, before.value) & kept;
    fresh.event = event;
    fresh.rmw = reads;
    self.current.at[slot] = fresh.at;
    if (reads) {
      fresh.view = before.view;
      if (order & kRelease) fresh.view.join(self.current, location_count_);
    } else if (order & kRelease) {
      fresh.view = self.current;
    } else {
      fresh.view = View{};
    }
    fresh.view.at[slot] = fresh.at;
  }
  // What the thread does from here on is not covered by a message that it has just released.
  ++self.current.at[static_cast<std::size_t>(thread)];
}

void Memory::fence_acquire(int thread) {
  ThreadViews& self = threads_[static_cast<std::size_t>(thread)];
  self.current.join(self.fenced, location_count_);
}

void Memory::extend_latest(int thread) {
  Location& word = location(latest_);
  View& self = threads_[static_cast<std::size_t>(thread)].current;
  word.messages[word.count - 1].view.join(self, location_count_);
  ++self.at[static_cast<std::size_t>(thread)];
}

void Memory::learn(int thread, int other) { learn(thread, all_seen_by(other)); }

void Memory::learn(int thread, const View& view) {
  threads_[static_cast<std::size_t>(thread)].current.join(view, location_count_);
}

View Memory::all_seen_by(int thread) {
  ThreadViews& self = threads_[static_cast<std::size_t>(thread)];
  View view = self.current;
  view.join(self.fenced, location_count_);
  ++self.current.at[static_cast<std::size_t>(thread)];
  return view;
}

bool Memory::happened(int by_thread, Timestamp clock, int before_thread) const {
  return clock <= threads_[static_cast<std::size_t>(before_thread)].current.at[static_cast<std::size_t>(by_thread)];
}

const char* Memory::plain_read(int thread, int field) {
  PlainField& data = plain(field);
  if (data.writer >= 0 && data.writer != thread && !happened(data.writer, data.write_clock, thread))
    return "race: read of a plain field not ordered after another thread's write";
  data.read_clock[static_cast<std::size_t>(thread)] =
      threads_[static_cast<std::size_t>(thread)].current.at[static_cast<std::size_t>(thread)];
  return nullptr;
}

const char* Memory::plain_write(int thread, int field) {
  PlainField& data = plain(field);
  if (data.writer >= 0 && data.writer != thread && !happened(data.writer, data.write_clock, thread))
    return "race: write of a plain field not ordered after another thread's write";
  for (int reader = 0; reader < kMaxThreads; ++reader)
    if (reader != thread && !happened(reader, data.read_clock[static_cast<std::size_t>(reader)], thread))
      return "race: write of a plain field not ordered after another thread's read";
  data.writer = thread;
  data.write_clock = threads_[static_cast<std::size_t>(thread)].current.at[static_cast<std::size_t>(thread)];
  return nullptr;
}

}  // namespace freeway::model
