package abac

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
)

// The line is not a policy.
var (
	// ErrVersion: its apiVersion or kind is not known.
	ErrVersion = errors.New("neither apiVersion abac.authorization.kubernetes.io/v1beta1 and kind Policy, nor without both")
	// ErrNobody: it names neither a user nor a group, and so would allow nothing.
	ErrNobody = errors.New("spec.user or spec.group is required; \"*\" stands for everybody who has authenticated")
)

// LineError says which line of a policy file is wrong.
type LineError struct {
	Path string // of the file; empty if it is not known
	Line int    // from 1 on
	Text string // the line
	Err  error  // what is wrong with it
}

// Error returns upstream's words.
func (e *LineError) Error() string {
	where := fmt.Sprintf("line %d", e.Line)
	if e.Path != "" {
		where = fmt.Sprintf("error reading policy file %s, %s", e.Path, where)
	}
	return fmt.Sprintf("%s: %s: %v", where, e.Text, e.Err)
}

// Unwrap returns the cause.
func (e *LineError) Unwrap() error { return e.Err }

// Open reads the policy file at path.
func Open(path string) (Policies, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }() // it was only read
	all, err := Parse(file)
	var wrong *LineError
	switch {
	case errors.As(err, &wrong):
		wrong.Path = path
	case err != nil:
		err = fmt.Errorf("error reading policy file %s: %w", path, err)
	}
	return all, err
}

// Parse reads policies, one in a line of at most 64 KiB.
func Parse(r io.Reader) (Policies, error) {
	lines := bufio.NewScanner(r)
	all := Policies{}
	for n := 1; lines.Scan(); n++ {
		text := bytes.TrimSpace(lines.Bytes())
		if len(text) == 0 || text[0] == '#' {
			continue
		}
		p, err := parse(text)
		if err != nil {
			return nil, &LineError{Line: n, Text: string(text), Err: err}
		}
		all = append(all, p)
	}
	return all, lines.Err()
}

// parse reads a line.
func parse(text []byte) (Policy, error) {
	line, err := readFields(text)
	if err != nil {
		return Policy{}, err
	}
	var version, kind string
	if err := errors.Join(line.get("apiVersion", &version), line.get("kind", &kind)); err != nil {
		return Policy{}, err
	}
	const group = "abac.authorization.kubernetes.io/"
	switch {
	case version == group+"v1beta1" && kind == "Policy":
		return line.versioned()
	case version == "" && kind == "", version == group+"v0" && kind == "Policy":
		p, err := line.policy()
		return unversioned(p), err
	}
	return Policy{}, ErrVersion
}

// values are the fields of a JSON object. Their names count letter by letter, as in every API object; encoding/json alone would
// take others for them.
type values map[string]json.RawMessage

func readFields(text []byte) (v values, err error) {
	err = json.Unmarshal(text, &v)
	return v, err
}

// get reads a field, if there is one.
func (v values) get(name string, to any) error {
	value, ok := v[name]
	if !ok {
		return nil
	}
	if err := json.Unmarshal(value, to); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

func (v values) policy() (p Policy, err error) {
	return p, errors.Join(
		v.get("user", &p.User), v.get("group", &p.Group), v.get("readonly", &p.Readonly), v.get("apiGroup", &p.APIGroup),
		v.get("resource", &p.Resource), v.get("namespace", &p.Namespace), v.get("nonResourcePath", &p.NonResourcePath),
	)
}

func (v values) versioned() (Policy, error) {
	var spec values
	if err := v.get("spec", &spec); err != nil {
		return Policy{}, err
	}
	p, err := spec.policy()
	if err == nil && p.User == "" && p.Group == "" {
		err = ErrNobody
	}
	return everybody(p), err
}
