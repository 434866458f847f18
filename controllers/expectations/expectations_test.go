package expectations_test

import (
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/controllers"
	"github.com/keelson-dev/keelson/controllers/expectations"
)

func TestDependents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, owner := expectations.NewDependents(), controllers.Key{Namespace: "ns", Name: "a"}
		want := func(what string, want time.Duration) {
			t.Helper()
			if got := d.Wait(owner, time.Now()); got != want {
				t.Errorf("%s: wait %v, want %v", what, got, want)
			}
		}
		want("nothing expected", 0)
		d.Creations(owner, 2)
		want("two to come", expectations.Timeout)
		d.Created(owner)
		time.Sleep(time.Minute)
		want("one to come", expectations.Timeout-time.Minute)
		d.Deleted(owner, "x")
		want("a deletion is no creation", expectations.Timeout-time.Minute)
		d.Created(owner)
		d.Created(owner)
		want("all there", 0)
		d.Deletions(owner, []string{"x", "y"})
		d.Deleted(owner, "x")
		d.Deleted(owner, "x")
		want("x is seen twice, y is to come", expectations.Timeout)
		d.Deleted(controllers.Key{Name: "other"}, "y")
		want("somebody else's", expectations.Timeout)
		time.Sleep(expectations.Timeout)
		want("timed out", 0)
		d.Writes(owner, 1, []string{"x"})
		d.Created(owner)
		want("x is still to go", expectations.Timeout)
		d.Writes(owner, 1, []string{"x"})
		d.Deleted(owner, "x")
		want("one is still to come", expectations.Timeout)
		d.Created(owner)
		want("both seen", 0)
		d.Creations(owner, 1)
		d.Forget(owner)
		want("forgotten", 0)
	})
}

func TestVersions(t *testing.T) {
	at := func(uid types.UID, version string) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "a", UID: uid, ResourceVersion: version}}
	}
	for name, tt := range map[string]struct {
		cached *corev1.Pod
		owner  types.UID
		want   bool
	}{
		"older":            {at("u", "9"), "o", true},
		"as written":       {at("u", "10"), "o", false},
		"newer":            {at("u", "11"), "o", false},
		"another object":   {at("v", "9"), "o", false},
		"for another":      {at("u", "9"), "p", false},
		"without versions": {at("u", ""), "o", false},
	} {
		v := expectations.NewVersions()
		v.Wrote(at("u", "10"), "o")
		if got := v.Behind(tt.cached, tt.owner); got != tt.want {
			t.Errorf("%s: %t", name, got)
		}
	}
	v := expectations.NewVersions()
	v.Wrote(at("u", "10"), "o")
	if v.Behind(at("u", "10"), "o") || v.Behind(at("u", "9"), "o") {
		t.Error("once seen, a write is forgotten")
	}
	v.Wrote(at("u", "10"), "o")
	v.Forget(controllers.Key{Namespace: "ns", Name: "a"})
	if v.Behind(at("u", "9"), "o") {
		t.Error("forgotten")
	}
}
