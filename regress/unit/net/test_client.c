/*
 * test_client.c: outgoing connections: frames in pieces and many at once, ends of every kind, and a client that is
 * closed from inside its own callbacks.  The peer is a plain blocking socket in the same thread; each step runs
 * the loop until what it waits for is there.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "brokerd/base/clock.h"
#include "brokerd/net/client.h"
#include "regress/unit/tap.h"

enum
{
	MAX_FRAME = 4 << 20,
	STEP_MS = 20000,
	FRAMES_MAX = 64
};

typedef enum CloseIn
{
	NOWHERE,
	IN_OPEN,
	IN_FRAME,
	IN_END
} CloseIn;

typedef struct Side
{
	struct ev_loop *loop;
	int listener, peer; /* -1: none */
	int port;
	NetClient *client;
	CloseIn close_in;
	int opened, ended;
	int late; /* calls after the client was closed */
	NetEnd end;
	char why[128];
	Frame *frames[FRAMES_MAX];
	int n_frames;
} Side;

static void
close_client(Side *s)
{
	net_client_close(s->client);
	s->client = NULL;
}

static void
on_open(void *ctx)
{
	Side *s = ctx;

	s->late += s->client == NULL;
	s->opened++;
	if (s->close_in == IN_OPEN)
		close_client(s);
}

static void
on_frame(void *ctx, Frame *frame)
{
	Side *s = ctx;

	s->late += s->client == NULL;
	if (s->n_frames < FRAMES_MAX)
		s->frames[s->n_frames++] = frame;
	else
		frame_unref(frame);
	if (s->close_in == IN_FRAME)
		close_client(s);
}

static void
on_end(void *ctx, NetEnd end, const char *why)
{
	Side *s = ctx;

	s->late += s->client == NULL;
	s->ended++;
	s->end = end;
	snprintf(s->why, sizeof(s->why), "%s", why);
	if (s->close_in == IN_END)
		close_client(s);
}

static void
on_tick(struct ev_loop *loop, ev_timer *w, int events)
{
	(void) w;
	(void) events;
	ev_break(loop, EVBREAK_ONE);
}

/* One turn of the loop, of 10 ms at most. */
static void
turn(Side *s)
{
	ev_timer tick;

	ev_timer_init(&tick, on_tick, 0.01, 0.);
	ev_timer_start(s->loop, &tick);
	ev_run(s->loop, EVRUN_ONCE);
	ev_timer_stop(s->loop, &tick);
}

#define wait_until(s, cond)                                                                                  \
	do                                                                                                       \
	{                                                                                                        \
		int64_t wu_end = clock_boot_ms() + STEP_MS;                                                          \
		while (!(cond) && clock_boot_ms() < wu_end)                                                          \
			turn(s);                                                                                         \
	} while (0)

static void
side_open(Side *s, const char *host)
{
	NetClientOptions opt = {.loop = s->loop,
							.host = host,
							.port = s->port,
							.max_frame = MAX_FRAME,
							.on_open = on_open,
							.on_frame = on_frame,
							.on_end = on_end,
							.ctx = s};

	s->client = net_client_open(&opt);
}

/* A listener on the first address of `host`, as the client will find it. */
static void
side_init(Side *s, const char *host)
{
	struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *found = NULL;
	struct sockaddr_storage addr;
	socklen_t len = sizeof(addr);

	memset(s, 0, sizeof(*s));
	s->loop = ev_loop_new(EVFLAG_AUTO);
	s->peer = s->listener = -1;
	if (getaddrinfo(host, "0", &hints, &found) == 0)
		s->listener = socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (s->listener < 0 || bind(s->listener, found->ai_addr, found->ai_addrlen) != 0 ||
		listen(s->listener, 8) != 0 || getsockname(s->listener, (struct sockaddr *) &addr, &len) != 0)
	{
		printf("Bail out! no listener on %s: %s\n", host, strerror(errno));
		exit(1);
	}
	s->port = ntohs(addr.ss_family == AF_INET6 ? ((struct sockaddr_in6 *) &addr)->sin6_port
											   : ((struct sockaddr_in *) &addr)->sin_port);
	freeaddrinfo(found);
}

/* Connected, the peer's end in s->peer. */
static void
side_connect(Side *s, CloseIn close_in)
{
	side_init(s, "127.0.0.1");
	s->close_in = close_in;
	side_open(s, "127.0.0.1");
	wait_until(s, s->opened > 0);
	s->peer = accept(s->listener, NULL, NULL);
}

static void
side_free(Side *s)
{
	close_client(s);
	for (int i = 0; i < s->n_frames; i++)
		frame_unref(s->frames[i]);
	if (s->peer >= 0)
		close(s->peer);
	close(s->listener);
	ev_loop_destroy(s->loop);
}

static void
peer_write(const Side *s, const void *data, size_t len)
{
	if (send(s->peer, data, len, MSG_NOSIGNAL) != (ssize_t) len)
		printf("# the peer could not write: %s\n", strerror(errno));
}

static bool
is_frame(const Side *s, int i, const char *text)
{
	return i < s->n_frames && s->frames[i]->len == strlen(text) &&
		   memcmp(s->frames[i]->data, text, s->frames[i]->len) == 0;
}

/* ---- frames ---- */

static void
test_pieces(void)
{
	static const char bytes[] = "\0\0\0\5hello\0\0\0\1!\0\0\0\3abc";
	Side s;

	side_connect(&s, NOWHERE);
	ok(s.opened == 1 && net_client_is_open(s.client), "connected");
	for (size_t i = 0; i < sizeof(bytes) - 1; i++)
	{
		peer_write(&s, bytes + i, 1);
		turn(&s);
	}
	wait_until(&s, s.n_frames == 3);
	ok(is_frame(&s, 0, "hello") && is_frame(&s, 1, "!") && is_frame(&s, 2, "abc"),
	   "three frames, byte by byte");
	peer_write(&s, bytes, sizeof(bytes) - 1);
	wait_until(&s, s.n_frames == 6);
	ok(is_frame(&s, 3, "hello") && is_frame(&s, 4, "!") && is_frame(&s, 5, "abc"), "three frames at once");
	is_int(s.ended, 0, "and it goes on");
	side_free(&s);
}

/* Larger than what is read in a turn of the loop, and than the socket's buffers. */
static void
test_big_frame(void)
{
	size_t len = MAX_FRAME, sent = 0;
	uint8_t *bytes = malloc(len + 4);
	uint8_t prefix[4] = {(uint8_t) (len >> 24), (uint8_t) (len >> 16), (uint8_t) (len >> 8), (uint8_t) len};
	Side s;

	for (size_t i = 0; i < len; i++)
		bytes[i + 4] = (uint8_t) (i * 31 >> 3);
	memcpy(bytes, prefix, 4);
	side_connect(&s, NOWHERE);
	fcntl(s.peer, F_SETFL, O_NONBLOCK);
	while (sent < len + 4 && s.ended == 0)
	{
		ssize_t n = send(s.peer, bytes + sent, len + 4 - sent, MSG_NOSIGNAL);

		if (n > 0)
			sent += (size_t) n;
		turn(&s);
	}
	wait_until(&s, s.n_frames == 1);
	ok(s.n_frames == 1 && s.frames[0]->len == len && memcmp(s.frames[0]->data, bytes + 4, len) == 0,
	   "the largest frame that is allowed");
	side_free(&s);
	free(bytes);
}

static void
test_too_long(void)
{
	size_t len = MAX_FRAME + 1;
	uint8_t prefix[4] = {(uint8_t) (len >> 24), (uint8_t) (len >> 16), (uint8_t) (len >> 8), (uint8_t) len};
	Side s;

	side_connect(&s, NOWHERE);
	peer_write(&s, "\0\0\0\2ok", 6);
	peer_write(&s, prefix, 4);
	wait_until(&s, s.ended > 0);
	ok(s.ended == 1 && s.end == NET_END_CLOSED, "a frame that is too long ends it: %s", s.why);
	ok(is_frame(&s, 0, "ok") && s.n_frames == 1, "what came before is there");
	side_free(&s);

	side_connect(&s, NOWHERE);
	peer_write(&s, "\xff\xff\xff\xff", 4);
	wait_until(&s, s.ended > 0);
	ok(s.ended == 1 && s.end == NET_END_CLOSED, "so does a negative length");
	side_free(&s);
}

/* A frame lives as long as somebody holds it, also beyond the connection. */
static void
test_references(void)
{
	Side s;
	Frame *frame;

	side_connect(&s, NOWHERE);
	peer_write(&s, "\0\0\0\2ok", 6);
	wait_until(&s, s.n_frames == 1);
	frame = s.frames[0];
	frame_ref(frame);
	side_free(&s);
	ok(frame->len == 2 && memcmp(frame->data, "ok", 2) == 0, "a frame outlives its connection");
	frame_unref(frame);
}

/* ---- ends ---- */

static void
test_ends(void)
{
	struct linger at_once = {1, 0};
	Side s;

	side_init(&s, "127.0.0.1");
	close(s.listener);
	side_open(&s, "127.0.0.1");
	ok(s.ended == 0, "nothing is called from inside net_client_open()");
	wait_until(&s, s.ended > 0);
	ok(s.ended == 1 && s.end == NET_END_REFUSED && s.opened == 0, "nobody listens: refused (%s)", s.why);
	s.listener = -1;
	side_free(&s);

	side_connect(&s, NOWHERE);
	peer_write(&s, "\0\0\0\5hel", 7);
	turn(&s);
	close(s.peer);
	s.peer = -1;
	wait_until(&s, s.ended > 0);
	ok(s.ended == 1 && s.end == NET_END_CLOSED && s.n_frames == 0, "closed in the middle of a frame: %s",
	   s.why);
	ok(!net_client_is_open(s.client), "and it is not open any more");
	turn(&s);
	turn(&s);
	is_int(s.ended, 1, "which is said once");
	side_free(&s);

	side_connect(&s, NOWHERE);
	peer_write(&s, "\0\0\0\2ok", 6);
	wait_until(&s, s.n_frames == 1);
	setsockopt(s.peer, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
	close(s.peer);
	s.peer = -1;
	wait_until(&s, s.ended > 0);
	ok(s.ended == 1 && s.end == NET_END_CLOSED, "reset by the peer: closed, not refused (%s)", s.why);
	side_free(&s);
}

static void
test_names(void)
{
	char name[80];
	Side s;

	/* A label of more than 63 characters is no name: no server has to be asked. */
	memset(name, 'a', sizeof(name) - 1);
	name[sizeof(name) - 1] = '\0';
	side_init(&s, "127.0.0.1");
	side_open(&s, name);
	wait_until(&s, s.ended > 0);
	ok(s.ended == 1 && s.end == NET_END_FAILED && s.opened == 0, "a name that nobody knows: failed (%s)",
	   s.why);
	close_client(&s);
	for (int i = 0; i < 20; i++)
	{
		side_open(&s, i % 2 == 0 ? name : "localhost");
		if (i % 3 == 0)
			turn(&s);
		close_client(&s);
	}
	turn(&s);
	turn(&s);
	is_int(s.late, 0, "closed while its name is looked up, or just after, it says nothing any more");
	side_free(&s);

	side_init(&s, "localhost");
	side_open(&s, "localhost");
	wait_until(&s, s.opened > 0 || s.ended > 0);
	ok(s.opened == 1 && s.ended == 0, "a name that is known: connected%s%s", s.ended > 0 ? ", but " : "",
	   s.why);
	side_free(&s);
}

/* ---- closed from inside ---- */

static void
test_close_inside(void)
{
	Side s;

	side_connect(&s, IN_OPEN);
	turn(&s);
	ok(s.client == NULL && s.ended == 0, "closed in on_open");
	side_free(&s);

	side_connect(&s, IN_FRAME);
	peer_write(&s, "\0\0\0\2ok\0\0\0\2no", 12);
	wait_until(&s, s.n_frames > 0);
	turn(&s);
	turn(&s);
	ok(s.client == NULL && s.n_frames == 1 && s.ended == 0,
	   "closed in on_frame: the frame behind is not given");
	side_free(&s);

	side_connect(&s, IN_END);
	close(s.peer);
	s.peer = -1;
	wait_until(&s, s.ended > 0);
	turn(&s);
	ok(s.client == NULL && s.ended == 1, "closed in on_end");
	side_free(&s);

	side_init(&s, "127.0.0.1");
	close(s.listener);
	s.listener = -1;
	s.close_in = IN_END;
	side_open(&s, "127.0.0.1");
	wait_until(&s, s.ended > 0);
	turn(&s);
	ok(s.client == NULL && s.end == NET_END_REFUSED, "closed in on_end of a connection that was refused");
	side_free(&s);
	net_client_close(NULL);
}

/* ---- out ---- */

static uint8_t
sent_byte(size_t i)
{
	return (uint8_t) (i * 131 >> 4);
}

/* More than the sockets hold, in pieces, to a peer that does not read at first: all of it, in order. */
static void
test_send(void)
{
	enum
	{
		PIECE = 70001,
		PIECES = 120
	};
	uint8_t *piece = malloc(PIECE), *got = malloc(1 << 16);
	size_t sent = 0, received = 0, wrong = 0;
	int64_t until;
	Side s;

	side_connect(&s, NOWHERE);
	fcntl(s.peer, F_SETFL, O_NONBLOCK);
	for (int i = 0; i < PIECES; i++)
	{
		for (size_t j = 0; j < PIECE; j++)
			piece[j] = sent_byte(sent++);
		net_client_send(s.client, piece, PIECE);
		if (i > PIECES / 2)
			turn(&s);
	}
	until = clock_boot_ms() + STEP_MS;
	while (received < sent && s.ended == 0 && clock_boot_ms() < until)
	{
		ssize_t n = recv(s.peer, got, 1 << 16, 0);

		for (ssize_t i = 0; i < n; i++)
			wrong += got[i] != sent_byte(received++);
		if (n < 0)
			turn(&s);
	}
	is_int(received, sent, "8 MB for a peer that reads late arrive");
	is_int(wrong, 0, "in order");
	net_client_send(s.client, "after", 5);
	fcntl(s.peer, F_SETFL, 0);
	ok(recv(s.peer, got, 16, 0) == 5 && memcmp(got, "after", 5) == 0, "and what is sent afterwards");
	side_free(&s);

	/* Closed with output that nobody took. */
	side_connect(&s, NOWHERE);
	for (int i = 0; i < PIECES; i++)
		net_client_send(s.client, piece, PIECE);
	close_client(&s);
	turn(&s);
	is_int(s.ended, 0, "closed with output that is not sent: nothing is called");
	side_free(&s);

	/* The peer goes: reading says so, however much is to be sent. */
	side_connect(&s, NOWHERE);
	for (int i = 0; i < PIECES; i++)
		net_client_send(s.client, piece, PIECE);
	close(s.peer);
	s.peer = -1;
	wait_until(&s, s.ended > 0);
	ok(s.ended == 1 && s.end == NET_END_CLOSED, "the peer goes with output on its way: closed");
	side_free(&s);
	free(piece);
	free(got);
}

int
main(void)
{
	test_pieces();
	test_big_frame();
	test_too_long();
	test_references();
	test_ends();
	test_names();
	test_close_inside();
	test_send();
	return tap_done();
}
