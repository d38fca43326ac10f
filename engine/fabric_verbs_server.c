/* SPDX-License-Identifier: Apache-2.0 */
/* The door: listens, and takes what the connection manager says. */
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "engine/base/deadline.h"
#include "engine/base/log.h"
#include "engine/fabric_verbs_server.h"

#define BACKLOG		128
#define EVENTS_PER_TURN 64
#define FAREWELL_MS	300 /* for goodbyes to be on their way */

struct verbs_door {
	struct server_door door;
	struct server_source source;
	struct rdma_event_channel *channel;
	struct rdma_cm_id *id;
	char url[VERBS_WHERE_BYTES];
};

/* --- The house ---------------------------------------------------------------------------------
 */

static void timer_ready(struct server_source *source, uint32_t events)
{
	struct verbs_house *house = RMEM_CONTAINER_OF(source, struct verbs_house, timer);
	uint64_t count;

	(void)events;
	if (read(source->fd, &count, sizeof(count)) == sizeof(count))
		verbs_guest_tick(house);
}

static void house_destroy(struct verbs_house *house)
{
	struct verbs_device *device;

	while ((device = SLIST_FIRST(&house->devices)) != NULL) {
		SLIST_REMOVE_HEAD(&house->devices, link);
		verbs_device_destroy(device);
	}
	if (house->contexts != NULL)
		rdma_free_devices(house->contexts);
	if (house->timer.fd >= 0)
		close(house->timer.fd);
	free(house->seats);
	free(house->generations);
	free(house);
}

static int start_timer(struct verbs_house *house, struct rmem_error *error)
{
	static const struct itimerspec second = {.it_interval = {.tv_sec = 1},
						 .it_value = {.tv_sec = 1}};

	house->timer.ready = timer_ready;
	house->timer.fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
	if (house->timer.fd < 0 || timerfd_settime(house->timer.fd, 0, &second, NULL) != 0)
		return rmem_fail(error, errno, "no timer: %s", strerror(errno));
	return server_watch(house->server, &house->timer, error);
}

static int house_fill(struct verbs_house *house, struct rmem_error *error)
{
	uint64_t random;

	house->seats = calloc(house->seat_count, sizeof(*house->seats));
	house->generations = calloc(house->seat_count, sizeof(*house->generations));
	if (house->seats == NULL || house->generations == NULL)
		return rmem_fail(error, ENOMEM, "out of memory");
	if (getrandom(&random, sizeof(random), 0) != sizeof(random))
		return rmem_fail(error, EIO, "no random numbers from the kernel: %s",
				 strerror(errno));
	/* Above any page's bits and below those that tell regions apart, with room for the
	 * largest region behind. */
	house->address_bits = random & ((UINT64_C(1) << 55) - (UINT64_C(1) << 30));
	house->contexts = rdma_get_devices(NULL);
	return start_timer(house, error);
}

static int house_get(struct rmem_server *server, struct verbs_house **house,
		     struct rmem_error *error)
{
	struct verbs_house *made = server->verbs;
	int rc;

	if (made == NULL) {
		made = calloc(1, sizeof(*made));
		if (made == NULL)
			return rmem_fail(error, ENOMEM, "out of memory");
		made->server = server;
		made->timer.fd = -1;
		made->seat_count = server->options.clients_max;
		SLIST_INIT(&made->devices);
		rc = house_fill(made, error);
		if (rc != 0) {
			house_destroy(made);
			return rc;
		}
		server->verbs = made;
	}
	made->door_count++;
	*house = made;
	return 0;
}

/* Goodbyes were said: lets them go out, for a moment. */
static void see_off(struct verbs_house *house)
{
	uint64_t deadline_ns = rmem_deadline_in_ms(FAREWELL_MS);
	struct verbs_device *device;

	while (verbs_guest_lingers(house) && rmem_now_ns() < deadline_ns) {
		SLIST_FOREACH(device, &house->devices, link)
		verbs_device_poll(device);
		poll(NULL, 0, 1);
	}
	verbs_guest_end_all(house);
}

static void house_put(struct rmem_server *server)
{
	struct verbs_house *house = server->verbs;

	see_off(house);
	if (--house->door_count > 0)
		return;
	house_destroy(house);
	server->verbs = NULL;
}

/* --- The door ----------------------------------------------------------------------------------
 */

static void connect_request(struct verbs_house *house, struct rdma_cm_id *id,
			    const struct rdma_conn_param *param)
{
	struct verbs_request request = {.id = id, .reads = param->responder_resources};
	struct rmem_error error = {0};
	int rc = rmem_wire_get_join(param->private_data, param->private_data_len, &request.join);

	if (rc == -EPROTONOSUPPORT) {
		verbs_turn_away(id, RMEM_WIRE_CODE_VERSION,
				"another version of the protocol: update the older of the two");
		return;
	}
	if (rc != 0) {
		verbs_turn_away(id, RMEM_WIRE_CODE_PROTOCOL, "this is rmemd");
		return;
	}
	request.device = verbs_device_get(house, id->verbs, &error);
	if (request.device == NULL) {
		if (server_may_complain(house->server))
			rmem_log_error(RMEM_LOG_SERVER, "a client turned away: %s", error.text);
		verbs_turn_away(id, RMEM_WIRE_CODE_INTERNAL, "the device can't be used");
		return;
	}
	verbs_guest_join(house, &request);
}

static void handle_event(struct verbs_door *verbs, const struct rdma_cm_event *event)
{
	struct verbs_house *house = verbs->door.server->verbs;

	if (event->event == RDMA_CM_EVENT_CONNECT_REQUEST) {
		connect_request(house, event->id, &event->param.conn);
		return;
	}
	if (event->id == verbs->id) {
		if (event->event == RDMA_CM_EVENT_DEVICE_REMOVAL)
			rmem_log_error(RMEM_LOG_SERVER,
				       "%s: the device was removed: nobody can connect any more",
				       verbs->url);
		return;
	}
	switch (event->event) {
	case RDMA_CM_EVENT_ESTABLISHED:
	case RDMA_CM_EVENT_ADDR_CHANGE:
	case RDMA_CM_EVENT_TIMEWAIT_EXIT:
		return;
	default: /* it was not established, or is no longer */
		verbs_party_ended(event->id->context);
		return;
	}
}

static void door_ready(struct server_source *source, uint32_t events)
{
	struct verbs_door *verbs = RMEM_CONTAINER_OF(source, struct verbs_door, source);

	(void)events;
	for (unsigned i = 0; i < EVENTS_PER_TURN; i++) {
		uint8_t private_data[VERBS_PRIVATE_MAX];
		struct rdma_cm_event *event, copy;

		if (rdma_get_cm_event(verbs->channel, &event) != 0)
			return;
		/* Ids can't be destroyed before their events are acknowledged. */
		copy = *event;
		if (copy.event == RDMA_CM_EVENT_CONNECT_REQUEST) {
			if (copy.param.conn.private_data != NULL)
				memcpy(private_data, copy.param.conn.private_data,
				       copy.param.conn.private_data_len);
			copy.param.conn.private_data = private_data;
		}
		rdma_ack_cm_event(event);
		handle_event(verbs, &copy);
	}
}

static bool is_loopback(const struct sockaddr *address)
{
	if (address->sa_family == AF_INET6)
		return IN6_IS_ADDR_LOOPBACK(&((const struct sockaddr_in6 *)address)->sin6_addr);
	return ntohl(((const struct sockaddr_in *)address)->sin_addr.s_addr) >> 24 == 127;
}

static int check_trust(const struct rmem_server *server, const char *url,
		       const struct sockaddr *address, struct rmem_error *error)
{
	if (rmem_auth_is_on() || server->options.allow_unauthenticated || is_loopback(address))
		return 0;
	return rmem_fail(error, EPERM,
			 "%s: whoever reaches this address could read and write the whole pool: "
			 "give server and clients a key (auth.key_file), or, on a network where "
			 "everybody may, say so with --allow-unauthenticated "
			 "(server.allow_unauthenticated = true)",
			 url);
}

static int bind_error(const char *url, int code, struct rmem_error *error)
{
	if (code == EADDRINUSE)
		return rmem_fail(
			error, code,
			"%s: another server listens there: stop it, or choose another port", url);
	if ((code == ENODEV || code == EADDRNOTAVAIL) && verbs_closed_device(url, error) == 0)
		return rmem_fail(error, ENODEV,
				 "%s: no RDMA device here has that address ('rdma link' shows the "
				 "devices, 'ip address' their addresses); " HOW_TO_MAKE_A_DEVICE,
				 url);
	return verbs_no_device(url, code, error);
}

static void close_door(struct server_door *door)
{
	struct verbs_door *verbs = RMEM_CONTAINER_OF(door, struct verbs_door, door);

	if (verbs->id != NULL)
		rdma_destroy_id(verbs->id);
	if (door->server != NULL)
		house_put(door->server);
	if (verbs->channel != NULL)
		rdma_destroy_event_channel(verbs->channel);
	free(verbs);
}

static int bind_door(struct verbs_door *verbs, const struct sockaddr *address,
		     struct rmem_error *error)
{
	int rc = verbs_channel_open(&verbs->channel, error);

	if (rc != 0)
		return rc;
	if (rdma_create_id(verbs->channel, &verbs->id, NULL, RDMA_PS_TCP) != 0)
		return rmem_fail(error, errno, "no connection manager's id: %s", strerror(errno));
	if (rdma_bind_addr(verbs->id, (struct sockaddr *)(uintptr_t)address) != 0)
		return bind_error(verbs->url, errno, error);
	return 0;
}

static int claim(struct rmem_server *server, const char *url, struct server_door **door,
		 struct rmem_error *error)
{
	struct rmem_verbs_address address;
	struct sockaddr_storage found;
	struct verbs_house *house;
	struct verbs_door *made;
	int rc;

	rc = rmem_verbs_parse(url, &address, error);
	if (rc == 0)
		rc = verbs_resolve(&address, &found, error);
	if (rc == 0)
		rc = check_trust(server, url, (struct sockaddr *)&found, error);
	if (rc != 0)
		return rc;
	made = calloc(1, sizeof(*made));
	if (made == NULL)
		return rmem_fail(error, ENOMEM, "out of memory");
	snprintf(made->url, sizeof(made->url), "%s", url);
	rc = bind_door(made, (struct sockaddr *)&found, error);
	if (rc == 0)
		rc = house_get(server, &house, error);
	if (rc != 0) {
		close_door(&made->door);
		return rc;
	}
	*door = &made->door;
	return 0;
}

static int open_door(struct server_door *door, struct rmem_error *error)
{
	struct verbs_door *verbs = RMEM_CONTAINER_OF(door, struct verbs_door, door);
	struct rmem_error reason = {0};
	int rc = 0;

	if (verbs->id->verbs == NULL)
		rc = verbs_device_get_all(door->server->verbs, &reason);
	else if (verbs_device_get(door->server->verbs, verbs->id->verbs, &reason) == NULL)
		rc = reason.code;
	if (rc != 0)
		return rmem_fail(error, -rc, "%s", reason.text);
	if (rdma_listen(verbs->id, BACKLOG) != 0)
		return bind_error(verbs->url, errno, error);
	verbs->source = (struct server_source){.ready = door_ready, .fd = verbs->channel->fd};
	return server_watch(door->server, &verbs->source, error);
}

const struct server_door_kind server_door_verbs = {
	.scheme = "verbs",
	.claim = claim,
	.open = open_door,
	.close = close_door,
	.ask = verbs_ask,
};
