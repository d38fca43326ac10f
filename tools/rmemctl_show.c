/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <time.h>

#include "tools/rmemctl.h"

void print_json_string(FILE *out, const char *text)
{
	fputc('"', out);
	for (; *text != '\0'; text++) {
		unsigned char c = (unsigned char)*text;

		if (c == '"' || c == '\\')
			fprintf(out, "\\%c", c);
		else if (c < 0x20)
			fprintf(out, "\\u%04x", c);
		else
			fputc(c, out);
	}
	fputc('"', out);
}

/* As df -h has it: three digits at most, rounded up. */
static const char *human(uint64_t bytes, char text[16])
{
	static const char units[] = "BKMGTPE";
	unsigned unit = 0;
	uint64_t scale = 1;

	while (unit < 6 && bytes / scale >= 1024) {
		scale *= 1024;
		unit++;
	}
	if (unit > 0 && bytes / scale < 10)
		snprintf(text, 16, "%.1f%c", (double)bytes / (double)scale, units[unit]);
	else
		snprintf(text, 16, "%" PRIu64 "%c", bytes / scale + (bytes % scale != 0),
			 units[unit]);
	return text;
}

static const char *health_name(enum server_health health)
{
	static const char *const names[] = {
		[SERVER_UP] = "up",   [SERVER_DOWN] = "down",	    [SERVER_LOST] = "lost",
		[SERVER_NEW] = "new", [SERVER_REFUSES] = "refuses", [SERVER_TAKEN] = "taken",
	};

	return names[health];
}

static bool has_answered(const struct server_view *server)
{
	return server->health != SERVER_DOWN && server->health != SERVER_REFUSES;
}

static const char *session_name(enum session_health health)
{
	static const char *const names[] = {
		[SESSION_DEAD] = "dead",
		[SESSION_ALIVE] = "alive",
		[SESSION_UNKNOWN] = "unknown",
	};

	return names[health];
}

static const char *date(int64_t ns, char text[32])
{
	time_t seconds = (time_t)(ns / 1000000000);
	struct tm tm;

	if (localtime_r(&seconds, &tm) == NULL || strftime(text, 32, "%F %T", &tm) == 0)
		text[0] = '\0';
	return text;
}

static const char *uuid_text(const uint8_t uuid[16], char text[37])
{
	static const char digits[] = "0123456789abcdef";
	char *at = text;

	for (unsigned i = 0; i < 16; i++) {
		if (i == 4 || i == 6 || i == 8 || i == 10)
			*at++ = '-';
		*at++ = digits[uuid[i] >> 4];
		*at++ = digits[uuid[i] & 15];
	}
	*at = '\0';
	return text;
}

/* --- For people ------------------------------------------------------------------------------- */

static void show_server(const struct server_view *server)
{
	bool is_known = server->fields.region_count > 0; /* to the volume */
	char size[16], used[16], uuid[37];

	printf("  %-32s %-5s", server->fields.url, health_name(server->health));
	if (is_known)
		printf(" %" PRIu32 " %s, %s, %s used", server->fields.region_count,
		       server->fields.region_count == 1 ? "region" : "regions",
		       human(server->pages * VOLUME_PAGE_BYTES, size),
		       human(server->pages_used * VOLUME_PAGE_BYTES, used));
	if (has_answered(server))
		printf("%s %s, pid %" PRIu32 ", pool %s of %s, %" PRIu32 " client%s",
		       is_known ? ";" : "", server->status.program, server->status.pid,
		       human(server->status.pool_bytes, size), server->status.backing,
		       server->status.client_count, server->status.client_count == 1 ? "" : "s");
	putchar('\n');
	if (server->health == SERVER_DOWN) /* why one refuses is told on stderr */
		printf("      %s\n", server->error.text);
	if (server->health == SERVER_LOST)
		printf("      its memory is not the one that the volume's files are in\n");
	if (server->health == SERVER_TAKEN)
		printf("      its memory holds another volume, %s: it refuses mounts of this one\n",
		       uuid_text(server->status.owner, uuid));
	if (!server->configured)
		printf("      not in the configuration\n");
}

static const char *missing_name(enum server_health health)
{
	if (health == SERVER_LOST)
		return "not the one it was";
	return health == SERVER_TAKEN ? "another volume's" : "down";
}

/* What is missing from a volume with servers that are down or lost. */
static void show_missing(const struct volume_view *view, FILE *out)
{
	for (size_t i = 0; i < view->server_count; i++) {
		const struct server_view *server = &view->servers[i];
		char used[16];

		/* What refuses to answer may be well: that it does is told. */
		if (server->health == SERVER_UP || server->health == SERVER_NEW ||
		    server->health == SERVER_REFUSES)
			continue;
		fprintf(out, "server %s is %s: %s of data there can't be read", server->fields.url,
			missing_name(server->health),
			human(server->pages_used * VOLUME_PAGE_BYTES, used));
		fprintf(out, ", and %s free can't be used\n",
			human((server->pages - server->pages_used) * VOLUME_PAGE_BYTES, used));
	}
}

/* Of a mount whose writes are back. */
static void show_writing(const char *live)
{
	uint64_t dirty, room, errors;
	char used[16], all[16];

	if (!mount_number(live, "dirty_bytes", &dirty) ||
	    !mount_number(live, "dirty_bytes_max", &room) ||
	    !mount_number(live, "flush_errors", &errors))
		return;
	if (room == 0) {
		printf("      writes back: never, all servers are of this host (fs.stage_local)\n");
		return;
	}
	printf("      writes back: %s of %s dirty", human(dirty, used), human(room, all));
	if (errors > 0)
		printf(", %" PRIu64 " flush%s failed", errors, errors == 1 ? "" : "es");
	putchar('\n');
}

static void show_people(const struct volume_view *view, const struct conf *conf)
{
	char uuid[37], size[16], used[16], available[16], since[32];

	printf("volume   %s in %s\n", uuid_text(view->fields.uuid, uuid),
	       conf_text(conf, "store.url"));
	printf("held by  %s\n", view->holder[0] != '\0' ? view->holder : "nobody");
	printf("space    %s, %s used, %s free; %" PRIu64 " inodes",
	       human(view->pages * VOLUME_PAGE_BYTES, size),
	       human(view->pages_used * VOLUME_PAGE_BYTES, used),
	       human(view->pages_available * VOLUME_PAGE_BYTES, available), view->inodes);
	if (view->orphans > 0)
		printf(", %" PRIu64 " of them deleted and kept open", view->orphans);
	printf("\nstore    %s used of %s (store.map_size)\n", human(view->store_bytes, used),
	       human(conf_size_bytes(conf, "store.map_size"), size));
	printf("servers\n");
	for (size_t i = 0; i < view->server_count; i++)
		show_server(&view->servers[i]);
	printf("mounts\n");
	for (size_t i = 0; i < view->session_count; i++) {
		const struct session_view *session = &view->sessions[i];

		printf("  %-32s %-5s pid %" PRIu64 " on %s since %s\n", session->fields.mountpoint,
		       session_name(session->health), session->fields.pid, session->fields.host,
		       date(session->fields.started_ns, since));
	}
	if (view->session_count == 0)
		printf("  none\n");
	else if (view->holder[0] != '\0')
		printf("      %s\n", view->live != NULL ? "answers on its control socket"
							: view->live_error.text);
	if (view->live != NULL)
		show_writing(view->live);
}

/* --- For programs ----------------------------------------------------------------------------- */

static void print_space(uint64_t pages, uint64_t pages_used)
{
	printf("\"bytes_total\": %" PRIu64 ", \"bytes_used\": %" PRIu64
	       ", \"bytes_free\": %" PRIu64,
	       pages * VOLUME_PAGE_BYTES, pages_used * VOLUME_PAGE_BYTES,
	       (pages - pages_used) * VOLUME_PAGE_BYTES);
}

static void print_server(const struct server_view *server)
{
	printf("    {\"url\": ");
	print_json_string(stdout, server->fields.url);
	printf(", \"state\": \"%s\", \"configured\": %s, \"incarnation\": \"%016" PRIx64
	       "\", \"regions\": %" PRIu32 ", ",
	       health_name(server->health), server->configured ? "true" : "false",
	       server->fields.incarnation, server->fields.region_count);
	print_space(server->pages, server->pages_used);
	if (!has_answered(server)) {
		printf(", \"error\": ");
		print_json_string(stdout, server->error.text);
	} else {
		printf(", \"pid\": %" PRIu32 ", \"clients\": %" PRIu32 ", \"pool_bytes\": %" PRIu64
		       ", \"backing\": ",
		       server->status.pid, server->status.client_count, server->status.pool_bytes);
		print_json_string(stdout, server->status.backing);
	}
	putchar('}');
}

static void print_session(const struct session_view *session)
{
	printf("    {\"mountpoint\": ");
	print_json_string(stdout, session->fields.mountpoint);
	printf(", \"session\": %" PRIu64 ", \"state\": \"%s\", \"pid\": %" PRIu64 ", \"host\": ",
	       session->number, session_name(session->health), session->fields.pid);
	print_json_string(stdout, session->fields.host);
	printf(", \"started_ns\": %" PRId64 "}", session->fields.started_ns);
}

static void show_programs(const struct volume_view *view, const struct conf *conf)
{
	char uuid[37];

	printf("{\n  \"volume\": \"%s\", \"store\": ", uuid_text(view->fields.uuid, uuid));
	print_json_string(stdout, conf_text(conf, "store.url"));
	printf(", \"holder\": ");
	print_json_string(stdout, view->holder);
	printf(",\n  ");
	print_space(view->pages, view->pages_used);
	printf(", \"bytes_available\": %" PRIu64, view->pages_available * VOLUME_PAGE_BYTES);
	printf(", \"inodes\": %" PRIu64 ", \"orphans\": %" PRIu64 ",\n", view->inodes,
	       view->orphans);
	printf("  \"store_bytes_used\": %" PRIu64 ", \"store_bytes_max\": %" PRIu64
	       ",\n  \"servers\": [\n",
	       view->store_bytes, conf_size_bytes(conf, "store.map_size"));
	for (size_t i = 0; i < view->server_count; i++) {
		print_server(&view->servers[i]);
		puts(i + 1 < view->server_count ? "," : "");
	}
	printf("  ],\n  \"mounts\": [\n");
	for (size_t i = 0; i < view->session_count; i++) {
		print_session(&view->sessions[i]);
		puts(i + 1 < view->session_count ? "," : "");
	}
	printf("  ],\n  \"live\": %s\n}\n", view->live != NULL ? view->live : "null");
}

/* --- Commands --------------------------------------------------------------------------------- */

void show_status(const struct volume_view *view, const struct command_options *options)
{
	if (options->json)
		show_programs(view, options->conf);
	else
		show_people(view, options->conf);
}

static void print_missing(const struct volume_view *view)
{
	const char *before = "";

	printf(", \"servers_missing\": [");
	for (size_t i = 0; i < view->server_count; i++) {
		if (view->servers[i].health == SERVER_UP || view->servers[i].health == SERVER_NEW)
			continue;
		fputs(before, stdout);
		print_json_string(stdout, view->servers[i].fields.url);
		before = ", ";
	}
	putchar(']');
}

static const char *mounted_on(const struct volume_view *view)
{
	for (size_t i = 0; i < view->session_count; i++) {
		if (view->sessions[i].health == SESSION_ALIVE)
			return view->sessions[i].fields.mountpoint;
	}
	return "-";
}

void show_df(const struct volume_view *view, const struct command_options *options)
{
	const char *url = conf_text(options->conf, "store.url");
	char size[16], used[16], available[16];
	uint64_t percent = 0;

	if (options->json) {
		printf("{\"store\": ");
		print_json_string(stdout, url);
		printf(", ");
		print_space(view->pages, view->pages_used);
		printf(", \"bytes_available\": %" PRIu64 ", \"inodes\": %" PRIu64
		       ", \"mounted_on\": ",
		       view->pages_available * VOLUME_PAGE_BYTES, view->inodes);
		print_json_string(stdout, mounted_on(view));
		print_missing(view);
		printf("}\n");
		return;
	}
	/* As df(1) has it: of what there is for users, rounded up. */
	if (view->pages_used + view->pages_available > 0)
		percent = (view->pages_used * 100 + view->pages_used + view->pages_available - 1) /
			  (view->pages_used + view->pages_available);
	printf("%-32s %5s %5s %5s %4s %s\n", "Filesystem", "Size", "Used", "Avail", "Use%",
	       "Mounted on");
	printf("%-32s %5s %5s %5s %3" PRIu64 "%% %s\n", url,
	       human(view->pages * VOLUME_PAGE_BYTES, size),
	       human(view->pages_used * VOLUME_PAGE_BYTES, used),
	       human(view->pages_available * VOLUME_PAGE_BYTES, available), percent,
	       mounted_on(view));
	fflush(stdout);
	show_missing(view, stderr);
}
