/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of rmemctl share. rmemctl.c takes the command line, rmemctl_view.c reads a volume
 * from its store and asks its servers, rmemctl_live.c asks the mount on its
 * control socket, rmemctl_show.c prints, rmemctl_check.c checks. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "config/config.h"
#include "engine/server.h"
#include "fs/record.h"
#include "fs/store.h"

/* Exit statuses. */
enum {
	RMEMCTL_OK = 0,
	RMEMCTL_FOUND = 1,  /* check found something, repaired or not */
	RMEMCTL_FAILED = 2, /* it could not do what it was asked for */
};

struct command_options {
	const struct conf *conf;
	const char *argument; /* of the command; NULL: none */
	bool json;
	bool repair;
};

enum server_health {
	SERVER_UP,
	SERVER_DOWN,
	SERVER_LOST,	/* up, but its content isn't what the volume knows */
	SERVER_TAKEN,	/* up, and holds another volume: it would refuse a mount */
	SERVER_NEW,	/* in the configuration; no mount has used it yet */
	SERVER_REFUSES, /* to answer us, for want of the right key or of rights to its socket */
};

struct server_view {
	struct record_server_fields fields; /* of a new one, the URL alone */
	uint64_t pages, pages_used;
	enum server_health health;
	bool configured;
	size_t place;		   /* among all, when they are shown */
	struct rmem_status status; /* unless it is down or refuses */
	struct rmem_error error;   /* why it does */
};

enum session_health {
	SESSION_DEAD,
	SESSION_ALIVE,
	SESSION_UNKNOWN, /* on another host */
};

struct session_view {
	uint64_t number;
	struct record_mount_fields fields;
	enum session_health health;
};

struct volume_view {
	char holder[256]; /* "": nobody */
	struct record_volume_fields fields;
	struct server_view *servers;
	size_t server_count;
	struct session_view *sessions;
	size_t session_count;
	/* What the mount says on its control socket (JSON), or why it does not. */
	char *live;
	struct rmem_error live_error;
	uint64_t inodes, orphans;
	uint64_t store_bytes;	    /* that the store takes, of store.map_size */
	uint64_t pages, pages_used; /* of all servers in the volume */
	uint64_t pages_available;   /* free, on servers that are up; when they were asked */
};

/* Opens the store of the configuration: for reading beside a mount, or for writing. */
int open_store(const struct command_options *options, bool writing, struct store **store,
	       struct rmem_error *error) RMEM_MUST_CHECK;

/* Reads the volume, and asks its servers how they are; `ask` says whether the mount is asked, too.
 * Servers come in the order of the configuration, then those that are not in it. */
enum view_ask {
	VIEW_ASK_SERVERS,
	VIEW_ASK_ALL,
};
int volume_view_init(struct volume_view *view, const struct conf *conf, enum view_ask ask,
		     struct rmem_error *error) RMEM_MUST_CHECK;
void volume_view_finish(struct volume_view *view);

/* What the mount of this configuration says on its control socket to `request`, a line, or to none
 * (NULL), for the caller to free. -ENOENT, -ECONNREFUSED: there is none; -ETIMEDOUT: it does not
 * answer. */
int ask_mount(const struct conf *conf, const char *request, char **document,
	      struct rmem_error *error) RMEM_MUST_CHECK;

/* The number that such a document gives for `key`. False: it says nothing of it. */
bool mount_number(const char *document, const char *key, uint64_t *value);

void show_status(const struct volume_view *view, const struct command_options *options);
void show_df(const struct volume_view *view, const struct command_options *options);
int command_check(const struct command_options *options);

/* `text` as a JSON string. */
void print_json_string(FILE *out, const char *text);
