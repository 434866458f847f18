package transcript

import (
	"bufio"
	"fmt"
	"net/http"
	"strconv"
	"strings"
)

// Step is one request in a file.
type Step struct {
	Name   string
	Save   string // the variable that stores the answer, if any
	Method string
	Path   string // with query
	Header http.Header
	Body   string
	// Await, if not 0, is the status code until which the step is repeated; the pseudo-header "Await" sets it.
	Await int
	// Owners keeps the managed fields of objects in the answer.
	Owners bool
}

// Parse reads a file of requests.
func Parse(text string) ([]Step, error) {
	var steps []Step
	seen := map[string]bool{}
	owners := false
	for i, part := range strings.Split("\n"+text, "\n## ") {
		if i == 0 { // text before the first step is a comment
			owners = strings.Contains(part, "\n@owners\n")
			continue
		}
		step, err := parse(part)
		if err != nil {
			return nil, err
		}
		step.Owners = owners
		if seen[step.Name] {
			return nil, fmt.Errorf("two steps are called %q", step.Name)
		}
		seen[step.Name] = true
		steps = append(steps, step)
	}
	return steps, nil
}

func parse(part string) (Step, error) {
	head, rest, _ := strings.Cut(part, "\n")
	name, save, _ := strings.Cut(head, "=>")
	s := Step{Name: strings.TrimSpace(name), Save: strings.TrimSpace(save), Header: http.Header{}}
	head, body, _ := strings.Cut(strings.TrimRight(rest, "\n")+"\n", "\n\n")
	lines := bufio.NewScanner(strings.NewReader(head))
	for lines.Scan() {
		line := lines.Text()
		if s.Method == "" {
			s.Method, s.Path, _ = strings.Cut(line, " ")
			continue
		}
		key, value, ok := strings.Cut(line, ": ")
		if !ok {
			return s, fmt.Errorf("step %q: %q is no header", s.Name, line)
		}
		if key == "Await" {
			n, err := strconv.Atoi(value)
			if err != nil {
				return s, fmt.Errorf("step %q: %w", s.Name, err)
			}
			s.Await = n
			continue
		}
		s.Header.Add(key, value)
	}
	if s.Path == "" {
		return s, fmt.Errorf("step %q has no request line", s.Name)
	}
	s.Body = strings.TrimRight(body, "\n")
	return s, nil
}
