package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
)

const (
	namespace = "load"
	writers   = 8
	patience  = 30 * time.Second
)

// load holds the clients of the cluster: writers of ConfigMaps, one that keeps rolling out a deployment, and watchers
// of ConfigMaps and pods.
type load struct {
	api      kubernetes.Interface
	writers  []*writer
	watchers []*watcher // the first two watch ConfigMaps, the last one pods
	image    string     // the deployment's image, as acknowledged
	pending  string
	serial   int
	compared int

	failed chan struct{} // closed when a worker has failed
	mu     sync.Mutex
	errs   []error // of the workers

	stopWriters, stopWatchers context.CancelFunc
	writing, watching         sync.WaitGroup
	ctx                       context.Context //nolint:containedctx // of the whole run, which owns the goroutines
}

func newLoad(ctx context.Context, api kubernetes.Interface, seed uint64) (*load, error) {
	if _, err := api.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}, metav1.CreateOptions{}); err != nil {
		return nil, err
	}
	l := &load{api: api, failed: make(chan struct{}), ctx: ctx, image: "nginx:0"}
	l.stopWriters, l.stopWatchers = func() {}, func() {}
	for i := range writers {
		l.writers = append(l.writers, newWriter(api.CoreV1().ConfigMaps(namespace), i, seed))
	}
	configmaps := source{
		list: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			return api.CoreV1().ConfigMaps(namespace).List(ctx, o)
		},
		watch: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			return api.CoreV1().ConfigMaps(namespace).Watch(ctx, o)
		},
	}
	pods := source{
		list: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			return api.CoreV1().Pods(namespace).List(ctx, o)
		},
		watch: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			return api.CoreV1().Pods(namespace).Watch(ctx, o)
		},
	}
	l.watchers = []*watcher{newWatcher(configmaps), newWatcher(configmaps), newWatcher(pods)}
	l.startWatchers()
	return l, l.createDeployment(ctx)
}

func (l *load) createDeployment(ctx context.Context) error {
	replicas, labels := int32(4), map[string]string{"app": "nginx"}
	limit := int32(2)
	_, err := l.api.AppsV1().Deployments(namespace).Create(ctx, &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: "nginx"},
		Spec: appsv1.DeploymentSpec{
			Replicas: &replicas, RevisionHistoryLimit: &limit, Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "nginx", Image: l.image}}},
			},
		},
	}, metav1.CreateOptions{})
	return err
}

// spawn runs one worker; its error ends the whole run.
func (l *load) spawn(group *sync.WaitGroup, work func() error) {
	group.Go(func() {
		if err := work(); err != nil {
			l.mu.Lock()
			defer l.mu.Unlock()
			if len(l.errs) == 0 {
				close(l.failed)
			}
			l.errs = append(l.errs, err)
		}
	})
}

// errWorker means that a worker has failed; close returns its error.
var errWorker = errors.New("a writer or a watcher has failed")

// resume starts the writers.
func (l *load) resume() {
	ctx, stop := context.WithCancel(l.ctx)
	l.stopWriters = stop
	for _, w := range l.writers {
		l.spawn(&l.writing, func() error { return w.run(ctx) })
	}
	l.spawn(&l.writing, func() error { return l.roll(ctx) })
}

// pause waits for the writers and watchers, which have lost their server.
func (l *load) pause() {
	l.writing.Wait()
	l.stopWriters()
	l.watching.Wait()
	l.stopWatchers()
}

func (l *load) startWatchers() {
	ctx, stop := context.WithCancel(l.ctx)
	l.stopWatchers = stop
	for _, w := range l.watchers {
		l.spawn(&l.watching, func() error { return w.run(ctx) })
	}
}

// close stops the workers and returns all errors that they found.
func (l *load) close() error {
	l.stopWriters()
	l.stopWatchers()
	l.writing.Wait()
	l.watching.Wait()
	return errors.Join(l.errs...)
}

// roll sets one image of the deployment after another: kills happen in the middle of rollouts.
func (l *load) roll(ctx context.Context) error {
	for ctx.Err() == nil {
		l.serial++
		l.pending = "nginx:" + strconv.Itoa(l.serial)
		patch := fmt.Sprintf(`{"spec":{"replicas":%d,"template":{"spec":{"containers":[{"name":"nginx","image":%q}]}}}}`, 2+l.serial%4, l.pending)
		_, err := l.api.AppsV1().Deployments(namespace).Patch(ctx, "nginx", types.StrategicMergePatchType, []byte(patch), metav1.PatchOptions{})
		var refused apierrors.APIStatus
		switch {
		case err == nil:
			l.image, l.pending = l.pending, ""
		case errors.As(err, &refused) && !apierrors.IsConflict(err):
			return fmt.Errorf("%w: the deployment's change was refused: %w", errViolated, err)
		case !errors.As(err, &refused):
			return nil // connection lost
		}
		select {
		case <-time.After(70 * time.Millisecond):
		case <-ctx.Done():
		}
	}
	return nil
}

// check compares the restarted server with everything that was acknowledged and seen, while nobody writes ConfigMaps.
func (l *load) check(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	l.startWatchers()
	select {
	case <-l.failed:
		return errWorker
	default:
	}
	list, err := l.api.CoreV1().ConfigMaps(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	there := map[string]*corev1.ConfigMap{}
	for i := range list.Items {
		there[list.Items[i].Name] = &list.Items[i]
	}
	var lost []error
	for _, w := range l.writers {
		lost = append(lost, w.check(there))
		l.compared += len(w.objects)
	}
	if err := errors.Join(lost...); err != nil {
		return err
	}
	d, err := l.api.AppsV1().Deployments(namespace).Get(ctx, "nginx", metav1.GetOptions{})
	if err != nil {
		return err
	}
	if image := d.Spec.Template.Spec.Containers[0].Image; image != l.image && image != l.pending {
		return fmt.Errorf("%w: the deployment has image %s, acknowledged was %s (without answer: %s)", errViolated, image, l.image, l.pending)
	} else {
		l.image = image
	}
	return l.checkWatchers(ctx)
}

// checkWatchers writes a last ConfigMap and compares the watchers of ConfigMaps with a list.
func (l *load) checkWatchers(ctx context.Context) error {
	last, err := l.api.CoreV1().ConfigMaps(namespace).Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{GenerateName: "last-"}}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	at, err := strconv.ParseInt(last.ResourceVersion, 10, 64)
	if err != nil {
		return err
	}
	list, err := l.api.CoreV1().ConfigMaps(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	for _, w := range l.watchers[:2] {
		if err := w.reach(ctx, at); err != nil {
			return err
		}
		if err := w.agrees(list); err != nil {
			return err
		}
	}
	return l.api.CoreV1().ConfigMaps(namespace).Delete(ctx, last.Name, metav1.DeleteOptions{})
}

// settle waits until the last rollout is complete and the watcher of pods agrees with the list: this shows that
// controllers, scheduler and nodes have continued.
func (l *load) settle(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	var last error
	for {
		d, err := l.api.AppsV1().Deployments(namespace).Get(ctx, "nginx", metav1.GetOptions{})
		if err != nil {
			return errors.Join(err, last)
		}
		pods, err := l.api.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return errors.Join(err, last)
		}
		want := *d.Spec.Replicas
		ready := d.Status.ObservedGeneration == d.Generation && d.Status.UpdatedReplicas == want && d.Status.AvailableReplicas == want &&
			d.Status.Replicas == want && len(pods.Items) == int(want) &&
			!slices.ContainsFunc(pods.Items, func(p corev1.Pod) bool { return p.Spec.Containers[0].Image != l.image || p.DeletionTimestamp != nil })
		if last = fmt.Errorf("%w: %d pods, deployment status %+v", errViolated, len(pods.Items), d.Status); ready {
			if last = l.watchers[2].agrees(pods); last == nil {
				return nil
			}
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-ctx.Done():
			return errors.Join(ctx.Err(), last)
		}
	}
}

func (l *load) total() counts {
	c := counts{compared: l.compared}
	for _, w := range l.writers {
		c.acknowledged += w.acknowledged
		c.uncertain += w.uncertain
		c.landed += w.landed
	}
	for _, w := range l.watchers {
		w.mu.Lock()
		c.events += w.events
		c.resumed += w.resumed
		c.relisted += w.relisted
		w.mu.Unlock()
	}
	return c
}
