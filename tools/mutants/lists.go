package main

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"

	"github.com/keelson-dev/keelson/tools/mutants/schemata"
)

// module is the prefix of import paths that lists omit.
const module = "github.com/keelson-dev/keelson/"

// identity is a mutant's name in the list of survivors.
type identity struct{ pkg, file, function, change string }

func identityOf(m schemata.Mutant) identity {
	return identity{strings.TrimPrefix(m.Package, module), m.File, m.Function, m.Change}
}

func (i identity) String() string {
	return strings.Join([]string{i.pkg, i.file, i.function, i.change}, "\t")
}

// Words with which a reason begins if it says more than that the survivor is known.
const (
	equivalent = "equivalent" // the change has no observable effect: it is not counted
	sometimes  = "sometimes"  // chance decides whether a test notices
)

// parseSurvivors reads the list of survivors: package, file, function, change and reason, with tabs between.
func parseSurvivors(r io.Reader) (map[identity]string, error) {
	listed := map[identity]string{}
	err := rows(r, 5, func(c []string) error {
		id := identity{c[0], c[1], c[2], c[3]}
		if listed[id] != "" {
			return fmt.Errorf("is listed twice: %s", id)
		}
		if c[4] == "" {
			return fmt.Errorf("has no reason: %s", id)
		}
		listed[id] = c[4]
		return nil
	})
	return listed, err
}

// setting holds the settings of a package.
type setting struct {
	leftOut string // why its mutants are not tried
	short   bool
	skip    string // a regular expression of tests
	also    []string
	files   map[string]string // left out, with the reason
}

// parseSettings reads the table of packages: package, setting, value and reason, with tabs between.
func parseSettings(r io.Reader) (map[string]setting, error) {
	settings := map[string]setting{}
	err := rows(r, 4, func(c []string) error {
		s := settings[c[0]]
		if c[3] == "" {
			return fmt.Errorf("%s of %s has no reason", c[1], c[0])
		}
		switch c[1] {
		case "left out":
			s.leftOut = c[3]
		case "short":
			s.short = true
		case "skip":
			if _, err := regexp.Compile(c[2]); err != nil {
				return err
			}
			s.skip = c[2]
		case "tested by":
			s.also = append(s.also, module+c[2])
		case "file":
			if s.files == nil {
				s.files = map[string]string{}
			}
			s.files[c[2]] = c[3]
		default:
			return fmt.Errorf("%q is no setting: there are left out, short, skip, tested by and file", c[1])
		}
		settings[c[0]] = s
		return nil
	})
	return settings, err
}

// rows reads lines with that many columns; lines that begin with # are comments.
func rows(r io.Reader, columns int, row func([]string) error) error {
	scanner := bufio.NewScanner(r)
	for n := 1; scanner.Scan(); n++ {
		line := scanner.Text()
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		c := strings.Split(line, "\t")
		if len(c) != columns {
			return fmt.Errorf("line %d has %d columns in place of %d: %q", n, len(c), columns, line)
		}
		if err := row(c); err != nil {
			return fmt.Errorf("line %d %w", n, err)
		}
	}
	return scanner.Err()
}

func readFile[T any](name string, parse func(io.Reader) (T, error)) (T, error) {
	file, err := os.Open(name)
	if err != nil {
		var none T
		return none, err
	}
	defer func() { _ = file.Close() }()
	read, err := parse(file)
	if err != nil {
		err = fmt.Errorf("%s: %w", name, err)
	}
	return read, err
}
