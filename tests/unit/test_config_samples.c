/* SPDX-License-Identifier: Apache-2.0 */
/* What lies in config/ beside the code: the samples and the reference. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config/config.h"
#include "config/help.h"
#include "config/options.h"
#include "tests/support/runner.h"

static const struct {
	const char *file;
	enum conf_program program;
} samples[] = {
	{CONF_SAMPLES "/rmemfs.cfg", CONF_RMEMFS},
	{CONF_SAMPLES "/rmemfs.cfg", CONF_RMEMCTL},
	{CONF_SAMPLES "/rmemd.cfg", CONF_RMEMD},
	{CONF_SAMPLES "/quickstart.cfg", CONF_RMEMFS},
	{CONF_SAMPLES "/quickstart.cfg", CONF_RMEMD},
	{CONF_SAMPLES "/quickstart.cfg", CONF_RMEMCTL},
};

START_TEST(each_sample_loads_without_a_complaint)
{
	struct conf *conf = conf_create(samples[_i].program);
	struct conf_errors errors;

	conf_errors_init(&errors);
	ck_assert_ptr_nonnull(conf);
	ck_assert_msg(conf_load(conf, samples[_i].file, &errors) == 0, "%s", errors.list[0].text);
	ck_assert_msg(conf_check(conf, &errors) == 0, "%s", errors.list[0].text);
	conf_destroy(conf);
}
END_TEST

START_TEST(each_sample_passes_check_config)
{
	struct conf_options options;
	struct conf *conf;

	conf_options_init(&options, samples[_i].program);
	ck_assert(conf_options_take(&options, 'c', samples[_i].file));
	ck_assert(conf_options_take(&options, CONF_OPTION_CHECK, NULL));
	/* Its "is good" would end up among the test's own output. */
	ck_assert_ptr_nonnull(freopen("/dev/null", "w", stdout));
	ck_assert_int_eq(conf_options_load(&options, &conf), CONF_DONE);
}
END_TEST

/* Explicit defaults in a sample go stale when the schema changes. */
START_TEST(samples_that_spell_out_defaults_have_them_right)
{
	static const char *const keys[] = {"store.sync_interval", "engine.spin", "engine.detect"};
	struct conf *sample = conf_create(CONF_RMEMFS), *plain = conf_create(CONF_RMEMFS);
	struct conf_errors errors;

	conf_errors_init(&errors);
	ck_assert_int_eq(conf_load(sample, CONF_SAMPLES "/rmemfs.cfg", &errors), 0);
	for (unsigned i = 0; i < RMEM_COUNT_OF(keys); i++)
		ck_assert_uint_eq(conf_duration_us(sample, keys[i]),
				  conf_duration_us(plain, keys[i]));
	ck_assert_uint_eq(conf_size_bytes(sample, "fs.stripe"),
			  conf_size_bytes(plain, "fs.stripe"));
	conf_destroy(sample);
	conf_destroy(plain);
}
END_TEST

static char *read_file(const char *path)
{
	FILE *stream = fopen(path, "r");
	char *text = NULL;
	size_t size = 0;

	ck_assert_msg(stream != NULL, "cannot open %s", path);
	ck_assert_int_gt(getdelim(&text, &size, '\0', stream), 0);
	fclose(stream);
	return text;
}

START_TEST(the_reference_is_what_the_schema_says)
{
	char *committed = read_file(CONF_SAMPLES "/README.md"), *made = NULL;
	size_t size;
	FILE *stream = open_memstream(&made, &size);

	ck_assert_ptr_nonnull(stream);
	conf_reference_print(stream);
	ck_assert_int_eq(fclose(stream), 0);
	ck_assert_msg(strcmp(committed, made) == 0,
		      "config/README.md is older than config/schema.c: run "
		      "`ninja -C build config-reference` and commit it");
	free(committed);
	free(made);
}
END_TEST

/* The example at its top is one that works. */
START_TEST(the_references_example_loads)
{
	char *text = read_file(CONF_SAMPLES "/README.md"), *start, *end;
	char path[] = "/tmp/rmemfs-config-XXXXXX";
	struct conf *conf = conf_create(CONF_RMEMFS);
	struct conf_errors errors;
	FILE *stream = fdopen(mkstemp(path), "w");

	conf_errors_init(&errors);
	ck_assert_ptr_nonnull(stream);
	start = strstr(text, "```\n");
	ck_assert_ptr_nonnull(start);
	start += 4;
	end = strstr(start, "@include");
	ck_assert_ptr_nonnull(end);
	ck_assert_uint_eq(fwrite(start, 1, (size_t)(end - start), stream), (size_t)(end - start));
	ck_assert_int_eq(fclose(stream), 0);
	int rc = conf_load(conf, path, &errors);
	remove(path);
	ck_assert_msg(rc == 0, "%s", errors.list[0].text);
	ck_assert_int_eq(conf_check(conf, &errors), 0);
	conf_destroy(conf);
	free(text);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("config_samples");
	TCase *tcase = tcase_create("samples");

	tcase_add_loop_test(tcase, each_sample_loads_without_a_complaint, 0,
			    (int)RMEM_COUNT_OF(samples));
	tcase_add_loop_test(tcase, each_sample_passes_check_config, 0, (int)RMEM_COUNT_OF(samples));
	tcase_add_test(tcase, samples_that_spell_out_defaults_have_them_right);
	tcase_add_test(tcase, the_reference_is_what_the_schema_says);
	tcase_add_test(tcase, the_references_example_loads);
	suite_add_tcase(suite, tcase);
	return run_suite(suite);
}
