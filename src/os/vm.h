// SPDX-License-Identifier: MIT
// vm.h: Freeway's whole contract with the kernel about memory.
//
// Address space is chosen (nothing is there) and extended piece by piece, or reserved (no memory, not accessible) and
// committed; both make it accessible, zero until written. It is purged (accessible and zero again, its memory given
// back) and released. All sizes are bytes and multiples of the page size; all functions
// are signal-safe, keep errno, and report failure, which every caller must expect (ENOMEM at any moment).
#pragma once

#include "base/compiler.h"
#include "base/space.h"

namespace freeway {
struct Machine;
template <class Env> class Once;
}  // namespace freeway

namespace freeway::vm {

// The window's base | bits of addresses (os/window.h); 0: nothing was mapped yet; 1: there is none. For readers in
// other processes.
extern FREEWAY_HIDDEN Once<Machine> window_word;

// The kernel's page size in bytes (4, 16 or 64 KiB).
std::size_t page_size();

// `bytes` of address space for a range that grows, aligned to `alignment` (a power of two >= 64 KiB): as a rule a place
// in the window that no other range of ours was given (os/window.h); if there is no window, a reservation. None if
// refused.
Space space(std::size_t bytes, std::size_t alignment);
// Whether space() chooses places, rather than reserving them.
bool has_window();
// Maps a piece of such a place, accessible and zero. kOccupied: something is mapped in it, and nothing was changed.
Extended extend(uptr address, std::size_t bytes);
// `bytes` of address space aligned to `alignment` (a power of two >= 64 KiB), not accessible; 0 if refused.
uptr reserve(std::size_t bytes, std::size_t alignment);
// The same, accessible and zero.
uptr map(std::size_t bytes, std::size_t alignment);

// Makes reserved memory accessible. Idempotent: committing twice changes nothing.
bool commit(uptr address, std::size_t bytes);
// Makes memory inaccessible; its contents stay.
bool forbid(uptr address, std::size_t bytes);
// Gives the memory back to the kernel; it reads as zero afterwards. False: the contents are unchanged. (Locked memory
// is given back from Linux 5.18 on; it stays locked: pages that are touched again stay in memory again.)
bool purge(uptr address, std::size_t bytes);
// Asks for huge pages where the range allows them, or for small ones; hints.
void prefer_huge(uptr address, std::size_t bytes);
void forbid_huge(uptr address, std::size_t bytes);
// Whether the kernel gives huge pages, but only on request (read as below), and they are 2 MiB.
bool huge_on_request();
// Asks for small pages only where the system's default is huge ones (read once from /sys; a thread that is killed while
// it reads leaves a file descriptor open); a hint.
void prefer_small(uptr address, std::size_t bytes);
// Gives the accessible range, which the caller owns, its memory now, so that touching it later causes no page faults.
// Contents stay. False: not all of the memory could be had.
bool populate(uptr address, std::size_t bytes);
// The same with huge pages if they can be had, or with small ones. Returns the ns that took. Later memory of the range
// comes in small pages.
u64 populate_huge(uptr address, std::size_t bytes);
u64 populate_small(uptr address, std::size_t bytes);
// The number of bytes of the range that are resident now.
std::size_t resident(uptr address, std::size_t bytes);
// Ends the mapping. False (at the mapping limit): it is still there.
bool release(uptr address, std::size_t bytes);
// Whether it is worth trying to move a mapping that becomes so much longer: the kernel would give that much more memory
// at this moment, and has not refused moves too often in a way that costs address space (below).
bool can_move(std::size_t more_bytes);
// Moves a mapping onto reserved address space, which it replaces. False: `from` is as it was, and `to` is no longer the
// caller's. Kernels end the reservation before they find a reason to refuse, and then another thread may have the place
// already: the caller must not release it. (If the kernel refuses earlier, as at the mapping limit, the reservation
// stays: address space is lost, no memory.)
bool move(uptr from, std::size_t old_bytes, uptr to, std::size_t new_bytes);
// The same for a part of a mapping, which stays accessible where it was and reads as zero afterwards. Not offered
// before Linux 5.7, nor for locked memory.
bool move_out(uptr from, std::size_t bytes, uptr to);
// Changes the size of a mapping where it is. False: nothing changed.
bool resize(uptr address, std::size_t old_bytes, std::size_t new_bytes);
enum class Answer { kDone, kRefused, kNotOffered };  // kRefused: this time
// Asks for memory that reads as zero in a forked child. Not offered before Linux 4.14.
Answer wipe_on_fork(uptr address, std::size_t bytes);

}  // namespace freeway::vm
