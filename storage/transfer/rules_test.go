package transfer_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/keelson-dev/keelson/storage"
	"github.com/keelson-dev/keelson/storage/memory"
	"github.com/keelson-dev/keelson/storage/transfer"
)

// mute fails its n-th call of Revision, and lists of a single record.
type mute struct {
	*memory.Store
	revisions  int
	listing    bool
	err        error
	sourceList error
}

func (m *mute) Revision(ctx context.Context) (int64, error) {
	if m.revisions--; m.revisions == 0 {
		return 0, m.err
	}
	return m.Store.Revision(ctx)
}

func (m *mute) List(ctx context.Context, prefix string, o storage.ListOptions) (storage.Page, error) {
	if m.listing && o.Limit == 1 {
		return storage.Page{}, m.err
	}
	if m.sourceList != nil && o.After != "" {
		return storage.Page{}, m.sourceList
	}
	return m.Store.List(ctx, prefix, o)
}

// TestCopyAsksFirst: Copy fails if the revision of either store cannot be read, and writes nothing before both are
// known.
func TestCopyAsksFirst(t *testing.T) {
	broken := errors.New("broken")
	for name, c := range map[string]struct {
		from, to mute
		want     error
		written  int
	}{
		"whether the target is empty": {to: mute{listing: true, err: broken}, want: broken},
		"where the target begins":     {to: mute{revisions: 1, err: broken}, want: broken},
		"where the source is":         {from: mute{revisions: 1, err: broken}, want: broken},
		"where the target is then":    {to: mute{revisions: 2, err: broken}, want: broken, written: 20},
		"a source that was canceled":  {from: mute{sourceList: context.Canceled}, want: context.Canceled, written: 16},
	} {
		t.Run(name, func(t *testing.T) {
			c.from.Store, c.to.Store = memory.New(memory.Options{}), memory.New(memory.Options{})
			fill(t, &c.from, 20)
			done, err := transfer.Copy(t.Context(), &c.to, &c.from, transfer.CopyOptions{})
			if !errors.Is(err, c.want) || errors.Is(err, transfer.ErrNotEmpty) {
				t.Errorf("got %v, want %v", err, c.want)
			}
			page, err := c.to.Store.List(t.Context(), "", storage.ListOptions{})
			if err != nil || len(page.Records) != c.written || done.Records != int64(c.written) {
				t.Errorf("%d records, said %d, %v; want %d", len(page.Records), done.Records, err, c.written)
			}
		})
	}
}

// slow takes a second per record that it creates.
type slow struct{ *memory.Store }

func (s slow) Create(ctx context.Context, key string, value []byte) (int64, error) {
	time.Sleep(time.Second)
	return s.Store.Create(ctx, key, value)
}

// TestWriters: the given number of records are written at the same time, 32 by default.
func TestWriters(t *testing.T) {
	for writers, want := range map[int]time.Duration{0: 4 * time.Second, -1: 4 * time.Second, 1: 128 * time.Second, 64: 2 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			source := memory.New(memory.Options{})
			fill(t, source, 128)
			start := time.Now()
			if _, err := transfer.Copy(t.Context(), slow{memory.New(memory.Options{})}, source, transfer.CopyOptions{Writers: writers}); err != nil {
				t.Error(err)
			}
			if took := time.Since(start); took != want {
				t.Errorf("%d writers: %v, want %v", writers, took, want)
			}
		})
	}
}

// TestProgress: every 256 records, and at the end.
func TestProgress(t *testing.T) {
	for n, want := range map[int][]int64{0: {0}, 255: {255}, 256: {256, 256}, 600: {256, 512, 600}} {
		source, target := memory.New(memory.Options{}), memory.New(memory.Options{})
		fill(t, source, n)
		var told []int64
		if _, err := transfer.Copy(t.Context(), target, source, transfer.CopyOptions{Progress: func(c transfer.Copied) { told = append(told, c.Records) }}); err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(told, want) {
			t.Errorf("a copy of %d told of %d, want %d", n, told, want)
		}
		if want[0] == 0 {
			want = nil // nothing to compare
		} else if n == 256 {
			want = want[:1]
		}
		for name, sides := range map[string][2]storage.Reader{"the same": {source, target}, "in none": {source, memory.New(memory.Options{})}, "in one": {memory.New(memory.Options{}), source}} {
			told = nil
			_, err := transfer.Verify(t.Context(), transfer.Side{Store: sides[0]}, transfer.Side{Store: sides[1]}, transfer.VerifyOptions{
				Progress: func(v transfer.Verified) { told = append(told, max(v.First, v.Second)) }})
			if err != nil || !slices.Equal(told, want) {
				t.Errorf("a comparison of %d records, %s, told of %d, %v; want %d", n, name, told, err, want)
			}
		}
	}
}

// TestVerifyWhereOneEnds: records beyond the end of the other store are in one only.
func TestVerifyWhereOneEnds(t *testing.T) {
	long, short, none := memory.New(memory.Options{}), memory.New(memory.Options{}), memory.New(memory.Options{})
	fill(t, long, 9)
	fill(t, short, 1)
	for name, c := range map[string]struct {
		a, b          storage.Reader
		first, second int64
		different     int64
		kind          transfer.Kind
	}{
		"the second ends": {long, short, 9, 1, 8, transfer.OnlyFirst},
		"the first ends":  {short, long, 1, 9, 8, transfer.OnlySecond},
		"none there":      {long, none, 9, 0, 9, transfer.OnlyFirst},
		"none here":       {none, long, 0, 9, 9, transfer.OnlySecond},
		"none":            {none, none, 0, 0, 0, ""},
	} {
		v, err := transfer.Verify(t.Context(), transfer.Side{Store: c.a}, transfer.Side{Store: c.b}, transfer.VerifyOptions{})
		if err != nil || v.First != c.first || v.Second != c.second || v.Different != c.different || int64(len(v.Differences)) != c.different {
			t.Errorf("%s: %+v, %v", name, v, err)
		}
		for _, d := range v.Differences {
			if d.Kind != c.kind || d.Key == "" {
				t.Errorf("%s: %+v, want it %s", name, d, c.kind)
			}
		}
	}
}

// TestMostDifferences: a hundred are listed, or as many as requested; a message names three.
func TestMostDifferences(t *testing.T) {
	many, none := memory.New(memory.Options{}), memory.New(memory.Options{})
	fill(t, many, 150)
	for most, want := range map[int]int{-1: 100, 0: 100, 1: 1, 149: 149, 1000: 150} {
		v, err := transfer.Verify(t.Context(), transfer.Side{Store: many}, transfer.Side{Store: none}, transfer.VerifyOptions{Most: most})
		if err != nil || v.Different != 150 || len(v.Differences) != want {
			t.Errorf("%d: %d of %d are named, %v; want %d", most, len(v.Differences), v.Different, err, want)
		}
	}
	d := transfer.Difference{Key: "/a", Kind: transfer.OtherValue}
	for n, want := range map[int]string{
		1: `1 differences between 5 and 6 records: "/a" with different values`,
		3: `3 differences between 5 and 6 records: "/a" with different values, "/a" with different values, "/a" with different values`,
		4: `4 differences between 5 and 6 records: "/a" with different values, "/a" with different values, "/a" with different values, …`,
	} {
		v := transfer.Verified{First: 5, Second: 6, Different: int64(n), Differences: slices.Repeat([]transfer.Difference{d}, n)}
		if got := fmt.Sprint(v.Err()); strings.TrimSpace(got) != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}
