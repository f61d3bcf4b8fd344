/* RocksDB behind store.h. */
#include <rocksdb/c.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "store.h"

static _Thread_local char error_text[1024] = "no failure";

struct store {
    rocksdb_t *db;
    rocksdb_options_t *options;
};

struct client {
    rocksdb_t *db;
    rocksdb_writeoptions_t *writing;
    rocksdb_readoptions_t *reading;
};

/* Keeps the message and frees it. */
static int failed(char *message) {
    if (message == NULL) return 0;
    snprintf(error_text, sizeof error_text, "RocksDB: %s", message);
    rocksdb_free(message);
    return 1;
}

const char *store_error(void) { return error_text; }

void *store_open(const char *directory) {
    char *error = NULL;
    struct store *store = malloc(sizeof *store);
    if (store == NULL) return NULL;
    store->options = rocksdb_options_create();
    rocksdb_options_set_create_if_missing(store->options, 1);
    store->db = rocksdb_open(store->options, directory, &error);
    if (failed(error)) {
        rocksdb_options_destroy(store->options);
        free(store);
        return NULL;
    }
    return store;
}

int store_close(void *opaque) {
    struct store *store = opaque;
    rocksdb_close(store->db);
    rocksdb_options_destroy(store->options);
    free(store);
    return 0;
}

void *client_begin(void *opaque, int is_durable) {
    struct store *store = opaque;
    struct client *client = malloc(sizeof *client);
    if (client == NULL) return NULL;
    client->db = store->db;
    client->writing = rocksdb_writeoptions_create();
    client->reading = rocksdb_readoptions_create();
    rocksdb_writeoptions_set_sync(client->writing, is_durable != 0);
    return client;
}

int client_end(void *opaque) {
    struct client *client = opaque;
    rocksdb_writeoptions_destroy(client->writing);
    rocksdb_readoptions_destroy(client->reading);
    free(client);
    return 0;
}

int client_put(void *opaque, const char *key, const void *value, size_t value_bytes) {
    struct client *client = opaque;
    char *error = NULL;
    rocksdb_put(client->db, client->writing, key, strlen(key), value, value_bytes, &error);
    return failed(error) ? -1 : 0;
}

ssize_t client_get(void *opaque, const char *key, void *value, size_t room_bytes) {
    struct client *client = opaque;
    char *error = NULL;
    size_t bytes = 0;
    char *found = rocksdb_get(client->db, client->reading, key, strlen(key), &bytes, &error);
    if (failed(error)) return -1;
    if (found == NULL) return 0;
    if (bytes > room_bytes) bytes = room_bytes;
    memcpy(value, found, bytes);
    rocksdb_free(found);
    return (ssize_t)bytes;
}

ssize_t client_scan(void *opaque, const char *key, size_t count) {
    struct client *client = opaque;
    char *error = NULL;
    size_t seen = 0;
    rocksdb_iterator_t *iterator = rocksdb_create_iterator(client->db, client->reading);
    rocksdb_iter_seek(iterator, key, strlen(key));
    while (seen < count && rocksdb_iter_valid(iterator)) {
        size_t bytes = 0;
        if (rocksdb_iter_value(iterator, &bytes) == NULL || bytes == 0) break;
        seen++;
        rocksdb_iter_next(iterator);
    }
    rocksdb_iter_get_error(iterator, &error);
    rocksdb_iter_destroy(iterator);
    return failed(error) ? -1 : (ssize_t)seen;
}
