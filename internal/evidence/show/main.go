// Show renders results/*.json into README.md and docs/results.md, between the lines that mark their places, so that the
// pages show what was measured. With -check it only compares.
//
//	<!-- results/NAME.json -->        a table of the result
//	<!-- results/NAME.json text -->   the result in a sentence
//	<!-- results in short -->         the figures that matter most, of several results
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
	check := flag.Bool("check", false, "fail when a page differs from the results, and write nothing")
	flag.Parse()
	if err := run(".", *check); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

var (
	marks = regexp.MustCompile(`(?s)(<!-- results/([a-z-]+)\.json( text)? -->\n).*?(<!-- end -->)`)
	short = regexp.MustCompile(`(?s)(<!-- results in short -->\n).*?(<!-- end -->)`)
)

// pages returns the files with places for results.
func pages() []string { return []string{"README.md", filepath.Join("docs", "results.md")} }

// errDiffers means that a page was edited, or not updated after a measurement.
var errDiffers = errors.New("it does not show what results/ says: run go run ./internal/evidence/show")

// errNoPlace means that a result that must be shown has no place on any page.
var errNoPlace = errors.New("no page has a place for it")

func run(root string, check bool) error {
	w := &writer{results: filepath.Join(root, "results"), placed: map[string]bool{}}
	for _, page := range pages() {
		path := filepath.Join(root, page)
		before, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		known := len(w.failures)
		after := w.fill(before)
		switch {
		case len(w.failures) > known || bytes.Equal(before, after):
		case check:
			w.failures = append(w.failures, fmt.Errorf("%s: %w", page, errDiffers))
		default:
			if err := os.WriteFile(path, after, 0o644); err != nil {
				return err
			}
		}
	}
	return errors.Join(append(w.failures, w.missing()...)...)
}

// writer fills pages.
type writer struct {
	results  string
	placed   map[string]bool // results whose tables have been written
	failures []error
}

// fill fills each place with its result.
func (w *writer) fill(page []byte) []byte {
	page = marks.ReplaceAllFunc(page, func(place []byte) []byte {
		parts := marks.FindSubmatch(place)
		r, err := evidence.Read(w.results, string(parts[2]))
		if err != nil {
			w.failures = append(w.failures, err)
			return place
		}
		words := table
		if len(parts[3]) > 0 {
			words = text
		} else {
			w.placed[string(parts[2])] = true
		}
		return bytes.Join([][]byte{parts[1], []byte(words(r)), parts[4]}, nil)
	})
	return short.ReplaceAllFunc(page, func(place []byte) []byte {
		parts := short.FindSubmatch(place)
		words, err := inShort(w.results)
		if err != nil {
			w.failures = append(w.failures, err)
			return place
		}
		return bytes.Join([][]byte{parts[1], []byte(words), parts[2]}, nil)
	})
}

// missing returns errors for the results without a place.
func (w *writer) missing() []error {
	var failures []error
	for _, s := range evidence.Subjects() {
		if !w.placed[s.Name] && !s.Optional {
			failures = append(failures, fmt.Errorf("results/%s.json: %w", s.Name, errNoPlace))
		}
	}
	return failures
}
