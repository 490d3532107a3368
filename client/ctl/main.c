/* main.c: the command line: which command, which options, what to say when it is neither. */
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "client/ctl/ctl.h"

typedef struct Option
{
	char letter;
	const char *name, *arg, *text;
} Option;

typedef struct Command
{
	const char *words, *args, *options;
	int (*run)(Ctl *ctl);
	const char *text;
} Command;

#define EVERYWHERE "bjtXh"

static const Option options[] = {
#define OPTION(letter, name, arg, text) {letter, name, arg, text},
#define COMMAND(words, args, options, function, text)
#include "client/ctl/commands.def"
#undef OPTION
#undef COMMAND
};

static const Command commands[] = {
#define OPTION(letter, name, arg, text)
#define COMMAND(words, args, options, function, text) {words, args, EVERYWHERE options, function, text},
#include "client/ctl/commands.def"
#undef OPTION
#undef COMMAND
};

#define N_OPTIONS  (sizeof(options) / sizeof(options[0]))
#define N_COMMANDS (sizeof(commands) / sizeof(commands[0]))

static volatile sig_atomic_t stopped;

bool
ctl_stopped(void)
{
	return stopped != 0;
}

static void
on_signal(int number)
{
	(void) number;
	stopped++;
	/* The second one does not wait for brokers. */
	if (stopped > 1)
		_exit(CTL_FAILED);
}

int
ctl_fail(int code, const char *fmt, ...)
{
	va_list ap;

	(void) fputs("brokerctl: ", stderr);
	va_start(ap, fmt);
	(void) vfprintf(stderr, fmt, ap);
	va_end(ap);
	(void) fputc('\n', stderr);
	return code;
}

int
ctl_error(const pgb_error *err)
{
	int code = CTL_FAILED;

	if (err->code == PGB_NO_BROKER || err->code == PGB_TRANSPORT || err->code == PGB_TIMED_OUT ||
		err->code == PGB_PROTOCOL)
		code = CTL_NO_BROKER;
	else if (err->code == KERR_UNKNOWN_TOPIC_OR_PARTITION || err->code == PGB_NO_PARTITION ||
			 err->code == KERR_GROUP_ID_NOT_FOUND)
		code = CTL_NOT_FOUND;
	else if (err->code == PGB_INVALID)
		code = CTL_USAGE;
	return ctl_fail(code, "%s", err->text);
}

pgb_consumer *
ctl_handle(Ctl *ctl, const char *group)
{
	pgb_error err;

	if (group != NULL && pgb_conf_set(ctl->conf, "group.id", group, &err) != 0)
		return NULL;
	ctl->handle = pgb_consumer_new(ctl->conf, &err);
	if (ctl->handle == NULL)
		(void) ctl_error(&err);
	return ctl->handle;
}

/* An answer, or why there is none.  All are kept to the end. */
typedef struct Held
{
	struct Held *next;
	bool done;
	pgb_error err;
	void *response;
	Kept kept;
} Held;

static void
call_done(Client *c, Call *call, const pgb_error *err, void *response)
{
	Held *h = call->arg;

	h->done = true;
	if (err != NULL)
	{
		h->err = *err;
		return;
	}
	h->response = response;
	call_keep(c, &h->kept);
}

void *
ctl_call(Ctl *ctl, int32_t id, int16_t key, int16_t most, const void *request, int *code)
{
	Client *c = &ctl->handle->c;
	int64_t until = client_clock() + ctl->timeout;
	Held *h = calloc(1, sizeof(*h));
	bool sent = false;

	if (h == NULL)
	{
		*code = ctl_fail(CTL_FAILED, "no memory");
		return NULL;
	}
	LL_PREPEND(ctl->held, h);
	while (!h->done)
	{
		Node *node = client_node(c, id);
		Conn *conn = NULL;

		if (!sent && (id == CLIENT_NO_NODE || node != NULL))
			conn = id == CLIENT_NO_NODE ? client_any(c) : client_ready(c, node, USE_CONTROL);
		if (conn != NULL)
			client_send(c, conn, key, most, request,
						(Call){.done = call_done, .arg = h, .timeout = until - c->now});
		else if (!sent && client_clock() >= until)
			h->done = client_late(c, &h->err, PGB_NO_BROKER, "no broker could be reached in %lld ms",
								  (long long) ctl->timeout) != 0;
		sent = sent || conn != NULL;
		if (!h->done)
			client_run(c, sent ? CLIENT_NEVER : until);
	}
	if (h->response == NULL)
		*code = ctl_error(&h->err);
	return h->response;
}

static void
free_held(Ctl *ctl)
{
	while (ctl->held != NULL)
	{
		Held *h = ctl->held;

		LL_DELETE(ctl->held, h);
		kept_free(&h->kept);
		free(h);
	}
}

long long
ctl_number(const Ctl *ctl, char option, long long without)
{
	const char *text = ctl->opt[(int) option];
	char *end;
	long long v;

	if (text == NULL)
		return without;
	v = strtoll(text, &end, 10);
	if (*text == '\0' || *end != '\0' || v < 0)
	{
		(void) ctl_fail(CTL_USAGE, "-%c takes a number, not \"%s\"", option, text);
		return LLONG_MIN;
	}
	return v;
}

int64_t
ctl_time(const char *text)
{
	struct tm tm = {.tm_isdst = -1};
	char *end;
	long long n = strtoll(text + (text[0] == '@'), &end, 10);
	static const char units[] = "smhd";
	static const int seconds[] = {1, 60, 3600, 86400};
	const char *unit = *end != '\0' && end[1] == '\0' ? strchr(units, *end) : NULL;

	if (text[0] == '@' && *end == '\0' && end != text + 1)
		return n;
	if (unit != NULL && end != text)
		return client_time() - n * 1000 * seconds[unit - units];
	end = strptime(text, "%Y-%m-%dT%H:%M:%S", &tm);
	if (end == NULL)
		end = strptime(text, "%Y-%m-%d", &tm);
	if (end == NULL || (*end != '\0' && strcmp(end, "Z") != 0))
		return -1;
	return (int64_t) (*end == 'Z' ? timegm(&tm) : mktime(&tm)) * 1000;
}

/* ---- suggestions ---- */

/* Edits from one word to the other. */
static int
distance(const char *a, const char *b)
{
	int row[64], n = (int) strlen(b);

	if (n >= 64 || strlen(a) >= 64)
		return 64;
	for (int k = 0; k <= n; k++)
		row[k] = k;
	for (int i = 1; a[i - 1] != '\0'; i++)
	{
		int before = row[0];

		row[0] = i;
		for (int k = 1; k <= n; k++)
		{
			int here = row[k], best = before + (a[i - 1] != b[k - 1]);

			best = here + 1 < best ? here + 1 : best;
			row[k] = row[k - 1] + 1 < best ? row[k - 1] + 1 : best;
			before = here;
		}
	}
	return row[n];
}

static void
suggest(const char *what, const char *given, const char *best, int edits)
{
	if (best != NULL && edits <= 1 + (int) strlen(given) / 3)
		(void) ctl_fail(CTL_USAGE, "there is no %s \"%s\"; did you mean \"%s\"?", what, given, best);
	else
		(void) ctl_fail(CTL_USAGE, "there is no %s \"%s\"; brokerctl --help lists what there is", what,
						given);
}

static int
no_command(const char *first, const char *second)
{
	const char *best = NULL;
	char given[64];
	int edits = 64;

	/* Against the first word alone where it is wrong, else against both. */
	for (int both = 0; both < 2; both++)
		for (size_t i = 0; i < N_COMMANDS; i++)
		{
			char words[32];
			int d;

			(void) snprintf(words, sizeof(words), "%s", commands[i].words);
			if (both == 0)
				words[strcspn(words, " ")] = '\0';
			(void) snprintf(given, sizeof(given), both == 0 || second == NULL ? "%s" : "%s %s", first,
							second);
			d = distance(given, words);
			if (d < edits && (both == 1 || second == NULL || strcmp(first, words) != 0))
			{
				edits = d;
				best = commands[i].words;
			}
		}
	suggest("command", given, best, edits);
	return CTL_USAGE;
}

static const Option *
find_option(const Command *cmd, const char *name, size_t len)
{
	const char *best = NULL;
	char given[64];
	int edits = 64;

	(void) snprintf(given, sizeof(given), "%.*s", (int) len, name);
	for (size_t i = 0; i < N_OPTIONS; i++)
	{
		int d = distance(given, options[i].name);

		if (strchr(cmd->options, options[i].letter) == NULL)
			continue;
		if (d == 0 || (len == 1 && options[i].letter == name[0]))
			return &options[i];
		if (d < edits)
		{
			edits = d;
			best = options[i].name;
		}
	}
	suggest("option of this command", given, best, edits);
	return NULL;
}

/* ---- help, completion, manual: made from the tables ---- */

static void
print_option(const Option *o)
{
	char left[64];

	(void) snprintf(left, sizeof(left), "-%c, --%s%s%s", o->letter, o->name, o->arg != NULL ? " " : "",
					o->arg != NULL ? o->arg : "");
	(void) printf("  %-32s %s\n", left, o->text);
}

static int
help(const Command *only)
{
	if (only == NULL)
		(void) printf("brokerctl: topics, messages, groups and logs of pg_broker and Apache Kafka\n\n");
	for (size_t i = 0; i < N_COMMANDS; i++)
		if (only == NULL || only == &commands[i])
			(void) printf("  brokerctl %s%s%s\n      %s\n", commands[i].words,
						  commands[i].args[0] != '\0' ? " " : "", commands[i].args, commands[i].text);
	(void) printf("\n");
	for (size_t i = 0; i < N_OPTIONS; i++)
		if (strchr(only != NULL ? only->options : EVERYWHERE, options[i].letter) != NULL)
			print_option(&options[i]);
	if (only == NULL)
		(void) printf("\nbrokerctl COMMAND --help says what a command takes.\nExit: 0 done, 1 refused or not "
					  "all done, 2 wrong "
					  "command line, 3 nobody answered, 4 not found, 5 damaged.\n");
	return CTL_OK;
}

int
completion(Ctl *ctl)
{
	bool zsh = ctl->n_args == 1 && strcmp(ctl->args[0], "zsh") == 0;

	if (!zsh && (ctl->n_args != 1 || strcmp(ctl->args[0], "bash") != 0))
		return ctl_fail(CTL_USAGE, "completion is for bash or zsh");
	if (zsh)
		(void) printf("#compdef brokerctl\nautoload -U +X bashcompinit && bashcompinit\n");
	(void) printf("_brokerctl()\n{\n\tlocal cur=${COMP_WORDS[COMP_CWORD]} words=\n\tCOMPREPLY=()\n"
				  "\tcase \"${COMP_WORDS[1]} ${COMP_WORDS[2]}\" in\n");
	for (size_t i = 0; i < N_COMMANDS; i++)
	{
		(void) printf("\t\t\"%s%s)\n\t\t\twords='", commands[i].words,
					  strchr(commands[i].words, ' ') ? "\"*" : " \"*");
		for (size_t k = 0; k < N_OPTIONS; k++)
			if (strchr(commands[i].options, options[k].letter) != NULL)
				(void) printf("--%s ", options[k].name);
		(void) printf("' ;;\n");
	}
	(void) printf("\tesac\n\tif [ \"$COMP_CWORD\" = 1 ]; then\n\t\twords='");
	for (size_t i = 0; i < N_COMMANDS; i++)
		if (i == 0 ||
			strncmp(commands[i].words, commands[i - 1].words, strcspn(commands[i].words, " ") + 1) != 0)
			(void) printf("%.*s ", (int) strcspn(commands[i].words, " "), commands[i].words);
	(void) printf("'\n\telif [ \"$COMP_CWORD\" = 2 ]; then\n\t\tcase \"${COMP_WORDS[1]}\" in\n");
	for (size_t i = 0; i < N_COMMANDS; i++)
	{
		size_t n = strcspn(commands[i].words, " ");

		if (commands[i].words[n] == '\0')
			continue;
		if (i == 0 || strncmp(commands[i].words, commands[i - 1].words, n + 1) != 0)
			(void) printf("\t\t\t%.*s) words+='", (int) n, commands[i].words);
		(void) printf(" %s", commands[i].words + n + 1);
		if (i + 1 == N_COMMANDS || strncmp(commands[i].words, commands[i + 1].words, n + 1) != 0)
			(void) printf("' ;;\n");
	}
	(void) printf("\t\tesac\n\tfi\n\tCOMPREPLY=($(compgen -W \"$words\" -- \"$cur\"))\n"
				  "\t[ ${#COMPREPLY[@]} = 0 ] && COMPREPLY=($(compgen -f -- \"$cur\"))\n}\n"
				  "complete -F _brokerctl brokerctl\n");
	return CTL_OK;
}

/* Text of a manual page: a backslash and a leading dot mean something there. */
static void
roff(const char *s)
{
	for (; *s != '\0'; s++)
		if (*s == '\\' || *s == '-')
			(void) printf(*s == '-' ? "\\-" : "\\e");
		else
			(void) putchar(*s);
}

int
manual(Ctl *ctl)
{
	(void) ctl;
	(void) printf(
		".TH BROKERCTL 1 \"\" \"pg_broker %s\"\n.SH NAME\nbrokerctl \\- topics, messages, groups and logs of "
		"pg_broker "
		"and Apache Kafka\n.SH SYNOPSIS\n.B brokerctl\n.I COMMAND\n.RI [ OPTION... ]\n.SH COMMANDS\n",
		pgb_version());
	for (size_t i = 0; i < N_COMMANDS; i++)
	{
		(void) printf(".TP\n.B ");
		roff(commands[i].words);
		(void) printf("%s%s\n", commands[i].args[0] != '\0' ? " " : "", commands[i].args);
		roff(commands[i].text);
		(void) printf(".\nTakes");
		for (size_t k = 0; k < N_OPTIONS; k++)
			if (strchr(commands[i].options + strlen(EVERYWHERE), options[k].letter) != NULL)
			{
				(void) printf(" \\-\\-");
				roff(options[k].name);
			}
		(void) printf(" and the general options.\n");
	}
	(void) printf(".SH OPTIONS\n");
	for (size_t i = 0; i < N_OPTIONS; i++)
	{
		(void) printf(".TP\n.B \\-%c, \\-\\-", options[i].letter);
		roff(options[i].name);
		(void) printf("%s%s\n", options[i].arg != NULL ? " " : "",
					  options[i].arg != NULL ? options[i].arg : "");
		roff(options[i].text);
		(void) printf(".\n");
	}
	(void) printf(".SH EXIT STATUS\n0 done; 1 refused, or not all done; 2 wrong command line; 3 nobody "
				  "answered; 4 not found; 5 "
				  "damaged.\n.SH ENVIRONMENT\n.TP\n.B PGBROKER_BOOTSTRAP\nThe brokers, where \\-b does not "
				  "name them.\n");
	return CTL_OK;
}

/* ---- the command line ---- */

static const Command *
find_command(int argc, char **argv, int *used)
{
	const Command *first = NULL;

	for (size_t i = 0; i < N_COMMANDS; i++)
	{
		size_t n = strcspn(commands[i].words, " ");

		if (strlen(argv[1]) != n || memcmp(argv[1], commands[i].words, n) != 0)
			continue;
		if (commands[i].words[n] == '\0')
		{
			*used = 2;
			return &commands[i];
		}
		if (argc > 2 && strcmp(argv[2], commands[i].words + n + 1) == 0)
		{
			*used = 3;
			return &commands[i];
		}
		if (first == NULL)
			first = &commands[i];
	}
	/* "topics" alone, or with options, lists. */
	if (first != NULL && (argc == 2 || argv[2][0] == '-'))
	{
		*used = 2;
		return first;
	}
	(void) no_command(argv[1], argc > 2 && argv[2][0] != '-' ? argv[2] : NULL);
	return NULL;
}

static int
set_option(Ctl *ctl, const Option *o, char *value)
{
	static const char repeated[] = "XcH";
	const char *which = strchr(repeated, o->letter);

	ctl->opt[(int) o->letter] = value;
	if (which == NULL)
		return CTL_OK;
	if (ctl->n_multi[which - repeated] == 64)
		return ctl_fail(CTL_USAGE, "--%s can be given 64 times", o->name);
	if (strchr(value, '=') == NULL)
		return ctl_fail(CTL_USAGE, "--%s takes NAME=VALUE, not \"%s\"", o->name, value);
	ctl->multi[which - repeated][ctl->n_multi[which - repeated]++] = value;
	return CTL_OK;
}

static int
parse(Ctl *ctl, const Command *cmd, int argc, char **argv, int from)
{
	bool plain = false;

	for (int i = from; i < argc; i++)
	{
		char *a = argv[i], *value;
		bool is_long = a[0] == '-' && a[1] == '-';
		const Option *o;

		if (plain || a[0] != '-' || a[1] == '\0')
		{
			ctl->args[ctl->n_args++] = a;
			continue;
		}
		if (strcmp(a, "--") == 0)
		{
			plain = true;
			continue;
		}
		o = find_option(cmd, a + 1 + is_long, is_long ? strcspn(a + 2, "=") : 1);
		if (o == NULL)
			return CTL_USAGE;
		value = is_long ? strchr(a, '=') : a[2] != '\0' ? a + 1 : NULL;
		value = value == NULL ? NULL : value + 1;
		if (o->arg != NULL && value == NULL && (value = i + 1 < argc ? argv[++i] : NULL) == NULL)
			return ctl_fail(CTL_USAGE, "--%s needs a value: %s", o->name, o->arg);
		if (o->arg == NULL && value != NULL)
			return ctl_fail(CTL_USAGE, "--%s takes no value", o->name);
		if (set_option(ctl, o, o->arg == NULL ? a : value) != CTL_OK)
			return CTL_USAGE;
	}
	return CTL_OK;
}

static int
configure(Ctl *ctl)
{
	const char *env = getenv("PGBROKER_BOOTSTRAP"); /* NOLINT(concurrency-mt-unsafe) */
	const char *bootstrap = ctl->opt['b'] != NULL ? ctl->opt['b'] : env != NULL ? env : "127.0.0.1:9092";
	long long seconds = ctl_number(ctl, 't', 30);
	pgb_error err;

	ctl->conf = pgb_conf_new();
	if (seconds < 0 || ctl->conf == NULL)
		return CTL_USAGE;
	ctl->timeout = seconds * 1000;
	ctl->json = ctl->opt['j'] != NULL;
	if (pgb_conf_set(ctl->conf, "bootstrap.servers", bootstrap, &err) != 0 ||
		pgb_conf_set(ctl->conf, "client.id", "brokerctl", &err) != 0 ||
		(ctl->opt['z'] != NULL && pgb_conf_set(ctl->conf, "compression.type", ctl->opt['z'], &err) != 0))
		return ctl_error(&err);
	for (int i = 0; i < ctl->n_multi[0]; i++)
	{
		char *eq = strchr(ctl->multi[0][i], '=');

		*eq = '\0';
		if (pgb_conf_set(ctl->conf, ctl->multi[0][i], eq + 1, &err) != 0)
			return ctl_error(&err);
	}
	return CTL_OK;
}

int
main(int argc, char **argv)
{
	struct sigaction sa = {.sa_handler = on_signal};
	Ctl ctl = {0};
	const Command *cmd;
	int used = 0, code;

	if (argc < 2 || strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0 ||
		strcmp(argv[1], "help") == 0)
		return argc < 2 ? (help(NULL), CTL_USAGE) : help(NULL);
	if (strcmp(argv[1], "--version") == 0)
		return printf("brokerctl %s\n", pgb_version()) < 0;
	cmd = find_command(argc, argv, &used);
	ctl.args = calloc((size_t) argc, sizeof(*ctl.args));
	if (cmd == NULL || ctl.args == NULL)
	{
		free(ctl.args);
		return CTL_USAGE;
	}
	(void) sigaction(SIGINT, &sa, NULL);
	(void) sigaction(SIGTERM, &sa, NULL);
	(void) signal(SIGPIPE, SIG_IGN);
	code = parse(&ctl, cmd, argc, argv, used);
	if (code == CTL_OK && ctl.opt['h'] != NULL)
		code = help(cmd);
	else if (code == CTL_OK && ctl.n_args == 0 && cmd->args[0] != '\0')
		code = ctl_fail(CTL_USAGE, "brokerctl %s %s: %s", cmd->words, cmd->args, cmd->text);
	else if (code == CTL_OK && (code = configure(&ctl)) == CTL_OK)
		code = cmd->run(&ctl);
	pgb_consumer_close(ctl.handle, (int) ctl.timeout);
	free_held(&ctl);
	pgb_conf_free(ctl.conf);
	free(ctl.args);
	return fflush(stdout) != 0 && code == CTL_OK ? CTL_FAILED : code;
}
