"""Run the unittests of a package; print "TEST pass|fail|skip" for each, subtests with it.

A test that takes more than two minutes ends the run, with a traceback of what it does.
"""
import faulthandler
import sys
import unittest

LIMIT = 120


class Results(unittest.TestResult):
    def startTest(self, test):
        super().startTest(test)
        self.outcome = 'pass'
        faulthandler.dump_traceback_later(LIMIT, exit=True)

    def stopTest(self, test):
        super().stopTest(test)
        faulthandler.cancel_dump_traceback_later()
        print(test.id().replace(' ', '_'), self.outcome, flush=True)

    def _failed(self, test, err):
        self.outcome = 'fail'
        print('====', test.id(), '\n', self._exc_info_to_string(err, test), file=sys.stderr, flush=True)

    def addError(self, test, err):
        if isinstance(test, unittest.suite._ErrorHolder):       # setUpClass: none of its tests is run
            print(test.id().replace(' ', '_'), 'fail', flush=True)
        self._failed(test, err)

    def addFailure(self, test, err):
        self._failed(test, err)

    def addSubTest(self, test, subtest, err):
        if err is not None:
            self._failed(subtest, err)

    def addSkip(self, test, reason):
        self.outcome = 'skip'
        print('skip', test.id(), reason, file=sys.stderr, flush=True)

    def addExpectedFailure(self, test, err):
        self.outcome = 'xfail'

    def addUnexpectedSuccess(self, test):
        self.outcome = 'fail'


suite = unittest.defaultTestLoader.discover(sys.argv[1], top_level_dir='.')
suite.run(Results())
