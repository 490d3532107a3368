/* consume.c: a member of a group prints what it reads, until Ctrl-C.  consume BROKERS GROUP TOPIC [SETTING=VALUE...] */
#include <pgbroker.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

static volatile sig_atomic_t stop;

static void
on_signal(int number)
{
	(void) number;
	stop = 1;
}

static void
on_rebalance(pgb_consumer *c, pgb_rebalance what, const pgb_place *places, size_t n, void *arg)
{
	static const char *const words[] = {"given", "revoked", "lost"};

	(void) c;
	(void) arg;
	for (size_t i = 0; i < n; i++)
		fprintf(stderr, "%s %s %d\n", words[what], places[i].topic, places[i].partition);
}

int
main(int argc, char **argv)
{
	pgb_conf *conf = pgb_conf_new();
	pgb_consumer *c;
	pgb_error err;
	pgb_record records[100];
	int n;

	if (argc < 4 || pgb_conf_set(conf, "bootstrap.servers", argv[1], &err) != 0 ||
		pgb_conf_set(conf, "group.id", argv[2], &err) != 0 ||
		pgb_conf_set(conf, "auto.offset.reset", "earliest", &err) != 0)
	{
		fprintf(stderr, "usage: consume BROKERS GROUP TOPIC [SETTING=VALUE...]\n");
		return 2;
	}
	for (int i = 4; i < argc; i++)
	{
		char *eq = strchr(argv[i], '=');

		if (eq != NULL)
			*eq = '\0';
		if (pgb_conf_set(conf, argv[i], eq == NULL ? "" : eq + 1, &err) != 0)
		{
			fprintf(stderr, "%s\n", err.text);
			return 2;
		}
	}
	signal(SIGINT, on_signal);
	signal(SIGTERM, on_signal);
	pgb_conf_on_rebalance(conf, on_rebalance, NULL);
	c = pgb_consumer_new(conf, &err);
	pgb_conf_free(conf);
	if (c == NULL || pgb_subscribe(c, (const char *const *) &argv[3], 1, &err) != 0)
	{
		fprintf(stderr, "%s\n", err.text);
		return 2;
	}
	while (!stop)
	{
		n = pgb_poll(c, records, 100, 500, &err);
		if (n < 0)
			fprintf(stderr, "%s\n", err.text);
		for (int i = 0; i < n; i++)
			printf("%d %lld %.*s\n", records[i].partition, (long long) records[i].offset,
				   (int) records[i].value.len, (const char *) records[i].value.data);
		fflush(stdout);
	}
	pgb_consumer_close(c, 5000);
	return 0;
}
