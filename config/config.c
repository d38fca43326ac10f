/* SPDX-License-Identifier: Apache-2.0 */
#include "config/config.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config/setting.h"
#include "engine/base/checked.h"
#include "engine/base/log.h"
#include "engine/base/timer.h"

/* A mistake in the program, not in what a user wrote. */
static void require(bool condition, const char *key, const char *what)
{
	if (RMEM_LIKELY(condition))
		return;
	fprintf(stderr, "configuration key %s: %s\n", key, what);
	abort();
}

int conf_setting_replace(struct conf_setting *setting, struct conf_value *value,
			 enum conf_layer layer, const char *origin)
{
	char *copy = strdup(origin);

	if (copy == NULL)
		return -ENOMEM;
	free(setting->origin);
	conf_value_finish(&setting->value);
	setting->value = *value;
	setting->layer = layer;
	setting->origin = copy;
	*value = (struct conf_value){0};
	return 0;
}

static int set_default(const struct conf_key *key, struct conf_value *value)
{
	struct rmem_error error = {0};
	int rc = 0;

	if (key->type == CONF_URL_LIST && key->initial[0] != '\0')
		rc = conf_value_add(key, key->initial, value, &error);
	else if (key->type == CONF_URL && key->initial[0] == '\0')
		rc = (value->text = strdup("")) != NULL ? 0 : -ENOMEM;
	else if (key->type != CONF_URL_LIST)
		rc = conf_value_parse(key, key->initial, value, &error);
	require(rc == 0 || rc == -ENOMEM, key->name, error.text);
	return rc;
}

struct conf *conf_create(enum conf_program program)
{
	struct conf *conf = calloc(1, sizeof(*conf));

	if (conf == NULL)
		return NULL;
	conf->program = program;
	conf->settings = calloc(conf_schema_count, sizeof(*conf->settings));
	if (conf->settings == NULL)
		goto destroy;
	for (size_t i = 0; i < conf_schema_count; i++) {
		if (set_default(&conf_schema[i], &conf->settings[i].value) != 0)
			goto destroy;
	}
	return conf;
destroy:
	conf_destroy(conf);
	return NULL;
}

void conf_destroy(struct conf *conf)
{
	if (conf == NULL)
		return;
	for (size_t i = 0; conf->settings != NULL && i < conf_schema_count; i++) {
		conf_value_finish(&conf->settings[i].value);
		free(conf->settings[i].origin);
	}
	free(conf->settings);
	free(conf);
}

void conf_unknown_text(const char *name, char *text, size_t size)
{
	struct conf_nearest nearest = conf_nearest_key(name);

	if (conf_group_exists(name))
		snprintf(text, size, "this is a group: write %s.NAME", name);
	else if (nearest.text == NULL)
		snprintf(text, size, "there is no such setting; --help-config lists all");
	else
		snprintf(text, size, "there is no such setting; did you mean %.*s?",
			 (int)nearest.length, nearest.text);
}

/* Adds the items of a list. The value is the new one that is being put together. */
static int add_items(const struct conf_key *key, const char *text, bool split,
		     struct conf_value *value, struct rmem_error *error)
{
	char *copy, *item, *rest;
	int rc = 0;

	if (!split)
		return conf_value_add(key, text, value, error);
	copy = strdup(text);
	if (copy == NULL)
		return rmem_fail(error, ENOMEM, "out of memory");
	rest = text[0] != '\0' ? copy : NULL;
	while (rc == 0 && (item = strsep(&rest, ",")) != NULL)
		rc = conf_value_add(key, item, value, error);
	free(copy);
	return rc;
}

/* The list as the command line has it so far; empty when the file or the default speaks. */
static int copy_items(const struct conf_key *key, const struct conf_setting *setting,
		      struct conf_value *value, struct rmem_error *error)
{
	int rc = 0;

	if (setting->layer != CONF_LAYER_COMMAND)
		return 0;
	for (size_t i = 0; rc == 0 && i < setting->value.count; i++)
		rc = conf_value_add(key, setting->value.items[i], value, error);
	return rc;
}

static int override(struct conf *conf, const char *option, const struct conf_key *key,
		    const char *text, bool split, struct rmem_error *error)
{
	struct conf_setting *setting = conf_setting_of(conf, key);
	struct conf_value value = {0};
	int rc;

	if (key->type == CONF_URL_LIST) {
		rc = copy_items(key, setting, &value, error);
		if (rc == 0)
			rc = add_items(key, text, split, &value, error);
	} else {
		rc = conf_value_parse(key, text, &value, error);
	}
	if (rc == 0)
		rc = conf_setting_replace(setting, &value, CONF_LAYER_COMMAND, option);
	else
		setting->wrong = true;
	conf_value_finish(&value);
	return rc;
}

int conf_set(struct conf *conf, const char *assignment, struct conf_errors *errors)
{
	const char *equals = strchr(assignment, '=');
	const struct conf_key *key;
	struct rmem_error error = {0};
	char name[80], text[200];
	int rc;

	if (equals == NULL || equals == assignment) {
		conf_errors_add(errors, 0, "--set %.80s: write --set KEY=VALUE", assignment);
		return -EINVAL;
	}
	snprintf(name, sizeof(name), "%.*s", (int)rmem_min_u64(79, (uint64_t)(equals - assignment)),
		 assignment);
	key = conf_key_find(name);
	if (key == NULL) {
		conf_unknown_text(name, text, sizeof(text));
		conf_errors_add(errors, 0, "--set %s: %s", name, text);
		return -EINVAL;
	}
	if ((key->programs & conf->program) == 0) {
		conf_programs_text(key->programs, text, sizeof(text));
		conf_errors_add(errors, 0, "--set %s: %s does not use this setting (%s)", name,
				conf_program_name(conf->program), text);
		return -EINVAL;
	}
	rc = override(conf, "--set", key, equals + 1, true, &error);
	if (rc != 0)
		conf_errors_add(errors, 0, "--set %s: %s", name, error.text);
	return rc;
}

int conf_override(struct conf *conf, const char *option, const char *key_name, const char *value,
		  struct conf_errors *errors)
{
	const struct conf_key *key = conf_key_find(key_name);
	struct rmem_error error = {0};
	int rc;

	require(key != NULL, key_name, "not in the schema");
	rc = override(conf, option, key, value, false, &error);
	if (rc != 0)
		conf_errors_add(errors, 0, "%s: %s", option, error.text);
	return rc;
}

static bool is_empty(const struct conf_key *key, const struct conf_value *value)
{
	if (key->type == CONF_URL_LIST)
		return value->count == 0;
	return key->type == CONF_URL && value->text[0] == '\0';
}

static bool check_order(const struct conf *conf, const struct conf_order *order,
			struct conf_errors *errors)
{
	const struct conf_key *lesser = conf_key_find(order->lesser);
	const struct conf_key *greater = conf_key_find(order->greater);
	const struct conf_setting *first = conf_setting_of(conf, lesser);
	const struct conf_setting *second = conf_setting_of(conf, greater);
	uint64_t low = first->value.number, high = second->value.number;
	char low_text[32], high_text[32];

	if ((lesser->programs & conf->program) == 0 || first->wrong || second->wrong || low <= high)
		return true;
	conf_number_text(lesser, low, low_text, sizeof(low_text));
	conf_number_text(greater, high, high_text, sizeof(high_text));
	conf_errors_add(errors, 0, "%s is %s (%s), which is more than %s, %s (%s)", lesser->name,
			low_text, conf_origin(conf, lesser->name), greater->name, high_text,
			conf_origin(conf, greater->name));
	return false;
}

int conf_check(const struct conf *conf, struct conf_errors *errors)
{
	bool good = true;
	char allowed[256];

	for (size_t i = 0; i < conf_schema_count; i++) {
		const struct conf_key *key = &conf_schema[i];

		if ((key->required & conf->program) == 0 || conf->partial ||
		    conf->settings[i].wrong || !is_empty(key, &conf->settings[i].value))
			continue;
		conf_allowed_text(key, allowed, sizeof(allowed));
		conf_errors_add(errors, 0, "%s: not set, but %s needs it; allowed: %s", key->name,
				conf_program_name(conf->program), allowed);
		good = false;
	}
	for (const struct conf_order *order = conf_orders; order->lesser != NULL; order++)
		good = check_order(conf, order, errors) && good;
	return good ? 0 : -EINVAL;
}

static const struct conf_setting *get(const struct conf *conf, const char *name, unsigned types)
{
	const struct conf_key *key = conf_key_find(name);

	require(key != NULL, name, "not in the schema");
	require((types & (1u << key->type)) != 0, name, "of another type");
	return conf_setting_of(conf, key);
}

bool conf_bool(const struct conf *conf, const char *key)
{
	return get(conf, key, 1u << CONF_BOOL)->value.number != 0;
}

unsigned conf_count(const struct conf *conf, const char *key)
{
	return (unsigned)get(conf, key, 1u << CONF_COUNT)->value.number;
}

uint64_t conf_size_bytes(const struct conf *conf, const char *key)
{
	return get(conf, key, 1u << CONF_SIZE)->value.number;
}

uint64_t conf_duration_us(const struct conf *conf, const char *key)
{
	return get(conf, key, 1u << CONF_DURATION)->value.number;
}

unsigned conf_mode(const struct conf *conf, const char *key)
{
	return (unsigned)get(conf, key, 1u << CONF_MODE)->value.number;
}

unsigned conf_enum(const struct conf *conf, const char *key)
{
	return (unsigned)get(conf, key, 1u << CONF_ENUM)->value.number;
}

const char *conf_word(const struct conf *conf, const char *key)
{
	return conf_key_find(key)->words[conf_enum(conf, key)];
}

const char *conf_text(const struct conf *conf, const char *key)
{
	return get(conf, key, 1u << CONF_PATH | 1u << CONF_URL)->value.text;
}

const char *const *conf_list(const struct conf *conf, const char *key, size_t *count)
{
	const struct conf_setting *setting = get(conf, key, 1u << CONF_URL_LIST);

	*count = setting->value.count;
	return (const char *const *)setting->value.items;
}

const char *conf_origin(const struct conf *conf, const char *key)
{
	const struct conf_setting *setting = get(conf, key, ~0u);

	return setting->origin != NULL ? setting->origin : "default";
}

void conf_apply_log(const struct conf *conf)
{
	unsigned common = conf_enum(conf, "log.level");

	for (unsigned i = 0; i < RMEM_LOG_MODULES; i++) {
		char key[32];
		unsigned own;

		snprintf(key, sizeof(key), "log.%s", rmem_log_module_name((enum rmem_log_module)i));
		own = conf_enum(conf, key);
		/* The words are `default` and then the levels, which stand as in the log's own
		 * enum. */
		rmem_log_set_level((enum rmem_log_module)i,
				   (enum rmem_log_level)(own == 0 ? common : own - 1));
	}
	if (conf_enum(conf, "log.sink") == CONF_LOG_SYSLOG)
		rmem_log_to_syslog();
}

void conf_apply_telemetry(const struct conf *conf)
{
	rmem_timer_set(RMEM_LOG_ENGINE, conf_bool(conf, "engine.telemetry"));
}
