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

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/client"
)

// urgency says how soon a status has to reach the API.
type urgency int

const (
	// provisional: more is about to be known. It is sent after provisionalDelay unless something
	// settled comes first, so that a pod that starts quickly costs one write.
	provisional urgency = iota
	// settled: nothing more will change for now. It is sent after settledDelay, together with what
	// other pods have to say at the same time, in the order of their names.
	settled
)

// sender brings the statuses of pods to the API, in the background and in the order of their
// urgency. It keeps the last status of every pod until the API has taken it, however often that
// fails, and deletes pods that are over and were asked to go.
type sender struct {
	client Client
	log    *slog.Logger
	wake   chan struct{} // holds one token while there may be something to send

	mu      sync.Mutex
	reports map[types.UID]*report
	mirrors map[mirrored]*corev1.Pod // of the API, by the static pods that they say they stand for
}

// report is what is to be told of one pod.
type report struct {
	pod      *corev1.Pod // newest known state of the object
	status   corev1.PodStatus
	uid      types.UID
	finished bool // nothing of the pod runs any more
	// static pods are told through their mirrors; absent while there is none.
	static, absent bool
	gone           bool // the object is no longer in the API: there is nobody to tell
	// version counts statuses, sent is the last one that the API took.
	version, sent uint64
	due           time.Time // when to send; zero is never
	failures      int
}

func newSender(c Client, log *slog.Logger) *sender {
	return &sender{client: c, log: log, wake: make(chan struct{}, 1), reports: map[types.UID]*report{}, mirrors: map[mirrored]*corev1.Pod{}}
}

// set takes a pod's status. A status equal to the last one costs nothing.
func (s *sender) set(pod *corev1.Pod, status corev1.PodStatus, u urgency) {
	s.take(pod, status, u, false)
}

// finish takes the last status of a pod that is over. It may be called again when the pod has
// changed.
func (s *sender) finish(pod *corev1.Pod, status corev1.PodStatus) {
	s.take(pod, status, settled, true)
}

// status is the newest that is known of a pod.
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
		r = &report{uid: pod.UID, pod: pod, static: isStatic(pod), absent: isStatic(pod)}
		s.reports[pod.UID] = r
		r.reflect(s.mirrors[mirrored{pod.UID, nameOf(pod)}])
	}
	if r.gone {
		return
	}
	r.learn(pod)
	same := known && reflect.DeepEqual(r.status, status)
	// Until now the API was not told that the pod has ended, even if its status said so.
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

// learn takes note of a newer state of the object.
func (r *report) learn(pod *corev1.Pod) {
	if r.static && !isMirror(pod) {
		return
	}
	if newer(pod.ResourceVersion, r.pod.ResourceVersion) {
		r.pod = pod
	}
}

// newer compares resource versions: numbers, where the server keeps the API's rules.
func newer(a, b string) bool {
	x, errA := strconv.ParseUint(a, 10, 64)
	y, errB := strconv.ParseUint(b, 10, 64)
	return errA != nil || errB != nil || x > y
}

// deletable reports whether the object may go: it was asked to, and nothing of it is left.
func (r *report) deletable() bool {
	return r.finished && r.pod.DeletionTimestamp != nil && !r.static
}

// mirrored is the static pod that a pod of the API says it stands for. Anybody may say so: only a
// static pod of the same name is told of through it.
type mirrored struct {
	uid  types.UID
	name types.NamespacedName
}

// mirror takes note of a pod in the API that says it stands for a static one.
func (s *sender) mirror(mirror *corev1.Pod, gone bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	of := mirrored{types.UID(mirror.Annotations[annotationMirror]), nameOf(mirror)}
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

// reflect makes the mirror, nil for none, what the report of a static pod is about.
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

// observe takes note of a pod's newest state in the API. When somebody else has changed what the
// kubelet says there, it says it again.
func (s *sender) observe(pod *corev1.Pod) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r, known := s.reports[pod.UID]
	if !known || r.gone || r.static || !newer(pod.ResourceVersion, r.pod.ResourceVersion) {
		return // of static pods the API has the mirrors
	}
	r.pod = pod
	if r.sent == 0 || r.sent != r.version || r.failures > 0 {
		return
	}
	if patch, err := podPatch(pod, mergeStatus(pod, r.status, !r.finished)); err == nil && patch != nil {
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

// ready returns the pods whose status is due, in a fixed order, and when the next one is.
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

// send brings one pod's status to the API.
func (s *sender) send(ctx context.Context, uid types.UID) {
	s.mu.Lock()
	r, ok := s.reports[uid]
	if !ok {
		s.mu.Unlock()
		return
	}
	r.due = time.Time{}
	pod, version, finished := r.pod, r.version, r.finished
	status := mergeStatus(pod, r.status, !finished)
	s.mu.Unlock()

	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	updated, err := s.patch(ctx, pod, status)
	if apierrors.IsConflict(err) {
		updated, err = s.refresh(ctx, pod, err)
	}
	if err == nil && finished && updated.DeletionTimestamp != nil && !isMirror(pod) {
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

// refresh looks what a conflict was about. When another pod has the name, ours is not found any
// more; otherwise the attempt is made again, from the newest state.
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

// done books the result of an attempt.
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
		r.absent, r.due = true, time.Time{} // until there is another mirror
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

// patch changes the status in the API where it differs and returns the newest state.
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

// mergeStatus is what the object's status is to become: the kubelet's, with what belongs to
// others. A pod is not said to have ended while its containers may run.
func mergeStatus(pod *corev1.Pod, status corev1.PodStatus, mayRun bool) corev1.PodStatus {
	old := pod.Status
	merged := *old.DeepCopy()
	own := status.DeepCopy()
	merged.ObservedGeneration = own.ObservedGeneration
	merged.Phase, merged.Reason, merged.Message = own.Phase, own.Reason, own.Message
	merged.HostIP, merged.HostIPs = own.HostIP, own.HostIPs
	merged.PodIP, merged.PodIPs = own.PodIP, own.PodIPs
	merged.StartTime, merged.QOSClass = own.StartTime, own.QOSClass
	merged.InitContainerStatuses = own.InitContainerStatuses
	merged.ContainerStatuses = own.ContainerStatuses
	merged.EphemeralContainerStatuses = own.EphemeralContainerStatuses
	merged.Resources, merged.AllocatedResources = own.Resources, own.AllocatedResources
	merged.Conditions = slices.DeleteFunc(merged.Conditions, func(c corev1.PodCondition) bool { return ownedCondition(c.Type) })
	for _, c := range own.Conditions {
		if c.Type == corev1.DisruptionTarget && findCondition(merged.Conditions, c.Type) == nil || ownedCondition(c.Type) {
			merged.Conditions = append(merged.Conditions, c)
		}
	}
	if mayRun && !isTerminal(old.Phase) && isTerminal(merged.Phase) {
		merged.Phase, merged.Reason, merged.Message = old.Phase, old.Reason, old.Message
	}
	if isTerminal(merged.Phase) {
		endReadiness(&merged)
	}
	return merged
}

// endReadiness makes sure that no pod is said to have ended and to be ready.
func endReadiness(status *corev1.PodStatus) {
	reason := "PodCompleted"
	if status.Phase == corev1.PodFailed {
		reason = "PodFailed"
	}
	for i := range status.Conditions {
		c := &status.Conditions[i]
		if (c.Type == corev1.PodReady || c.Type == corev1.ContainersReady) && c.Status == corev1.ConditionTrue {
			c.Status, c.Reason, c.Message = corev1.ConditionFalse, reason, ""
			c.LastTransitionTime = metav1.NewTime(time.Now().Truncate(time.Second).UTC())
		}
	}
}
