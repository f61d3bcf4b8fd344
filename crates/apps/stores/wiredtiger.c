/* WiredTiger behind store.h. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <wiredtiger.h>

#include "store.h"

#define TABLE "table:records"

static _Thread_local char error_text[1024] = "no failure";

struct client {
    WT_SESSION *session;
    WT_CURSOR *cursor;
    int is_durable;
};

static int failed(int code) {
    if (code == 0) return 0;
    snprintf(error_text, sizeof error_text, "WiredTiger: %s", wiredtiger_strerror(code));
    return 1;
}

const char *store_error(void) { return error_text; }

void *store_open(const char *directory) {
    WT_CONNECTION *connection = NULL;
    WT_SESSION *session = NULL;
    if (mkdir(directory, 0755) != 0 && errno != EEXIST) {
        failed(errno);
        return NULL;
    }
    if (failed(wiredtiger_open(directory, NULL,
                               "create,cache_size=256MB,log=(enabled=true),"
                               "transaction_sync=(enabled=true,method=fsync),"
                               "checkpoint=(wait=10,log_size=64MB)",
                               &connection)))
        return NULL;
    if (failed(connection->open_session(connection, NULL, NULL, &session)) ||
        failed(session->create(session, TABLE, "key_format=S,value_format=u")) ||
        failed(session->close(session, NULL))) {
        connection->close(connection, NULL);
        return NULL;
    }
    return connection;
}

int store_close(void *store) {
    WT_CONNECTION *connection = store;
    return failed(connection->close(connection, NULL)) ? -1 : 0;
}

void *client_begin(void *store, int is_durable) {
    WT_CONNECTION *connection = store;
    struct client *client = calloc(1, sizeof *client);
    if (client == NULL) return NULL;
    client->is_durable = is_durable;
    if (failed(connection->open_session(connection, NULL, NULL, &client->session)) ||
        failed(client->session->open_cursor(client->session, TABLE, NULL, NULL, &client->cursor))) {
        free(client);
        return NULL;
    }
    return client;
}

int client_end(void *opaque) {
    struct client *client = opaque;
    /* Closes the cursor too. */
    int code = client->session->close(client->session, NULL);
    free(client);
    return failed(code) ? -1 : 0;
}

static int put_once(struct client *client, const char *key, WT_ITEM *item) {
    WT_SESSION *session = client->session;
    int code = session->begin_transaction(session, client->is_durable ? "sync=true" : "sync=false");
    if (code != 0) return code;
    client->cursor->set_key(client->cursor, key);
    client->cursor->set_value(client->cursor, item);
    code = client->cursor->insert(client->cursor);
    if (code == 0) return session->commit_transaction(session, NULL);
    session->rollback_transaction(session, NULL);
    return code;
}

int client_put(void *opaque, const char *key, const void *value, size_t value_bytes) {
    WT_ITEM item = {.data = value, .size = value_bytes};
    int code;
    /* Two writers of one key: one of them goes again. */
    do {
        code = put_once(opaque, key, &item);
    } while (code == WT_ROLLBACK);
    return failed(code) ? -1 : 0;
}

ssize_t client_get(void *opaque, const char *key, void *value, size_t room_bytes) {
    struct client *client = opaque;
    WT_CURSOR *cursor = client->cursor;
    WT_ITEM item;
    size_t bytes;
    cursor->set_key(cursor, key);
    int code = cursor->search(cursor);
    if (code == WT_NOTFOUND) return 0;
    if (failed(code) || failed(cursor->get_value(cursor, &item))) return -1;
    bytes = item.size < room_bytes ? item.size : room_bytes;
    memcpy(value, item.data, bytes);
    return failed(cursor->reset(cursor)) ? -1 : (ssize_t)bytes;
}

ssize_t client_scan(void *opaque, const char *key, size_t count) {
    struct client *client = opaque;
    WT_CURSOR *cursor = client->cursor;
    WT_ITEM item;
    size_t seen = 0;
    int order = 0;
    cursor->set_key(cursor, key);
    int code = cursor->search_near(cursor, &order);
    if (code == 0 && order < 0) code = cursor->next(cursor);
    while (code == 0 && seen < count) {
        if ((code = cursor->get_value(cursor, &item)) != 0 || item.size == 0) break;
        seen++;
        code = cursor->next(cursor);
    }
    if (code != WT_NOTFOUND && failed(code)) return -1;
    return failed(cursor->reset(cursor)) ? -1 : (ssize_t)seen;
}
