// SPDX-License-Identifier: MIT
// Attachment: what a process has of a shared heap: the file at some address, a token, seats.
//
// It lies right in front of the file's mapping, at the same distance in every process: so what lies in the file can
// name it (freeway/shared.hpp). Part of it is wiped in the child of a fork: a child has its parent's mapping, and
// neither its token nor its seats. It gets its own when it first needs them.
//
// Words     token: 0 -> address of the pulse's mapping | token + 1 (CAS), in memory that a fork wipes. Who comes too
//           late ends his own pulse. The lock on that byte of the file (shared/file.h) is the process's while it lives
//           open (layout.h): number of frames -> more (CAS), after their words in the tables have memory
// Invariant a token is taken by who has its lock and then sees no participant's word that names it. So the token of a
//           dead process is nobody's until its seats are cleaned up
// Who       any thread, any signal handler, the child of any fork; create, attach and detach are one thread's
// Orders    open publishes that the words have memory (attachment.cc); tokens publish nothing
// Progress  lock-free       Lost if killed: nothing. A thread that vanishes may leave a descriptor and a mapping
// Checked   shared/tests
#pragma once

#include "shared/file.h"
#include "shared/heap.h"
#include "shared/layout.h"
#include "shared/seat_pool.h"

namespace freeway::shared {

class Attachment;

// The World that the protocol is built on (tables.h): an attachment, for one call.
struct SharedWorld {
  using Env = Machine;
  using Shape = FlagshipShape;
  using Tables = FileTables;

  const Tables& tables;
  Attachment& attachment;
  u64 given_back = 0;  // bytes that went back to the system

  bool gone(u32 token);
  u32 frames();
  bool grow(u32 n);
  bool back(u32 first, u32 n);
  bool back_tables(u32 f);
  Punched punch(u32 first, u32 n);
  bool is_punched_at_once(u32 n);
  Env::Atomic<u64>* slot(u64 offset);
};

class Attachment {
 public:
  using Env = Machine;
  using Tables = FileTables;

  // Makes a heap of so many bytes and seats in the empty file, and attaches it. 0 or a negative errno.
  static long create(int fd, u64 capacity, u32 seats, Attachment*& made);
  static long attach(int fd, Attachment*& made);
  void detach();

  // --- Calls. --------------------------------------------------------------------------------------------------------
  // What a call yields, or a positive errno.
  struct Answer {
    u64 value;
    int error;
  };
  // Offsets of blocks, and of slots, in the file.
  Answer allocate(std::size_t bytes, std::size_t alignment);
  Answer allocate_into(u64 slot, std::size_t bytes);
  int free(u64 offset);
  int free_from(u64 slot);
  std::size_t usable(u64 offset);
  // How many seats were cleaned up.
  Answer recover();
  // How many bytes went back to the system.
  Answer trim();
  Audit audit();

  struct Counts {
    u64 backed;  // bytes of frames that may have memory
    u32 seats, seats_dead, attached;
  };
  Counts count();

  // 0: it is not in the part for blocks.
  u64 offset_of(const void* address) const {
    const u64 offset = reinterpret_cast<uptr>(address) - base_;
    return is_in_data(offset) ? offset : 0;
  }
  bool is_in_data(u64 offset) const { return offset >= tables_.data_at && offset < file_bytes_; }
  void* address_of(u64 offset) const { return reinterpret_cast<void*>(base_ + offset); }
  Roots<Env>& roots() const { return header().roots; }
  const Tables& tables() const { return tables_; }

 private:
  friend struct SharedWorld;
  using Pool = SeatPool<Env>;
  struct Own {  // wiped in the child of a fork
    Env::Atomic<u64> token;
    Pool seats;
  };
  // In front of the file: Attachment, then Own; each has whole pages, of whatever size.
  static constexpr std::size_t kBeforeOwn = 64 * kKiB, kBefore = 2 * kBeforeOwn;
  static constexpr u32 kChunk = 1024;        // frames that are opened at once
  static constexpr u32 kPunchedAtOnce = 32;  // a run of so many frames goes back to the system when it is freed
  static_assert(sizeof(Own) <= kBeforeOwn);

  static long lay_down(int fd, const shared_file::Facts& facts, const Constants& constants);
  static long finish(int fd, const Constants& constants);
  static long begin(int fd, const shared_file::Facts& facts, const Constants& constants, Attachment*& made);

  Header& header() const { return *reinterpret_cast<Header*>(base_); }
  Own& own() const { return *reinterpret_cast<Own*>(base_ - kBeforeOwn); }
  SharedWorld world() { return {tables_, *this}; }

  // What is in the file at `address` gets its memory.
  bool reserve(const void* address, u64 bytes) const;

  bool is_same_file() const;
  bool is_named(u32 token) const;
  bool is_gone(u32 token) const;
  // The token, or a negative errno.
  long token();
  long lock_token(int fd) const;

  // A seat for a call; error: a positive errno.
  struct Seated {
    Pool::Taken taken;
    int error;
  };
  Seated sit();
  u32 join(u32 token, bool left_behind);
  // f(seat), for as long as the call has one.
  template <class F> Answer with_seat(F&& f);
  // The same; where there is no memory, once more with what nobody uses.
  template <class F> Answer with_memory(F&& f);
  // All seats that no call has go back, with their magazines.
  void leave_idle_seats();

  Tables tables_;
  uptr base_;  // of the file
  u64 file_bytes_;
  int fd_;
  shared_file::Facts facts_;
};

}  // namespace freeway::shared
