package namespaceautoprovision_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/keelson-dev/keelson/admission"
	"github.com/keelson-dev/keelson/admission/admissiontest"
	"github.com/keelson-dev/keelson/admission/namespaceautoprovision"
	"github.com/keelson-dev/keelson/informer"
)

var _ namespaceautoprovision.Namespaces = (*informer.Informer[*corev1.Namespace])(nil)

// namespaces is a cache of one namespace.
type namespaces string

func (n namespaces) Get(namespace, name string) (*corev1.Namespace, bool) {
	return &corev1.Namespace{}, namespace == "" && name == string(n)
}

func TestPlugin(t *testing.T) {
	exists := apierrors.NewAlreadyExists(schema.GroupResource{Resource: "namespaces"}, "new")
	down := errors.New("down")
	pod := func(ns string) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "p"}}
	}
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "new"}}
	for name, c := range map[string]struct {
		r       *admission.Request
		err     error
		made    string
		refused string
	}{
		"there":               {admissiontest.Create(t, pod("here")), down, "", ""},
		"made":                {admissiontest.Create(t, pod("new")), nil, "new", ""},
		"somebody made it":    {admissiontest.Create(t, pod("new")), exists, "new", ""},
		"not possible":        {admissiontest.Create(t, pod("new")), down, "new", `pods "p" is forbidden: down`},
		"a dry run":           {admissiontest.Create(t, pod("new"), admissiontest.DryRun), nil, "", ""},
		"without a namespace": {admissiontest.Create(t, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}}), nil, "", ""},
		"a namespace":         {admissiontest.Create(t, ns, func(r *admission.Request) { r.Namespace = "new" }), nil, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			var made []string
			p := namespaceautoprovision.New(namespaces("here"), func(_ context.Context, ns *corev1.Namespace) error {
				made = append(made, ns.Name)
				return c.err
			})
			if c.refused == "" {
				admissiontest.Admits(t, p, c.r, c.r.Object)
			} else if refusal := admissiontest.Refuses(t, p, c.r, c.refused); !errors.Is(refusal, down) {
				t.Errorf("the cause is missing: %v", refusal)
			}
			if want := strings.Fields(c.made); !slices.Equal(slices.Compact(made), want) {
				t.Errorf("made %q, want %q", made, want)
			}
		})
	}
	p := namespaceautoprovision.New(namespaces("here"), func(context.Context, *corev1.Namespace) error { return nil })
	admissiontest.TestPlugin(t, p, admissiontest.Create(t, pod("new")), admissiontest.Create(t, pod("here")))
	if p.Handles(admission.Update) || p.Handles(admission.Delete) {
		t.Error("it handles more than creates")
	}
}

func Example() {
	p := namespaceautoprovision.New(namespaces(""), func(_ context.Context, ns *corev1.Namespace) error {
		fmt.Println("create namespace", ns.Name)
		return nil
	})
	fmt.Println(p.Admit(context.Background(), &admission.Request{Operation: admission.Create, Namespace: "new", Name: "p"}))
	// Output:
	// create namespace new
	// <nil>
}
