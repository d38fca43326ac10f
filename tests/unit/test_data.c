/* SPDX-License-Identifier: Apache-2.0 */
/* The data path against a model: a file is an array of bytes. */
#include <errno.h>
#include <linux/falloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/base/checked.h"
#include "fs/namespace.h"
#include "tests/support/rig.h"
#include "tests/support/runner.h"

#define PAGE	  VOLUME_PAGE_BYTES
#define FILE_MAX  (4u << 20)
#define WRITE_MAX (256u << 10)

struct model {
	uint8_t bytes[FILE_MAX];
	uint64_t size;
};

static uint64_t size_of(struct inode *inode)
{
	uint64_t size;

	pthread_mutex_lock(&inode->lock);
	size = inode->attr.size;
	pthread_mutex_unlock(&inode->lock);
	return size;
}

static struct inode *create_file(struct rig *rig, const char *name)
{
	struct namespace_create create = {.mode = S_IFREG | 0644};
	struct inode *root, *inode;

	ck_assert_int_eq(inode_get(rig->volume, INODE_ROOT, &root), 0);
	ck_assert_int_eq(namespace_create(rig->volume, root, name, &create, &inode), 0);
	inode_unref(rig->volume, root, 1);
	return inode;
}

static int run_kind(struct rig *rig, unsigned reactor, struct data_request *request,
		    enum data_kind kind, struct inode *inode, uint64_t offset, uint64_t length)
{
	request->kind = kind;
	request->inode = inode;
	request->offset = offset;
	request->length = length;
	return rig_run(rig, reactor, request);
}

/* The whole file, read in pieces of odd sizes, equals the model. */
static void compare(struct rig *rig, unsigned reactor, struct data_request *request,
		    struct inode *inode, const struct model *model)
{
	uint64_t at = 0;

	ck_assert_uint_eq(size_of(inode), model->size);
	while (at < model->size) {
		uint64_t want = 1 + (uint64_t)rand() % WRITE_MAX;

		memset(request->buffer, 0xee, want);
		ck_assert_int_eq(run_kind(rig, reactor, request, DATA_READ, inode, at, want), 0);
		ck_assert_uint_eq(request->transferred, rmem_min_u64(want, model->size - at));
		ck_assert_msg(memcmp(request->buffer, model->bytes + at, request->transferred) == 0,
			      "bytes differ in [%llu, +%llu)", (unsigned long long)at,
			      (unsigned long long)request->transferred);
		at += request->transferred;
	}
	ck_assert_int_eq(run_kind(rig, reactor, request, DATA_READ, inode, at, 100), 0);
	ck_assert_uint_eq(request->transferred, 0);
}

/* Where writes start: anywhere, at page boundaries, at the end of the file. */
static uint64_t some_offset(uint64_t size)
{
	uint64_t offset = (uint64_t)rand() % (FILE_MAX - WRITE_MAX);

	switch (rand() % 4) {
	case 0:
		return rmem_round_down(offset, PAGE);
	case 1:
		return rmem_min_u64(size, FILE_MAX - WRITE_MAX);
	case 2:
		return offset % (size + 1 + PAGE);
	default:
		return offset;
	}
}

static uint64_t some_length(void)
{
	switch (rand() % 3) {
	case 0:
		return 1 + (uint64_t)rand() % 200;
	case 1:
		return PAGE * (1 + (uint64_t)rand() % 16);
	default:
		return 1 + (uint64_t)rand() % WRITE_MAX;
	}
}

static void model_write(struct model *model, uint64_t offset, const uint8_t *bytes, uint64_t length)
{
	memcpy(model->bytes + offset, bytes, length);
	model->size = rmem_max_u64(model->size, offset + length);
}

static void model_truncate(struct model *model, uint64_t size)
{
	if (size < model->size)
		memset(model->bytes + size, 0, model->size - size);
	model->size = size;
}

static void step_write(struct rig *rig, unsigned reactor, struct data_request *request,
		       struct inode *inode, struct model *model)
{
	uint64_t offset = some_offset(model->size), length = some_length();

	for (uint64_t i = 0; i < length; i++)
		request->buffer[i] = (uint8_t)(rand() | 1);
	model_write(model, offset, request->buffer, length);
	ck_assert_int_eq(run_kind(rig, reactor, request, DATA_WRITE, inode, offset, length), 0);
	ck_assert_uint_eq(request->transferred, length);
}

static void step_fallocate(struct rig *rig, unsigned reactor, struct data_request *request,
			   struct inode *inode, struct model *model)
{
	static const int modes[] = {
		0,
		FALLOC_FL_KEEP_SIZE,
		FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
		FALLOC_FL_ZERO_RANGE,
		FALLOC_FL_ZERO_RANGE | FALLOC_FL_KEEP_SIZE,
	};
	uint64_t offset = some_offset(model->size), length = some_length(), end = offset + length;

	request->mode = modes[(unsigned)rand() % RMEM_COUNT_OF(modes)];
	if (request->mode & (FALLOC_FL_PUNCH_HOLE | FALLOC_FL_ZERO_RANGE) && offset < model->size)
		memset(model->bytes + offset, 0, rmem_min_u64(length, model->size - offset));
	if (!(request->mode & FALLOC_FL_KEEP_SIZE))
		model->size = rmem_max_u64(model->size, end);
	ck_assert_int_eq(run_kind(rig, reactor, request, DATA_FALLOCATE, inode, offset, length), 0);
}

static struct inode *step_reload(struct rig *rig, struct inode *inode)
{
	uint64_t ino = inode->ino;

	ck_assert_int_eq(inode_flush(rig->volume, inode), 0);
	inode_unref(rig->volume, inode, 1);
	ck_assert_int_eq(inode_get(rig->volume, ino, &inode), 0);
	return inode;
}

static struct inode *step(struct rig *rig, unsigned reactor, struct data_request *request,
			  struct inode *inode, struct model *model)
{
	uint64_t size;

	switch (rand() % 17) {
	case 16: /* nothing to do unless writes are back */
		ck_assert_int_eq(run_kind(rig, reactor, request, DATA_SYNC, inode, 0, 0), 0);
		break;
	case 0:
		size = rand() % 2 ? some_offset(model->size) : (uint64_t)rand() % (model->size + 1);
		model_truncate(model, size);
		ck_assert_int_eq(run_kind(rig, reactor, request, DATA_TRUNCATE, inode, size, 0), 0);
		break;
	case 1:
	case 2:
	case 3:
		step_fallocate(rig, reactor, request, inode, model);
		break;
	case 4:
		ck_assert_int_eq(run_kind(rig, reactor, request, DATA_TRIM, inode, 0, 0), 0);
		break;
	case 5:
		return step_reload(rig, inode);
	case 6:
		compare(rig, reactor, request, inode, model);
		break;
	default:
		step_write(rig, reactor, request, inode, model);
		break;
	}
	return inode;
}

/* A page that other files used before, so that stale bytes would show. */
static void soil_pool(struct rig *rig, struct data_request *request)
{
	struct inode *root, *inode = create_file(rig, "dirt");

	memset(request->buffer, 0xdd, DATA_TRANSFER_MAX);
	for (uint64_t at = 0; at < 16u << 20; at += DATA_TRANSFER_MAX)
		ck_assert_int_eq(
			run_kind(rig, 0, request, DATA_WRITE, inode, at, DATA_TRANSFER_MAX), 0);
	inode_unref(rig->volume, inode, 1);
	ck_assert_int_eq(inode_get(rig->volume, INODE_ROOT, &root), 0);
	ck_assert_int_eq(namespace_unlink(rig->volume, root, "dirt"), 0);
	inode_unref(rig->volume, root, 1);
}

/* What is to be staged must have been, and nothing else. */
static void check_staged(const struct rig *rig)
{
	struct data_stats stats;

	if (!data_stats_read(rig->data, &stats))
		return;
	if (rig->options.stage_local || rig->options.far != 0)
		ck_assert_uint_gt(stats.flushed_bytes, 0);
	else
		ck_assert_uint_eq(stats.dirty_bytes_max, 0);
}

static void random_operations(const struct rig_options *options, unsigned seed)
{
	struct data_request *request = calloc(1, sizeof(*request));
	struct model *model = calloc(1, sizeof(*model));
	struct inode *inode;
	struct rig rig;

	srand(seed);
	rig_start(&rig, options);
	request->buffer = rmem_staging_get(rmem_engine_reactor(rig.engine, 0));
	soil_pool(&rig, request);
	inode = create_file(&rig, "file");
	for (unsigned i = 0; i < 600; i++)
		inode = step(&rig, 0, request, inode, model);
	compare(&rig, 0, request, inode, model);
	ck_assert_int_eq(run_kind(&rig, 0, request, DATA_SYNC, inode, 0, 0), 0);
	compare(&rig, 0, request, inode, model);
	check_staged(&rig);
	inode_unref(rig.volume, inode, 1);
	rmem_staging_put(rmem_engine_reactor(rig.engine, 0), request->buffer);
	rig_stop(&rig);
	free(request);
	free(model);
}

static const struct rig_options one_server = {
	.servers = 1,
	.reactors = 1,
	.pool_bytes = 32u << 20,
	.stripe_bytes = 64u << 10,
};
static const struct rig_options three_servers = {
	.servers = 3,
	.reactors = 1,
	.pool_bytes = 32u << 20,
	.stripe_bytes = 64u << 10,
};

START_TEST(random_operations_on_one_server_match_the_model)
{
	random_operations(&one_server, 11 + (unsigned)_i);
}
END_TEST

START_TEST(random_operations_over_three_servers_match_the_model)
{
	random_operations(&three_servers, 23 + (unsigned)_i);
}
END_TEST

/* Memory for dirty pages, the longest write that is staged, and their age. */
static const struct {
	uint64_t dirty_bytes, stage_bytes;
	unsigned age_ms;
} back_settings[] = {
	{8u << 20, 1u << 20, 10000}, /* hardly anything is flushed but when asked to */
	{1u << 20, 64u << 10, 10},
	{16 * PAGE, 1u << 20, 10}, /* no room at all */
	{PAGE, PAGE, 10000},
};

static struct rig_options written_back(const struct rig_options *usual, int round)
{
	struct rig_options options = *usual;
	unsigned setting = (unsigned)round % RMEM_COUNT_OF(back_settings);

	options.dirty_bytes = back_settings[setting].dirty_bytes;
	options.stage_bytes = back_settings[setting].stage_bytes;
	options.dirty_age_ms = back_settings[setting].age_ms;
	return options;
}

START_TEST(random_operations_written_back_match_the_model)
{
	struct rig_options options = written_back(_i % 2 ? &three_servers : &one_server, _i);

	options.stage_local = true;
	random_operations(&options, 37 + (unsigned)_i);
}
END_TEST

/* Some writes are staged and some are not, in one file and over each other; or none. */
START_TEST(random_operations_written_back_to_far_servers_alone_match_the_model)
{
	struct rig_options options = written_back(&three_servers, _i);

	options.far = _i < 8 ? 1u << (_i % 3) : 0;
	random_operations(&options, 53 + (unsigned)_i);
}
END_TEST

/* Two reactors, one file: each owns every other byte range of 1000 bytes, so that most pages are
 * shared between them, and pads race with writes unless the gate orders them. */
struct writer {
	struct rig *rig;
	struct inode *inode;
	unsigned reactor;
	pthread_t thread;
};

#define OWN_BYTES 1000u
#define RANGES	  400u

static void *write_own_ranges(void *argument)
{
	struct writer *writer = argument;
	struct rmem_reactor *reactor = rmem_engine_reactor(writer->rig->engine, writer->reactor);
	struct data_request *request = calloc(1, sizeof(*request));
	unsigned order[RANGES / 2];
	unsigned seed = 5 + writer->reactor;

	request->buffer = rmem_staging_get(reactor);
	for (unsigned i = 0; i < RANGES / 2; i++)
		order[i] = 2 * i + writer->reactor;
	for (unsigned i = RANGES / 2 - 1; i > 0; i--) {
		unsigned j = (unsigned)rand_r(&seed) % (i + 1), swap = order[i];

		order[i] = order[j];
		order[j] = swap;
	}
	for (unsigned i = 0; i < RANGES / 2; i++) {
		memset(request->buffer, (int)(order[i] % 255 + 1), OWN_BYTES);
		ck_assert_int_eq(run_kind(writer->rig, writer->reactor, request, DATA_WRITE,
					  writer->inode, (uint64_t)order[i] * OWN_BYTES, OWN_BYTES),
				 0);
	}
	rmem_staging_put(reactor, request->buffer);
	free(request);
	return NULL;
}

START_TEST(writers_on_shared_fresh_pages_lose_nothing)
{
	struct rig_options options = {
		.servers = 2,
		.reactors = 2,
		.pool_bytes = 32u << 20,
		.stripe_bytes = 64u << 10,
	};
	struct data_request *request = calloc(1, sizeof(*request));
	struct writer writers[2];
	struct rig rig;

	rig_start(&rig, &options);
	for (unsigned round = 0; round < 5; round++) {
		char name[16];
		struct inode *inode;

		snprintf(name, sizeof(name), "f%u", round);
		inode = create_file(&rig, name);
		for (unsigned i = 0; i < 2; i++) {
			writers[i] = (struct writer){.rig = &rig, .inode = inode, .reactor = i};
			ck_assert_int_eq(pthread_create(&writers[i].thread, NULL, write_own_ranges,
							&writers[i]),
					 0);
		}
		for (unsigned i = 0; i < 2; i++)
			pthread_join(writers[i].thread, NULL);
		request->buffer = rmem_staging_get(rmem_engine_reactor(rig.engine, 0));
		ck_assert_int_eq(
			run_kind(&rig, 0, request, DATA_READ, inode, 0, RANGES * OWN_BYTES), 0);
		ck_assert_uint_eq(request->transferred, RANGES * OWN_BYTES);
		for (unsigned i = 0; i < RANGES * OWN_BYTES; i++)
			ck_assert_uint_eq(request->buffer[i], i / OWN_BYTES % 255 + 1);
		rmem_staging_put(rmem_engine_reactor(rig.engine, 0), request->buffer);
		inode_unref(rig.volume, inode, 1);
	}
	rig_stop(&rig);
	free(request);
}
END_TEST

START_TEST(lost_server_is_eio_and_its_new_memory_is_never_read_as_old)
{
	struct rig_options options = {
		.servers = 1,
		.reactors = 1,
		.pool_bytes = 16u << 20,
		.stripe_bytes = 1u << 20,
	};
	struct data_request *request = calloc(1, sizeof(*request));
	struct rmem_server_info info;
	struct rmem_error error = {0};
	struct inode *inode, *other;
	uint64_t incarnation;
	struct rig rig;

	rig_start(&rig, &options);
	request->buffer = rmem_staging_get(rmem_engine_reactor(rig.engine, 0));
	inode = create_file(&rig, "file");
	memset(request->buffer, 0x5a, 64 * PAGE);
	ck_assert_int_eq(run_kind(&rig, 0, request, DATA_WRITE, inode, 0, 64 * PAGE), 0);
	ck_assert_int_eq(rmem_server_info(rig.engine, 0, &info), 0);
	incarnation = info.incarnation;
	rig_stop_server(&rig, 0);
	/* It takes the control thread a moment to notice; until then its memory may be read. */
	for (unsigned i = 0; i < 1000 && info.state == RMEM_SERVER_UP; i++) {
		usleep(10000);
		ck_assert_int_eq(rmem_server_info(rig.engine, 0, &info), 0);
	}
	ck_assert_int_eq(run_kind(&rig, 0, request, DATA_READ, inode, 0, PAGE), -EIO);
	rig_start_server(&rig, 0, 16u << 20);
	/* Until the control thread has noticed, the old connection may still count as up. */
	for (unsigned i = 0; i < 1000; i++) {
		ck_assert_int_eq(rmem_server_info(rig.engine, 0, &info), 0);
		if (info.state == RMEM_SERVER_UP && info.incarnation != incarnation)
			break;
		usleep(10000);
	}
	ck_assert_msg(rmem_server_wait(rig.engine, 0, 5000, &error) == 0, "%s", error.text);
	ck_assert_int_eq(rmem_server_info(rig.engine, 0, &info), 0);
	ck_assert_int_eq(volume_attach(rig.volume, 0, &info, &error), 0);
	ck_assert_int_eq(run_kind(&rig, 0, request, DATA_READ, inode, 0, PAGE), -EIO);
	other = create_file(&rig, "other");
	memset(request->buffer, 0x33, PAGE);
	ck_assert_int_eq(run_kind(&rig, 0, request, DATA_WRITE, other, 0, PAGE), 0);
	ck_assert_int_eq(run_kind(&rig, 0, request, DATA_READ, other, 0, PAGE), 0);
	ck_assert_uint_eq(request->buffer[PAGE - 1], 0x33);
	inode_unref(rig.volume, other, 1);
	inode_unref(rig.volume, inode, 1);
	rmem_staging_put(rmem_engine_reactor(rig.engine, 0), request->buffer);
	rig_stop(&rig);
	free(request);
}
END_TEST

START_TEST(full_pool_is_enospc_and_deleting_gives_space_back)
{
	struct rig_options options = {
		.servers = 1,
		.reactors = 1,
		.pool_bytes = 8u << 20,
		.stripe_bytes = 1u << 20,
	};
	struct data_request *request = calloc(1, sizeof(*request));
	struct inode *inode;
	struct rig rig;
	uint64_t at = 0;
	int status;

	rig_start(&rig, &options);
	request->buffer = rmem_staging_get(rmem_engine_reactor(rig.engine, 0));
	inode = create_file(&rig, "file");
	do {
		status = run_kind(&rig, 0, request, DATA_WRITE, inode, at, 16 * PAGE);
		at += 16 * PAGE;
	} while (status == 0);
	ck_assert_int_eq(status, -ENOSPC);
	ck_assert_uint_eq(size_of(inode), 8u << 20);
	ck_assert_int_eq(run_kind(&rig, 0, request, DATA_TRUNCATE, inode, 0, 0), 0);
	ck_assert_int_eq(run_kind(&rig, 0, request, DATA_WRITE, inode, 0, DATA_TRANSFER_MAX), 0);
	ck_assert_int_eq(run_kind(&rig, 0, request, DATA_WRITE, inode, VOLUME_SIZE_MAX, 1), -EFBIG);
	inode_unref(rig.volume, inode, 1);
	rmem_staging_put(rmem_engine_reactor(rig.engine, 0), request->buffer);
	rig_stop(&rig);
	free(request);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("data");
	TCase *tcase = tcase_create("data");

	tcase_set_timeout(tcase, 100);
	tcase_add_loop_test(tcase, random_operations_on_one_server_match_the_model, 0, 3);
	tcase_add_loop_test(tcase, random_operations_over_three_servers_match_the_model, 0, 3);
	tcase_add_loop_test(tcase, random_operations_written_back_match_the_model, 0, 8);
	tcase_add_loop_test(
		tcase, random_operations_written_back_to_far_servers_alone_match_the_model, 0, 10);
	tcase_add_test(tcase, writers_on_shared_fresh_pages_lose_nothing);
	tcase_add_test(tcase, lost_server_is_eio_and_its_new_memory_is_never_read_as_old);
	tcase_add_test(tcase, full_pool_is_enospc_and_deleting_gives_space_back);
	suite_add_tcase(suite, tcase);
	return run_suite(suite);
}
