/* Files whose writes are durable in a pool of persistent memory: the file buffer of Forebay, for C.
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

#ifdef __cplusplus
}
#endif

#endif
