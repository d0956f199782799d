# Everything is built from this checkout and what go.mod and tools/ name; servers for the tests are brought
# by tests/servers. `make` alone lists the targets.

SHELL := bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

GO     ?= go
REPORT := $(shell mktemp -u)
# Most tests of a database wait for leases and locks: many may run at once on few cores.
PARALLEL ?= 16

# Tools have modules of their own, so that their dependencies never reach a user's go.mod. goose's command
# needs no drivers but ours.
TOOL  := $(GO) tool -modfile=tools/go.mod
LINT  := $(GO) tool -modfile=tools/lint/go.mod golangci-lint
GOOSE_TAGS := no_clickhouse no_libsql no_mssql no_vertica no_ydb no_spanner

# Modules of their own, so that the root's go.mod does not carry what they need.
# tests/tidb is not among them: to vet and lint it is to compile TiDB.
# tests/matrix has a target of its own.
OBSERVERS := observe/prometheus observe/otel
NESTED := $(OBSERVERS) tests/matrix

.PHONY: help
help: ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "%-10s %s\n", $$1, $$2}'

.PHONY: demo
demo: ## handle 500 payments exactly once, on embedded SQLite
	$(GO) run ./cmd/firsttime demo

.PHONY: test
test: ## run all tests, on real databases, with the race detector
	@rm -f $(REPORT)
	FIRSTTIME_TEST_REPORT=$(REPORT) $(GO) test -race -shuffle=on -parallel=$(PARALLEL) -timeout=40m ./...
	$(GO) test -count=1 ./tests/explore # with faults: the race detector makes it explore without
	for m in $(OBSERVERS); do (cd $$m && $(GO) test -race -shuffle=on ./...); done
	@echo 'tested against:'; sort -u $(REPORT); rm -f $(REPORT)

# What `make test` does in short, at length. The tests with the tag need clusters, and root for them.
.PHONY: proof
proof: ## kill, cut off and fill up servers under load, explore schedules at length, and print one table
	@rm -f $(REPORT); failed=0; \
	prove() { FIRSTTIME_TEST_TABLE=$(REPORT) $(GO) test -count=1 -timeout=60m "$$@" || failed=1; }; \
	prove ./tests/explore; \
	prove ./tests/explore -run=Schedule/outside -explore.faults=2; \
	prove ./tests/histories -histories=5000; \
	prove ./tests/kill -orders=2000; \
	prove -parallel=$(PARALLEL) ./tests/faults -long -runs=3; \
	prove -tags=proof ./tests/cluster; \
	cat $(REPORT); rm -f $(REPORT); exit $$failed

# The inputs that mattered are in testdata/fuzz, and `make test` runs those.
FUZZTIME ?= 30s
.PHONY: fuzz
fuzz: ## look for inputs that break keys, database URLs and headers; FUZZTIME=30s for each target
	@for file in $$(grep -rl --include='*_test.go' '^func Fuzz' .); do \
		for target in $$(sed -n 's/^func \(Fuzz[A-Za-z0-9]*\)(.*/\1/p' $$file); do \
			echo "$$target:"; $(GO) test -run='^$$' -fuzz="^$$target\$$" -fuzztime=$(FUZZTIME) $$(dirname $$file); \
		done; \
	done

# MATRIX=-others leaves out what `make test` runs.
MATRIX ?=
.PHONY: matrix
matrix: ## run the conformance suite on every version and driver, and print what passed
	cd tests/matrix && $(GO) run . $(MATRIX)

.PHONY: tidb
tidb: ## run the conformance suite on an embedded TiDB (its first build takes some minutes)
	cd tests/tidb && $(GO) test -count=1 -timeout=30m ./...

.PHONY: check
check: generated tidy lint cross ## prove that gen/ is current, modules are tidy, code is clean and portable

.PHONY: lint
lint: ## run go vet and golangci-lint
	$(GO) vet ./...
	$(LINT) run ./...
	for m in $(NESTED); do (cd $$m && $(GO) vet ./... && $(GO) tool -modfile=$(CURDIR)/tools/lint/go.mod golangci-lint run ./...); done

.PHONY: generate
generate: ## compile queries/ into gen/
	rm -rf gen
	$(TOOL) sqlc generate

.PHONY: generated
generated: ## fail if gen/ is not what queries/ and migrations/ say
	$(TOOL) sqlc diff
	@want=$$(for d in postgres mysql sqlite; do for f in queries/$$d/*.sql; do echo gen/$$d/$$(basename $$f).go; done; echo gen/$$d/db.go; echo gen/$$d/models.go; done | sort); \
	have=$$(find gen -type f | sort); diff <(echo "$$want") <(echo "$$have") || { echo 'gen/ holds other files than sqlc writes: run make generate'; exit 1; }

.PHONY: tidy
tidy: ## fail if a go.mod or go.sum is not tidy
	$(GO) mod tidy -diff
	cd tools && $(GO) mod tidy -diff
	cd tools/lint && $(GO) mod tidy -diff
	for m in $(NESTED); do (cd $$m && $(GO) mod tidy -diff); done

.PHONY: cross
cross: ## compile and vet for the other systems, tests included
	GOOS=darwin $(GO) build ./...
	GOOS=darwin $(GO) vet ./...
	GOOS=windows $(GO) build ./...
	GOOS=windows $(GO) vet ./...

# firsttime beside the same two statements by hand, through the same driver and pool, in the same run.
COUNT ?= 6
.PHONY: bench
bench: ## measure against the drivers' floor; COUNT=6 runs each
	$(GO) test -run='^$$' -bench='^Benchmark(ClaimConfirm|Duplicate|Idempotent|Memory|EndToEnd)' -benchmem -count=$(COUNT) -timeout=60m ./store ./consumer ./tests | tee bench.out
	$(TOOL) benchstat -col '/impl@(floor firsttime)' bench.out

# 5 million keys, 16 claimers beside 1, 2 and 4 purges, on each database: a quarter of an hour.
.PHONY: bench-purge
bench-purge: ## measure claims beside purges of a large table
	$(GO) test -run='^$$' -bench=Purge -benchtime=1x -timeout=60m ./tests

.PHONY: cover
cover: ## show the coverage of store, dialects and consumer, and fail where it is below 90 %
	$(GO) test -parallel=$(PARALLEL) -timeout=40m -coverprofile=cover.out -coverpkg=./store,./dialects/...,./consumer/... \
		./store ./dialects/... ./consumer/... ./tests ./tests/cli
	@awk '!/^mode:/ { size[$$1] = $$2; runs[$$1] += $$3 } \
		END { for (block in size) { split(block, path, "/"); all[path[4]] += size[block]; if (runs[block]) hit[path[4]] += size[block] } \
			for (part in all) { percent = 100 * hit[part] / all[part]; printf "%-10s %5.1f %%\n", part, percent; if (percent < 90) low = 1 } \
			exit low }' cover.out
	@echo 'what is not covered: go tool cover -html=cover.out'
