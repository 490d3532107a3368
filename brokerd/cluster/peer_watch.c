#include "brokerd/cluster/peer_watch.h"

#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#include "brokerd/base/clock.h"
#include "brokerd/base/logging.h"
#include "brokerd/cluster/replication.h"
#include "brokerd/net/client.h"
#include "wire/codec.h"

enum
{
	CLOSED_AGAIN_MS = 1,
	REFUSED_AGAIN_MS = 100,
	FAILED_AGAIN_MS = 1000,
	DOUBT_MS = 1000, /* a process takes its time to end; a cut network shows otherwise */
	API_VERSIONS = 18,
	FRAME_MAX = 1 << 16
};

typedef struct Peer
{
	struct Peer *prev, *next;
	PeerWatch *watch;
	int32_t id;
	char *host;
	int port;
	NetClient *client;
	ev_timer again;
	bool refused;
	int64_t
		doubt_until_ms; /* it has not answered yet, or not since its connection ended; boot clock, 0 none */
	bool seen;
} Peer;

struct PeerWatch
{
	Replication *r;
	Peer *peers;
};

static void open_peer(Peer *peer);

static void
set_refused(Peer *peer, bool refused)
{
	if (peer->refused == refused)
		return;
	peer->refused = refused;
	if (refused)
		log_msg(LOG_WARNING, "cluster", "broker %d is gone: nobody listens on %s:%d", peer->id, peer->host,
				peer->port);
	meta_set_refused(peer->watch->r->opt.meta, peer->id, refused);
}

static void
open_later(Peer *peer, int ms)
{
	ev_timer_set(&peer->again, ms / 1e3, 0.);
	ev_timer_start(peer->watch->r->opt.loop, &peer->again);
}

/* A process that ends still has connections taken for it by the kernel: it is there when it answers. */
static void
on_open(void *ctx)
{
	Peer *peer = ctx;
	WireWriter w;
	size_t start;

	wire_writer_init(&w);
	start = wire_request_begin(&w, wire_api(API_VERSIONS), 0, 0, WSTR_LIT("pg_broker watch"));
	wire_frame_end(&w, start);
	if (!w.failed)
		net_client_send(peer->client, w.buf, w.len);
	wire_writer_free(&w);
}

static void
on_frame(void *ctx, Frame *frame)
{
	Peer *peer = ctx;

	frame_unref(frame);
	peer->doubt_until_ms = 0;
	set_refused(peer, false);
}

static void
on_end(void *ctx, NetEnd end, const char *why)
{
	Peer *peer = ctx;

	(void) why;
	net_client_close(peer->client);
	peer->client = NULL;
	if (end == NET_END_CLOSED && peer->doubt_until_ms == 0)
		peer->doubt_until_ms = clock_boot_ms() + DOUBT_MS;
	if (end == NET_END_REFUSED)
		set_refused(peer, true);
	open_later(peer, end == NET_END_CLOSED    ? CLOSED_AGAIN_MS
					 : end == NET_END_REFUSED ? REFUSED_AGAIN_MS
											  : FAILED_AGAIN_MS);
}

static void
on_again(struct ev_loop *loop, ev_timer *w, int events)
{
	(void) loop;
	(void) events;
	open_peer(w->data);
}

static void
open_peer(Peer *peer)
{
	NetClientOptions opt = {.loop = peer->watch->r->opt.loop,
							.host = peer->host,
							.port = peer->port,
							.max_frame = FRAME_MAX,
							.on_open = on_open,
							.on_frame = on_frame,
							.on_end = on_end,
							.ctx = peer};

	peer->client = net_client_open(&opt);
	if (peer->client == NULL)
		open_later(peer, FAILED_AGAIN_MS);
}

static void
free_peer(Peer *peer)
{
	set_refused(peer, false);
	DL_DELETE(peer->watch->peers, peer);
	ev_timer_stop(peer->watch->r->opt.loop, &peer->again);
	net_client_close(peer->client);
	free(peer->host);
	free(peer);
}

static void
add_peer(PeerWatch *w, int32_t id, const MetaEndpoint *end)
{
	Peer *peer = calloc(1, sizeof(*peer));

	if (peer == NULL)
		return;
	peer->watch = w;
	peer->id = id;
	peer->host = strdup(end->host);
	peer->port = end->port;
	peer->seen = true;
	/* A broker that starts hears of leaders that may have ended with it, and start as it does: they listen before they lead. */
	peer->doubt_until_ms = clock_boot_ms() + DOUBT_MS;
	ev_init(&peer->again, on_again);
	peer->again.data = peer;
	DL_APPEND(w->peers, peer);
	if (peer->host != NULL)
		open_peer(peer);
}

static Peer *
find_peer(const PeerWatch *w, int32_t id, const MetaEndpoint *end)
{
	for (Peer *peer = w->peers; peer != NULL; peer = peer->next)
		if (peer->id == id && peer->port == end->port && strcmp(peer->host, end->host) == 0)
			return peer;
	return NULL;
}

void
peer_watch_update(PeerWatch *w)
{
	int n;
	MetaBroker *const *brokers = meta_image_brokers(meta_image(w->r->opt.meta), &n);
	Peer *peer, *next;

	for (peer = w->peers; peer != NULL; peer = peer->next)
		peer->seen = false;
	for (int i = 0; i < n; i++)
	{
		const MetaEndpoint *end = replication_endpoint(w->r, brokers[i]->id);

		if (brokers[i]->id == w->r->opt.config->node_id || !meta_broker_is_serving(brokers[i]) || end == NULL)
			continue;
		peer = find_peer(w, brokers[i]->id, end);
		if (peer != NULL)
			peer->seen = true;
		else
			add_peer(w, brokers[i]->id, end);
	}
	DL_FOREACH_SAFE (w->peers, peer, next)
		if (!peer->seen)
			free_peer(peer);
}

PeerWatch *
peer_watch_new(Replication *r)
{
	PeerWatch *w = calloc(1, sizeof(*w));

	if (w != NULL)
		w->r = r;
	return w;
}

void
peer_watch_free(PeerWatch *w)
{
	Peer *peer, *next;

	if (w == NULL)
		return;
	DL_FOREACH_SAFE (w->peers, peer, next)
		free_peer(peer);
	free(w);
}

bool
peer_watch_is_gone(const PeerWatch *w, int32_t broker)
{
	for (const Peer *peer = w->peers; peer != NULL; peer = peer->next)
		if (peer->id == broker)
			return peer->refused || clock_boot_ms() < peer->doubt_until_ms;
	return false;
}

bool
peer_watch_has_any(const PeerWatch *w)
{
	return w->peers != NULL;
}
