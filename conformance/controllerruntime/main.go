// Controllerruntime runs test suites that start their control plane by controller-runtime's envtest, unmodified, by the programs
// of examples/assets, and writes the outcome to results/.
//
//	go run ./conformance/controllerruntime                      # controller-runtime's own suites
//	go run ./conformance/controllerruntime -class operators     # those of operators
//	go run ./conformance/controllerruntime -only 'pkg/client$'  # those whose module and package match
//
// The suites are those of modules in the module cache, which are copied, since tests write beside their sources, and are built
// with their own versions of all dependencies. The first run downloads and builds much. The program fails if a test fails that
// table.go does not leave out, and if a suite did not run. With -assets it uses other programs, such as upstream's, and writes
// no results. The output of suites is in .cache/controllerruntime.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"syscall"

	"github.com/keelson-dev/keelson/internal/evidence"
)

func main() {
	name := flag.String("class", "controllerruntime", "of suites: controllerruntime, or operators")
	only := flag.String("only", "", "regular expression of suites, as MODULE/PACKAGE (default: all of the class)")
	assets := flag.String("assets", "", "directory of the programs (default: those of examples/assets, which are built)")
	results := flag.String("results", "results", "directory to write the results to; those of -only have names that end in -part")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, options{class: *name, only: *only, assets: *assets, results: *results})
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

type options struct{ class, only, assets, results string }

// errNone means that no suite was selected.
var errNone = errors.New("no suite matches")

func run(ctx context.Context, o options) error {
	suites, err := selected(o.class, o.only)
	if err != nil {
		return err
	}
	name := o.class
	if o.only != "" {
		name += "-part"
	}
	if o.assets != "" {
		o.results = ""
	}
	began, err := evidence.Begin(o.results, name)
	if err != nil {
		return err
	}
	result, err := measure(ctx, suites, o.assets)
	return began.End(result, err)
}

// selected returns the suites of a class that match.
func selected(class, only string) ([]suite, error) {
	all, ok := classes()[class]
	if !ok {
		return nil, fmt.Errorf("-class %q: choose controllerruntime or operators", class)
	}
	expression, err := regexp.Compile(only)
	if err != nil {
		return nil, fmt.Errorf("-only: %w", err)
	}
	var found []suite
	for _, s := range all {
		if expression.MatchString(s.module + "/" + s.path) {
			found = append(found, s)
		}
	}
	if len(found) == 0 {
		return nil, fmt.Errorf("-only %q: %w", only, errNone)
	}
	return found, nil
}

// measure runs suites, one at a time.
func measure(ctx context.Context, suites []suite, assets string) (evidence.Result, error) {
	result := evidence.Result{Tests: &evidence.Tests{}, Versions: map[string]string{}}
	cache, err := filepath.Abs(filepath.Join(".cache", "controllerruntime"))
	if err != nil {
		return result, err
	}
	if assets == "" {
		assets = filepath.Join(cache, "assets")
		if out, err := exec.CommandContext(ctx, "go", "run", "./examples/assets", assets).CombinedOutput(); err != nil {
			return result, fmt.Errorf("examples/assets: %w\n%s", err, out)
		}
	}
	if assets, err = filepath.Abs(assets); err != nil {
		return result, err
	}
	var broken []error
	for _, s := range suites {
		w := workplace{cache: cache, assets: assets}
		counts, took, err := w.run(ctx, s)
		if ctx.Err() != nil {
			return result, ctx.Err()
		}
		if err != nil {
			broken = append(broken, fmt.Errorf("%s/%s: %w", s.module, s.path, err))
		}
		fmt.Printf("%-60s %4d passed %3d failed %3d skipped %3d left out %6.1f s\n", s.module+"/"+s.path,
			counts.passed, len(counts.failures), counts.skipped, len(counts.leftOut), took.Seconds())
		result.Versions[s.module] = s.version
		add(&result, s, counts, took)
	}
	return result, errors.Join(broken...)
}
