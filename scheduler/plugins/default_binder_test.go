package plugins_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/keelson-dev/keelson/client"
	"github.com/keelson-dev/keelson/scheduler/plugins"
)

// posted notes what is created, and fails with the errors in their order.
type posted struct {
	to     []client.Target
	bodies []runtime.Object
	fails  []error
}

func (p *posted) Create(_ context.Context, to client.Target, body runtime.Object, _ metav1.CreateOptions) (runtime.Object, error) {
	p.to, p.bodies = append(p.to, to), append(p.bodies, body)
	if n := len(p.to); n <= len(p.fails) {
		return nil, p.fails[n-1]
	}
	return &metav1.Status{}, nil
}

func TestDefaultBinder(t *testing.T) {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p", UID: "u"}}
	unwell, no := apierrors.NewServiceUnavailable("not well"), apierrors.NewForbidden(corev1.Resource("pods/binding"), "p", errors.New("no"))
	for name, tt := range map[string]struct {
		fails []error
		want  error
		times int
		takes time.Duration
	}{
		"at once":                {nil, nil, 1, 0},
		"refused":                {[]error{no}, no, 1, 0},
		"when it is well again":  {[]error{unwell}, nil, 2, 10 * time.Millisecond},
		"by one that stays ill":  {[]error{unwell, unwell, unwell, unwell, unwell}, unwell, 4, 310 * time.Millisecond},
		"refused when it's well": {[]error{unwell, no}, no, 2, 10 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				api, began := &posted{fails: tt.fails}, time.Now()
				if err := (plugins.DefaultBinder{Client: api}).Bind(t.Context(), p, "n"); !errors.Is(err, tt.want) {
					t.Errorf("Bind says %v", err)
				}
				if len(api.to) != tt.times || time.Since(began) != tt.takes {
					t.Errorf("tried %d times in %v", len(api.to), time.Since(began))
				}
				want := client.Target{Resource: corev1.SchemeGroupVersion.WithResource("pods"), Namespace: "ns", Name: "p", Subresource: "binding"}
				if diff := cmp.Diff(want, api.to[0]); diff != "" {
					t.Error(diff)
				}
				binding := &corev1.Binding{ObjectMeta: p.ObjectMeta, Target: corev1.ObjectReference{Kind: "Node", Name: "n"}}
				if diff := cmp.Diff(runtime.Object(binding), api.bodies[0]); diff != "" {
					t.Error(diff)
				}
			})
		})
	}
}
