package direct_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/client"
	"github.com/keelson-dev/keelson/registry"
	"github.com/keelson-dev/keelson/registry/core"
	"github.com/keelson-dev/keelson/registry/direct"
	"github.com/keelson-dev/keelson/storage/memory"
)

// TestBodies: a body that is of another type, or none, is refused before anything is done with it, and one that is of the
// type is only read.
func TestBodies(t *testing.T) {
	c := direct.New(run(t, sorts()), direct.Options{})
	if _, err := create(at("configmaps", "", ""), &corev1.ConfigMap{ObjectMeta: meta1("one")})(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	review := in("", of(authorizationv1.SchemeGroupVersion, at("subjectaccessreviews", "", "")))
	pod := &corev1.Pod{ObjectMeta: meta1("one")}
	for what, do := range map[string]call{
		"<nil> cannot be handled as a ConfigMap":                 create(at("configmaps", "", ""), pod),
		"*v1.ConfigMap cannot be handled as a ConfigMap":         create(at("configmaps", "", ""), (*corev1.ConfigMap)(nil)),
		"<nil> cannot be handled as a Secret":                    create(at("configmaps", "one", "say"), pod),
		"*v1.Secret cannot be handled as a Secret":               create(at("configmaps", "one", "say"), (*corev1.Secret)(nil)),
		"<nil> cannot be handled as a SubjectAccessReview":       create(review, pod),
		"*v1.SubjectAccessReview cannot be handled as a Subject": create(review, (*authorizationv1.SubjectAccessReview)(nil)),
		"*v1.Pod cannot be handled as a Scale":                   update(client.Target{Resource: resource(appsv1.SchemeGroupVersion, "deployments"), Namespace: "a", Name: "one", Subresource: "scale"}, pod),
	} {
		if _, err := do(t.Context(), c); !apierrors.IsBadRequest(err) || !strings.HasPrefix(err.Error(), what) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if _, err := update(at("configmaps", "one", ""), pod)(t.Context(), c); !apierrors.IsBadRequest(err) {
		t.Errorf("an update with another type: %v", err)
	}

	typed := &corev1.Secret{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"}, ObjectMeta: meta1("x")}
	if got, err := create(at("configmaps", "one", "say"), typed)(t.Context(), c); err != nil || !got.GetObjectKind().GroupVersionKind().Empty() || typed.Kind != "Secret" || typed.Namespace != "" {
		t.Errorf("%v, %v of %v", got, err, typed)
	}
	if _, err := create(at("configmaps", "", "say"), typed)(t.Context(), c); !errors.Is(err, client.ErrNoName) {
		t.Errorf("an act on nobody: %v", err)
	}
	got, err := create(at("configmaps", "one", "say"), &corev1.Secret{Type: "code"})(t.Context(), c)
	if s, ok := got.(*metav1.Status); err != nil || !ok || s.Code != http.StatusAccepted {
		t.Errorf("a status with its own code: %v, %v", got, err)
	}
}

// TestServersOnly: what only a server does is refused, not unknown.
func TestServersOnly(t *testing.T) {
	c := direct.New(run(t, sorts()), direct.Options{})
	one := at("configmaps", "one", "")
	if _, err := create(one, &corev1.ConfigMap{ObjectMeta: meta1("one")})(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	if _, err := get(at("pods", "one", "log"))(t.Context(), c); !apierrors.IsMethodNotSupported(err) {
		t.Errorf("a log: %v", err)
	}
	_, err := c.Patch(t.Context(), one, client.Patch{Type: types.ApplyPatchType, Data: []byte(`{}`)}, metav1.PatchOptions{FieldManager: "m"})
	var told *apierrors.StatusError
	if !errors.As(err, &told) {
		t.Fatal(err)
	}
	s := told.ErrStatus
	if s.Code != http.StatusUnsupportedMediaType || s.Details.RetryAfterSeconds != 0 || len(s.Details.Causes) != 0 || s.Details.Name != "one" || s.Details.Kind != "configmaps" {
		t.Errorf("apply: %+v", s)
	}
	// The events of a watch come by another way; a list that asks for it is a list.
	if _, err := list(one, metav1.ListOptions{Watch: true, ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan, ResourceVersion: "0"})(t.Context(), c); err != nil {
		t.Errorf("a list that asks for a watch: %v", err)
	}
}

// TestUnserved: a kind that no version serves is found in its stored version, and no other, by a client that may.
func TestUnserved(t *testing.T) {
	kinds := sorts()
	for i := range kinds {
		kinds[i].Unserved = kinds[i].Plural == "configmaps"
	}
	r := run(t, kinds)
	one := at("configmaps", "one", "")
	for unserved, want := range map[bool]bool{true: true, false: false} {
		c := direct.New(r, direct.Options{Unserved: unserved})
		if _, err := create(one, &corev1.ConfigMap{ObjectMeta: meta1("one")})(t.Context(), c); (err == nil) != want || err != nil && !apierrors.IsNotFound(err) {
			t.Errorf("unserved %t: %v", unserved, err)
		}
		other := one
		other.Resource.Version = "v2"
		if _, err := get(other)(t.Context(), c); !apierrors.IsNotFound(err) {
			t.Errorf("in another version: %v", err)
		}
	}
}

// TestManagedFields: a patch changes the managed fields that it speaks of, and leaves them alone otherwise.
func TestManagedFields(t *testing.T) {
	c := direct.New(run(t, sorts()), direct.Options{})
	managed := []metav1.ManagedFieldsEntry{{Manager: "m", Operation: "Update"}, {Manager: "n", Operation: "Update"}}
	for n, step := range []struct {
		form       types.PatchType
		data, want string
	}{
		{types.MergePatchType, `{"data":{"a":"b"}}`, "m n "},
		{types.MergePatchType, `{"metadata":{"managedFields":[{"manager":"o","operation":"Update"}]}}`, "o "},
		{types.MergePatchType, `{"metadata":{"managedFields":null}}`, ""},
		{types.StrategicMergePatchType, `{"data":{"a":"b"}}`, "m n "},
		{types.StrategicMergePatchType, `{"metadata":{"managedFields":[{"manager":"o","operation":"Update"}]}}`, "o "},
		{types.JSONPatchType, `[{"op":"remove","path":"/metadata/managedFields/0"}]`, "n "},
	} {
		one := at("configmaps", fmt.Sprint("m", n), "")
		if _, err := create(one, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: one.Name, ManagedFields: managed}})(t.Context(), c); err != nil {
			t.Fatal(err)
		}
		got, err := client.As[*corev1.ConfigMap](patch(one, step.form, step.data)(t.Context(), c))
		if err != nil {
			t.Errorf("%s %s: %v", step.form, step.data, err)
			continue
		}
		managers := ""
		for _, m := range got.ManagedFields {
			managers += m.Manager + " "
		}
		if managers != step.want {
			t.Errorf("%s %s: managed by %q, want %q", step.form, step.data, managers, step.want)
		}
	}
}

// TestEnded: only the end of the context itself is told as such.
func TestEnded(t *testing.T) {
	ctx, end := context.WithCancel(t.Context())
	defer end()
	k := sorts()
	for i := range k {
		if k[i].Plural == "configmaps" {
			k[i].Rules.Deletion.Begin = func(registry.Object) { end() }
		}
	}
	c := direct.New(run(t, k), direct.Options{})
	one := at("configmaps", "one", "")
	if _, err := create(one, &corev1.ConfigMap{ObjectMeta: meta1("one")})(ctx, c); err != nil {
		t.Fatal(err)
	}
	if err := c.Delete(ctx, one, metav1.DeleteOptions{DryRun: []string{"All"}}); err != nil || ctx.Err() == nil {
		t.Errorf("a delete that was done when it ended: %v", err)
	}
	if _, err := create(at("configmaps", "", ""), &corev1.ConfigMap{ObjectMeta: meta1("Bad_Name")})(ctx, c); !apierrors.IsInvalid(err) {
		t.Errorf("an invalid object: %v", err)
	}
	if _, err := remove(at("configmaps", "", ""))(ctx, c); !errors.Is(err, context.Canceled) || codeOf(err) != -1 {
		t.Errorf("a delete of all: %v", err)
	}
}

// TestMisfit: a kind whose list takes other objects fails its lists.
func TestMisfit(t *testing.T) {
	k := core.Kinds(core.Options{})
	for i := range k {
		if k[i].Plural == "configmaps" {
			k[i].NewList = func() runtime.Object { return &corev1.SecretList{} }
		}
	}
	c := direct.New(run(t, k), direct.Options{})
	if _, err := create(at("configmaps", "", ""), &corev1.ConfigMap{ObjectMeta: meta1("one")})(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	if got, err := list(at("configmaps", "", ""), metav1.ListOptions{})(t.Context(), c); !apierrors.IsInternalError(err) && codeOf(err) != 500 {
		t.Errorf("%v, %v", got, err)
	}
}

// TestDeleteAll: what went meanwhile keeps nothing from being deleted, and what cannot be deleted, or even read, is told.
func TestDeleteAll(t *testing.T) {
	store := memory.New(memory.Options{})
	k := core.Kinds(core.Options{})
	refused := map[string]error{"two": fmt.Errorf("gone: %w", registry.ErrNotFound)}
	for i := range k {
		if k[i].Plural == "configmaps" {
			k[i].Rules.Deletion.Guard = func(name string) error { return refused[name] }
		}
	}
	if _, err := store.Create(t.Context(), "/registry/configmaps/b/garbage", []byte("k8s\x00garbage")); err != nil {
		t.Fatal(err)
	}
	reg := runOn(t, store, k)
	c := direct.New(reg, direct.Options{})
	for _, namespace := range []string{"a", "b"} {
		for _, name := range []string{"one", "three", "two"} {
			if _, err := create(in(namespace, at("configmaps", "", "")), &corev1.ConfigMap{ObjectMeta: meta1(name)})(t.Context(), c); err != nil {
				t.Fatal(err)
			}
		}
	}
	left := func(namespace string) (names []string) {
		l, err := client.As[*corev1.ConfigMapList](c.List(t.Context(), in(namespace, at("configmaps", "", "")), metav1.ListOptions{}))
		if err != nil {
			t.Fatal(err)
		}
		for _, item := range l.Items {
			names = append(names, item.Name)
		}
		return names
	}
	if _, err := remove(at("configmaps", "", ""))(t.Context(), c); err != nil || fmt.Sprint(left("a")) != "[two]" {
		t.Errorf("%v, and left is %v", err, left("a"))
	}
	if _, err := remove(in("b", at("configmaps", "", "")))(t.Context(), c); err == nil || !strings.Contains(err.Error(), "garbage") {
		t.Errorf("with one that cannot be read: %v", err)
	}
	refused["one"] = apierrors.NewForbidden(at("configmaps", "", "").Resource.GroupResource(), "one", nil)
	if _, err := create(at("configmaps", "", ""), &corev1.ConfigMap{ObjectMeta: meta1("one")})(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	if _, err := remove(at("configmaps", "", ""))(t.Context(), c); !apierrors.IsForbidden(err) {
		t.Errorf("with one that must stay: %v", err)
	}
}
