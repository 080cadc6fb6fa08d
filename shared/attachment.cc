// SPDX-License-Identifier: MIT
//
// Orders    [R1] open publishes that the words of frames in the tables have memory; [A1] who uses these sees it
#include "shared/attachment.h"

#include <errno.h>

#include <new>

#include "os/process.h"

namespace freeway::shared {

namespace file = shared_file;

namespace {

// The word of a process's token: address of the pulse's mapping | token + 1; 0: it has none.
constexpr u64 kNumbers = 4 * kKiB;  // below the address of a page
static_assert(participant::kTokens < kNumbers);
u32 token_of(u64 word) { return static_cast<u32>(word % kNumbers - 1); }
uptr pulse_of(u64 word) { return align_down(word, kNumbers); }

}  // namespace

// --- Making and attaching. -------------------------------------------------------------------------------------------

long Attachment::create(int fd, u64 capacity, u32 seats, Attachment*& made) {
  file::Facts facts;
  if (const long error = file::find_facts(fd, facts); error != 0) return error;
  if (!facts.regular) return -EINVAL;
  if (!file::is_for_both(fd)) return -EACCES;  // which open_again would not say: /proc asks for the rights to the file
  const long own = file::open_again(fd);
  if (own < 0) return own;
  const Constants constants = lay_out(static_cast<u32>(ceil_div(capacity, kFrameSize)), seats);
  long error = file::lock(static_cast<int>(own), kMakingLock);
  if (error == -EAGAIN) error = -EBUSY;
  if (error == 0) error = lay_down(static_cast<int>(own), facts, constants);
  if (error == 0) error = begin(fd, facts, constants, made);
  if (error == 0 && (error = finish(static_cast<int>(own), constants)) != 0) made->detach();
  file::close(static_cast<int>(own));
  return error;
}

// All but the magic number. Who fails, or is killed, before that leaves kMagicMaking, and the next one begins again.
long Attachment::lay_down(int fd, const file::Facts& facts, const Constants& constants) {
  u64 magic = 0;
  if (const long bytes = file::read(fd, &magic, sizeof(magic), 0); bytes < 0) return bytes;
  file::Facts now = facts;
  if (const long error = file::find_facts(fd, now); error != 0) return error;
  if (now.bytes != 0 && magic != kMagicMaking) return -EEXIST;
  if (const long kept = file::keeps_locks(fd, kTryLock); kept != 1) return kept < 0 ? kept : -ENOLCK;
  magic = kMagicMaking;
  if (const long bytes = file::write(fd, &magic, sizeof(magic), 0); bytes < 0) return bytes;
  if (const long error = file::clear(fd, sizeof(magic), now.bytes, constants.file_bytes); error != 0) return error;
  uptr header;
  if (const long error = file::map(fd, sizeof(Header), 0, header); error != 0) return error;
  const bool room = file::reserve(fd, facts, header, 0, sizeof(Header));
  file::unmap(header, align_up(sizeof(Header), kPartAlignment));
  if (!room) return -ENOSPC;
  const auto* rest = reinterpret_cast<const char*>(&constants) + sizeof(magic);
  const long bytes = file::write(fd, rest, sizeof(constants) - sizeof(magic), sizeof(magic));
  return bytes < 0 ? bytes : 0;
}

// From here on it is a heap. Sealed afterwards: a file that counts as empty must be able to get another length.
long Attachment::finish(int fd, const Constants& constants) {
  const long bytes = file::write(fd, &constants.magic, sizeof(constants.magic), 0);
  if (bytes < 0) return bytes;
  file::seal_length(fd);
  return 0;
}

long Attachment::attach(int fd, Attachment*& made) {
  file::Facts facts;
  if (const long error = file::find_facts(fd, facts); error != 0) return error;
  if (!facts.regular) return -EINVAL;
  Constants constants = {};
  const long read = file::read(fd, &constants, sizeof(constants), 0);
  if (read < 0) return read;
  switch (judge(constants, static_cast<u64>(read), facts.bytes)) {
    case Verdict::kRight:
      file::seal_length(fd);  // who made it may have been killed before
      return begin(fd, facts, constants, made);
    case Verdict::kOtherLayout: return -ENOTSUP;
    default: return -EINVAL;
  }
}

// `constants` were judged to be right.
long Attachment::begin(int fd, const file::Facts& facts, const Constants& constants, Attachment*& made) {
  const long kept = file::keep(fd);
  if (kept < 0) return kept;
  uptr base;
  long error = file::map(fd, constants.file_bytes, kBefore, base);
  if (error == 0) {
    error = file::open_private(base - kBefore, kBeforeOwn, /*wiped=*/false);
    if (error == 0) error = file::open_private(base - kBeforeOwn, kBeforeOwn, /*wiped=*/true);
    if (error != 0) file::unmap(base - kBefore, kBefore + constants.file_bytes);
  }
  if (error != 0) {
    file::close(static_cast<int>(kept));
    return error;
  }
  auto* attachment = new (reinterpret_cast<void*>(base - kBefore)) Attachment;
  const auto at = [base](u64 offset) { return reinterpret_cast<void*>(base + offset); };
  Tables& t = attachment->tables_;
  t.entries = static_cast<Env::Atomic<u64>*>(at(constants.entries));
  t.bits = static_cast<Env::Atomic<u64>*>(at(constants.bits));
  t.states = static_cast<Env::Atomic<u8>*>(at(constants.states));
  t.hints = static_cast<Env::Atomic<u64>*>(at(constants.hints));
  t.slabs = static_cast<Tables::Slab*>(at(constants.slabs));
  t.data_at = constants.data;
  t.capacity = constants.frames;
  t.seats = constants.seats;
  t.backing = static_cast<Env::Atomic<u8>*>(at(constants.backing));
  attachment->base_ = base;
  attachment->file_bytes_ = constants.file_bytes;
  attachment->fd_ = static_cast<int>(kept);
  attachment->facts_ = facts;
  t.participants = attachment->header().participants;
  // What the dead left may be all the memory, or all the seats, that there is.
  const Answer recovered = attachment->reserve(at(0), sizeof(Header)) ? attachment->recover() : Answer{0, ENOMEM};
  if (recovered.error != 0 && recovered.error != EAGAIN) {
    attachment->detach();
    return -recovered.error;
  }
  if (attachment->own().token.load_relaxed() == 0) {
    attachment->detach();
    return -EAGAIN;
  }
  made = attachment;
  return 0;
}

void Attachment::detach() {
  leave_idle_seats();
  const uptr pulse = pulse_of(own().token.load_relaxed()), place = base_ - kBefore;
  const u64 bytes = kBefore + file_bytes_;
  if (is_same_file()) file::close(fd_);
  file::unmap(place, bytes);  // and with it this object
  if (pulse != 0) file::end_pulse(pulse);
}

// --- Memory. ---------------------------------------------------------------------------------------------------------

bool Attachment::reserve(const void* address, u64 bytes) const {
  const uptr at = reinterpret_cast<uptr>(address);
  return file::reserve(fd_, facts_, at, at - base_, bytes);
}

u32 SharedWorld::frames() {
  const u64 open = attachment.header().open.load_acquire();  // [A1] pairs with [R1]
  return open < tables.capacity ? static_cast<u32>(open) : tables.capacity;
}

bool SharedWorld::grow(u32 n) {
  const u32 open = frames(), room = tables.capacity - open;
  if (room == 0 || n > tables.capacity) return false;
  const u32 wanted = n > Attachment::kChunk ? n : Attachment::kChunk, more = wanted < room ? wanted : room,
            end = open + more;
  if (!attachment.reserve(&tables.entries[open], more * sizeof(u64)) ||
      !attachment.reserve(&tables.backing[open], more))
    return false;
  for (u32 c = 0; c < Shape::kClasses; ++c)
    if (!attachment.reserve(&tables.hint(c, open), (u64{end - 1} / 64 - open / 64 + 1) * sizeof(u64))) return false;
  u64 seen = open;
  while (seen < end && !attachment.header().open.cas_release(seen, end)) continue;  // [R1] pairs with [A1]
  return true;
}

bool SharedWorld::back(u32 first, u32 n) {
  return attachment.reserve(attachment.address_of(tables.offset_of(first)), u64{n} << kFrameShift);
}

bool SharedWorld::back_tables(u32 f) {
  auto& backing = tables.backing[f];
  if ((backing.load_relaxed() & backing::kTables) != 0) return true;
  if (!attachment.reserve(&tables.word(f, 0), Shape::kWords * sizeof(u64)) ||
      !attachment.reserve(&tables.state(f, 0), Shape::kBlocks))
    return false;
  backing.store_relaxed(backing.load_relaxed() | backing::kTables);
  return true;
}

Punched SharedWorld::punch(u32 first, u32 n) {
  const u64 bytes = u64{n} << kFrameShift;
  const long result = file::punch(reinterpret_cast<uptr>(attachment.address_of(tables.offset_of(first))), bytes);
  if (result == -EINVAL || result == -EOPNOTSUPP) return Punched::kNothing;
  if (result != 0) return Punched::kFailed;
  given_back += bytes;
  return Punched::kDone;
}

bool SharedWorld::is_punched_at_once(u32 n) { return n >= Attachment::kPunchedAtOnce; }

// A slot of the program's; it has memory as long as the block is there that it lies in.
SharedWorld::Env::Atomic<u64>* SharedWorld::slot(u64 offset) {
  if (offset % sizeof(u64) != 0 || !Heap<SharedWorld>(*this).is_in_live_block(offset) ||
      !Backing(*this).has_all(static_cast<u32>(tables.frame_of(offset))))
    return nullptr;
  return static_cast<Env::Atomic<u64>*>(attachment.address_of(offset));
}

// --- Who is there. ---------------------------------------------------------------------------------------------------

bool SharedWorld::gone(u32 token) { return attachment.is_gone(token); }

// A program that closes descriptors that are not its own may have put another file in the place of ours.
bool Attachment::is_same_file() const {
  file::Facts now;
  return file::find_facts(fd_, now) == 0 && now.is_same(facts_);
}

bool Attachment::is_gone(u32 token) const {
  const u64 mine = own().token.load_relaxed();
  if (mine != 0 && token_of(mine) == token) return false;
  return file::is_locked(fd_, kTokenLocks + token) == 0 && is_same_file();
}

bool Attachment::is_named(u32 token) const {
  for (u32 seat = 1; seat <= tables_.seats; ++seat) {
    const u64 word = tables_.participant(seat).load_relaxed();
    if (participant::kind(word) == participant::Kind::kAlive && participant::token(word) == token) return true;
  }
  return false;
}

// A token that is nobody's, with its lock for the description of `fd`; or a negative errno.
long Attachment::lock_token(int fd) const {
  for (u32 token = 0; token < participant::kTokens; ++token) {
    if (is_named(token)) continue;
    const long error = file::lock(fd, kTokenLocks + token);
    if (error == -EAGAIN) continue;
    if (error != 0) return error;
    if (!is_named(token)) return token;
    file::unlock(fd, kTokenLocks + token);  // of one who has just died
  }
  return -EAGAIN;
}

long Attachment::token() {
  auto& word = own().token;
  u64 seen = word.load_relaxed();
  if (seen == 0) {
    if (!is_same_file()) return -EBADF;
    file::Pulse pulse;
    if (const long error = file::make_pulse(fd_, pulse); error != 0) return error;
    long token = lock_token(pulse.fd);
    file::close(pulse.fd);
    if (token >= 0 && file::is_locked(fd_, kTokenLocks + static_cast<u64>(token)) != 1)
      token = -ENOLCK;  // keeps_locks()
    const u64 mine = pulse.mapping | (static_cast<u64>(token) + 1);
    if (token >= 0 && word.cas_relaxed(seen, mine)) return token;
    file::end_pulse(pulse.mapping);
    if (token < 0 && seen == 0) return token;
  }
  return token_of(seen);
}

// --- Seats. ----------------------------------------------------------------------------------------------------------

// Sits down at a seat where nobody is, or at one whose participant is gone, which is cleaned up; 0: there is none.
u32 Attachment::join(u32 token, bool left_behind) {
  for (u32 seat = 1; seat <= tables_.seats; ++seat) {
    const u64 word = tables_.participant(seat).load_relaxed();
    if (left_behind != (participant::kind(word) != participant::Kind::kNone)) continue;
    if (!reserve(&tables_.slab(seat), sizeof(Tables::Slab))) continue;
    SharedWorld view = world();
    if (Heap<SharedWorld>(view).join(seat, token)) return seat;
  }
  return 0;
}

Attachment::Seated Attachment::sit() {
  const u64 hint = process::thread_hash();
  if (const Pool::Taken taken = own().seats.take(hint); taken.seat != 0) return {taken, 0};
  const long mine = token();
  if (mine < 0) return {{}, static_cast<int>(-mine)};
  u32 seat = join(static_cast<u32>(mine), /*left_behind=*/false);
  if (seat == 0) seat = join(static_cast<u32>(mine), /*left_behind=*/true);
  if (seat == 0) return {{}, EAGAIN};
  const Pool::Taken taken = own().seats.add(seat, hint);
  if (taken.seat != 0) return {taken, 0};
  SharedWorld view = world();
  Heap<SharedWorld>(view).leave(seat);
  return {{}, EAGAIN};
}

template <class F> Attachment::Answer Attachment::with_seat(F&& f) {
  const Seated seated = sit();
  if (seated.error != 0) return {0, seated.error};
  const Answer answer = f(seated.taken.seat);
  own().seats.give(seated.taken);
  return answer;
}

void Attachment::leave_idle_seats() {
  SharedWorld view = world();
  for (u32 i = 0; i < tables_.seats; ++i) {
    const Pool::Taken taken = own().seats.take(i);
    if (taken.seat == 0) return;
    own().seats.remove(taken);
    Heap<SharedWorld>(view).leave(taken.seat);
  }
}

// --- Calls. ----------------------------------------------------------------------------------------------------------

template <class F> Attachment::Answer Attachment::with_memory(F&& f) {
  const Answer answer = with_seat(f);
  if (answer.error != ENOMEM) return answer;
  leave_idle_seats();
  recover();
  return with_seat(f);
}

Attachment::Answer Attachment::allocate(std::size_t bytes, std::size_t alignment) {
  if (bytes > file_bytes_) return {0, ENOMEM};
  SharedWorld view = world();
  return with_memory([&](u32 seat) -> Answer {
    const u64 offset = Heap<SharedWorld>(view).malloc(seat, bytes, alignment);
    return {offset, offset == 0 ? ENOMEM : 0};
  });
}

Attachment::Answer Attachment::allocate_into(u64 slot, std::size_t bytes) {
  SharedWorld view = world();
  if (view.slot(slot) == nullptr) return {0, EINVAL};
  if (bytes > file_bytes_) return {0, ENOMEM};
  return with_memory([&](u32 seat) -> Answer {
    const u64 offset = Heap<SharedWorld>(view).alloc_into(seat, slot, bytes);
    return {offset, offset == 0 ? ENOMEM : 0};
  });
}

namespace {

int error_of(Freed freed) { return freed == Freed::kDone ? 0 : freed == Freed::kNotLive ? EALREADY : EINVAL; }

}  // namespace

int Attachment::free(u64 offset) {
  SharedWorld view = world();
  return with_seat([&](u32 seat) -> Answer { return {0, error_of(Heap<SharedWorld>(view).free(seat, offset))}; }).error;
}

int Attachment::free_from(u64 slot) {
  SharedWorld view = world();
  const auto* word = view.slot(slot);
  if (word == nullptr) return EINVAL;
  if (word->load_relaxed() == 0) return 0;
  return with_seat([&](u32 seat) -> Answer { return {0, error_of(Heap<SharedWorld>(view).free_from(seat, slot))}; })
      .error;
}

std::size_t Attachment::usable(u64 offset) {
  SharedWorld view = world();
  return Heap<SharedWorld>(view).usable(offset);
}

Attachment::Answer Attachment::recover() {
  SharedWorld view = world();
  return with_seat([&](u32 own) -> Answer {
    if (!is_same_file()) return {0, EBADF};
    u64 recovered = 0;
    for (u32 seat = 1; seat <= tables_.seats; ++seat) {
      const auto kind = participant::kind(tables_.participant(seat).load_relaxed());
      if (kind == participant::Kind::kNone || seat == own) continue;
      if (!reserve(&tables_.slab(seat), sizeof(Tables::Slab))) return {recovered, ENOMEM};
      recovered += Heap<SharedWorld>(view).recover(seat, own);
    }
    return {recovered, 0};
  });
}

Attachment::Answer Attachment::trim() {
  leave_idle_seats();
  SharedWorld view = world();
  return with_seat([&](u32 seat) -> Answer {
    for (u32 f = 0; f < view.frames(); ++f) Heap<SharedWorld>(view).trim(seat, f);
    return {view.given_back, 0};
  });
}

Audit Attachment::audit() {
  SharedWorld view = world();
  return Heap<SharedWorld>(view).audit();
}

Attachment::Counts Attachment::count() {
  Counts counts = {};
  SharedWorld view = world();
  for (u32 f = 0; f < view.frames(); ++f)
    if (Backing(view).has_some(f)) counts.backed += kFrameSize;
  for (u32 seat = 1; seat <= tables_.seats; ++seat) {
    const u64 word = tables_.participant(seat).load_relaxed();
    if (participant::kind(word) == participant::Kind::kNone) continue;
    ++counts.seats;
    counts.seats_dead += participant::kind(word) == participant::Kind::kRecovering || participant::is_unsettled(word) ||
                         view.gone(participant::token(word));
  }
  for (u32 token = 0; token < participant::kTokens; ++token)
    counts.attached += file::is_locked(fd_, kTokenLocks + token) == 1;
  if (is_same_file()) return counts;
  // Nobody can be asked for locks: who has a seat counts, and this process.
  counts.attached = 0;
  const u64 mine = own().token.load_relaxed();
  for (u32 token = 0; token < participant::kTokens; ++token)
    counts.attached += (mine != 0 && token_of(mine) == token) || is_named(token);
  return counts;
}

}  // namespace freeway::shared
