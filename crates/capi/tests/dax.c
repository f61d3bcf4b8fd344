/* dax MEMBER REGION: all that forebay.h has for mapped regions, and what it says where nothing is right. */
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "forebay.h"

#define EXPECT(what)                                                                        \
    if (!(what)) {                                                                          \
        fprintf(stderr, "line %d: not so: %s; %s\n", __LINE__, #what, forebay_dax_error()); \
        return 1;                                                                           \
    }

int main(int count, char **arguments) {
    forebay_dax *dax = NULL, *second = NULL;
    EXPECT(count == 3);
    const char *members[1] = {arguments[1]}, *nothing[1] = {"/nonexistent/pool"};
    const char *name = arguments[2];
    struct forebay_dax_options options = {.period_ms = 100};
    struct forebay_dax_verified verified;
    struct forebay_dax_status status;

    EXPECT(strcmp(forebay_dax_error(), "") == 0);
    EXPECT(forebay_dax_open(NULL, 1, name, NULL, &dax) == -EFAULT);
    EXPECT(forebay_dax_open(members, 0, name, NULL, &dax) == -EINVAL);
    EXPECT(forebay_dax_open(members, 1, NULL, NULL, &dax) == -EFAULT);
    EXPECT(forebay_dax_open(members, 1, name, NULL, NULL) == -EFAULT);
    EXPECT(forebay_dax_open(nothing, 1, name, NULL, &dax) == -EIO);
    EXPECT(strstr(forebay_dax_error(), "/nonexistent/pool") != NULL);
    EXPECT(forebay_dax_open(members, 1, "other", NULL, &dax) == -ENOENT);
    EXPECT(strstr(forebay_dax_error(), "other") != NULL);
    options.tracker = 99;
    EXPECT(forebay_dax_open(members, 1, name, &options, &dax) == -EINVAL && dax == NULL);
    options.tracker = FOREBAY_DAX_ANY;
    EXPECT(forebay_dax_open(members, 1, name, &options, &dax) == 0);
    EXPECT(forebay_dax_open(members, 1, name, &options, &second) == -EBUSY && second == NULL);

    uint64_t accepted = 99;
    uint64_t len = forebay_dax_length(dax);
    unsigned char *bytes = forebay_dax_pointer(dax);
    EXPECT(len == 1 << 20 && bytes != NULL && (uintptr_t)bytes % (2 << 20) == 0);
    memcpy(bytes + 5000, "stored", 6);
    EXPECT(forebay_dax_sync(dax, 5000, 6) == 0);
    EXPECT(forebay_dax_sync(dax, len, 1) == -EINVAL);
    EXPECT(forebay_dax_sync(dax, UINT64_MAX, 2) == -EINVAL);
    EXPECT(forebay_dax_verify(dax, 0, len, &verified) == 0);
    EXPECT(verified.looked_at + verified.skipped_as_written == len / 4096);
    EXPECT(verified.damaged == 0 && verified.first_damaged == UINT64_MAX);
    EXPECT(verified.unverified == 0 && verified.first_unverified == UINT64_MAX);
    EXPECT(verified.lost == 0 && verified.first_lost == UINT64_MAX);
    EXPECT(forebay_dax_verify(dax, 0, 4096, NULL) == 0);
    EXPECT(forebay_dax_accept(dax, 0, len, &accepted) == 0 && accepted == 0);
    EXPECT(forebay_dax_accept(dax, 0, len, NULL) == 0);
    EXPECT(forebay_dax_accept(dax, len, 1, NULL) == -EINVAL);
    EXPECT(forebay_dax_status(dax, &status) == 0);
    EXPECT(status.state == FOREBAY_DAX_OPEN && status.tracker != FOREBAY_DAX_ANY);
    EXPECT(status.unverified_pages == 0 && status.lost_pages == 0 && status.damaged_pages == 0);
    EXPECT(forebay_dax_status(dax, NULL) == -EFAULT);
    EXPECT(forebay_dax_sync(NULL, 0, 1) == -EFAULT);
    EXPECT(forebay_dax_pointer(NULL) == NULL && forebay_dax_length(NULL) == 0);
    EXPECT(forebay_dax_close(dax) == 0);
    EXPECT(forebay_dax_close(NULL) == 0);

    EXPECT(forebay_dax_open(members, 1, name, NULL, &dax) == 0);
    bytes = forebay_dax_pointer(dax);
    EXPECT(memcmp(bytes + 5000, "stored", 6) == 0);
    EXPECT(forebay_dax_close(dax) == 0);
    return 0;
}
