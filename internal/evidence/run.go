package evidence

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/keelson-dev/keelson/internal/atomicfile"
)

// ErrUnknown means that no result has the given name.
var ErrUnknown = errors.New("no such result")

// ErrOver means that a figure is over its limit.
var ErrOver = errors.New("over the limit")

// errTests means that tests failed.
var errTests = errors.New("tests failed")

// unended is the verdict in the file of a run that was killed.
const unended = "it began and did not end"

// Run is a measurement that has begun.
type Run struct {
	dir, name string
	tree      tree
}

// Begin records the commit and whether the tree is dirty, and writes a result to the directory that says that the run
// did not end; End replaces it. With an empty directory neither writes anything. The name is one of Subjects, possibly
// followed by "-part".
func Begin(dir, name string) (*Run, error) {
	if _, err := subject(name); err != nil {
		return nil, err
	}
	r := &Run{dir: dir, name: name, tree: look()}
	if dir == "" {
		return r, nil
	}
	return r, r.write(Result{Verdict: Verdict{Failures: []string{unended}}})
}

// End writes and prints the outcome of the run. It passed if err is nil, no figure is over its limit and no test
// failed. Everything that went wrong, including err, is written and returned.
func (r *Run) End(result Result, err error) error {
	err = errors.Join(err, Over(result.Figures), failed(result.Tests))
	result.Verdict = Verdict{Passed: err == nil, Failures: Reasons(err)}
	show(result)
	if r.dir == "" {
		return err
	}
	return errors.Join(err, r.write(result))
}

func (r *Run) write(result Result) error {
	result.Name, result.Commit, result.Dirty = r.name, r.tree.commit, r.tree.dirty
	return put(r.dir, result)
}

// put writes the file atomically.
func put(dir string, r Result) error {
	about, err := subject(r.Name)
	if err != nil {
		return err
	}
	r.About = about.Paths
	r.Date = time.Now().UTC().Truncate(time.Second)
	r.Machine = ThisMachine()
	return WriteFile(filepath.Join(dir, r.Name+".json"), r)
}

// WriteFile writes a value as JSON atomically.
func WriteFile(path string, value any) error {
	data, err := json.MarshalIndent(value, "", "  ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return atomicfile.Write(path, append(data, '\n'), 0o644)
}

// ThisMachine describes the machine that this program runs on.
func ThisMachine() Machine {
	return Machine{OS: runtime.GOOS, Arch: runtime.GOARCH, CPUs: runtime.NumCPU(), Model: model(), Go: runtime.Version()}
}

// Over returns an error for the figures over their limits, or nil.
func Over(figures []Figure) error {
	var all []error
	for _, f := range figures {
		if f.Limit > 0 && f.Value > f.Limit {
			all = append(all, fmt.Errorf("%s: %.4g %s is %w of %g", f.What, f.Value, f.Unit, ErrOver, f.Limit))
		}
	}
	return errors.Join(all...)
}

func failed(t *Tests) error {
	if t == nil || t.Failed == 0 {
		return nil
	}
	return fmt.Errorf("%d of %d %w", t.Failed, t.Selected, errTests)
}

// Reasons returns the texts of an error, one for each error joined in it.
func Reasons(err error) []string {
	if err == nil {
		return nil
	}
	if many, ok := err.(interface{ Unwrap() []error }); ok {
		var all, words []string
		for _, e := range many.Unwrap() {
			all = append(all, Reasons(e)...)
			words = append(words, e.Error())
		}
		if err.Error() == strings.Join(words, "\n") { // it has no text of its own
			return all
		}
	}
	const enough = 1000
	text := err.Error()
	if len(text) > enough {
		text = strings.ToValidUTF8(text[:enough], "") + "…"
	}
	return []string{text}
}

// Count adds up the weights of the errors that an error joins or wraps. Errors with a weight are not unwrapped further.
func Count(err error, weigh func(error) int) int {
	if err == nil {
		return 0
	}
	if n := weigh(err); n > 0 {
		return n
	}
	switch wrapping := err.(type) { //nolint:errorlint // this unwraps
	case interface{ Unwrap() error }:
		return Count(wrapping.Unwrap(), weigh)
	case interface{ Unwrap() []error }:
		n := 0
		for _, e := range wrapping.Unwrap() {
			n += Count(e, weigh)
		}
		return n
	}
	return 0
}

// show prints the figures and the reasons.
func show(r Result) {
	for _, f := range r.Figures {
		limit := ""
		if f.Limit > 0 {
			limit = fmt.Sprintf("   (at most %g)", f.Limit)
		}
		fmt.Printf("%-60s %10.2f %s%s\n", f.What, f.Value, f.Unit, limit)
	}
	if r.Growth != nil {
		for _, row := range r.Growth.Rows {
			fmt.Printf("%-60s %10.4g %s\n", row.What, row.Values, row.Unit)
		}
	}
	for _, p := range r.Peers {
		fmt.Printf("%-75s %10.4g %10.4g %-5s %s\n", p.What, p.Keelson, p.Upstream, p.Unit, p.LeftOut)
	}
	for _, reason := range r.Failures {
		fmt.Println("FAILED:", reason)
	}
}
