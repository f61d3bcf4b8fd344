/* What forebay-verify apps calls of a key-value store. A store may be used by several threads, a client by one.
 * Functions that return a pointer give NULL, the others -1, where they fail; store_error then says why. */
#include <stddef.h>
#include <sys/types.h>

void *store_open(const char *directory);
int store_close(void *store);
/* Of the calling thread's last failure. */
const char *store_error(void);

/* What a durable client writes survives a crash when the call returns. */
void *client_begin(void *store, int is_durable);
int client_end(void *client);
int client_put(void *client, const char *key, const void *value, size_t value_bytes);
/* The bytes of the value, 0 where there is none. */
ssize_t client_get(void *client, const char *key, void *value, size_t room_bytes);
/* How many records were read, in order, from the first that is not before the key. */
ssize_t client_scan(void *client, const char *key, size_t count);
