// Package evidence writes the results of long measurements to results/NAME.json, with the information needed to judge
// them: whether the run passed, the commit, the seed and the machine. A program calls Begin before it measures and
// Run.End whatever the outcome, so that no earlier success survives a failed run. Audit lists the results that are
// older than the code they measure.
package evidence

import (
	"os"
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
	Code
	Verdict
	Figures []Figure `json:"figures,omitempty"`
	Growth  *Growth  `json:"growth,omitempty"`
	Peers   []Peer   `json:"peers,omitempty"`
	// Note says what else is needed to judge the figures, such as the machine's other load.
	Note string `json:"note,omitempty"`
	// Upstream is the version of Kubernetes that Tests come from.
	Upstream string `json:"upstream,omitempty"`
	Tests    *Tests `json:"tests,omitempty"`
	// Mutants are changes made on purpose, by area of the code.
	Mutants []Mutants `json:"mutants,omitempty"`
	// Versions are the versions of other programs that took part, by name.
	Versions map[string]string `json:"versions,omitempty"`
}

// Code describes what was measured.
type Code struct {
	// Dirty reports whether tracked files differed from the commit at the start, apart from files that measurements
	// write (results/, README.md, docs/results.md, docs/proofs.md). It is nil if git could not tell.
	Dirty *bool `json:"dirty,omitempty"`
	// About are the paths in the repository; Begin takes them from Subjects.
	About []string `json:"about"`
}

// Verdict reports whether all requirements were met.
type Verdict struct {
	Passed   bool     `json:"passed"`
	Failures []string `json:"failures,omitempty"`
}

// Machine describes where it was measured.
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

// Peer is one figure of keelson beside upstream's, both from the same run. Less is better.
type Peer struct {
	// Name is the name by which programs find it.
	Name     string  `json:"name"`
	What     string  `json:"what"`
	Unit     string  `json:"unit"`
	Of       string  `json:"of,omitempty"` // "median"
	Runs     int     `json:"runs,omitempty"`
	Keelson  float64 `json:"keelson"`
	Upstream float64 `json:"upstream"`
	// Ratio is upstream's figure divided by keelson's; 0 if that is meaningless.
	Ratio float64 `json:"ratio,omitempty"`
	// LeftOut says why there are no figures.
	LeftOut string `json:"leftOut,omitempty"`
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

// Tests counts upstream's tests that ran against this code.
type Tests struct {
	Selected int       `json:"selected"`
	Passed   int       `json:"passed"`
	Failed   int       `json:"failed"`
	Failures []Failure `json:"failures,omitempty"`
	// LeftOut are tests of the same class that were not selected, each with the reason as its message.
	LeftOut []Failure `json:"leftOut,omitempty"`
}

// Mutants counts which deliberate changes to an area's code its tests noticed.
type Mutants struct {
	Area       string `json:"area"`
	Packages   int    `json:"packages"`
	Mutants    int    `json:"mutants"` // all usable ones, of which so many were
	Tried      int    `json:"tried"`
	Killed     int    `json:"killed"`     // noticed
	Survived   int    `json:"survived"`   // not noticed, although tests run the code
	NotReached int    `json:"notReached"` // no test runs the code
	Equivalent int    `json:"equivalent"` // not noticed, because they change nothing observable
	// Rate is Killed as a percentage of those tried that are not equivalent.
	Rate float64 `json:"rate"`
	// LeftOut are packages whose mutants were not tried, each with the reason as its message.
	LeftOut []Failure `json:"leftOut,omitempty"`
}

// Failure is a failed test and the first line of its message.
type Failure struct {
	Test    string `json:"test"`
	Message string `json:"message"`
}

// model is the processor's name, if the system reports it.
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
