package kubelet

import (
	"context"
	"errors"
	"log/slog"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/client"
)

// answering is a Client that supports only reads.
type answering struct {
	Client
	obj runtime.Object
	err error
}

func (a answering) Get(context.Context, client.Target) (runtime.Object, error) { return a.obj, a.err }

// TestConflictWithAnotherPod: the status of a pod is never written to another pod that has taken its name.
func TestConflictWithAnotherPod(t *testing.T) {
	named := func(uid types.UID) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", UID: uid}}
	}
	conflict, away := errors.New("conflict"), errors.New("away")
	ours, newer := named("ours"), named("ours")
	for name, c := range map[string]struct {
		answer  answering
		updated *corev1.Pod
		is      func(error) bool
	}{
		"a newer state of our pod": {answering{obj: newer}, newer, func(err error) bool { return errors.Is(err, conflict) }},
		"another pod":              {answering{obj: named("theirs")}, ours, apierrors.IsNotFound},
		"no pod":                   {answering{obj: &corev1.Node{}}, ours, apierrors.IsNotFound},
		"unknown":                  {answering{err: away}, ours, func(err error) bool { return errors.Is(err, away) }},
	} {
		s := newSender(c.answer, slog.New(slog.DiscardHandler))
		if updated, err := s.refresh(t.Context(), ours, conflict); updated != c.updated || !c.is(err) {
			t.Errorf("%s: %v, %v", name, updated, err)
		}
	}
}

func TestNewerStates(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want bool
	}{{"10", "9", true}, {"9", "10", false}, {"9", "9", false}, {"x", "9", true}, {"9", "", true}} {
		if got := newer(c.a, c.b); got != c.want {
			t.Errorf("%q after %q: %v", c.a, c.b, got)
		}
	}
}
