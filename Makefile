# lockstep: `make help` says what there is.
#
# The extension is built by PGXS (extension/Makefile), the daemon by
# replicator/Makefile.  PGXS claims `make check` for itself and refuses it, which
# is why it is not included here.

PG_CONFIG ?= pg_config
BINDIR := $(shell $(PG_CONFIG) --bindir 2>/dev/null)
PKGLIBDIR := $(shell $(PG_CONFIG) --pkglibdir 2>/dev/null)
export PG_CONFIG

# Installing writes into the server's directories: sudo, if we may not.
SUDO := $(shell test -w "$(PKGLIBDIR)" || echo sudo)

# A newer compiler's warnings must not keep anybody from building: they are errors
# only with WERROR=1, which developers and .ci/run set.
export WERROR

all: extension replicator

extension:
	$(MAKE) -C extension all

replicator:
	$(MAKE) -C replicator all

install: all
	$(if $(DESTDIR),,$(SUDO)) $(MAKE) -C extension install
	$(if $(DESTDIR),,$(SUDO)) $(MAKE) -C replicator install bindir=$(BINDIR)

# On the replicator's host, after install.
install-service:
	$(if $(DESTDIR),,$(SUDO)) $(MAKE) -C replicator install-service bindir=$(BINDIR)

uninstall:
	$(if $(DESTDIR),,$(SUDO)) $(MAKE) -C extension uninstall
	$(if $(DESTDIR),,$(SUDO)) $(MAKE) -C replicator uninstall bindir=$(BINDIR)

# Debian packages, in build/deb.
deb:
	packaging/build-deb

# Builds them, installs, upgrades and purges them in a fresh Debian (as root; debootstrap).
check-deb:
	tests/packages

# The same packages under a real systemd, in a container (as root; systemd-nspawn, debootstrap).
check-systemd:
	tests/systemd

setup:
	tests/setup

# Every stage prints its time; the last line counts the tests.
check:
	tests/check lint unit fuzz regress tap

check-lint check-unit check-fuzz check-regress check-tap:
	tests/check $(@:check-%=%)

# What takes too long for every time: the cluster tests with the daemon under
# sanitizers, with three nodes, and more rounds of the random ones.
check-long:
	tests/setup drivers
	LOCKSTEP_LONG=1 tests/check unit fuzz tap drivers sanitize

check-drivers:
	tests/setup drivers
	tests/check drivers

# PostgreSQL's own tests through a node; fetches its source.  See tests/README.md.
check-postgres: install
	tests/postgres/run

# README's two commands on another release of Debian, in a chroot: a core of the tests,
# or STAGES=all T=all.  See tests/debian/run.
RELEASE ?= trixie
.PHONY: check-debian
check-debian:
	tests/debian/run $(RELEASE)

# With servers of other major versions, which it builds, once: VERSIONS=17, or
# VERSIONS=/opt/pg16/bin/pg_config for one that is there.  T as for check-tap.
check-versions:
	tests/setup versions
	tests/versions/run $(VERSIONS)

# Every combination of loads, levels and numbers of clients for LIVENESS_SECONDS (600) each:
# the longest pause between two commits.
check-liveness: install
	tests/liveness/run

# Random commands for SECONDS (180): on the nodes and on a server without lockstep; by several clients at once.
check-differential: install
	PYTHONDONTWRITEBYTECODE=1 /usr/bin/python3 tests/differential/run.py --seconds $(or $(SECONDS),180) --settings
	PYTHONDONTWRITEBYTECODE=1 /usr/bin/python3 tests/differential/at_once.py --seconds $(or $(SECONDS),180)
	PYTHONDONTWRITEBYTECODE=1 /usr/bin/python3 tests/differential/at_once.py --seconds $(or $(SECONDS),180) --nodes 3 --replicators 3 --clients 3 --disturb --settings

# The model of a group of replicators, in all orders of steps; needs Java.
check-model:
	tests/model/run

check-sanitize:
	tests/check sanitize

# ROUNDS and SECONDS change it; what it has run is summed up in tests/results.
soak:
	tests/soak/run $(ROUNDS) $(SECONDS)

bench:
	tests/bench/run

# Tables and charts in docs/benchmarks; BUDGET: minutes.
bench-classic:
	tests/bench/classic

# The SVG files are committed; graphviz and mscgen are needed to change them only.
DIAGRAMS = docs/diagrams/cluster.svg docs/diagrams/commit.svg

diagrams: $(DIAGRAMS)

docs/diagrams/%.svg: docs/diagrams/%.dot
	dot -Tsvg -o $@ $<

# mscgen leaves less room for text than common fonts need.
docs/diagrams/%.svg: docs/diagrams/%.msc
	mscgen -T svg -o $@ $<
	sed -i 's/font-size="[0-9]*"/font-size="11" dy="-3"/' $@

demo:
	tests/demo

demo-stop:
	tests/demo stop

clean:
	$(MAKE) -C extension clean
	$(MAKE) -C replicator clean
	$(MAKE) -C tests/fault clean
	$(MAKE) -C tests/soak clean
	rm -rf tests/results build

help:
	@echo 'make                build the extension and the daemon'
	@echo 'make setup          install the Debian packages that building and testing need'
	@echo 'make install        install both (lockstep-replicator and lockstepctl in $(BINDIR))'
	@echo 'make install-service  the unit for systemd and a sample configuration'
	@echo 'make uninstall      remove all that these two made'
	@echo 'make deb            Debian packages, in build/deb; make check-deb tries them in a fresh Debian'
	@echo 'make check-systemd  the packages and their unit in a container that systemd-nspawn boots'
	@echo 'make demo           two nodes, pgbench on both, compared afterwards; left running (NODES=3 for three;'
	@echo '                    REPLICATORS=3: the replicator that leads is killed meanwhile)'
	@echo 'make demo-stop      end it and remove its files'
	@echo 'make check          every test, in stages: check-lint check-unit check-fuzz check-regress check-tap'
	@echo 'make check-tap T=conflicts/040_conflicts    one file of the cluster tests (T=sequences: a topic; T=040)'
	@echo 'make check-sanitize the cluster tests with the daemon under ASan+UBSan and TSan'
	@echo 'make check-drivers  client drivers: psql, psycopg, pgjdbc, node-postgres (installs them), and their own test suites'
	@echo 'make check-postgres tests of PostgreSQL itself through a node (fetches its source)'
	@echo 'make check-debian   demo and core tests in a chroot of RELEASE=trixie (bookworm, sid, experimental, noble; STAGES=all T=all: all tests)'
	@echo 'make check-versions the cluster tests with PostgreSQL 17 and 18 (builds them; VERSIONS="17 /opt/pg16/bin/pg_config")'
	@echo 'make check-liveness the longest pause between two commits, under loads that conflict (LIVENESS_SECONDS=20: an hour)'
	@echo 'make check-differential random commands on the nodes and a plain server, and at once: the same outcome (SECONDS=180)'
	@echo 'make check-model    the model of several replicators by TLC (Java; about ten minutes)'
	@echo 'make check-long     what takes too long for make check'
	@echo 'make soak           the crash harness, again and again (ROUNDS=10 SECONDS=120; REPLICATORS=3: a group)'
	@echo 'make diagrams       render docs/diagrams anew (graphviz, mscgen)'
	@echo 'make bench          compare with plain PostgreSQL and a synchronous standby (ROUNDS, SECONDS)'
	@echo 'make bench-classic  tables that others have published, with lockstep: docs/benchmarks/classic.md (BUDGET=22, minutes)'

.PHONY: check-model all extension replicator install install-service uninstall deb check-deb check-systemd setup check check-lint check-unit check-fuzz check-regress check-tap \
	check-long check-drivers check-postgres check-versions check-sanitize check-differential check-liveness soak bench bench-classic diagrams demo demo-stop clean help
