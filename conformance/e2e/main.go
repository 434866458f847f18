// E2e runs tests of Kubernetes' conformance suite, at the version that conformance/upstream pins, against
// examples/cluster, and writes what came of it to results/.
//
//	go run ./conformance/e2e                              # the tests of served.tsv that keelson has to pass
//	go run ./conformance/e2e -focus 'sig-network.*Service' # those whose name matches
//	go run ./conformance/e2e -focus FILE                  # the expression is in the file
//
// served.tsv lists the tests that need nothing but an API server, what each is about, and what those need that
// keelson does not have. The program fails when a test that lacks nothing fails. Programs are built into bin/,
// which takes minutes the first time; the suite's own words are in .cache/e2e/.
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

	"github.com/keelson-dev/keelson/internal/clusterprocess"
	"github.com/keelson-dev/keelson/internal/evidence"
	"github.com/keelson-dev/keelson/internal/upstream"
)

func main() {
	focus := flag.String("focus", "", "regular expression of names of tests, or a file with one (default: the tests of served.tsv that lack nothing)")
	results := flag.String("results", "results", "directory to write conformance.json to, or with -focus conformance-part.json")
	seed := flag.Uint64("seed", 1, "of the order of the tests")
	flag.Parse()
	// The first Ctrl-C lets the suite clean up, a second one ends everything at once.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	err := run(ctx, *focus, *results, *seed)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, focus, results string, seed uint64) error {
	rows, err := served()
	if err != nil {
		return err
	}
	name, expression := "conformance", expect(rows)
	if focus != "" {
		name = "conformance-part"
		if expression, err = expressionOf(focus); err != nil {
			return err
		}
	}
	dir, err := filepath.Abs(filepath.Join(".cache", "e2e"))
	if err != nil {
		return err
	}
	s := suite{focus: expression, seed: seed, dir: dir, out: os.Stdout}
	commit := evidence.Commit()
	if err := s.build(ctx); err != nil {
		return err
	}
	tests, err := s.run(ctx)
	if err != nil {
		return err
	}
	report, broken := judge(tests, rows, focus == "")
	fmt.Printf("\n%d selected, %d passed, %d failed; the suite's words are in %s\n", report.Selected, report.Passed, report.Failed, s.log())
	err = evidence.Write(results, evidence.Result{Name: name, Commit: commit, Seed: seed, Upstream: s.version, Tests: &report})
	return errors.Join(err, broken)
}

// build makes the programs. Those of upstream are kept in the repository.
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
	if err := os.RemoveAll(s.dir); err != nil {
		return err
	}
	if err := os.MkdirAll(s.dir, 0o755); err != nil {
		return err
	}
	s.cluster, err = clusterprocess.Build(ctx, s.dir)
	return err
}
