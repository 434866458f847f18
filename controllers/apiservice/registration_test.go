package apiservice_test

import (
	"slices"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"

	"github.com/keelson-dev/keelson/controllers"
	"github.com/keelson-dev/keelson/controllers/apiservice"
	"github.com/keelson-dev/keelson/informer"
	"github.com/keelson-dev/keelson/informer/memory"
)

// queued are the names that were queued.
type queued []string

func (q *queued) Add(k controllers.Key)                       { *q = append(*q, k.Name) }
func (q *queued) AddAfter(k controllers.Key, _ time.Duration) { q.Add(k) }

// TestChanged: a change of what is served concerns what has come and gone, and not the thousand other versions.
func TestChanged(t *testing.T) {
	served := []schema.GroupVersion{{Version: "v1"}, {Group: "a.example.com", Version: "v1"}, {Group: apiregistrationv1.GroupName, Version: "v1"}}
	cache := informer.New(memory.New[*apiregistrationv1.APIService](), informer.Options{})
	c := apiservice.NewRegistration(cache, nil, func() []schema.GroupVersion { return served })
	var q queued
	expect := func(want ...string) {
		t.Helper()
		slices.Sort(q)
		if !slices.Equal(q, want) {
			t.Errorf("queued %q, want %q", q, want)
		}
		q = nil
	}
	c.Changed()
	expect()
	c.Watch(&q)
	expect("v1.", "v1.a.example.com")
	c.Changed()
	expect()
	served = append(served[:1:1], schema.GroupVersion{Group: "b.example.com", Version: "v1"})
	c.Changed()
	expect("v1.a.example.com", "v1.b.example.com")
	c.Changed()
	expect()
}
