/* kept POOL DIRECTORY ACKNOWLEDGED: verifies that the files hold all of the first ACKNOWLEDGED records, then adds records,
 * each said on standard output when it is durable in both files, until it is killed. With 0 as a fourth argument it adds
 * none and closes the pool. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "forebay.h"

#define EXPECT(what)                                                    \
    if (!(what)) {                                                      \
        fprintf(stderr, "line %d: not so: %s\n", __LINE__, #what);      \
        return 1;                                                       \
    }

enum { RECORD_BYTES = 100, PLACES = 50 };

/* A record of this number; the places of the second file are written again and again. */
static void record(char *out, unsigned long number) {
    char text[RECORD_BYTES + 1];
    snprintf(text, sizeof text, "%099lu\n", number);
    memcpy(out, text, RECORD_BYTES);
}

static int verify(forebay_file *appended, forebay_file *synced, unsigned long acknowledged, unsigned long *found) {
    char expected[RECORD_BYTES], next[RECORD_BYTES], bytes[RECORD_BYTES];
    int64_t size = forebay_file_size(appended);
    *found = (unsigned long)size / RECORD_BYTES;
    EXPECT(size % RECORD_BYTES == 0);
    EXPECT(*found == acknowledged || *found == acknowledged + 1);
    for (unsigned long number = 0; number < *found; number++) {
        record(expected, number);
        EXPECT(forebay_file_pread(appended, bytes, RECORD_BYTES, number * RECORD_BYTES) == RECORD_BYTES);
        EXPECT(memcmp(bytes, expected, RECORD_BYTES) == 0);
    }
    unsigned long first = acknowledged > PLACES ? acknowledged - PLACES : 0;
    for (unsigned long number = first; number < acknowledged; number++) {
        record(expected, number);
        record(next, number + PLACES);
        EXPECT(forebay_file_pread(synced, bytes, RECORD_BYTES, number % PLACES * RECORD_BYTES) == RECORD_BYTES);
        EXPECT(memcmp(bytes, expected, RECORD_BYTES) == 0 || memcmp(bytes, next, RECORD_BYTES) == 0);
    }
    return 0;
}

int main(int count, char **arguments) {
    forebay_buffer *buffer;
    forebay_file *appended, *synced;
    char path[4096], bytes[RECORD_BYTES];
    unsigned long number;
    EXPECT(count == 4 || count == 5);
    EXPECT(forebay_buffer_open(arguments[1], arguments[2], &buffer) == 0);
    snprintf(path, sizeof path, "%s/appended", arguments[2]);
    EXPECT(forebay_file_open(buffer, path, FOREBAY_EVERY_WRITE, &appended) == 0);
    snprintf(path, sizeof path, "%s/synced", arguments[2]);
    EXPECT(forebay_file_open(buffer, path, FOREBAY_SYNCED, &synced) == 0);
    EXPECT(verify(appended, synced, strtoul(arguments[3], NULL, 10), &number) == 0);
    for (; count == 4; number++) {
        record(bytes, number);
        EXPECT(forebay_file_append(appended, bytes, RECORD_BYTES) == (int64_t)number * RECORD_BYTES);
        EXPECT(forebay_file_pwrite(synced, bytes, RECORD_BYTES, number % PLACES * RECORD_BYTES) == RECORD_BYTES);
        EXPECT(forebay_file_sync(synced) == 0);
        printf("%lu\n", number + 1);
        fflush(stdout);
    }
    forebay_file_close(appended);
    forebay_file_close(synced);
    EXPECT(forebay_buffer_close(buffer) == 0);
    return 0;
}
