package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/keelson-dev/keelson/internal/evidence"
)

// The table has a line for each result; an invalid result makes the check fail, an old one does not.
func TestCheck(t *testing.T) {
	root, clean := t.TempDir(), false
	put := func(name string, passed bool) {
		t.Helper()
		err := evidence.WriteFile(filepath.Join(root, "results", name+".json"), evidence.Result{
			Name: name, Commit: "0123456789ab", Code: evidence.Code{Dirty: &clean, About: []string{"storage"}}, Verdict: evidence.Verdict{Passed: passed},
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, s := range evidence.Subjects() {
		put(s.Name, true)
	}
	var out bytes.Buffer
	if err := run(root, &out); err != nil { // without history, which is a warning
		t.Error(err)
	}
	for _, s := range evidence.Subjects() {
		if !strings.Contains(out.String(), s.Name+" ") {
			t.Errorf("%s is not in\n%s", s.Name, out.String())
		}
	}
	if !strings.Contains(out.String(), "0123456789ab") || !strings.Contains(out.String(), "warning: there is no history") {
		t.Errorf("it says\n%s", out.String())
	}
	put("soak", false)
	if err := os.Remove(filepath.Join(root, "results", "kills.json")); err != nil {
		t.Fatal(err)
	}
	out.Reset()
	err := run(root, &out)
	if err == nil || !strings.Contains(err.Error(), "results/soak.json: it did not pass") || !strings.Contains(err.Error(), "results/kills.json: there is no result") {
		t.Errorf("check: %v", err)
	}
	if strings.Count(out.String(), "FAULT") != 2 {
		t.Errorf("it says\n%s", out.String())
	}
}
