/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/bench_ground.h"

#include <errno.h>
#include <string.h>

#include "engine/base/checked.h"
#include "engine/base/timer.h"
#include "engine/stream.h"
#include "tools/bench_clock.h"
#include "tools/bench_plot.h"

static int use_given(struct bench_ground *ground, struct rmem_error *error)
{
	const struct bench_settings *settings = &ground->line->settings;
	size_t count;
	const char *const *urls = conf_list(ground->line->conf, "servers", &count);
	bool writes = settings->op != BENCH_READ || settings->verify;

	for (size_t i = 0; i < count && i < RMEM_COUNT_OF(ground->urls); i++)
		ground->urls[ground->url_count++] = urls[i];
	if (count > 0 && writes && !settings->overwrite)
		return rmem_fail(error, EPERM,
				 "this would overwrite what is on %s%s: say --overwrite if nothing "
				 "there is needed, or --op read to leave it as it is",
				 urls[0], count > 1 ? " and others" : "");
	return 0;
}

static int start_own(struct bench_ground *ground, struct rmem_error *error)
{
	struct bench_servers_options options = {
		.count = (unsigned)ground->line->settings.servers,
		.pool_bytes = ground->budget.share_bytes * ground->line->settings.reactors,
		.huge_pages = ground->engine.huge_pages,
	};
	int rc = bench_servers_start(&options, &ground->own, error);

	for (unsigned i = 0; rc == 0 && i < options.count; i++)
		ground->urls[ground->url_count++] = bench_servers_url(ground->own, i);
	return rc;
}

int bench_ground_init(struct bench_ground *ground, const struct bench_line *line,
		      struct rmem_error *error)
{
	const struct bench_settings *settings = &line->settings;
	int rc;

	*ground = (struct bench_ground){.line = line};
	bench_clock_init();
	rc = bench_line_engine(line, &ground->engine, error);
	if (rc == 0 && settings->plot != NULL)
		rc = bench_plot_check(settings->plot, error);
	if (rc == 0)
		rc = use_given(ground, error);
	if (rc == 0)
		rc = bench_budget_make(settings,
				       ground->url_count > 0 ? 0 : (unsigned)settings->servers,
				       bench_budget_limit(settings), &ground->budget, error);
	if (rc == 0 && ground->url_count == 0)
		rc = start_own(ground, error);
	return rc;
}

void bench_ground_finish(struct bench_ground *ground)
{
	bench_servers_stop(ground->own);
	ground->own = NULL;
}

int bench_ground_rig(const struct bench_ground *ground, enum rmem_poll_mode mode,
		     struct bench_rig **rig, struct rmem_error *error)
{
	struct bench_rig_options options = {
		.engine = ground->engine,
		.urls = ground->urls,
		.url_count = ground->url_count,
		.share_bytes = ground->budget.share_bytes,
		.has_twin = ground->line->settings.copy != 0,
		.message_bytes = ground->line->settings.size_max,
	};

	options.engine.poll = mode;
	return bench_rig_create(&options, rig, error);
}

void bench_ground_load(const struct bench_ground *ground, struct bench_load *load)
{
	const struct bench_settings *settings = &ground->line->settings;

	*load = (struct bench_load){
		.batch = (uint32_t)settings->batch,
		.in_flight = (uint32_t)settings->in_flight,
		.iterations = settings->iterations,
		.warmup = settings->warmup,
		.limit_ns = settings->limit_us * RMEM_NS_PER_US,
		.rate = settings->rate,
		.layout = (enum bench_layout_kind)settings->layout,
		.spread = (enum bench_spread)settings->spread,
		.verify = settings->verify != 0,
	};
}

uint64_t bench_ground_samples(const struct bench_ground *ground)
{
	const struct bench_settings *settings = &ground->line->settings;

	return rmem_max_u64(settings->iterations, settings->warmup);
}

bool bench_ground_is_shm(const struct bench_ground *ground)
{
	for (unsigned i = 0; i < ground->url_count; i++) {
		if (strncmp(ground->urls[i], "shm:", strlen("shm:")) != 0)
			return false;
	}
	return true;
}

static void memory_facts(const struct bench_ground *ground, const struct bench_rig *rig,
			 struct bench_facts *facts)
{
	char has[BENCH_SIZE_TEXT], wants[BENCH_SIZE_TEXT];

	bench_fact_size(facts, "memory_per_reactor", rig->share_bytes);
	bench_fact_text(facts, "pages", rmem_arena_pages_name(rig->arena.pages));
	if (rig->share_bytes < ground->budget.wanted_bytes)
		bench_fact_note(facts,
				"Memory is short: %s for each reactor, where the largest messages "
				"would fill %s. Messages that find no place share one.",
				bench_size_text(rig->share_bytes, has),
				bench_size_text(ground->budget.wanted_bytes, wants));
}

void bench_ground_facts(const struct bench_ground *ground, const struct bench_rig *rig,
			struct bench_facts *facts)
{
	const struct bench_settings *settings = &ground->line->settings;

	bench_fact_count(facts, "iterations", settings->iterations);
	bench_fact_count(facts, "warmup", settings->warmup);
	bench_fact_count(facts, "repeat", settings->repeat);
	bench_fact_count(facts, "lanes", ground->engine.lanes);
	bench_fact_size(facts, "chunk", ground->engine.chunk_bytes);
	bench_fact_count(facts, "max_chunks", ground->engine.chunks_max);
	bench_fact_count(facts, "post_batch", ground->engine.post_batch);
	bench_fact_count(facts, "depth", ground->engine.depth);
	bench_fact_count(facts, "spin_us", ground->engine.spin_us);
	bench_fact_text(facts, "streaming", rmem_stream_isa_name(rmem_stream_isa_selected()));
	bench_fact_count(facts, "servers", ground->url_count);
	bench_fact_text(facts, "server", ground->own != NULL ? "own, over shm" : ground->urls[0]);
	memory_facts(ground, rig, facts);
	if (settings->verify)
		bench_fact_text(facts, "verify", "yes");
}
