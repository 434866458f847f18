package allocation_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/big"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/registry/allocation"
	"github.com/keelson-dev/keelson/registry/codec"
	"github.com/keelson-dev/keelson/storage"
	"github.com/keelson-dev/keelson/storage/memory"
)

const portsKey = "/registry/ranges/servicenodeports"

func newPorts(t testing.TB, store storage.Store, text string, used ...int) *allocation.Ports {
	t.Helper()
	r, err := allocation.ParsePortRange(text)
	if err != nil {
		t.Fatal(err)
	}
	p, err := allocation.NewPorts(store, r)
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Init(t.Context(), used); err != nil {
		t.Fatal(err)
	}
	return p
}

func wishes(ports ...int) []allocation.PortWish {
	list := make([]allocation.PortWish, len(ports))
	for i, port := range ports {
		list[i].Port = port
	}
	return list
}

func taken(t testing.TB, p *allocation.Ports) []int {
	t.Helper()
	list, err := p.Taken(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return list
}

func TestPorts(t *testing.T) {
	ctx := t.Context()
	p := newPorts(t, memory.New(memory.Options{}), "100-199", 100, 7)
	got, err := p.Take(ctx, wishes(0, 150, 0, 151))
	if err != nil || got[0] != 116 || got[1] != 150 || got[2] != 117 || got[3] != 151 {
		t.Fatalf("%v, %v", got, err) // the lower band has 16
	}
	for _, c := range []struct {
		wishes []allocation.PortWish
		index  int
		text   string
		err    error
	}{
		{wishes(0, 160, 150), 2, "provided port is already allocated", allocation.ErrPortTaken},
		{wishes(160, 160), 1, "provided port is already allocated", allocation.ErrPortTaken},
		{wishes(99), 0, "provided port is not in the valid range. The range of valid ports is 100-199", nil},
		{wishes(make([]int, 96)...), 95, "range is full", allocation.ErrFull},
	} {
		_, err := p.Take(ctx, c.wishes)
		var failed *allocation.PortError
		if !errors.As(err, &failed) || failed.Index != c.index || err.Error() != c.text || c.err != nil && !errors.Is(err, c.err) {
			t.Errorf("%v, want of %d: %s", err, c.index, c.text)
		}
	}
	if got, want := taken(t, p), []int{100, 116, 117, 150, 151}; !slices.Equal(got, want) {
		t.Errorf("taken %v, want %v: all or none", got, want)
	}
	if err := p.Release(ctx, []int{116, 150, 160, 99, 5000}, time.Now()); err != nil {
		t.Error(err)
	}
	if got, want := taken(t, p), []int{100, 117, 151}; !slices.Equal(got, want) {
		t.Errorf("taken %v, want %v", got, want)
	}
	all, err := p.Take(ctx, wishes(make([]int, 97)...))
	if err != nil || all[0] != 116 || all[96] != 115 {
		t.Errorf("%v, %v: want the upper band before the lower one", all, err)
	}
	if _, err := p.Take(ctx, wishes(0)); !errors.Is(err, allocation.ErrFull) {
		t.Error(err)
	}
}

func TestPortsTry(t *testing.T) {
	store := memory.New(memory.Options{})
	p := newPorts(t, store, "30000-30099", 30007)
	before, err := store.Revision(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for want, wishes := range map[string][]allocation.PortWish{
		"[32769 32770]":                      wishes(0, 0),
		"[30001 30002]":                      wishes(30001, 0),
		"[80]":                               wishes(80), // as upstream
		"provided port is already allocated": wishes(30007),
		"[30008 30009]":                      wishes(30008, 30009),
		"[]":                                 nil,
	} {
		got, err := p.Try(t.Context(), wishes)
		if text := fmt.Sprint(got); text != want && fmt.Sprint(err) != want {
			t.Errorf("%v: %v, %v, want %s", wishes, got, err, want)
		}
	}
	var failed *allocation.PortError
	if _, err := p.Try(t.Context(), wishes(30008, 30009, 30009)); !errors.As(err, &failed) || failed.Index != 2 || !errors.Is(err, allocation.ErrPortTaken) {
		t.Errorf("the same twice: %v", err)
	}
	if after, err := store.Revision(t.Context()); after != before {
		t.Errorf("trying wrote something: %d, %d, %v", before, after, err)
	}
}

// TestPortsOfSmallRange: a range of sixteen ports has no lower band.
func TestPortsOfSmallRange(t *testing.T) {
	for text, want := range map[string]int{"100-109": 100, "100-115": 100, "100-116": 116} {
		if got, err := newPorts(t, memory.New(memory.Options{}), text).Take(t.Context(), wishes(0)); err != nil || got[0] != want {
			t.Errorf("%s: %v, %v, want %d", text, got, err, want)
		}
	}
}

func TestPortsNotReady(t *testing.T) {
	p, err := allocation.NewPorts(memory.New(memory.Options{}), allocation.NodePorts())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.Take(t.Context(), wishes(0)); !errors.Is(err, allocation.ErrNotReady) {
		t.Error(err)
	}
	if err := p.Init(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	if err := p.Init(t.Context(), []int{30000}); err != nil || len(taken(t, p)) > 0 {
		t.Errorf("made twice: %v, %v", taken(t, p), err)
	}
	if _, err := p.Take(t.Context(), wishes(0)); err != nil {
		t.Error(err)
	}
	if _, err := allocation.NewPorts(memory.New(memory.Options{}), allocation.PortRange{}); err == nil {
		t.Error("an empty range is accepted")
	}
}

// TestPortsRecord checks the record against upstream's format: key, type, and bits as a big-endian number
// without leading zeros.
func TestPortsRecord(t *testing.T) {
	store := memory.New(memory.Options{})
	p := newPorts(t, store, "30000-32767", 30000, 30009)
	stored, err := store.Get(t.Context(), portsKey)
	if err != nil {
		t.Fatal(err)
	}
	var record corev1.RangeAllocation
	gvk, err := codec.Decode(stored.Value, &record)
	if err != nil || gvk.String() != "/v1, Kind=RangeAllocation" || record.Range != "30000-32767" || !bytes.Equal(record.Data, []byte{2, 1}) {
		t.Errorf("%v %+v %v", gvk, record, err)
	}
	// Another range: only common ports stay taken.
	narrow := newPorts(t, store, "30005-30010")
	if got := taken(t, narrow); !slices.Equal(got, []int{30009}) {
		t.Errorf("taken in the narrow range: %v", got)
	}
	if got := taken(t, p); !slices.Equal(got, []int{30000, 30009}) {
		t.Errorf("reading changed %v", got)
	}
}

func TestPortsDamaged(t *testing.T) {
	for name, value := range map[string][]byte{
		"no object": []byte("x"),
		"no range":  encoded(t, &corev1.RangeAllocation{Data: []byte{1}}),
		"too long":  encoded(t, &corev1.RangeAllocation{Range: "1-65535", Data: make([]byte, 10000)}),
	} {
		store := memory.New(memory.Options{})
		if _, err := store.Create(t.Context(), portsKey, value); err != nil {
			t.Fatal(err)
		}
		p := newPorts(t, store, "30000-32767")
		if _, err := p.Take(t.Context(), wishes(0)); err == nil || !bytes.Contains([]byte(err.Error()), []byte(portsKey)) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func encoded(t testing.TB, r *corev1.RangeAllocation) []byte {
	t.Helper()
	value, err := codec.Stored(corev1.SchemeGroupVersion.WithKind("RangeAllocation"), r)
	if err != nil {
		t.Fatal(err)
	}
	return value
}

// FuzzRecord: any stored value can be read as a record, or fails.
func FuzzRecord(f *testing.F) {
	f.Add(encoded(f, &corev1.RangeAllocation{Range: "30000-32767", Data: []byte{2, 1}}))
	f.Add(encoded(f, &corev1.RangeAllocation{Range: "1-2", Data: []byte{255, 255}}))
	f.Add([]byte(`{"kind":"RangeAllocation","apiVersion":"v1","range":"30000-30000","data":"AQ=="}`))
	f.Fuzz(func(t *testing.T, value []byte) {
		store := memory.New(memory.Options{})
		if _, err := store.Create(t.Context(), portsKey, value); err != nil {
			t.Skip()
		}
		p := newPorts(t, store, "30000-32767")
		list, err := p.Taken(t.Context())
		if err != nil {
			return
		}
		for _, port := range list {
			if !p.Range().Contains(port) {
				t.Errorf("%d is taken", port)
			}
		}
	})
}

// counting counts writes, and slows them down.
type counting struct {
	storage.Store
	writes atomic.Int32
	before atomic.Pointer[func()] // called before the next read, once
}

func (c *counting) Get(ctx context.Context, key string) (storage.Record, error) {
	if before := c.before.Swap(nil); before != nil {
		(*before)()
	}
	return c.Store.Get(ctx, key)
}

func (c *counting) Update(ctx context.Context, key string, value []byte, expected int64) (int64, error) {
	c.writes.Add(1)
	time.Sleep(time.Millisecond)
	return c.Store.Update(ctx, key, value, expected)
}

// TestPortsAtOnce: with many takers and releasers on two servers, every port has one owner, and concurrent
// changes share writes.
func TestPortsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &counting{Store: memory.New(memory.Options{})}
		servers := []*allocation.Ports{newPorts(t, store, "30000-30999"), newPorts(t, store, "30000-30999")}
		var mu sync.Mutex
		owner := map[int]int{}
		var wg sync.WaitGroup
		for i := range 64 {
			p := servers[i%2]
			wg.Go(func() {
				for round := range 10 {
					got, err := p.Take(t.Context(), []allocation.PortWish{{Seed: uint64(i)}, {Seed: uint64(round)}})
					if err != nil {
						t.Error(err)
						return
					}
					mu.Lock()
					for _, port := range got {
						if other, twice := owner[port]; twice {
							t.Errorf("%d belongs to %d and %d", port, other, i)
						}
						owner[port] = i
					}
					mu.Unlock()
					if round%2 == 0 {
						continue
					}
					mu.Lock()
					for _, port := range got {
						delete(owner, port)
					}
					mu.Unlock()
					if err := p.Release(t.Context(), got, time.Now()); err != nil {
						t.Error(err)
					}
				}
			})
		}
		wg.Wait()
		if got := taken(t, servers[0]); len(got) != len(owner) || len(got) != 64*5*2 {
			t.Errorf("%d are taken, %d have an owner", len(got), len(owner))
		}
		if changes := int32(64 * 15); store.writes.Load() > changes/2 {
			t.Errorf("%d writes for %d changes", store.writes.Load(), changes)
		}
	})
}

// TestPortsChangeHandsVisibly: a write cannot take what the same write frees: a port that changes owners is
// free in some state of the record, or Repair could not tell.
func TestPortsChangeHandsVisibly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &counting{Store: memory.New(memory.Options{})}
		p := newPorts(t, store, "30000-30001", 30000)
		watch, err := store.Watch(t.Context(), portsKey, 2)
		if err != nil {
			t.Fatal(err)
		}
		defer watch.Close()
		var wg sync.WaitGroup
		for _, do := range []func() error{
			func() error { _, err := p.Take(t.Context(), wishes(30001)); return err }, // the others arrive during this write
			func() error { return p.Release(t.Context(), []int{30000}, time.Now()) },
			func() error { _, err := p.Take(t.Context(), wishes(30000)); return err },
		} {
			wg.Go(func() {
				if err := do(); err != nil {
					t.Error(err)
				}
			})
			synctest.Wait()
		}
		wg.Wait()
		var states []int64
		for len(states) < 3 {
			events, err := watch.Next(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			for _, e := range events {
				var record corev1.RangeAllocation
				if _, err := codec.Decode(e.Value, &record); err != nil {
					t.Fatal(err)
				}
				states = append(states, new(big.Int).SetBytes(record.Data).Int64())
			}
		}
		if want := []int64{0b11, 0b10, 0b11}; !slices.Equal(states, want) {
			t.Errorf("states %b, want %b", states, want)
		}
	})
}

// TestPortsOfTwoServers: a server's cached record may be out of date. A change without effect on it is
// confirmed before it succeeds.
func TestPortsOfTwoServers(t *testing.T) {
	tests := []struct {
		name    string
		meant   func(t *testing.T, a, b *allocation.Ports) error // of b, which has seen 31001 alone
		want    []int
		refused error
	}{
		{"release what the other took", func(t *testing.T, _, b *allocation.Ports) error {
			return b.Release(t.Context(), []int{31005}, time.Now())
		}, []int{31001}, nil},
		{"release that and one of its own", func(t *testing.T, _, b *allocation.Ports) error {
			return b.Release(t.Context(), []int{31005, 31001}, time.Now())
		}, nil, nil},
		{"release what the other released", func(t *testing.T, a, b *allocation.Ports) error {
			if err := a.Release(t.Context(), []int{31001}, time.Now()); err != nil {
				t.Error(err)
			}
			return b.Release(t.Context(), []int{31001}, time.Now())
		}, []int{31005}, nil},
		{"take what the other took", func(t *testing.T, _, b *allocation.Ports) error {
			_, err := b.Take(t.Context(), wishes(31005))
			return err
		}, []int{31001, 31005}, allocation.ErrPortTaken},
		{"take what the other released", func(t *testing.T, a, b *allocation.Ports) error {
			if err := a.Release(t.Context(), []int{31001}, time.Now()); err != nil {
				t.Error(err)
			}
			_, err := b.Take(t.Context(), wishes(31001))
			return err
		}, []int{31001, 31005}, nil},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			store := memory.New(memory.Options{})
			a, b := newPorts(t, store, "30000-32767"), newPorts(t, store, "30000-32767")
			if _, err := b.Take(t.Context(), wishes(31001)); err != nil {
				t.Fatal(err)
			}
			if _, err := a.Take(t.Context(), wishes(31005)); err != nil {
				t.Fatal(err)
			}
			if err := test.meant(t, a, b); !errors.Is(err, test.refused) {
				t.Error(err)
			}
			if got := taken(t, a); !slices.Equal(got, test.want) {
				t.Errorf("taken %v, want %v", got, test.want)
			}
		})
	}
}

// TestPortsBatchOfTwoServers: a release in one batch with a refused change is confirmed, too.
func TestPortsBatchOfTwoServers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &counting{Store: memory.New(memory.Options{})}
		a, b := newPorts(t, store, "30000-32767"), newPorts(t, store, "30000-32767")
		if _, err := b.Take(t.Context(), wishes(31001)); err != nil {
			t.Fatal(err)
		}
		var wg sync.WaitGroup
		wg.Go(func() { // the others arrive during this write
			if _, err := b.Take(t.Context(), wishes(31002)); err != nil {
				t.Error(err)
			}
		})
		synctest.Wait()
		wg.Go(func() {
			if err := b.Release(t.Context(), []int{31005}, time.Now()); err != nil {
				t.Error(err)
			}
		})
		wg.Go(func() {
			if _, err := b.Take(t.Context(), wishes(31001)); !errors.Is(err, allocation.ErrPortTaken) {
				t.Error(err)
			}
		})
		before := func() { // called before b's next read of the record
			if _, err := a.Take(t.Context(), wishes(31005)); err != nil {
				t.Error(err)
			}
		}
		store.before.Store(&before)
		wg.Wait()
		if got, want := taken(t, a), []int{31001, 31002}; !slices.Equal(got, want) {
			t.Errorf("taken %v, want %v", got, want)
		}
	})
}

func TestPortsReleasedTooLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPorts(t, memory.New(memory.Options{}), "30000-30009", 30000)
		known := time.Now()
		time.Sleep(2 * time.Minute)
		if err := p.Release(t.Context(), []int{30000}, known); err == nil || len(taken(t, p)) != 1 {
			t.Errorf("%v: the port may have another owner by now", err)
		}
	})
}

// TestPortsBrokenStore: one failure does not affect later calls.
func TestPortsBrokenStore(t *testing.T) {
	store := &breaking{Store: memory.New(memory.Options{})}
	p := newPorts(t, store, "30000-30009")
	store.err = errors.New("broken")
	if _, err := p.Take(t.Context(), wishes(0)); !errors.Is(err, store.err) {
		t.Error(err)
	}
	store.err = storage.ErrConflict
	store.times = 3
	if _, err := p.Take(t.Context(), wishes(0)); err != nil {
		t.Error(err)
	}
}

// unreadable is a store whose record of ports can be neither read nor created.
type unreadable struct{ storage.Store }

func (unreadable) Get(context.Context, string) (storage.Record, error) {
	return storage.Record{}, errBroken
}

func (unreadable) Create(context.Context, string, []byte) (int64, error) { return 0, errBroken }

// TestPortsUnreadable: a record that cannot be read is a failure of each call, and is not made anew.
func TestPortsUnreadable(t *testing.T) {
	p, err := allocation.NewPorts(unreadable{memory.New(memory.Options{})}, allocation.NodePorts())
	if err != nil {
		t.Fatal(err)
	}
	_, take := p.Take(t.Context(), wishes(0))
	_, try := p.Try(t.Context(), wishes(0))
	_, all := p.Taken(t.Context())
	for what, err := range map[string]error{"take": take, "try": try, "taken": all, "init": p.Init(t.Context(), nil)} {
		if !errors.Is(err, errBroken) || errors.Is(err, allocation.ErrNotReady) || what != "init" && !strings.HasPrefix(err.Error(), "read node ports: ") {
			t.Errorf("%s: %v", what, err)
		}
	}
	w := newWorld(t, memory.New(memory.Options{}), "10.0.0.0/24", "30000-30099")
	if err := allocation.NewRepair(w, p, allocation.RepairOptions{}).Once(t.Context()); !errors.Is(err, errBroken) {
		t.Errorf("repair: %v", err)
	}
}

// breaking fails updates: always, or a number of times.
type breaking struct {
	storage.Store
	err   error
	times int
}

func (b *breaking) Update(ctx context.Context, key string, value []byte, expected int64) (int64, error) {
	if err := b.err; err != nil {
		if b.times > 0 {
			if b.times--; b.times == 0 {
				b.err = nil
			}
		}
		return 0, err
	}
	return b.Store.Update(ctx, key, value, expected)
}
