"""Histories of transactions: are they what an isolation level allows?

A history is a list of transactions (see Tx) with two kinds of objects:

  lists      append(key, value), and reads that return the whole list; every value is
             appended once, so each read shows the order of the versions before it
  registers  write(key, value), each value written once, and reads; the order of two
             versions is known when a transaction has read one and written the other

From it come the dependencies of Adya, as Elle infers them (Kingsbury and Alvaro, 2020):

  ww  T2 wrote the next version after T1's       wr  T2 read T1's version
  rw  T1 read the version before the one that T2 wrote (an anti-dependency)

and "order": T1 was over before T2 began, in one session or, with strict, in any.

  READ COMMITTED   no aborted or intermediate reads (G1a, G1b), no cycle of ww, wr
                   and order (G0, G1c), no read of what was replaced before
  REPEATABLE READ  and no cycle in which no two rw are adjacent (G-single and
                   G-nonadjacent), which is snapshot isolation
  SERIALIZABLE     and no cycle at all
"""
import itertools

LEVELS = ('READ COMMITTED', 'REPEATABLE READ', 'SERIALIZABLE')


class Tx:
    """ops: ('append', key, value), ('list', key, [values]), ('write', key, value),
    ('read', key, value or None), in their order.  outcome: 'committed', 'aborted', or
    'unknown'.  began, ended: of one clock."""

    def __init__(self, name, session, ops, outcome='committed', began=0.0, ended=0.0):
        self.name, self.session, self.ops, self.outcome = name, session, ops, outcome
        self.began, self.ended = began, ended

    def __repr__(self):
        return f'{self.name} ({self.session}, {self.outcome}): ' + '; '.join(
            f'{op} {key} {value}' for op, key, value in self.ops)


def committed(history):
    """Those that committed.  One whose end nobody knows did if one that did has seen it."""
    certain = {t.name for t in history if t.outcome == 'committed'}
    while True:
        seen = {(key, v) for t in history if t.name in certain for op, key, value in t.ops if op in ('list', 'read')
                for v in (value if op == 'list' else [value])}
        more = {t.name for t in history if t.outcome == 'unknown' and t.name not in certain and
                any((key, v) in seen for op, key, v in t.ops if op in ('append', 'write'))}
        if not more:
            return [t for t in history if t.name in certain]
        certain |= more


class Checker:
    def __init__(self, history, level, strict=False):
        self.level = LEVELS.index(level)
        self.problems = []
        self.txs = committed(history)
        self.aborted = {(op, k, v) for t in history if t.outcome == 'aborted'
                        for op, k, v in t.ops if op in ('append', 'write')}
        self.edges = {}                     # (from, to) -> set of kinds
        self.strict = strict
        self.n = len(self.txs)

    def problem(self, kind, text, *txs):
        self.problems.append(f'{kind}: {text}\n' + ''.join(f'    {t}\n' for t in txs))

    def edge(self, a, b, kind):
        if a != b:
            self.edges.setdefault((a, b), set()).add(kind)

    # ---------- versions

    def check_lists(self):
        writer, last = {}, {}
        for i, t in enumerate(self.txs):
            for op, key, value in t.ops:
                if op == 'append':
                    writer[key, value] = i
                    last[key, i] = value
        longest = {}
        for t in self.txs:
            for op, key, value in t.ops:
                if op == 'list' and len(value) > len(longest.get(key, ())):
                    longest[key] = value
        for key, order in longest.items():
            if len(set(order)) != len(order):
                self.problem('duplicate', f'list {key} is {order}')
            for a, b in itertools.pairwise(order) if hasattr(itertools, 'pairwise') else zip(order, order[1:]):
                if (key, a) in writer and (key, b) in writer:
                    self.edge(writer[key, a], writer[key, b], 'ww')
        for i, t in enumerate(self.txs):
            own = {}
            for op, key, value in t.ops:
                if op == 'append':
                    own.setdefault(key, []).append(value)
                elif op == 'list':
                    self.list_read(i, t, key, value, own.get(key, []), longest.get(key, []), writer, last)
        self.check_lost(writer, longest)

    def list_read(self, i, t, key, value, own, order, writer, last):
        for v in value:
            if ('append', key, v) in self.aborted:
                self.problem('G1a', f'{t.name} reads {v} of {key}, which was rolled back', t)
            elif (key, v) not in writer:
                self.problem('garbage', f'{t.name} reads {v} of {key}, which nobody wrote', t)
        if value != order[:len(value)]:
            self.problem('incompatible order', f'{key} is read as {value} and as {order}', t)
            return
        if own and value[-len(own):] != own:
            self.problem('internal', f'{t.name} does not read its own appends {own} to {key}', t)
            return
        before = value[:len(value) - len(own)]
        if before and (key, before[-1]) in writer:
            w = writer[key, before[-1]]
            if w != i and last[key, w] != before[-1]:
                self.problem('G1b', f'{t.name} reads {before[-1]}, not the last version of {key} by its writer',
                             t, self.txs[w])
            self.edge(w, i, 'wr')
        if not own and len(value) < len(order) and (key, order[len(value)]) in writer:
            self.edge(i, writer[key, order[len(value)]], 'rw')

    def check_lost(self, writer, longest):
        """The last transaction of each history reads everything."""
        if not self.txs:
            return
        final = {k: v for op, k, v in self.txs[-1].ops if op == 'list'}
        for (key, value), i in writer.items():
            if key in final and value not in final[key] and self.txs[i].outcome == 'committed':
                self.problem('lost', f'{value}, appended to {key}, is not in {final[key]}', self.txs[i])

    def check_registers(self):
        writer, last = {}, {}
        for i, t in enumerate(self.txs):
            for op, key, value in t.ops:
                if op == 'write':
                    writer[key, value] = i
                    last[key, i] = value
        following = {}                      # (key, version) -> those who read and replaced it
        readers = {}
        for i, t in enumerate(self.txs):
            current = {}
            first = {}
            for op, key, value in t.ops:
                if op == 'write':
                    if key in first and key not in current:
                        following.setdefault((key, first[key]), []).append(i)
                    current[key] = value
                elif op == 'read':
                    if key in current:
                        if current[key] != value:
                            self.problem('internal', f'{t.name} reads {value} of {key}, not its own', t)
                        continue
                    self.register_read(i, t, key, value, writer, last)
                    first.setdefault(key, value)
                    readers.setdefault((key, value), []).append(i)
        for (key, value), nexts in following.items():
            if len(nexts) > 1 and self.level >= 1:
                self.problem('P4', f'version {value} of {key} was read and replaced more than once',
                             *[self.txs[i] for i in nexts])
            for n in nexts:
                if (key, value) in writer:
                    self.edge(writer[key, value], n, 'ww')
                for r in readers.get((key, value), ()):
                    self.edge(r, n, 'rw')

    def register_read(self, i, t, key, value, writer, last):
        if value is None:
            return
        if ('write', key, value) in self.aborted:
            self.problem('G1a', f'{t.name} reads {value} of {key}, which was rolled back', t)
        elif (key, value) not in writer:
            self.problem('garbage', f'{t.name} reads {value} of {key}, which nobody wrote', t)
        else:
            w = writer[key, value]
            if last[key, w] != value:
                self.problem('G1b', f'{t.name} reads {value}, not the last version of {key} by its writer',
                             t, self.txs[w])
            self.edge(w, i, 'wr')

    # ---------- order in time

    def add_order(self):
        sessions = {}
        for i, t in enumerate(self.txs):
            sessions.setdefault(t.session, []).append(i)
        for each in sessions.values():
            each.sort(key=lambda i: self.txs[i].began)
            for a, b in zip(each, each[1:]):
                if self.txs[a].outcome == 'committed':
                    self.edge(a, b, 'order')
        if not self.strict:
            return
        # what is over leads to a point in time, and that to all that begins later
        events = sorted([(t.ended, 0, i) for i, t in enumerate(self.txs) if t.outcome == 'committed'] +
                        [(t.began, 1, i) for i, t in enumerate(self.txs)])
        point = None
        for _, begins, i in events:
            if begins:
                if point is not None:
                    self.edge(point, i, 'order')
                continue
            before, point = point, self.n
            self.n += 1
            if before is not None:
                self.edge(before, point, 'order')
            self.edge(i, point, 'order')

    # ---------- cycles

    def find_cycle(self, kinds, adjacent_rw=True):
        """A list of nodes, or None.  Without adjacent_rw, no two rw follow each other:
        a walk over (node, came by rw)."""
        graph = {}
        for (a, b), has in self.edges.items():
            for kind in has & kinds:
                rw = not adjacent_rw and kind == 'rw'
                graph.setdefault((a, False), set()).add((b, rw))
                if not adjacent_rw and not rw:
                    graph.setdefault((a, True), set()).add((b, False))
        for component in components(graph):
            inside = set(component)
            if len(component) > 1 or any(v in graph.get(v, ()) for v in component):
                return [v for v, _ in shortest_cycle(graph, inside)]
        return None

    def cycle(self, name, kinds, adjacent_rw=True):
        found = self.find_cycle(kinds, adjacent_rw)
        if found is None:
            return
        steps = []
        for a, b in zip(found, found[1:] + found[:1]):
            if a < len(self.txs):
                steps.append(f'{self.txs[a].name} -{"/".join(sorted(self.edges[a, b] & kinds))}->')
        self.problem(name, ' '.join(steps), *[self.txs[i] for i in found if i < len(self.txs)])

    def check_stale(self):
        """A version that was replaced before the reader began, as far as order counts."""
        for (a, b), has in self.edges.items():
            if 'rw' not in has:
                continue
            reader, writer = self.txs[a], self.txs[b]
            if (writer.outcome == 'committed' and writer.ended < reader.began and
                    (self.strict or writer.session == reader.session)):
                self.problem('stale read', f'{reader.name} does not see {writer.name}', reader, writer)

    def check(self):
        self.check_lists()
        self.check_registers()
        self.check_stale()
        self.add_order()
        self.cycle('G0', {'ww', 'order'})
        self.cycle('G1c', {'ww', 'wr', 'order'})
        if self.level >= 1:
            self.cycle('G-single or G-nonadjacent', {'ww', 'wr', 'rw', 'order'}, adjacent_rw=False)
        if self.level >= 2:
            self.cycle('G2', {'ww', 'wr', 'rw', 'order'})
        return self.problems


def components(graph):
    """Strongly connected components (Tarjan), without recursion."""
    index, low, on_stack, stack, result = {}, {}, set(), [], []
    for root in list(graph):
        if root in index:
            continue
        work = [(root, iter(graph.get(root, ())))]
        index[root] = low[root] = len(index)
        stack.append(root)
        on_stack.add(root)
        while work:
            node, rest = work[-1]
            for n in rest:
                if n not in index:
                    index[n] = low[n] = len(index)
                    stack.append(n)
                    on_stack.add(n)
                    work.append((n, iter(graph.get(n, ()))))
                    break
                if n in on_stack:
                    low[node] = min(low[node], index[n])
            else:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[node])
                if low[node] == index[node]:
                    component = []
                    while True:
                        n = stack.pop()
                        on_stack.discard(n)
                        component.append(n)
                        if n == node:
                            break
                    result.append(component)
    return result


def shortest_cycle(graph, inside):
    best = None
    for start in sorted(inside)[:50]:
        parent = {start: None}
        queue = [start]
        while queue:
            nexts = []
            for a in queue:
                for b in graph.get(a, ()):
                    if b == start:
                        path = [a]
                        while parent[path[-1]] is not None:
                            path.append(parent[path[-1]])
                        if best is None or len(path) < len(best):
                            best = path[::-1]
                        nexts = []
                        break
                    if b in inside and b not in parent:
                        parent[b] = a
                        nexts.append(b)
                else:
                    continue
                break
            else:
                queue = nexts
                continue
            break
    return best


def check(history, level, strict=False):
    return Checker(history, level, strict).check()
