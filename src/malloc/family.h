// SPDX-License-Identifier: MIT
// family.h: the malloc family as plain functions, for the exported names (src/abi). Freeway's are in this folder; a
// paper's library has a set of its own (papers/front/family.cc) in their place.
//
// Who may call  any thread, any signal handler, the child of any fork
// Sizes are bytes. `caller` is the return address that reports name. A block that is refused is null, with errno ENOMEM
#pragma once

#include <cstddef>

#include "base/compiler.h"
#include "base/integers.h"
#include "freeway/freeway.h"
#include "look/summary.h"

namespace freeway::family {

// Initialises what can be by now. False: there is no memory to begin with.
bool start();
// At exit: writes the dump and the statistics that the environment asked for.
void finish();

void* allocate_aligned(std::size_t bytes, std::size_t alignment, const void* caller);  // alignment: a power of two
void* allocate_zeroed(std::size_t bytes, const void* caller);
// The block and its size, which sized frees may name; null and 0 where memory is refused.
freeway_sized_block_t allocate_at_least(std::size_t bytes, std::size_t alignment, const void* caller);
// Bytes of the block for a request, 0 where none can be. Initialises nothing.
std::size_t bytes_for(std::size_t bytes, std::size_t alignment);
void* reallocate(void* block, std::size_t bytes, const void* caller);
void free(void* block, const void* caller);
// The same, and reports a size that the block cannot have (malloc/sizes.h); `alignment`: 1 if none is named.
void free_sized(void* block, std::size_t bytes, std::size_t alignment, bool may_be_resized, const void* caller);
std::size_t usable_size(const void* block, const void* caller);
std::size_t allocate_batch(std::size_t bytes, std::size_t count, void** blocks);
// `blocks` cannot be an array of `count` pointers: reports it.
void bad_batch(std::size_t count, const void* blocks, const void* caller);

// Gives memory without live blocks back, keeping about `keep` bytes ready; bytes given back.
std::size_t trim(std::size_t keep);
// The same piece by piece: about `most` bytes, or as much work as they would be; 0: there is nothing more, else at
// least 1.
std::size_t trim_step(std::size_t most);
// The thread is about to sleep: gives back the memory that the purge policy lets go, and its cache's if that is idle.
void idle();
// Makes memory ready for `count` blocks of so many bytes; for how many it is.
std::size_t reserve(std::size_t bytes, std::size_t count);
// See freeway_set_limit; limits that it allows. 0 or an error's number.
int set_limit(std::size_t soft, std::size_t hard);
// From now on nothing goes back but by trims (true), or what FREEWAY_PURGE says. Initialises nothing.
void keep_freed(bool keep);

// See freeway_profile_start, _stop; an error's number.
int begin_profile(u64 interval);
void end_profile();

void fill_stats(freeway_stats_t& stats);
void fill_audit(freeway_audit_t& audit);
u64 huge_blocks();
void explain(uptr address, freeway_explanation_t& explanation);
// Facts about the live block that begins at the address; all 0 if none does. Whether moving it would help.
void block_info(uptr address, freeway_block_info_t& info);
bool should_move(uptr address);
void write_summary(int fd);

void each_class(TakeClass* take, void* to);

}  // namespace freeway::family
