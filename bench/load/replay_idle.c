/*
 * replay_idle.c: many connections that do nothing, to see what one costs.
 *
 * Each asks once for ApiVersions, as every client does, so that the broker has taken it in.  The JSON object is
 * printed as soon as all are open; then they are held.
 */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include "bench/load/dial.h"
#include "bench/load/replay.h"
#include "bench/load/replay_cluster.h"
#include "wire/messages.h"

enum
{
	FILES_OWN = 64
};

static void
allow_files(int64_t connections)
{
	rlim_t wanted = (rlim_t) connections + FILES_OWN;
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
		die("getrlimit: %s", strerror(errno));
	if (limit.rlim_cur >= wanted)
		return;
	if (limit.rlim_max < wanted)
		limit.rlim_max = wanted;
	limit.rlim_cur = wanted;
	if (setrlimit(RLIMIT_NOFILE, &limit) != 0)
		die("%lld connections need %llu open files, and the limit is lower: ulimit -n %llu",
			(long long) connections, (unsigned long long) wanted, (unsigned long long) wanted);
}

static void
say_hello(int fd)
{
	ApiVersionsRequest request;
	ApiVersionsResponse response;
	uint8_t *frame;
	Arena arena;

	arena_init(&arena, 4096);
	WIRE_INIT(ApiVersionsRequest, &request);
	cluster_ask(fd, API_API_VERSIONS, 0, &request, &response, &arena, &frame);
	free(frame);
	arena_free(&arena);
}

/* Connections that the broker has closed meanwhile. */
static int64_t
count_closed(const int *fds, int64_t n)
{
	int64_t closed = 0;

	for (int64_t i = 0; i < n; i++)
	{
		char byte;
		ssize_t got = recv(fds[i], &byte, 1, MSG_PEEK | MSG_DONTWAIT);

		closed += got == 0 || (got < 0 && errno != EAGAIN);
	}
	return closed;
}

int
replay_idle(const Replay *replay)
{
	const Settings *s = &replay->settings;
	int64_t opened = 0, closed, begun;
	double took;
	Result r;
	Meter m;
	int *fds = calloc((size_t) s->connections, sizeof(*fds));

	if (fds == NULL)
		die("no memory for %lld connections", (long long) s->connections);
	allow_files(s->connections);
	meter_init(&m, s->watch);
	meter_start(&m, 0, 0);
	meter_open(&m);
	begun = clock_ns();
	for (; opened < s->connections && !meter_stopped(); opened++)
	{
		fds[opened] = dial_any(s->bootstrap);
		say_hello(fds[opened]);
	}
	took = (double) (clock_ns() - begun) / 1e9;
	meter_close(&m, clock_ns());
	replay_begin_result(&r, replay);
	result_real(&r, "seconds", took, 3);
	result_int(&r, "connections", opened);
	result_real(&r, "connections_per_s", (double) opened / (took > 0 ? took : 1), 1);
	result_int(&r, "errors", 0);
	result_costs(&r, &m);
	result_end(&r);
	if (s->seconds > 0)
		clock_sleep_until(clock_ns() + (int64_t) (s->seconds * 1e9));
	while (s->seconds == 0 && !meter_stopped())
		clock_sleep_until(clock_ns() + (int64_t) 3600 * 1000000000);
	closed = count_closed(fds, opened);
	if (closed > 0)
		fprintf(stderr, "replay: the broker closed %lld of %lld connections\n", (long long) closed,
				(long long) opened);
	for (int64_t i = 0; i < opened; i++)
		dial_close(fds[i]);
	free(fds);
	return closed > 0;
}
