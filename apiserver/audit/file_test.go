package audit_test

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"

	"github.com/keelson-dev/keelson/apiserver/audit"
)

func event(id string) *auditv1.Event { return &auditv1.Event{AuditID: types.UID(id)} }

func open(t *testing.T, path string, o audit.FileOptions) *audit.File {
	t.Helper()
	f, err := audit.OpenFile(path, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	})
	return f
}

// ids reads the events of a file, each of which must be whole.
func ids(t *testing.T, path string) []string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if len(data) > 0 && data[len(data)-1] != '\n' {
		t.Errorf("%s ends within a line", path)
	}
	var out []string
	for line := range strings.Lines(string(data)) {
		var e auditv1.Event
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatalf("%s: %q: %v", path, line, err)
		}
		out = append(out, string(e.AuditID))
	}
	return out
}

func TestFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.log")
	f := open(t, path, audit.FileOptions{})
	if err := errors.Join(f.Write(event("a")), f.Write(event("b"))); err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(ids(t, path), ""); got != "ab" {
		t.Errorf("before it is closed: %s", got)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v %v", info.Mode(), err)
	}
	if err := errors.Join(f.Close(), f.Close()); err != nil {
		t.Error(err)
	}
	if err := f.Write(event("c")); !errors.Is(err, audit.ErrClosed) {
		t.Error(err)
	}
	g := open(t, path, audit.FileOptions{})
	if err := g.Write(event("d")); err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(ids(t, path), ""); got != "abd" {
		t.Errorf("after it was opened again: %s", got)
	}
	if _, err := audit.OpenFile(filepath.Join(path, "no", "directory"), audit.FileOptions{}); err == nil || !strings.Contains(err.Error(), "audit file: ") {
		t.Error(err)
	}
}

// TestTornFile: after a crash within a line, the next event begins a new one.
func TestTornFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.log")
	if err := os.WriteFile(path, []byte(`{"kind":"Ev`), 0o600); err != nil {
		t.Fatal(err)
	}
	f := open(t, path, audit.FileOptions{})
	if err := errors.Join(f.Write(event("a")), f.Write(event("b"))); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(path)
	lines := strings.Split(string(data), "\n")
	if err != nil || len(lines) != 4 || lines[0] != `{"kind":"Ev` || !json.Valid([]byte(lines[1])) || !json.Valid([]byte(lines[2])) {
		t.Errorf("%v %q", err, lines)
	}
}

// TestRotation: many writers, small files: no event is lost but those of files that were too many.
func TestRotation(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "audit.log")
	others := []string{"audit-notes.log", "audit.log.bak", "audit-2020-01-01.log", "xaudit-2020-01-01T00-00-00.000.log"}
	for _, name := range others {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	const writers, each = 8, 50
	line, err := json.Marshal(event("w0-000"))
	if err != nil {
		t.Fatal(err)
	}
	size := int64(len(line)+1) * 20
	f := open(t, path, audit.FileOptions{MaxSize: size, Keep: -1})
	write(t, f, writers, each)
	seen := map[string]bool{}
	aside, err := filepath.Glob(filepath.Join(dir, "audit-20*T*.log"))
	if err != nil || len(aside) != writers*each/20-1 {
		t.Errorf("%d files aside %v", len(aside), err)
	}
	for _, name := range append(aside, path) {
		if info, err := os.Stat(name); err != nil || info.Size() > size || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v %v", name, info, err)
		}
		for _, id := range ids(t, name) {
			if seen[id] {
				t.Errorf("%s twice", id)
			}
			seen[id] = true
		}
	}
	if len(seen) != writers*each {
		t.Errorf("%d events of %d", len(seen), writers*each)
	}

	g := open(t, path, audit.FileOptions{MaxSize: size, Keep: 2})
	write(t, g, writers, each)
	if aside, err = filepath.Glob(filepath.Join(dir, "audit-20*T*.log")); err != nil || len(aside) != 2 {
		t.Errorf("kept %v %v", aside, err)
	}
	for _, name := range others {
		if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
			t.Errorf("a file of others: %v", err)
		}
	}
}

func write(t *testing.T, f *audit.File, writers, each int) {
	t.Helper()
	var done sync.WaitGroup
	for w := range writers {
		done.Go(func() {
			for n := range each {
				if err := f.Write(event("w" + strconv.Itoa(w) + "-" + strconv.Itoa(100+n))); err != nil {
					t.Error(err)
				}
			}
		})
	}
	done.Wait()
}

// TestRotationFails: where the file cannot be put aside it goes on, and the sink says so.
func TestRotationFails(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "log")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "audit.log")
	f := open(t, path, audit.FileOptions{MaxSize: 1})
	if err := f.Write(event("a")); err != nil {
		t.Fatal(err)
	}
	moved := dir + "-moved"
	if err := os.Rename(dir, moved); err != nil { // works for every user, unlike a mode
		t.Fatal(err)
	}
	if err := f.Write(event("b")); err == nil || !strings.Contains(err.Error(), "audit file: rotate: ") {
		t.Errorf("no word of it: %v", err)
	}
	if err := os.Rename(moved, dir); err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(ids(t, path), ""); got != "ab" {
		t.Errorf("events %s", got)
	}
}

// TestAge: files aside that are too old go, whether there are many or not, and whether there is anything to rotate.
func TestAge(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "audit.log")
	aside := func(age time.Duration) string {
		name := filepath.Join(dir, "audit-"+time.Now().Add(-age).UTC().Format("2006-01-02T15-04-05.000")+".log")
		if err := os.WriteFile(name, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		return name
	}
	const day = 24 * time.Hour
	old, older, young := aside(8*day), aside(300*day), aside(6*day)
	all := open(t, path, audit.FileOptions{Keep: -1})
	if err := all.Write(event("a")); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{old, older, young} {
		if _, err := os.Stat(name); err != nil {
			t.Errorf("without an age: %v", err)
		}
	}
	week := open(t, path, audit.FileOptions{Keep: -1, MaxAge: 7 * day})
	if err := week.Write(event("b")); err != nil {
		t.Fatal(err)
	}
	for name, kept := range map[string]bool{old: false, older: false, young: true, path: true} {
		if _, err := os.Stat(name); (err == nil) != kept {
			t.Errorf("%s: %v", name, err)
		}
	}
	if f, err := audit.OpenFile(path, audit.FileOptions{MaxAge: -1}); err == nil || !strings.Contains(err.Error(), "MaxAge") {
		t.Errorf("%v, %v", f, err)
	}
}
