package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/keelson-dev/keelson/internal/etcdtest"
	"github.com/keelson-dev/keelson/storage"
	"github.com/keelson-dev/keelson/storage/wal"
)

// do runs a command line and returns its output.
func do(t *testing.T, args ...string) (string, error) {
	t.Helper()
	var out bytes.Buffer
	err := run(t.Context(), args, &out, io.Discard)
	return out.String(), err
}

func succeed(t *testing.T, want string, args ...string) {
	t.Helper()
	if out, err := do(t, args...); err != nil || !strings.Contains(out, want) {
		t.Fatalf("storage %s: %q, %v; want %q", strings.Join(args, " "), out, err, want)
	}
}

func fail(t *testing.T, want string, args ...string) {
	t.Helper()
	if out, err := do(t, args...); err == nil || !strings.Contains(out+err.Error(), want) {
		t.Fatalf("storage %s: %q, %v; want %q", strings.Join(args, " "), out, err, want)
	}
}

// directory makes an embedded store with some records.
func directory(t *testing.T, records int) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "store")
	s, err := wal.Open(dir, wal.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range records {
		if _, err := s.Create(t.Context(), fmt.Sprintf("/registry/%s/default/%d", []string{"pods", "secrets"}[i%2], i), bytes.Repeat([]byte{0, byte(i)}, i)); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	return dir
}

func names(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

func TestBackUpAndRestore(t *testing.T) {
	old, dir := directory(t, 500), t.TempDir()
	file, restored := filepath.Join(dir, "backup"), filepath.Join(dir, "deep", "restored")
	succeed(t, "500 records", "snapshot", "wal:"+old, file)
	succeed(t, "is whole: 500 records", "check", file)
	succeed(t, "it is at revision 1000001001", "restore", file, "wal:"+restored, "--writers", "1")
	succeed(t, "the same: 500 records", "verify", "wal:"+old, "wal:"+restored)
	succeed(t, "the same: 500 records", "verify", "wal:"+restored, "file:"+file)
	succeed(t, "the same: 250 records", "verify", "wal:"+restored, "file:"+file, "--prefix", "/registry/secrets/")
	succeed(t, "by itself", "compact", "wal:"+restored)
	fail(t, "not empty", "restore", file, "wal:"+restored)

	s, err := wal.Open(restored, wal.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Watch(t.Context(), "", 501); !errors.Is(err, storage.ErrCompacted) {
		t.Errorf("Watch of a client of the old store = %v", err)
	}
	if _, err := s.Create(t.Context(), "/registry/pods/default/new", nil); err != nil {
		t.Error(err)
	}
	fail(t, "end the cluster first", "snapshot", "wal:"+restored, file+"2") // it is open here
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	fail(t, "/registry/pods/default/new: only in the first", "verify", "wal:"+restored, "file:"+file)
	if got := names(t, filepath.Dir(restored)); len(got) != 1 {
		t.Errorf("beside the restored directory there are %v", got)
	}
	if got := names(t, dir); len(got) != 2 {
		t.Errorf("beside the file there are %v", got)
	}
}

func TestCopyDirectory(t *testing.T) {
	old, dir := directory(t, 300), t.TempDir()
	succeed(t, "300 records", "copy", "wal:"+old, "wal:"+filepath.Join(dir, "all"))
	succeed(t, "150 records", "copy", "wal:"+old, "wal:"+filepath.Join(dir, "secrets"), "--prefix=/registry/secrets/")
	succeed(t, "150 records", "snapshot", "--prefix=/registry/pods/", "wal:"+old, filepath.Join(dir, "pods"))
	succeed(t, "150 records", "copy", "file:"+filepath.Join(dir, "pods"), "wal:"+filepath.Join(dir, "pods.store"))
	fail(t, "/registry/pods/default/0: only in the first", "verify", "wal:"+filepath.Join(dir, "all"), "wal:"+filepath.Join(dir, "secrets"))
}

// A directory moves to etcd and back, and etcd is backed up while it is in use.
func TestEtcd(t *testing.T) {
	old, dir := directory(t, 300), t.TempDir()
	cluster := etcdtest.Start(t, etcdtest.Options{})
	at := "etcd:" + strings.Join(cluster.Endpoints(), ",")
	file := filepath.Join(dir, "backup")

	succeed(t, "restart all that follow", "copy", "wal:"+old, at)
	succeed(t, "the same: 300 records", "verify", "wal:"+old, at)
	fail(t, "not empty", "copy", "wal:"+old, at)
	if _, err := cluster.Client(t).Put(t.Context(), "/elsewhere", "not of the cluster"); err != nil {
		t.Fatal(err)
	}
	if _, err := cluster.Client(t).Put(t.Context(), "/registry/pods/default/new", "x"); err != nil {
		t.Fatal(err)
	}
	succeed(t, "301 records", "snapshot", at, file)
	succeed(t, "is gone", "compact", at)
	succeed(t, "301 records", "copy", at, "wal:"+filepath.Join(dir, "store"))
	succeed(t, "the same: 301 records", "verify", "wal:"+filepath.Join(dir, "store"), "file:"+file)
	succeed(t, "301 records", "restore", file, at, "--etcd-prefix", "/second")
	fail(t, "/registry/pods/default/new: only in the second", "verify", "wal:"+old, at, "--etcd-prefix", "/second")
	fail(t, "check that it runs", "snapshot", "etcd:http://127.0.0.1:1", file)
}

// A command that ends early leaves nothing that could be mistaken for a result.
func TestInterrupted(t *testing.T) {
	old, dir := directory(t, 2000), t.TempDir()
	file := filepath.Join(t.TempDir(), "backup")
	succeed(t, "2000 records", "snapshot", "wal:"+old, file)
	for _, args := range [][]string{
		{"snapshot", "wal:" + old, filepath.Join(dir, "file")},
		{"restore", file, "wal:" + filepath.Join(dir, "restored")},
		{"copy", "wal:" + old, "wal:" + filepath.Join(dir, "copied")},
	} {
		// The context ends at the n-th check.
		for looks := range 40 {
			err := run(&ending{Context: t.Context(), looks: looks * looks}, args, io.Discard, io.Discard)
			if err == nil {
				if got := names(t, dir); len(got) != 1 {
					t.Fatalf("%v leaves %v", args, got)
				}
				if err := os.RemoveAll(filepath.Join(dir, names(t, dir)[0])); err != nil {
					t.Fatal(err)
				}
				break
			}
			if got := names(t, dir); !errors.Is(err, context.Canceled) || len(got) > 0 {
				t.Fatalf("%v, interrupted, = %v and leaves %v", args, err, got)
			}
		}
	}
	damaged := filepath.Join(t.TempDir(), "damaged")
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	content[len(content)/2] ^= 1
	if err := os.WriteFile(damaged, content, 0o600); err != nil {
		t.Fatal(err)
	}
	fail(t, "at byte", "restore", damaged, "wal:"+filepath.Join(dir, "restored"))
	fail(t, "damaged", "check", damaged)
	if got := names(t, dir); len(got) > 0 {
		t.Errorf("a damaged file leaves %v", got)
	}
}

func TestUsage(t *testing.T) {
	for args, want := range map[string]string{
		"":                                       "say what to do",
		"dump a b":                               `"dump" is not known`,
		"snapshot wal:x":                         "storage snapshot STORE FILE",
		"check x --prefix /a":                    "--prefix is not for check",
		"copy wal:a wal:b --flag":                "not defined",
		"copy wal:a wal:b --writers 0":           "--writers 0",
		"compact etcd:x --etcd-certfile a":       "belong together",
		"compact etcd:x --etcd-user a":           "belong together",
		"compact etcd:x --etcd-prefix registry/": "with a slash in front",
		"compact etcd:localhost":                 "no http:// or https:// URL",
		"snapshot store file":                    `"store" is no store`,
		"copy zip:a wal:b":                       `"zip:a" is no store`,
	} {
		_, err := do(t, strings.Fields(args)...)
		if !errors.Is(err, errUsage) || !strings.Contains(err.Error(), want) {
			t.Errorf("storage %s: %v, want %q", args, err, want)
		}
	}
	old := directory(t, 1)
	if _, err := do(t, "copy", "wal:"+old, "file:x"); !errors.Is(err, errUsage) {
		t.Errorf("copy to a file: %v", err)
	}
	empty := t.TempDir()
	fail(t, "no store in", "snapshot", "wal:"+empty, filepath.Join(empty, "x"))
	fail(t, "write wal:"+old, "snapshot", "wal:"+filepath.Dir(old), filepath.Join(empty, "x"))
	fail(t, "no such file", "restore", filepath.Join(empty, "x"), "wal:"+filepath.Join(empty, "y"))
	if got := names(t, empty); len(got) > 0 {
		t.Errorf("refused commands made %v", got)
	}
	help, err := do(t, "--help")
	if !errors.Is(err, flag.ErrHelp) {
		t.Error(err)
	}
	for name := range commands() {
		if !strings.Contains(help, " "+name+" ") {
			t.Errorf("the help does not tell of %s", name)
		}
	}
}
