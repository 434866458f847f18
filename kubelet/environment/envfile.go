package environment

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strings"
)

// ParseFile returns the value of a variable in a file of variables; it is empty if there is no such variable. Each is
// on its own line as NAME='value'; a value may contain line breaks. Empty lines, lines that begin with #, and comments
// after a value are ignored. Nothing after the variable is read. A line must be shorter than bufio.MaxScanTokenSize
// bytes.
func ParseFile(r io.Reader, key string) (string, error) {
	lines := &lineReader{scanner: bufio.NewScanner(r)}
	for {
		line, ok := lines.next()
		if !ok {
			return "", lines.err()
		}
		line = strings.TrimLeft(line, " \t")
		if line == "" || line[0] == '#' {
			continue
		}
		name, value, err := lines.variable(line)
		if err != nil {
			return "", err
		}
		if name == key {
			return value, nil
		}
	}
}

type lineReader struct {
	scanner *bufio.Scanner
	number  int
}

func (l *lineReader) next() (string, bool) {
	if !l.scanner.Scan() {
		return "", false
	}
	l.number++
	return l.scanner.Text(), true
}

func (l *lineReader) err() error {
	if err := l.scanner.Err(); err != nil {
		return fmt.Errorf("error reading environment variable file: %w", err)
	}
	return nil
}

func (l *lineReader) invalid(problem string) error {
	return fmt.Errorf("invalid environment variable format at line %d: %s", l.number, problem)
}

// variable reads the variable that begins on a line.
func (l *lineReader) variable(line string) (name, value string, err error) {
	name, rest, found := strings.Cut(line, "=")
	switch {
	case !found:
		return "", "", l.invalid("missing '='")
	case strings.TrimRight(name, " \t") == "":
		return "", "", l.invalid("empty variable name")
	case strings.TrimRight(name, " \t") != name:
		return "", "", l.invalid("whitespace before '=' is not allowed")
	case strings.TrimLeft(rest, " \t") != rest:
		return name, "", nil // as in a shell: empty, followed by a command
	}
	rest, quoted := strings.CutPrefix(rest, "'")
	if !quoted {
		return "", "", l.invalid("value must be enclosed in single quotes")
	}
	var out strings.Builder
	start := l.number
	for {
		part, after, closed := strings.Cut(rest, "'")
		out.WriteString(part)
		if closed {
			if after = strings.TrimLeft(after, " \t"); after != "" && after[0] != '#' {
				return "", "", l.invalid("unexpected content after closing quote")
			}
			return name, out.String(), nil
		}
		out.WriteByte('\n')
		var ok bool
		if rest, ok = l.next(); !ok {
			unclosed := fmt.Errorf("invalid environment variable format starting at line %d: unclosed single quote", start)
			return "", "", errors.Join(unclosed, l.err())
		}
	}
}
