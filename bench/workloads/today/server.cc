// SPDX-License-Identifier: MIT
//
// server: threads that serve requests of a web application. A request has a life of its own: a buffer it is read into,
// a dozen headers with two strings each, a body that grows, rows fetched from a database, a response built up by
// realloc. All of it goes when the response has been sent; a few things stay: one request in 16 logs somebody in, and
// the session lives until another takes its place, hundreds of requests later and mostly in another thread. One
// response in four is freed by another thread, as if by that which writes to the network.
//
// One operation is one request (about 60 mallocs, reallocs included). --threads (1), --requests (of all threads,
// 400000), --sessions (20000), --shrink. allocations_each: an extra.
//
// Strings are marked when they are made and checked when they go. What a request does depends on its number
// only, so the checksum is the same for every number of threads.
#include <atomic>

#include "support/measure.h"
#include "support/thread_team.h"

namespace {

// At least 8 bytes, with a mark at the front and, from 16 on, at the end.
struct Text {
  char* bytes;
  std::uint32_t size;
  std::uint32_t mark;
};

struct Header {
  Header* next;
  Text name, value;
};

struct Row {
  Row* next;
  Text columns[3];
  std::uint64_t id;
};

struct Session {
  std::uint64_t id;
  Text user, token, basket;
};

struct Response {
  Text body;
};

struct Tally {
  std::uint64_t checksum = 0;
  long allocations = 0, broken = 0;
};

// What a request takes from malloc and gives back.
class Memory {
 public:
  Memory(std::uint64_t request, Tally& tally)
      : mark_(static_cast<std::uint32_t>(request * 0x9E3779B1u)), tally_(tally) {}

  template <class T> T* make() {
    ++tally_.allocations;
    return static_cast<T*>(bench::must_malloc(sizeof(T)));
  }

  Text text(std::uint32_t size) {
    ++tally_.allocations;
    Text made{static_cast<char*>(bench::must_malloc(size)), size, ++mark_};
    write(made);
    return made;
  }

  // Grows as buffers do: to twice the size.
  void grow(Text& text) {
    ++tally_.allocations;
    const std::uint64_t before = word(text);
    check(text);
    text.size *= 2;
    text.bytes = static_cast<char*>(std::realloc(text.bytes, text.size));
    if (text.bytes == nullptr) bench::die("realloc");
    expect(text.bytes, before);
    write(text);
  }

  void free(Text& text) {
    check(text);
    std::free(text.bytes);
  }

 private:
  static std::uint64_t word(const Text& text) { return std::uint64_t{text.mark} << 32 | text.size; }
  void write(Text& text) {
    const std::uint64_t both = word(text);
    std::memset(text.bytes + text.size / 2, 'x', text.size - text.size / 2);
    if (text.size >= 16) std::memcpy(text.bytes + text.size - 8, &both, 8);
    std::memcpy(text.bytes, &both, 8);
    bench::escape(text.bytes);
  }
  void expect(const char* place, std::uint64_t word) {
    std::uint64_t found;
    std::memcpy(&found, place, 8);
    tally_.broken += found == word ? 0 : 1;
  }
  void check(const Text& text) {
    expect(text.bytes, word(text));
    if (text.size >= 16) expect(text.bytes + text.size - 8, word(text));
  }

  std::uint32_t mark_;  // of the last text: another for each, as far as 32 bits go
  Tally& tally_;
};

class Server {
 public:
  explicit Server(std::size_t sessions) : sessions_(sessions), outbox_(kOutbox) {}

  void serve(std::uint64_t number, Tally& tally) {
    bench::Random random(number + 1);
    Memory memory(number, tally);
    Text input = memory.text(4096);
    Header* headers = parse_headers(memory, random);
    Text body = memory.text(64);
    for (std::uint64_t n = random.below(8); n > 4; --n) memory.grow(body);
    Row* rows = fetch_rows(memory, random, 2 + random.below(6));
    Response* response = build_response(memory, random);
    tally.checksum += random.next();
    if (random.below(16) == 0) log_in(memory, random, number);

    while (rows != nullptr) {
      Row* gone = std::exchange(rows, rows->next);
      for (Text& column : gone->columns) memory.free(column);
      std::free(gone);
    }
    memory.free(body);
    while (headers != nullptr) {
      Header* gone = std::exchange(headers, headers->next);
      memory.free(gone->name);
      memory.free(gone->value);
      std::free(gone);
    }
    memory.free(input);
    // Left for whoever comes by next.
    if (random.below(4) == 0) response = outbox_[random.below(kOutbox)].exchange(response, std::memory_order_acq_rel);
    drop(memory, response);
  }

  void close(Tally& tally) {
    Memory memory(0, tally);
    for (auto& place : sessions_) drop(memory, place.exchange(nullptr));
    for (auto& place : outbox_) drop(memory, place.exchange(nullptr));
  }

 private:
  static constexpr std::size_t kOutbox = 256;

  static Header* parse_headers(Memory& memory, bench::Random& random) {
    Header* headers = nullptr;
    for (std::uint64_t n = 8 + random.below(9); n > 0; --n) {
      auto* header = memory.make<Header>();
      const std::uint64_t bits = random.next();
      *header = {headers, memory.text(8 + (bits & 15)), memory.text(8 + (bits >> 8 & ((bits & 0x80) != 0 ? 31 : 255)))};
      headers = header;
    }
    return headers;
  }

  static Row* fetch_rows(Memory& memory, bench::Random& random, std::uint64_t count) {
    Row* rows = nullptr;
    for (; count > 0; --count) {
      auto* row = memory.make<Row>();
      const std::uint64_t bits = random.next();
      *row = {rows,
              {memory.text(8 + (bits & 31)), memory.text(16 + (bits >> 8 & 63)), memory.text(32 + (bits >> 16 & 511))},
              count};
      rows = row;
    }
    return rows;
  }

  // From 256 bytes to 32 KiB, small ones more often.
  static Response* build_response(Memory& memory, bench::Random& random) {
    auto* response = memory.make<Response>();
    response->body = memory.text(256);
    for (std::uint64_t coins = random.next() | 0x80; (coins & 1) == 0; coins >>= 1) memory.grow(response->body);
    return response;
  }

  void log_in(Memory& memory, bench::Random& random, std::uint64_t number) {
    auto* session = memory.make<Session>();
    const std::uint64_t bits = random.next();
    *session = {number, memory.text(8 + (bits & 31)), memory.text(64), memory.text(64 + (bits >> 8 & 1023))};
    drop(memory, sessions_[random.below(sessions_.size())].exchange(session, std::memory_order_acq_rel));
  }

  static void drop(Memory& memory, Session* session) {
    if (session == nullptr) return;
    for (Text* text : {&session->basket, &session->token, &session->user}) memory.free(*text);
    std::free(session);
  }
  static void drop(Memory& memory, Response* response) {
    if (response == nullptr) return;
    memory.free(response->body);
    std::free(response);
  }

  bench::MappedArray<std::atomic<Session*>> sessions_;
  bench::MappedArray<std::atomic<Response*>> outbox_;
};

}  // namespace

int main(int argc, char** argv) {
  const auto threads = static_cast<std::size_t>(bench::number_argument(argc, argv, "threads", 1));
  const auto requests =
      static_cast<std::size_t>(bench::scaled(argc, argv, bench::number_argument(argc, argv, "requests", 400'000)));
  Server server(static_cast<std::size_t>(bench::number_argument(argc, argv, "sessions", 20'000)));
  bench::MappedArray<bench::Padded<Tally>> tallies(threads);
  bench::ThreadTeam team(threads);
  bench::Stopwatch watch;
  team.run(watch, [&](std::size_t thread) {
    for (std::size_t number = thread; number < requests; number += threads) server.serve(number, tallies[thread].value);
  });
  Tally all;
  server.close(all);
  for (const auto& one : tallies) {
    all.checksum += one.value.checksum;
    all.allocations += one.value.allocations;
    all.broken += one.value.broken;
  }
  if (all.broken != 0) {
    std::fprintf(stderr, "%ld texts are not what was written\n", all.broken);
    return 1;
  }
  const auto ops = static_cast<double>(requests);
  bench::report("server", ops, watch, all.checksum, {{"allocations_each", static_cast<double>(all.allocations) / ops}});
}
