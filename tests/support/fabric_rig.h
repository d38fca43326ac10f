/* SPDX-License-Identifier: Apache-2.0 */
/* What a test of a provider needs: a server in a process of its own, and a connection to it with
 * registered memory, a completion queue and lanes.
 *
 * The provider is shm, or verbs where the environment's RMEM_TEST_VERBS is an address of this host
 * that an RDMA device has.
 *
 * The server dies with the test process, whatever way that ends; its files are in a folder that the
 * suite's unchecked fixture makes and removes. Everything asserts with Check. */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "engine/fabric.h"
#include "engine/server.h"

#define RIG_REGIONS	 2
#define RIG_REGION_BYTES ((uint64_t)2 << 20) /* a huge page, where there are any */
#define RIG_MEMORY_BYTES ((size_t)1 << 20)
#define RIG_LANES_MAX	 4
#define RIG_TIMEOUT_MS	 10000

struct rig_provider {
	const char *name;
	const struct rmem_fabric *fabric;
	void (*make_url)(char *url, size_t size, const char *folder, unsigned serial);
};

/* The one that is tested. */
extern struct rig_provider rig_providers[];
extern const int rig_provider_count;

struct rig {
	const struct rig_provider *provider;
	const struct rmem_fabric *fabric;
	char url[100];
	pid_t server;
	struct rmem_port *port;
	uint8_t *memory; /* RIG_MEMORY_BYTES, registered */
	struct rmem_mr *mr;
	struct rmem_cq *cq;
	struct rmem_conn *conn;
	struct rmem_conn_info info;
	struct rmem_lane_link *lanes[RIG_LANES_MAX];
	unsigned lane_count;
};

struct rig_shape {
	int provider; /* index into rig_providers */
	unsigned lanes;
	uint32_t depth;
	uint32_t cq_depth;
	const char *backing; /* of the pool; NULL: anonymous */
};

/* A folder for sockets and pool files. Unchecked fixture: once for a test case, in the parent. */
void rig_folder_make(void);
void rig_folder_remove(void);
const char *rig_folder(void);

/* Notices that lanes of a rig get from now on; 0, at first: none. */
extern uint32_t rig_notices;

/* Starts everything; the memory is zero. */
void rig_open(struct rig *rig, const struct rig_shape *shape);
/* Aborts and drains the lanes, then takes all of it down. */
void rig_close(struct rig *rig);

/* The parts, for tests about them. */
void rig_server_options(struct rmem_server_options *options);
/* A program of its own: a process that has devices open can't fork one. */
pid_t rig_server_start(const char *url);
/* With a limit of descriptors when that is not 0. */
pid_t rig_server_start_with(const struct rmem_server_options *options, const char *url,
			    unsigned descriptor_limit);
void rig_server_end(pid_t server, int signal_number);
void rig_connect(struct rig *rig);

/* A signaled request of one piece: between `offset` of the region and `local` in rig->memory. */
struct rig_place {
	size_t region;
	uint64_t offset;
	size_t local;
	uint32_t length;
};
struct rmem_wr rig_wr(const struct rig *rig, enum rmem_wr_op op, uint64_t id,
		      const struct rig_place *place);

/* Links `count` requests into a chain, each with its own signal flag. */
void rig_chain(struct rmem_wr *wrs, unsigned count);

/* Posts a chain that there must be room for. */
void rig_post(struct rig *rig, unsigned lane, struct rmem_wr *chain);

/* Polls until `wanted` completions came, as a reactor and its control thread would together;
 * returns how many came in time. */
unsigned rig_reap(struct rig *rig, struct rmem_completion *completions, unsigned wanted);

/* Asserts that nothing comes for a moment. */
void rig_expect_silence(struct rig *rig);

/* Posts one request and asserts how it ends. */
void rig_do(struct rig *rig, unsigned lane, struct rmem_wr *wr, enum rmem_wc_status status);

/* A pattern that tells places and rounds apart. */
void rig_fill(uint8_t *bytes, size_t length, unsigned seed);

/* Whether the descriptor is readable within `timeout_ms`. */
int rig_readable(int fd, int timeout_ms);
