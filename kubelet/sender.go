package kubelet

import (
	"cmp"
	"context"
	"log/slog"
	"reflect"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/keelson-dev/keelson/podspec/origin"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/client"
	"github.com/keelson-dev/keelson/kubelet/decision"
)

// urgency is how soon a status must reach the API.
type urgency int

const (
	// provisional statuses are about to change. They are sent after provisionalDelay unless a settled one comes first,
	// so a pod that starts quickly costs one write.
	provisional urgency = iota
	// settled statuses will not change for now. They are sent after settledDelay, simultaneous ones in the order of
	// their pods' names.
	settled
)

// sender sends the statuses of pods to the API, in the background and in the order of their urgency. It retries the
// last status of every pod until the API has accepted it, and deletes terminating pods that have ended.
type sender struct {
	client Client
	log    *slog.Logger
	wake   chan struct{} // holds one token while there may be something to send

	mu      sync.Mutex
	reports map[types.UID]*report
	mirrors map[mirrored]*corev1.Pod // in the API, by the static pods that they claim to represent
}

// report is what to send about one pod.
type report struct {
	pod      *corev1.Pod // newest known state of the object
	status   corev1.PodStatus
	uid      types.UID
	finished bool // none of its containers runs any more
	// static pods are reported through their mirrors; absent is set while there is none.
	static, absent bool
	gone           bool // the object is no longer in the API: there is nothing to update
	// version counts statuses; sent is the last one that the API accepted.
	version, sent uint64
	due           time.Time // when to send; zero means never
	failures      int
}

func newSender(c Client, log *slog.Logger) *sender {
	return &sender{client: c, log: log, wake: make(chan struct{}, 1), reports: map[types.UID]*report{}, mirrors: map[mirrored]*corev1.Pod{}}
}

// set takes a pod's status. A status equal to the last one causes no write.
func (s *sender) set(pod *corev1.Pod, status corev1.PodStatus, u urgency) {
	s.take(pod, status, u, false)
}

// finish takes the last status of a pod that has ended. It may be called again when the pod has changed.
func (s *sender) finish(pod *corev1.Pod, status corev1.PodStatus) {
	s.take(pod, status, settled, true)
}

// status returns a pod's newest status.
func (s *sender) status(uid types.UID) (corev1.PodStatus, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r, known := s.reports[uid]
	if !known {
		return corev1.PodStatus{}, false
	}
	return *r.status.DeepCopy(), true
}

func (s *sender) take(pod *corev1.Pod, status corev1.PodStatus, u urgency, finished bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r, known := s.reports[pod.UID]
	if !known {
		r = &report{uid: pod.UID, pod: pod, static: origin.Static(pod), absent: origin.Static(pod)}
		s.reports[pod.UID] = r
		r.reflect(s.mirrors[mirrored{pod.UID, nameOf(pod)}])
	}
	if r.gone {
		return
	}
	r.learn(pod)
	same := known && reflect.DeepEqual(r.status, status)
	// Until now the pod was not reported as ended, even if its status said so.
	ended := finished && !r.finished
	r.finished = r.finished || finished
	if !same || ended {
		r.status = *status.DeepCopy()
		r.version++
	}
	if r.version == r.sent && !r.deletable() || r.absent {
		return
	}
	at := time.Now().Add(settledDelay)
	if u == provisional {
		at = time.Now().Add(provisionalDelay)
	}
	if r.failures == 0 && (r.due.IsZero() || at.Before(r.due)) {
		r.due = at
		s.poke()
	}
}

// learn records a newer state of the object.
func (r *report) learn(pod *corev1.Pod) {
	if r.static && !origin.Mirror(pod) {
		return
	}
	if newer(pod.ResourceVersion, r.pod.ResourceVersion) {
		r.pod = pod
	}
}

// newer compares resource versions, which are numbers on conforming servers.
func newer(a, b string) bool {
	x, errA := strconv.ParseUint(a, 10, 64)
	y, errB := strconv.ParseUint(b, 10, 64)
	return errA != nil || errB != nil || x > y
}

// deletable reports whether the object may be deleted: its deletion was requested, and nothing of the pod is left.
func (r *report) deletable() bool {
	return r.finished && r.pod.DeletionTimestamp != nil && !r.static
}

// mirrored is the static pod that a pod in the API claims to represent. Any pod may claim so; it is used only for a
// static pod of the same name.
type mirrored struct {
	uid  types.UID
	name types.NamespacedName
}

// mirror records a pod in the API that claims to represent a static one.
func (s *sender) mirror(mirror *corev1.Pod, gone bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	of := mirrored{types.UID(mirror.Annotations[origin.MirrorAnnotation]), nameOf(mirror)}
	s.mirrors[of] = mirror
	if gone {
		delete(s.mirrors, of)
	}
	r, known := s.reports[of.uid]
	if !known || !r.static || nameOf(r.pod) != of.name {
		return
	}
	r.reflect(s.mirrors[of])
	if r.version > r.sent && !r.absent {
		r.due = time.Now().Add(settledDelay)
		s.poke()
	}
}

// reflect sets the mirror, nil for none, to which a static pod's status is sent.
func (r *report) reflect(mirror *corev1.Pod) {
	if !r.static {
		return
	}
	if mirror == nil {
		r.absent, r.due = true, time.Time{}
		return
	}
	r.absent = false
	if r.pod.UID != mirror.UID {
		r.pod, r.sent, r.failures = mirror, 0, 0
	}
	r.learn(mirror)
}

// observe records a pod's newest state in the API. If somebody else has overwritten the kubelet's status there, it is
// sent again.
func (s *sender) observe(pod *corev1.Pod) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r, known := s.reports[pod.UID]
	if !known || r.gone || r.static || !newer(pod.ResourceVersion, r.pod.ResourceVersion) {
		return // static pods have mirrors in the API instead
	}
	r.pod = pod
	if r.sent == 0 || r.sent != r.version || r.failures > 0 {
		return
	}
	if patch, err := podPatch(pod, decision.Merge(pod, r.status, !r.finished, time.Now())); err == nil && patch != nil {
		r.version++
		r.due = time.Now().Add(settledDelay)
		s.poke()
	}
}

// drop forgets a pod that is gone for good.
func (s *sender) drop(uid types.UID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.reports, uid)
}

func (s *sender) poke() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// run sends until the context ends.
func (s *sender) run(ctx context.Context) {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		ready, next := s.ready(time.Now())
		for _, uid := range ready {
			s.send(ctx, uid)
		}
		if len(ready) > 0 {
			continue
		}
		timer.Stop()
		if !next.IsZero() {
			timer.Reset(time.Until(next))
		}
		select {
		case <-ctx.Done():
			return
		case <-s.wake:
		case <-timer.C:
		}
	}
}

// ready returns the pods whose status is due, in a fixed order, and when the next one will be.
func (s *sender) ready(now time.Time) (uids []types.UID, next time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var due []*report
	for _, r := range s.reports {
		switch {
		case r.due.IsZero():
		case !r.due.After(now):
			due = append(due, r)
		case next.IsZero() || r.due.Before(next):
			next = r.due
		}
	}
	slices.SortFunc(due, func(a, b *report) int {
		return cmp.Or(a.due.Compare(b.due), cmp.Compare(a.pod.Namespace, b.pod.Namespace),
			cmp.Compare(a.pod.Name, b.pod.Name), cmp.Compare(a.pod.UID, b.pod.UID))
	})
	for _, r := range due {
		uids = append(uids, r.uid)
	}
	return uids, next
}

// send sends one pod's status to the API.
func (s *sender) send(ctx context.Context, uid types.UID) {
	s.mu.Lock()
	r, ok := s.reports[uid]
	if !ok {
		s.mu.Unlock()
		return
	}
	r.due = time.Time{}
	pod, version, finished := r.pod, r.version, r.finished
	status := decision.Merge(pod, r.status, !finished, time.Now())
	s.mu.Unlock()

	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	updated, err := s.patch(ctx, pod, status)
	if apierrors.IsConflict(err) {
		updated, err = s.refresh(ctx, pod, err)
	}
	if err == nil && finished && updated.DeletionTimestamp != nil && !origin.Mirror(pod) {
		err = s.delete(ctx, pod)
		if err == nil {
			err = apierrors.NewNotFound(corev1.Resource("pods"), pod.Name)
		}
		if apierrors.IsConflict(err) {
			updated, err = s.refresh(ctx, pod, err)
		}
	}
	s.done(uid, updated, version, err)
}

// refresh resolves a conflict. If another pod has taken the name, ours counts as not found; otherwise the write is
// retried from the newest state.
func (s *sender) refresh(ctx context.Context, pod *corev1.Pod, conflict error) (*corev1.Pod, error) {
	obj, err := s.client.Get(ctx, podTarget(pod))
	if err != nil {
		return pod, err
	}
	current, ok := obj.(*corev1.Pod)
	if !ok || current.UID != pod.UID {
		return pod, apierrors.NewNotFound(corev1.Resource("pods"), pod.Name)
	}
	return current, conflict
}

// done records the result of an attempt.
func (s *sender) done(uid types.UID, updated *corev1.Pod, version uint64, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r, ok := s.reports[uid]
	if !ok {
		return
	}
	r.learn(updated)
	switch {
	case apierrors.IsNotFound(err) && r.static:
		r.absent, r.due = true, time.Time{} // until another mirror appears
	case apierrors.IsNotFound(err):
		r.gone, r.due = true, time.Time{}
	case err != nil:
		s.log.Warn("sending a pod's status failed", "pod", r.pod.Namespace+"/"+r.pod.Name, "error", err)
		r.due = time.Now().Add(sendDelay << min(r.failures, 4))
		r.failures++
	default:
		r.failures = 0
		r.sent = version
		if (r.version != r.sent || r.deletable()) && r.due.IsZero() {
			r.due = time.Now()
		}
	}
}

// patch updates the status in the API if it differs, and returns the newest state.
func (s *sender) patch(ctx context.Context, pod *corev1.Pod, status corev1.PodStatus) (*corev1.Pod, error) {
	patch, err := podPatch(pod, status)
	if err != nil || patch == nil {
		return pod, err
	}
	target := podTarget(pod)
	target.Subresource = "status"
	obj, err := s.client.Patch(ctx, target, client.Patch{Type: types.StrategicMergePatchType, Data: patch}, metav1.PatchOptions{})
	if err != nil {
		return pod, err
	}
	if updated, ok := obj.(*corev1.Pod); ok {
		return updated, nil
	}
	return pod, nil
}

// delete removes the object for good, unless another pod has taken its name.
func (s *sender) delete(ctx context.Context, pod *corev1.Pod) error {
	now := int64(0)
	return s.client.Delete(ctx, podTarget(pod), metav1.DeleteOptions{
		GracePeriodSeconds: &now, Preconditions: metav1.NewUIDPreconditions(string(pod.UID)),
	})
}

func podTarget(pod *corev1.Pod) client.Target {
	return client.Target{
		Resource: corev1.SchemeGroupVersion.WithResource("pods"), Namespace: pod.Namespace, Name: pod.Name,
	}
}
