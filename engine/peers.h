/* SPDX-License-Identifier: Apache-2.0 */
/* The servers of an engine, the thread that keeps them connected, and the table reactors see.
 *
 * The control thread connects with back-off, notices that a connection ended, and reconnects. Each
 * attempt runs in a short-lived thread of its own, so that a server that doesn't answer holds up
 * neither the others nor the detection of a loss; in the steady state there are none of these.
 *
 * What reactors need to know is in an immutable table, published whole: the pointer to it is the
 * only thing shared, and it moves when the epoch does. A reactor compares it with the one it has,
 * a load per turn; when it moved the reactor takes in the new table, then stores the epoch it has
 * reached. What a table no longer names is retired, and freed when every reactor has reached the
 * first epoch without it and has let go of its endpoint. A reactor that nobody drives holds
 * retired things back, but never this thread; only after RETIRED_MAX connections to one server are
 * held so does that server have to wait for it. */
#pragma once

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "engine/endpoint.h"
#include "engine/port.h"
#include "engine/rmem.h"

/* What the reactors know of servers, ports and memory; one lives as long as any may read it. */
struct rmem_table {
	uint64_t epoch;
	unsigned server_count;
	unsigned port_count;
	struct rmem_port_entry *ports[RMEM_PORTS_MAX];
	struct rmem_connection *connections[RMEM_SERVERS_MAX]; /* NULL: down */
	struct rmem_table *next;			       /* in the list of retired ones */
	struct rmem_memory_map *memory;			       /* the table's own */
};

struct rmem_peers;

/* A reactor's look at the table, every turn: the one that is published last. In table.c, by itself,
 * as is all that tools/ablation/ replaces to tell what it is worth. */
const struct rmem_table *rmem_table_look(const struct rmem_peers *peers);

/* What the peers need of a reactor. */
struct rmem_peers_reactor {
	void *reactor;
	/* Any thread: makes it look at the table soon, also if it sleeps. */
	void (*wake)(void *reactor);
	_Atomic(uint64_t) *epoch; /* that it has reached; stored with release */
};

enum rmem_attempt {
	RMEM_ATTEMPT_NONE,
	RMEM_ATTEMPT_RUNNING,
	RMEM_ATTEMPT_ENDED,
};

/* The longest pause between attempts while somebody waits for the server. */
#define RMEM_PAUSE_WAITED_MS 250

struct rmem_server {
	struct rmem_peers *peers;
	unsigned index;
	enum rmem_server_state state;
	struct rmem_connection *connection; /* NULL while it is not up */
	unsigned retired_count;
	uint32_t generation;
	uint64_t incarnation;
	uint64_t due_ns; /* of the next attempt */
	uint64_t up_ns;	 /* since when it is up */
	unsigned backoff_ms;
	unsigned waiters;  /* threads in rmem_peers_wait(), for which it is tried more often */
	bool is_suspect;   /* the control thread's: its connection may have ended */
	bool is_unwatched; /* likewise: no descriptor tells, so look now and then */
	enum rmem_attempt attempt;
	pthread_t thread; /* of the attempt, while there is one */
	struct rmem_connection *result;
	struct rmem_error error; /* of the last attempt, or why it was lost */
	unsigned region_count;
	uint64_t lengths[RMEM_REGIONS_MAX];
	char url[256];
};

struct rmem_peers {
	/* Read by reactors every turn. */
	_Alignas(RMEM_CACHE_PAIR) _Atomic(struct rmem_table *) table;

	_Alignas(RMEM_CACHE_PAIR) pthread_mutex_t lock; /* of everything below; taken last */
	pthread_cond_t changed;				/* some server's state */
	const struct rmem_engine_options *options;
	struct rmem_registry *registry;
	unsigned reactor_count;
	struct rmem_peers_reactor reactors[RMEM_REACTORS_MAX];
	struct rmem_memory_map *memory; /* as the registry told last */
	unsigned port_count;		/* likewise */
	struct rmem_port_entry *ports[RMEM_PORTS_MAX];
	struct rmem_table *retired_tables;
	struct rmem_connection *retired;
	unsigned server_count;
	struct rmem_server *servers[RMEM_SERVERS_MAX];
	unsigned attempt_count; /* threads */
	unsigned walk_first;	/* where the control thread begins to look */
	bool is_stopping;
	bool is_started;
	int epoll_fd; /* of the control thread: connections and wake_fd */
	int wake_fd;
	pthread_t thread;
};

/* The options must outlive the peers. Reactors must have been filled in before start. */
int rmem_peers_init(struct rmem_peers *peers, const struct rmem_engine_options *options,
		    struct rmem_registry *registry, struct rmem_error *error) RMEM_MUST_CHECK;
int rmem_peers_start(struct rmem_peers *peers, struct rmem_error *error) RMEM_MUST_CHECK;
/* Ends the control thread and every attempt; takes about connect_timeout_ms at most. */
void rmem_peers_stop(struct rmem_peers *peers);
/* Frees all connections and tables, which no reactor may use any more. */
void rmem_peers_finish(struct rmem_peers *peers);

/* Any thread: has the control thread look at connections and retired things. Takes a peers. */
void rmem_peers_notify(void *peers);

/* The registry's: publishes a table with this memory, which becomes the peers' own, and with the
 * registry's ports. Takes a peers. 0 or -ENOMEM, then the memory is freed. */
int rmem_peers_publish_memory(void *peers, struct rmem_memory_map *map);

/* As the public functions. Any thread. */
int rmem_peers_add(struct rmem_peers *peers, const char *url, unsigned *server,
		   struct rmem_error *error) RMEM_MUST_CHECK;
int rmem_peers_wait(struct rmem_peers *peers, unsigned server, unsigned timeout_ms,
		    struct rmem_error *error) RMEM_MUST_CHECK;
int rmem_peers_info(struct rmem_peers *peers, unsigned server,
		    struct rmem_server_info *info) RMEM_MUST_CHECK;
