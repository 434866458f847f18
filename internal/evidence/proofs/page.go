package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/keelson-dev/keelson/internal/evidence"
)

// report is results/proofs.json.
type report struct {
	Name    string           `json:"name"`
	Commit  string           `json:"commit"`
	Date    time.Time        `json:"date"`
	Machine evidence.Machine `json:"machine"`
	evidence.Code
	evidence.Verdict
	Steps []done `json:"steps"`

	page, results string
}

// done is the outcome of a step.
type done struct {
	Name    string  `json:"name"`
	Command string  `json:"command"`
	Outcome outcome `json:"outcome"`
	// Commit is the commit it ran on. Nothing that the step is about has changed between it and the report's commit.
	Commit  string   `json:"commit,omitempty"`
	Seconds float64  `json:"seconds,omitempty"`
	Reason  string   `json:"reason,omitempty"`
	Figures []string `json:"figures,omitempty"`
	Log     string   `json:"log"`
}

// newReport returns a report in which no step has run.
func (p *proofs) newReport(steps []step) (*report, error) {
	w := &report{
		Name: "proofs", Commit: p.commit, Code: evidence.Code{Dirty: p.dirty, About: []string{"."}}, Machine: evidence.ThisMachine(),
		page: p.page, results: p.results,
	}
	before, err := p.before(steps)
	if err != nil {
		return nil, err
	}
	for _, s := range steps {
		d := done{Name: s.name, Command: s.words(), Outcome: didNotRun, Reason: "it was not its turn yet", Log: p.log(s)}
		if b, ok := before[s.name]; ok {
			d = b
		} else if s.leftOut != "" {
			d.Outcome, d.Reason = leftOut, s.leftOut
		}
		w.Steps = append(w.Steps, d)
	}
	return w, os.MkdirAll(filepath.Dir(p.page), 0o755)
}

// before returns what is still valid from earlier runs, by step name: from runs of all steps, and from runs of some,
// whose reports are with the logs.
func (p *proofs) before(steps []step) (map[string]done, error) {
	all := map[string]done{}
	if !p.resume || !clean(p.dirty) {
		return all, nil
	}
	for _, dir := range p.former {
		passed, err := passedBefore(filepath.Join(dir, "proofs.json"))
		if err != nil {
			return nil, fmt.Errorf("resume: %w", err)
		}
		for _, s := range steps {
			d, ok := passed[s.name]
			if !ok || d.Command != s.words() {
				continue
			}
			if d.Commit != p.commit {
				changed, err := p.changed(d.Commit, s)
				if err != nil || len(changed) > 0 {
					fmt.Fprintf(p.out, "%s passed at %s and runs again: %s\n", s.name, d.Commit, because(changed, err))
					continue
				}
			}
			all[s.name] = d
		}
	}
	return all, nil
}

// because says why an earlier success is no longer valid.
func because(changed []string, err error) string {
	switch {
	case err != nil:
		return err.Error()
	case len(changed) > 1:
		return fmt.Sprintf("%s and %d more files changed", changed[0], len(changed)-1)
	}
	return changed[0] + " changed"
}

func clean(dirty *bool) bool { return dirty != nil && !*dirty }

// passedBefore returns the steps that passed in an earlier run on a clean tree, each with its commit.
func passedBefore(file string) (map[string]done, error) {
	data, err := os.ReadFile(file)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	var w report
	if err == nil {
		err = json.Unmarshal(data, &w)
	}
	if err != nil || !clean(w.Dirty) {
		return nil, err
	}
	all := map[string]done{}
	for _, d := range w.Steps {
		if d.Outcome == passed {
			if d.Commit == "" {
				d.Commit = w.Commit
			}
			all[d.Name] = d
		}
	}
	return all, nil
}

// taken is the total time of the steps that ran.
func (w *report) taken() time.Duration {
	var all float64
	for _, s := range w.Steps {
		all += s.Seconds
	}
	return seconds(all)
}

// failures returns the steps that failed or did not run.
func (w *report) failures() []string {
	var all []string
	for _, s := range w.Steps {
		if s.Outcome != passed && s.Outcome != leftOut {
			all = append(all, fmt.Sprintf("%s: %s: %s", s.Name, s.Outcome, s.Reason))
		}
	}
	return all
}

// write writes the page and the file.
func (w *report) write() error {
	w.Date = time.Now().UTC().Truncate(time.Second)
	w.Verdict = evidence.Verdict{Failures: w.failures()}
	w.Passed = len(w.Failures) == 0
	if err := evidence.WriteFile(filepath.Join(w.results, w.Name+".json"), w); err != nil {
		return err
	}
	return os.WriteFile(w.page, []byte(w.markdown()), 0o644)
}

func (w *report) markdown() string {
	var b strings.Builder
	b.WriteString("# Proofs\n\nWritten by `make proofs`: what takes too long for every change.\n\n")
	dirty := ""
	if w.Dirty != nil && *w.Dirty {
		dirty = " with changes that are in no commit"
	}
	fmt.Fprintf(&b, "At commit %s%s, %s, on %d CPUs (%s, %s/%s, %s).\n\n", w.Commit, dirty, w.Date.Format(time.DateOnly), w.Machine.CPUs, w.Machine.Model,
		w.Machine.OS, w.Machine.Arch, w.Machine.Go)
	b.WriteString("A step that ran at another commit says so: nothing that it is about has changed since.\n\n")
	many := map[outcome]int{}
	for _, s := range w.Steps {
		many[s.Outcome]++
	}
	fmt.Fprintf(&b, "%d steps", len(w.Steps))
	for _, o := range []outcome{passed, failed, timedOut, interrupted, didNotRun, leftOut} {
		if many[o] > 0 {
			fmt.Fprintf(&b, ", %d %s", many[o], o)
		}
	}
	fmt.Fprintf(&b, ", in %v.\n\n| step | outcome | took | figures |\n|---|---|---|---|\n", w.taken())
	for _, s := range w.Steps {
		word := string(s.Outcome)
		if s.Outcome != passed {
			word = "**" + word + "**: " + s.Reason
		}
		took := ""
		if s.Seconds > 0 {
			took = seconds(s.Seconds).String()
		}
		if s.Outcome == passed && s.Commit != w.Commit {
			took += ", at " + s.Commit
		}
		fmt.Fprintf(&b, "| %s<br>`%s` | %s | %s | %s |\n", s.Name, cell(s.Command), cell(word), took, cell(strings.Join(s.Figures, "; ")))
	}
	return b.String()
}

func seconds(n float64) time.Duration {
	return time.Duration(math.Round(n)) * time.Second
}

// cell escapes a text for use in a table.
func cell(s string) string {
	return strings.ReplaceAll(strings.ReplaceAll(s, "|", `\|`), "\n", " ")
}

// figures returns a step's figures: those of its result, or the number of packages tested according to its log.
func (p *proofs) figures(s step, o outcome) []string {
	if o == didNotRun {
		return nil
	}
	if s.result != "" {
		r, err := evidence.Read(filepath.Join(p.root, "results"), s.result)
		if err != nil {
			return []string{err.Error()}
		}
		return ofResult(r)
	}
	data, err := os.ReadFile(p.log(s))
	if err != nil {
		return []string{err.Error()}
	}
	return ofLog(string(data))
}

func ofResult(r evidence.Result) []string {
	var all []string
	if t := r.Tests; t != nil {
		all = append(all, fmt.Sprintf("Kubernetes %s: %d selected, %d passed, %d failed, %d left out", r.Upstream, t.Selected, t.Passed, t.Failed, len(t.LeftOut)))
	}
	const most = 6
	for _, f := range r.Figures[:min(most, len(r.Figures))] {
		all = append(all, strings.TrimSpace(fmt.Sprintf("%s: %.6g %s", f.What, f.Value, f.Unit)))
	}
	return all
}

var (
	packageOK     = regexp.MustCompile(`(?m)^ok  \t`)
	packageFailed = regexp.MustCompile(`(?m)^FAIL\t`)
	target        = regexp.MustCompile(`(?m)^\S+ Fuzz\w+$`)
)

// ofLog counts go test's output.
func ofLog(log string) []string {
	var all []string
	what := "packages"
	if targets := len(target.FindAllString(log, -1)); targets > 0 {
		what = "runs" // of a target, which is run again if it fails
		all = append(all, fmt.Sprintf("%d fuzz targets", targets))
	}
	if n := len(packageOK.FindAllString(log, -1)); n > 0 {
		all = append(all, fmt.Sprintf("%d %s passed", n, what))
	}
	if n := len(packageFailed.FindAllString(log, -1)); n > 0 {
		all = append(all, fmt.Sprintf("%d %s failed", n, what))
	}
	return all
}
