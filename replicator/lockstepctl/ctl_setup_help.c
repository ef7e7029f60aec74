/*
 * ctl_setup_help.c
 *	  lockstepctl init --help, lockstepctl join --help, lockstepctl certs --help.
 */
#include <stdio.h>
#include <string.h>

#include "ctl_setup.h"

static const char init_help[] =
"lockstepctl init makes the server of this machine the first node of a cluster, with the\n"
"databases that it has, and makes and starts the replicator on this machine.\n\n"
"Usage:\n  lockstepctl init NAME=HOST[:PORT] NAME=HOST[:PORT]... [OPTION]...\n\n"
"All nodes are named, this machine's first: 1 to 63 of a-z, 0-9 and _, and the address by which\n"
"the others reach it.  More nodes can be added later, by running it again with them.\n\n"
"Options:\n"
"      --database=NAME    replicate this database, created if it is not there; may be repeated\n"
"                         (all databases but postgres)\n"
"      --restart          restart the server, and start the replicator; else it says how\n"
"      --dry-run          say what would be done, and change nothing\n"
"      --replicator=HOST[:PORT]  address by which the nodes reach the replicator\n"
"                         (the first node's host, port 6432)\n"
"      --server=CONNINFO  how to connect to the server of this machine (PGHOST, PGPORT, ...)\n"
"  -c, --config=FILE      replicator.conf, which it writes\n"
"      --timeout=SECONDS  time to wait until the node is online (60)\n"
"      --tls              encrypt all connections, even if all nodes are on this machine\n\n"
"Run it as root, or as the user that runs the server if that may write replicator.conf.  What is\n"
"done already is left as it is, so it can be run again.\n";

static const char join_help[] =
"lockstepctl join makes a server of this machine a node: a clone of another node.\n\n"
"Usage:\n"
"  lockstepctl join NAME --join-file=FILE [OPTION]...\n"
"  lockstepctl join NAME --donor=NODE --pgdata=DIR [--set=NAME=VALUE]...\n\n"
"With the join file that lockstepctl init has made, the server of this machine, which runs and\n"
"is empty, gets the data of the cluster.  It keeps its configuration.\n\n"
"Options:\n"
"      --join-file=FILE   copy of the file that init has made\n"
"      --donor=NODE       clone this node (the first that answers); without --join-file a node of\n"
"                         replicator.conf or a connection string\n"
"      --dry-run          say what would be done, and change nothing\n"
"      --server=CONNINFO  how to connect to the server of this machine (PGHOST, PGPORT, ...)\n"
"      --timeout=SECONDS  time to wait until the node is online (60, 0 for no limit)\n"
"Without --join-file a new data directory is made:\n"
"      --pgdata=DIR       the new data directory\n"
"      --set=NAME=VALUE   a setting of the new server, such as port; may be repeated\n";

static const char certs_help[] =
"lockstepctl certs makes certificates for TLS between nodes and replicator, by a private authority\n"
"of this cluster.  It runs on one machine, which keeps the authority's key.\n\n"
"Usage:\n"
"  lockstepctl certs node NAME [HOST]...  certificate of a node, with its machine's names and\n"
"                                         addresses, so that its server can use it, too\n"
"  lockstepctl certs replicator [HOST]... certificate of a replicator\n"
"  lockstepctl certs revoke node NAME     its latest certificate no longer counts\n"
"  lockstepctl certs revoke replicator\n"
"  lockstepctl certs authority            another authority issues from now on; the old one counts, too\n"
"  lockstepctl certs list\n\n"
"Options:\n"
"      --directory=DIR    the authority, made by the first command (/etc/lockstep/ca)\n"
"      --days=DAYS        how long the certificate is valid (1825)\n\n"
"The files for a node are then in DIR/node-NAME, those for the replicator in DIR/replicator.\n";

bool
setup_help(const char *command)
{
	const char *text = strcmp(command, "init") == 0 ? init_help : strcmp(command, "join") == 0 ? join_help :
	strcmp(command, "certs") == 0 ? certs_help : NULL;

	if (text != NULL)
		printf("%s", text);
	return text != NULL;
}
