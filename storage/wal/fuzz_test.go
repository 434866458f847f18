package wal_test

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/keelson-dev/keelson/storage"
	"github.com/keelson-dev/keelson/storage/internal/disk/crashdisk"
	"github.com/keelson-dev/keelson/storage/wal"
)

// FuzzDamagedFile damages a file of a store at one place: Open must refuse it, or show exactly a state that the store
// was in, and only one that a crash can leave.
func FuzzDamagedFile(f *testing.F) {
	f.Add(byte(0), uint16(30), []byte{1}, uint16(0))
	f.Add(byte(0), uint16(600), []byte("xx"), uint16(0))
	f.Add(byte(0), uint16(0), []byte{}, uint16(1))
	f.Add(byte(0), uint16(0), []byte{}, uint16(300))
	f.Add(byte(1), uint16(100), []byte{0, 0, 0, 1}, uint16(0))
	f.Add(byte(1), uint16(0), []byte{}, uint16(20))
	f.Add(byte(2), uint16(13), []byte{1}, uint16(0))
	f.Add(byte(1), uint16(593), []byte("00000"), uint16(0)) // across the end of a frame
	disk, states := damageable(f)
	names, err := disk.Names()
	if err != nil {
		f.Fatal(err)
	}
	files := map[string][]byte{}
	for _, name := range names {
		files[name] = disk.Contents(name)
	}
	f.Fuzz(func(t *testing.T, which byte, at uint16, xor []byte, cut uint16) {
		// Shorter than a frame: if everything from the header of one write to the end of the log is destroyed, nothing
		// reveals it.
		xor = xor[:min(len(xor), 64)]
		d := crashdisk.New(crashdisk.Faults{})
		target := names[int(which)%len(names)]
		changed := false
		for name, content := range files {
			if name == target {
				damaged := bytes.Clone(content[:max(0, len(content)-int(cut))])
				for i, b := range xor {
					if place := int(at) + i; place < len(damaged) {
						damaged[place] ^= b
					}
				}
				changed = !bytes.Equal(damaged, content)
				content = damaged
			}
			d.Replace(name, content)
		}
		s, err := wal.OpenIn(d, "dir", wal.Options{})
		if err != nil {
			if !changed || !errors.Is(err, wal.ErrCorrupt) && !errors.Is(err, wal.ErrVersion) {
				t.Fatalf("changed %v: %v", changed, err)
			}
			return
		}
		defer s.Close()
		page, err := s.List(t.Context(), "", storage.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if got, want := fmt.Sprint(page.Records), states[page.Revision]; got != want {
			t.Errorf("damage to %s was accepted: revision %d shows\n%s, not\n%s", target, page.Revision, got, want)
		}
		// Bytes changed in place can at most look like a torn last write. (A file cut at the end of a frame cannot be
		// distinguished from one that was never longer.)
		newest := slices.Max(slices.Collect(maps.Keys(states)))
		if cut == 0 && page.Revision < newest-1 {
			t.Errorf("damage to %s took the store back from revision %d to %d", target, newest, page.Revision)
		}
	})
}

// damageable returns a store that was not closed, with its state at every revision that its log
// holds.
func damageable(f *testing.F) (*crashdisk.Disk, map[int64]string) {
	d := crashdisk.New(crashdisk.Faults{})
	s, err := wal.OpenIn(d, "dir", wal.Options{CompactBytes: 1})
	if err != nil {
		f.Fatal(err)
	}
	revision := fill(f, s, 1)
	waitForSnapshot(f, d, revision)
	if err := s.Close(); err != nil {
		f.Fatal(err)
	}
	if s, err = wal.OpenIn(d, "dir", wal.Options{}); err != nil {
		f.Fatal(err)
	}
	states := map[int64]string{}
	for range 5 {
		page, err := s.List(f.Context(), "", storage.ListOptions{})
		if err != nil {
			f.Fatal(err)
		}
		states[page.Revision] = fmt.Sprint(page.Records)
		fill(f, s, 1)
	}
	image := crashdisk.New(crashdisk.Faults{})
	names, err := d.Names()
	if err != nil {
		f.Fatal(err)
	}
	for _, name := range names {
		image.Replace(name, d.Contents(name))
	}
	page, err := s.List(f.Context(), "", storage.ListOptions{})
	if err != nil {
		f.Fatal(err)
	}
	states[page.Revision] = fmt.Sprint(page.Records)
	if err := s.Close(); err != nil {
		f.Fatal(err)
	}
	return image, states
}

// FuzzFile has Open read arbitrary bytes as each of a store's files.
func FuzzFile(f *testing.F) {
	disk, _ := damageable(f)
	names, err := disk.Names()
	if err != nil {
		f.Fatal(err)
	}
	for i, name := range names {
		f.Add(byte(i), disk.Contents(name))
		f.Add(byte(i), []byte(nil))
	}
	f.Fuzz(func(t *testing.T, which byte, content []byte) {
		d := crashdisk.New(crashdisk.Faults{})
		for _, name := range names {
			d.Replace(name, disk.Contents(name))
		}
		name := names[int(which)%len(names)]
		changed := !bytes.Equal(content, disk.Contents(name))
		d.Replace(name, append([]byte{}, content...))
		s, err := wal.OpenIn(d, "dir", wal.Options{})
		switch {
		case err == nil:
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		case !changed:
			t.Errorf("Open of an intact store: %v", err)
		case !errors.Is(err, wal.ErrCorrupt) && !errors.Is(err, wal.ErrVersion):
			t.Errorf("Open = %v, want ErrCorrupt", err)
		}
	})
}

// FuzzRepairedFile has Open read arbitrary bytes with correct checksums: headers, frames and their content may
// contradict each other and the other files. If Open accepts them, it accepts them again and shows the same.
func FuzzRepairedFile(f *testing.F) {
	disk, _ := damageable(f)
	names, err := disk.Names()
	if err != nil {
		f.Fatal(err)
	}
	for i, name := range names {
		content := disk.Contents(name)
		f.Add(byte(i), content)
		for _, at := range []int{0, 8, 16, 28, 32, 44, 45, 53, 54, 58, 62} { // magic, revision, identity, mark, length, payload
			if at < len(content) {
				changed := bytes.Clone(content)
				changed[at]++
				f.Add(byte(i), changed)
			}
		}
		f.Add(byte(i), append(bytes.Clone(content), content[min(28, len(content)):]...)) // every frame twice
	}
	f.Fuzz(func(t *testing.T, which byte, content []byte) {
		d := crashdisk.New(crashdisk.Faults{})
		for _, name := range names {
			d.Replace(name, disk.Contents(name))
		}
		d.Replace(names[int(which)%len(names)], wal.Repair(content))
		var before string
		for life := range 2 {
			s, err := wal.OpenIn(d, "dir", wal.Options{})
			if err != nil {
				if life > 0 || !errors.Is(err, wal.ErrCorrupt) && !errors.Is(err, wal.ErrVersion) {
					t.Fatalf("life %d: Open = %v", life, err)
				}
				return
			}
			page, err := s.List(t.Context(), "", storage.ListOptions{})
			if err != nil {
				t.Fatal(err)
			}
			state := fmt.Sprint(page.Revision, page.Records)
			if life > 0 && state != before {
				t.Errorf("reopened, the store shows\n%s, not\n%s", state, before)
			}
			before = state
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// The payloads behind the checksums: accepted content has one encoding.
func fuzzPayload(f *testing.F, again func([]byte) ([]byte, error)) {
	f.Fuzz(func(t *testing.T, payload []byte) {
		encoded, err := again(payload)
		if err == nil && !bytes.Equal(encoded, payload) {
			t.Errorf("accepted %x, which encodes as %x", payload, encoded)
		}
	})
}

func FuzzLogPayload(f *testing.F) {
	f.Add([]byte("b\x02\x00\x00\x00\x00\x00\x00\x00\x01\x01\x00\x00\x00\x01\x00\x00\x00av"))
	f.Add([]byte("b\x02\x00\x00\x00\x00\x00\x00\x00\x02\x01\x00\x00\x00\x00\x00\x00\x00a"))
	f.Add([]byte("c\x02\x00\x00\x00\x00\x00\x00\x00"))
	f.Add([]byte("n\x02\x00\x00\x00\x00\x00\x00\x80"))
	f.Add([]byte("b\x02\x00\x00\x00\x00\x00\x00\x00\x01\xff\xff\xff\xff\xff\xff\xff\xffa"))
	fuzzPayload(f, wal.DecodeLog)
}

func FuzzSnapshotPayload(f *testing.F) {
	f.Add([]byte("r\x02\x00\x00\x00\x00\x00\x00\x00\x01\x00\x00\x00\x01\x00\x00\x00av"))
	f.Add([]byte("e\x02\x00\x00\x00\x00\x00\x00\x00"))
	f.Add([]byte("r"))
	fuzzPayload(f, wal.DecodeSnapshot)
}
