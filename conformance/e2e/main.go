// E2e runs tests of Kubernetes' conformance suite, at the version that conformance/upstream pins, against
// examples/cluster, and writes the outcome to results/.
//
//	go run ./conformance/e2e                              # the tests of served.tsv that keelson has to pass
//	go run ./conformance/e2e -class pods                  # those of pods.tsv, on a node of real containers
//	go run ./conformance/e2e -focus 'sig-network.*Service' # those whose name matches
//	go run ./conformance/e2e -focus FILE                  # the expression is in the file
//	go run ./conformance/e2e -class pods -hosts -focus 'Networking Granular' # on two hosts
//	go run ./conformance/e2e -class pods -focus 'Netpol (\[LinuxOnly\] )?NetworkPolicy'
//	                                                      # those of network policies, which are not of the conformance suite
//
// Each conformance test is in one of two tables: in served.tsv those for which simulated nodes suffice, in pods.tsv those
// that need containers. A table says what each test is about, and what it needs that keelson does not have; a test about "two
// hosts" runs on a second cluster, each of whose two nodes is a host of its own. The program
// fails if a test that lacks nothing fails, or if a requested test does not run. It builds programs into bin/, which takes
// minutes the first time, and stand-ins for the suite's images; the suite's own output is in .cache/e2e/CLASS.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/keelson-dev/keelson/conformance/images"
	"github.com/keelson-dev/keelson/internal/clusterprocess"
	"github.com/keelson-dev/keelson/internal/evidence"
	"github.com/keelson-dev/keelson/internal/upstream"
	"github.com/keelson-dev/keelson/node/nodetools"
	"github.com/keelson-dev/keelson/node/ociimage"
)

func main() {
	name := flag.String("class", "served", "of tests: served, which need no containers, or pods")
	focus := flag.String("focus", "", "regular expression of names of tests, or a file with one (default: the tests of the class that lack nothing)")
	results := flag.String("results", "results", "directory to write the results to; those of -focus have names that end in -part")
	seed := flag.Uint64("seed", 1, "of the order of the tests")
	hosts := flag.Bool("hosts", false, "run all tests on two nodes that are hosts of their own, with -class pods and -focus")
	parallel := flag.Int("parallel", 0, "how many tests run at a time (default 6)")
	flag.Parse()
	// The first Ctrl-C lets the suite clean up, the second one stops everything at once.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	c, err := classOf(*name)
	if err == nil && *hosts && (!c.containers || *focus == "") {
		err = errors.New("-hosts needs -class pods and -focus")
	}
	if err == nil {
		c.hosts = *hosts
		if *parallel > 0 {
			c.parallel = *parallel
		}
		err = run(ctx, c, *focus, *results, *seed)
	}
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, c class, focus, results string, seed uint64) error {
	expression, err := expressionOf(focus)
	if err != nil {
		return err
	}
	dir, err := filepath.Abs(filepath.Join(".cache", "e2e", c.result))
	if err != nil {
		return err
	}
	s := suite{class: c, seed: seed, dir: dir, out: os.Stdout}
	if s.asked, s.batches, err = c.batches(expression); err != nil {
		return err
	}
	name := c.result
	if focus != "" {
		name += "-part"
	}
	began, err := evidence.Begin(results, name)
	if err != nil {
		return err
	}
	report, err := s.measure(ctx, focus == "")
	return began.End(evidence.Result{Seed: seed, Upstream: s.version, Tests: report}, err)
}

// measure builds what is needed, runs the tests and evaluates them. Without a run there is no report.
func (s *suite) measure(ctx context.Context, all bool) (*evidence.Tests, error) {
	if err := s.build(ctx); err != nil {
		return nil, err
	}
	tests, err := s.run(ctx)
	if err != nil && (ctx.Err() != nil || len(tests) == 0) {
		return nil, err
	}
	report, broken := judge(tests, s.class, s.asked, all)
	fmt.Fprintf(s.out, "\n%d selected, %d passed, %d failed; the suite's words are in %s\n", report.Selected, report.Passed, report.Failed, s.dir)
	return &report, errors.Join(err, broken)
}

// build builds the programs, and the tools for real containers. Upstream's are kept in the repository.
func (s *suite) build(ctx context.Context) error {
	fmt.Fprintln(s.out, "building upstream's suite and kubectl, which takes minutes the first time")
	kubernetes, err := upstream.Find(ctx)
	if err != nil {
		return err
	}
	s.version = kubernetes.Version
	if s.kubectl, err = kubernetes.Build(ctx, upstream.Kubectl); err != nil {
		return err
	}
	if s.path, err = kubernetes.Build(ctx, upstream.Suite); err != nil {
		return err
	}
	source, err := kubernetes.Dir(ctx)
	if err != nil {
		return err
	}
	if err := s.class.known(filepath.Join(source, "test", "conformance", "testdata", "conformance.yaml")); err != nil {
		return err
	}
	if s.class.containers {
		if err := s.prepare(ctx, kubernetes); err != nil {
			return err
		}
	}
	if err := os.MkdirAll(s.dir, 0o755); err != nil {
		return err
	}
	if s.cluster, err = clusterprocess.Build(ctx, filepath.Dir(s.dir)); err != nil {
		return err
	}
	// An earlier run that was killed may have left containers.
	if err := s.down(ctx); err != nil {
		return err
	}
	if err := os.RemoveAll(s.dir); err != nil {
		return err
	}
	return os.MkdirAll(s.dir, 0o755)
}

// prepare builds what a node of real containers needs: its tools and the stand-ins for the suite's images.
func (s *suite) prepare(ctx context.Context, kubernetes upstream.Kubernetes) error {
	if err := nodetools.Supported(ctx); err != nil {
		return err
	}
	if _, err := nodetools.Install(ctx, nodetools.Options{Progress: func(line string) { fmt.Fprintln(s.out, line) }}); err != nil {
		return err
	}
	s.images = images.Dir(kubernetes)
	archives, err := images.Build(ctx, kubernetes, s.images, s.out)
	if err != nil {
		return err
	}
	s.registry, err = ociimage.NewRegistry(archives...)
	return err
}
