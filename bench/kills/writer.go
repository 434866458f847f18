package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
)

// state is the state of one object as its writer knows it; the zero value means that it does not exist.
type state struct {
	exists bool
	value  string
}

// object is one ConfigMap and what its writer knows of it.
type object struct {
	name     string
	is       state  // as last acknowledged
	revision string // the revision of is
	pending  *state // the intended result of an unanswered write
}

// writer owns its objects: nobody else writes them.
type writer struct {
	api     corev1client.ConfigMapInterface
	random  *rand.Rand
	objects []*object
	serial  int
	name    string
	counts
}

func newWriter(api corev1client.ConfigMapInterface, number int, seed uint64) *writer {
	w := &writer{api: api, random: rand.New(rand.NewPCG(seed, uint64(number)+1)), name: fmt.Sprintf("writer-%d", number)}
	for i := range 8 {
		w.objects = append(w.objects, &object{name: fmt.Sprintf("%s-%d", w.name, i)})
	}
	return w
}

// run writes until the context ends or a write is not answered. A definite refusal is an error, since nobody else
// writes these objects.
func (w *writer) run(ctx context.Context) error {
	for ctx.Err() == nil {
		o := w.objects[w.random.IntN(len(w.objects))]
		w.serial++
		wanted := state{exists: true, value: w.name + "." + strconv.Itoa(w.serial)}
		if o.is.exists && w.random.IntN(5) == 0 {
			wanted = state{}
		}
		o.pending = &wanted
		revision, err := w.write(ctx, o, wanted)
		var refused apierrors.APIStatus
		switch {
		case err == nil:
			o.is, o.revision, o.pending = wanted, revision, nil
			w.acknowledged++
		case errors.As(err, &refused):
			return fmt.Errorf("%w: %s was refused: %w", errViolated, o.name, err)
		default:
			w.uncertain++
			return nil // connection lost
		}
	}
	return nil
}

// write sends one create, update, patch or delete.
func (w *writer) write(ctx context.Context, o *object, wanted state) (revision string, err error) {
	cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: o.name}, Data: map[string]string{"value": wanted.value}}
	var got *corev1.ConfigMap
	switch {
	case !wanted.exists:
		return "", w.api.Delete(ctx, o.name, metav1.DeleteOptions{})
	case !o.is.exists:
		got, err = w.api.Create(ctx, cm, metav1.CreateOptions{})
	case w.random.IntN(2) == 0:
		cm.ResourceVersion = o.revision
		got, err = w.api.Update(ctx, cm, metav1.UpdateOptions{})
	default:
		patch := fmt.Sprintf(`{"data":{"value":%q}}`, wanted.value)
		got, err = w.api.Patch(ctx, o.name, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	}
	if err != nil {
		return "", err
	}
	return got.ResourceVersion, nil
}

// check compares what is known with the server's objects, and records the outcome of an unanswered write.
func (w *writer) check(there map[string]*corev1.ConfigMap) error {
	var lost []error
	for _, o := range w.objects {
		var now state
		revision := ""
		if cm := there[o.name]; cm != nil {
			now, revision = state{exists: true, value: cm.Data["value"]}, cm.ResourceVersion
		}
		switch {
		case now == o.is && (revision == o.revision || !now.exists):
		case o.pending != nil && now == *o.pending:
			w.landed++
		default:
			lost = append(lost, fmt.Errorf("%w: %s is %+v at %q, acknowledged was %+v at %q (without answer: %+v)",
				errViolated, o.name, now, revision, o.is, o.revision, o.pending))
		}
		o.is, o.revision, o.pending = now, revision, nil
	}
	return errors.Join(lost...)
}
