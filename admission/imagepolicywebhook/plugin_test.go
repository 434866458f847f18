package imagepolicywebhook_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/api/imagepolicy/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/admission"
	"github.com/keelson-dev/keelson/admission/imagepolicywebhook"
)

func pod() *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "p", Annotations: map[string]string{"a.image-policy.k8s.io/b": "c", "other": "x"}},
		Spec: corev1.PodSpec{
			InitContainers: []corev1.Container{{Image: "init"}}, Containers: []corev1.Container{{Image: "one"}, {Image: "two"}},
			EphemeralContainers: []corev1.EphemeralContainer{{EphemeralContainerCommon: corev1.EphemeralContainerCommon{Image: "debug"}}},
		},
	}
}

func request(change func(*admission.Request)) *admission.Request {
	r := &admission.Request{
		Operation: admission.Create, Resource: corev1.SchemeGroupVersion.WithResource("pods"), Kind: corev1.SchemeGroupVersion.WithKind("Pod"),
		Namespace: "ns", Name: "p", Object: pod(),
	}
	if change != nil {
		change(r)
	}
	return r
}

// backend answers and remembers.
type backend struct {
	asked  []v1alpha1.ImageReviewSpec
	status v1alpha1.ImageReviewStatus
	err    error
}

func (b *backend) Review(_ context.Context, r *v1alpha1.ImageReview) (v1alpha1.ImageReviewStatus, error) {
	b.asked = append(b.asked, r.Spec)
	return b.status, b.err
}

// TestReviews: what is asked about which requests.
func TestReviews(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*admission.Request)
		images string
		err    string
	}{
		"a pod":                  {images: "[{one} {two} {init}]"},
		"an ephemeral container": {change: func(r *admission.Request) { r.Operation, r.Subresource = admission.Update, "ephemeralcontainers" }, images: "[{debug}]"},
		"a status":               {change: func(r *admission.Request) { r.Operation, r.Subresource = admission.Update, "status" }},
		"something else":         {change: func(r *admission.Request) { r.Resource.Resource = "services" }},
		"no pod":                 {change: func(r *admission.Request) { r.Object = &corev1.Service{} }, err: "Resource was marked with kind Pod but was unable to be converted"},
	} {
		b := &backend{status: v1alpha1.ImageReviewStatus{Allowed: true}}
		p := imagepolicywebhook.New(b, imagepolicywebhook.Options{})
		err := p.Validate(t.Context(), request(c.change))
		if (err != nil) != (c.err != "") || err != nil && err.Error() != c.err {
			t.Errorf("%s: %v", name, err)
		}
		switch {
		case c.images == "" && len(b.asked) > 0:
			t.Errorf("%s: asked %v", name, b.asked)
		case c.images != "" && (len(b.asked) != 1 || fmt.Sprint(b.asked[0].Containers) != c.images || b.asked[0].Namespace != "ns" ||
			!maps.Equal(b.asked[0].Annotations, map[string]string{"a.image-policy.k8s.io/b": "c"})):
			t.Errorf("%s: asked %+v", name, b.asked)
		}
	}
	p := imagepolicywebhook.New(nil, imagepolicywebhook.Options{})
	for op, want := range map[admission.Operation]bool{admission.Create: true, admission.Update: true, admission.Delete: false, admission.Connect: false} {
		if p.Handles(op) != want {
			t.Errorf("handles %s: %t", op, !want)
		}
	}
}

// TestAnswers: what the backend says, or does not say, is what becomes of the pod.
func TestAnswers(t *testing.T) {
	down := errors.New("no backend")
	for name, c := range map[string]struct {
		status v1alpha1.ImageReviewStatus
		err    error
		open   bool
		want   string
		notes  []string
	}{
		"allowed":     {status: v1alpha1.ImageReviewStatus{Allowed: true, AuditAnnotations: map[string]string{"k": "v"}}, notes: []string{"imagepolicywebhook.image-policy.k8s.io/k=v"}},
		"denied":      {status: v1alpha1.ImageReviewStatus{Reason: "old", AuditAnnotations: map[string]string{"k": "v"}}, want: `pods "p" is forbidden: image policy webhook backend denied one or more images: old`, notes: []string{"imagepolicywebhook.image-policy.k8s.io/k=v"}},
		"no reason":   {want: `pods "p" is forbidden: one or more images rejected by webhook backend`},
		"denied open": {open: true, want: `pods "p" is forbidden: one or more images rejected by webhook backend`},
		"down":        {err: down, want: `pods "p" is forbidden: no backend`},
		"down, open":  {err: down, open: true, notes: []string{"imagepolicywebhook.image-policy.k8s.io/failed-open=true"}},
	} {
		var notes []string
		p := imagepolicywebhook.New(&backend{status: c.status, err: c.err}, imagepolicywebhook.Options{FailOpen: c.open, Annotate: func(_ context.Context, k, v string) {
			notes = append(notes, k+"="+v)
		}})
		err := p.Validate(t.Context(), request(nil))
		if (err != nil) != (c.want != "") || err != nil && (err.Error() != c.want || !errors.Is(err, admission.ErrForbidden)) || !slices.Equal(notes, c.notes) {
			t.Errorf("%s: %v, %v", name, err, notes)
		}
	}
}

// TestKept: answers are kept for their time, each for its own images; failures are not.
func TestKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for name, c := range map[string]struct {
			allowed bool
			o       imagepolicywebhook.Options
			keep    time.Duration
		}{
			"allowed by default": {true, imagepolicywebhook.Options{}, 5 * time.Minute},
			"denied by default":  {false, imagepolicywebhook.Options{}, 30 * time.Second},
			"allowed":            {true, imagepolicywebhook.Options{KeepAllowed: time.Second, KeepDenied: time.Hour}, time.Second},
			"denied":             {false, imagepolicywebhook.Options{KeepAllowed: time.Hour, KeepDenied: time.Second}, time.Second},
			"not at all":         {true, imagepolicywebhook.Options{KeepAllowed: -1}, 0},
		} {
			b := &backend{status: v1alpha1.ImageReviewStatus{Allowed: c.allowed}}
			p := imagepolicywebhook.New(b, c.o)
			ask := func() int {
				if err := p.Validate(t.Context(), request(nil)); (err == nil) != c.allowed {
					t.Errorf("%s: %v", name, err)
				}
				return len(b.asked)
			}
			first := ask()
			if c.keep > 0 {
				time.Sleep(c.keep - time.Millisecond)
				if ask() != first {
					t.Errorf("%s: not kept", name)
				}
				_ = p.Validate(t.Context(), request(func(r *admission.Request) { r.Object.(*corev1.Pod).Spec.Containers[0].Image = "three" }))
				if len(b.asked) != first+1 {
					t.Errorf("%s: other images are not asked about", name)
				}
			}
			time.Sleep(2 * time.Millisecond)
			if before := len(b.asked); ask() != before+1 {
				t.Errorf("%s: kept too long", name)
			}
		}
		b := &backend{err: errors.New("down")}
		p := imagepolicywebhook.New(b, imagepolicywebhook.Options{FailOpen: true})
		for range 2 {
			if err := p.Validate(t.Context(), request(nil)); err != nil {
				t.Error(err)
			}
		}
		if len(b.asked) != 2 {
			t.Error("a failure is kept")
		}
	})
}

func Example() {
	only := imagepolicywebhook.ReviewerFunc(func(_ context.Context, r *v1alpha1.ImageReview) (v1alpha1.ImageReviewStatus, error) {
		for _, c := range r.Spec.Containers {
			if c.Image != "nginx:1.27" {
				return v1alpha1.ImageReviewStatus{Reason: c.Image + " is not known"}, nil
			}
		}
		return v1alpha1.ImageReviewStatus{Allowed: true}, nil
	})
	p := imagepolicywebhook.New(only, imagepolicywebhook.Options{})
	err := p.Validate(context.Background(), &admission.Request{
		Operation: admission.Create, Resource: corev1.SchemeGroupVersion.WithResource("pods"), Name: "web",
		Object: &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Image: "nginx:latest"}}}},
	})
	fmt.Println(err)
	// Output: pods "web" is forbidden: image policy webhook backend denied one or more images: nginx:latest is not known
}
