package registrytest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/keelson-dev/keelson/informer"
	"github.com/keelson-dev/keelson/registry"
)

// model is the expected content of a registry of ConfigMaps: the state after every revision.
type model struct {
	revisions []int64
	states    map[int64]map[string]string // revision → key → "value@revision tier"
}

func (m *model) now() map[string]string { return m.states[m.revisions[len(m.revisions)-1]] }

func (m *model) put(revision int64, key, value string) {
	next := maps.Clone(m.now())
	if value == "" {
		delete(next, key)
	} else {
		next[key] = value
	}
	m.revisions = append(m.revisions, revision)
	m.states[revision] = next
}

func render(o registry.Object) (key, value string) {
	cm := o.(*corev1.ConfigMap)
	return cm.Namespace + "/" + cm.Name, cm.Data["v"] + "@" + cm.ResourceVersion + " " + cm.Labels["tier"]
}

func renderAll(items []*registry.Item) map[string]string {
	all := map[string]string{}
	for _, i := range items {
		k, v := render(i.Object)
		all[k] = v
	}
	return all
}

// step makes one random write and updates the model.
func (m *model) step(t testing.TB, r *rand.Rand, res *registry.Resource) {
	t.Helper()
	ctx := t.Context()
	ns, name := fmt.Sprintf("ns%d", r.IntN(2)), fmt.Sprintf("c%d", r.IntN(12))
	key := ns + "/" + name
	_, there := m.now()[key]
	tier := []string{"front", "back", ""}[r.IntN(3)]
	value := strconv.Itoa(r.IntN(1000))
	var item *registry.Item
	var err error
	switch {
	case !there:
		item, err = res.Create(ctx, &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name, Labels: map[string]string{"tier": tier}},
			Data:       map[string]string{"v": value},
		}, registry.CreateOptions{})
	case r.IntN(3) == 0:
		if _, gone, err := res.Delete(ctx, ns, name, registry.DeleteOptions{}); err != nil || !gone {
			t.Fatalf("delete %s: gone %t, %v", key, gone, err)
		}
		l, err := res.List(ctx, registry.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		m.put(l.Revision, key, "")
		return
	default:
		item, _, err = res.Update(ctx, ns, name, func(_ context.Context, current registry.Object) (registry.Object, error) {
			cm := current.DeepCopyObject().(*corev1.ConfigMap)
			cm.Data, cm.Labels = map[string]string{"v": value + "'"}, map[string]string{"tier": tier}
			return cm, nil
		}, registry.UpdateOptions{})
	}
	if err != nil {
		t.Fatal(err)
	}
	if _, known := m.states[item.Revision]; known {
		return // an update that changed nothing
	}
	_, rendered := render(item.Object)
	m.put(item.Revision, key, rendered)
}

// checkLists lists at every revision, whole or in pages.
func (m *model) checkLists(t testing.TB, r *rand.Rand, res *registry.Resource) {
	t.Helper()
	ctx := t.Context()
	for _, revision := range m.revisions {
		o := registry.ListOptions{ResourceVersion: strconv.FormatInt(revision, 10), Match: metav1.ResourceVersionMatchExact}
		if r.IntN(2) == 0 {
			o.Limit = 1 + r.Int64N(4)
		}
		got := map[string]string{}
		var last string
		for {
			l, err := res.List(ctx, o)
			if err != nil {
				t.Fatal(err)
			}
			if l.Revision != revision {
				t.Fatalf("page at revision %d of a list at %d", l.Revision, revision)
			}
			for _, i := range l.Items {
				k, v := render(i.Object)
				if k <= last {
					t.Fatalf("%s after %s", k, last)
				}
				last = k
				got[k] = v
			}
			if l.Remaining != nil && int(*l.Remaining)+len(got) != len(m.states[revision]) {
				t.Errorf("at %d: %d listed, %d remaining, %d in all", revision, len(got), *l.Remaining, len(m.states[revision]))
			}
			if l.Continue == "" {
				break
			}
			o = registry.ListOptions{Limit: o.Limit, Continue: l.Continue}
		}
		if !maps.Equal(got, m.states[revision]) {
			t.Fatalf("list at %d\n got %v\nwant %v", revision, got, m.states[revision])
		}
	}
	for _, tier := range []string{"front", "back"} {
		l, err := res.List(ctx, registry.ListOptions{Selection: registry.Selection{Labels: labels.SelectorFromSet(labels.Set{"tier": tier})}})
		if err != nil {
			t.Fatal(err)
		}
		want := m.selected(m.now(), registry.Selection{Labels: labels.SelectorFromSet(labels.Set{"tier": tier})})
		if got := renderAll(l.Items); !maps.Equal(got, want) {
			t.Errorf("tier %s\n got %v\nwant %v", tier, got, want)
		}
	}
}

func (m *model) selected(state map[string]string, s registry.Selection) map[string]string {
	out := map[string]string{}
	for k, v := range state {
		if s.Namespace != "" && !strings.HasPrefix(k, s.Namespace+"/") {
			continue
		}
		if s.Labels != nil && !s.Labels.Matches(labels.Set{"tier": v[strings.Index(v, " ")+1:]}) {
			continue
		}
		out[k] = v
	}
	return out
}

// checkWatch follows a watch from a random revision and checks the accumulated state after every revision.
func (m *model) checkWatch(t testing.TB, r *rand.Rand, res *registry.Resource, s registry.Selection) {
	t.Helper()
	at := r.IntN(len(m.revisions) - 1)
	state := m.selected(m.states[m.revisions[at]], s)
	w, err := res.Watch(t.Context(), s, m.revisions[at])
	if err != nil {
		t.Fatal(err)
	}
	last := m.revisions[len(m.revisions)-1]
	told := m.revisions[at]
	for {
		if revision, ok := w.Progress(); ok && revision >= last {
			break
		}
		ctx, cancel := context.WithCancel(t.Context())
		if told >= m.lastChange(s) {
			cancel()
		}
		events, err := w.Next(ctx)
		cancel()
		if err != nil {
			if errors.Is(err, context.Canceled) && told >= m.lastChange(s) {
				break
			}
			t.Fatal(err)
		}
		for _, e := range events {
			if e.Revision <= told {
				t.Fatalf("revision %d delivered after %d", e.Revision, told)
			}
			told = e.Revision
			k, v := render(e.Item.Object)
			_, had := state[k]
			if had != (e.Type != informer.Added) {
				t.Fatalf("%s of %s at %d, which was there: %t", e.Type, k, e.Revision, had)
			}
			if e.Type == informer.Deleted {
				delete(state, k)
			} else {
				state[k] = v
			}
			if want := m.selected(m.states[e.Revision], s); !maps.Equal(state, want) {
				t.Fatalf("after %d\n got %v\nwant %v", e.Revision, state, want)
			}
		}
	}
	if want := m.selected(m.now(), s); !maps.Equal(state, want) {
		t.Fatalf("at the end\n got %v\nwant %v", state, want)
	}
}

// lastChange returns the last revision at which the selected state differs from the one before.
func (m *model) lastChange(s registry.Selection) int64 {
	for i := len(m.revisions) - 1; i > 0; i-- {
		if !maps.Equal(m.selected(m.states[m.revisions[i]], s), m.selected(m.states[m.revisions[i-1]], s)) {
			return m.revisions[i]
		}
	}
	return m.revisions[0]
}
