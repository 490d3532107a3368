/* main.c: brokerd's command line. */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "brokerd/base/config.h"
#include "brokerd/base/logging.h"
#include "brokerd/base/watchdog.h"
#include "brokerd/lifecycle.h"
#include "brokerd/version.h"

enum
{
	OVERRIDES_MAX = 256,
	EXIT_USAGE = 2
};

typedef struct Arguments
{
	const char *config;
	bool check;
	const char *overrides[OVERRIDES_MAX];
	int n_overrides;
} Arguments;

static void
print_help(void)
{
	printf("brokerd %s: a message broker that speaks the Kafka protocol, with PostgreSQL as its control "
		   "plane\n\n"
		   "Usage: brokerd --config FILE [--override NAME=VALUE]...\n"
		   "       brokerd --check-config FILE    say what is wrong with FILE, start nothing\n"
		   "       brokerd --print-config-docs    the options as Markdown\n"
		   "       brokerd --version | --help\n\n"
		   "Options of the configuration file:\n",
		   BROKERD_VERSION);
	config_print_help(stdout);
}

/* -1: go on; else the exit code. */
static int
parse(int argc, char **argv, Arguments *args)
{
	for (int i = 1; i < argc; i++)
	{
		const char *arg = argv[i];
		const char *value = i + 1 < argc ? argv[i + 1] : NULL;

		if (strcmp(arg, "--help") == 0 || strcmp(arg, "-h") == 0)
		{
			print_help();
			return 0;
		}
		if (strcmp(arg, "--version") == 0)
		{
			printf("brokerd %s\n", BROKERD_VERSION);
			return 0;
		}
		if (strcmp(arg, "--print-config-docs") == 0)
		{
			config_print_markdown(stdout);
			return 0;
		}
		if ((strcmp(arg, "--config") == 0 || strcmp(arg, "--check-config") == 0) && value != NULL)
		{
			args->config = value;
			args->check = args->check || strcmp(arg, "--check-config") == 0;
			i++;
		}
		else if (strcmp(arg, "--override") == 0 && value != NULL && args->n_overrides < OVERRIDES_MAX)
		{
			args->overrides[args->n_overrides++] = value;
			i++;
		}
		else
		{
			fprintf(stderr, "brokerd: unknown or incomplete argument \"%s\"; see brokerd --help\n", arg);
			return EXIT_USAGE;
		}
	}
	if (args->config == NULL)
	{
		fprintf(stderr, "brokerd: no configuration file; use --config FILE, and see brokerd --help\n");
		return EXIT_USAGE;
	}
	return -1;
}

static LogLevel
level_of(const char *name)
{
	static const char *const names[] = {"debug", "info", "warning", "error"};

	for (int i = 0; i < 4; i++)
		if (strcmp(name, names[i]) == 0)
			return (LogLevel) i;
	return LOG_INFO;
}

int
main(int argc, char **argv)
{
	Arguments args = {0};
	BrokerConfig config;
	Watchdog *watchdog = NULL;
	Err err;
	int exit_code = parse(argc, argv, &args);

	if (exit_code >= 0)
		return exit_code;
	if (args.check)
		return config_check(args.config, args.overrides, args.n_overrides, stdout);
	if (!config_load(&config, args.config, args.overrides, args.n_overrides, &err))
	{
		fprintf(stderr, "brokerd: %s\n", err.text);
		config_free(&config);
		return EXIT_USAGE;
	}
	log_set_level(level_of(config.pg_broker_log_level));
	if (config.pg_broker_watchdog_enable)
		watchdog = watchdog_start(config.broker_session_timeout_ms); /* before there are threads */
	log_start_writer();
	for (int i = 0; i < config.n_warnings; i++)
		log_msg(LOG_WARNING, "config", "%s", config.warnings[i]);
	exit_code = lifecycle_run(&config, watchdog);
	log_stop_writer();
	config_free(&config);
	return exit_code;
}
