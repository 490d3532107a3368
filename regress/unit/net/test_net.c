/*
 * test_net.c: frames in, answers out, and what keeps one client from harming another.  A real server on loopback
 * and real sockets, in one thread: each step runs the loop until what it waits for is there.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "brokerd/base/clock.h"
#include "brokerd/base/logging.h"
#include "brokerd/net/net.h"
#include "regress/unit/tap.h"

enum
{
	REQUESTS_MAX = NET_IN_FLIGHT + 16,
	MAX_FRAME = 1 << 20,
	STEP_MS = 5000
};

typedef struct Server
{
	struct ev_loop *loop;
	NetServer *net;
	int port;
	bool echo; /* answer at once with the same frame */
	bool hold;
	Request *seen[REQUESTS_MAX];
	int n_seen;
	int n_closed;
} Server;

static void
on_request(void *ctx, Request *req)
{
	Server *s = ctx;

	req->hold = s->hold;
	if (s->n_seen < REQUESTS_MAX)
		s->seen[s->n_seen] = req;
	s->n_seen++;
	if (s->echo)
		net_respond(req, req->frame - 4, req->len + 4, NULL, 0);
}

static void
on_close(void *ctx, Conn *conn)
{
	(void) conn;
	((Server *) ctx)->n_closed++;
}

static void
server_start(Server *s, size_t max_queued, int max_connections)
{
	NetOptions opt = {.loop = ev_loop_new(EVFLAG_AUTO),
					  .max_frame = MAX_FRAME,
					  .max_queued = max_queued,
					  .max_idle_ms = 600000,
					  .max_connections = max_connections,
					  .max_per_ip = 1000,
					  .backlog = 1024,
					  .on_request = on_request,
					  .on_close = on_close,
					  .ctx = s};
	Err err;

	memset(s, 0, sizeof(*s));
	s->loop = opt.loop;
	s->net = net_server_new(&opt);
	if (!net_server_listen(s->net, "127.0.0.1", 0, "TEST", &s->port, &err))
	{
		printf("Bail out! %s\n", err.text);
		exit(1);
	}
	net_server_start(s->net);
}

static void
server_stop(Server *s)
{
	net_server_free(s->net);
	ev_loop_destroy(s->loop);
}

static int
connect_to(const Server *s)
{
	struct sockaddr_in addr = {.sin_family = AF_INET, .sin_port = htons((uint16_t) s->port)};
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	inet_pton(AF_INET, "127.0.0.1", &addr.sin_addr);
	if (connect(fd, (struct sockaddr *) &addr, sizeof(addr)) != 0)
		printf("# connect: %s\n", strerror(errno));
	fcntl(fd, F_SETFL, O_NONBLOCK);
	return fd;
}

static void
on_poke(struct ev_loop *loop, ev_timer *timer, int revents)
{
	(void) loop;
	(void) timer;
	(void) revents;
}

/* One turn of the loop that waits at most 5 ms. */
static void
turn(Server *s)
{
	ev_timer poke;

	ev_timer_init(&poke, on_poke, 0.005, 0.);
	ev_timer_start(s->loop, &poke);
	ev_run(s->loop, EVRUN_ONCE);
	ev_timer_stop(s->loop, &poke);
}

#define RUN_UNTIL(s, cond)                                                                                   \
	do                                                                                                       \
	{                                                                                                        \
		int64_t run_end = clock_boot_ms() + STEP_MS;                                                         \
		while (!(cond) && clock_boot_ms() < run_end)                                                         \
			turn(s);                                                                                         \
	} while (0)

static void
send_frame(int fd, int32_t len, char fill)
{
	uint8_t *frame = malloc((size_t) len + 4);
	uint32_t prefix = htonl((uint32_t) len);

	memcpy(frame, &prefix, 4);
	memset(frame + 4, fill, (size_t) len);
	if (write(fd, frame, (size_t) len + 4) != (ssize_t) len + 4)
		printf("# short write\n");
	free(frame);
}

/* Runs the server until `len` bytes have come; false: the connection ended or time did. */
static bool
receive(Server *s, int fd, uint8_t *buf, size_t len)
{
	size_t have = 0;
	int64_t end = clock_boot_ms() + STEP_MS;

	while (have < len && clock_boot_ms() < end)
	{
		ssize_t n = recv(fd, buf + have, len - have, MSG_DONTWAIT);

		if (n == 0 || (n < 0 && errno != EAGAIN))
			return false;
		if (n > 0)
			have += (size_t) n;
		else
			turn(s);
	}
	return have == len;
}

static bool
is_closed(Server *s, int fd)
{
	uint8_t byte;
	int64_t end = clock_boot_ms() + STEP_MS;

	while (clock_boot_ms() < end)
	{
		ssize_t n = recv(fd, &byte, 1, MSG_DONTWAIT);

		if (n == 0 || (n < 0 && errno != EAGAIN))
			return true;
		turn(s);
	}
	return false;
}

static void
test_frames_in_pieces(void)
{
	Server s;
	uint8_t frame[14] = {0, 0, 0, 10, 'a', 'b', 'c', 'd', 'e', 'f', 'g', 'h', 'i', 'j'};
	uint8_t got[14];
	int fd;

	server_start(&s, 64 << 20, 100);
	s.echo = true;
	fd = connect_to(&s);
	for (size_t i = 0; i < sizeof(frame); i++)
	{
		ok(write(fd, &frame[i], 1) == 1, "byte %zu is sent", i);
		turn(&s);
		turn(&s);
	}
	ok(receive(&s, fd, got, sizeof(got)) && memcmp(got, frame, sizeof(got)) == 0,
	   "a frame that comes byte by byte is answered");
	is_int(s.n_seen, 1, "as one request");
	close(fd);
	server_stop(&s);
}

static void
test_order(void)
{
	Server s;
	static uint8_t a[] = {0, 0, 0, 1, 'A'}, b[] = {0, 0, 0, 1, 'B'}, c[] = {0, 0, 0, 1, 'C'};
	uint8_t got[15];
	int fd;

	server_start(&s, 64 << 20, 100);
	fd = connect_to(&s);
	for (int i = 0; i < 3; i++)
		send_frame(fd, 3, 'x');
	RUN_UNTIL(&s, s.n_seen == 3);
	is_int(s.n_seen, 3, "three requests run at once");
	net_respond(s.seen[2], c, sizeof(c), NULL, 0);
	net_respond(s.seen[1], b, sizeof(b), NULL, 0);
	turn(&s);
	ok(recv(fd, got, sizeof(got), MSG_DONTWAIT) < 0, "nothing leaves before the first is answered");
	net_respond(s.seen[0], a, sizeof(a), NULL, 0);
	ok(receive(&s, fd, got, 15), "then all three leave");
	ok(got[4] == 'A' && got[9] == 'B' && got[14] == 'C', "in the order of the requests");
	close(fd);
	server_stop(&s);
}

static void
test_limits(void)
{
	static const struct
	{
		const char *name;
		uint8_t prefix[4];
	} bad[] = {{"a negative length", {0xff, 0xff, 0xff, 0xfe}}, {"a length over the limit", {0, 0x10, 0, 1}}};
	Server s;

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
	{
		int fd, other;

		server_start(&s, 64 << 20, 100);
		s.echo = true;
		fd = connect_to(&s);
		other = connect_to(&s);
		ok(write(fd, bad[i].prefix, 4) == 4, "%s is sent", bad[i].name);
		ok(is_closed(&s, fd), "%s closes the connection", bad[i].name);
		send_frame(other, 4, 'o');
		RUN_UNTIL(&s, s.n_seen == 1);
		is_int(s.n_seen, 1, "another connection lives");
		close(fd);
		close(other);
		server_stop(&s);
	}
}

static void
test_in_flight(void)
{
	Server s;
	int fd;

	server_start(&s, 64 << 20, 100);
	fd = connect_to(&s);
	for (int i = 0; i < NET_IN_FLIGHT + 10; i++)
		send_frame(fd, 3, 'x');
	RUN_UNTIL(&s, s.n_seen == NET_IN_FLIGHT);
	for (int i = 0; i < 5; i++)
		turn(&s);
	is_int(s.n_seen, NET_IN_FLIGHT, "no more than so many requests of a connection run");
	net_drop(s.seen[0]);
	RUN_UNTIL(&s, s.n_seen == NET_IN_FLIGHT + 1);
	is_int(s.n_seen, NET_IN_FLIGHT + 1, "one that is answered makes room for one that was read before");
	close(fd);
	RUN_UNTIL(&s, s.n_closed == 1);
	for (int i = 1; i < NET_IN_FLIGHT + 1; i++)
	{
		ok(s.seen[i]->conn == NULL, "request %d is told that its connection is gone", i);
		net_drop(s.seen[i]);
	}
	server_stop(&s);
}

static void
test_hold(void)
{
	Server s;
	int fd;

	server_start(&s, 64 << 20, 100);
	s.hold = true;
	fd = connect_to(&s);
	send_frame(fd, 3, 'x');
	send_frame(fd, 3, 'x');
	RUN_UNTIL(&s, s.n_seen == 1);
	for (int i = 0; i < 5; i++)
		turn(&s);
	is_int(s.n_seen, 1, "behind a request that holds its connection nothing is begun");
	net_drop(s.seen[0]);
	RUN_UNTIL(&s, s.n_seen == 2);
	is_int(s.n_seen, 2, "until it is answered");
	net_drop(s.seen[1]);
	close(fd);
	server_stop(&s);
}

static int pieces_released;

static void
release_piece(NetPiece *piece)
{
	(void) piece;
	pieces_released++;
}

/* A response with a hole from a file and one from memory, larger than what a socket takes at once. */
static void
test_pieces(void)
{
	enum
	{
		FILE_BYTES = 3 << 20
	};
	Server s;
	char path[] = "/tmp/test_net.XXXXXX";
	int file = mkstemp(path);
	uint8_t *content = malloc(FILE_BYTES);
	uint8_t *got = malloc(FILE_BYTES + 16);
	static const uint8_t out[] = {1, 2, 3, 4, 5, 6, 7, 8};
	NetPiece from_file = {.fd = file, .pos = 0, .len = FILE_BYTES, .release = release_piece};
	NetPiece from_memory = {.fd = -1, .data = (const uint8_t *) "memory", .len = 6, .release = release_piece};
	NetHole holes[] = {{4, &from_file}, {6, &from_memory}};
	int fd;

	for (int i = 0; i < FILE_BYTES; i++)
		content[i] = (uint8_t) (i * 7 + i / 4096);
	ok(write(file, content, FILE_BYTES) == FILE_BYTES, "a file of 3 MiB is written");
	unlink(path);
	server_start(&s, 64 << 20, 100);
	fd = connect_to(&s);
	send_frame(fd, 3, 'x');
	RUN_UNTIL(&s, s.n_seen == 1);
	net_respond(s.seen[0], out, sizeof(out), holes, 2);
	ok(receive(&s, fd, got, FILE_BYTES + 14), "all of it arrives");
	ok(memcmp(got, out, 4) == 0 && memcmp(got + 4, content, FILE_BYTES) == 0 &&
		   memcmp(got + 4 + FILE_BYTES, "\005\006memory\007\010", 10) == 0,
	   "with the pieces in their holes");
	RUN_UNTIL(&s, pieces_released == 2);
	is_int(pieces_released, 2, "each piece is released once");
	close(fd);
	server_stop(&s);
	close(file);
	free(content);
	free(got);
}

static void
test_slow_reader(void)
{
	enum
	{
		BIG = 8 << 20
	};
	Server s;
	uint8_t *big = calloc(1, BIG);
	uint8_t got[8];
	int slow, other;

	server_start(&s, 64 << 20, 100);
	slow = connect_to(&s);
	send_frame(slow, 3, 'x');
	RUN_UNTIL(&s, s.n_seen == 1);
	net_respond(s.seen[0], big, BIG, NULL, 0);
	for (int i = 0; i < 20; i++)
		turn(&s);
	s.echo = true;
	other = connect_to(&s);
	send_frame(other, 4, 'o');
	ok(receive(&s, other, got, 8), "a client that does not take its answer does not stop another");
	close(slow);
	close(other);
	server_stop(&s);
	free(big);
}

/* Many requests are written and no answer is read: the server begins no more than their answers have room for. */
static void
test_flood_without_reading(void)
{
	enum
	{
		FRAME = 1000
	};
	Server s;
	uint8_t frame[FRAME + 4] = {0, 0, FRAME >> 8, FRAME & 0xff};
	int64_t sent = 0;
	int fd, quiet = 0;
	uint8_t *got = malloc(FRAME + 4);

	server_start(&s, 64 << 20, 100);
	s.echo = true;
	fd = connect_to(&s);
	while (quiet < 20 && sent < 256 << 20)
	{
		ssize_t n = write(fd, frame + sent % (FRAME + 4), (size_t) (FRAME + 4 - sent % (FRAME + 4)));

		sent += n > 0 ? n : 0;
		quiet = n > 0 ? 0 : quiet + 1;
		if (n <= 0)
			turn(&s);
	}
	ok(sent < 256 << 20, "a client that takes no answers is not read for ever");
	for (int64_t i = 0; i < sent / (FRAME + 4); i++)
		if (!receive(&s, fd, got, FRAME + 4))
			quiet = -1;
	ok(quiet > 0, "once it reads, it gets every answer");
	is_int(s.n_seen, sent / (FRAME + 4), "and every request was seen");
	close(fd);
	server_stop(&s);
	free(got);
}

/* Request memory for two buffers: a third client waits until one is given back, and is served then. */
static void
test_memory(void)
{
	Server s;
	NetStats stats;
	int fds[3];

	server_start(&s, 2 * NET_BUF_SMALL, 100);
	for (int i = 0; i < 3; i++)
	{
		fds[i] = connect_to(&s);
		send_frame(fds[i], 3, 'x');
	}
	RUN_UNTIL(&s, s.n_seen == 2);
	for (int i = 0; i < 10; i++)
		turn(&s);
	is_int(s.n_seen, 2, "two clients use all memory, the third waits");
	net_server_stats(s.net, &stats);
	ok(stats.buffer_bytes <= 2 * NET_BUF_SMALL, "the limit holds");
	net_drop(s.seen[0]);
	close(fds[0]);
	close(fds[1]);
	RUN_UNTIL(&s, s.n_seen == 3);
	is_int(s.n_seen, 3, "it is served once memory came back");
	net_drop(s.seen[1]);
	net_drop(s.seen[2]);
	close(fds[2]);
	server_stop(&s);
}

/* Half-sent large requests up to the limit: small requests of others go on; so does one larger than the limit. */
static void
test_memory_for_small(void)
{
	enum
	{
		LIMIT = 16 * NET_BUF_SMALL,
		LARGE = 4 * NET_BUF_SMALL,
		SENT = 100000, /* fits into the kernel, so that the end behind it is seen */
		CLIENTS = 8
	};
	Server s;
	NetStats stats;
	uint8_t *part = calloc(1, SENT);
	uint32_t prefix = htonl(LARGE);
	uint8_t got[8];
	int fds[CLIENTS], other;

	memcpy(part, &prefix, 4);
	server_start(&s, LIMIT, 100);
	s.echo = true;
	for (int i = 0; i < CLIENTS; i++)
	{
		fds[i] = connect_to(&s);
		if (write(fds[i], part, SENT) != SENT)
			printf("# short write\n");
	}
	for (int i = 0; i < 100; i++)
		turn(&s);
	net_server_stats(s.net, &stats);
	ok(stats.buffer_peak <= LIMIT + NET_BUF_SMALL,
	   "the limit holds, but for a buffer that another one replaces");
	other = connect_to(&s);
	send_frame(other, 4, 'o');
	ok(receive(&s, other, got, 8), "a small request is served beside large ones that wait for memory");
	for (int i = 0; i < CLIENTS; i++)
		close(fds[i]);
	close(other);
	RUN_UNTIL(&s, s.n_closed == CLIENTS + 1);
	is_int(s.n_closed, CLIENTS + 1, "clients that go while they wait for memory are noticed");
	server_stop(&s);
	free(part);
}

static void
test_frame_above_limit(void)
{
	Server s;
	uint8_t *got = malloc(MAX_FRAME);
	int fd;

	server_start(&s, 2 * NET_BUF_SMALL, 100);
	s.echo = true;
	fd = connect_to(&s);
	send_frame(fd, 3 * NET_BUF_SMALL, 'x');
	ok(receive(&s, fd, got, 3 * NET_BUF_SMALL + 4), "a request larger than all request memory is read alone");
	close(fd);
	server_stop(&s);
	free(got);
}

static void
test_large_frame_grows(void)
{
	Server s;
	NetStats stats;
	uint8_t prefix[4] = {0, 0x0f, 0xff, 0xff};
	int fd;

	server_start(&s, 64 << 20, 100);
	fd = connect_to(&s);
	ok(write(fd, prefix, 4) == 4, "a frame of 1 MiB is announced");
	for (int i = 0; i < 5; i++)
		turn(&s);
	net_server_stats(s.net, &stats);
	ok(stats.buffer_bytes <= NET_BUF_SMALL, "an announced length alone takes no memory");
	close(fd);
	server_stop(&s);
}

static void
test_connection_limit(void)
{
	Server s;
	int fds[3];

	server_start(&s, 64 << 20, 2);
	s.echo = true;
	for (int i = 0; i < 3; i++)
		fds[i] = connect_to(&s);
	ok(is_closed(&s, fds[2]), "one connection more than max.connections is closed");
	send_frame(fds[0], 4, 'o');
	RUN_UNTIL(&s, s.n_seen == 1);
	is_int(s.n_seen, 1, "the others live");
	for (int i = 0; i < 3; i++)
		close(fds[i]);
	server_stop(&s);
}

int
main(void)
{
	log_set_level(LOG_FATAL);
	test_frames_in_pieces();
	test_order();
	test_limits();
	test_in_flight();
	test_hold();
	test_pieces();
	test_slow_reader();
	test_flood_without_reading();
	test_memory();
	test_memory_for_small();
	test_frame_above_limit();
	test_large_frame_grows();
	test_connection_limit();
	return tap_done();
}
