package podtolerationrestriction_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/admission"
	"github.com/keelson-dev/keelson/admission/admissiontest"
	"github.com/keelson-dev/keelson/admission/podtolerationrestriction"
	"github.com/keelson-dev/keelson/informer"
)

var _ podtolerationrestriction.Namespaces = (*informer.Informer[*corev1.Namespace])(nil)

// namespace is a cache of the namespace "ns" with these annotations.
type namespace map[string]string

func (n namespace) Get(namespace, name string) (*corev1.Namespace, bool) {
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: n}}, namespace == "" && name == "ns"
}

const (
	tolerated = podtolerationrestriction.DefaultAnnotation
	allowed   = podtolerationrestriction.AllowedAnnotation
	listA     = `[{"key":"a","operator":"Exists"}]`
)

func key(name string) corev1.Toleration {
	return corev1.Toleration{Key: name, Operator: corev1.TolerationOpExists}
}

func pod(all ...corev1.Toleration) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p"}, Spec: corev1.PodSpec{Tolerations: all}}
}

func TestPlugin(t *testing.T) {
	const refused = "pod tolerations (possibly merged with namespace default tolerations) conflict with its "
	byDefault := podtolerationrestriction.Options{Default: []corev1.Toleration{key("d")}}
	limited := podtolerationrestriction.Options{Allowed: []corev1.Toleration{key("a")}}
	for name, c := range map[string]struct {
		ns          namespace
		o           podtolerationrestriction.Options
		given, want *corev1.Pod
		refused     string
	}{
		"nothing":                {nil, podtolerationrestriction.Options{}, pod(), pod(), ""},
		"its own":                {nil, podtolerationrestriction.Options{}, pod(key("x")), pod(key("x")), ""},
		"its own, as they are":   {nil, podtolerationrestriction.Options{}, pod(key("x"), key("x")), pod(key("x"), key("x")), ""},
		"the namespace's":        {namespace{tolerated: listA}, byDefault, pod(key("x")), pod(key("x"), key("a")), ""},
		"the cluster's":          {nil, byDefault, pod(key("x")), pod(key("x"), key("d")), ""},
		"none in this namespace": {namespace{tolerated: ""}, byDefault, pod(key("x")), pod(key("x")), ""},
		"covered by its own":     {namespace{tolerated: listA}, byDefault, pod(key("")), pod(key("")), ""},
		"allowed":                {namespace{allowed: listA}, limited, pod(key("a")), pod(key("a")), ""},
		"not allowed":            {namespace{allowed: listA}, limited, pod(key("b")), nil, refused + "namespace whitelist"},
		"the default is not":     {namespace{allowed: listA}, byDefault, pod(), nil, refused + "namespace whitelist"},
		"not in the cluster":     {nil, limited, pod(key("b")), nil, refused + "cluster whitelist"},
		"all in this namespace":  {namespace{allowed: ""}, limited, pod(key("b")), pod(key("b")), ""},
	} {
		t.Run(name, func(t *testing.T) {
			p := podtolerationrestriction.New(c.ns, c.o)
			r := admissiontest.Create(t, c.given)
			admissiontest.TestPlugin(t, p, r)
			if c.refused == "" {
				admissiontest.Admits(t, p, r, c.want)
				return
			}
			if _, err := admissiontest.Run(t, p, r); !errors.Is(err, podtolerationrestriction.ErrNotAllowed) || err.Error() != c.refused {
				t.Errorf("got %v, want %s", err, c.refused)
			}
		})
	}
}

func TestMemoryPressure(t *testing.T) {
	p := podtolerationrestriction.New(namespace{tolerated: listA}, podtolerationrestriction.Options{})
	burstable := pod()
	burstable.Spec.Containers = []corev1.Container{{Name: "c", Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{"cpu": resource.MustParse("1")}}}}
	pressure := corev1.Toleration{Key: "node.kubernetes.io/memory-pressure", Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoSchedule}
	want := burstable.DeepCopy()
	want.Spec.Tolerations = []corev1.Toleration{key("a"), pressure}
	admissiontest.Admits(t, p, admissiontest.Create(t, burstable), want)
	// Defaults are for new pods only.
	want.Spec.Tolerations = want.Spec.Tolerations[1:]
	admissiontest.Admits(t, p, admissiontest.Update(t, burstable, burstable), want)
}

func TestOtherRequests(t *testing.T) {
	p := podtolerationrestriction.New(namespace{tolerated: "{", allowed: "["}, podtolerationrestriction.Options{})
	for _, r := range []*admission.Request{
		admissiontest.Create(t, pod(), admissiontest.Subresource("status")),
		admissiontest.Create(t, pod(), func(r *admission.Request) { r.Resource.Group = "x" }),
		admissiontest.Update(t, pod(), pod()),
	} {
		admissiontest.Admits(t, p, r, pod())
	}
	for _, r := range []*admission.Request{admissiontest.Create(t, pod()), admissiontest.Update(t, pod(key("a")), pod(key("a")))} {
		if _, err := admissiontest.Run(t, p, r); err == nil || !strings.Contains(err.Error(), "unexpected end of JSON input") {
			t.Errorf("got %v", err)
		}
	}
	elsewhere := pod(key("a"))
	elsewhere.Namespace = "gone"
	admissiontest.Refuses(t, p, admissiontest.Create(t, elsewhere), `namespaces "gone" not found`)
	if p.Handles(admission.Delete) {
		t.Error("it handles deletes")
	}
}

func Example() {
	p := podtolerationrestriction.New(namespace{podtolerationrestriction.DefaultAnnotation: `[{"key":"batch","operator":"Exists"}]`}, podtolerationrestriction.Options{})
	pod := &corev1.Pod{}
	r := &admission.Request{Operation: admission.Create, Resource: corev1.SchemeGroupVersion.WithResource("pods"), Namespace: "ns", Object: pod}
	fmt.Println(p.Admit(context.Background(), r), pod.Spec.Tolerations[0].Key)
	// Output: <nil> batch
}
