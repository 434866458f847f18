package wal_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/keelson-dev/keelson/storage"
	"github.com/keelson-dev/keelson/storage/internal/disk"
	"github.com/keelson-dev/keelson/storage/internal/disk/crashdisk"
	"github.com/keelson-dev/keelson/storage/wal"
)

// pair encodes a key and a value as in a payload.
func pair(key, value string) string {
	b := binary.LittleEndian.AppendUint32(nil, uint32(len(key)))
	return string(binary.LittleEndian.AppendUint32(b, uint32(len(value)))) + key + value
}

func number(n uint64) string { return string(binary.LittleEndian.AppendUint64(nil, n)) }

// TestPayloads: a payload has one meaning or none, even with a correct checksum.
func TestPayloads(t *testing.T) {
	const most = 1<<63 - 1
	put, del := "\x01"+pair("key", "value"), "\x02"+pair("key", "")
	for name, c := range map[string]struct {
		decode  func([]byte) ([]byte, error)
		payload string
		good    bool
	}{
		"a change":                        {wal.DecodeLog, "b" + number(7) + put, true},
		"a change of nothing":             {wal.DecodeLog, "b" + number(7) + "\x01" + pair("key", ""), true},
		"a deletion":                      {wal.DecodeLog, "b" + number(7) + del, true},
		"changes":                         {wal.DecodeLog, "b" + number(most) + put + del + put, true},
		"the end":                         {wal.DecodeLog, "c" + number(8), true},
		"another log":                     {wal.DecodeLog, "n" + number(most), true},
		"nothing":                         {wal.DecodeLog, "", false},
		"only a tag":                      {wal.DecodeLog, "b", false},
		"half a number":                   {wal.DecodeLog, "c1234", false},
		"a negative number":               {wal.DecodeLog, "c" + number(most+1), false},
		"no changes":                      {wal.DecodeLog, "b" + number(7), false},
		"changes at the end":              {wal.DecodeLog, "c" + number(7) + put, false},
		"something behind":                {wal.DecodeLog, "n" + number(7) + "x", false},
		"another tag":                     {wal.DecodeLog, "x" + number(7), false},
		"another tag with changes":        {wal.DecodeLog, "x" + number(7) + put, false},
		"a snapshot's tag":                {wal.DecodeLog, "e" + number(7), false},
		"no event":                        {wal.DecodeLog, "b" + number(7) + "\x00" + pair("key", "value"), false},
		"an event that changes nothing":   {wal.DecodeLog, "b" + number(7) + "\x03" + pair("key", ""), false},
		"a deletion with a value":         {wal.DecodeLog, "b" + number(7) + "\x02" + pair("key", "value"), false},
		"a change of no key":              {wal.DecodeLog, "b" + number(7) + "\x01" + pair("", "value"), false},
		"a value that is not there":       {wal.DecodeLog, "b" + number(7) + strings.TrimSuffix(put, "value"), false},
		"a value that is not all there":   {wal.DecodeLog, "b" + number(7) + strings.TrimSuffix(put, "e"), false},
		"a key that is not there":         {wal.DecodeLog, "b" + number(7) + put[:9], false},
		"half a length":                   {wal.DecodeLog, "b" + number(7) + put[:7], false},
		"only an event":                   {wal.DecodeLog, "b" + number(7) + put + "\x01", false},
		"a record":                        {wal.DecodeSnapshot, "r" + number(most) + pair("key", "value"), true},
		"records":                         {wal.DecodeSnapshot, "r" + number(7) + pair("key", "") + number(8) + pair("zz", "x"), true},
		"an end":                          {wal.DecodeSnapshot, "e" + number(0), true},
		"an empty snapshot's frame":       {wal.DecodeSnapshot, "", false},
		"no records":                      {wal.DecodeSnapshot, "r", false},
		"a record without a key":          {wal.DecodeSnapshot, "r" + number(7) + pair("", "value"), false},
		"a record of a negative revision": {wal.DecodeSnapshot, "r" + number(most+1) + pair("key", "value"), false},
		"a record without its value":      {wal.DecodeSnapshot, "r" + number(7) + strings.TrimSuffix(pair("key", "value"), "value"), false},
		"half a record":                   {wal.DecodeSnapshot, "r" + number(7) + pair("key", "value") + number(8), false},
		"a negative total":                {wal.DecodeSnapshot, "e" + number(most+1), false},
		"no total":                        {wal.DecodeSnapshot, "e", false},
		"something behind a total":        {wal.DecodeSnapshot, "e" + number(1) + "x", false},
		"a log's tag":                     {wal.DecodeSnapshot, "c" + number(7), false},
	} {
		again, err := c.decode([]byte(c.payload))
		if (err == nil) != c.good || err == nil && string(again) != c.payload {
			t.Errorf("%s: %q, %v", name, again, err)
		}
	}
}

// TestFormat: FORMAT is either what this package wrote, or of another version.
func TestFormat(t *testing.T) {
	for name, c := range map[string]struct {
		change func(string) string
		want   string
	}{
		"as it was":            {func(s string) string { return s }, ""},
		"empty":                {func(string) string { return "" }, "it does not name a format"},
		"one word":             {func(string) string { return "keelson-wal\n" }, "it does not name a format"},
		"another word":         {func(s string) string { return "x" + s }, "it does not name a format"},
		"another identity":     {func(s string) string { return s[:14] + "f" + s[15:] }, "it does not match its checksum"},
		"another checksum":     {func(s string) string { return s[:len(s)-9] + "00000000\n" }, "it does not match its checksum"},
		"no checksum":          {func(s string) string { return s[:len(s)-10] + "\n" }, "it does not match its checksum"},
		"one word more":        {func(s string) string { return strings.TrimSuffix(s, "\n") + " x\n" }, "it does not match its checksum"},
		"a line more":          {func(s string) string { return s + "\n" }, "it does not match its checksum"},
		"no version":           {func(s string) string { return strings.Replace(s, " 1 ", " one ", 1) }, "it does not match its checksum"},
		"another way to say 1": {func(s string) string { return strings.Replace(s, " 1 ", " 01 ", 1) }, "it does not match its checksum"},
	} {
		d, _, _ := stopped(t)
		format := string(d.Contents("FORMAT"))
		changed := c.change(format)
		if changed == format && c.want != "" {
			changed = strings.Replace(format, " 1 ", " 1 0", 1)
		}
		d.Replace("FORMAT", []byte(changed))
		s, err := wal.OpenIn(d, "dir", wal.Options{})
		if c.want == "" {
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			if err := s.Close(); err != nil {
				t.Error(err)
			}
			continue
		}
		if bad := (*wal.CorruptError)(nil); !errors.As(err, &bad) || bad.Reason != c.want || bad.File != filepath.Join("dir", "FORMAT") {
			t.Errorf("%s: %v, want %s", name, err, c.want)
		}
	}
}

// TestNames: a name that only resembles a store's file is not one.
func TestNames(t *testing.T) {
	for _, name := range []string{"+0000000000000000001.log", "-0000000000000000001.log", "00000000000000000000.log", "000000000000000000001.log", "0000000000000000001.log", "00000000000000000001.log.tmp.tmp", "FORMAT.log"} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := wal.Open(dir, wal.Options{}); !errors.Is(err, wal.ErrForeign) || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// flaky fails one of the operations on a disk, reads included.
type flaky struct {
	*crashdisk.Disk
	fail func(operation, name string) error
}

func (f flaky) Names() ([]string, error) {
	if err := f.fail("Names", ""); err != nil {
		return nil, err
	}
	return f.Disk.Names()
}

func (f flaky) Open(name string) (disk.Source, error) {
	if err := f.fail("Open", name); err != nil {
		return nil, err
	}
	s, err := f.Disk.Open(name)
	return flakySource{s, name, f.fail}, err
}

type flakySource struct {
	disk.Source
	name string
	fail func(operation, name string) error
}

func (s flakySource) ReadAt(b []byte, at int64) (int, error) {
	if err := s.fail("ReadAt", s.name); err != nil {
		return 0, err
	}
	return s.Source.ReadAt(b, at)
}

// TestEveryDiskError: whichever operation on the disk fails, even only once, some call reports it and no acknowledged
// write is lost.
func TestEveryDiskError(t *testing.T) {
	errDisk := errors.New("input/output error")
	for n, quiet := 1, 0; quiet < 20; n++ { // the number of operations varies
		d := crashdisk.New(crashdisk.Faults{})
		var mu sync.Mutex // a snapshot is made beside the writes
		count, what := 0, ""
		fail := func(operation, name string) error {
			mu.Lock()
			defer mu.Unlock()
			if count++; count == n {
				what = operation + " " + name
				return errDisk
			}
			return nil
		}
		d.Fail(fail)
		now := func() string {
			mu.Lock()
			defer mu.Unlock()
			return what
		}
		acknowledged := map[string][]byte{}
		for life, o := range []wal.Options{{}, {CompactBytes: 300}, {CompactBytes: 2000}, {}} {
			before := now()
			o.FirstRevision = 100
			told := liveOn(t, flaky{d, fail}, o, fmt.Sprint(life), acknowledged)
			if after := now(); after != before && !errors.Is(told, errDisk) {
				t.Errorf("operation %d, %s in life %d: told %v", n, after, life, told)
			}
			if told != nil && !errors.Is(told, errDisk) {
				t.Errorf("operation %d, life %d: told %v", n, life, told)
			}
		}
		if quiet++; now() != "" {
			quiet = 0
		}
		d.Fail(nil)
		s, err := wal.OpenIn(d, "dir", wal.Options{FirstRevision: 100})
		if err != nil {
			t.Fatalf("operation %d, %s: %v", n, now(), err)
		}
		for key, value := range acknowledged {
			if r, err := s.Get(t.Context(), key); err != nil || !bytes.Equal(r.Value, value) {
				t.Errorf("operation %d, %s: %s is lost: %v", n, now(), key, err)
			}
		}
		if err := s.Close(); err != nil {
			t.Errorf("operation %d, %s: %v", n, now(), err)
		}
		if n > 2000 {
			t.Fatal("there is no end of operations")
		}
	}
}

// liveOn opens a store, writes to it and closes it, and returns the errors.
func liveOn(t *testing.T, d disk.Dir, o wal.Options, life string, acknowledged map[string][]byte) error {
	t.Helper()
	s, err := wal.OpenIn(d, "dir", o)
	if err != nil {
		return err
	}
	var told []error
	for i := range 12 {
		key, value := fmt.Sprintf("%s/%d", life, i), bytes.Repeat([]byte(life), 60)
		if _, err := s.Create(t.Context(), key, value); err == nil {
			acknowledged[key] = value
		} else if told = append(told, err); !errors.Is(err, wal.ErrFailed) {
			t.Errorf("Create of %s: %v", key, err)
		}
	}
	if len(told) > 0 && storage.Err(s) == nil {
		t.Errorf("%v, but Err is nil", told[0])
	}
	return errors.Join(append(told, s.Close())...)
}

// TestSnapshotOfSeveralFrames: whichever write of a snapshot fails, the store reports it, and has all records when
// reopened; so it does when none fails.
func TestSnapshotOfSeveralFrames(t *testing.T) {
	errDisk := errors.New("no space left on device")
	for n, fired := 1, true; fired; n++ {
		synctest.Test(t, func(t *testing.T) {
			fired = false
			d := crashdisk.New(crashdisk.Faults{})
			s, err := wal.OpenIn(d, "dir", wal.Options{})
			if err != nil {
				t.Fatal(err)
			}
			for i := range 7 {
				if _, err := s.Create(t.Context(), fmt.Sprint(i), bytes.Repeat([]byte{byte(i)}, 400<<10)); err != nil {
					t.Fatal(err)
				}
			}
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			writes := 0
			d.Fail(func(operation, name string) error {
				if operation != "Write" || !strings.HasSuffix(name, ".snapshot.tmp") {
					return nil
				}
				if writes++; writes != n {
					return nil
				}
				fired = true
				return errDisk
			})
			if s, err = wal.OpenIn(d, "dir", wal.Options{CompactBytes: 1}); err != nil {
				t.Fatal(err)
			}
			told := []error{}
			for i := range 200 { // until the snapshot is complete or has failed
				if _, err := s.Create(t.Context(), fmt.Sprint("more/", i), nil); err != nil {
					told = append(told, err)
					break
				}
				if names, err := d.Names(); err != nil || strings.Contains(strings.Join(names, " "), ".snapshot ") {
					break
				}
				time.Sleep(time.Millisecond)
			}
			told = append(told, s.Close())
			if err := errors.Join(told...); fired && !errors.Is(err, errDisk) || !fired && err != nil {
				t.Errorf("write %d of a snapshot fails: told %v", n, err)
			}
			d.Fail(nil)
			if s, err = wal.OpenIn(d, "dir", wal.Options{}); err != nil {
				t.Fatalf("write %d: %v", n, err)
			}
			for i := range 7 {
				if r, err := s.Get(t.Context(), fmt.Sprint(i)); err != nil || !bytes.Equal(r.Value, bytes.Repeat([]byte{byte(i)}, 400<<10)) {
					t.Errorf("write %d: %d is lost: %v", n, i, err)
				}
			}
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestLogIsCountedOnce: the size of an existing log counts once towards the next snapshot.
func TestLogIsCountedOnce(t *testing.T) {
	d := crashdisk.New(crashdisk.Faults{})
	for life, want := range []bool{false, false, true} {
		s, err := wal.OpenIn(d, "dir", wal.Options{CompactBytes: 1000})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Create(t.Context(), fmt.Sprint(life), make([]byte, 330)); err != nil {
			t.Fatal(err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		names, err := d.Names()
		if err != nil {
			t.Fatal(err)
		}
		if due := len(names) > 2; due != want {
			t.Errorf("after %d writes of 330 bytes there are %q", life+1, names)
		}
	}
}

// TestTornCopy: a torn write is truncated even if its value holds a valid frame of the same log.
func TestTornCopy(t *testing.T) {
	const log, header = "00000000000000000001.log", 28
	d := crashdisk.New(crashdisk.Faults{})
	s, err := wal.OpenIn(d, "dir", wal.Options{})
	if err != nil {
		t.Fatal(err)
	}
	last := fill(t, s, 1)
	before := d.Contents(log)
	if _, err := s.Create(t.Context(), "copy", append(bytes.Clone(before[header:]), "and more of it"...)); err != nil {
		t.Fatal(err)
	}
	image := d.Contents(log) // not closed
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	d.Replace(log, image[:len(image)-5])
	if s, err = wal.OpenIn(d, "dir", wal.Options{}); err != nil {
		t.Fatal(err)
	}
	if now, err := s.Revision(t.Context()); err != nil || now != last {
		t.Errorf("reopened at %d, %v; want %d", now, err, last)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

// TestWithdrawn: of the writes that wait for the disk, exactly those whose callers have gone are withdrawn.
func TestWithdrawn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := crashdisk.New(crashdisk.Faults{})
		s, err := wal.OpenIn(d, "dir", wal.Options{})
		if err != nil {
			t.Fatal(err)
		}
		release := make(chan struct{})
		d.Fail(func(operation, _ string) error {
			if operation == "Sync" {
				<-release
			}
			return nil
		})
		errs := map[string]chan error{}
		ctx, cancel := context.WithCancel(t.Context())
		for _, key := range []string{"first", "second", "gone", "third", "gone, too", "fourth"} {
			asker, told := t.Context(), make(chan error, 1)
			if strings.HasPrefix(key, "gone") {
				asker = ctx
			}
			errs[key] = told
			go func() {
				_, err := s.Create(asker, key, nil)
				told <- err
			}()
			synctest.Wait()
		}
		cancel()
		synctest.Wait()
		close(release)
		for key, told := range errs {
			gone := strings.HasPrefix(key, "gone")
			if err := <-told; errors.Is(err, context.Canceled) != gone || !gone && err != nil {
				t.Errorf("%s: %v", key, err)
			}
			if _, err := s.Get(t.Context(), key); errors.Is(err, storage.ErrNotFound) != gone {
				t.Errorf("Get of %s: %v", key, err)
			}
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
}

// TestLargeFramesAreRead: Open fails if any read of a large log does, and does not take a part for the whole.
func TestLargeFramesAreRead(t *testing.T) {
	errDisk := errors.New("input/output error")
	d := crashdisk.New(crashdisk.Faults{})
	s, err := wal.OpenIn(d, "dir", wal.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 3 {
		if _, err := s.Create(t.Context(), fmt.Sprint(i), make([]byte, 600<<10)); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	for n, fired := 1, true; fired; n++ {
		reads := 0
		fired = false
		s, err := wal.OpenIn(flaky{d, func(operation, _ string) error {
			if operation == "ReadAt" {
				reads++
			}
			if operation != "ReadAt" || reads != n {
				return nil
			}
			fired = true
			return errDisk
		}}, "dir", wal.Options{})
		if errors.Is(err, errDisk) != fired || !fired && err != nil {
			t.Errorf("read %d: %v", n, err)
		}
		if err == nil {
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		}
	}
}
