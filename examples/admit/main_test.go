package main

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"
)

const cases = `# The comment stays.
state: [limits.yaml]
---
name: a large pod # and this one
create:
  apiVersion: v1
  kind: Pod
  metadata: {name: web}
  spec: {containers: [{name: web, image: "nginx:1.27", resources: {limits: {cpu: "2"}}}]}
want:
  refused: {plugin: LimitRanger, rule: cpu}
---
name: a config map
create: {apiVersion: v1, kind: ConfigMap, metadata: {name: settings}}
`

const limits = `
apiVersion: v1
kind: LimitRange
metadata: {name: limits}
spec: {limits: [{type: Container, max: {cpu: "1"}}]}
`

func file(t *testing.T, dir, name, text string) string {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestUpdate: a file is corrected, and then is as it wants.
func TestUpdate(t *testing.T) {
	dir := t.TempDir()
	file(t, dir, "limits.yaml", limits)
	path := file(t, dir, "cases.yaml", cases)
	tell := func(want string, wrong error, args ...string) {
		t.Helper()
		var out strings.Builder
		if err := run(t.Context(), args, &out); !errors.Is(err, wrong) {
			t.Errorf("%v: %v", args, err)
		}
		if d := cmp.Diff(strings.TrimPrefix(want, "\n"), out.String()); d != "" {
			t.Errorf("%v (-want +got):\n%s", args, d)
		}
	}
	tell(`
FAIL cases.yaml:4: a large pod
     want - refused.rule: "cpu"
FAIL cases.yaml:13: a config map
     want the case does not say what it wants
`, errDiffer, path)
	tell("new  cases.yaml:13: a config map\n", nil, "--update", "--run", "map", path)
	tell("new  cases.yaml:4: a large pod\nok   cases.yaml:13: a config map\n", nil, "--update", path)
	tell("ok   cases.yaml:14: a config map\n     defaults:\n       + metadata.namespace: \"default\"\n     admitted\n", nil,
		"--run", "config", "-v", path)
	text, err := os.ReadFile(path)
	want := strings.Replace(cases, "  refused: {plugin: LimitRanger, rule: cpu}", "  refused:\n    plugin: LimitRanger", 1) + `want:
  audit: {}
  costs: {}
  steps:
  - defaults:
    - '+ metadata.namespace: "default"'
  warnings: []
`
	if d := cmp.Diff(want, string(text)); d != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, d)
	}
}

func TestShow(t *testing.T) {
	dir := t.TempDir()
	var out strings.Builder
	pod := file(t, dir, "pod.yaml", "apiVersion: v1\nkind: Pod\nmetadata: {name: web}\nspec: {containers: [{name: web, image: nginx, resources: {limits: {cpu: 2}}}]}\n")
	if err := run(t.Context(), []string{"show", "-f", file(t, dir, "limits.yaml", limits), pod}, &out); err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{
		"ServiceAccount:\n", `  + spec.serviceAccountName: "default"` + "\n",
		"refused: admit LimitRanger: pods \"web\" is forbidden: maximum cpu usage per Container is 1, but limit is 2\n",
	} {
		if !strings.Contains(out.String(), line) {
			t.Errorf("no %q in\n%s", line, out.String())
		}
	}
}

func TestMistakes(t *testing.T) {
	dir := t.TempDir()
	for name, args := range map[string][]string{
		"which files":  {},
		"one file":     {"show"},
		"only show":    {"-f", "x", "y"},
		"no such file": {filepath.Join(dir, "none.yaml")},
		"--run":        {"--run", "(", "x"},
		":1: x: needs": {file(t, dir, "a.yaml", "name: x\n")},
		`"wants"`:      {file(t, dir, "b.yaml", "name: x\nwants: {}\n")},
		"twice":        {file(t, dir, "c.yaml", "state: []\n---\nstate: []\n")},
	} {
		var out strings.Builder
		if err := run(t.Context(), args, &out); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%q: %v", args, err)
		}
	}
	var out strings.Builder
	if err := run(t.Context(), []string{"--help"}, &out); !errors.Is(err, pflag.ErrHelp) || !strings.Contains(out.String(), "--update") {
		t.Errorf("%v\n%s", err, out.String())
	}
}
