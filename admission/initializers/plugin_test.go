package initializers_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/keelson-dev/keelson/admission"
	"github.com/keelson-dev/keelson/admission/admissiontest"
	"github.com/keelson-dev/keelson/admission/initializers"
	"github.com/keelson-dev/keelson/authz"
)

// plugin initializes secrets by a and b, pods by a, and lets root initialize.
func plugin() *initializers.Plugin {
	configured := func(versions ...schema.GroupVersionResource) []string {
		for _, v := range versions {
			switch v.Resource {
			case "secrets":
				return []string{"a.example.com", "b.example.com"}
			case "pods":
				return []string{"a.example.com"}
			}
		}
		return nil
	}
	return initializers.New(configured, authz.Func(func(_ context.Context, a authz.Attributes) (authz.Decision, error) {
		switch {
		case a.Verb != "initialize" || !a.ResourceRequest || a.Namespace != "ns" || a.Subresource != "":
			return authz.Decision{}, fmt.Errorf("asked about %+v", a)
		case a.User.Name == "root":
			return authz.Decision{Verdict: authz.Allow}, nil
		case a.User.Name == "broken":
			return authz.Decision{}, errors.New("out of order")
		}
		return authz.Decision{Reason: "no " + a.Resource + " " + a.Name}, nil
	}))
}

const (
	both     = `{"pending":[{"name":"a.example.com"},{"name":"b.example.com"}]}`
	second   = `{"pending":[{"name":"b.example.com"}]}`
	rejected = `{"pending":[{"name":"b.example.com"}],"result":{"metadata":{},"status":"Failure","message":"no"}}`
)

func secret(annotations ...string) *corev1.Secret {
	return &corev1.Secret{ObjectMeta: meta(annotations)}
}

func pod(annotations ...string) *corev1.Pod { return &corev1.Pod{ObjectMeta: meta(annotations)} }

// meta has a state, and further annotations in pairs.
func meta(annotations []string) metav1.ObjectMeta {
	m := metav1.ObjectMeta{Namespace: "ns", Name: "x"}
	if len(annotations) > 0 {
		m.Annotations = map[string]string{}
		if annotations[0] != "" {
			m.Annotations[initializers.Annotation] = annotations[0]
		}
		for i := 1; i < len(annotations); i += 2 {
			m.Annotations[annotations[i]] = annotations[i+1]
		}
	}
	return m
}

func TestCreate(t *testing.T) {
	p, root := plugin(), admissiontest.By("root")
	mirror := []string{"", corev1.MirrorPodAnnotationKey, ""}
	for what, test := range map[string]struct {
		obj, want admissiontest.Object
		change    func(*admission.Request)
		refusal   string
	}{
		"a secret":                {obj: secret(), want: secret(both)},
		"others stay":             {obj: secret("", "k", "v"), want: secret(both, "k", "v")},
		"a second pass":           {obj: secret(both), want: secret(both)},
		"a pod":                   {obj: pod(), want: pod(`{"pending":[{"name":"a.example.com"}]}`)},
		"a mirror":                {obj: pod(mirror...), want: pod(mirror...)},
		"not configured":          {obj: &corev1.ConfigMap{ObjectMeta: meta(nil)}, want: &corev1.ConfigMap{ObjectMeta: meta(nil)}},
		"none, by root":           {obj: secret(`{}`), want: secret(`{}`), change: root},
		"another, by root":        {obj: secret(`{"pending":[{"name":"c.example.com"}]}`), want: secret(`{"pending":[{"name":"c.example.com"}]}`), change: root},
		"a binding":               {obj: pod(both, "k", "v"), want: pod("", "k", "v"), change: admissiontest.Subresource("binding")},
		"none":                    {obj: secret(`{}`), refusal: `secrets "x" is forbidden: create with initializers denied: no secrets x`},
		"another":                 {obj: secret(second), refusal: `secrets "x" is forbidden: create with initializers denied: no secrets x`},
		"who knows":               {obj: secret(second), change: admissiontest.By("broken"), refusal: `Internal error occurred: out of order`},
		"no state":                {obj: secret(`[]`), change: root, refusal: `Secret "x" is invalid: metadata.annotations[keelson.dev/initializers]: Invalid value: "[]": must be the state of an initialization in JSON`},
		"a short name":            {obj: secret(`{"pending":[{"name":"c"}]}`), change: root, refusal: `Secret "x" is invalid: metadata.annotations[keelson.dev/initializers].pending[0].name: Invalid value: "c": should be a domain with at least three segments separated by dots`},
		"rejected from the start": {obj: secret(rejected), change: root, refusal: `Secret "x" is invalid: metadata.annotations[keelson.dev/initializers].result: Forbidden: may not be set on new objects`},
	} {
		t.Run(what, func(t *testing.T) {
			check(t, p, request(admissiontest.Create(t, test.obj), test.change), test.want, test.refusal)
		})
	}
}

func request(r *admission.Request, change func(*admission.Request)) *admission.Request {
	if change != nil {
		change(r)
	}
	return r
}

func check(t *testing.T, p admission.Plugin, r *admission.Request, want admissiontest.Object, refusal string) {
	t.Helper()
	if refusal != "" {
		admissiontest.Refuses(t, p, r, refusal)
		return
	}
	admissiontest.Admits(t, p, r, want)
}

func TestUpdate(t *testing.T) {
	p, root := plugin(), admissiontest.By("root")
	old, stale := secret(), secret(both)
	old.ResourceVersion, stale.ResourceVersion = "2", "1"
	status := func(r *admission.Request) { root(r); r.Subresource = "status" }
	const first = `Secret "x" is invalid: metadata.annotations[keelson.dev/initializers].pending: Invalid value: %s: only the first initializer may be removed`
	for what, test := range map[string]struct {
		old, obj, want admissiontest.Object
		change         func(*admission.Request)
		refusal        string
	}{
		"of what is complete":        {old: secret("", "k", "v"), obj: secret(), want: secret()},
		"an empty state":             {old: secret(), obj: secret(`{"pending":[]}`), want: secret()},
		"the first is done":          {old: secret(both), obj: secret(second), want: secret(second), change: root},
		"the last is done":           {old: secret(second), obj: secret(`{"pending":[]}`, "k", "v"), want: secret("", "k", "v"), change: root},
		"the last is done, with all": {old: secret(second), obj: secret(), want: secret(), change: root},
		"something else":             {old: secret(both), obj: secret(both, "k", "v"), want: secret(both, "k", "v"), change: root},
		"rejection":                  {old: secret(second), obj: secret(rejected), want: secret(rejected), change: root},
		"of what is rejected":        {old: secret(rejected), obj: secret(rejected, "k", "v"), want: secret(rejected, "k", "v"), change: root},
		"a stale one conflicts":      {old: old, obj: stale, want: stale},
		"not by everybody":           {old: secret(second), obj: secret(), refusal: `secrets "x" is forbidden: update to uninitialized resource denied: no secrets x`},
		"the second before":          {old: secret(both), obj: secret(`{"pending":[{"name":"a.example.com"}]}`), change: root, refusal: fmt.Sprintf(first, `["a.example.com"]`)},
		"both":                       {old: secret(both), obj: secret(), change: root, refusal: fmt.Sprintf(first, `[]`)},
		"one more":                   {old: secret(second), obj: secret(both), change: root, refusal: fmt.Sprintf(first, `["a.example.com","b.example.com"]`)},
		"back again":                 {old: secret(), obj: secret(second), change: root, refusal: `Secret "x" is invalid: metadata.annotations[keelson.dev/initializers]: Invalid value: null: field is immutable once initialization has completed`},
		"after all":                  {old: secret(rejected), obj: secret(second), change: root, refusal: `Secret "x" is invalid: metadata.annotations[keelson.dev/initializers].result: Invalid value: null: field is immutable`},
		"done after a rejection":     {old: secret(rejected), obj: secret(strings.Replace(rejected, `{"name":"b.example.com"}`, "", 1)), change: root, refusal: fmt.Sprintf(first, `[]`)},
		"success as a failure":       {old: secret(second), obj: secret(`{"pending":[{"name":"b.example.com"}],"result":{"status":"Success"}}`), change: root, refusal: `Secret "x" is invalid: metadata.annotations[keelson.dev/initializers].result.status: Invalid value: "Success": must be 'Failure'`},
		"no state":                   {old: secret(second), obj: secret(`7`), change: root, refusal: `Secret "x" is invalid: metadata.annotations[keelson.dev/initializers]: Invalid value: "7": must be the state of an initialization in JSON`},
		"no state before":            {old: secret(`7`), obj: secret(`7`, "k", "v"), want: secret(`7`, "k", "v")},
		"removed by a part":          {old: secret(second), obj: secret("", "k", "v"), want: secret(second, "k", "v"), change: status},
		"made by a part":             {old: secret(), obj: secret(second, "k", "v"), want: secret("", "k", "v"), change: status},
		"the status of a pod":        {old: pod(second), obj: pod(second), change: status, refusal: `Pod "x" is invalid: status: Forbidden: must not update status when the object is uninitialized`},
		"the status of another":      {old: pod(), obj: pod(), want: pod(), change: status},
	} {
		t.Run(what, func(t *testing.T) {
			check(t, p, request(admissiontest.Update(t, test.old, test.obj), test.change), test.want, test.refusal)
		})
	}
}

func TestContract(t *testing.T) {
	root := admissiontest.By("root")
	admissiontest.TestPlugin(t, plugin(),
		admissiontest.Create(t, secret()), admissiontest.Create(t, secret(`{}`), root), admissiontest.Create(t, secret(`{}`)),
		admissiontest.Update(t, secret(both), secret(second), root), admissiontest.Update(t, secret(both), secret(), root),
	)
}

func TestTurns(t *testing.T) {
	s := secret(both, "k", "v")
	shared := s.Annotations
	if err := initializers.Done(s, "b.example.com"); !errors.Is(err, initializers.ErrNotNext) {
		t.Error(err)
	}
	if err := initializers.Reject(s, "b.example.com", metav1.Status{}); !errors.Is(err, initializers.ErrNotNext) {
		t.Error(err)
	}
	if err := initializers.Done(s, "a.example.com"); err != nil || initializers.Next(s) != "b.example.com" || s.Annotations[initializers.Annotation] != second {
		t.Errorf("%v, %v", s.Annotations, err)
	}
	if shared[initializers.Annotation] != both {
		t.Error("annotations of others were changed")
	}
	refused := s.DeepCopy()
	if err := initializers.Reject(refused, "b.example.com", metav1.Status{Message: "no"}); err != nil || refused.Annotations[initializers.Annotation] != rejected || initializers.Next(refused) != "" {
		t.Errorf("%v, %v", refused.Annotations, err)
	}
	if err := initializers.Done(refused, "b.example.com"); !errors.Is(err, initializers.ErrNotNext) {
		t.Error(err)
	}
	if err := initializers.Done(s, "b.example.com"); err != nil || len(s.Annotations) != 1 || initializers.Next(s) != "" {
		t.Errorf("%v, %v", s.Annotations, err)
	}
	settled := secret(`{"pending":[]}`, "k", "v")
	if initializers.Settle(settled); len(settled.Annotations) != 1 {
		t.Error(settled.Annotations)
	}
	settled = secret(second)
	if initializers.Settle(settled); len(settled.Annotations) != 1 {
		t.Error(settled.Annotations)
	}
	s.Annotations[initializers.Annotation] = "{"
	if err := initializers.Done(s, "b.example.com"); !errors.Is(err, initializers.ErrState) || initializers.Next(s) != "" {
		t.Error(err)
	}
}
