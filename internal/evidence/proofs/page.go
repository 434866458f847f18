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

// done is what came of a step.
type done struct {
	Name    string   `json:"name"`
	Command string   `json:"command"`
	Outcome outcome  `json:"outcome"`
	Seconds float64  `json:"seconds,omitempty"`
	Reason  string   `json:"reason,omitempty"`
	Figures []string `json:"figures,omitempty"`
	Log     string   `json:"log"`
}

// newReport is one of steps of which none has run.
func (p *proofs) newReport(steps []step) (*report, error) {
	w := &report{
		Name: "proofs", Commit: p.commit, Code: evidence.Code{Dirty: p.dirty, About: []string{"."}}, Machine: evidence.ThisMachine(),
		page: p.page, results: p.results,
	}
	before, err := p.before()
	if err != nil {
		return nil, err
	}
	for _, s := range steps {
		d := done{Name: s.name, Command: s.words(), Outcome: didNotRun, Reason: "it was not its turn yet", Log: p.log(s)}
		if s.leftOut != "" {
			d.Outcome, d.Reason = leftOut, s.leftOut
		} else if b, ok := before[s.name]; ok && b.Command == d.Command {
			d = b
		}
		w.Steps = append(w.Steps, d)
	}
	return w, os.MkdirAll(filepath.Dir(p.page), 0o755)
}

// before is what passed on the same commit, unless everything is to run.
func (p *proofs) before() (map[string]done, error) {
	if !p.resume {
		return nil, nil
	}
	data, err := os.ReadFile(filepath.Join(p.results, "proofs.json"))
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	var w report
	if err == nil {
		err = json.Unmarshal(data, &w)
	}
	if err != nil {
		return nil, fmt.Errorf("resume: %w", err)
	}
	clean := func(dirty *bool) bool { return dirty != nil && !*dirty }
	if w.Commit != p.commit || !clean(w.Dirty) || !clean(p.dirty) {
		return nil, nil
	}
	all := map[string]done{}
	for _, d := range w.Steps {
		if d.Outcome == passed {
			all[d.Name] = d
		}
	}
	return all, nil
}

// taken is how long the steps that have run took.
func (w *report) taken() time.Duration {
	var all float64
	for _, s := range w.Steps {
		all += s.Seconds
	}
	return seconds(all)
}

// failures are the steps that keep everything from being proven.
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
		fmt.Fprintf(&b, "| %s<br>`%s` | %s | %s | %s |\n", s.Name, cell(s.Command), cell(word), took, cell(strings.Join(s.Figures, "; ")))
	}
	return b.String()
}

func seconds(n float64) time.Duration {
	return time.Duration(math.Round(n)) * time.Second
}

// cell keeps a text from ending its place in a table.
func cell(s string) string {
	return strings.ReplaceAll(strings.ReplaceAll(s, "|", `\|`), "\n", " ")
}

// figures are what a step has to show: those of its result, or how many packages its log says were tested.
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

// ofLog counts what go test says.
func ofLog(log string) []string {
	var all []string
	if targets := len(target.FindAllString(log, -1)); targets > 0 {
		all = append(all, fmt.Sprintf("%d fuzz targets", targets))
	}
	if n := len(packageOK.FindAllString(log, -1)); n > 0 {
		all = append(all, fmt.Sprintf("%d packages passed", n))
	}
	if n := len(packageFailed.FindAllString(log, -1)); n > 0 {
		all = append(all, fmt.Sprintf("%d packages failed", n))
	}
	return all
}
