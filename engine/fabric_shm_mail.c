/* SPDX-License-Identifier: Apache-2.0 */
/* Notices at the client: a completion queue's bell, and its lanes' rings.
 *
 * A queue gets its bell with the first lane that wants notices, from a control thread, while the
 * reactor may be polling it: the pointer is published with release and read with acquire, once a
 * poll. Lanes are listed by the reactor itself, between notices_start() and notices_stop(), so the
 * lists need no order between threads. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <unistd.h>

#include "engine/base/deadline.h"
#include "engine/control.h"
#include "engine/fabric_shm.h"

struct shm_mail {
	struct shm_bell *bell;
	int bell_fd;
	unsigned next_bit;
	uint64_t rung; /* bits taken out of the bell whose lanes are still to be looked at */
	struct shm_mailbox *listeners[SHM_BELL_BITS];
};

struct shm_mailbox {
	struct shm_notices notices;
	struct rmem_lane_link *link;
	uint64_t id; /* to report them with */
	unsigned bit;
	uint32_t depth;
	struct shm_mailbox *next;
};

/* --- The queue's ------------------------------------------------------------------------------ */

static pthread_mutex_t making = PTHREAD_MUTEX_INITIALIZER; /* connections are made side by side */

/* The queue's, made if need be, and a bit of its bell. */
static int get_mail(struct rmem_cq *cq, struct shm_mail **mail, unsigned *bit,
		    struct rmem_error *error)
{
	struct shm_mail *made;
	int rc = 0;

	pthread_mutex_lock(&making);
	made = atomic_load_explicit(&cq->mail, memory_order_relaxed);
	if (made == NULL) {
		void *map = NULL;

		made = calloc(1, sizeof(*made));
		if (made == NULL)
			rc = rmem_fail(error, ENOMEM, "out of memory");
		else
			rc = shm_memory_make(SHM_BELL_BYTES, &made->bell_fd, &map, error);
		if (rc == 0) {
			made->bell = map;
			atomic_store_explicit(&cq->mail, made, memory_order_release);
		} else {
			free(made);
		}
	}
	if (rc == 0) {
		*mail = made;
		*bit = made->next_bit++ % SHM_BELL_BITS;
	}
	pthread_mutex_unlock(&making);
	return rc;
}

void shm_mail_destroy(struct shm_mail *mail)
{
	if (mail == NULL)
		return;
	munmap(mail->bell, SHM_BELL_BYTES);
	close(mail->bell_fd);
	free(mail);
}

void shm_mail_arm(struct shm_mail *mail)
{
	shm_bell_arm(mail->bell);
}

/* What has come for one lane; up to `count` completions. */
static unsigned report(struct shm_mailbox *box, struct rmem_completion *completions, unsigned count)
{
	uint32_t granted;
	unsigned came = 0;

	if (atomic_load_explicit(&box->link->state, memory_order_relaxed) != SHM_LANE_RUNNING)
		return 0;
	granted = shm_notices_granted(&box->notices);
	if (granted > 0)
		completions[came++] = (struct rmem_completion){
			.id = box->id, .status = RMEM_WC_GRANT, .provider_status = granted};
	while (came < count && shm_notices_report(&box->notices))
		completions[came++] =
			(struct rmem_completion){.id = box->id, .status = RMEM_WC_NOTICE};
	return came;
}

unsigned shm_mail_poll(struct shm_mail *mail, struct rmem_completion *completions, unsigned count)
{
	unsigned came = 0;

	mail->rung |= shm_bell_take(mail->bell);
	while (mail->rung != 0 && came < count) {
		unsigned bit = (unsigned)__builtin_ctzll(mail->rung);
		struct shm_mailbox *box = mail->listeners[bit];

		for (; box != NULL && came < count; box = box->next)
			came += report(box, completions + came, count - came);
		if (came < count) /* else some may be left */
			mail->rung &= ~((uint64_t)1 << bit);
	}
	return came;
}

/* --- Lanes ------------------------------------------------------------------------------------ */

/* Takes over what came along; the descriptors are closed by the caller, but for what is set to -1.
 */
static int set_up(struct shm_mailbox *box, const struct rmem_wire_bells *bells,
		  struct rmem_control_message *answer, struct rmem_error *error)
{
	void *ring = NULL, *bell = NULL;
	int rc = shm_memory_map(answer->fds[SHM_FD_RING], SHM_RING_BYTES(bells->notices), &ring,
				error);

	if (rc == 0)
		rc = shm_memory_map(answer->fds[SHM_FD_BELL], SHM_BELL_BYTES, &bell, error);
	if (rc != 0) {
		if (ring != NULL)
			munmap(ring, SHM_RING_BYTES(bells->notices));
		return rc;
	}
	box->depth = bells->notices;
	shm_notices_init(&box->notices, SHM_CLIENT, ring, bells->notices);
	box->notices.bell = bell;
	box->notices.bell_bit = (uint64_t)1 << bells->bit;
	box->notices.wake_fd = dup(answer->fds[SHM_FD_WAKE_SERVER]);
	if (box->notices.wake_fd < 0)
		return rmem_fail(error, errno, "no descriptor for notices: %s", strerror(errno));
	return 0;
}

/* What wakes the reactor is in the descriptor that it sleeps on. Edge-triggered: nobody reads it.
 */
static int watch_wake(struct rmem_lane_link *link, int fd, struct rmem_error *error)
{
	struct epoll_event event = {.events = EPOLLIN | EPOLLET};

	link->wake_fd = dup(fd);
	if (link->wake_fd < 0 ||
	    epoll_ctl(link->cq->epoll_fd, EPOLL_CTL_ADD, link->wake_fd, &event) != 0)
		return rmem_fail(error, errno, "no descriptor for notices: %s", strerror(errno));
	return 0;
}

static int take_answer(struct rmem_lane_link *link, struct shm_mailbox *box,
		       struct rmem_control_message *answer, struct rmem_error *error)
{
	struct rmem_wire_bells bells;
	int rc;

	if (rmem_wire_get_notices(answer->bytes, answer->length, &bells) != 0)
		return rmem_fail(error, EPROTO, "%s: the server's answer is garbled",
				 link->conn->path);
	if (bells.notices == 0)
		return 0;
	if (answer->fd_count != SHM_FD_COUNT)
		return rmem_fail(error, EPROTO, "%s: the server offers no memory for notices",
				 link->conn->path);
	rc = set_up(box, &bells, answer, error);
	if (rc == 0)
		rc = watch_wake(link, answer->fds[SHM_FD_WAKE_CLIENT], error);
	return rc;
}

int shm_mailbox_open(struct rmem_lane_link *link, uint32_t notices, struct rmem_error *error)
{
	struct rmem_conn *conn = link->conn;
	struct rmem_control_message answer;
	struct rmem_wire_bells bells = {.notices = notices};
	uint8_t request[RMEM_WIRE_MAX_BYTES];
	struct shm_mail *mail;
	size_t length;
	int rc;

	if (!conn->has_notices)
		return 0;
	link->box = calloc(1, sizeof(*link->box));
	if (link->box == NULL)
		return rmem_fail(error, ENOMEM, "out of memory");
	link->box->link = link;
	link->box->notices.wake_fd = -1;
	rc = get_mail(link->cq, &mail, &link->box->bit, error);
	if (rc != 0)
		return rc;
	bells.bit = link->box->bit;
	length = rmem_wire_put_notices(request, RMEM_WIRE_NOTICES_REQUEST, &bells);
	rc = rmem_control_ask_with(
		conn->fd, conn->path,
		&(struct rmem_control_request){request, length, mail->bell_fd, RMEM_WIRE_NOTICES},
		rmem_deadline_in_ms(conn->timeout_ms), &answer, error);
	if (rc != 0)
		return rc;
	rc = take_answer(link, link->box, &answer, error);
	rmem_control_close_fds(&answer);
	return rc;
}

void shm_mailbox_close(struct rmem_lane_link *link)
{
	if (link->wake_fd >= 0) {
		epoll_ctl(link->cq->epoll_fd, EPOLL_CTL_DEL, link->wake_fd, NULL);
		close(link->wake_fd);
	}
	if (link->box == NULL)
		return;
	shm_notices_finish(&link->box->notices);
	free(link->box);
}

bool shm_mailbox_send(struct rmem_lane_link *link, const struct rmem_wr *wr)
{
	const struct rmem_sge *sge = &wr->sge[0];
	bool has_payload = wr->op == RMEM_WR_NOTICE && wr->sge_count > 0;

	if (link->box == NULL || link->box->depth == 0)
		return false;
	shm_notices_send(&link->box->notices, wr->transfer, has_payload ? sge->address : NULL,
			 has_payload ? sge->length : 0);
	return true;
}

/* --- The provider's calls --------------------------------------------------------------------- */

uint32_t shm_lane_notices(const struct rmem_lane_link *link)
{
	return link->box != NULL ? link->box->depth : 0;
}

void shm_notices_start(struct rmem_lane_link *link, uint64_t id)
{
	struct shm_mail *mail = atomic_load_explicit(&link->cq->mail, memory_order_acquire);
	struct shm_mailbox *box = link->box;

	box->id = id;
	box->next = mail->listeners[box->bit];
	mail->listeners[box->bit] = box;
	/* Something may have come, and its bit been taken out already. */
	mail->rung |= (uint64_t)1 << box->bit;
}

void shm_notices_stop(struct rmem_lane_link *link)
{
	struct shm_mail *mail = atomic_load_explicit(&link->cq->mail, memory_order_relaxed);
	struct shm_mailbox **at = &mail->listeners[link->box->bit];

	while (*at != NULL && *at != link->box)
		at = &(*at)->next;
	if (*at != NULL)
		*at = link->box->next;
}

void shm_notice_take(struct rmem_lane_link *link, struct rmem_notice *notice)
{
	shm_notices_take(&link->box->notices, notice);
}

void shm_lane_grant(struct rmem_lane_link *link, uint32_t count)
{
	shm_notices_grant(&link->box->notices, count);
}
