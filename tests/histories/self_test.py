"""The checker finds each anomaly in a history made by hand, at the levels that forbid it
and at no other, and nothing in histories that are right."""
import sys

from checker import LEVELS, Tx, check


def txs(*descriptions):
    return [Tx(f'T{i + 1}', f's{i + 1}', ops, *rest, began=i * 10 + 1, ended=i * 10 + 5) if rest else
            Tx(f'T{i + 1}', f's{i + 1}', ops, began=0, ended=100)
            for i, (ops, *rest) in enumerate(descriptions)]


A = lambda k, v: ('append', k, v)
L = lambda k, *v: ('list', k, list(v))
W = lambda k, v: ('write', k, v)
R = lambda k, v: ('read', k, v)

# name, lowest level that forbids it (3: none), history
CASES = [
    ('nothing', 3, txs(([A('x', 1)],), ([L('x', 1), A('x', 2)],), ([L('x', 1, 2)],))),
    ('G0', 0, txs(([A('x', 1), A('y', 1)],), ([A('x', 2), A('y', 2)],), ([L('x', 1, 2), L('y', 2, 1)],))),
    ('G1a', 0, txs(([A('x', 1)], 'aborted'), ([L('x', 1)], 'committed'))),
    ('G1b', 0, txs(([A('x', 1), A('x', 2)],), ([L('x', 1)],), ([L('x', 1, 2)],))),
    ('G1c', 0, txs(([A('x', 1), L('y', 2)],), ([A('y', 2), L('x', 1)],))),
    ('lost append', 0, txs(([A('x', 1)],), ([A('x', 2)],), ([L('x', 2)],))),
    ('two orders', 0, txs(([A('x', 1)],), ([A('x', 2)],), ([L('x', 1, 2)],), ([L('x', 2)],))),
    ('garbage', 0, txs(([L('x', 5)],))),
    ('own append missing', 0, txs(([A('x', 1), L('x')],))),
    ('G-single', 1, txs(([L('x'), L('y', 2)],), ([A('x', 2), A('y', 2)],), ([L('x', 2), L('y', 2)],))),
    ('long fork', 1, txs(([A('x', 1)],), ([A('y', 2)],), ([L('x', 1), L('y')],), ([L('x'), L('y', 2)],),
                         ([L('x', 1), L('y', 2)],))),
    ('G2-item', 2, txs(([L('x'), L('y'), A('x', 1)],), ([L('x'), L('y'), A('y', 2)],), ([L('x', 1), L('y', 2)],))),
    ('P4', 1, txs(([R('r', None), W('r', 1)],), ([R('r', 1), W('r', 2)],), ([R('r', 1), W('r', 3)],))),
    ('register G1a', 0, txs(([W('r', 1)], 'aborted'), ([R('r', 1)], 'committed'))),
    ('register G1c', 0, txs(([W('r', 1), R('q', 2)],), ([W('q', 2), R('r', 1)],))),
    ('register G2', 2, txs(([R('r', 1), R('q', 1), W('r', 2)],), ([R('r', 1), R('q', 1), W('q', 3)],),
                           ([W('r', 1), W('q', 1)],))),
    ('unknown and seen', 3, txs(([A('x', 1)], 'unknown'), ([L('x', 1)], 'committed'))),
    ('unknown and seen by itself', 3, txs(([A('x', 1), L('x', 1)], 'unknown'), ([A('x', 2), L('x', 2)], 'committed'))),
    ('unknown and seen by one that was seen', 3, txs(([W('r', 1)], 'unknown'), ([R('r', 1), W('r', 2)], 'unknown'),
                                                     ([R('r', 2)], 'committed'))),
    ('unknown and not seen', 3, txs(([A('x', 1)], 'unknown'), ([L('x')], 'committed'))),
    ('unknown and seen by itself only', 3, txs(([L('y'), A('x', 1), L('x', 1)], 'unknown'), ([A('y', 2)], 'committed'),
                                               ([L('y', 2), L('x')], 'committed'))),
    ('unknown and seen by one that counts', 1, txs(([A('x', 1)], 'unknown'), ([L('x', 1), A('y', 2)], 'unknown'),
                                                   ([L('y', 2), L('x')], 'committed'))),
]


def stale():
    one = Tx('T1', 'a', [A('x', 1)], began=1, ended=2)
    other = Tx('T2', 'b', [L('x')], began=3, ended=4)
    final = Tx('T3', 'c', [L('x', 1)], began=5, ended=6)
    return [one, other, final]


def main():
    failed = 0
    for name, lowest, history in CASES:
        for i, level in enumerate(LEVELS):
            found = check(history, level)
            if bool(found) != (i >= lowest):
                failed += 1
                print(f'not ok: {name} at {level}: {"".join(found) or "nothing"}')
    if check(stale(), 'SERIALIZABLE') or not check(stale(), 'SERIALIZABLE', strict=True):
        failed += 1
        print('not ok: a stale read of another session is a matter of strict only')
    same = stale()
    same[1].session = 'a'
    if not check(same, 'READ COMMITTED'):
        failed += 1
        print('not ok: a session that does not read its own write')
    print(f'{len(CASES) * len(LEVELS) + 2 - failed} of {len(CASES) * len(LEVELS) + 2} right')
    return failed > 0


if __name__ == '__main__':
    sys.exit(main())
