/* SPDX-License-Identifier: MIT
 *
 * freeway.h: Freeway's own interface.
 *
 * Two uses. (1) Beside another malloc: every function of <stdlib.h>'s family has a `freeway_` twin here. A block must
 * be freed by the allocator that made it. (2) With libfreeway.so preloaded or linked as *the* malloc: the twins and the
 * standard names are the same functions, and the calls for statistics, trimming and auditing at the end of this file
 * are about the whole process.
 *
 * Unless a comment says otherwise a function here is lock-free, may be called from any thread and from any signal
 * handler (it never takes a lock, not even the C library's), and may be called in the child of a threaded fork.
 * Sizes are bytes. All blocks are aligned to 16 bytes.
 */
#ifndef FREEWAY_FREEWAY_H
#define FREEWAY_FREEWAY_H

#include <malloc.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define FREEWAY_VERSION_MAJOR 0
#define FREEWAY_VERSION_MINOR 2
#define FREEWAY_VERSION_PATCH 0

#if defined(__cplusplus)
#define FREEWAY_NOEXCEPT noexcept
extern "C" {
#else
#define FREEWAY_NOEXCEPT
#endif

/* "0.2.0"; static storage. */
const char* freeway_version(void) FREEWAY_NOEXCEPT;

/* --- The malloc family. Each does what its namesake of ISO C, POSIX or glibc does. ------------------------------- */

/* A block of `size` bytes (0: a unique pointer that may only be freed), or NULL with errno ENOMEM. */
void* freeway_malloc(size_t size) FREEWAY_NOEXCEPT;
/* Gives `block` back; NULL does nothing. errno is kept. A pointer that is not a live block is reported
 * (docs/bad-input.md): one line on fd 2, then the process aborts; with FREEWAY_ON_ERROR=report nothing more happens. */
void freeway_free(void* block) FREEWAY_NOEXCEPT;
/* `count` * `size` zeroed bytes; NULL with ENOMEM also when the product overflows. */
void* freeway_calloc(size_t count, size_t size) FREEWAY_NOEXCEPT;
/* Resizes; contents are kept up to the smaller size. On failure NULL with ENOMEM and `block` is untouched.
 * realloc(block, 0) frees `block` and returns NULL, as glibc does. An invalid `block` is reported as by free (then NULL
 * with ENOMEM), but not looked at where the size is over PTRDIFF_MAX. */
void* freeway_realloc(void* block, size_t size) FREEWAY_NOEXCEPT;
/* realloc to `count` * `size` bytes; NULL with ENOMEM when the product overflows. */
void* freeway_reallocarray(void* block, size_t count, size_t size) FREEWAY_NOEXCEPT;
/* `alignment`: a power of two (else NULL with EINVAL, as glibc from 2.38 on). */
void* freeway_aligned_alloc(size_t alignment, size_t size) FREEWAY_NOEXCEPT;
/* `alignment`: any; rounded up to a power of two, as glibc does (over 2^63: NULL with EINVAL). */
void* freeway_memalign(size_t alignment, size_t size) FREEWAY_NOEXCEPT;
/* `alignment`: a power of two multiple of sizeof(void*), else EINVAL; EINVAL also where `result` is NULL. Returns 0,
 * EINVAL or ENOMEM (then in errno, too); on failure *result is left alone. */
int freeway_posix_memalign(void** result, size_t alignment, size_t size) FREEWAY_NOEXCEPT;
/* Page-aligned; pvalloc also rounds the size up to whole pages. */
void* freeway_valloc(size_t size) FREEWAY_NOEXCEPT;
void* freeway_pvalloc(size_t size) FREEWAY_NOEXCEPT;
/* Bytes that may be used at `block` (at least what was asked for); 0 for NULL. Any other pointer that is no block is
 * reported as by free (then 0). */
size_t freeway_malloc_usable_size(void* block) FREEWAY_NOEXCEPT;
/* C23: free with the size, or the alignment and size, that were asked for. Others are reported. */
void freeway_free_sized(void* block, size_t size) FREEWAY_NOEXCEPT;
void freeway_free_aligned_sized(void* block, size_t alignment, size_t size) FREEWAY_NOEXCEPT;

/* --- Sizes told back. -------------------------------------------------------------------------------------------- */

/* A block, and how many bytes of it may be used: at least what was asked for. The sized forms of free take every size
 * from the one that was asked for to this one. NULL and 0 where malloc would return NULL. */
typedef struct freeway_sized_block_t {
  void* ptr;
  size_t size;
} freeway_sized_block_t;

/* malloc, and aligned_alloc, that say how long the block is: the same for all small blocks of a size, and cheaper
 * than malloc_usable_size. */
freeway_sized_block_t freeway_alloc_at_least(size_t size) FREEWAY_NOEXCEPT;
freeway_sized_block_t freeway_aligned_alloc_at_least(size_t alignment, size_t size) FREEWAY_NOEXCEPT;
/* How many bytes malloc's blocks for `size` bytes have from now on; 0 where none can be so long. As jemalloc's: the low
 * 6 bits of `flags` are the binary logarithm of an alignment, the others do not matter. */
size_t freeway_nallocx(size_t size, int flags) FREEWAY_NOEXCEPT;

/* --- glibc's <malloc.h>. ----------------------------------------------------------------------------------------- */

/* Gives memory back (freeway_trim); 1 if there was some, else 0. */
int freeway_malloc_trim(size_t pad) FREEWAY_NOEXCEPT;
/* Accepts what glibc accepts (1, or 0 for a value out of range) and changes nothing: no such parameter exists here. */
int freeway_mallopt(int parameter, int value) FREEWAY_NOEXCEPT;
/* arena: bytes in superblocks, large blocks and dirty frames; ordblks: superblocks; hblks, hblkhd: huge blocks and
 * their bytes; fsmblks: bytes in magazines; uordblks: live bytes; fordblks: free but kept; keepcost: dirty frames. */
struct mallinfo2 freeway_mallinfo2(void) FREEWAY_NOEXCEPT;
/* The same in ints, which wrap beyond 2 GiB. */
struct mallinfo freeway_mallinfo(void) FREEWAY_NOEXCEPT;
/* A summary on fd 2. A full pipe may block the writer. */
void freeway_malloc_stats(void) FREEWAY_NOEXCEPT;
/* XML to `stream`: 0; EINVAL if `options` is not 0 or `stream` is NULL; EIO if writing failed. Takes stdio's lock: not
 * signal-safe. */
int freeway_malloc_info(int options, FILE* stream) FREEWAY_NOEXCEPT;

/* --- Many blocks at once. ---------------------------------------------------------------------------------------- */

/* Fills blocks[0 .. count) with blocks of `size` bytes each; returns how many were had (fewer only when memory is
 * refused; errno is then ENOMEM). 0 with EINVAL where no such array can be: `blocks` NULL, or `count` pointers more
 * than PTRDIFF_MAX bytes; `count` 0 is 0. */
size_t freeway_malloc_batch(size_t size, size_t count, void** blocks) FREEWAY_NOEXCEPT;
/* Frees blocks[0 .. count); NULLs are skipped. Blocks of different sizes may be mixed. Where no such array can be (as
 * above), that is reported as a bad pointer is, and nothing is freed. */
void freeway_free_batch(size_t count, void** blocks) FREEWAY_NOEXCEPT;

/* --- What the heap holds. ---------------------------------------------------------------------------------------- */

/* All in bytes unless a comment says otherwise. Read without stopping anybody: exact when nobody else allocates,
 * otherwise each figure was true at some moment of the call. */
typedef struct freeway_stats_t {
  size_t live;                /* blocks in the program's hands, by block size */
  size_t cached;              /* free blocks in magazines, ready for malloc */
  size_t free_in_superblocks; /* other free blocks of superblocks in use */
  size_t mapped;              /* superblocks, large and huge blocks, and free memory that is kept; address space */
  size_t dirty;               /* free memory that the kernel still backs, at most */
  size_t metadata;            /* descriptors, slabs and maps */
  size_t huge;                /* blocks with a mapping of their own */
  size_t superblocks;         /* count: superblocks in use */
  size_t live_blocks;         /* count: blocks in the program's hands */
  uint64_t slow_mallocs;      /* count so far: calls of malloc that left the fast path */
  uint64_t slow_frees;        /* count so far: calls of free that left the fast path */
  uint64_t refills;           /* count so far: batches moved from superblocks to a magazine */
  uint64_t flushes;           /* count so far: batches moved from a magazine to superblocks */
  uint64_t purges;            /* count so far: runs of frames or pages given back to the kernel */
  uint64_t purged;            /* bytes so far: memory given back to the kernel */
  size_t large;               /* live blocks that are runs of frames, over 32 KiB */
  size_t large_blocks;        /* count: these, and the huge ones */
  size_t guarded;             /* live blocks on pages of their own (FREEWAY_GUARD); part of live */
  size_t guarded_blocks;      /* count: live blocks on pages of their own */
  uint64_t guard_faults;      /* count so far: faults at or beside guarded blocks */
  size_t held;                /* what limits limit: what the kernel backs or may back (freeway_set_limit) */
  size_t soft_limit;          /* above this nothing free is kept; 0: no limit */
  size_t hard_limit;          /* beyond this nothing is asked for; 0: no limit */
  uint64_t limit_refusals;    /* count so far: what the hard limit refused: runs of frames, huge blocks and tables */
  uint64_t limit_pressures;   /* count so far: times that caches were taken apart for the soft limit */
} freeway_stats_t;

/* What FREEWAY_STATS=json:PATH writes has all of these under their names, "schema" (1; more when a name goes or changes
 * its meaning), "version", "engine", "mode", "rseq_reason" (why per-CPU caches are not used, or ""), "program", "pid",
 * "time_ns" (since 1970), "page_size", and in bytes, as jemalloc's stats.* define them:
 *     allocated   live
 *     active      pages of superblocks with live blocks or in use for malloc, and of large, huge and guarded blocks: a
 *                 multiple of the page size, at least allocated; without dirty frames and metadata (mapped without
 *                 dirty)
 *     resident    what the kernel backs with memory now, of the whole process, its code and stacks included
 *                 (/proc/self/statm, which may lag behind a little; 0 if it cannot be read). For Freeway alone: held,
 *                 an upper bound
 *     retained    address space that was made usable, has no memory now, and is kept: free frames that are not dirty
 * "classes" has an object for each size that was used: "size", "superblocks", "blocks" (count: what they have room
 * for), "live", "cached", "free" (bytes of these blocks), "waste" (bytes of the superblocks that are not live),
 * "occupancy" (how many superblocks have 0 to 10, 10 to 20, … 90 to 100 % of their blocks live or in magazines: an
 * upper bound of what is live), and "slow_mallocs", "slow_frees", "refills", "flushes". The papers' engines tell no
 * classes. */

/* Fills *stats. `size` is sizeof(freeway_stats_t) as the caller was compiled with; fields beyond it are not written,
 * nor is what the library does not know, where the caller's is the longer one. `stats` NULL: nothing. */
void freeway_stats(freeway_stats_t* stats, size_t size) FREEWAY_NOEXCEPT;

/* Gives memory that holds no live block back to the kernel: other CPUs' magazines, whole frames and pages under free
 * blocks. About `keep` bytes of free frames stay ready; pages under free blocks go in any case. Returns the bytes given
 * back. Makes system calls (membarrier, madvise) for as long as there is something to give back. Some of the papers'
 * engines do not reach what is cached for another CPU (lfmalloc) or another running thread (streamflow, hmalloc):
 * there, trim on each (GUARANTEES.md). */
size_t freeway_trim(size_t keep) FREEWAY_NOEXCEPT;

/* Limits what the heap holds of memory that the kernel backs or may back: live blocks and the rest of their
 * superblocks, free memory that is not given back yet, huge blocks, descriptors and caches. Bytes, rounded down to 64
 * KiB; 0: no limit. Above `soft` nothing free is kept, and caches are taken apart before the kernel is asked for more.
 * Beyond `hard` nothing is asked for: malloc and its like say ENOMEM; frees make room again. Holds from the call on,
 * also for calls under way; what is held already may be more. Children of a fork inherit both. Takes the place of
 * FREEWAY_LIMIT. 0; EINVAL where `soft` is above `hard`, or one of them is not 0 and less than 64 KiB; ENOMEM where
 * there is no memory to start with. Signal-safe. Makes madvise calls where more than `soft` is held. */
int freeway_set_limit(size_t soft, size_t hard) FREEWAY_NOEXCEPT;

/* Makes memory ready for `count` blocks of `size` bytes (under 256 MiB), beside what is in use. It makes and touches
 * superblocks or runs of frames, whose memory stays from then on, free or not. Then malloc and free within it make no
 * system call and no page fault, in threads that have called malloc before, on any CPU that the process may use now.
 * Blocks of other sizes may use it as well: ask for all that you need, the longest first. After a fork, first writes
 * fault again, in parent and child. Returns for how many blocks memory is ready: fewer where memory is refused, none
 * before the C library has set up the environment. Several threads may each reserve a part at the same time: as many
 * CPUs fill the pages, and the parts add up. Signal-safe. Makes mmap, madvise and membarrier calls. For no system call
 * at all later also set FREEWAY_PURGE=never. See also FREEWAY_PREFAULT. */
size_t freeway_reserve(size_t size, size_t count) FREEWAY_NOEXCEPT;

/* freeway_trim piece by piece, for event loops: stops when about `max_bytes` are returned (0 counts as one frame, 64
 * KiB), or after as much work as that would be. Returns the bytes that went back; 0: a whole round found nothing; 1: it
 * found nothing now, and the round is not over. Each call goes on where the last one stopped, whichever thread made it.
 * So what is freed behind that place is left to the next round. Signal-safe. */
size_t freeway_trim_step(size_t max_bytes) FREEWAY_NOEXCEPT;

/* A hint: the calling thread is about to sleep. Returns memory that is due by now, and empties the magazines of its CPU
 * if, as far as earlier calls know, no thread has used them for about a second. Signal-safe; usually no system call.
 * Programs under FREEWAY_BACKGROUND=1 do not need it. */
void freeway_idle(void) FREEWAY_NOEXCEPT;

/* The account of every frame of 64 KiB. Meaningful only while no other thread is inside the allocator. Threads that
 * vanished inside a call leave traces in frames_stranded, frames_held and bytes_held; without such threads these are 0.
 */
typedef struct freeway_audit_t {
  size_t frames_small;              /* frames of superblocks that a descriptor accounts for */
  size_t frames_large;              /* frames of large blocks */
  size_t frames_free;               /* frames that no one owns, of those that were made accessible */
  size_t frames_stranded;           /* frames that are marked used and belong to nothing: lost with a killed thread */
  size_t superblocks_held;          /* superblocks that a slab or a thread holds */
  size_t superblocks_held_by_slabs; /* of these, by a slab; the difference is held by threads inside a call, or lost */
  size_t superblocks_listed;        /* superblocks in a partial list */
  size_t superblocks_full;          /* superblocks without a free block */
  size_t blocks_live;               /* blocks whose bit is clear and that no magazine holds */
  size_t blocks_cached;             /* blocks in magazines */
  size_t errors;                    /* broken invariants (0 in a correct process): each is also named on fd 2 */
  size_t frames;                    /* all frames of all arenas = small + large + free + stranded + unused */
  size_t frames_unused;             /* frames that were never made accessible */
  size_t frames_live;               /* of frames_small: in superblocks with a live block */
  size_t frames_cached;             /* of frames_small: in the others, which malloc, or trimming, will find */
  size_t frames_held; /* of frames_small: in those of the others that only a thread inside a call can find, or lost */
  size_t frames_huge; /* frames of huge blocks, which are mappings beside the arenas */
  /* The flagship's: elsewhere 0, and all of frames_small are live. */
  size_t superblocks; /* superblocks in use: held, listed, full, or about to be listed by a thread inside a call */
  size_t superblocks_adrift; /* the latter, or lost */
  size_t descriptors;        /* descriptors of superblocks, in use or not */
  size_t descriptors_free;   /* of these, ready for another superblock */
  size_t slabs;              /* slabs of magazines */
  size_t slabs_held;         /* of these, in the hands of threads inside a call, or lost */
  size_t bytes_held;     /* free blocks that only a thread inside a call can find, or lost: those of superblocks that it
                              holds or is about to list, and what is cached in its slabs */
  size_t frames_dirty;   /* of frames_free: those that are dirty */
  size_t frames_tables;  /* what tables and caches are charged for (flagship) */
  size_t frames_charged; /* what limits count: small + large + huge + dirty + tables. What threads that vanished had in
                              hand may be charged or not: then it is more, or by frames_stranded less */
} freeway_audit_t;

/* Walks all metadata, checks its invariants and fills *audit (`size` as above; NULL: nothing is filled). Returns the
 * number of errors. */
size_t freeway_audit(freeway_audit_t* audit, size_t size) FREEWAY_NOEXCEPT;

/* --- Heap profiles: which stacks allocated what is live. -------------------------------------------------------- */

/* Begins a profile: from now on one in `interval` bytes that malloc and its like give out, on average, is sampled, with
 * the stack that asked for it; 1: every block is. 524288 is usual. Running threads follow at their next call. Returns
 * 0; EINVAL (0 bytes), EBUSY (a profile with another interval is being made), ENOMEM, ENOTSUP (a paper's engine). Going
 * on with the interval of the last profile adds to that one; another interval begins anew. Stacks are followed by frame
 * pointers; of programs without them 8 KiB of each kind of stack are kept and dumped, with what lies there.
 * Signal-safe. Maps memory the first time. See also FREEWAY_PROFILE. */
int freeway_profile_start(size_t interval) FREEWAY_NOEXCEPT;
/* Ends it. What was sampled stays known, and its frees are counted. Signal-safe. No system call. */
void freeway_profile_stop(void) FREEWAY_NOEXCEPT;
/* Writes the profile that is made, or was made last, to `fd`, in the text of google/pprof (freeway-profile(5)); an
 * empty one where there was none. Returns 0, or the error of a write (an errno). Signal-safe: the calls are write, and
 * open, read and close of /proc/self/maps. Beside threads that allocate each line is true at some moment of the
 * call. */
int freeway_profile_dump(int fd) FREEWAY_NOEXCEPT;
/* Sets the calling thread's tag, which goes into its samples (a request, a tenant, a component); 0 at first. Returns
 * the one before. Signal-safe, a few instructions. */
uint64_t freeway_tag(uint64_t tag) FREEWAY_NOEXCEPT;

/* --- What an address is. ----------------------------------------------------------------------------------------- */

typedef enum freeway_kind_t {
  FREEWAY_NOT_OURS = 0,      /* nothing of Freeway's */
  FREEWAY_SMALL_BLOCK = 1,   /* up to 32 KiB, among others of its size */
  FREEWAY_LARGE_BLOCK = 2,   /* over 32 KiB, or on the inaccessible page that ends it (FREEWAY_GUARD=0,large) */
  FREEWAY_GUARDED_BLOCK = 3, /* with pages of its own (FREEWAY_GUARD), or on the inaccessible page beside it */
  FREEWAY_FREE_MEMORY = 4,   /* ready for blocks: none is there */
  FREEWAY_METADATA = 5       /* what Freeway needs itself */
} freeway_kind_t;

typedef enum freeway_state_t {
  FREEWAY_STATE_UNKNOWN = 0, /* no block, or one that another thread is about to give or to free */
  FREEWAY_LIVE = 1, /* the program holds it, or a thread inside malloc or free, on its way from or to a cache */
  FREEWAY_FREE = 2  /* freed, or never given */
} freeway_state_t;

typedef struct freeway_explanation_t {
  freeway_kind_t kind;
  freeway_state_t state;
  void* begin; /* of the block; NULL where there is none */
  size_t size; /* of the block, in bytes: what malloc_usable_size says; 0 where there is none */
  /* Of the address from `begin`: negative before a guarded block, >= size past its end or a large one's. */
  ptrdiff_t offset;
  const char* what; /* a few words about it, in static storage: "in a magazine", "at rest since its free" */
  /* Of a guarded block: where the calls of malloc and free returned to, and which threads made them; else 0. */
  void* allocated_by;
  void* freed_by;
  uint64_t allocated_in;
  uint64_t freed_in;
} freeway_explanation_t;

/* What Freeway's own maps say of any address; nothing is read at the address. Fills *explanation (`size`:
 * sizeof(freeway_explanation_t), as in freeway_stats) and returns its kind. True at some moment of the call; of blocks
 * that other threads do not touch meanwhile, it is exact. */
freeway_kind_t freeway_explain(const void* address, freeway_explanation_t* explanation, size_t size) FREEWAY_NOEXCEPT;
/* The same as a line of English on `fd`; for a guarded block also a line each for the malloc and the free. A full pipe
 * may block the writer. */
void freeway_explain_to(int fd, const void* address) FREEWAY_NOEXCEPT;

/* --- Options of the program's own. ------------------------------------------------------------------------------- */

/* A program may define it, at namespace scope, to set options that the environment does not set:
 *     const char* freeway_options = "PURGE=never; PREFAULT=64m; STATS=json:/run/me.%p.json";
 * Names without FREEWAY_ and values as in the environment, separated by `;`; blanks before a name do not count, nor
 * does an empty value in the environment. Up to 1023 bytes; names that are no option's are passed over. Read once, when
 * the first block is allocated after the C library has set `environ`: it must be initialised by a constant. Heard also
 * in setuid programs, where the environment is not. A program that is linked with libfreeway.so or libfreeway.a need do
 * nothing else; where the library is preloaded, the program must export the name: -rdynamic, or
 * -Wl,--export-dynamic-symbol=freeway_options. */
extern const char* freeway_options;

/* --- Moving blocks, so that memory can go back. ------------------------------------------------------------------- */

typedef struct freeway_block_info_t {
  size_t size;              /* bytes of the block: what malloc_usable_size says */
  freeway_kind_t kind;      /* FREEWAY_SMALL_BLOCK, FREEWAY_LARGE_BLOCK or FREEWAY_GUARDED_BLOCK */
  size_t superblock_size;   /* bytes of the superblock that it lies in; of other kinds: of its own memory */
  size_t superblock_blocks; /* count: blocks that the superblock has room for; 1 for other kinds */
  size_t superblock_live;   /* count: of these, live ones, and free ones that lie in magazines; 1 for other kinds */
  /* 0..1000: how full (as superblock_live) the superblocks of its size are on average, without full ones and those that
   * malloc allocates from; as of the last walk of freeway_should_move. 1000: there are none. */
  size_t class_permille;
} freeway_block_info_t;

/* Fills *info (`size`: sizeof(freeway_block_info_t), as in freeway_stats) with what is known of the live block that
 * begins at `block`; returns its size in bytes. 0, and all of *info 0, if no live block begins there, or it is not
 * known (blocks that a paper's engine makes itself). Nothing is read at `block`, which may be anything. Signal-safe; no
 * system call. */
size_t freeway_block_info(const void* block, freeway_block_info_t* info, size_t size) FREEWAY_NOEXCEPT;

/* The hint for programs that defragment themselves, as databases do. To move a block: malloc of its malloc_usable_size,
 * memcpy, free. Returns 1 if moving this live block is likely to help to empty a superblock, and the thread's next
 * malloc of that size will not return a block of another superblock that should be emptied; else 0, also for anything
 * that is no small block. With 1, its superblock is neither full nor one that malloc allocates from, nor much fuller
 * than the average of its size; and the blocks of such superblocks would fit into fewer of them. The call returns
 * blocks that the program freed a moment ago to their superblocks: so ask only about blocks that you are ready to move.
 * 0 for blocks that the profiler has sampled; always 0 with FREEWAY_HARDEN, and with the papers' engines. Lock-free,
 * signal-safe. System calls: as free, and once for each CPU mmap for its cache. The first call walks through the whole
 * heap, as freeway_stats does; later ones each go on with that walk a little. */
int freeway_should_move(const void* block) FREEWAY_NOEXCEPT;

#if defined(__cplusplus)
}
#endif
#endif
