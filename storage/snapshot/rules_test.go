package snapshot_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/keelson-dev/keelson/storage"
	"github.com/keelson-dev/keelson/storage/memory"
	"github.com/keelson-dev/keelson/storage/snapshot"
)

// Parts of a file in the documented format, with checksums left to snapshot.Repair.

func head(revision uint64) []byte {
	return binary.LittleEndian.AppendUint32(binary.LittleEndian.AppendUint64([]byte("keelsnap\x01\x00\x00\x00"), revision), 0)
}

func chunk(count uint32, payload ...byte) []byte {
	b := binary.LittleEndian.AppendUint32([]byte{'c'}, uint32(len(payload)))
	return append(binary.LittleEndian.AppendUint32(b, count), append([]byte{0, 0, 0, 0}, payload...)...)
}

func record(revision uint64, key, value string) []byte {
	b := binary.LittleEndian.AppendUint64(nil, revision)
	b = binary.LittleEndian.AppendUint32(b, uint32(len(key)))
	return append(binary.LittleEndian.AppendUint32(b, uint32(len(value))), key+value...)
}

func end(records, size uint64) []byte {
	b := binary.LittleEndian.AppendUint64([]byte{'e'}, records)
	return append(binary.LittleEndian.AppendUint64(b, size), make([]byte, 32)...)
}

func file(parts ...[]byte) []byte { return snapshot.Repair(slices.Concat(parts...)) }

// change changes bytes of a valid file.
func change(b []byte, at int, to ...byte) []byte {
	b = bytes.Clone(b)
	copy(b[at:], to)
	return b
}

// TestReasons: a file that cannot be used is refused with the offset and the reason.
func TestReasons(t *testing.T) {
	one, two := record(5, "a", "x"), record(4, "b", "yy") // 18 and 19 bytes
	good := file(head(5), chunk(2, slices.Concat(one, two)...), end(2, 5))
	const endAt = 24 + 13 + 18 + 19
	huge := make([]byte, 8)
	binary.LittleEndian.PutUint32(huge, 1<<20+64<<20+16)
	larger := make([]byte, 8)
	binary.LittleEndian.PutUint32(larger, 1<<20+64<<20+17)
	larger[4], huge[4] = 1, 1
	damaged, noRecord := snapshot.ErrDamaged, func(after string) string { return fmt.Sprintf("what follows %q is no record", after) }
	for name, c := range map[string]struct {
		file   []byte
		offset int64 // -1 for a valid file
		reason string
		err    error
	}{
		"two records":                {good, -1, "", nil},
		"in two chunks":              {file(head(5), chunk(1, one...), chunk(1, two...), end(2, 5)), -1, "", nil},
		"none":                       {file(head(1), end(0, 0)), -1, "", nil},
		"the last of all revisions":  {file(head(math.MaxInt64), chunk(1, record(math.MaxInt64, "a", "")...), end(1, 1)), -1, "", nil},
		"empty":                      {nil, 0, "it does not begin as a snapshot does", snapshot.ErrForeign},
		"seven bytes":                {good[:7], 0, "it does not begin as a snapshot does", snapshot.ErrForeign},
		"another beginning":          {change(good, 7, 'q'), 0, "it does not begin as a snapshot does", snapshot.ErrForeign},
		"a name":                     {good[:8], 8, "the head is cut off", damaged},
		"most of a head":             {good[:23], 23, "the head is cut off", damaged},
		"another version":            {change(good, 8, 2), 8, "it has version 2, this program knows 1", snapshot.ErrVersion},
		"another revision":           {change(good, 12, 6), 20, "the head does not match its checksum", damaged},
		"revision 0":                 {file(head(0), end(0, 0)), 12, "revision 0 is not possible", damaged},
		"revision -1":                {file(head(1<<64-1), end(0, 0)), 12, "revision -1 is not possible", damaged},
		"only a head":                {good[:24], 24, "the file is cut off", damaged},
		"something else":             {file(head(5), []byte("x")), 24, "neither a chunk nor the end begins here", damaged},
		"no records in a chunk":      {file(head(5), chunk(0), end(0, 0)), 24, "a chunk of 0 bytes with 0 records is not possible", damaged},
		"a chunk too large":          {change(good, 25, larger...), 24, "a chunk of 68157457 bytes with 1 records is not possible", damaged},
		"the largest chunk":          {change(good, 25, huge...), int64(len(good)), "the file is cut off", damaged},
		"a chunk's head cut off":     {good[:36], 36, "the file is cut off", damaged},
		"a chunk cut off":            {good[:60], 60, "the file is cut off", damaged},
		"another count in a chunk":   {change(good, 29, 1), 24, "the chunk does not match its checksum", damaged},
		"another value":              {change(good, 54, 'z'), 24, "the chunk does not match its checksum", damaged},
		"more than the records":      {file(head(5), chunk(1, slices.Concat(one, two)...), end(1, 2)), 24 + 13 + 18, "the chunk is longer than its records", damaged},
		"fewer than was said":        {file(head(5), chunk(3, slices.Concat(one, two)...), end(2, 5)), endAt, noRecord("b"), damaged},
		"less than a record":         {file(head(5), chunk(1, one[:15]...), end(0, 0)), 24 + 13, noRecord(""), damaged},
		"a record cut off":           {file(head(5), chunk(2, slices.Concat(one, two[:18])...), end(2, 5)), 24 + 13 + 18, noRecord("a"), damaged},
		"a record without a key":     {file(head(5), chunk(1, record(5, "", "x")...), end(1, 1)), 24 + 13, noRecord(""), damaged},
		"a key again":                {file(head(5), chunk(2, slices.Concat(one, record(4, "a", ""))...), end(2, 3)), 24 + 13 + 18, noRecord("a"), damaged},
		"a key again in a new chunk": {file(head(5), chunk(1, one...), chunk(1, one...), end(2, 4)), 24 + 13 + 18 + 13, noRecord("a"), damaged},
		"out of order":               {file(head(5), chunk(2, slices.Concat(two, one)...), end(2, 5)), 24 + 13 + 19, noRecord("b"), damaged},
		"a record's revision 0":      {file(head(5), chunk(1, record(0, "a", "")...), end(1, 1)), 24 + 13, noRecord(""), damaged},
		"a record's negative one":    {file(head(5), chunk(1, record(1<<63, "a", "")...), end(1, 1)), 24 + 13, noRecord(""), damaged},
		"a revision of later":        {file(head(5), chunk(1, record(6, "a", "")...), end(1, 1)), 24 + 13, noRecord(""), damaged},
		"the end cut off":            {good[:endAt+10], endAt + 10, "the file is cut off", damaged},
		"another number at the end":  {file(head(5), chunk(1, one...), end(2, 2)), 24 + 13 + 18, "the end does not speak of the 1 records before it", damaged},
		"another size at the end":    {file(head(5), chunk(1, one...), end(1, 3)), 24 + 13 + 18, "the end does not speak of the 1 records before it", damaged},
		"the digest cut off":         {good[:len(good)-1], int64(len(good)) - 1, "the file is cut off", damaged},
		"another digest":             {change(good, len(good)-1, good[len(good)-1]+1), endAt, "the file does not match its checksum", damaged},
		"more behind":                {append(bytes.Clone(good), "abc"...), int64(len(good)), "3 bytes follow the end", damaged},
	} {
		_, err := snapshot.Check(t.Context(), bytes.NewReader(c.file), int64(len(c.file)))
		if c.offset < 0 {
			if err != nil {
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		if bad := (*snapshot.FileError)(nil); !errors.As(err, &bad) || *bad != (snapshot.FileError{Offset: c.offset, Reason: c.reason, Err: c.err}) {
			t.Errorf("%s: %v, want %v: at byte %d: %s", name, err, c.err, c.offset, c.reason)
		}
	}
}

// tornFile changes its content, or fails, from a given read or byte on.
type tornFile struct {
	io.ReaderAt
	reads int   // before the change
	from  int64 // bytes
	err   error
	other io.ReaderAt
}

func (f *tornFile) ReadAt(b []byte, at int64) (int, error) {
	if f.reads--; f.reads >= 0 {
		return f.ReaderAt.ReadAt(b, at)
	}
	if f.other != nil {
		return f.other.ReadAt(b, at)
	}
	if at+int64(len(b)) > f.from {
		n, err := f.ReaderAt.ReadAt(b[:max(0, f.from-at)], at)
		if err == nil || errors.Is(err, io.EOF) {
			err = f.err
		}
		return n, err
	}
	return f.ReaderAt.ReadAt(b, at)
}

// TestDiskFails: a file that cannot be read does not count as damaged; one shorter than stated does.
func TestDiskFails(t *testing.T) {
	whole, _ := write(t, filled(t, 12, 10))
	for at := range int64(len(whole)) {
		_, err := snapshot.Check(t.Context(), &tornFile{ReaderAt: bytes.NewReader(whole), from: at, err: errDied}, int64(len(whole)))
		if bad := (*snapshot.FileError)(nil); !errors.Is(err, errDied) || errors.As(err, &bad) || !strings.HasPrefix(err.Error(), "read snapshot at byte ") {
			t.Fatalf("fails at %d: %v", at, err)
		}
		_, err = snapshot.Check(t.Context(), bytes.NewReader(whole[:at]), int64(len(whole)))
		if bad := (*snapshot.FileError)(nil); !errors.As(err, &bad) || bad.Reason != "the file is cut off" || bad.Offset > at || !errors.Is(err, snapshot.ErrDamaged) {
			t.Fatalf("ends at %d: %v", at, err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := snapshot.Check(ctx, bytes.NewReader(whole), int64(len(whole))); !errors.Is(err, context.Canceled) {
		t.Errorf("under a context that ended: %v", err)
	}
}

// full takes a limited number of bytes.
type full struct{ left int }

func (f *full) Write(b []byte) (int, error) {
	n := min(len(b), f.left)
	if f.left -= n; n < len(b) {
		return n, errDied
	}
	return n, nil
}

// TestFull: Write fails wherever the writer does.
func TestFull(t *testing.T) {
	source := memory.New(memory.Options{})
	for _, key := range []string{"a", "b", "c"} {
		if _, err := source.Create(t.Context(), key, bytes.Repeat([]byte(key), 700<<10)); err != nil {
			t.Fatal(err)
		}
	}
	whole, _ := write(t, source)
	const first = 24 + 13 + 2*(16+1+700<<10) // the first chunk's end
	for _, left := range []int{0, 1, 23, 24, 30, 36, 37, 1000, first - 1, first, first + 5, first + 13, first + 1000, len(whole) - 50, len(whole) - 49, len(whole) - 33, len(whole) - 32, len(whole) - 1} {
		info, err := snapshot.Write(t.Context(), &full{left}, source, snapshot.WriteOptions{})
		if !errors.Is(err, errDied) || !strings.HasPrefix(err.Error(), "write snapshot: ") {
			t.Errorf("room for %d of %d bytes: %+v, %v", left, len(whole), info, err)
		}
	}
	if _, err := snapshot.Write(t.Context(), &full{len(whole)}, source, snapshot.WriteOptions{}); err != nil {
		t.Errorf("room for all: %v", err)
	}
}

// moody fails its n-th write only.
type moody struct{ n int }

func (m *moody) Write(b []byte) (int, error) {
	if m.n--; m.n == 0 {
		return 0, errDied
	}
	return len(b), nil
}

// TestFailsOnce: a failed write is not made good by later ones.
func TestFailsOnce(t *testing.T) {
	source := memory.New(memory.Options{})
	for _, key := range []string{"a", "b", "c"} {
		if _, err := source.Create(t.Context(), key, bytes.Repeat([]byte(key), 700<<10)); err != nil {
			t.Fatal(err)
		}
	}
	const writes = 1 + 2*2 + 2 // the head, two chunks with a head each, and the end with the digest
	for n := 1; n <= writes+1; n++ {
		if _, err := snapshot.Write(t.Context(), &moody{n}, source, snapshot.WriteOptions{}); errors.Is(err, errDied) != (n <= writes) {
			t.Errorf("write %d fails: %v", n, err)
		}
	}
}

// sized has one record of the given size.
type sized struct {
	storage.Reader
	value []byte
}

func (s sized) List(context.Context, string, storage.ListOptions) (storage.Page, error) {
	return storage.Page{Revision: 1, Records: []storage.Record{{Key: "k", Value: s.value, Revision: 1}}}, nil
}

// TestLargestRecord: 64 MiB of key and value fit into a snapshot, one byte more does not.
func TestLargestRecord(t *testing.T) {
	value := make([]byte, 64<<20)
	if _, err := snapshot.Write(t.Context(), discard{}, sized{value: value[1:]}, snapshot.WriteOptions{}); err != nil {
		t.Errorf("the largest: %v", err)
	}
	if _, err := snapshot.Write(t.Context(), discard{}, sized{value: value}, snapshot.WriteOptions{}); !errors.Is(err, storage.ErrTooLarge) || !strings.HasSuffix(err.Error(), `"k" has 67108865 bytes`) {
		t.Errorf("a byte more: %v", err)
	}
}

// TestChunks: a chunk ends with the record that fills a MiB.
func TestChunks(t *testing.T) {
	source := memory.New(memory.Options{})
	for i := range 40 {
		if _, err := source.Create(t.Context(), fmt.Sprintf("%08d", i), make([]byte, 64<<10-16-8)); err != nil {
			t.Fatal(err)
		}
	}
	whole, _ := write(t, source)
	var counts []uint32
	for at := 24; whole[at] == 'c'; at += 13 + int(binary.LittleEndian.Uint32(whole[at+1:])) {
		counts = append(counts, binary.LittleEndian.Uint32(whole[at+5:]))
	}
	if !slices.Equal(counts, []uint32{16, 16, 8}) {
		t.Errorf("chunks of %d records", counts)
	}
}

// TestOldRevision: a revision that was compacted beforehand is not reported as overtaken during the write.
func TestOldRevision(t *testing.T) {
	source := memory.New(memory.Options{History: 10})
	for i := range 100 {
		if _, err := source.Create(t.Context(), fmt.Sprint(i), nil); err != nil {
			t.Fatal(err)
		}
	}
	_, err := snapshot.Write(t.Context(), discard{}, source, snapshot.WriteOptions{Revision: 5})
	if !errors.Is(err, storage.ErrCompacted) || strings.Contains(err.Error(), "more was written") {
		t.Errorf("an old revision: %v", err)
	}
	var progress []int64
	info, err := snapshot.Write(t.Context(), discard{}, source, snapshot.WriteOptions{Revision: 95, Prefix: "9", Progress: func(i snapshot.Info) { progress = append(progress, i.Records) }})
	if err != nil || info != (snapshot.Info{Revision: 95, Records: 5, Bytes: 9}) || !slices.Equal(progress, []int64{5}) {
		t.Errorf("a revision and prefix: %+v, %v, told of %d", info, err, progress)
	}
}

// TestWriteFileFails: after a failure, no file is left and no success reported.
func TestWriteFileFails(t *testing.T) {
	dir, source := t.TempDir(), filled(t, 10, 10)
	if info, err := snapshot.WriteFile(t.Context(), filepath.Join(dir, "none", "state"), source, snapshot.WriteOptions{}); !errors.Is(err, os.ErrNotExist) || info != (snapshot.Info{}) {
		t.Errorf("no directory: %+v, %v", info, err)
	}
	taken := filepath.Join(dir, "taken")
	if err := os.MkdirAll(filepath.Join(taken, "inside"), 0o700); err != nil {
		t.Fatal(err)
	}
	if info, err := snapshot.WriteFile(t.Context(), taken, source, snapshot.WriteOptions{}); err == nil || info != (snapshot.Info{}) {
		t.Errorf("a directory at the name: %+v, %v", info, err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 1 {
		t.Errorf("%v is left, %v", left, err)
	}
}

// refusing fails chosen calls.
type refusing struct {
	*memory.Store
	empty, revisions int // the call that fails, counted from 1
	after            string
	err              error
	create           func(key string) (string, bool)
}

func (r *refusing) List(ctx context.Context, prefix string, o storage.ListOptions) (storage.Page, error) {
	if r.empty--; r.empty == 0 || r.after != "" && o.After >= r.after {
		return storage.Page{}, r.err
	}
	page, err := r.Store.List(ctx, prefix, o)
	page.More = page.More || r.after != "" && len(page.Records) > 0
	return page, err
}

func (r *refusing) Revision(ctx context.Context) (int64, error) {
	if r.revisions--; r.revisions == 0 {
		return 0, r.err
	}
	return r.Store.Revision(ctx)
}

func (r *refusing) Create(ctx context.Context, key string, value []byte) (int64, error) {
	if r.create != nil {
		to, ok := r.create(key)
		if !ok {
			return 1, nil
		}
		key = to
	}
	return r.Store.Create(ctx, key, value)
}

// TestRestoreFails: failures of the store or the file during Restore are reported; a record that could not be compared
// is not reported as equal.
func TestRestoreFails(t *testing.T) {
	source := memory.New(memory.Options{})
	for i := range 20 {
		if _, err := source.Create(t.Context(), fmt.Sprintf("%02d", i), []byte("same")); err != nil {
			t.Fatal(err)
		}
	}
	whole, _ := write(t, source)
	intact := func() io.ReaderAt { return bytes.NewReader(whole) }
	valueOf3 := 24 + 13 + 3*22 + 18
	lost := func(key string) func(string) (string, bool) {
		return func(k string) (string, bool) { return k, k != key }
	}
	renamed := func(key, to string) func(string) (string, bool) {
		return func(k string) (string, bool) {
			if k == key {
				return to, true
			}
			return k, true
		}
	}
	for name, c := range map[string]struct {
		file io.ReaderAt
		to   refusing
		ttl  func(storage.Record) time.Duration
		want error
		says string
	}{
		"nothing":                       {file: intact()},
		"looking whether it is empty":   {file: intact(), to: refusing{empty: 1}, want: errDied, says: "look whether the store is empty: "},
		"its first revision":            {file: intact(), to: refusing{revisions: 1}, want: errDied, says: "died"},
		"its revision":                  {file: intact(), to: refusing{revisions: 2}, want: errDied, says: "died"},
		"listing what is there":         {file: intact(), to: refusing{empty: 2}, want: errDied, says: `the restored store differs from the snapshot: list "" after "" at revision 0: died`},
		"listing half of it":            {file: intact(), to: refusing{after: "15"}, want: errDied, says: `the restored store differs from the snapshot: list "" after "15"`},
		"listing more than all":         {file: intact(), to: refusing{after: "19"}, want: errDied, says: `the restored store differs from the snapshot: list "" after "19"`},
		"the file, the second time":     {file: &tornFile{ReaderAt: bytes.NewReader(whole), reads: 1, from: 200, err: errDied}, want: errDied, says: "7 of 20 records are restored, empty the store before another attempt: died"},
		"the file, cut off in between":  {file: &tornFile{ReaderAt: bytes.NewReader(whole), reads: 1, other: bytes.NewReader(whole[:200])}, want: snapshot.ErrDamaged, says: "7 of 20 records are restored, empty the store before another attempt: snapshot is damaged: at byte 191: the file has changed since it was checked"},
		"the file, changed in between":  {file: &tornFile{ReaderAt: bytes.NewReader(whole), reads: 1, other: bytes.NewReader(change(whole, valueOf3, 'S'))}, want: snapshot.ErrDamaged, says: "3 of 20 records are restored, empty the store before another attempt: snapshot is damaged: at byte 103: the file has changed since it was checked"},
		"a record":                      {file: intact(), to: refusing{create: lost("07")}, says: `the restored store differs from the snapshot: "07" is missing`},
		"the last record":               {file: intact(), to: refusing{create: lost("19")}, says: `the restored store differs from the snapshot: "19" is missing`},
		"a record that was to stay":     {file: intact(), to: refusing{create: lost("07")}, ttl: func(storage.Record) time.Duration { return 0 }, says: `the restored store differs from the snapshot: "07" is missing`},
		"a record that may be gone":     {file: intact(), to: refusing{create: lost("07")}, ttl: func(storage.Record) time.Duration { return 1 }},
		"the last one that may be gone": {file: intact(), to: refusing{create: lost("19")}, ttl: func(storage.Record) time.Duration { return 1 }},
		"a key too small":               {file: intact(), to: refusing{create: renamed("07", "0")}, says: `the restored store differs from the snapshot: "0" is not of the snapshot`},
		"a key too large":               {file: intact(), to: refusing{create: renamed("07", "070")}, says: `the restored store differs from the snapshot: "07" is missing`},
		"a key behind all":              {file: intact(), to: refusing{create: renamed("19", "2")}, ttl: func(storage.Record) time.Duration { return 1 }, says: `the restored store differs from the snapshot: "2" is not of the snapshot`},
	} {
		t.Run(name, func(t *testing.T) {
			c.to.Store, c.to.err = memory.New(memory.Options{}), errDied
			restored, err := snapshot.Restore(t.Context(), &c.to, c.file, int64(len(whole)), snapshot.RestoreOptions{TTL: c.ttl})
			switch {
			case c.says == "" && err != nil:
				t.Error(err)
			case c.says != "" && (err == nil || !strings.HasPrefix(err.Error(), c.says) || c.want != nil && !errors.Is(err, c.want) || restored != (snapshot.Restored{})):
				t.Errorf("%+v, %v; want %s", restored, err, c.says)
			}
		})
	}
}

// TestRestoreTells: progress comes every 256 records and after the last; Behind is reported.
func TestRestoreTells(t *testing.T) {
	source := filled(t, 600, 0)
	whole, info := write(t, source)
	for first, behind := range map[int64]bool{info.Revision - 1: true, info.Revision: false, info.Revision + 1: false} {
		var told []int64
		restored, err := restore(t.Context(), memory.New(memory.Options{FirstRevision: first}), whole, snapshot.RestoreOptions{Progress: func(i snapshot.Info) { told = append(told, i.Records) }})
		if err != nil || restored.Behind != behind || restored.Info != info {
			t.Errorf("from %d on: %+v, %v", first, restored, err)
		}
		if !slices.Equal(told, []int64{256, 512, 600}) {
			t.Errorf("told of %d", told)
		}
	}
	if _, err := restore(t.Context(), memory.New(memory.Options{}), whole, snapshot.RestoreOptions{}); err != nil {
		t.Errorf("without anybody to tell: %v", err)
	}
}
