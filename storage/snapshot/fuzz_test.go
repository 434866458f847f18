package snapshot_test

import (
	"bytes"
	"errors"
	"testing"

	"github.com/keelson-dev/keelson/storage/memory"
	"github.com/keelson-dev/keelson/storage/snapshot"
)

// FuzzFile reads arbitrary bytes: either the file is refused with a reason and nothing is written, or it can be
// restored and written again. Checksums would stop the fuzzer, so it may have them repaired.
func FuzzFile(f *testing.F) {
	for _, n := range []int{0, 1, 5, 300} {
		file, _ := write(f, filled(f, n, 20))
		f.Add(file, false)
		f.Add(file, true)
	}
	f.Add([]byte(nil), false)
	f.Add([]byte("keelsnap\x01\x00\x00\x00"), true)
	f.Fuzz(func(t *testing.T, file []byte, repair bool) {
		if repair {
			file = snapshot.Repair(file)
		}
		target := memory.New(memory.Options{})
		restored, err := restore(t.Context(), target, file, snapshot.RestoreOptions{})
		if err != nil {
			var bad *snapshot.FileError
			if !errors.As(err, &bad) || bad.Offset < 0 || bad.Offset > int64(len(file)) {
				t.Errorf("Restore = %v", err)
			}
			if now, err := target.Revision(t.Context()); err != nil || now != 1 {
				t.Errorf("a file that was refused took the store to %d, %v", now, err)
			}
			return
		}
		again, info := write(t, target)
		checked, err := snapshot.Check(t.Context(), bytes.NewReader(again), int64(len(again)))
		if err != nil || checked != info || info.Records != restored.Records || info.Bytes != restored.Bytes {
			t.Errorf("restored %+v, written again %+v, %v", restored, checked, err)
		}
	})
}
