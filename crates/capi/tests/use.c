/* use POOL FILE: everything that forebay.h has, and what it says where nothing is right. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "forebay.h"

#define EXPECT(what)                                                    \
    if (!(what)) {                                                      \
        fprintf(stderr, "line %d: not so: %s\n", __LINE__, #what);      \
        return 1;                                                       \
    }

int main(int count, char **arguments) {
    forebay_buffer *buffer = NULL, *second = NULL;
    forebay_file *file = NULL;
    char bytes[16];
    EXPECT(count == 3);
    EXPECT(forebay_buffer_open(NULL, NULL, &buffer) == -EFAULT);
    EXPECT(forebay_buffer_open("/nonexistent/pool", NULL, &buffer) < 0);
    EXPECT(forebay_buffer_open(arguments[1], NULL, &buffer) == 0);
    EXPECT(forebay_buffer_open(arguments[1], NULL, &second) < 0 && second == NULL);
    EXPECT(forebay_file_open(buffer, arguments[2], 7, &file) == -EINVAL);
    EXPECT(forebay_file_open(buffer, "/nonexistent/file", FOREBAY_SYNCED, &file) == -ENOENT);
    EXPECT(forebay_file_open(buffer, arguments[2], FOREBAY_EVERY_WRITE, &file) == 0);
    EXPECT(forebay_file_pwrite(file, "0123456789", 10, 0) == 10);
    EXPECT(forebay_file_append(file, "tail", 4) == 10);
    EXPECT(forebay_file_size(file) == 14);
    EXPECT(forebay_file_pread(file, bytes, sizeof bytes, 8) == 6);
    EXPECT(memcmp(bytes, "89tail", 6) == 0);
    /* Uninitialised memory will do, and what lies behind the end of the file stays as it was. */
    size_t room = 1 << 20;
    char *fresh = malloc(room);
    EXPECT(fresh != NULL);
    fresh[6] = '#';
    fresh[room - 1] = '#';
    EXPECT(forebay_file_pread(file, fresh, room, 8) == 6);
    EXPECT(memcmp(fresh, "89tail#", 7) == 0 && fresh[room - 1] == '#');
    EXPECT(forebay_file_pread(file, fresh, room, 1000) == 0);
    EXPECT(memcmp(fresh, "89tail#", 7) == 0);
    free(fresh);
    EXPECT(forebay_file_pread(file, NULL, 1, 0) == -EFAULT);
    EXPECT(forebay_file_truncate(file, 12) == 0);
    EXPECT(forebay_file_sync(file) == 0);
    EXPECT(forebay_file_sync(NULL) == -EFAULT);
    forebay_file_close(file);
    forebay_file_close(NULL);
    EXPECT(forebay_buffer_close(buffer) == 0);
    return 0;
}
