package ownerreferencespermissionenforcement_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/admission"
	"github.com/keelson-dev/keelson/admission/admissiontest"
	"github.com/keelson-dev/keelson/admission/ownerreferencespermissionenforcement"
	"github.com/keelson-dev/keelson/authz"
)

// rights allows what it lists, and fails to look further.
type rights []string

func (all rights) Authorize(_ context.Context, a authz.Attributes) (authz.Decision, error) {
	what := fmt.Sprintf("%s %s %s/%s.%s %s/%s", a.User.Name, a.Verb, a.Resource, a.Subresource, a.Group, a.Namespace, a.Name)
	if a.ResourceRequest && a.Version != "" && slices.Contains(all, what) {
		return authz.Decision{Verdict: authz.Allow}, nil
	}
	return authz.Decision{Reason: "no right to " + what}, errors.New("looking failed")
}

func resolve(kind schema.GroupVersionKind) ([]ownerreferencespermissionenforcement.Served, error) {
	served := func(resource string, namespaced bool) ownerreferencespermissionenforcement.Served {
		return ownerreferencespermissionenforcement.Served{GroupVersionResource: kind.GroupVersion().WithResource(resource), Namespaced: namespaced}
	}
	switch kind.Kind {
	case "Node":
		return []ownerreferencespermissionenforcement.Served{served("nodes", false)}, nil
	case "ReplicaSet":
		return []ownerreferencespermissionenforcement.Served{served("replicasets", true), served("others", true)}, nil
	}
	return nil, errors.New("not served")
}

func ref(version, kind, name string, blocks *bool) metav1.OwnerReference {
	return metav1.OwnerReference{APIVersion: version, Kind: kind, Name: name, UID: types.UID(name), BlockOwnerDeletion: blocks}
}

func pod(refs ...metav1.OwnerReference) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p", OwnerReferences: refs}}
}

const (
	deletes  = "tester delete pods/. ns/p"
	anything = "tester update */finalizers.* /*"
	ofNode   = "tester update nodes/finalizers. /n"
	ofSet    = "tester update replicasets/finalizers.apps ns/r"
	ofOther  = "tester update others/finalizers.apps ns/r"
)

func TestPlugin(t *testing.T) {
	yes, no := true, false
	free, blocking := ref("v1", "Node", "n", &no), ref("v1", "Node", "n", &yes)
	set := ref("apps/v1", "ReplicaSet", "r", &yes)
	blocked := func(what string) string {
		return `pods "p" is forbidden: cannot set blockOwnerDeletion if an ownerReference refers to a resource you can't set finalizers on: no right to ` + what + ", looking failed"
	}
	unmapped := func(version, kind, why string) string {
		return `pods "p" is forbidden: cannot set blockOwnerDeletion in this case because cannot find RESTMapping for APIVersion ` + version + " Kind " + kind + ": " + why
	}
	undeletable := `pods "p" is forbidden: cannot set an ownerRef on a resource you can't delete: no right to ` + deletes + ", looking failed"
	for name, c := range map[string]struct {
		rights  rights
		r       *admission.Request
		refused string
	}{
		"no owner":                      {nil, admissiontest.Create(t, pod()), ""},
		"a new pod with an owner":       {nil, admissiontest.Create(t, pod(free)), ""},
		"one that may be nil":           {nil, admissiontest.Create(t, pod(ref("v1", "Node", "n", nil))), ""},
		"no change":                     {nil, admissiontest.Update(t, pod(blocking), pod(blocking)), ""},
		"no owner still":                {nil, admissiontest.Update(t, pod(), pod()), ""},
		"an added owner":                {nil, admissiontest.Update(t, pod(), pod(free)), undeletable},
		"a removed owner":               {nil, admissiontest.Update(t, pod(free), pod()), undeletable},
		"another order":                 {nil, admissiontest.Update(t, pod(free, set), pod(set, free)), undeletable},
		"an added owner, allowed":       {rights{deletes}, admissiontest.Update(t, pod(), pod(free)), ""},
		"blocking":                      {nil, admissiontest.Create(t, pod(blocking)), blocked(ofNode)},
		"blocking, allowed":             {rights{ofNode}, admissiontest.Create(t, pod(blocking)), ""},
		"blocking everything":           {rights{anything}, admissiontest.Create(t, pod(blocking, ref("x/y/z", "X", "x", &yes))), ""},
		"one of two resources":          {rights{ofSet}, admissiontest.Create(t, pod(set)), blocked(ofOther)},
		"both":                          {rights{ofSet, ofOther}, admissiontest.Create(t, pod(set)), ""},
		"one of two owners":             {rights{ofNode}, admissiontest.Create(t, pod(blocking, set)), blocked(ofSet)},
		"newly blocking":                {rights{deletes}, admissiontest.Update(t, pod(free), pod(blocking)), blocked(ofNode)},
		"newly blocking, nil before":    {rights{deletes}, admissiontest.Update(t, pod(ref("v1", "Node", "n", nil)), pod(blocking)), blocked(ofNode)},
		"blocking before":               {rights{deletes}, admissiontest.Update(t, pod(blocking), pod(blocking, free)), ""},
		"no longer blocking":            {rights{deletes}, admissiontest.Update(t, pod(blocking), pod(free)), ""},
		"an unknown kind":               {nil, admissiontest.Create(t, pod(ref("v1", "X", "x", &yes))), unmapped("v1", "X", "not served")},
		"no version":                    {nil, admissiontest.Create(t, pod(ref("a/b/c", "X", "x", &yes))), unmapped("a/b/c", "X", "unexpected GroupVersion string: a/b/c")},
		"an unknown kind, not blocking": {nil, admissiontest.Create(t, pod(ref("v1", "X", "x", &no))), ""},
		"pods' status":                  {nil, admissiontest.Update(t, pod(), pod(blocking), admissiontest.Subresource("status")), ""},
		"status of others": {nil, admissiontest.Update(t, pod(), pod(free), admissiontest.Subresource("status"), func(r *admission.Request) { r.Resource.Resource = "x" }),
			`x "p" is forbidden: cannot set an ownerRef on a resource you can't delete: no right to tester delete x/status. ns/p, looking failed`},
		"no metadata": {nil, admissiontest.Update(t, pod(free), pod(), func(r *admission.Request) { r.Object = &runtime.Unknown{} }), ""},
	} {
		t.Run(name, func(t *testing.T) {
			p := ownerreferencespermissionenforcement.New(c.rights, resolve)
			if c.refused != "" {
				admissiontest.Refuses(t, p, c.r, c.refused)
				return
			}
			admissiontest.TestPlugin(t, p, c.r)
			admissiontest.Admits(t, p, c.r, c.r.Object)
		})
	}
	if ownerreferencespermissionenforcement.New(nil, nil).Handles(admission.Delete) {
		t.Error("it handles deletes")
	}
}

func Example() {
	p := ownerreferencespermissionenforcement.New(rights{}, resolve)
	r := &admission.Request{
		Operation: admission.Update, Resource: corev1.SchemeGroupVersion.WithResource("pods"), Namespace: "ns", Name: "p",
		Object: pod(metav1.OwnerReference{APIVersion: "v1", Kind: "Node", Name: "n"}), OldObject: pod(),
	}
	admissiontest.By("mallory")(r)
	fmt.Println(p.Validate(context.Background(), r))
	// Output: pods "p" is forbidden: cannot set an ownerRef on a resource you can't delete: no right to mallory delete pods/. ns/p, looking failed
}
