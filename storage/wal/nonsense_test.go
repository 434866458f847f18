package wal_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"testing"

	"github.com/keelson-dev/keelson/storage/wal"
)

// TestNonsense: contradictory content is refused even if all checksums are correct.
func TestNonsense(t *testing.T) {
	const header, frame = 28, 16 // bytes of a file's, and of a frame's
	put := func(at int, value uint64) func([]byte) []byte {
		return func(b []byte) []byte {
			binary.LittleEndian.PutUint64(b[(at+len(b))%len(b):], value)
			return b
		}
	}
	second := func(b []byte) int { // where the second frame of a file is
		return header + frame + int(binary.LittleEndian.Uint32(b[header+4:]))
	}
	for name, c := range map[string]struct {
		log    bool
		damage func([]byte) []byte
	}{
		"a snapshot's record from later":    {false, put(header+frame+1, 1<<40)},
		"a snapshot's record from nowhere":  {false, put(header+frame+1, 0)},
		"a snapshot's keys out of order":    {false, func(b []byte) []byte { b[header+frame+1+8+8] = 'z'; return b }},
		"a snapshot with one record less":   {false, put(-8, 1)},
		"a snapshot that goes on":           {false, func(b []byte) []byte { return append(b, b[len(b)-frame-9:]...) }},
		"a log that leaves out a revision":  {true, func(b []byte) []byte { b[second(b)+frame+1]++; return b }},
		"a log that repeats a revision":     {true, func(b []byte) []byte { b[second(b)+frame+1]--; return b }},
		"a log that is said to be followed": {true, func(b []byte) []byte { b[len(b)-9] = 'n'; return b }},
		"a log that goes on after its end": {true, func(b []byte) []byte {
			mark := bytes.Clone(b[len(b)-frame-9:])
			b[len(b)-9] = 'n'
			return append(b, mark...)
		}},
		"a log with another kind of frame": {true, func(b []byte) []byte { b[len(b)-9] = 'x'; return b }},
	} {
		t.Run(name, func(t *testing.T) {
			d, snapshotName, logName := stopped(t)
			file := snapshotName
			if c.log {
				file = logName
			}
			whole := d.Contents(file)
			if same := wal.Repair(whole); !bytes.Equal(same, whole) {
				t.Fatal("the checksums of an undamaged file are not what they are taken to be")
			}
			d.Replace(file, wal.Repair(c.damage(bytes.Clone(whole))))
			s, err := wal.OpenIn(d, "dir", wal.Options{})
			t.Log(err)
			if !errors.Is(err, wal.ErrCorrupt) {
				t.Errorf("Open = %v, want %v", err, wal.ErrCorrupt)
				if err == nil {
					_ = s.Close()
				}
			}
		})
	}
}
