/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/bench_servers.h"

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/base/log.h"
#include "engine/server.h"

struct own_server {
	struct rmem_server *server;
	pthread_t thread;
	bool is_running;
	char url[256];
};

struct bench_servers {
	char *folder;	/* NULL: not made */
	unsigned count; /* made so far */
	struct own_server servers[RMEM_SERVERS_MAX];
};

static void *serve(void *argument)
{
	struct own_server *own = argument;
	struct rmem_error error = {0};

	if (rmem_server_run(own->server, &error) != 0)
		rmem_log_error(RMEM_LOG_SERVER, "%s", error.text);
	return NULL;
}

static int make_folder(struct bench_servers *servers, struct rmem_error *error)
{
	const char *parent = getenv("TMPDIR");

	char *folder;

	if (parent == NULL || parent[0] == '\0')
		parent = "/tmp";
	if (asprintf(&folder, "%s/rmem-bench.XXXXXX", parent) < 0)
		return rmem_fail(error, ENOMEM, "out of memory");
	if (mkdtemp(folder) == NULL) {
		int code = errno;

		free(folder);
		return rmem_fail(error, code, "%s: can't make a folder for sockets: %s", parent,
				 strerror(code));
	}
	servers->folder = folder;
	return 0;
}

static int start_one(struct bench_servers *servers, const struct bench_servers_options *options,
		     struct rmem_error *error)
{
	struct own_server *own = &servers->servers[servers->count];
	struct rmem_server_options server;
	int rc;

	rmem_server_options_init(&server);
	server.pool.size_bytes = options->pool_bytes;
	server.pool.huge_pages = options->huge_pages;
	snprintf(own->url, sizeof(own->url), "shm:%s/%u.sock", servers->folder, servers->count);
	rc = rmem_server_create(&server, &own->server, error);
	if (rc != 0)
		return rc;
	servers->count++;
	rc = rmem_server_listen(own->server, own->url, error);
	if (rc == 0)
		rc = rmem_server_start(own->server, error);
	if (rc != 0)
		return rc;
	rc = pthread_create(&own->thread, NULL, serve, own);
	if (rc != 0)
		return rmem_fail(error, rc, "no thread for a server: %s", strerror(rc));
	own->is_running = true;
	return 0;
}

int bench_servers_start(const struct bench_servers_options *options, struct bench_servers **servers,
			struct rmem_error *error)
{
	struct bench_servers *made = calloc(1, sizeof(*made));
	int rc;

	*servers = NULL;
	if (made == NULL)
		return rmem_fail(error, ENOMEM, "out of memory");
	rc = make_folder(made, error);
	while (rc == 0 && made->count < options->count)
		rc = start_one(made, options, error);
	if (rc != 0) {
		bench_servers_stop(made);
		return rc;
	}
	*servers = made;
	return 0;
}

void bench_servers_stop(struct bench_servers *servers)
{
	if (servers == NULL)
		return;
	for (unsigned i = 0; i < servers->count; i++) {
		struct own_server *own = &servers->servers[i];

		if (own->is_running) {
			rmem_server_stop(own->server);
			pthread_join(own->thread, NULL);
		}
		rmem_server_destroy(own->server);
	}
	if (servers->folder != NULL && rmdir(servers->folder) != 0)
		rmem_log_warn(RMEM_LOG_TOOL, "%s: %s", servers->folder, strerror(errno));
	free(servers->folder);
	free(servers);
}

const char *bench_servers_url(const struct bench_servers *servers, unsigned index)
{
	return servers->servers[index].url;
}
