package registry

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/storage"
)

// TestWritesInProgress: a commit finds the object of the write that it is of, once, and nothing stays behind a write.
func TestWritesInProgress(t *testing.T) {
	var p pending
	res, other := &Resource{}, &Resource{}
	event := func(value string) storage.Event {
		return storage.Event{Type: storage.Put, Key: "k", Value: []byte(value), Revision: 7}
	}
	first, second := &corev1.ConfigMap{}, &corev1.ConfigMap{}
	a := p.add(res, "k", []byte("a"), first)
	b := p.add(res, "k", []byte("b"), second)
	if p.take(other, event("a")) != nil || p.take(res, event("c")) != nil {
		t.Error("a write of others is taken for one of these")
	}
	if got := p.take(res, event("b")); got != Object(second) || second.ResourceVersion != "7" {
		t.Errorf("took %v", got)
	}
	if p.take(res, event("b")) != nil {
		t.Error("took an object twice")
	}
	p.drop("k", b)
	if got := p.take(res, event("a")); got != Object(first) {
		t.Errorf("took %v", got)
	}
	p.drop("k", a)
	if len(p.writes) != 0 {
		t.Errorf("left behind: %v", p.writes)
	}
}
