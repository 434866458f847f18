package security_test

import (
	"errors"
	"fmt"
	"maps"
	"sync"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/cri"
	"github.com/keelson-dev/keelson/kubelet/security"
)

func TestUsers(t *testing.T) {
	var saved map[types.UID]uint32
	u := security.Users{Pods: 3, Save: func(m map[types.UID]uint32) error { saved = m; return nil }}
	a, err := security.NewAllocator(u)
	if err != nil {
		t.Fatal(err)
	}
	take := func(a *security.Allocator, uid types.UID, want uint32) {
		t.Helper()
		got, err := a.Take(uid)
		if err != nil || got != (cri.IDMapping{Host: want, Length: 65536}) {
			t.Errorf("%s got %+v, %v; want %d", uid, got, err, want)
		}
	}
	take(a, "a", 65536)
	take(a, "b", 2*65536)
	take(a, "a", 65536)
	if err := a.Release("a"); err != nil {
		t.Fatal(err)
	}
	if err := a.Release("a"); err != nil {
		t.Fatal(err)
	}
	take(a, "c", 3*65536) // released ranges are not reused at once
	take(a, "d", 65536)
	if _, err := a.Take("e"); text(err) != "could not find an empty slot to allocate a user namespace" {
		t.Errorf("got %v", err)
	}
	want := map[types.UID]uint32{"b": 2 * 65536, "c": 3 * 65536, "d": 65536}
	if !maps.Equal(saved, want) {
		t.Errorf("saved %v, want %v", saved, want)
	}

	u.Taken = saved
	again, err := security.NewAllocator(u)
	if err != nil {
		t.Fatal(err)
	}
	take(again, "c", 3*65536)
	if err := again.Retain(map[types.UID]bool{"b": true}); err != nil {
		t.Fatal(err)
	}
	if want := map[types.UID]uint32{"b": 2 * 65536}; !maps.Equal(saved, want) {
		t.Errorf("saved %v, want %v", saved, want)
	}
	take(again, "f", 65536)
}

func TestUsersThatCannotBeWrittenDown(t *testing.T) {
	full := errors.New("no space left")
	a, err := security.NewAllocator(security.Users{Save: func(map[types.UID]uint32) error { return full }})
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if _, err := a.Take("a"); !errors.Is(err, full) {
			t.Errorf("got %v, want %v", err, full)
		}
		if err := a.Hold("a", 65536); !errors.Is(err, full) {
			t.Errorf("got %v, want %v", err, full)
		}
	}
}

func TestUsersThatARuntimeKnows(t *testing.T) {
	a, err := security.NewAllocator(security.Users{Pods: 2})
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		uid  types.UID
		from uint32
		want string
	}{
		{"a", 65536, ""},
		{"a", 65536, ""},
		{"a", 2 * 65536, `different user namespace range already used by pod "a"`},
		{"b", 65536, `range picked for pod "b" already taken`},
		{"b", 65537, "wrong user namespace offset specified 65537"},
		{"b", 0, "id 0 is out of range"},
		{"b", 3 * 65536, "id 196608 is out of range"},
	} {
		if err := a.Hold(test.uid, test.from); text(err) != test.want {
			t.Errorf("%s, %d: got %q, want %q", test.uid, test.from, text(err), test.want)
		}
	}
	if got, err := a.Take("b"); err != nil || got.Host != 2*65536 {
		t.Errorf("got %+v, %v", got, err)
	}
}

func TestUsersThatMakeNoSense(t *testing.T) {
	for want, u := range map[string]security.Users{
		"kubelet user namespace length 5 is not a multiple of 65536":                {PerPod: 5},
		"kubelet user assigned ID 65536 is not a multiple of 131072":                {PerPod: 2 * 65536, First: 65536},
		"kubelet user assigned IDs are not enough to support 65536 pods":            {Pods: 65536},
		"kubelet user assigned IDs are not enough to support 4294967295 pods":       {Pods: 4294967295, First: 65536 * 65535},
		"wrong user namespace offset specified 7":                                   {Taken: map[types.UID]uint32{"a": 7}},
		`range picked for pod "a" already taken` + "|" + `range picked for pod "b"`: {Taken: map[types.UID]uint32{"a": 65536, "b": 65536}},
	} {
		_, err := security.NewAllocator(u)
		if err == nil || text(err) != want && len(u.Taken) < 2 {
			t.Errorf("got %v, want %s", err, want)
		}
	}
	a, err := security.NewAllocator(security.Users{First: 65535 * 65536})
	if err != nil {
		t.Fatal(err)
	}
	if got, err := a.Take("a"); err != nil || got.Host != 65535*65536 {
		t.Errorf("the last range: got %+v, %v", got, err)
	}
	if _, err := a.Take("b"); err == nil {
		t.Error("a range beyond the last")
	}
}

func TestUsersOfManyAtOnce(t *testing.T) {
	const pods = 100
	a, err := security.NewAllocator(security.Users{Pods: pods})
	if err != nil {
		t.Fatal(err)
	}
	var group sync.WaitGroup
	got := make([]uint32, pods)
	for i := range pods {
		group.Go(func() {
			mapping, err := a.Take(types.UID(fmt.Sprint(i)))
			if err != nil {
				t.Error(err)
			}
			got[i] = mapping.Host
		})
	}
	group.Wait()
	seen := map[uint32]bool{}
	for _, from := range got {
		if seen[from] {
			t.Fatalf("%d was given twice", from)
		}
		seen[from] = true
	}
}

// Every change of allocations is saved, and nothing else; the caller gets the error of a failure.
func TestWhatIsWrittenDown(t *testing.T) {
	writes, broken := 0, error(nil)
	a, err := security.NewAllocator(security.Users{Pods: 3, First: 2 * 65536, Save: func(map[types.UID]uint32) error { writes++; return broken }})
	if err != nil {
		t.Fatal(err)
	}
	take := func(uid types.UID) func() error {
		return func() error { _, err := a.Take(uid); return err }
	}
	hold := func(uid types.UID, from uint32) func() error {
		return func() error { return a.Hold(uid, from) }
	}
	release := func(uid types.UID) func() error { return func() error { return a.Release(uid) } }
	retain := func(uids ...types.UID) func() error {
		return func() error {
			all := map[types.UID]bool{}
			for _, uid := range uids {
				all[uid] = true
			}
			return a.Retain(all)
		}
	}
	full := errors.New("no space left")
	for i, step := range []struct {
		change func() error
		broken error
		writes int
		want   string
	}{
		{take("a"), nil, 1, ""},
		{take("a"), nil, 0, ""},
		{hold("a", 2*65536), nil, 0, ""},
		{hold("b", 4*65536), nil, 1, ""},
		{hold("b", 4*65536), nil, 0, ""},
		{hold("c", 65536), nil, 0, "id 65536 is out of range"},
		{hold("c", 5*65536), nil, 0, "id 327680 is out of range"},
		{take("c"), full, 1, "no space left"},
		{take("c"), nil, 1, ""}, // a range that could not be saved is free
		{retain("a", "b", "c"), nil, 0, ""},
		{release("c"), full, 1, "no space left"},
		{release("c"), nil, 0, ""},
		{hold("d", 3*65536), full, 1, "no space left"},
		{hold("d", 3*65536), nil, 1, ""},
		{take("e"), nil, 0, "could not find an empty slot to allocate a user namespace"},
		{retain("a", "d"), full, 1, "no space left"},
		{retain("a", "d"), nil, 0, ""},
		{take("e"), nil, 1, ""},
		{release("unheard of"), nil, 0, ""},
	} {
		writes, broken = 0, step.broken
		if err := step.change(); text(err) != step.want || writes != step.writes {
			t.Errorf("step %d: %q, written %d times", i, text(err), writes)
		}
	}
}

// A pod whose allocation fails does not get the node's users.
func TestNoUsersLeft(t *testing.T) {
	users, err := security.NewAllocator(security.Users{Pods: 1})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := users.Take("other"); err != nil {
		t.Fatal(err)
	}
	p := newPolicy(t, security.Options{Users: users, UserNamespaces: func(string) (bool, error) { return true, nil }})
	pod := newPod(nil, nil)
	pod.Spec.HostUsers = new(false)
	if got, err := p.Namespaces(pod, ""); text(err) != "create user namespace: could not find an empty slot to allocate a user namespace" {
		t.Errorf("%+v, %v", got, err)
	}
	if err := users.Release("other"); err != nil {
		t.Fatal(err)
	}
	if got, err := p.Namespaces(pod, ""); err != nil || got.User.Mode != cri.NamespacePod {
		t.Errorf("%+v, %v", got, err)
	}
}
