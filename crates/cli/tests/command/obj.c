/* obj FILE: a program of libpmemobj, which makes a pool of objects of the file or opens it, and counts one more. */
#include <libpmemobj.h>
#include <stdint.h>
#include <stdio.h>

int main(int count, char **arguments) {
    if (count != 2) return 2;
    PMEMobjpool *pool = pmemobj_open(arguments[1], "counter");
    /* 0: as large as the file is. */
    if (pool == NULL) pool = pmemobj_create(arguments[1], "counter", 0, 0600);
    if (pool == NULL) {
        fprintf(stderr, "%s\n", pmemobj_errormsg());
        return 1;
    }
    PMEMoid root = pmemobj_root(pool, sizeof(uint64_t));
    uint64_t *counter = pmemobj_direct(root);
    TX_BEGIN(pool) {
        pmemobj_tx_add_range(root, 0, sizeof *counter);
        ++*counter;
    }
    TX_END
    printf("%lu\n", *counter);
    pmemobj_close(pool);
    return 0;
}
