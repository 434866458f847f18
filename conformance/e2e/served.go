package main

import (
	_ "embed"
	"fmt"
	"os"
	"regexp"
	"strings"
)

//go:embed served.tsv
var servedTable string

// row is a line of served.tsv: a test by its name in the suite, what it is about, and what it needs that
// keelson does not have.
type row struct{ test, about, missing string }

// expected tells whether the test has to pass.
func (r row) expected() bool { return r.missing == "-" }

// served reads the table.
func served() ([]row, error) {
	var rows []row
	lines := strings.Split(strings.TrimRight(servedTable, "\n"), "\n")
	for i, line := range lines[1:] {
		cells := strings.Split(line, "\t")
		if len(cells) != 3 {
			return nil, fmt.Errorf("served.tsv:%d has %d cells, not test, about and missing", i+2, len(cells))
		}
		rows = append(rows, row{cells[0], cells[1], cells[2]})
	}
	return rows, nil
}

// expect is the expression that selects the tests that have to pass, and no others.
func expect(rows []row) string {
	var names []string
	for _, r := range rows {
		if r.expected() {
			names = append(names, regexp.QuoteMeta(r.test))
		}
	}
	return "(" + strings.Join(names, "|") + ")"
}

// expressionOf takes an expression, or the name of a file with one.
func expressionOf(focus string) (string, error) {
	if content, err := os.ReadFile(focus); err == nil {
		focus = strings.TrimSpace(string(content))
	}
	if _, err := regexp.Compile(focus); err != nil {
		return "", fmt.Errorf("-focus: %w; it is a regular expression, or a file with one", err)
	}
	return focus, nil
}
