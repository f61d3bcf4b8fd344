/* Files whose writes are durable in a pool, of persistent memory or on an SSD, and mapped regions beside one: Forebay, for C.
 *
 * Link with -lforebay_c. Every function that can fail returns a negative errno number then, and sets
 * nothing else. All of them may be called from several threads, also on the same file; a buffer or a
 * file is closed once, when it is no longer in use. A pool has one owner at a time: a child made by
 * fork must not use its parent's buffer.
 */
#ifndef FOREBAY_H
#define FOREBAY_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/* An open pool with the files that it answers for. */
typedef struct forebay_buffer forebay_buffer;
/* One open file. Offsets are the caller's. */
typedef struct forebay_file forebay_file;

enum forebay_mode {
    /* Every write is durable when it returns, all or nothing up to the transaction limit (O_NVM). */
    FOREBAY_EVERY_WRITE = 0,
    /* Writes of any size go by the page cache until a sync; that makes them durable (O_NVMPARTIAL). */
    FOREBAY_SYNCED = 1
};

/* Opens the pool at `pool`, made by `forebay create`, and recovers what a crash left. `root` is the only
 * directory whose files may be buffered, or NULL. EBUSY, EWOULDBLOCK or EIO where the pool is in use or is none. */
int forebay_buffer_open(const char *pool, const char *root, forebay_buffer **out);

/* Brings all files up to date in their file systems, and closes the pool. The buffer is gone either
 * way; after an error the data that could not be written is in the pool still. */
int forebay_buffer_close(forebay_buffer *buffer);

/* Opens a file for reading and writing; makes it if it is not there. */
int forebay_file_open(forebay_buffer *buffer, const char *path, enum forebay_mode mode, forebay_file **out);

/* Reads up to `len` bytes from byte `offset`; returns how many, fewer only at the end of the file. */
ssize_t forebay_file_pread(forebay_file *file, void *out, size_t len, uint64_t offset);

/* Writes `len` bytes at byte `offset`; returns `len`. */
ssize_t forebay_file_pwrite(forebay_file *file, const void *data, size_t len, uint64_t offset);

/* Writes at the end of the file; returns the offset it went to. */
int64_t forebay_file_append(forebay_file *file, const void *data, size_t len);

/* Makes everything written so far durable. */
int forebay_file_sync(forebay_file *file);

/* Sets the size; what is gained reads as zeroes. */
int forebay_file_truncate(forebay_file *file, uint64_t size);

/* The size in bytes. */
int64_t forebay_file_size(forebay_file *file);

/* Closes the file. Writes that were not synced may be lost in a crash, as with close(2). */
void forebay_file_close(forebay_file *file);

/* ---- Mapped regions: docs/using/dax.md ---- */

/* An open region: bytes that the program stores into as it likes. Checksums and parity follow behind. */
typedef struct forebay_dax forebay_dax;

/* What finds out which pages were stored to. What each does not see, the first three: write(2) to the region's files,
 * other mappings of them, stores of a child made by fork. */
enum forebay_dax_tracker {
    /* The best that can be had. */
    FOREBAY_DAX_ANY = 0,
    FOREBAY_DAX_ASYNC_WRITE_PROTECT = 1,
    FOREBAY_DAX_SOFT_DIRTY = 2,
    /* Also: system calls that store into the region fail with EFAULT. */
    FOREBAY_DAX_FAULT = 3,
    /* Reads every page each time. It sees every store, and cannot tell one from damage. */
    FOREBAY_DAX_COMPARE = 4
};

enum forebay_dax_state {
    FOREBAY_DAX_OPEN = 0,
    FOREBAY_DAX_SEALED = 1
};

/* How to open; all zero, or NULL for it, is the default. */
struct forebay_dax_options {
    /* Milliseconds from one pass to the next, 100 to 30000; 0: 1000. */
    uint64_t period_ms;
    /* enum forebay_dax_tracker. */
    int tracker;
    /* Not 0: files that are missing are gone for good; what can be is rebuilt into new ones. */
    int without_missing;
    /* Not 0: pages that cannot be rebuilt read as zeroes from now on. */
    int accept_loss;
};

/* What a verification found, in pages. */
struct forebay_dax_verified {
    uint64_t looked_at;
    /* Left to the next pass, because they were stored to. */
    uint64_t skipped_as_written;
    uint64_t repaired;
    /* Not to be had from their rows; where the first begins in the region, or UINT64_MAX. */
    uint64_t damaged;
    uint64_t first_damaged;
    /* Left in doubt by an end without order, and made zero because nothing gave them, until accepted; the first of each. */
    uint64_t unverified;
    uint64_t first_unverified;
    uint64_t lost;
    uint64_t first_lost;
};

/* How a region stands. A window is the time from the first store to a page to the end of the pass that covered it. */
struct forebay_dax_status {
    /* enum forebay_dax_state, enum forebay_dax_tracker. */
    int state;
    int tracker;
    uint64_t generation;
    /* Not accepted yet: left in doubt by an end without order; lost, and read as zeroes. */
    uint64_t unverified_pages;
    uint64_t lost_pages;
    /* Since it was opened. */
    uint64_t damaged_pages;
    uint64_t repaired_pages;
    uint64_t passes;
    uint64_t failed_passes;
    uint64_t waiting_pages;
    uint64_t window_oldest_ns;
    uint64_t window_p50_ns;
    uint64_t window_p99_ns;
    uint64_t window_max_ns;
};

/* Opens and maps the region `name`, made by `forebay dax create`, beside the pool with these `count` members; the pool
 * itself may be in use, idle, or served. One process has a region open at a time. EBUSY where another has it, ENOENT
 * where there is none, EIO where it is damaged or not all there. */
int forebay_dax_open(const char *const *members, size_t count, const char *name,
                     const struct forebay_dax_options *options, forebay_dax **out);

/* Its first byte, aligned to 2 MiB, and how many there are. */
void *forebay_dax_pointer(const forebay_dax *dax);
uint64_t forebay_dax_length(const forebay_dax *dax);

/* Returns when what was stored to these bytes before is durable, and protected by checksum and parity. */
int forebay_dax_sync(const forebay_dax *dax, uint64_t offset, uint64_t len);

/* Compares pages that are not being written with their checksums and parity, and repairs what can be. EIO where
 * pages are damaged that cannot be; `out`, if it is not NULL, is written then as well. */
int forebay_dax_verify(const forebay_dax *dax, uint64_t offset, uint64_t len, struct forebay_dax_verified *out);

/* The caller's word that pages are right which an end without order left in doubt, or that were lost: they are named no
 * more. `pages`, if it is not NULL, is how many were. */
int forebay_dax_accept(const forebay_dax *dax, uint64_t offset, uint64_t len, uint64_t *pages);

int forebay_dax_status(const forebay_dax *dax, struct forebay_dax_status *out);

/* Makes a last pass over every page, seals the region and unmaps it. It is gone either way; after an error it is not
 * sealed, and the next opening compares every page. */
int forebay_dax_close(forebay_dax *dax);

/* What the last of these functions that failed in this thread had to say: the file, what was found, what to do. It
 * lasts until the next one fails. */
const char *forebay_dax_error(void);

#ifdef __cplusplus
}
#endif

#endif
