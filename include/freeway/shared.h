/* SPDX-License-Identifier: MIT
 *
 * shared.h: a heap in a file descriptor (a memfd, POSIX shared memory, a file on tmpfs or on a disk) that any number
 * of processes use at once, each at an address of its own. It stays when all of them are gone. A process that is
 * killed, wherever, loses no byte of it: freeway_shared_recover, and each attach, finishes or undoes what the dead
 * process had begun. In libfreeway-shared (-lfreeway-shared), which goes with any malloc; not in libfreeway.
 *
 *     int fd = open("/dev/shm/cache", O_RDWR | O_CREAT | O_EXCL, 0600);
 *     freeway_shared_options_t options = {.capacity = (size_t)1 << 30};
 *     freeway_shared_t* heap = freeway_shared_create(fd, &options, sizeof(options));
 *     char* text = freeway_shared_malloc(heap, 100);
 *     freeway_shared_root_replace(heap, "text", 0, freeway_shared_offset(heap, text));
 *
 * and elsewhere, whenever:
 *
 *     freeway_shared_t* heap = freeway_shared_attach(fd);
 *     char* text = freeway_shared_pointer(heap, freeway_shared_root_find(heap, "text"));
 *
 * Every function is lock-free between threads and processes, and may be called from any thread and any signal
 * handler, in the child of any fork, too: the child uses the handle that its parent had, as a participant of its
 * own. Its first call that takes a seat opens the file again: EACCES, ENOSYS, EMFILE and the like, if it has given
 * up its rights to the file, or /proc, before. Failures return NULL, 0 or -1 as said and set errno; success keeps
 * it. NULL for a handle, or for anything that a function reads or fills in, is EINVAL where nothing else is said. A
 * handle that was detached may not be used. It lies right in front of the heap in memory, at the same distance in
 * every process.
 *
 * SEATS. A call takes one of the file's seats while it lasts, and processes keep theirs until they detach or end. So
 * as many calls can be under way at once, in all processes, as the heap has seats; one more gets EAGAIN. A thread
 * that leaves a call for ever (a handler that jumps out of it, an asynchronous cancellation) leaves its seat, and at
 * most a few magazines of blocks in it, unusable until its process ends. A handler that forks inside a call must not
 * return into it in the child: the call has the parent's seat.
 *
 * NEEDED. Linux 4.14 and /proc, else ENOSYS. Before Linux 5.14 also the library's file descriptor: where the program
 * has closed it, no more memory comes (ENOMEM or EAGAIN). A file system in which mappings keep locks, else ENOLCK:
 * /dev/shm and memfds do everywhere; overlayfs, which containers' root is, does not. Locks on bytes of the file from
 * 2^62 on tell which processes are there. So no process gets a lock on the whole file (fcntl with length 0) while a
 * process has the heap, and no process can attach while such a lock is held.
 *
 * NOT COVERED. Power failures and crashes of the system: what is on a disk then is any mixture of old and new. File
 * systems of other machines: all participants must see the locks. Writes to blocks that may be a SIGBUS: while a
 * disk is full, on file systems that copy on write (btrfs), or to pages that were not in memory when another
 * program, such as a backup, read the file. Malice: a process that can write to the file can spoil its contents, but
 * makes no other process leave the file's bounds. A process that shortens the file makes others fault (SIGBUS);
 * where the file is a memfd that allows seals, create and attach forbid it.
 */
#ifndef FREEWAY_SHARED_H
#define FREEWAY_SHARED_H

#include <stddef.h>
#include <stdint.h>

#if defined(__cplusplus)
#define FREEWAY_SHARED_NOEXCEPT noexcept
extern "C" {
#else
#define FREEWAY_SHARED_NOEXCEPT
#endif

/* What a process has of a heap. The heap itself is the file. */
typedef struct freeway_shared freeway_shared_t;

/* Zero in a field: what is said as the default. */
typedef struct {
  /* Bytes for blocks, rounded up to 64 KiB; 1 MiB to 2 TiB; default 1 GiB. Memory is taken as needed. */
  size_t capacity;
  unsigned seats; /* calls under way at once, in all processes, 2 to 254; default 254. Each used one: about 24 KiB */
} freeway_shared_options_t;

/* Makes a heap in an empty file that is open for reading and writing, and attaches it. The file becomes as long as the
 * heap can get, without memory or blocks of a disk behind it. `options` may be NULL; `size` is
 * sizeof(freeway_shared_options_t). The file descriptor is the caller's again afterwards; one of the library's own
 * (close-on-exec) stays open until detach. NULL with EINVAL: options out of range; EEXIST: the file is not empty;
 * EBUSY: another process is making a heap in it (a file whose maker was killed, or failed, counts as empty); EACCES:
 * not open for both; ENOMEM, ENOSPC, EFBIG: no memory, no room; EBADF and other errors of the kernel's in opening,
 * sizing or mapping it. */
freeway_shared_t* freeway_shared_create(int fd, const freeway_shared_options_t* options,
                                        size_t size) FREEWAY_SHARED_NOEXCEPT;

/* Attaches the heap that was made in this file, at any address, and recovers what dead participants left. A
 * process may attach a heap more than once. NULL with EINVAL: no heap, or not whole: cut off, changed, or not yet made;
 * ENOTSUP: a heap, but of another layout (a later or earlier version, other size classes); EAGAIN: 512 processes have
 * it; others as of create. */
freeway_shared_t* freeway_shared_attach(int fd) FREEWAY_SHARED_NOEXCEPT;

/* Ends this process's part: its magazines go back, its addresses of blocks are void. Blocks stay. No other thread of
 * the process, and no handler, may be in a call, or make one, with this handle. 0; NULL: 0. */
int freeway_shared_detach(freeway_shared_t* heap) FREEWAY_SHARED_NOEXCEPT;

/* --- Blocks. ----------------------------------------------------------------------------------------------------- */

/* A block of `size` bytes (0: one that may only be freed), aligned to 16. Up to 32 KiB they have Freeway's size
 * classes, larger ones whole multiples of 64 KiB. NULL with ENOMEM: the capacity, the disk, tmpfs or a memory limit is
 * exhausted (which no later access to the block can find out: its memory is there); EAGAIN: no seat. */
void* freeway_shared_malloc(freeway_shared_t* heap, size_t size) FREEWAY_SHARED_NOEXCEPT;
/* `count` * `size` zeroed bytes; NULL with ENOMEM also when the product overflows. */
void* freeway_shared_calloc(freeway_shared_t* heap, size_t count, size_t size) FREEWAY_SHARED_NOEXCEPT;
/* `alignment`: a power of two up to 64 KiB, relative to the file, and so at every address it is mapped at; else
 * EINVAL. */
void* freeway_shared_aligned_alloc(freeway_shared_t* heap, size_t alignment, size_t size) FREEWAY_SHARED_NOEXCEPT;
/* Gives a block back, whichever process allocated it. 0; NULL: 0. -1 with EINVAL: no block begins there; EALREADY: the
 * block is free already; EAGAIN: no seat. Nothing was done then. */
int freeway_shared_free(freeway_shared_t* heap, void* block) FREEWAY_SHARED_NOEXCEPT;
/* Bytes that may be used at `block`; 0 for NULL, and with EINVAL where no live block begins. */
size_t freeway_shared_usable_size(freeway_shared_t* heap, const void* block) FREEWAY_SHARED_NOEXCEPT;

/* --- Names of blocks that all processes understand. --------------------------------------------------------------- */

/* How far into the file a byte lies: the same in all processes. 0 for NULL, and with EINVAL for what is not in the
 * heap. */
uint64_t freeway_shared_offset(freeway_shared_t* heap, const void* address) FREEWAY_SHARED_NOEXCEPT;
/* The address of such a byte here. NULL for 0, and with EINVAL where no byte of a block can be. */
void* freeway_shared_pointer(freeway_shared_t* heap, uint64_t offset) FREEWAY_SHARED_NOEXCEPT;

/* malloc and a store of the block's offset in `*slot` as one step: if the process is killed, then after recovery the
 * block is in the slot, or it is free and the slot 0. The slot is 8 bytes at a multiple of 8 in a live block of this
 * heap (else EINVAL); it holds no block, and is the caller's alone until the call returns, or until recovery if it does
 * not. NULL as malloc; `*slot` is left alone then. */
void* freeway_shared_alloc_into(freeway_shared_t* heap, uint64_t* slot, size_t size) FREEWAY_SHARED_NOEXCEPT;
/* Frees the block whose offset is in `*slot` and empties the slot, as one step in the same sense. Errors as of free; 0
 * in the slot: 0. */
int freeway_shared_free_from(freeway_shared_t* heap, uint64_t* slot) FREEWAY_SHARED_NOEXCEPT;

/* Roots: 64 named words in the file, by which processes find their data. A name has 1 to 47 bytes, and once it was used
 * it stays. A root that was never set is 0. */

/* The root's word; 0 for none, and with EINVAL for a bad name. */
uint64_t freeway_shared_root_find(freeway_shared_t* heap, const char* name) FREEWAY_SHARED_NOEXCEPT;
/* Sets the root to `replacement` if it is `expected`, atomically. A process that finds it sees what was written before.
 * 0; -1 with EINVAL: a bad name; ENOSPC: 64 other names; EBUSY: it was not `expected`. */
int freeway_shared_root_replace(freeway_shared_t* heap, const char* name, uint64_t expected,
                                uint64_t replacement) FREEWAY_SHARED_NOEXCEPT;

/* --- Care. -------------------------------------------------------------------------------------------------------- */

/* Finishes or undoes what dead participants had begun, and frees the blocks of their magazines; memory that the system
 * was giving them, or taking back, goes back. Any process may call it at any time, several at once; if one is killed in
 * it, the next one finishes. Returns how many seats it freed; -1 with EAGAIN: no seat for itself; EBADF: the library's
 * file descriptor was closed. Time: the dead's magazines, and a pass over the heap's frames for each. */
int freeway_shared_recover(freeway_shared_t* heap) FREEWAY_SHARED_NOEXCEPT;

/* Gives the memory of frames without blocks back to the system; how many bytes. Takes magazines' blocks back first.
 * What the system does not take stays in the statistics' `backed`, and goes with the next trim. */
size_t freeway_shared_trim(freeway_shared_t* heap) FREEWAY_SHARED_NOEXCEPT;

typedef struct {
  size_t capacity;    /* bytes for blocks */
  size_t live;        /* bytes in blocks that the program has */
  size_t blocks;      /* how many */
  size_t cached;      /* bytes in magazines */
  size_t superblocks; /* frames, in bytes, that small blocks are cut from */
  size_t large;       /* bytes in blocks of whole frames, part of `live` */
  size_t backed;      /* bytes of frames that have memory, or may have some */
  size_t seats;       /* seats that are taken, */
  size_t seats_dead;  /* and of these the ones whose processes are gone and that are not yet recovered, or just being
                         so. While this is not 0 after freeway_shared_recover, another process is at it: the dead's
                         slots are in doubt */
  size_t attached; /* processes that have it; one that attached it twice counts as two. Where the program has closed the
                         library's file descriptor: this process, and others that have seats, dead ones too */
} freeway_shared_stats_t;
/* Counts without stopping any thread: exact while no other is inside. At most `size` bytes are written. 0 or -1. */
int freeway_shared_stats(freeway_shared_t* heap, freeway_shared_stats_t* stats, size_t size) FREEWAY_SHARED_NOEXCEPT;

typedef struct {
  size_t errors;      /* contradictions: 0 in a heap that was not spoiled */
  size_t lost;        /* bytes without a living owner: 0 after recovery, wherever processes were killed */
  size_t left_behind; /* seats whose processes are gone, and that are not recovered yet */
  size_t live;        /* bytes in blocks that the program has, */
  size_t blocks;      /* and how many */
  size_t cached;      /* bytes in magazines */
} freeway_shared_audit_t;
/* Looks at every block and frame. Exact while no other thread is inside; else it may see contradictions that are none.
 * `audit` may be NULL; at most `size` bytes are written. errors + lost + left_behind: 0 is a heap in order. SIZE_MAX
 * with EINVAL for no heap. */
size_t freeway_shared_audit(freeway_shared_t* heap, freeway_shared_audit_t* audit, size_t size) FREEWAY_SHARED_NOEXCEPT;

#if defined(__cplusplus)
}
#endif

#endif
