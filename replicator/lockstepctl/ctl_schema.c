/*
 * ctl_schema.c
 *	  Compare the definitions in databases: pg_dump's description of the schema, by the
 *	  snapshot, object by object.
 *
 * pg_dump knows every kind of object, and writes nothing that differs by node, such as OIDs.
 * Only the order of its entries, and the settings between them, may depend on other objects; so
 * entries are compared by name, and each has the settings that are in force at its place.
 *
 * A dump may describe a newer state of an object than the snapshot's, because PostgreSQL's
 * functions that describe objects use the current catalogs.  For the same reason a dump fails
 * when an object is dropped meanwhile.  So the caller compares twice.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "buffer.h"
#include "conninfo.h"
#include "ctl_setup.h"
#include "ctl_verify.h"
#include "json_text.h"

/* ---------- running pg_dump */

typedef struct Dump
{
	pid_t		pid;
	FILE	   *out;
	FILE	   *err;
} Dump;

/* Passwords are passed in another way: all users can see arguments. */
static char *
connection_string(const char *conninfo, const char *database, ConninfoPasswords *passwords)
{
	char	   *shown = conninfo_without_passwords(conninfo, passwords);
	char	   *alive = xasprintf(CONNINFO_ALIVE_TEXT " connect_timeout=" CONNINFO_CONNECT_TIMEOUT " %s", shown != NULL ? shown : "");
	char	   *there = conninfo_with(alive, "dbname", database);
	char	   *full = conninfo_with(there, "options", "-c role=none -c session_preload_libraries= -c local_preload_libraries= -c client_min_messages=error "
									 "-c statement_timeout=0 -c lock_timeout=0 -c idle_in_transaction_session_timeout=0 -c idle_session_timeout=0 "
									 "-c lockstep.replicate=off -c lockstep.causal_reads=off -c lockstep.max_staleness=-1 "
									 "-c standard_conforming_strings=on -c quote_all_identifiers=off -c TimeZone=UTC -c bytea_output=hex -c lc_monetary=C");

	free(shown);
	free(alive);
	free(there);
	return full;
}

static bool
dump_start(Dump *d, const Snapshots *s, int database, int node)
{
	const Verify *v = s->v;
	ConninfoPasswords passwords;
	char	   *conninfo = connection_string(v->conninfos[node], v->databases[database], &passwords);
	char	   *program = program_path("pg_dump");
	char	   *snapshot = xasprintf("--snapshot=%s", s->ids[database][node]);
	char	   *encoding = xasprintf("--encoding=%s", peer_encoding(s->leaders[database].conns[node]));
	char	   *argv[] = {program, "--schema-only", "--no-subscriptions", encoding, snapshot, "-d", conninfo, NULL};

	d->out = tmpfile();
	d->err = tmpfile();
	d->pid = -1;
	if (d->out != NULL && d->err != NULL)
		d->pid = fork();
	if (d->pid == 0)
	{
		unsetenv("PGOPTIONS");
		dup2(fileno(d->out), STDOUT_FILENO);
		dup2(fileno(d->err), STDERR_FILENO);
		if (run_give_passwords(passwords.password, passwords.sslpassword))
			execvp(argv[0], argv);
		fprintf(stderr, "could not run %s: %s\n", argv[0], strerror(errno));
		_exit(127);
	}
	free(encoding);
	free(snapshot);
	free(program);
	free(conninfo);
	free(passwords.password);
	free(passwords.sslpassword);
	return d->pid > 0;
}

static char *
contents(FILE *f)
{
	Buffer		b = {0};
	size_t		n;

	rewind(f);
	do
	{
		buffer_reserve(&b, 65536);
		n = fread(b.data + b.len, 1, 65536, f);
		b.len += n;
	} while (n > 0);
	buffer_append(&b, "", 1);
	return (char *) b.data;
}

/* The text, or NULL: *why has the reason. */
static char *
dump_end(Dump *d, char **why)
{
	int			status = 0;
	char	   *text = NULL;

	if (d->pid > 0 && waitpid(d->pid, &status, 0) == d->pid && WIFEXITED(status) && WEXITSTATUS(status) == 0)
		text = contents(d->out);
	else if (*why == NULL)
		*why = d->err != NULL ? contents(d->err) : xstrdup("could not make a temporary file");
	if (d->out != NULL)
		fclose(d->out);
	if (d->err != NULL)
		fclose(d->err);
	return text;
}

/* ---------- its entries */

static bool
begins(const char *line, const char *with)
{
	return strncmp(line, with, strlen(with)) == 0;
}

/* The part between two texts of a line; "" if they are not in it. */
static char *
between(const char *line, const char *from, const char *to)
{
	const char *start = strstr(line, from);
	const char *end;

	if (start == NULL)
		return xstrdup("");
	start += strlen(from);
	end = to != NULL ? strstr(start, to) : start + strcspn(start, "\n");
	return xstrndup(start, end != NULL ? (size_t) (end - start) : strlen(start));
}

/* "-- Name: t; Type: TABLE; Schema: public; Owner: u" */
static char *
entry_name(const char *line)
{
	char	   *name = between(line, "-- Name: ", "; Type: ");
	char	   *type = between(line, "; Type: ", "; Schema: ");
	char	   *schema = between(line, "; Schema: ", "; Owner: ");
	char	   *owner = between(line, "; Owner: ", NULL);
	bool		owned = strcmp(type, "DEFAULT ACL") == 0;
	char	   *text = xasprintf("%s %s%s%s%s%s", type, strcmp(schema, "-") == 0 ? "" : schema,
								 strcmp(schema, "-") == 0 ? "" : ".", name, owned ? " of " : "", owned ? owner : "");

	free(name);
	free(type);
	free(schema);
	free(owner);
	return text;
}

static void
add_to_entry(json_t *entries, const char *name, const char *line, size_t len)
{
	const char *before = json_string_value(json_object_get(entries, name));
	char	   *text = xasprintf("%s%.*s", before != NULL ? before : "", (int) len, line);

	json_object_set_new(entries, name, json_from_text(text));
	free(text);
}

/* Does the storage of this kind of object matter? */
static bool
has_storage(const char *name)
{
	return begins(name, "TABLE ") || begins(name, "INDEX ") || begins(name, "MATERIALIZED VIEW ") ||
		begins(name, "CONSTRAINT ");
}

/* What pg_dump sets between entries, for those that follow; NULL: not yet. */
typedef struct Storage
{
	char	   *tablespace;
	char	   *method;
} Storage;

/* Is that line between two entries?  What it sets is taken, unless a later line has set it. */
static bool
is_between(const char *line, size_t len, Storage *set)
{
	char	  **to = begins(line, "SET default_tablespace = ") ? &set->tablespace :
	begins(line, "SET default_table_access_method = ") ? &set->method : NULL;

	if (to != NULL && *to == NULL)
		*to = xstrndup(line, len);
	return to != NULL || len == 0;
}

static void
take_over(char **now, char *next)
{
	if (next == NULL)
		return;
	free(*now);
	*now = next;
}

/*
 * The head of the next entry is there: ends the one that is in body.  What is set between the two is for the
 * next one.  name is taken over; NULL: the lines before the first entry.
 */
static void
end_entry(json_t *entries, char *name, Buffer *body, Storage *storage)
{
	Storage		next = {NULL, NULL};
	const char *text;
	size_t		len = body->len;

	buffer_append(body, "", 1);
	text = (const char *) body->data;
	if (len >= 3 && strcmp(text + len - 3, "--\n") == 0)
		len -= 3;
	while (len > 0)
	{
		size_t		start = len - 1;

		while (start > 0 && text[start - 1] != '\n')
			start--;
		if (!is_between(text + start, len - 1 - start, &next))
			break;
		len = start;
	}
	body->len = len;
	if (name != NULL && has_storage(name) && (storage->tablespace != NULL || storage->method != NULL))
	{
		char	   *line = xasprintf("-- %s %s\n", storage->tablespace != NULL ? storage->tablespace : "", storage->method != NULL ? storage->method : "");

		buffer_append(body, line, strlen(line));
		free(line);
	}
	if (name != NULL)
		add_to_entry(entries, name, (const char *) body->data, body->len);
	free(name);
	body->len = 0;
	take_over(&storage->tablespace, next.tablespace);
	take_over(&storage->method, next.method);
}

/*
 * An entry is a head, whose first and last lines are "--", an empty line, commands, and empty lines.  Within
 * commands, as in the body of a function, each line counts.
 */
static json_t *
entries_of(const char *dump)
{
	json_t	   *entries = json_object();
	char	   *name = NULL;
	Storage		storage = {NULL, NULL};
	bool		after_head = false;
	bool		after_bar = false;	/* the line before was "--" */
	Buffer		body = {0};

	for (const char *line = dump; line[0] != '\0';)
	{
		size_t		len = strcspn(line, "\n");
		bool		bar = len == 2 && begins(line, "--");
		bool		head = after_bar && begins(line, "-- Name: ") && strstr(line, "; Type: ") != NULL;
		bool		end = after_bar && begins(line, "-- PostgreSQL database dump complete");

		if (head || end)
		{
			end_entry(entries, name, &body, &storage);
			name = head ? entry_name(line) : NULL;
		}
		else if (!after_head || (len > 0 && !bar))
		{
			buffer_append(&body, line, len);
			buffer_append(&body, "\n", 1);
		}
		after_head = head || (after_head && (len == 0 || bar));
		after_bar = bar;
		line += len + (line[len] != '\0');
	}
	end_entry(entries, name, &body, &storage);
	free(storage.tablespace);
	free(storage.method);
	buffer_free(&body);
	return entries;
}

/* ---------- comparing */

static void
compare_entry(const Verify *v, const char *database, const char *name, json_t *const *of_nodes, json_t *found)
{
	json_t	   *nodes = json_object();
	bool		same = true;

	for (int i = 0; i < v->nnodes; i++)
	{
		json_t	   *its = json_object_get(of_nodes[i], name);

		json_object_set(nodes, v->names[i], its != NULL ? its : json_null());
		same &= its != NULL && json_equal(its, json_object_get(nodes, v->names[0]));
	}
	if (same)
		json_decref(nodes);
	else
		json_array_append_new(found, verify_difference(database, "schema", name, nodes));
}

static void
compare_entries(Verify *v, const char *database, json_t *const *of_nodes, json_t *found)
{
	json_t	   *seen = json_object();
	const char *name;
	json_t	   *its;

	for (int i = 0; i < v->nnodes; i++)
	{
		json_object_foreach(of_nodes[i], name, its)
		{
			if (json_object_get(seen, name) != NULL)
				continue;
			json_object_set_new(seen, name, json_true());
			compare_entry(v, database, name, of_nodes, found);
		}
	}
	verify_counted(v, database, "objects of the schema", (long long) json_object_size(seen));
	json_decref(seen);
}

/* Differences are added to found; *why: the reason why it was not possible this time. */
void
schema_compare(const Snapshots *s, int database, json_t *found, char **why)
{
	Verify	   *v = s->v;
	Dump		dumps[CONFIG_MAX_NODES];
	json_t	   *entries[CONFIG_MAX_NODES] = {NULL};
	bool		all = true;

	for (int i = 0; i < v->nnodes; i++)
		all &= dump_start(&dumps[i], s, database, i);
	for (int i = 0; i < v->nnodes; i++)
	{
		char	   *text = dump_end(&dumps[i], why);

		all &= text != NULL;
		entries[i] = entries_of(text != NULL ? text : "");
		free(text);
	}
	if (all)
		compare_entries(v, v->databases[database], entries, found);
	for (int i = 0; i < v->nnodes; i++)
		json_decref(entries[i]);
}
