// Package evidence writes the results of long measurements to results/NAME.json, with what is
// needed to judge them: the commit, the seed and the machine.
package evidence

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"
	"time"
)

// Result is one file in results/.
type Result struct {
	Name    string    `json:"name"`
	Commit  string    `json:"commit"`
	Date    time.Time `json:"date"`
	Seed    uint64    `json:"seed,omitempty"`
	Machine Machine   `json:"machine"`
	Figures []Figure  `json:"figures,omitempty"`
	Growth  *Growth   `json:"growth,omitempty"`
	// Note says what else is needed to judge the figures, such as what the machine did beside.
	Note string `json:"note,omitempty"`
	// Upstream is the version of Kubernetes that Tests are of.
	Upstream string `json:"upstream,omitempty"`
	Tests    *Tests `json:"tests,omitempty"`
	// Mutants are changes made on purpose, by area of the code.
	Mutants []Mutants `json:"mutants,omitempty"`
}

// Machine is where it was measured.
type Machine struct {
	OS    string `json:"os"`
	Arch  string `json:"arch"`
	CPUs  int    `json:"cpus"`
	Model string `json:"model,omitempty"`
	Go    string `json:"go"`
}

// Figure is one number: the median or the mean of its runs, as Of says. Limit, if set, is what it
// must not exceed.
type Figure struct {
	What  string  `json:"what"`
	Of    string  `json:"of,omitempty"`
	Value float64 `json:"value"`
	Unit  string  `json:"unit"`
	Limit float64 `json:"limit,omitempty"`
	Runs  int     `json:"runs,omitempty"`
}

// Growth is how figures grow with the number of something: a table with a column for each number.
type Growth struct {
	Of      string    `json:"of"` // "pods"
	Numbers []int     `json:"numbers"`
	Rows    []Growing `json:"rows"`
}

// Growing is one figure at each number.
type Growing struct {
	What   string    `json:"what"`
	Unit   string    `json:"unit"`
	Values []float64 `json:"values"`
}

// Tests counts tests of others that ran against this code.
type Tests struct {
	Selected int       `json:"selected"`
	Passed   int       `json:"passed"`
	Failed   int       `json:"failed"`
	Failures []Failure `json:"failures,omitempty"`
	// LeftOut are those of the same class that were not selected, each with the reason as its message.
	LeftOut []Failure `json:"leftOut,omitempty"`
}

// Mutants counts what the tests of an area noticed of changes made to its code on purpose.
type Mutants struct {
	Area       string `json:"area"`
	Packages   int    `json:"packages"`
	Mutants    int    `json:"mutants"` // all that were found sensible, of which so many were
	Tried      int    `json:"tried"`
	Killed     int    `json:"killed"`     // noticed
	Survived   int    `json:"survived"`   // not noticed, although tests run the code
	NotReached int    `json:"notReached"` // no test runs the code
	Equivalent int    `json:"equivalent"` // not noticed, because they change nothing that can be seen
	// Rate is Killed in percent of those tried that are not equivalent.
	Rate float64 `json:"rate"`
	// LeftOut are packages whose mutants were not tried, each with the reason as its message.
	LeftOut []Failure `json:"leftOut,omitempty"`
}

// Failure is a test that failed, and the first line of what it said.
type Failure struct {
	Test    string `json:"test"`
	Message string `json:"message"`
}

// Write puts the result into the directory and prints it. Commit, unless it is set, date and machine are filled in.
func Write(dir string, r Result) error {
	if r.Commit == "" {
		r.Commit = Commit()
	}
	r.Date = time.Now().UTC().Truncate(time.Second)
	r.Machine = Machine{OS: runtime.GOOS, Arch: runtime.GOARCH, CPUs: runtime.NumCPU(), Model: model(), Go: runtime.Version()}
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
	data, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, r.Name+".json"), append(data, '\n'), 0o644)
}

// Commit is the commit that is checked out. Who builds first and measures for long asks before.
func Commit() string {
	if out, err := exec.Command("git", "rev-parse", "--short=12", "HEAD").Output(); err == nil {
		return strings.TrimSpace(string(out))
	}
	if info, ok := debug.ReadBuildInfo(); ok {
		return info.Main.Version
	}
	return "unknown"
}

// model is the processor's name, where the system tells.
func model() string {
	data, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return ""
	}
	for _, line := range strings.Split(string(data), "\n") {
		if name, ok := strings.CutPrefix(line, "model name"); ok {
			return strings.TrimSpace(strings.TrimPrefix(strings.TrimSpace(name), ":"))
		}
	}
	return ""
}
