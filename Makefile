# Everything that a fresh machine needs to build, test and lint Pawl. Only Go is required; `make help` lists the targets.
GO ?= go
STATICCHECK = $(GO) tool -modfile=tools/go.mod staticcheck
MODULES = . bench

.PHONY: help test lint bench sweep conformance-record

help:
	@echo "make test   every test in every module, with the race detector; crash sweeps without it"
	@echo "make lint   gofmt, vet, staticcheck, module files"
	@echo "make bench  the figures, beside the raw limits of this machine"
	@echo "make mutate takes away each guard of the law of operations, and demands that a test misses it"
	@echo "make sweep  the crash sweep at full depth (about 10 times the stop points)"
	@echo "make conformance-record  records the scenarios on LangGraph again and compares random graphs (needs python3)"

# The long ones run without the race detector, which would make their thousands of processes take an hour. So do cases whose
# function the detector sees under another number: A01 to A04 and A10 to A13 as S003-1 to S003-4 and S003-15, the rows and
# failures as hazards H1, H15 and H19, scenarios inside other graphs as themselves.
LONG = TestSweep|TestChaos|TestCut|TestDepth|TestAcceptance/^A0[1-4]$$|TestAcceptance/^A1[0-3]$$|TestBehaviours/rows/^(CHN-17|CKP-2[34]|FUN-22)$$|TestBugs/^(019|109)$$|Test(Seeds|Promises|Acceptance)/.*/^depth_[1-3]

# The detector watches Pawl, not the C code of SQLite that was translated to Go: half of the time of such a run went there.
RACE = -race -gcflags=modernc.org/sqlite/lib=-race=false

test:
	@for m in $(MODULES); do (cd $$m && echo "== test $$m" && $(GO) test $(RACE) -timeout 45m -skip '$(LONG)' ./... && \
		$(GO) test -timeout 30m -run '$(LONG)' ./...) || exit 1; done

lint:
	@out=$$(gofmt -l $$(git ls-files '*.go')); if [ -n "$$out" ]; then echo "not gofmt-ed:"; echo "$$out"; exit 1; fi
	@for m in $(MODULES); do (cd $$m && echo "== vet $$m" && $(GO) vet ./... && $(GO) mod verify >/dev/null) || exit 1; done
	$(STATICCHECK) ./...
	@$(GO) mod tidy -diff

bench:
	cd bench && $(GO) run .

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
