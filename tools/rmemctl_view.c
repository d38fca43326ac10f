/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fs/inode.h"
#include "tools/rmemctl.h"

/* A server that hangs must not make us hang; one that works answers within a millisecond. */
#define ASK_TIMEOUT_MS 1000u

/* --- From the store --------------------------------------------------------------------------- */

static struct server_view *add_server(struct volume_view *view)
{
	struct server_view *moved =
		reallocarray(view->servers, view->server_count + 1, sizeof(*moved));

	if (moved == NULL)
		return NULL;
	view->servers = moved;
	memset(&moved[view->server_count], 0, sizeof(*moved));
	return &moved[view->server_count++];
}

static int read_server(void *user, struct store_slice key, struct store_slice value)
{
	struct server_view *server = add_server(user);
	int error;

	(void)key;
	if (server == NULL)
		return -ENOMEM;
	error = record_decode_server(value, &server->fields);
	for (uint32_t i = 0; i < server->fields.region_count && error == 0; i++)
		server->pages += server->fields.regions[i].length / VOLUME_PAGE_BYTES;
	return error;
}

static int read_session(void *user, struct store_slice key, struct store_slice value)
{
	struct volume_view *view = user;
	struct session_view *moved =
		reallocarray(view->sessions, view->session_count + 1, sizeof(*moved));
	struct session_view *session;
	int error;

	if (moved == NULL)
		return -ENOMEM;
	view->sessions = moved;
	session = &moved[view->session_count];
	memset(session, 0, sizeof(*session));
	error = record_parse_number(key, RECORD_MOUNT, &session->number);
	if (error == 0)
		error = record_decode_mount(value, &session->fields);
	if (error == 0)
		view->session_count++;
	return error;
}

static int count_record(void *user, struct store_slice key, struct store_slice value)
{
	(void)key;
	(void)value;
	++*(uint64_t *)user;
	return 0;
}

static struct server_view *server_of_region(struct volume_view *view, uint64_t id)
{
	for (size_t i = 0; i < view->server_count; i++) {
		for (uint32_t j = 0; j < view->servers[i].fields.region_count; j++) {
			if (view->servers[i].fields.regions[j].id == id)
				return &view->servers[i];
		}
	}
	return NULL;
}

static int count_pages(void *user, struct store_slice key, struct store_slice value)
{
	struct volume_view *view = user;
	struct server_view *server;
	uint64_t words[RECORD_GROUP_WORDS], region, group;
	int error = record_parse_pair(key, RECORD_BITMAP, &region, &group);

	if (error == 0)
		error = record_decode_bitmap(value, words);
	if (error != 0)
		return error;
	server = server_of_region(view, region);
	for (unsigned i = 0; i < RECORD_GROUP_WORDS && server != NULL; i++)
		server->pages_used += (unsigned)__builtin_popcountll(words[i]);
	return 0;
}

static int scan(struct store_txn *txn, enum record_kind kind, store_visit *visit, void *user)
{
	struct record_key prefix;

	return store_scan(txn, record_key_kind(&prefix, kind), (struct store_slice){0}, visit,
			  user);
}

static int read_volume(struct volume_view *view, struct store_txn *txn)
{
	struct record_key key;
	struct store_slice value;
	int error = store_get(txn, record_key_kind(&key, RECORD_VOLUME), &value);

	if (error == 0)
		error = record_decode_volume(value, &view->fields);
	if (error == 0)
		error = scan(txn, RECORD_SERVER, read_server, view);
	if (error == 0)
		error = scan(txn, RECORD_MOUNT, read_session, view);
	if (error == 0)
		error = scan(txn, RECORD_BITMAP, count_pages, view);
	if (error == 0)
		error = scan(txn, RECORD_INODE, count_record, &view->inodes);
	if (error == 0)
		error = scan(txn, RECORD_ORPHAN, count_record, &view->orphans);
	if (error == 0)
		error = store_used(txn, &view->store_bytes);
	for (size_t i = 0; i < view->server_count && error == 0; i++) {
		view->pages += view->servers[i].pages;
		view->pages_used += view->servers[i].pages_used;
	}
	return error;
}

/* --- How they are ----------------------------------------------------------------------------- */

/* A session is alive when its process is: on this boot of this host, with the store held. */
static void judge_sessions(struct volume_view *view)
{
	char host[256] = {0};

	gethostname(host, sizeof(host) - 1);
	for (size_t i = 0; i < view->session_count; i++) {
		struct session_view *session = &view->sessions[i];
		pid_t pid = (pid_t)session->fields.pid;

		if (view->holder[0] == '\0')
			session->health = SESSION_DEAD;
		else if (strcmp(session->fields.host, host) != 0)
			session->health = SESSION_UNKNOWN;
		else if (kill(pid, 0) == 0 || errno == EPERM)
			session->health = SESSION_ALIVE;
	}
}

static bool is_taken(const struct server_view *server, const uint8_t volume[16])
{
	static const uint8_t nobody[RMEM_OWNER_BYTES];

	_Static_assert(RMEM_OWNER_BYTES == 16, "owners are volumes");
	return memcmp(server->status.owner, nobody, sizeof(nobody)) != 0 &&
	       memcmp(server->status.owner, volume, sizeof(nobody)) != 0;
}

static void ask_server(struct server_view *server, bool is_new, const uint8_t volume[16])
{
	int rc = rmem_server_query_status(server->fields.url, ASK_TIMEOUT_MS, &server->status,
					  &server->error);

	if (rc != 0)
		server->health = rc == -EACCES ? SERVER_REFUSES : SERVER_DOWN;
	else if (is_taken(server, volume))
		server->health = SERVER_TAKEN;
	else if (is_new)
		server->health = SERVER_NEW;
	else if (server->status.incarnation != server->fields.incarnation)
		server->health = SERVER_LOST;
	else
		server->health = SERVER_UP;
}

/* The configured server at `url`, which is known to the volume or added to it; NULL: no memory. */
static struct server_view *configured_server(struct volume_view *view, size_t known,
					     const char *url)
{
	struct server_view *server;

	for (size_t i = 0; i < known; i++) {
		if (strcmp(view->servers[i].fields.url, url) == 0)
			return &view->servers[i];
	}
	server = add_server(view);
	if (server != NULL)
		snprintf(server->fields.url, sizeof(server->fields.url), "%s", url);
	return server;
}

/* Those without a place in the configuration come last, in the order of the store. */
static int compare_places(const void *left, const void *right)
{
	const struct server_view *a = left;
	const struct server_view *b = right;

	return (a->place > b->place) - (a->place < b->place);
}

static int ask_servers(struct volume_view *view, const struct conf *conf)
{
	size_t url_count, known = view->server_count;
	const char *const *urls = conf_list(conf, "servers", &url_count);

	for (size_t i = 0; i < known; i++)
		view->servers[i].place = url_count + i;
	for (size_t i = 0; i < url_count; i++) {
		struct server_view *server = configured_server(view, known, urls[i]);

		if (server == NULL)
			return -ENOMEM;
		server->configured = true;
		server->place = i;
	}
	for (size_t i = 0; i < view->server_count; i++) {
		struct server_view *server = &view->servers[i];

		ask_server(server, i >= known, view->fields.uuid);
		if (server->health == SERVER_UP)
			view->pages_available += server->pages - server->pages_used;
	}
	if (view->server_count > 0)
		qsort(view->servers, view->server_count, sizeof(view->servers[0]), compare_places);
	return 0;
}

int volume_view_init(struct volume_view *view, const struct conf *conf, enum view_ask ask,
		     struct rmem_error *error)
{
	const struct command_options options = {.conf = conf};
	const char *url = conf_text(conf, "store.url");
	struct store *store;
	struct store_txn *txn;
	int status;

	memset(view, 0, sizeof(*view));
	status = open_store(&options, false, &store, error);
	if (status != 0)
		return status;
	store_holder(store, view->holder, sizeof(view->holder));
	status = store_begin(store, STORE_READ, &txn);
	if (status == 0) {
		status = read_volume(view, txn);
		store_abort(txn);
	}
	store_close(store);
	judge_sessions(view);
	/* Nobody has to answer: why not is shown. */
	if (status == 0 && ask == VIEW_ASK_ALL)
		(void)!ask_mount(conf, NULL, &view->live, &view->live_error);
	if (status == 0)
		status = ask_servers(view, conf);
	if (status == 0)
		return 0;
	volume_view_finish(view);
	if (status == -ENOENT)
		return rmem_fail(error, ENOENT, "store %s has no volume: nothing was mounted yet",
				 url);
	if (status == -EPROTO)
		return rmem_fail(
			error, EPROTO,
			"store %s has a volume of a format that this version does not know", url);
	return rmem_fail(error, -status, "store %s: %s", url, strerror(-status));
}

void volume_view_finish(struct volume_view *view)
{
	free(view->servers);
	free(view->sessions);
	free(view->live);
	memset(view, 0, sizeof(*view));
}
