/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "fs/check.h"
#include "tools/rmemctl.h"

struct listing {
	bool json;
	uint64_t count;
};

static void list_finding(void *user, const struct check_finding *finding)
{
	struct listing *listing = user;
	const char *severity = check_severity_name(finding->severity);

	if (!listing->json) {
		printf("%s: %s\n", severity, finding->text);
		return;
	}
	printf("%s\n    {\"severity\": \"%s\", \"repairable\": %s, \"text\": ",
	       listing->count++ == 0 ? "" : ",", severity, finding->repairable ? "true" : "false");
	print_json_string(stdout, finding->text);
	if (finding->bytes_lost > 0) {
		printf(", \"bytes_lost\": %" PRIu64 ", \"path\": ", finding->bytes_lost);
		if (finding->path != NULL)
			print_json_string(stdout, finding->path);
		else
			fputs("null", stdout);
	}
	putchar('}');
}

static void sum_up_json(const struct check_result *result)
{
	printf("\n  ],\n  \"clean\": %s, \"repaired\": %" PRIu64,
	       check_is_clean(result) ? "true" : "false", result->repaired);
	for (unsigned i = CHECK_LEAK; i < CHECK_SEVERITIES; i++)
		printf(", \"%s\": %" PRIu64, check_severity_name(i), result->findings[i]);
	printf(",\n  \"inodes\": %" PRIu64 ", \"directories\": %" PRIu64 ", \"names\": %" PRIu64
	       ", \"orphans\": %" PRIu64 ", \"sessions\": %" PRIu64 ", \"servers\": %" PRIu64
	       ", \"regions\": %" PRIu64 ", \"pages_total\": %" PRIu64 ", \"pages_used\": %" PRIu64
	       ", \"pages_lost\": %" PRIu64 ", \"bytes_lost\": %" PRIu64
	       ", \"files_damaged\": %" PRIu64 "\n}\n",
	       result->inodes, result->directories, result->names, result->orphans,
	       result->sessions, result->servers, result->regions, result->pages_total,
	       result->pages_used, result->pages_lost, result->bytes_lost, result->files_damaged);
}

static void sum_up(const struct check_result *result)
{
	if (result->repaired > 0)
		printf("repaired: %" PRIu64 "\n", result->repaired);
	if (result->pages_lost > 0)
		printf("note: %" PRIu64 " files lost %" PRIu64 " bytes, in %" PRIu64
		       " pages of servers that lost their memory\n",
		       result->files_damaged, result->bytes_lost, result->pages_lost);
	printf("%s: %" PRIu64 " inodes (%" PRIu64 " directories), %" PRIu64 " names, %" PRIu64
	       " of %" PRIu64 " pages used on %" PRIu64 " servers; %" PRIu64 " leaked, %" PRIu64
	       " wrong, %" PRIu64 " serious\n",
	       check_is_clean(result) ? "clean" : "NOT CLEAN", result->inodes, result->directories,
	       result->names, result->pages_used, result->pages_total, result->servers,
	       result->findings[CHECK_LEAK], result->findings[CHECK_WRONG],
	       result->findings[CHECK_SERIOUS]);
}

static int fail(const char *url, int error, bool json)
{
	if (json)
		printf("\n  ]\n}\n"); /* what was found until then stays readable */
	if (error == -ENOENT)
		fprintf(stderr, "rmemctl: store %s has no volume: nothing was mounted yet\n", url);
	else if (error == -EPROTO)
		fprintf(stderr,
			"rmemctl: store %s has a volume of a format that this version does not "
			"know\n",
			url);
	else
		fprintf(stderr, "rmemctl: store %s: the check could not be ended: %s\n", url,
			strerror(-error));
	return RMEMCTL_FAILED;
}

int command_check(const struct command_options *options)
{
	struct listing listing = {.json = options->json};
	struct check_options check = {.report = list_finding, .user = &listing};
	struct check_result result;
	struct rmem_error text = {0};
	int error;

	if (open_store(options, options->repair, &check.store, &text) != 0) {
		fprintf(stderr, "rmemctl: %s\n", text.text);
		return RMEMCTL_FAILED;
	}
	if (options->json)
		printf("{\n  \"findings\": [");
	error = options->repair ? check_repair(&check, &result) : check_run(&check, &result);
	store_close(check.store);
	if (error != 0)
		return fail(conf_text(options->conf, "store.url"), error, options->json);
	if (options->json)
		sum_up_json(&result);
	else
		sum_up(&result);
	return check_is_clean(&result) && result.repaired == 0 ? RMEMCTL_OK : RMEMCTL_FOUND;
}
