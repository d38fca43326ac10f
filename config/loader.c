/* SPDX-License-Identifier: Apache-2.0 */
/* From a file's text to settings. The only file that knows libconfig. */
#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <libconfig.h>
#include <stdio.h>
#include <string.h>

#include "config/scan.h"
#include "config/setting.h"
#include "config/source.h"
#include "engine/base/checked.h"

/* How much of a line a message shows. */
#define SHOWN 60

struct load {
	struct conf *conf;
	struct conf_source *source;
	struct conf_errors *errors;
};

static void complain(struct load *load, size_t line, const char *key, const char *text)
{
	conf_errors_add(load->errors, line, "%s:%u: %s: %s", conf_source_file(load->source, line),
			conf_source_line(load->source, line), key, text);
}

/* "64KiB", 5, a group ... : what stands there in place of what should. */
static void found_text(const config_setting_t *setting, char *text, size_t size)
{
	switch (config_setting_type(setting)) {
	case CONFIG_TYPE_GROUP:
		snprintf(text, size, "a group");
		break;
	case CONFIG_TYPE_ARRAY:
	case CONFIG_TYPE_LIST:
		snprintf(text, size, "a list");
		break;
	case CONFIG_TYPE_STRING:
		snprintf(text, size, "the string \"%.40s\"", config_setting_get_string(setting));
		break;
	case CONFIG_TYPE_BOOL:
		snprintf(text, size, "%s", config_setting_get_bool(setting) ? "true" : "false");
		break;
	case CONFIG_TYPE_FLOAT:
		snprintf(text, size, "%g", config_setting_get_float(setting));
		break;
	default:
		snprintf(text, size, "the number %lld", config_setting_get_int64(setting));
		break;
	}
}

static int wrong_type(const struct conf_key *key, const config_setting_t *setting,
		      struct rmem_error *error)
{
	char found[96], allowed[256];

	found_text(setting, found, sizeof(found));
	conf_allowed_text(key, allowed, sizeof(allowed));
	return rmem_fail(error, EINVAL, "found %s; allowed: %s", found, allowed);
}

static int convert_list(const struct conf_key *key, config_setting_t *setting,
			struct conf_value *value, struct rmem_error *error)
{
	int type = config_setting_type(setting), count = config_setting_length(setting);

	if (type == CONFIG_TYPE_STRING)
		return conf_value_add(key, config_setting_get_string(setting), value, error);
	if (type != CONFIG_TYPE_ARRAY && type != CONFIG_TYPE_LIST)
		return wrong_type(key, setting, error);
	for (int i = 0; i < count; i++) {
		config_setting_t *item = config_setting_get_elem(setting, (unsigned)i);
		int rc;

		if (config_setting_type(item) != CONFIG_TYPE_STRING)
			return wrong_type(key, item, error);
		rc = conf_value_add(key, config_setting_get_string(item), value, error);
		if (rc != 0)
			return rc;
	}
	return 0;
}

static int convert(const struct conf_key *key, config_setting_t *setting, struct conf_value *value,
		   struct rmem_error *error)
{
	bool quoted = key->type != CONF_BOOL && key->type != CONF_COUNT;
	bool number = key->type == CONF_COUNT || key->type == CONF_SIZE ||
		      key->type == CONF_DURATION || key->type == CONF_MODE;

	if (key->type == CONF_URL_LIST)
		return convert_list(key, setting, value, error);
	switch (config_setting_type(setting)) {
	case CONFIG_TYPE_STRING:
		if (quoted)
			return conf_value_parse(key, config_setting_get_string(setting), value,
						error);
		break;
	case CONFIG_TYPE_INT:
	case CONFIG_TYPE_INT64:
		if (number)
			return conf_value_from_number(key, config_setting_get_int64(setting), value,
						      error);
		break;
	case CONFIG_TYPE_BOOL:
		if (key->type == CONF_BOOL) {
			value->number = (uint64_t)config_setting_get_bool(setting);
			return 0;
		}
		break;
	default:
		break;
	}
	return wrong_type(key, setting, error);
}

static bool was_reported(const struct load *load, size_t line)
{
	return line >= 1 && line <= load->source->line_count &&
	       load->source->lines[line - 1].reported;
}

/* Whether the scanner has complained about this value, or about one in this list. */
static bool is_wrong(const struct load *load, const config_setting_t *setting)
{
	int type = config_setting_type(setting);
	const char *text;
	size_t length;

	if (type == CONFIG_TYPE_ARRAY || type == CONFIG_TYPE_LIST) {
		int count = config_setting_length(setting);

		for (int i = 0; i < count; i++) {
			if (is_wrong(load, config_setting_get_elem(setting, (unsigned)i)))
				return true;
		}
		return false;
	}
	if (type != CONFIG_TYPE_STRING || !was_reported(load, config_setting_source_line(setting)))
		return false;
	text = config_setting_get_string(setting);
	length = strlen(text);
	return length > 0 && text[length - 1] == CONF_WRONG_VALUE[0];
}

static void apply(struct load *load, const struct conf_key *key, config_setting_t *setting)
{
	size_t line = config_setting_source_line(setting);
	struct conf_setting *target = conf_setting_of(load->conf, key);
	struct conf_value value = {0};
	struct rmem_error error = {0};
	char origin[512];
	int rc;

	if (is_wrong(load, setting)) {
		target->wrong = true;
		return;
	}
	rc = convert(key, setting, &value, &error);
	if (rc == 0) {
		snprintf(origin, sizeof(origin), "%s:%u", conf_source_file(load->source, line),
			 conf_source_line(load->source, line));
		rc = conf_setting_replace(target, &value, CONF_LAYER_FILE, origin);
		if (rc != 0)
			rc = rmem_fail(&error, ENOMEM, "out of memory");
	}
	if (rc != 0) {
		target->wrong = true;
		complain(load, line, key->name, error.text);
	}
	conf_value_finish(&value);
}

static void take_group(struct load *load, config_setting_t *group, const char *prefix);

/* Why there is nothing of this name that could be set so. */
static void misplaced_text(const config_setting_t *setting, const char *name, char *text,
			   size_t size)
{
	const char *dot = strrchr(name, '.');

	if (conf_group_exists(name))
		snprintf(text, size, "is a group: write %.40s: { NAME = VALUE; };", name);
	else if (dot != NULL && config_setting_is_group(setting) && conf_group_exists(dot + 1))
		snprintf(text, size, "is a group of its own: is the } of %.*s missing before it?",
			 (int)(dot - name), name);
	else
		conf_unknown_text(name, text, size);
}

static void take(struct load *load, config_setting_t *setting, const char *name)
{
	const struct conf_key *key = conf_key_find(name);
	char text[200];

	if (key != NULL) {
		apply(load, key, setting);
		return;
	}
	if (config_setting_is_group(setting) && conf_group_exists(name)) {
		take_group(load, setting, name);
		return;
	}
	misplaced_text(setting, name, text, sizeof(text));
	complain(load, config_setting_source_line(setting), name, text);
	load->conf->partial = true;
}

/* As deep as the schema's groups: what is deeper is unknown where it begins. */
static void take_group(struct load *load, config_setting_t *group, const char *prefix)
{
	int count = config_setting_length(group);

	for (int i = 0; i < count; i++) {
		config_setting_t *setting = config_setting_get_elem(group, (unsigned)i);
		const char *name = config_setting_name(setting);
		char full[160];

		if (strncmp(name, CONF_LEFT_OUT, strlen(CONF_LEFT_OUT)) == 0 ||
		    config_setting_type(setting) == CONFIG_TYPE_NONE)
			continue;
		snprintf(full, sizeof(full), "%s%s%s", prefix, prefix[0] != '\0' ? "." : "", name);
		take(load, setting, full);
	}
}

static const char *line_text(const struct conf_source *source, size_t line, size_t *length)
{
	const char *text = source->text + source->lines[line - 1].start;

	*length = strcspn(text, "\n");
	while (*length > 0 && isspace((unsigned char)text[*length - 1]))
		(*length)--;
	return text;
}

/* Whether the line is one whole statement, so that the rest makes sense without it. */
static bool is_statement(const struct conf_source *source, size_t line)
{
	size_t length, before_length = 0;
	const char *text = line_text(source, line, &length), *before = "";
	bool quoted = false, assigned = false;
	int depth = 0;

	for (size_t above = line - 1; above > 0 && before_length == 0; above--)
		before = line_text(source, above, &before_length);
	if (before_length > 0 && strchr("=:,([", before[before_length - 1]) != NULL)
		return false;
	for (size_t i = 0; i < length && depth >= 0; i++) {
		if (text[i] == '\\')
			i++;
		else if (text[i] == '"')
			quoted = !quoted;
		else if (!quoted && strchr("({[", text[i]) != NULL)
			depth++;
		else if (!quoted && strchr(")}]", text[i]) != NULL)
			depth--;
		else if (!quoted && (text[i] == '=' || text[i] == ':'))
			assigned = true;
	}
	return depth == 0 && assigned;
}

static void report_line(struct load *load, const char *what, size_t line, const char *rest)
{
	struct conf_source *source = load->source;
	size_t length, indent = 0;
	const char *text = line_text(source, line, &length);
	char where[SHOWN + 8] = "at the end";

	while (indent < length && isspace((unsigned char)text[indent]))
		indent++;
	if (indent < length)
		snprintf(where, sizeof(where), "in \"%.*s\"",
			 (int)rmem_min_u64(length - indent, SHOWN), text + indent);
	conf_errors_add(load->errors, line, "%s:%u: %s %s%s", conf_source_file(source, line),
			conf_source_line(source, line), what, where, rest);
}

/* Says what libconfig noticed, in `line`, and takes that line out when it can. */
static bool step_over(struct load *load, const char *what, size_t line)
{
	struct conf_source *source = load->source;
	const char *rest = "; the file is not checked from here on";
	bool going_on;

	line = rmem_min_u64(rmem_max_u64(line, 1), source->line_count);
	going_on = is_statement(source, line);
	if (going_on)
		rest = "";
	else if (line == source->line_count)
		rest = ": is a } or ; missing?";
	load->conf->partial = true;
	if (!was_reported(load, line) && (going_on || (!source->cut && !source->unsure)))
		report_line(load, what, line, rest);
	if (!going_on)
		return false;
	for (char *c = source->text + source->lines[line - 1].start; *c != '\n' && *c != '\0'; c++)
		*c = ' ';
	return true;
}

/* Leaves in `tree` all that could be read. */
static void parse(struct load *load, config_t *tree)
{
	/* Each turn takes out one line, and a file with more wrong ones has been told enough. */
	for (unsigned turn = 0; turn < CONF_ERRORS_MAX; turn++) {
		config_init(tree);
		if (config_read_string(tree, load->source->text))
			return;
		if (!step_over(load, config_error_text(tree), (size_t)config_error_line(tree)))
			return;
		config_destroy(tree);
	}
	config_init(tree);
}

int conf_load(struct conf *conf, const char *path, struct conf_errors *errors)
{
	size_t kept_before = errors->kept, count_before = errors->count;
	struct conf_source source;
	struct load load = {.conf = conf, .source = &source, .errors = errors};
	config_t tree;
	int rc = conf_source_read(&source, path, errors);

	conf->partial = conf->partial || rc != 0 || source.cut || source.dropped;
	if (rc != 0)
		goto finish;
	parse(&load, &tree);
	take_group(&load, config_root_setting(&tree), "");
	config_destroy(&tree);
	conf_errors_sort(errors, kept_before);
	rc = errors->count == count_before ? 0 : -EINVAL;
finish:
	conf_source_finish(&source);
	return rc;
}
