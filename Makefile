# The targets are listed by `make`. Everything runs on Linux and macOS with Go and git.
GO ?= go
BIN := $(CURDIR)/bin
# All but programs that measure, and tests that do nothing but start programs: the race detector does not see into those.
RACE_PACKAGES = $(shell $(GO) list ./... | grep -vE '/(bench|conformance)/|/examples/(cluster|demo|run)$$|/internal/(depcheck|modules|nodetools)')

# What a measurement found is shown in the README, also when it failed.
SHOW := || failed=1; $(GO) run ./internal/evidence/show && test -z "$$failed"

# Tests run real containers where they can: as root on Linux.
NODE_TOOLS := $(if $(and $(filter Linux,$(shell uname -s)),$(filter 0,$(shell id -u))),node-tools)

.PHONY: help
help: ## List the targets.
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  %-13s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: up
UPFLAGS ?=
up: ## Start a cluster on https://127.0.0.1:6443, kept in ~/.keelson; as root on Linux with real containers. Ctrl-C ends it.
	$(GO) build -o $(BIN)/cluster ./examples/cluster
	$(BIN)/cluster --runtime containerd --install $(UPFLAGS)

.PHONY: down
down: ## End it, and remove its containers, networks, mounts and cgroups; the API's state stays.
	$(GO) build -o $(BIN)/cluster ./examples/cluster
	$(BIN)/cluster --down

.PHONY: node-tools
node-tools: ## Build and install what real containers take: containerd, runc, CNI plugins, Debian packages (as root, on Linux).
	$(GO) run ./node/nodetools/install

.PHONY: demo
demo: ## Play the story with the real kubectl: a deployment of nginx, its pages, exec, logs, scale, delete.
	$(GO) run ./internal/demo

.PHONY: test
test: vet lint etcd $(NODE_TOOLS) unit race ## Everything that must hold: vet, linter, tests, race detector.

.PHONY: vet
vet: ## Compile everything and run go vet.
	$(GO) build ./...
	$(GO) vet ./...

$(BIN)/golangci-lint: tools/go.mod tools/go.sum
	cd tools && $(GO) build -o $@ github.com/golangci/golangci-lint/v2/cmd/golangci-lint

.PHONY: lint
lint: $(BIN)/golangci-lint ## Run the linters of .golangci.yml; the first run builds them.
	$(BIN)/golangci-lint run --allow-parallel-runners ./...

# Go's cache of test results does not notice changes in other modules: where they count, tests run anew.
.PHONY: unit
unit: ## Run all tests.
	$(GO) test ./...
	cd tools/mutants && $(GO) test -count=1 ./...

.PHONY: race
race: ## Run the tests under the race detector, the long ones shortened.
	$(GO) run ./internal/racetests $(RACE_PACKAGES)

.PHONY: etcd
etcd: $(BIN)/etcd ## Build etcd, which tests of storage/etcd start.

$(BIN)/etcd: tools/etcd/main.go tools/etcd/go.mod tools/etcd/go.sum
	cd tools/etcd && $(GO) build -trimpath -o $@ .

.PHONY: generate
generate: ## Write generated files anew: the OpenAPI definitions, from the versions of tools/openapi/go.mod.
	$(GO) generate ./...

.PHONY: modules
modules: ## Vet and compile every module below the root, tests included, and run none.
	$(GO) run ./internal/modules -compile

# Go's fuzzer now and then fails with "context deadline exceeded" when its time is over in the midst of something, and nothing
# is wrong. So a failure is tried again: an input that fails is kept in testdata/fuzz and fails at once. Making inputs smaller
# is bounded, since it may take all of the time otherwise.
.PHONY: fuzz
FUZZTIME ?= 20s
fuzz: ## Run every fuzz target for FUZZTIME, from the inputs that are kept in testdata/fuzz on.
	@failed=; for pkg in $$(grep -l '^func Fuzz' $$($(GO) list -f '{{range .TestGoFiles}}{{$$.Dir}}/{{.}} {{end}}{{range .XTestGoFiles}}{{$$.Dir}}/{{.}} {{end}}' ./...) | \
	    xargs -n 1 dirname | sort -u); do \
	  for target in $$($(GO) test -list '^Fuzz' $$pkg | grep '^Fuzz'); do \
	    echo "$$pkg $$target"; run="$(GO) test -run ^$$ -fuzz ^$$target\$$ -fuzztime $(FUZZTIME) -fuzzminimizetime 20x $$pkg"; \
	    $$run || $$run || failed="$$failed $$pkg:$$target"; \
	  done; \
	done; if [ -n "$$failed" ]; then echo "failed:$$failed"; exit 1; fi

.PHONY: differential
differential: ## Compare with upstream's own code (modules under conformance/; builds parts of Kubernetes).
	@for mod in conformance/*/go.mod; do \
	  echo "$$(dirname $$mod)"; (cd $$(dirname $$mod) && $(GO) test -count=1 ./...) || exit 1; \
	done

.PHONY: components
components: ## Run upstream's scheduler and controller manager, and a controller-runtime program, on examples/cluster.
	cd conformance/components && $(GO) test -count=1 ./...

.PHONY: swaps
swaps: etcd $(NODE_TOOLS) ## A deployment's whole life with each part of a cluster swapped for upstream's, and the other way round, as root; writes results/.
	(cd conformance/components && $(GO) test -count=1 -timeout=0 -v -run '^TestSwaps$$' . -results $(CURDIR)/results) $(SHOW)

.PHONY: controllerruntime
controllerruntime: ## Run the suites of controller-runtime by the programs of examples/assets; builds them; writes results/.
	$(GO) run ./conformance/controllerruntime

.PHONY: operators
operators: ## Run suites of operators in the same way.
	$(GO) run ./conformance/controllerruntime -class operators

.PHONY: conformance
FOCUS ?=
conformance: ## Run upstream's conformance tests that need no containers, or those that FOCUS matches; writes results/.
	$(GO) run ./conformance/e2e -focus '$(FOCUS)' $(SHOW)

.PHONY: conformance-pods
conformance-pods: ## Run those that do, on a node of real containers, as root; writes results/. HOSTS=1 with FOCUS: on two hosts.
	$(GO) run ./conformance/e2e -class pods $(if $(HOSTS),-hosts) -focus '$(FOCUS)' $(SHOW)

.PHONY: bench
bench: ## Measure start-up and throughput; writes results/ and the README's figures.
	$(GO) build -o $(BIN)/bench-cluster ./bench/cluster
	$(BIN)/bench-cluster || failed=1; \
	$(GO) run ./bench/serve || failed=1; \
	$(if $(NODE_TOOLS),$(GO) run ./bench/node,true) $(SHOW)

.PHONY: bench-peers
bench-peers: ## Measure keelson and upstream's control plane side by side; builds upstream's; writes results/ and the README's figures.
	$(GO) run ./bench/peers $(SHOW)

.PHONY: bench-services
bench-services: ## Measure the proxy of services and the DNS beside kube-proxy and CoreDNS, as root; builds both; writes results/.
	$(GO) build -o $(BIN)/bench-services ./bench/services
	$(BIN)/bench-services $(SHOW)

.PHONY: kills
KILLS ?= 200
kills: ## Kill the cluster KILLS times under load and check that nothing is lost; writes results/.
	$(GO) run ./bench/kills -kills $(KILLS) $(SHOW)

.PHONY: scale
scale: ## Measure how cost grows from 1,000 to 100,000 pods, and what watches cost; writes results/ and the README's figures.
	$(GO) build -o $(BIN)/bench-scale ./bench/scale
	$(BIN)/bench-scale $(SHOW)

.PHONY: soak
MINUTES ?= 10
SEED ?= 0
soak: $(BIN)/etcd ## Concurrent clients for MINUTES while power, etcd and its network fail: nothing lost, all in order; writes results/.
	$(GO) test ./bench/soak -run '^TestSoak$$' -count=1 -timeout 0 -v -minutes $(MINUTES) -seed $(SEED) -results $(CURDIR)/results $(SHOW)

.PHONY: packets
SETS ?= 1000
packets: ## Compare by packets, for SETS random sets of services in the kernel, who answers whom with what the model says, as root; writes results/.
	$(GO) test ./proxy/nftables -run '^TestRandomPackets$$' -count=1 -timeout 0 -parallel 9 -v -sets $(SETS) -kills 200 -results $(CURDIR)/results $(SHOW)

.PHONY: proofs
PROOFS ?=
proofs: etcd $(NODE_TOOLS) ## Run what takes long, within three hours, and write one page of it: docs/proofs.md. PROOFS="-resume" goes on, "-only REGEXP" tries some.
	$(GO) run ./internal/evidence/proofs $(PROOFS) $(SHOW)

.PHONY: mutants
PACKAGES ?=
BASE ?=
SAMPLE ?= $(if $(filter all,$(PACKAGES)),25,0)
mutants: $(BIN)/etcd ## Break packages on purpose and see their tests notice: those changed since BASE, PACKAGES, or all of the areas that have to be tested well.
	cd tools/mutants && $(GO) build -o $(BIN)/mutants .
	$(BIN)/mutants -changed '$(BASE)' -packages '$(PACKAGES)' -sample $(SAMPLE) -seed $(if $(filter-out 0,$(SEED)),$(SEED),1) $(if $(filter all,$(PACKAGES)),-results results)

.PHONY: clean
clean: ## Remove what was built.
	rm -rf $(BIN)
