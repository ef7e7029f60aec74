/*
 * nodes.c
 *	  The table of nodes, in the order of the configuration; see node.h.
 */
#include <stdio.h>
#include <string.h>

#include "node.h"

const Config *node_config;
const char *node_cluster;
const char *node_journal_dir;
const MembershipOps *to_membership;

static Node nodes[CONFIG_MAX_NODES];
static int	nnodes;

static void
on_pump(void *arg)
{
	to_membership->pump(arg);
}

bool
nodes_add(void)
{
	Node	   *n = &nodes[nnodes];

	if (nnodes == node_config->nnodes)
		return false;
	n->index = nnodes;
	n->config = &node_config->nodes[nnodes];
	n->state = NODE_JOINING;
	n->state_since = loop_now_us();
	n->pump.callback = on_pump;
	n->pump.arg = n;
	nnodes++;
	return true;
}

void
nodes_init(const Config *config, const char *cluster, const char *journal_dir, const MembershipOps *ops)
{
	node_config = config;
	node_cluster = cluster;
	node_journal_dir = journal_dir;
	to_membership = ops;
	nnodes = 0;
	while (nodes_add())
		;
}

Node *
node_get(int index)
{
	return &nodes[index];
}

int
nodes_count(void)
{
	return nnodes;
}

const char *
node_name(int node)
{
	return nodes[node].config->name;
}

int
node_find(LsSlice name)
{
	for (int i = 0; i < nnodes; i++)
	{
		const char *known = nodes[i].config->name;

		if (strlen(known) == name.len && memcmp(known, name.data, name.len) == 0)
			return i;
	}
	return -1;
}

const char *
node_state_name(NodeState s)
{
	switch (s)
	{
		case NODE_JOINING:
			return "joining";
		case NODE_CATCHUP:
			return "catchup";
		case NODE_ONLINE:
			return "online";
		case NODE_DROPPED:
			return "dropped";
	}
	return "unknown";
}

bool
node_is_in(const Node *n)
{
	return n->state == NODE_CATCHUP || n->state == NODE_ONLINE;
}

uint64_t
node_applied(int node)
{
	return nodes[node].applied;
}

void
node_heard(Node *n)
{
	n->heard_us = loop_now_us();
}

int
node_stall_timeout(void)
{
	return node_config->stall_timeout > 0 ? node_config->stall_timeout : node_config->node_timeout * 6;
}

void
node_out_for(Node *n, const DropReason *reason)
{
	to_membership->out(n, reason);
}

void
node_out(Node *n, DropCause cause, DropFacts facts)
{
	DropReason	reason;

	facts.self = n->config->name;
	reason = drop_reason(cause, facts);
	node_out_for(n, &reason);
}

void
node_pump(Node *n)
{
	loop_defer(&n->pump);
}

void
nodes_look_again(void)
{
	for (int i = 0; i < nnodes; i++)
		node_pump(&nodes[i]);
}

uint64_t
nodes_min_applied(uint64_t durable)
{
	uint64_t	lowest = durable;

	for (int i = 0; i < nnodes; i++)
	{
		const Node *n = &nodes[i];

		if (node_is_in(n) && n->applied < lowest)
			lowest = n->applied;
	}
	return lowest;
}

uint64_t
nodes_min_flushed(uint64_t durable)
{
	uint64_t	lowest = durable;
	uint64_t	highest_out = 0;
	bool		any = false;

	for (int i = 0; i < nnodes; i++)
	{
		const Node *n = &nodes[i];

		if (!node_is_in(n))
			highest_out = n->flushed > highest_out ? n->flushed : highest_out;
		else if (n->pools != NULL)
		{
			any = true;
			lowest = n->flushed < lowest ? n->flushed : lowest;
		}
	}
	return any ? lowest : highest_out;
}
