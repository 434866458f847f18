// Check prints how old the results in results/ are: for each its commit, its date, and how many commits and files have
// changed its code since. It warns about old ones. It fails if a result is missing, did not pass, or is of a tree with
// uncommitted changes.
package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"text/tabwriter"
	"time"

	"github.com/keelson-dev/keelson/internal/evidence"
)

func main() {
	if err := run(".", os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(root string, out io.Writer) error {
	ages, err := evidence.Audit(root)
	if err != nil {
		return err
	}
	var faults []error
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "RESULT\tCOMMIT\tDATE\tCOMMITS SINCE\tFILES SINCE\t")
	for _, a := range ages {
		date, commits, files := "-", "?", "?"
		if !a.Date.IsZero() {
			date = a.Date.Format(time.DateOnly)
		}
		if a.Known {
			commits, files = fmt.Sprint(a.Commits), fmt.Sprint(a.Files)
		}
		word := a.Warning
		if word != "" {
			word = "warning: " + word
		}
		if a.Fault != "" {
			word = "FAULT: " + a.Fault
			faults = append(faults, fmt.Errorf("results/%s.json: %s", a.Name, a.Fault))
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\n", a.Name, a.Commit, date, commits, files, word)
	}
	return errors.Join(append(faults, w.Flush())...)
}
