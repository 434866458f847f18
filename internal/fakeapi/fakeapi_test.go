package fakeapi_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/client"
	"github.com/keelson-dev/keelson/internal/fakeapi"
)

func pod(name string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"app": name}}}
}

func target(name string) client.Target {
	return client.Target{Resource: fakeapi.Pods, Namespace: "default", Name: name}
}

func create(t *testing.T, s *fakeapi.Server, p *corev1.Pod) *corev1.Pod {
	t.Helper()
	out, err := s.Create(t.Context(), target(""), p, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return out.(*corev1.Pod)
}

func TestCreate(t *testing.T) {
	s := fakeapi.New(fakeapi.Options{})
	got := create(t, s, pod("a"))
	if got.UID == "" || got.ResourceVersion != "1" || got.Generation != 1 || got.Namespace != "default" || got.CreationTimestamp.IsZero() {
		t.Errorf("created %+v", got.ObjectMeta)
	}
	if _, err := s.Create(t.Context(), target(""), pod("a"), metav1.CreateOptions{}); !apierrors.IsAlreadyExists(err) {
		t.Errorf("second create: %v", err)
	}
	generated := create(t, s, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{GenerateName: "a-"}})
	if generated.Name != "a-00001" {
		t.Errorf("generated name %q", generated.Name)
	}
	list, err := s.List(t.Context(), target(""), metav1.ListOptions{LabelSelector: "app=a"})
	if err != nil || len(list.(*corev1.PodList).Items) != 1 || list.(*corev1.PodList).ResourceVersion != "2" {
		t.Errorf("list %v, %v", list, err)
	}
}

func TestUpdate(t *testing.T) {
	s := fakeapi.New(fakeapi.Options{})
	stale := create(t, s, pod("a"))
	next := stale.DeepCopy()
	next.Spec.NodeName = "n"
	next.Status.Phase = corev1.PodRunning
	out, err := s.Update(t.Context(), target("a"), next, metav1.UpdateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if got := out.(*corev1.Pod); got.Status.Phase != "" || got.Generation != 2 || got.ResourceVersion != "2" {
		t.Errorf("updated to %+v", got)
	}
	if _, err := s.Update(t.Context(), target("a"), stale, metav1.UpdateOptions{}); !apierrors.IsConflict(err) {
		t.Errorf("stale update: %v", err)
	}
	stale.ResourceVersion, stale.UID = "", "other"
	if _, err := s.Update(t.Context(), target("a"), stale, metav1.UpdateOptions{}); !apierrors.IsConflict(err) {
		t.Errorf("other uid: %v", err)
	}
	status := target("a")
	status.Subresource = "status"
	next.ResourceVersion = ""
	next.Spec.NodeName = "other"
	out, err = s.Update(t.Context(), status, next, metav1.UpdateOptions{})
	if got := out.(*corev1.Pod); err != nil || got.Status.Phase != corev1.PodRunning || got.Spec.NodeName != "n" || got.Generation != 2 {
		t.Errorf("status update: %+v, %v", got, err)
	}
}

func TestPatch(t *testing.T) {
	s := fakeapi.New(fakeapi.Options{})
	uid := string(create(t, s, pod("a")).UID)
	for _, tt := range []struct {
		kind  types.PatchType
		body  string
		fails func(error) bool
	}{
		{types.StrategicMergePatchType, `{"metadata":{"uid":"` + uid + `","ownerReferences":[{"uid":"o","name":"o","kind":"K","apiVersion":"v1","controller":true}]}}`, nil},
		{types.StrategicMergePatchType, `{"metadata":{"uid":"` + uid + `","ownerReferences":[{"uid":"p","name":"p","kind":"K","apiVersion":"v1","controller":true}]}}`, apierrors.IsInvalid},
		{types.StrategicMergePatchType, `{"metadata":{"uid":"other"}}`, apierrors.IsInvalid},
		{types.StrategicMergePatchType, `{"metadata":{"ownerReferences":[{"$patch":"delete","uid":"o"}]}}`, nil},
		{types.MergePatchType, `{"metadata":{"labels":{"app":null}}}`, nil},
		{types.JSONPatchType, `[{"op":"test","path":"/metadata/name","value":"b"}]`, apierrors.IsBadRequest},
		{types.MergePatchType, `{"metadata":{"resourceVersion":"1"}}`, apierrors.IsConflict},
	} {
		_, err := s.Patch(t.Context(), target("a"), client.Patch{Type: tt.kind, Data: []byte(tt.body)}, metav1.PatchOptions{})
		if tt.fails == nil && err != nil || tt.fails != nil && !tt.fails(err) {
			t.Errorf("%s: %v", tt.body, err)
		}
	}
	out, err := s.Get(t.Context(), target("a"))
	if got := out.(*corev1.Pod); err != nil || len(got.OwnerReferences) != 0 || len(got.Labels) != 0 {
		t.Errorf("after patches: %+v, %v", got.ObjectMeta, err)
	}
}

// TestCreateWithVersion: a version is refused as the API server refuses it, with a status that has no reason, and last of all but for a
// name that is taken. What is no version is dropped.
func TestCreateWithVersion(t *testing.T) {
	s := fakeapi.New(fakeapi.Options{})
	create(t, s, pod("taken"))
	owned := pod("owned")
	for _, uid := range []types.UID{"o", "p"} {
		owned.OwnerReferences = append(owned.OwnerReferences, metav1.OwnerReference{APIVersion: "v1", Kind: "K", Name: "o", UID: uid, Controller: new(true)})
	}
	for _, c := range []struct {
		pod     *corev1.Pod
		version string
		code    int32
	}{
		{pod("a"), "5", 500}, {pod("b"), "18446744073709551615", 500}, {pod("taken"), "5", 500}, {owned, "5", 422},
		{pod("c"), "0", 0}, {pod("d"), "x", 0}, {pod("e"), "18446744073709551616", 0}, {pod("taken"), "0", 409},
	} {
		c.pod.ResourceVersion = c.version
		out, err := s.Create(t.Context(), target(""), c.pod, metav1.CreateOptions{})
		var status *apierrors.StatusError
		switch {
		case c.code == 0 && (err != nil || out.(*corev1.Pod).ResourceVersion == c.version), c.code != 0 && (!errors.As(err, &status) || status.ErrStatus.Code != c.code):
			t.Errorf("%s at %s: %v, %v; want %d", c.pod.Name, c.version, out, err, c.code)
		case c.code == 500 && (err.Error() != "resourceVersion should not be set on objects to be created" || apierrors.ReasonForError(err) != metav1.StatusReasonUnknown):
			t.Errorf("%s at %s: %v, reason %q", c.pod.Name, c.version, err, apierrors.ReasonForError(err))
		}
	}
}

// TestPatchLimits: a patch has the limits that it has at the API server.
func TestPatchLimits(t *testing.T) {
	s := fakeapi.New(fakeapi.Options{})
	create(t, s, pod("a"))
	copies := `[{"op":"add","path":"/metadata/annotations","value":{"b":"xxxxxxxxxx"}}`
	for i := range 40 {
		copies += fmt.Sprintf(`,{"op":"copy","from":"/metadata/annotations","path":"/metadata/annotations/c%d"}`, i)
	}
	for name, test := range map[string]struct {
		form        types.PatchType
		patch, want string
	}{
		"copies":     {types.JSONPatchType, copies + "]", "exceeding the limit 3145728"},
		"operations": {types.JSONPatchType, "[" + strings.Repeat("{},", 10000) + "{}]", "maximum operations in a JSON patch is 10000, got 10001"},
		"nulls":      {types.StrategicMergePatchType, `{"spec":{"containers":[{"name":{}}]}}`, ""},
	} {
		_, err := s.Patch(t.Context(), target("a"), client.Patch{Type: test.form, Data: []byte(test.patch)}, metav1.PatchOptions{})
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.Patch(gone, target("a"), client.Patch{Type: types.JSONPatchType, Data: []byte(`[{}]`)}, metav1.PatchOptions{}); err == nil || !strings.Contains(err.Error(), context.Canceled.Error()) {
		t.Errorf("after the client went: %v", err)
	}
}

func TestDelete(t *testing.T) {
	s := fakeapi.New(fakeapi.Options{})
	create(t, s, pod("pending"))
	running := pod("running")
	running.Spec.NodeName = "n"
	create(t, s, running)
	kept := pod("kept")
	kept.Finalizers = []string{"x/y"}
	create(t, s, kept)

	for _, name := range []string{"pending", "running", "kept"} {
		if err := s.Delete(t.Context(), target(name), metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.Get(t.Context(), target("pending")); !apierrors.IsNotFound(err) {
		t.Errorf("pending pod: %v", err)
	}
	out, err := s.Get(t.Context(), target("running"))
	if err != nil || *out.(*corev1.Pod).DeletionGracePeriodSeconds != 30 {
		t.Errorf("running pod: %v, %v", out, err)
	}
	zero := int64(0)
	if err := s.Delete(t.Context(), target("running"), metav1.DeleteOptions{GracePeriodSeconds: &zero}); err != nil {
		t.Fatal(err)
	}
	out, err = s.Get(t.Context(), target("kept"))
	if err != nil {
		t.Fatal(err)
	}
	final := out.(*corev1.Pod)
	final.Finalizers = nil
	if _, err := s.Update(t.Context(), target("kept"), final, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	list, err := s.List(t.Context(), target(""), metav1.ListOptions{})
	if err != nil || len(list.(*corev1.PodList).Items) != 0 {
		t.Errorf("left: %v, %v", list, err)
	}
	other := types.UID("other")
	create(t, s, pod("again"))
	err = s.Delete(t.Context(), target("again"), metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &other}})
	if !apierrors.IsConflict(err) {
		t.Errorf("other uid: %v", err)
	}
}

func TestSourceAndHold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := fakeapi.New(fakeapi.Options{})
		create(t, s, pod("a"))
		feed := fakeapi.Source[*corev1.Pod](s, fakeapi.Pods)
		items, version, err := feed.List(t.Context())
		if err != nil || len(items) != 1 || version != "1" {
			t.Fatalf("list %v at %s, %v", items, version, err)
		}
		watch, err := feed.Watch(t.Context(), version)
		if err != nil {
			t.Fatal(err)
		}
		defer watch.Close()
		feed.Hold()
		create(t, s, pod("b"))
		short, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := watch.Next(short); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("held watch: %v", err)
		}
		feed.Resume()
		events, err := watch.Next(t.Context())
		if err != nil || len(events) != 1 || events[0].Object.Name != "b" || events[0].Version != "2" {
			t.Errorf("events %v, %v", events, err)
		}
		events[0].Object.Labels["app"] = "changed"
		if bad := s.Mutated(); len(bad) != 1 || bad[0] != "pods default/b" {
			t.Errorf("mutated: %v", bad)
		}
	})
}

func TestKindsAndFailures(t *testing.T) {
	refused := errors.New("refused")
	s := fakeapi.New(fakeapi.Options{Before: func(a fakeapi.Action) error {
		if a.String() == "create deployments default/bad" {
			return refused
		}
		return nil
	}})
	in := client.Target{Resource: appsv1.SchemeGroupVersion.WithResource("deployments"), Namespace: "default"}
	for name, want := range map[string]error{"good": nil, "bad": refused} {
		_, err := s.Create(t.Context(), in, &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
		if !errors.Is(err, want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	endpoints := client.Target{Resource: corev1.SchemeGroupVersion.WithResource("endpoints"), Namespace: "default"}
	if _, err := s.Create(t.Context(), endpoints, &corev1.Endpoints{ObjectMeta: metav1.ObjectMeta{Name: "e"}}, metav1.CreateOptions{}); err != nil {
		t.Error(err)
	}
	if got := len(s.Actions()); got != 3 {
		t.Errorf("%d actions", got)
	}
}
