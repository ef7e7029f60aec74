------------------------------ MODULE Replicas ------------------------------
(***************************************************************************)
(* A group of replicators as replicator/replicas/ has it: one leads and     *)
(* streams its journal to standbys; what each member that is in sync has    *)
(* on disk is acknowledged; etcd's key says who leads and who is in sync,   *)
(* and is changed by compare-and-swap only.                                 *)
(*                                                                          *)
(* A record is known by its index and the epoch in which it was written.    *)
(* Every step may come at any time, or never: the model has no clocks.      *)
(* Mutation leaves out a rule; "none" is what is built, and for each other  *)
(* value TLC finds how an answer is contradicted (tests/model/run).         *)
(***************************************************************************)
EXTENDS Naturals, Sequences, FiniteSets, TLC

CONSTANTS Members, First,       \* First begins the group
          MaxLen,               \* records
          MaxEpoch, MaxRev,     \* takeovers, changes of the key
          MaxLost,              \* disks that are lost
          MinCopies, Mutation, Nobody

VARIABLES
    key,        \* etcd's: rev, epoch, leader, inSync
    journal,    \* of each member: the epochs of its records
    durable,    \* how many of them are on its disk
    promised,   \* on its disk: it follows no leader of a lower epoch
    copied,     \* on its disk: the journal is a copy of that epoch's; 0: it is incomplete
    history,    \* on its disk: where epochs began, <<epoch, records before>>
    phase,      \* "follow", "chosen" (the key says so), "begin" (waits for the copies), "lead"
    epoch,      \* in which it leads
    seen,       \* whom the key named when it was read last, and the epoch
    conn,       \* the leader that it follows, and its epoch
    sent,       \* its last acknowledgement, which may be under way: to whom, epoch, 1 + the number of records
    heard,      \* a leader: what it has heard of each member in this epoch: 0, or 1 + the number of records
    required,   \* a leader: whom it waits for
    view,       \* a leader: rev and inSync, as it knows the key
    told,       \* records that a client was told of as committed
    denied,     \* records that a client was told of as never committed
    lost        \* number of lost disks

Symmetry == Permutations(Members \ {First})

vars == <<key, journal, durable, promised, copied, history, phase, epoch, seen, conn, sent, heard, required, view, told, denied, lost>>

Leading(l) == phase[l] \in {"begin", "lead"}
None == [to |-> Nobody, epoch |-> 0]
Max(a, b) == IF a > b THEN a ELSE b
Min(a, b) == IF a < b THEN a ELSE b
Records(j, n) == {<<i, j[i]>> : i \in 1..n}
Rule(m) == Mutation # m

Init ==
    /\ key = [rev |-> 1, epoch |-> 1, leader |-> First, inSync |-> {First}]
    /\ journal = [m \in Members |-> <<>>]
    /\ durable = [m \in Members |-> 0]
    /\ promised = [m \in Members |-> IF m = First THEN 1 ELSE 0]
    /\ copied = [m \in Members |-> IF m = First THEN 1 ELSE 0]
    /\ history = [m \in Members |-> IF m = First THEN <<<<1, 0>>>> ELSE <<>>]
    /\ phase = [m \in Members |-> IF m = First THEN "lead" ELSE "follow"]
    /\ epoch = [m \in Members |-> IF m = First THEN 1 ELSE 0]
    /\ seen = [m \in Members |-> None]
    /\ conn = [m \in Members |-> None]
    /\ sent = [m \in Members |-> [to |-> Nobody, epoch |-> 0, n |-> 0]]
    /\ heard = [l \in Members |-> [m \in Members |-> 0]]
    /\ required = [l \in Members |-> {}]
    /\ view = [l \in Members |-> [rev |-> 1, inSync |-> {First}]]
    /\ told = {} /\ denied = {} /\ lost = 0

-----------------------------------------------------------------------------
(* The stream: copies.c, copies_send.c, standby.c *)

Write(l) ==
    /\ phase[l] = "lead" /\ Len(journal[l]) < MaxLen
    /\ journal' = [journal EXCEPT ![l] = Append(@, epoch[l])]
    /\ UNCHANGED <<seen, key, durable, promised, copied, history, phase, epoch, conn, sent, heard, required, view, told, denied, lost>>

Flush(m) ==
    /\ durable[m] < Len(journal[m])
    /\ durable' = [durable EXCEPT ![m] = Len(journal[m])]
    /\ UNCHANGED <<seen, key, journal, promised, copied, history, phase, epoch, conn, sent, heard, required, view, told, denied, lost>>

\* Before the leader's own disk has it.
Send(l, m) ==
    /\ Leading(l) /\ conn[m] = [to |-> l, epoch |-> epoch[l]] /\ Len(journal[m]) < Len(journal[l])
    /\ journal' = [journal EXCEPT ![m] = Append(@, journal[l][Len(@) + 1])]
    /\ UNCHANGED <<seen, key, durable, promised, copied, history, phase, epoch, conn, sent, heard, required, view, told, denied, lost>>

\* acknowledge(): a copy that is begun anew is complete when it has had everything once.
Acknowledge(m) ==
    LET l == conn[m].to
        n == 1 + (IF Rule("ack_before_sync") THEN durable[m] ELSE Len(journal[m]))
    IN  /\ l # Nobody
        /\ Leading(l) /\ epoch[l] = conn[m].epoch
        /\ copied[m] # 0 \/ (durable[m] = Len(journal[m]) /\ Len(journal[m]) = Len(journal[l]))
        /\ sent[m] # [to |-> l, epoch |-> conn[m].epoch, n |-> n]
        /\ sent' = [sent EXCEPT ![m] = [to |-> l, epoch |-> conn[m].epoch, n |-> n]]
        /\ copied' = [copied EXCEPT ![m] = conn[m].epoch]
        /\ UNCHANGED <<seen, key, journal, durable, promised, history, phase, epoch, conn, heard, required, view, told, denied, lost>>

\* It may come after the standby has closed the connection.
Hear(l, m) ==
    /\ Leading(l) /\ sent[m].to = l /\ sent[m].epoch = epoch[l] /\ heard[l][m] < sent[m].n
    /\ heard' = [heard EXCEPT ![l][m] = sent[m].n]
    /\ UNCHANGED <<seen, key, journal, durable, promised, copied, history, phase, epoch, conn, sent, required, view, told, denied, lost>>

\* all_have()
AllHave(l, n) ==
    /\ Rule("leader_not_durable") => durable[l] >= n
    /\ \A m \in required[l] \ {l} : heard[l][m] > n
    /\ Cardinality(view[l].inSync) >= MinCopies

Commit(l) ==
    /\ phase[l] = "lead"
    /\ \E n \in 1..Len(journal[l]) :
        /\ AllHave(l, n) /\ ~(Records(journal[l], n) \subseteq told)
        /\ told' = told \cup Records(journal[l], n)
    /\ UNCHANGED <<seen, key, journal, durable, promised, copied, history, phase, epoch, conn, sent, heard, required, view, denied, lost>>

\* group_state_common() and resume_place(): up to where the copy is the leader's; -1 in effect: not known.
KnownEpoch(l, m) == \E i \in 1..Len(history[l]) : history[l][i][1] = copied[m]
Common(l, m) ==
    LET later == {i \in 1..Len(history[l]) : history[l][i][1] > copied[m]}
        start == IF later = {} THEN Len(journal[m])
                 ELSE history[l][CHOOSE i \in later : \A j \in later : i <= j][2]
    IN  Min(start, Len(journal[m]))

\* The key may change at once.
Read(m) ==
    /\ phase[m] = "follow" /\ conn[m] = None /\ key.leader # m /\ seen[m] # [to |-> key.leader, epoch |-> key.epoch]
    /\ seen' = [seen EXCEPT ![m] = [to |-> key.leader, epoch |-> key.epoch]]
    /\ UNCHANGED <<key, journal, durable, promised, copied, history, phase, epoch, conn, sent, heard, required, view, told, denied, lost>>

Connect(m, l) ==
    LET anew == copied[m] = 0 \/ Len(journal[m]) = 0 \/ ~KnownEpoch(l, m)
        at == IF anew THEN 0 ELSE IF Rule("no_truncate") THEN Common(l, m) ELSE Len(journal[m])
    IN  /\ phase[m] = "follow" /\ m # l /\ Leading(l) /\ conn[m] = None
        /\ Rule("any_epoch") => (seen[m] = [to |-> l, epoch |-> epoch[l]] /\ promised[m] <= epoch[l])
        /\ journal' = [journal EXCEPT ![m] = SubSeq(@, 1, at)]
        /\ durable' = [durable EXCEPT ![m] = Min(at, Len(journal[m]))]
        /\ promised' = [promised EXCEPT ![m] = Max(@, epoch[l])]
        /\ copied' = [copied EXCEPT ![m] = IF anew THEN 0 ELSE epoch[l]]
        /\ history' = [history EXCEPT ![m] = history[l]]
        /\ conn' = [conn EXCEPT ![m] = [to |-> l, epoch |-> epoch[l]]]
        /\ sent' = [sent EXCEPT ![m] = [to |-> Nobody, epoch |-> 0, n |-> 0]]
        /\ heard' = [heard EXCEPT ![l][m] = 0]
        /\ UNCHANGED <<seen, key, phase, epoch, required, view, told, denied, lost>>

Disconnect(m) ==
    /\ conn[m] # None
    /\ conn' = [conn EXCEPT ![m] = None]
    /\ UNCHANGED <<seen, key, journal, durable, promised, copied, history, phase, epoch, sent, heard, required, view, told, denied, lost>>

-----------------------------------------------------------------------------
(* The key: group.c *)

\* take_over(): the connection is closed first, so that nothing more is acknowledged without this one.
TakeOver(m) ==
    LET next == [rev |-> key.rev + 1, epoch |-> key.epoch + 1, leader |-> m,
                 inSync |-> IF key.leader = m THEN key.inSync ELSE (key.inSync \ {key.leader}) \cup {m}]
    IN  /\ phase[m] = "follow" /\ key.epoch < MaxEpoch /\ key.rev < MaxRev
        /\ Rule("no_promise") => conn[m] = None
        /\ Rule("any_member") => m \in key.inSync
        /\ Rule("incomplete_leads") => copied[m] # 0
        /\ key' = next
        /\ phase' = [phase EXCEPT ![m] = "chosen"]
        /\ epoch' = [epoch EXCEPT ![m] = next.epoch]
        /\ view' = [view EXCEPT ![m] = [rev |-> next.rev, inSync |-> next.inSync]]
        /\ UNCHANGED <<seen, journal, durable, promised, copied, history, conn, sent, heard, required, told, denied, lost>>

\* journal_settle(), group_lead()
Begin(m) ==
    /\ phase[m] = "chosen"
    /\ phase' = [phase EXCEPT ![m] = "begin"]
    /\ durable' = [durable EXCEPT ![m] = Len(journal[m])]
    /\ promised' = [promised EXCEPT ![m] = Max(@, epoch[m])]
    /\ copied' = [copied EXCEPT ![m] = epoch[m]]
    /\ history' = [history EXCEPT ![m] = Append(@, <<epoch[m], Len(journal[m])>>)]
    /\ required' = [required EXCEPT ![m] = view[m].inSync]
    /\ heard' = [heard EXCEPT ![m] = [x \in Members |-> 0]]
    /\ UNCHANGED <<seen, key, journal, epoch, conn, sent, view, told, denied, lost>>

\* copies_are_ready(): from now on it answers, by what its journal has and has not.
Ready(l) ==
    /\ phase[l] = "begin"
    /\ Rule("early_answer") => AllHave(l, Len(journal[l]))
    /\ phase' = [phase EXCEPT ![l] = "lead"]
    /\ told' = told \cup Records(journal[l], Len(journal[l]))
    /\ denied' = denied \cup {<<i, e>> \in (1..MaxLen) \X (1..(epoch[l] - 1)) : i > Len(journal[l]) \/ journal[l][i] # e}
    /\ UNCHANGED <<seen, key, journal, durable, promised, copied, history, epoch, conn, sent, heard, required, view, lost>>

Owns(l) == Leading(l) /\ key.leader = l /\ key.epoch = epoch[l]

\* change_in_sync(): waited for first, ...
Require(l, m) ==
    /\ Leading(l) /\ m \notin required[l] /\ m # l /\ m \notin view[l].inSync
    /\ conn[m] = [to |-> l, epoch |-> epoch[l]] /\ copied[m] # 0
    /\ required' = [required EXCEPT ![l] = @ \cup {m}]
    /\ UNCHANGED <<seen, key, journal, durable, promised, copied, history, phase, epoch, conn, sent, heard, view, told, denied, lost>>

\* ... then in the key; without an answer the leader does not know it.
\* candidate(): it has had everything once since this one leads; copies_is_complete(): and what was told since.
Live(l, m) == Rule("add_while_behind") => heard[l][m] > history[l][Len(history[l])][2]
Complete(l, m) == Live(l, m) /\ heard[l][m] > Cardinality({r \in told : r[1] <= Len(journal[l]) /\ journal[l][r[1]] = r[2]})
Add(l, m) ==
    /\ Leading(l) /\ view[l].rev = key.rev /\ key.rev < MaxRev /\ m \notin key.inSync /\ m # l
    /\ Rule("add_unrequired") => (m \in required[l] /\ Complete(l, m))
    /\ key' = [key EXCEPT !.rev = @ + 1, !.inSync = @ \cup {m}]
    /\ \/ view' = [view EXCEPT ![l] = [rev |-> key'.rev, inSync |-> key'.inSync]]
       \/ UNCHANGED view
    /\ UNCHANGED <<seen, journal, durable, promised, copied, history, phase, epoch, conn, sent, heard, required, told, denied, lost>>

Remove(l, m) ==
    /\ Leading(l) /\ view[l].rev = key.rev /\ key.rev < MaxRev /\ m \in key.inSync /\ m # l
    /\ Cardinality(key.inSync) > MinCopies
    /\ key' = [key EXCEPT !.rev = @ + 1, !.inSync = @ \ {m}]
    /\ \/ /\ view' = [view EXCEPT ![l] = [rev |-> key'.rev, inSync |-> key'.inSync]]
          /\ required' = [required EXCEPT ![l] = key'.inSync]
       \/ UNCHANGED <<seen, view, required>>
    /\ UNCHANGED <<seen, journal, durable, promised, copied, history, phase, epoch, conn, sent, heard, told, denied, lost>>

\* A mutation: it stops waiting before etcd says so.
Forget(l, m) ==
    /\ Mutation = "forget_before_cas" /\ Leading(l) /\ m \in required[l] /\ m # l /\ Cardinality(view[l].inSync) > MinCopies
    /\ required' = [required EXCEPT ![l] = @ \ {m}]
    /\ UNCHANGED <<seen, key, journal, durable, promised, copied, history, phase, epoch, conn, sent, heard, view, told, denied, lost>>

\* read_key(), require_as_key_says()
Look(l) ==
    /\ Owns(l) /\ view[l].rev # key.rev
    /\ view' = [view EXCEPT ![l] = [rev |-> key.rev, inSync |-> key.inSync]]
    /\ required' = [required EXCEPT ![l] = key.inSync]
    /\ UNCHANGED <<seen, key, journal, durable, promised, copied, history, phase, epoch, conn, sent, heard, told, denied, lost>>

-----------------------------------------------------------------------------
(* The end of a process, or of a disk.  A leader that does not lead any more begins anew, too. *)

Restarted(m, j, d) ==
    /\ journal' = [journal EXCEPT ![m] = j]
    /\ durable' = [durable EXCEPT ![m] = d]
    /\ phase' = [phase EXCEPT ![m] = "follow"]
    /\ epoch' = [epoch EXCEPT ![m] = 0]
    /\ seen' = [seen EXCEPT ![m] = None]
    /\ conn' = [conn EXCEPT ![m] = None]
    /\ required' = [required EXCEPT ![m] = {}]
    /\ heard' = [heard EXCEPT ![m] = [x \in Members |-> 0]]

Crash(m) ==
    /\ phase[m] # "follow" \/ durable[m] < Len(journal[m])
    /\ \E n \in durable[m]..Len(journal[m]) : Restarted(m, SubSeq(journal[m], 1, n), durable[m])
    /\ UNCHANGED <<key, promised, copied, history, sent, view, told, denied, lost>>

LoseDisk(m) ==
    /\ lost < MaxLost
    /\ lost' = lost + 1
    /\ Restarted(m, <<>>, 0)
    /\ promised' = [promised EXCEPT ![m] = 0]
    /\ copied' = [copied EXCEPT ![m] = 0]
    /\ history' = [history EXCEPT ![m] = <<>>]
    /\ UNCHANGED <<key, sent, view, told, denied>>

Next ==
    \/ \E m \in Members : Write(m) \/ Flush(m) \/ Read(m) \/ Acknowledge(m) \/ Commit(m) \/ Disconnect(m) \/ TakeOver(m) \/ Begin(m)
                          \/ Ready(m) \/ Look(m) \/ Crash(m) \/ LoseDisk(m)
    \/ \E l, m \in Members : Send(l, m) \/ Hear(l, m) \/ Connect(m, l) \/ Require(l, m) \/ Add(l, m) \/ Remove(l, m) \/ Forget(l, m)

Spec == Init /\ [][Next]_vars

-----------------------------------------------------------------------------
(* What must always be true *)

\* No two clients are told of different records at one place, and none is told of one that another was told never to be.
OneJournal == \A r, s \in told : r[1] = s[1] => r = s
NoContradiction == told \cap denied = {}

\* Who may take over has everything that anybody was told of.
Has(m, r) == r[1] <= durable[m] /\ journal[m][r[1]] = r[2]
NothingLost == \A m \in key.inSync : (copied[m] # 0 /\ phase[m] = "follow") => \A r \in told : Has(m, r)

\* A leader that answers has it, too, and has nothing that was denied before it.
LeaderHas == \A l \in Members : (phase[l] = "lead" /\ Owns(l)) => \A r \in told : r[1] <= Len(journal[l]) /\ journal[l][r[1]] = r[2]

\* A place and an epoch are one record, and all before it are the same: what Common() rests on.
Matching == \A a, b \in Members : \A i \in 1..Min(Len(journal[a]), Len(journal[b])) :
    journal[a][i] = journal[b][i] => \A j \in 1..i : journal[a][j] = journal[b][j]

=============================================================================
