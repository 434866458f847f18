// Readme writes what results/*.json say into README.md, between the lines that mark their places, so that what the
// README says is what was measured. With -check it only compares.
//
//	<!-- results/NAME.json -->        a table of the result
//	<!-- results/NAME.json text -->   its words for people, for which see sentences
package main

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"

	"github.com/keelson-dev/keelson/internal/evidence"
)

func main() {
	check := flag.Bool("check", false, "fail when the README differs from the results, and write nothing")
	flag.Parse()
	if err := run(".", *check); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

var marks = regexp.MustCompile(`(?s)(<!-- results/([a-z-]+)\.json( text)? -->\n).*?(<!-- end -->)`)

// errDiffers: somebody edited the README, or measured and did not write it.
var errDiffers = errors.New("README.md does not show what results/ says: run go run ./internal/evidence/readme")

// errNoPlace: a result that has to be in the README has no place there.
var errNoPlace = errors.New("README.md has no place for it")

func run(root string, check bool) error {
	path := filepath.Join(root, "README.md")
	before, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	after, err := fill(before, filepath.Join(root, "results"))
	switch {
	case err != nil:
		return err
	case bytes.Equal(before, after):
		return nil
	case check:
		return errDiffers
	}
	return os.WriteFile(path, after, 0o644)
}

// fill puts into each place what its result says.
func fill(readme []byte, results string) ([]byte, error) {
	var failures []error
	placed := map[string]bool{}
	after := marks.ReplaceAllFunc(readme, func(place []byte) []byte {
		parts := marks.FindSubmatch(place)
		name := string(parts[2])
		r, err := evidence.Read(results, name)
		if err != nil {
			failures = append(failures, err)
			return place
		}
		words := table
		if len(parts[3]) > 0 {
			words = text
		} else {
			placed[name] = true
		}
		return bytes.Join([][]byte{parts[1], []byte(words(r)), parts[4]}, nil)
	})
	for _, s := range evidence.Subjects() {
		if !placed[s.Name] && !s.Optional {
			failures = append(failures, fmt.Errorf("results/%s.json: %w", s.Name, errNoPlace))
		}
	}
	return after, errors.Join(failures...)
}
