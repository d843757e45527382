/*
 * Archive module for PostgreSQL 15 and later: hands each file to Seawall's archive agent, without a process for each.
 *
 *   archive_library = 'seawall_archive'
 *   seawall.options = '--repository=/srv/archive'
 *
 *   archive_file --socket--> agent --> durable in every repository --> ok
 *        '-- nobody listens, or with other options: `seawall archive-socket OPTIONS` starts it and says where it listens
 *
 * `archive-socket` has looked that only this user and root could have put a socket there; who listens is looked at again with each
 * connection: another user's "ok" would let PostgreSQL remove what is archived nowhere.
 *
 * What is said on the socket is described in crates/postgresql/agent/src/protocol.rs. A file counts as archived only if the agent
 * says so. Nothing here raises an error, which would end the archiver: what fails is a warning, and is tried again.
 */
#include "postgres.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "fmgr.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "postmaster/interrupt.h"
#if PG_VERSION_NUM >= 160000
#include "archive/archive_module.h"
#else
#include "postmaster/pgarch.h"
#endif
#include "storage/fd.h"
#include "storage/latch.h"
#include "utils/guc.h"
#include "utils/timestamp.h"

PG_MODULE_MAGIC;

/* A longer answer is none of the agent's. */
#define ANSWER_BYTES_MAX (64 * 1024)
/* A command waits as long. */
#define WAIT_MS 60000
/* An agent that ends because its options are others does so when its uploads are through. */
#define AGENTS_TRIED 3

static char *program = NULL;
static char *options = NULL;

/* Where the agent listens; empty: not known. And what stands for the options that it was started with. */
static char socket_path[sizeof(((struct sockaddr_un *) 0)->sun_path)] = "";
static char mark[9] = "";

typedef enum
{
	ARCHIVED,
	NOT_ARCHIVED,
	AGENT_IS_GONE
} Outcome;

/* Starts an agent, if there is none, and learns where it listens: a line of mark and socket. */
static bool
find_agent(void)
{
	char		command[MAXPGPATH * 2];
	char		line[MAXPGPATH] = "";
	FILE	   *pipe;
	char	   *end;
	int			status;

	socket_path[0] = '\0';
	if (snprintf(command, sizeof(command), "%s archive-socket %s", program, options) >= (int) sizeof(command))
	{
		ereport(WARNING, (errmsg("seawall.program and seawall.options are too long")));
		return false;
	}
	pipe = OpenPipeStream(command, "r");
	if (pipe == NULL)
	{
		ereport(WARNING, (errmsg("could not run \"%s\": %m", command)));
		return false;
	}
	if (fgets(line, sizeof(line), pipe) == NULL)
		line[0] = '\0';
	status = ClosePipeStream(pipe);
	end = strchr(line, '\n');
	if (status != 0 || end == NULL || end - line < 10 || line[8] != ' ' ||
		(size_t) (end - line - 9) >= sizeof(socket_path))
	{
		/* Its message is in the server's log already. */
		ereport(WARNING, (errmsg("\"%s\" did not say where the archive agent listens", command)));
		return false;
	}
	*end = '\0';
	line[8] = '\0';
	strlcpy(mark, line, sizeof(mark));
	strlcpy(socket_path, line + 9, sizeof(socket_path));
	return true;
}

/* %XX to what it stands for, in place. */
static void
unescape(char *text)
{
	char	   *to = text;

	for (char *from = text; *from != '\0'; from++)
	{
		unsigned int code;

		if (from[0] == '%' && from[1] != '\0' && from[2] != '\0' && sscanf(from + 1, "%2x", &code) == 1)
		{
			*to++ = (char) code;
			from += 2;
		}
		else
			*to++ = *from;
	}
	*to = '\0';
}

typedef enum
{
	READ,
	READ_GONE,
	READ_LATE
} ReadResult;

/* Reads a line. */
static ReadResult
read_line(int agent, char *answer, size_t size)
{
	TimestampTz begun = GetCurrentTimestamp();
	bool		latch_was_set = false;
	size_t		length = 0;
	ReadResult	result = READ_LATE;

	while (result == READ_LATE && length + 1 < size)
	{
		long		left = WAIT_MS - TimestampDifferenceMilliseconds(begun, GetCurrentTimestamp());
		int			events;
		ssize_t		got;

		if (left <= 0)
			break;
		events = WaitLatchOrSocket(MyLatch, WL_LATCH_SET | WL_SOCKET_READABLE | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH,
								   agent, left, PG_WAIT_EXTENSION);
		if (events & WL_LATCH_SET)
		{
			ResetLatch(MyLatch);
			latch_was_set = true;
			if (ShutdownRequestPending)
				break;
		}
		if (!(events & WL_SOCKET_READABLE))
			continue;
		got = recv(agent, answer + length, size - 1 - length, 0);
		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0)
			result = READ_GONE;
		else
			length += got;
		if (length > 0 && answer[length - 1] == '\n')
			result = READ;
	}
	/* The archiver looks at its flags when it is woken: it was, while this waited. */
	if (latch_was_set)
		SetLatch(MyLatch);
	if (result == READ)
		answer[length - 1] = '\0';
	return result;
}

static bool
send_all(int agent, const char *text)
{
	size_t		left = strlen(text);

	while (left > 0)
	{
		ssize_t		sent = send(agent, text, left, MSG_NOSIGNAL);

		if (sent < 0 && errno == EINTR)
			continue;
		if (sent <= 0)
			return false;
		text += sent;
		left -= sent;
	}
	return true;
}

/* What the agent said. */
static Outcome
understand(char *answer)
{
	char	   *message = strchr(answer, ' ');
	/* Archived, or let go on purpose, which it tells. */
	bool		is_released = strncmp(answer, "released ", 9) == 0;

	if (strcmp(answer, "ok") == 0)
		return ARCHIVED;
	if (strcmp(answer, "other") == 0)
		return AGENT_IS_GONE;
	if (message != NULL)
		unescape(++message);
	ereport(WARNING, (errmsg("%s", message != NULL ? message : answer)));
	return is_released ? ARCHIVED : NOT_ARCHIVED;
}

/* Whether whoever listens runs as this user or as root: nobody else is believed. */
static bool
is_ours(int agent)
{
	uid_t		user;
	gid_t		group;

	if (getpeereid(agent, &user, &group) != 0)
	{
		ereport(WARNING, (errmsg("could not find out who listens at \"%s\": %m", socket_path)));
		return false;
	}
	if (user == geteuid() || user == 0)
		return true;
	ereport(WARNING, (errmsg("user %u listens at \"%s\", and is not believed", (unsigned int) user, socket_path),
					  errhint("Name another spool in seawall.options, in a directory of this user's.")));
	return false;
}

/* One question and its answer. */
static Outcome
ask(const char *path)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	char		question[MAXPGPATH + 32];
	char	   *answer;
	Outcome		outcome = NOT_ARCHIVED;
	int			agent = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (agent < 0)
	{
		ereport(WARNING, (errmsg("could not make a socket: %m")));
		return NOT_ARCHIVED;
	}
	strlcpy(address.sun_path, socket_path, sizeof(address.sun_path));
	snprintf(question, sizeof(question), "push %s %s\n", mark, path);
	if (connect(agent, (struct sockaddr *) &address, sizeof(address)) != 0)
	{
		close(agent);
		return AGENT_IS_GONE;
	}
	if (!is_ours(agent))
	{
		close(agent);
		return NOT_ARCHIVED;
	}
	if (!send_all(agent, question))
	{
		close(agent);
		return AGENT_IS_GONE;
	}
	answer = palloc0(ANSWER_BYTES_MAX);
	switch (read_line(agent, answer, ANSWER_BYTES_MAX))
	{
		case READ:
			outcome = understand(answer);
			break;
		case READ_GONE:
			outcome = AGENT_IS_GONE;
			break;
		case READ_LATE:
			ereport(WARNING, (errmsg("\"%s\" is not archived yet; the archive agent goes on with it", path)));
			break;
	}
	pfree(answer);
	close(agent);
	return outcome;
}

static bool
archive(const char *path)
{
	if (strpbrk(path, "% \n\r") != NULL || strlen(path) >= MAXPGPATH)
	{
		ereport(WARNING, (errmsg("\"%s\" is no name of a file of the log", path)));
		return false;
	}
	for (int tried = 0; tried < AGENTS_TRIED && !ShutdownRequestPending; tried++)
	{
		Outcome		outcome;

		if (socket_path[0] == '\0' && !find_agent())
			return false;
		outcome = ask(path);
		if (outcome != AGENT_IS_GONE)
			return outcome == ARCHIVED;
		socket_path[0] = '\0';
	}
	return false;
}

/* With other options there is another agent. */
static void
forget_agent(const char *value, void *extra)
{
	socket_path[0] = '\0';
}

void
_PG_init(void)
{
	DefineCustomStringVariable("seawall.program", "Seawall's program.", NULL, &program, "seawall", PGC_SIGHUP, 0,
							   NULL, forget_agent, NULL);
	DefineCustomStringVariable("seawall.options", "Options of archive-push, such as --repository=URL.", NULL, &options,
							   "", PGC_SIGHUP, 0, NULL, forget_agent, NULL);
#if PG_VERSION_NUM >= 150000
	MarkGUCPrefixReserved("seawall");
#endif
}

#if PG_VERSION_NUM >= 160000
static bool
is_configured(ArchiveModuleState *state)
{
	return program[0] != '\0';
}

static bool
archive_file(ArchiveModuleState *state, const char *file, const char *path)
{
	return archive(path);
}

static const ArchiveModuleCallbacks callbacks = {
	.check_configured_cb = is_configured,
	.archive_file_cb = archive_file
};

const ArchiveModuleCallbacks *
_PG_archive_module_init(void)
{
	return &callbacks;
}
#else
static bool
is_configured(void)
{
	return program[0] != '\0';
}

static bool
archive_file(const char *file, const char *path)
{
	return archive(path);
}

void
_PG_archive_module_init(ArchiveModuleCallbacks *callbacks)
{
	callbacks->check_configured_cb = is_configured;
	callbacks->archive_file_cb = archive_file;
}
#endif
