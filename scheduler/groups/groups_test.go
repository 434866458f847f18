package groups_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/utils/ptr"

	"github.com/keelson-dev/keelson/scheduler/groups"
)

func named(namespace, name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: namespace, Name: name, ResourceVersion: name}
}

func TestSelector(t *testing.T) {
	in := sources()
	service := func(namespace, name string, selector map[string]string) {
		in.Services.Put(&corev1.Service{ObjectMeta: named(namespace, name), Spec: corev1.ServiceSpec{Selector: selector}})
	}
	service("ns", "web", map[string]string{"app": "web"})
	service("ns", "front", map[string]string{"tier": "front"})
	service("ns", "none", nil)
	service("ns", "other", map[string]string{"app": "other"})
	service("elsewhere", "web", map[string]string{"zone": "a"})
	in.ReplicationControllers.Put(&corev1.ReplicationController{ObjectMeta: named("ns", "x"), Spec: corev1.ReplicationControllerSpec{Selector: map[string]string{"rc": "x"}}})
	in.ReplicaSets.Put(&appsv1.ReplicaSet{ObjectMeta: named("ns", "x"), Spec: appsv1.ReplicaSetSpec{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"rs": "x"}}}})
	in.ReplicaSets.Put(&appsv1.ReplicaSet{ObjectMeta: named("ns", "nil")})
	in.ReplicaSets.Put(&appsv1.ReplicaSet{ObjectMeta: named("ns", "bad"), Spec: appsv1.ReplicaSetSpec{Selector: &metav1.LabelSelector{
		MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: "Near"}},
	}}})
	in.StatefulSets.Put(&appsv1.StatefulSet{ObjectMeta: named("ns", "x"), Spec: appsv1.StatefulSetSpec{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"ss": "x"}}}})
	owner := func(version, kind, name string, controls bool) []metav1.OwnerReference {
		return []metav1.OwnerReference{{APIVersion: version, Kind: kind, Name: name, Controller: ptr.To(controls)}}
	}
	for name, tt := range map[string]struct {
		labels map[string]string
		owners []metav1.OwnerReference
		want   string
	}{
		"nothing":                  {map[string]string{"zone": "a"}, nil, ""},
		"a service":                {map[string]string{"app": "web"}, nil, "app=web"},
		"services":                 {map[string]string{"app": "web", "tier": "front"}, nil, "app=web,tier=front"},
		"a controller":             {map[string]string{"app": "web"}, owner("v1", "ReplicationController", "x", true), "app=web,rc=x"},
		"a replica set":            {map[string]string{"app": "web"}, owner("apps/v1", "ReplicaSet", "x", true), "app=web,rs=x"},
		"a stateful set":           {nil, owner("apps/v1", "StatefulSet", "x", true), "ss=x"},
		"a set without selector":   {nil, owner("apps/v1", "ReplicaSet", "nil", true), ""},
		"a set with a bad one":     {map[string]string{"app": "web"}, owner("apps/v1", "ReplicaSet", "bad", true), "app=web"},
		"a set that is gone":       {map[string]string{"app": "web"}, owner("apps/v1", "ReplicaSet", "gone", true), "app=web"},
		"an owner":                 {nil, owner("apps/v1", "ReplicaSet", "x", false), ""},
		"another version":          {nil, owner("apps/v2", "ReplicaSet", "x", true), ""},
		"no version":               {nil, owner("a/b/c", "ReplicaSet", "x", true), ""},
		"a controller of its name": {nil, owner("v1", "ReplicaSet", "x", true), ""},
	} {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Labels: tt.labels, OwnerReferences: tt.owners}}
		if got := groups.New(in).Selector(pod); got.String() != tt.want || got.Empty() != (tt.want == "") {
			t.Errorf("%s: %q, want %q", name, got, tt.want)
		}
	}
}

func TestNamespaces(t *testing.T) {
	in := sources()
	g := groups.New(in)
	red := labels.SelectorFromSet(labels.Set{"team": "red"})
	before := g.Version()
	for _, name := range []string{"b", "a", "f", "e", "c", "h", "d", "g"} {
		ns := &corev1.Namespace{ObjectMeta: named("", name)}
		if name != "c" {
			ns.Labels = map[string]string{"team": "red"}
		}
		in.Namespaces.Put(ns)
	}
	if got := g.Namespaces(red); !slices.Equal(got, []string{"a", "b", "d", "e", "f", "g", "h"}) {
		t.Errorf("red are %v", got)
	}
	if g.Version() == before {
		t.Error("the version is that from before there were namespaces")
	}
	if got := g.Labels("a"); got["team"] != "red" || g.Labels("gone") != nil {
		t.Errorf("the labels of a are %v, those of one that is gone %v", got, g.Labels("gone"))
	}
}

// WaitSynced waits for all sources.
func TestWaitSynced(t *testing.T) {
	for missing := range 5 {
		synctest.Test(t, func(t *testing.T) {
			in := sources()
			runs := []func(context.Context) error{
				in.Namespaces.Run, in.Services.Run, in.ReplicationControllers.Run, in.ReplicaSets.Run, in.StatefulSets.Run,
			}
			g := groups.New(in)
			g.Watch(nil)
			for i, run := range runs {
				if i != missing {
					go func() { _ = run(t.Context()) }()
				}
			}
			synctest.Wait()
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			if err := g.WaitSynced(ctx); !errors.Is(err, context.Canceled) {
				t.Errorf("without source %d: %v", missing, err)
			}
			go func() { _ = runs[missing](t.Context()) }()
			if err := g.WaitSynced(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
}
