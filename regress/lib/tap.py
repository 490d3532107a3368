"""TAP for tests written in Python, as regress/unit/tap.h is for those in C.

    with Tap() as t:
        t.ok(x > 3, "x is large")
        t.equal(f(1), 2, "f counts")
        with t.case("a killed broker recovers"):     # an exception in it is one failed test, the rest goes on
            ...
        t.skip("reads lz4", "no lz4 here")

Leaving the block prints the plan and ends the program with 1 if anything failed.
"""
import contextlib
import sys
import traceback


class Tap:
    def __init__(self):
        self.count = 0
        self.failed = 0

    def line(self, passed, name):
        self.count += 1
        self.failed += not passed
        print(f"{'' if passed else 'not '}ok {self.count} - {name.replace('#', '')}", flush=True)
        return passed

    def ok(self, condition, name):
        if not self.line(bool(condition), name):
            caller = sys._getframe(1)
            self.note(f"failed at {caller.f_code.co_filename}:{caller.f_lineno}")
        return bool(condition)

    def equal(self, got, want, name):
        if not self.line(got == want, name):
            self.note(f"     got: {got!r}\nexpected: {want!r}")
        return got == want

    def skip(self, name, why):
        self.count += 1
        print(f"ok {self.count} - {name} # SKIP {why}", flush=True)

    def note(self, text):
        for line in str(text).splitlines():
            print(f"# {line}", flush=True)

    @contextlib.contextmanager
    def case(self, name):
        """One test: passes if the block ends without an exception.  `assert` in it is enough."""
        try:
            yield
        except Exception:
            self.line(False, name)
            self.note(traceback.format_exc())
        else:
            self.line(True, name)

    def bail_out(self, why):
        print(f"Bail out! {why}", flush=True)
        sys.exit(2)

    def __enter__(self):
        return self

    def __exit__(self, kind, value, trace):
        if kind is not None and not issubclass(kind, SystemExit):
            self.line(False, f"the test itself ended by {kind.__name__}")
            self.note("".join(traceback.format_exception(kind, value, trace)))
        if kind is None or not issubclass(kind, SystemExit):
            print(f"1..{self.count}", flush=True)
            sys.exit(1 if self.failed else 0)
