/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/bench_clock.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define KERNELS_CLOCK "/sys/devices/system/clocksource/clocksource0/current_clocksource"
#define CALIBRATE_US  20000
#define LOOKS	      16

struct bench_clock bench_clock;

/* It runs at one pace, and alike on all processors. */
static bool is_trusted(void)
{
	char name[16] = "";
	FILE *file = fopen(KERNELS_CLOCK, "re");

	if (file == NULL)
		return false;
	if (fgets(name, sizeof(name), file) == NULL)
		name[0] = '\0';
	fclose(file);
	return strcmp(name, "tsc\n") == 0;
}

/* One moment by both clocks: of several looks the one that took least between two ticks. */
static void look(uint64_t *ticks, uint64_t *ns)
{
	uint64_t least = UINT64_MAX;

	for (unsigned i = 0; i < LOOKS; i++) {
		uint64_t before = bench_ticks(), now_ns = rmem_now_ns(), after = bench_ticks();

		if (after - before < least) {
			least = after - before;
			*ticks = before + least / 2;
			*ns = now_ns;
		}
	}
}

void bench_clock_init(void)
{
	uint64_t from_ticks = 0, from_ns = 0, until_ticks = 0, until_ns = 0;

	if (bench_clock.rate != 0 || !is_trusted())
		return;
	look(&from_ticks, &from_ns);
	usleep(CALIBRATE_US);
	look(&until_ticks, &until_ns);
	if (until_ticks <= from_ticks)
		return;
	bench_clock = (struct bench_clock){
		.from_ticks = from_ticks,
		.from_ns = from_ns,
		.rate = (uint64_t)((double)(until_ns - from_ns) * 4294967296.0 /
				   (double)(until_ticks - from_ticks)),
	};
}
