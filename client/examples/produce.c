/* produce.c: lines of standard input become messages of a topic.  produce BROKERS TOPIC */
#include <pgbroker.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void
on_delivery(const pgb_report *r, void *arg)
{
	long *failed = arg;

	if (r->error != NULL)
	{
		(*failed)++;
		fprintf(stderr, "not delivered: %s\n", r->error->text);
	}
}

int
main(int argc, char **argv)
{
	pgb_conf *conf = pgb_conf_new();
	pgb_producer *p;
	pgb_error err = {0};
	char *line = NULL;
	size_t cap = 0;
	ssize_t len;
	long failed = 0, refused = 0;

	if (argc != 3 || pgb_conf_set(conf, "bootstrap.servers", argv[1], &err) != 0)
	{
		fprintf(stderr, "usage: produce BROKERS TOPIC < LINES\n");
		return 2;
	}
	pgb_conf_on_delivery(conf, on_delivery, &failed);
	p = pgb_producer_new(conf, &err);
	pgb_conf_free(conf);
	if (p == NULL)
	{
		fprintf(stderr, "%s\n", err.text);
		return 2;
	}
	while ((len = getline(&line, &cap, stdin)) >= 0)
	{
		pgb_message m = PGB_MESSAGE(argv[2]);

		m.value.data = line;
		m.value.len = (size_t) (len > 0 && line[len - 1] == '\n' ? len - 1 : len);
		/* Full: give the brokers time, and take the reports. */
		while (pgb_produce(p, &m, &err) != 0 && err.code == PGB_QUEUE_FULL)
			pgb_producer_work(p, 100);
		if (err.code != PGB_OK && err.code != PGB_QUEUE_FULL)
			refused++;
		err.code = PGB_OK;
	}
	pgb_producer_close(p, 30000);
	free(line);
	printf("%ld not delivered\n", failed + refused);
	return failed + refused == 0 ? 0 : 1;
}
