# Everything that a fresh machine needs to build, test and lint Pawl. Only Go is required; `make help` lists the targets.
GO ?= go
STATICCHECK = $(GO) tool -modfile=tools/go.mod staticcheck
MODULES = . bench

# The compiler and the tests are short-lived: with fewer collections they take an eighth less of the processors. None is to take
# all the memory of a small machine for that.
export GOGC = 400
export GOMEMLIMIT = 3GiB

.PHONY: help test watched rest lint vet staticcheck built bench mutate sweep conformance-record

help:
	@echo "make test   every test in every module: make watched with the race detector; make rest, what runs without it: crash"
	@echo "            sweeps, scenarios inside other graphs, whole programs"
	@echo "make lint   gofmt, vet, staticcheck, module files"
	@echo "make bench  the figures, beside the raw limits of this machine"
	@echo "make mutate takes away each guard of the law of operations, and demands that a test misses it"
	@echo "make sweep  the crash sweep at full depth (about 10 times the stop points)"
	@echo "make conformance-record  records the scenarios on LangGraph again and compares random graphs (needs python3)"

# What says how long a part took: by the clock, and of the processors.
SHELL = bash
PART = part() { echo "== $$1"; local TIMEFORMAT="== $$1: %R s by the clock, %U s of processors"; time "$${@:2}"; }

# lint has vetted, and nobody reads debug information here.
TEST = $(GO) test -vet=off -ldflags=-w

# The detector watches Pawl, not the C code of SQLite and of its library that was translated to Go, nor their memory, which is
# not Go's: half of the time of such a run went there.
RACE = -race $(patsubst %,-gcflags=modernc.org/%=-race=false,sqlite/lib libc memory)

# What runs without it, since it would make thousands of short lives and processes take an hour: sweeps, chaos, scenarios
# inside other graphs, whole programs, and the full number of rounds of cases of which it sees a share. All else runs with
# it, and once; of processes that a test starts and kills it watches none.
SWEEPS = ^Test(Sweep|SweepEffects|SweepOverEffects|SweepOverTheSameDatabase|SweepFinds|SweepOutside|KilledWorkers)$$
LONG = $(SWEEPS)|^Test(Chaos|Cut|Depth)$$|^Test(Seeds|Promises|Acceptance)$$/.*/^depth_[1-3]
MANY = ^Test(Seeds|Promises|Acceptance)$$/^(A01|A02|A04|A10|A11|A12|A13|A15|A45|A46|P1|P3|P8|S000-5|S000-8|S000-9|S000-13|S000-14|S000-21|S000-22|S000-23|S001-8|S002-2|S002-8|S002-13|S003-1|S003-2|S003-4|S003-6|S003-15|S003-16)$$/^depth_0$$|^Test(Bugs|Hazards)$$/^(013|040|044|109|114|143|H12|H19)$$|^TestBehaviours$$/^rows$$/^CHN-17$$
SWEPT = ./effect ./pawltest ./storage/fault ./store
PROGRAMS = ./cmd/... ./examples/... ./internal/arch
# The suite is first: it takes longest, and the others run beside it.
WATCHED = ./internal/suite $$($(GO) list ./... | grep -vxF "$$($(GO) list $(PROGRAMS) ./internal/suite)")

# Tests wait for disks and processes, too.
SIDE = -parallel 4

test: watched rest

watched:
	@$(PART); tmp=$$(mktemp -d); trap 'rm -rf "$$tmp"' EXIT; \
	part "the suite, built" $(TEST) -c -o "$$tmp/suite" ./internal/suite && \
	part "race detector" env PAWL_SUITE_CHILDREN="$$tmp/suite" $(TEST) $(RACE) -timeout 45m $(SIDE) -skip '$(LONG)' $(WATCHED)

rest:
	@$(PART); \
	part "sweeps, insides, rounds" $(TEST) -timeout 30m $(SIDE) -run '$(LONG)|$(MANY)' ./internal/suite && \
	part "sweeps of packages" $(TEST) -timeout 10m -run '$(SWEEPS)|Interleave$$' $(SWEPT) && \
	part "programs" $(TEST) -timeout 10m $(PROGRAMS) && \
	cd bench && part "bench" $(TEST) ./...

lint: vet staticcheck

vet:
	@out=$$(gofmt -l $$(git ls-files '*.go')); if [ -n "$$out" ]; then echo "not gofmt-ed:"; echo "$$out"; exit 1; fi
	@$(PART); for m in $(MODULES); do (cd $$m && part "vet $$m" $(GO) vet ./... && $(GO) mod verify >/dev/null) || exit 1; done
	@$(GO) mod tidy -diff

staticcheck:
	@$(PART); part "staticcheck" $(STATICCHECK) ./...

# What vet, staticcheck and the tests without the detector need, compiled once.
built:
	@$(PART); part "built" $(GO) list -export -test -deps ./... >/dev/null

bench:
	cd bench && GOGC= GOMEMLIMIT= $(GO) run .

sweep:
	PAWL_SWEEP=full $(GO) test -timeout 2h -run "TestSweep" -v ./internal/suite

# LangGraph's traces: an environment of its own with the pinned packages, and 500 random graphs beside the scenarios.
VENV = .conformance
conformance-record:
	@test -x $(VENV)/bin/python || python3 -m venv $(VENV)
	@$(VENV)/bin/python -m pip install -q --disable-pip-version-check --require-hashes -r conformance/record/requirements.lock
	$(GO) run ./conformance/renew -python $(VENV)/bin/python -random 500
	$(VENV)/bin/python conformance/record/drawings.py conformance/drawings
	$(VENV)/bin/python conformance/record/messages.py conformance/messages.json

mutate:
	$(GO) run ./internal/mutate -run 'Guard|Law' ./effect
