/*
 * admin.h
 *	  The operator's socket: one request line, one line of JSON, then the
 *	  connection is closed.  Belongs to the loop's thread.  Excepted is
 *	  "progress JSON", which is not answered and may be followed by others like
 *	  it: running.h.
 *
 * Request: [timeout=MS ]COMMAND[ ARGUMENT], for example "timeout=5000 drain".
 * Answer: {"ok": true, ...} or {"ok": false, "error": "...", "hint": "..."}.
 */
#ifndef LOCKSTEP_ADMIN_H
#define LOCKSTEP_ADMIN_H

#include <jansson.h>

#include "config.h"

/* What main does for us; called after the answer was handed to the socket. */
typedef struct AdminMain
{
	/*
	 * NULL, or why the old settings stay; *warning: NULL, or what was not
	 * taken over (both malloc'ed)
	 */
	char	   *(*reload) (char **warning);
	void		(*stop) (void);
	void		(*switchover) (void);	/* another one leads, this one follows */
} AdminMain;

/* NULL, or why the socket can't be had (malloc'ed). */
typedef struct AdminRequest AdminRequest;
typedef void (*AdminCommand) (AdminRequest *r, char *line);

extern char *admin_init(const Config *config, const char *cluster, const AdminMain *main_calls,
						AdminCommand command);
extern void admin_stop(void);	/* closes all and removes the socket */

/* In admin_command.c, for admin_init(): run the command in line, and answer now or later. */
extern void admin_command(AdminRequest *r, char *line);

/* ---------- what admin.c (the socket) offers admin_command.c (the commands) */

/* The answer, or NULL while there is none; expired: now there must be one. */
typedef json_t *(*AdminPoll) (AdminRequest *r, bool expired);

/* Nobody waits for the answer any more. */
typedef void (*AdminCancel) (AdminRequest *r);

/* Each request gets one answer; the request is gone after it. */
extern void admin_answer(AdminRequest *r, json_t *answer);	/* takes answer over */
extern void admin_failed(AdminRequest *r, const char *error, const char *hint);
extern json_t *admin_failure(const char *error, const char *hint);
extern void admin_poll(AdminRequest *r, AdminPoll poll, int node, uint64_t seq);	/* answer when poll does */
extern void admin_on_cancel(AdminRequest *r, AdminCancel cancel);	/* of admin_poll */
extern int	admin_poll_node(const AdminRequest *r);
extern uint64_t admin_poll_seq(const AdminRequest *r);
extern int	admin_timeout_ms(const AdminRequest *r);	/* left; 0: none */
extern uid_t admin_user(const AdminRequest *r); /* who asks */
extern void admin_tells(AdminRequest *r, const char *line); /* ... "progress" */
extern void admin_set_timeout(AdminRequest *r, int ms); /* of admin_poll; 0:
														 * none */

extern const Config *admin_config(void);
extern const char *admin_cluster(void);
extern const AdminMain *admin_main(void);

#endif
