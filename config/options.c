/* SPDX-License-Identifier: Apache-2.0 */
#include "config/options.h"

#include <stdio.h>
#include <stdlib.h>

#include "config/help.h"

void conf_options_init(struct conf_options *options, enum conf_program program)
{
	*options = (struct conf_options){.program = program};
}

void conf_options_finish(struct conf_options *options)
{
	free(options->values);
	conf_options_init(options, options->program);
}

void conf_options_override(struct conf_options *options, const char *option, const char *key,
			   const char *value)
{
	struct conf_option_value *values =
		realloc(options->values, (options->value_count + 1) * sizeof(*values));

	if (values == NULL) {
		options->out_of_memory = true;
		return;
	}
	options->values = values;
	values[options->value_count++] =
		(struct conf_option_value){.option = option, .key = key, .value = value};
}

bool conf_options_take(struct conf_options *options, int option, const char *argument)
{
	switch (option) {
	case 'c':
		options->file = argument;
		return true;
	case CONF_OPTION_SET:
		conf_options_override(options, "--set", NULL, argument);
		return true;
	case CONF_OPTION_CHECK:
		options->check = true;
		return true;
	case CONF_OPTION_HELP:
		options->help = true;
		return true;
	default:
		return false;
	}
}

/* Goes on after an error, so that all are told at once. */
static bool fill(const struct conf_options *options, struct conf *conf, struct conf_errors *errors)
{
	bool good = !options->out_of_memory;

	if (options->file != NULL)
		good = conf_load(conf, options->file, errors) == 0 && good;
	for (size_t i = 0; i < options->value_count; i++) {
		const struct conf_option_value *given = &options->values[i];
		int rc;

		if (given->key == NULL)
			rc = conf_set(conf, given->value, errors);
		else
			rc = conf_override(conf, given->option, given->key, given->value, errors);
		good = rc == 0 && good;
	}
	return conf_check(conf, errors) == 0 && good;
}

static bool inspect(const struct conf_options *options, const struct conf *conf)
{
	struct rmem_error error = {0};

	if (options->inspect == NULL || options->inspect(conf, &error) == 0)
		return true;
	fprintf(stderr, "%s: %s\n", conf_program_name(options->program), error.text);
	return false;
}

static enum conf_verdict load(const struct conf_options *options, struct conf **conf)
{
	const char *name = conf_program_name(options->program);
	struct conf_errors errors;
	bool good = false;

	conf_errors_init(&errors);
	*conf = conf_create(options->program);
	if (*conf != NULL)
		good = fill(options, *conf, &errors);
	if (*conf == NULL || options->out_of_memory)
		fprintf(stderr, "%s: out of memory\n", name);
	conf_errors_print(&errors, name, stderr);
	conf_errors_finish(&errors);
	if (good && !options->check)
		return CONF_RUN;
	if (good)
		good = inspect(options, *conf);
	if (good)
		printf("%s: %s: the configuration is good\n", name,
		       options->file != NULL ? options->file : "no file");
	conf_destroy(*conf);
	*conf = NULL;
	return good ? CONF_DONE : CONF_FAIL;
}

enum conf_verdict conf_options_load(struct conf_options *options, struct conf **conf)
{
	enum conf_verdict verdict;

	*conf = NULL;
	if (options->help) {
		conf_help_print(options->program, stdout);
		verdict = CONF_DONE;
	} else {
		verdict = load(options, conf);
	}
	conf_options_finish(options);
	return verdict;
}
