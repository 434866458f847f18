package namespacelifecycle_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/admission"
	"github.com/keelson-dev/keelson/admission/admissiontest"
	"github.com/keelson-dev/keelson/admission/namespacelifecycle"
	"github.com/keelson-dev/keelson/informer"
	"github.com/keelson-dev/keelson/informer/memory"
)

var _ namespacelifecycle.Namespaces = (*informer.Informer[*corev1.Namespace])(nil)

func namespace(name string, phase corev1.NamespacePhase) *corev1.Namespace {
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}, Status: corev1.NamespaceStatus{Phase: phase}}
}

func pod(namespace string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "p"}}
}

// cached returns a cache of the two namespaces of these tests.
func cached() *memory.Store[*corev1.Namespace] {
	store := memory.New[*corev1.Namespace]()
	store.Put(namespace("live", corev1.NamespaceActive))
	store.Put(namespace("dying", corev1.NamespaceTerminating))
	return store
}

func TestCreate(t *testing.T) {
	live := func(_ context.Context, name string) (*corev1.Namespace, bool, error) {
		switch name {
		case "new":
			return namespace(name, corev1.NamespaceActive), true, nil
		case "down":
			return nil, false, errors.New("no connection")
		}
		return nil, false, nil
	}
	review := &authorizationv1.LocalSubjectAccessReview{ObjectMeta: metav1.ObjectMeta{Namespace: "gone", Name: "r"}}
	dying := `pods "p" is forbidden: unable to create new content in namespace dying because it is being terminated`
	for name, test := range map[string]struct {
		options namespacelifecycle.Options
		object  admissiontest.Object
		refusal string
		is      error
	}{
		"in an active namespace":      {object: pod("live")},
		"in a terminating namespace":  {object: pod("dying"), refusal: dying, is: admission.ErrForbidden},
		"in no namespace":             {object: pod("gone"), refusal: `namespaces "gone" not found`, is: admission.ErrNotFound},
		"unknown to cache and server": {options: namespacelifecycle.Options{Live: live}, object: pod("gone"), refusal: `namespaces "gone" not found`, is: admission.ErrNotFound},
		"unknown to the cache":        {options: namespacelifecycle.Options{Live: live}, object: pod("new")},
		"server does not answer":      {options: namespacelifecycle.Options{Live: live}, object: pod("down"), refusal: "Internal error occurred: no connection", is: admission.ErrInternal},
		"a cluster-scoped object":     {object: &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}}},
		"a namespace":                 {object: namespace("other", "")},
		"an access review":            {object: review},
	} {
		t.Run(name, func(t *testing.T) {
			p := namespacelifecycle.New(cached(), test.options)
			r := admissiontest.Create(t, test.object)
			admissiontest.TestPlugin(t, p, r)
			if test.refusal == "" {
				admissiontest.Admits(t, p, r, test.object)
				return
			}
			if err := admissiontest.Refuses(t, p, r, test.refusal); !errors.Is(err, test.is) {
				t.Errorf("%v is not %v", err, test.is)
			}
		})
	}
}

// TestSubresources: creating a subresource counts as new content, too; changes and deletions never do.
func TestSubresources(t *testing.T) {
	p := namespacelifecycle.New(cached(), namespacelifecycle.Options{})
	for subresource, of := range map[string]admissiontest.Object{
		"binding": &corev1.Binding{ObjectMeta: metav1.ObjectMeta{Namespace: "dying", Name: "p"}}, "eviction": pod("dying"), "ephemeralcontainers": pod("dying"),
	} {
		r := admissiontest.Create(t, of, admissiontest.Subresource(subresource))
		err := admissiontest.Refuses(t, p, r, r.Resource.Resource+` "p" is forbidden: unable to create new content in namespace dying because it is being terminated`)
		if !errors.Is(err, admission.ErrForbidden) || len(err.Causes) != 1 {
			t.Errorf("%s: %#v", subresource, err)
		}
		r.Namespace = "gone"
		admissiontest.Refuses(t, p, r, `namespaces "gone" not found`)
		r.Namespace = "live"
		admissiontest.Admits(t, p, r, r.Object)
	}
	admissiontest.Admits(t, p, admissiontest.Create(t, namespace("dying", ""), admissiontest.Subresource("finalize")), namespace("dying", ""))
	if p.Handles(admission.Update) || p.Handles(admission.Connect) {
		t.Error("it handles more than creations and deletions")
	}
}

// TestOnlyAccessReviewsAreExempt: only access reviews are exempt, not resources of the same name in another group.
func TestOnlyAccessReviewsAreExempt(t *testing.T) {
	p := namespacelifecycle.New(cached(), namespacelifecycle.Options{})
	r := admissiontest.Create(t, pod("dying"), func(r *admission.Request) {
		r.Resource.Group, r.Resource.Resource = "example.com", "localsubjectaccessreviews"
	})
	admissiontest.Refuses(t, p, r, `localsubjectaccessreviews.example.com "p" is forbidden: unable to create new content in namespace dying because it is being terminated`)
}

// TestSuspicionOfMissingNamespaces: a suspect namespace accepts nothing if the server no longer has it, or cannot be
// asked.
func TestSuspicionOfMissingNamespaces(t *testing.T) {
	var down error
	p := namespacelifecycle.New(cached(), namespacelifecycle.Options{
		Live: func(context.Context, string) (*corev1.Namespace, bool, error) { return nil, false, down },
	})
	create := admissiontest.Create(t, pod("live"))
	admissiontest.Admits(t, p, create, create.Object)
	if _, err := admissiontest.Run(t, p, admissiontest.Delete(t, namespace("live", ""))); err != nil {
		t.Fatal(err)
	}
	admissiontest.Refuses(t, p, create, `namespaces "live" not found`)
	down = errors.New("no connection")
	admissiontest.Refuses(t, p, create, "Internal error occurred: no connection")
}

func TestTerminatingCause(t *testing.T) {
	p := namespacelifecycle.New(cached(), namespacelifecycle.Options{})
	err := admissiontest.Refuses(t, p, admissiontest.Create(t, pod("dying")),
		`pods "p" is forbidden: unable to create new content in namespace dying because it is being terminated`)
	want := metav1.StatusCause{Type: corev1.NamespaceTerminatingCause, Message: "namespace dying is being terminated", Field: "metadata.namespace"}
	if err == nil || len(err.Causes) != 1 || err.Causes[0] != want {
		t.Errorf("causes of %#v", err)
	}
}

func TestDelete(t *testing.T) {
	p := namespacelifecycle.New(cached(), namespacelifecycle.Options{})
	for _, name := range []string{"default", "kube-system", "kube-public"} {
		admissiontest.Refuses(t, p, admissiontest.Delete(t, namespace(name, corev1.NamespaceActive)),
			fmt.Sprintf("namespaces %q is forbidden: this namespace may not be deleted", name))
	}
	for _, old := range []admissiontest.Object{namespace("live", corev1.NamespaceActive), pod("dying"), pod("gone")} {
		if _, err := admissiontest.Run(t, p, admissiontest.Delete(t, old)); err != nil {
			t.Errorf("delete of %s refused: %v", old.GetName(), err)
		}
	}
}

// After a deletion that the cache may have missed, creations ask the server for a while.
func TestSuspicion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked := 0
		p := namespacelifecycle.New(cached(), namespacelifecycle.Options{
			Live: func(_ context.Context, name string) (*corev1.Namespace, bool, error) {
				asked++
				return namespace(name, corev1.NamespaceTerminating), true, nil
			},
		})
		create := admissiontest.Create(t, pod("live"))
		admissiontest.Admits(t, p, create, create.Object)
		// Many deletions elsewhere push out the oldest suspects, not the newest.
		for n := range 150 {
			if _, err := admissiontest.Run(t, p, admissiontest.Delete(t, namespace(fmt.Sprintf("n%d", n), ""))); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Millisecond)
		}
		if _, err := admissiontest.Run(t, p, admissiontest.Delete(t, namespace("live", ""))); err != nil {
			t.Fatal(err)
		}
		admissiontest.Refuses(t, p, create, `pods "p" is forbidden: unable to create new content in namespace live because it is being terminated`)
		time.Sleep(30 * time.Second)
		admissiontest.Admits(t, p, create, create.Object)
		if asked != 1 {
			t.Errorf("the server was asked %d times", asked)
		}
	})
}
