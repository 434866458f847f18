package wal_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/keelson-dev/keelson/storage"
	"github.com/keelson-dev/keelson/storage/internal/disk/crashdisk"
	"github.com/keelson-dev/keelson/storage/wal"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fill writes n keys of a hundred bytes and returns the revision of the last.
func fill(t testing.TB, s *wal.Store, n int) int64 {
	t.Helper()
	start, err := s.Revision(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	revision := start
	for i := range n {
		if revision, err = s.Create(t.Context(), fmt.Sprintf("key/%d/%d", start, i), bytes.Repeat([]byte("v"), 100)); err != nil {
			t.Fatal(err)
		}
	}
	return revision
}

func TestReopen(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "b")
	s, err := wal.Open(dir, wal.Options{})
	if err != nil {
		t.Fatal(err)
	}
	last := fill(t, s, 10)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		s, err = wal.Open(dir, wal.Options{})
		if err != nil {
			t.Fatal(err)
		}
		page, err := s.List(t.Context(), "", storage.ListOptions{})
		if err != nil || page.Revision != last {
			t.Fatalf("reopened at %d, %v; want %d", page.Revision, err, last)
		}
		if next := fill(t, s, 1); next != last+1 {
			t.Errorf("the first write after reopening has revision %d, want %d", next, last+1)
		}
		last++
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if want := map[bool]fs.FileMode{true: fs.ModeDir | 0o700, false: 0o600}[d.IsDir()]; err == nil && info.Mode() != want {
			t.Errorf("%s has mode %v, want %v", path, info.Mode(), want)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

// A restart keeps the history since the newest snapshot, within the limits.
func TestHistoryAfterReopen(t *testing.T) {
	ctx := t.Context()
	reopen := func(d *crashdisk.Disk, o wal.Options) *wal.Store {
		s, err := wal.OpenIn(d, "dir", o)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	watchable := func(s *wal.Store, after int64) error {
		stream, err := s.Watch(ctx, "", after)
		if err == nil {
			stream.Close()
		}
		_, listErr := s.List(ctx, "", storage.ListOptions{Revision: max(1, after)})
		if !errors.Is(listErr, errors.Unwrap(err)) && (err == nil) != (listErr == nil) {
			t.Errorf("Watch after %d = %v, but List at it = %v", after, err, listErr)
		}
		return err
	}

	d := crashdisk.New(crashdisk.Faults{})
	s := reopen(d, wal.Options{})
	last := fill(t, s, 20)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}

	s = reopen(d, wal.Options{})
	if err := watchable(s, 0); err != nil {
		t.Errorf("no snapshot was taken, but Watch from the beginning: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}

	s = reopen(d, wal.Options{History: 5})
	if err := watchable(s, last-5); err != nil {
		t.Errorf("Watch within the limit: %v", err)
	}
	if err := watchable(s, last-6); !errors.Is(err, storage.ErrCompacted) {
		t.Errorf("Watch beyond the limit: %v, want ErrCompacted", err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}

	s = reopen(d, wal.Options{CompactBytes: 1}) // its first write compacts
	at := fill(t, s, 1)
	waitForSnapshot(t, d, at)
	if err := watchable(s, 0); err != nil {
		t.Errorf("Watch from the beginning while the store stays open: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = reopen(d, wal.Options{})
	defer s.Close()
	if err := watchable(s, at-1); !errors.Is(err, storage.ErrCompacted) {
		t.Errorf("Watch before the snapshot: %v, want ErrCompacted", err)
	}
	if err := watchable(s, at); err != nil {
		t.Errorf("Watch after the snapshot: %v", err)
	}
}

// waitForSnapshot writes nothing; it yields until the snapshot at a revision has its final name.
func waitForSnapshot(t testing.TB, d *crashdisk.Disk, revision int64) {
	t.Helper()
	for {
		names, err := d.Names()
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			if name == fmt.Sprintf("%020d.snapshot", revision) {
				return
			}
		}
		if t.Context().Err() != nil {
			t.Fatal("no snapshot")
		}
	}
}

func TestInUse(t *testing.T) {
	dir := t.TempDir()
	s, err := wal.Open(dir, wal.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := wal.Open(dir, wal.Options{}); !errors.Is(err, wal.ErrInUse) || !strings.Contains(err.Error(), dir) {
		t.Errorf("second Open = %v, want ErrInUse and the path", err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s, err = wal.Open(dir, wal.Options{})
	if err != nil {
		t.Fatalf("Open after Close: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestForeignDirectory(t *testing.T) {
	for _, name := range []string{"member", "notes.txt", "00000000000000000001.LOG", "1.log", "db.snapshot"} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := wal.Open(dir, wal.Options{})
		if !errors.Is(err, wal.ErrForeign) || !strings.Contains(err.Error(), name) {
			t.Errorf("Open of a directory with %s = %v, want ErrForeign", name, err)
		}
		if entries, err := os.ReadDir(dir); err != nil || len(entries) != 1 {
			t.Errorf("Open left %v in a foreign directory", entries)
		}
	}
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := wal.Open(file, wal.Options{}); err == nil {
		t.Error("Open of a file succeeded")
	}
}

// stopped returns a disk with a properly closed store, which has a snapshot and a log after it, and their names.
func stopped(t *testing.T) (d *crashdisk.Disk, snapshot, log string) {
	t.Helper()
	d = crashdisk.New(crashdisk.Faults{})
	for _, life := range []struct {
		writes int
		wal.Options
	}{{10, wal.Options{}}, {1, wal.Options{CompactBytes: 1}}, {3, wal.Options{}}} {
		s, err := wal.OpenIn(d, "dir", life.Options)
		if err != nil {
			t.Fatal(err)
		}
		last := fill(t, s, life.writes)
		if life.CompactBytes > 0 {
			waitForSnapshot(t, d, last)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	names, err := d.Names()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names { // in ascending order
		switch filepath.Ext(name) {
		case ".snapshot":
			snapshot = name
		case ".log":
			log = name
		}
	}
	return d, snapshot, log
}

func TestDamage(t *testing.T) {
	flip := func(at int) func([]byte) []byte {
		return func(b []byte) []byte {
			b[(at+len(b))%len(b)] ^= 4
			return b
		}
	}
	gone := func([]byte) []byte { return nil }
	cut := func(n int) func([]byte) []byte { return func(b []byte) []byte { return b[:len(b)-n] } }
	const log, snapshot, format = "log", "snapshot", "FORMAT"
	for name, c := range map[string]struct {
		file   string
		damage func([]byte) []byte
		want   error
	}{
		"log header":                   {log, flip(3), wal.ErrCorrupt},
		"log header cut":               {log, func(b []byte) []byte { return b[:20] }, wal.ErrCorrupt},
		"log emptied":                  {log, func(b []byte) []byte { return b[:0] }, wal.ErrCorrupt},
		"log gone":                     {log, gone, wal.ErrCorrupt},
		"first frame's mark":           {log, flip(28), wal.ErrCorrupt},
		"first frame's length":         {log, flip(32), wal.ErrCorrupt},
		"first frame's huge length":    {log, flip(35), wal.ErrCorrupt},
		"first frame's checksum":       {log, flip(36), wal.ErrCorrupt},
		"first frame's other checksum": {log, flip(40), wal.ErrCorrupt},
		"first frame's payload":        {log, flip(60), wal.ErrCorrupt},
		"last write before closing":    {log, flip(-34), wal.ErrCorrupt},
		"megabytes of garbage behind":  {log, func(b []byte) []byte { return append(b, make([]byte, 20<<20)...) }, wal.ErrCorrupt},
		"snapshot header":              {snapshot, flip(9), wal.ErrCorrupt},
		"snapshot record":              {snapshot, flip(100), wal.ErrCorrupt},
		"snapshot end":                 {snapshot, flip(-1), wal.ErrCorrupt},
		"snapshot cut":                 {snapshot, cut(10), wal.ErrCorrupt},
		"snapshot without its end":     {snapshot, cut(25), wal.ErrCorrupt},
		"snapshot longer":              {snapshot, func(b []byte) []byte { return append(b, 0) }, wal.ErrCorrupt},
		"snapshot gone":                {snapshot, gone, wal.ErrCorrupt},
		"format gone":                  {format, gone, wal.ErrCorrupt},
		"format empty":                 {format, func([]byte) []byte { return []byte{} }, wal.ErrCorrupt},
		"format of something else":     {format, func([]byte) []byte { return []byte("hello\n") }, wal.ErrCorrupt},
		"format's identity":            {format, flip(20), wal.ErrCorrupt},
		"format of a later version":    {format, func([]byte) []byte { return []byte("keelson-wal 2 whatever\n") }, wal.ErrVersion},
		"format of an earlier version": {format, func([]byte) []byte { return []byte("keelson-wal 0\n") }, wal.ErrVersion},
	} {
		t.Run(name, func(t *testing.T) {
			d, snapshotName, logName := stopped(t)
			file := map[string]string{log: logName, snapshot: snapshotName, format: format}[c.file]
			d.Replace(file, c.damage(d.Contents(file)))
			before := contents(t, d)
			_, err := wal.OpenIn(d, "dir", wal.Options{})
			if !errors.Is(err, c.want) {
				t.Fatalf("Open = %v, want %v", err, c.want)
			}
			t.Log(err)
			var damage *wal.CorruptError
			if errors.Is(c.want, wal.ErrCorrupt) && (!errors.As(err, &damage) || filepath.Dir(damage.File) != "dir") {
				t.Errorf("Open = %v, which does not name a file", err)
			}
			if after := contents(t, d); after != before {
				t.Error("Open changed the damaged directory")
			}
		})
	}
}

func contents(t *testing.T, d *crashdisk.Disk) string {
	t.Helper()
	names, err := d.Names()
	if err != nil {
		t.Fatal(err)
	}
	var all strings.Builder
	for _, name := range names {
		fmt.Fprintf(&all, "%s: %x\n", name, d.Contents(name))
	}
	return all.String()
}

// A file of another store does not pass for this one's.
func TestMixedStores(t *testing.T) {
	d, snapshot, log := stopped(t)
	other, _, _ := stopped(t)
	for _, name := range []string{snapshot, log} {
		mine := d.Contents(name)
		theirs := other.Contents(name)
		if theirs == nil {
			t.Fatalf("the other store has no %s", name)
		}
		d.Replace(name, theirs)
		if _, err := wal.OpenIn(d, "dir", wal.Options{}); !errors.Is(err, wal.ErrCorrupt) {
			t.Errorf("Open with another store's %s = %v", name, err)
		}
		d.Replace(name, mine)
	}
}

func TestTornTail(t *testing.T) {
	for name, tear := range map[string]func(written []byte) []byte{
		"cut":           func(b []byte) []byte { return b[:len(b)-40] },
		"cut in header": func(b []byte) []byte { return b[:10] },
		"flipped":       func(b []byte) []byte { b[len(b)-40] ^= 1; return b },
		"end zeros":     func(b []byte) []byte { clear(b[len(b)-40:]); return b },
		"header zeros":  func(b []byte) []byte { clear(b[:16]); return b },
		"all zeros":     func(b []byte) []byte { clear(b); return b },
	} {
		t.Run(name, func(t *testing.T) {
			d := crashdisk.New(crashdisk.Faults{})
			s, err := wal.OpenIn(d, "dir", wal.Options{})
			if err != nil {
				t.Fatal(err)
			}
			const log = "00000000000000000001.log"
			fill(t, s, 2)
			before := d.Contents(log)
			last := fill(t, s, 1)
			image := d.Contents(log) // not closed
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			d.Replace(log, append(before, tear(image[len(before):])...))

			var logged strings.Builder
			s, err = wal.OpenIn(d, "dir", wal.Options{Logger: slog.New(slog.NewTextHandler(&logged, nil))})
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			if now, err := s.Revision(t.Context()); err != nil || now != last-1 {
				t.Errorf("reopened at %d, %v; want %d", now, err, last-1)
			}
			if !strings.Contains(logged.String(), log) {
				t.Errorf("the cut was logged as %q", logged.String())
			}
			if again := fill(t, s, 1); again != last {
				t.Errorf("the next write has revision %d, want %d", again, last)
			}
		})
	}
}

func TestDiskError(t *testing.T) {
	errDisk := errors.New("input/output error")
	for _, operation := range []string{"Write", "Sync"} {
		t.Run(operation, func(t *testing.T) {
			d := crashdisk.New(crashdisk.Faults{})
			s, err := wal.OpenIn(d, "dir", wal.Options{})
			if err != nil {
				t.Fatal(err)
			}
			last := fill(t, s, 3)
			if err := storage.Err(s); err != nil {
				t.Errorf("Err before the failure = %v", err)
			}
			failed := 0
			d.Fail(func(o, _ string) error {
				if o == operation && failed == 0 {
					failed++
					return errDisk
				}
				return nil
			})
			for i := range 3 { // the disk fails only once
				_, err := s.Create(t.Context(), "new", nil)
				if !errors.Is(err, wal.ErrFailed) || !errors.Is(err, errDisk) {
					t.Errorf("write %d on the failed disk = %v", i, err)
				}
			}
			if page, err := s.List(t.Context(), "", storage.ListOptions{}); err != nil || page.Revision != last {
				t.Errorf("List after the failure = revision %d, %v", page.Revision, err)
			}
			if err := storage.Err(s); !errors.Is(err, wal.ErrFailed) || !errors.Is(err, errDisk) {
				t.Errorf("Err after the failure = %v", err)
			}
			if err := s.Close(); !errors.Is(err, wal.ErrFailed) {
				t.Errorf("Close = %v", err)
			}
			s, err = wal.OpenIn(d, "dir", wal.Options{})
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			if again := fill(t, s, 1); again != last+1 {
				t.Errorf("the next write has revision %d, want %d", again, last+1)
			}
		})
	}
}

// A disk that fails during compaction fails the store, too, but nothing acknowledged is lost.
func TestDiskErrorInCompaction(t *testing.T) {
	errDisk := errors.New("no space left on device")
	for _, operation := range []string{"Create", "Rename", "Remove"} {
		t.Run(operation, func(t *testing.T) {
			d := crashdisk.New(crashdisk.Faults{})
			s, err := wal.OpenIn(d, "dir", wal.Options{CompactBytes: 1000})
			if err != nil {
				t.Fatal(err)
			}
			d.Fail(func(o, _ string) error {
				if o == operation {
					return errDisk
				}
				return nil
			})
			acknowledged := 0
			for err == nil && acknowledged < 1000 {
				if _, err = s.Create(t.Context(), fmt.Sprint(acknowledged), make([]byte, 100)); err == nil {
					acknowledged++
				}
			}
			if !errors.Is(err, wal.ErrFailed) || !errors.Is(err, errDisk) {
				t.Errorf("after %d writes: %v", acknowledged, err)
			}
			_ = s.Close() // the failure again
			d.Fail(nil)
			s, err = wal.OpenIn(d, "dir", wal.Options{})
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			if page, err := s.List(t.Context(), "", storage.ListOptions{}); err != nil || len(page.Records) != acknowledged {
				t.Errorf("reopened with %d records, %v; %d were acknowledged", len(page.Records), err, acknowledged)
			}
		})
	}
}

// The directory stays within a few times the size of the live records.
func TestSpaceIsBounded(t *testing.T) {
	d := crashdisk.New(crashdisk.Faults{})
	s, err := wal.OpenIn(d, "dir", wal.Options{CompactBytes: 10_000})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	at, err := s.Create(t.Context(), "a", make([]byte, 1000))
	if err != nil {
		t.Fatal(err)
	}
	largest := 0
	for range 3000 {
		if at, err = s.Update(t.Context(), "a", make([]byte, 1000), at); err != nil {
			t.Fatal(err)
		}
		names, err := d.Names()
		if err != nil {
			t.Fatal(err)
		}
		total := 0
		for _, name := range names {
			total += len(d.Contents(name))
		}
		largest = max(largest, total)
	}
	if largest > 50_000 {
		t.Errorf("%d bytes on disk for one record of 1,000", largest)
	}
}

func TestTooLarge(t *testing.T) {
	s, err := wal.OpenIn(crashdisk.New(crashdisk.Faults{}), "dir", wal.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	revision, err := s.Create(t.Context(), "a", make([]byte, wal.MaxRecordBytes-1))
	if err != nil {
		t.Fatalf("the largest record: %v", err)
	}
	if _, err := s.Update(t.Context(), "a", make([]byte, wal.MaxRecordBytes), revision); !errors.Is(err, storage.ErrTooLarge) {
		t.Errorf("a larger one: %v, want ErrTooLarge", err)
	}
	if _, err := s.Create(t.Context(), strings.Repeat("k", wal.MaxRecordBytes+1), nil); !errors.Is(err, storage.ErrTooLarge) {
		t.Errorf("a larger key: %v, want ErrTooLarge", err)
	}
}

// A caller can give up while the disk hangs, and its write is withdrawn if it was still waiting.
func TestEndedContextWhileDiskHangs(t *testing.T) {
	d := crashdisk.New(crashdisk.Faults{})
	s, err := wal.OpenIn(d, "dir", wal.Options{})
	if err != nil {
		t.Fatal(err)
	}
	hanging, release := make(chan struct{}, 1), make(chan struct{})
	d.Fail(func(operation, _ string) error {
		if operation == "Sync" {
			hanging <- struct{}{}
			<-release
		}
		return nil
	})
	first := make(chan error, 1)
	go func() {
		_, err := s.Create(context.Background(), "first", nil)
		first <- err
	}()
	<-hanging
	ctx, cancel := context.WithCancel(t.Context())
	second := make(chan error, 1)
	go func() {
		_, err := s.Create(ctx, "second", nil)
		second <- err
	}()
	cancel()
	if err := <-second; !errors.Is(err, context.Canceled) {
		t.Errorf("the second write = %v, want the context's error", err)
	}
	close(release)
	if err := <-first; err != nil {
		t.Errorf("the first write = %v", err)
	}
	d.Fail(nil)
	if _, err := s.Get(t.Context(), "second"); !errors.Is(err, storage.ErrNotFound) {
		t.Errorf("Get of the write taken back = %v", err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}
