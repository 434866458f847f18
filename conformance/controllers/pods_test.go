package controllers_test

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

const namespace = "default"

// pods returns those that some condition holds for, in an order that depends on all but what is random in them.
func (w *world) pods(which func(*corev1.Pod) bool) []*corev1.Pod {
	w.Helper()
	list, err := w.api.CoreV1().Pods(namespace).List(w.Context(), metav1.ListOptions{})
	w.must(err)
	var found []*corev1.Pod
	looks, nodes := map[types.UID]object{}, map[string]string{}
	if w.contest.nodes {
		nodes = w.nodeLooks()
	}
	for i := range list.Items {
		if pod := &list.Items[i]; which(pod) {
			found = append(found, pod)
			looks[pod.UID] = w.looks(pod)
		}
	}
	slices.SortFunc(found, func(a, b *corev1.Pod) int {
		x, y := looks[a.UID], looks[b.UID]
		return cmp.Or(strings.Compare(x.text, y.text), slices.Compare(x.times, y.times), strings.Compare(nodes[nodeOf(a)], nodes[nodeOf(b)]),
			strings.Compare(nodeOf(a), nodeOf(b)), // the same for all pods of nodes that look the same
			strings.Compare(a.Name, b.Name))
	})
	return found
}

// looks describes an object.
func (w *world) looks(obj interface {
	runtime.Object
	metav1.Object
}) object {
	plain := obj.DeepCopyObject().(metav1.Object)
	plain.SetUID("")
	plain.SetResourceVersion("")
	plain.SetManagedFields(nil)
	values, err := runtime.DefaultUnstructuredConverter.ToUnstructured(plain)
	w.must(err)
	return w.object(values)
}

// nodeOf returns the node of a pod, which a daemon has before it is bound.
func nodeOf(pod *corev1.Pod) string {
	if a := pod.Spec.Affinity; a != nil && a.NodeAffinity != nil && a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution != nil {
		return a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms[0].MatchFields[0].Values[0]
	}
	return pod.Spec.NodeName
}

// nodeLooks describes the nodes with their pods, without names.
func (w *world) nodeLooks() map[string]string {
	w.Helper()
	nodes, err := w.api.CoreV1().Nodes().List(w.Context(), metav1.ListOptions{})
	w.must(err)
	pods, err := w.api.CoreV1().Pods(namespace).List(w.Context(), metav1.ListOptions{})
	w.must(err)
	on := map[string][]string{}
	for i := range pods.Items {
		on[nodeOf(&pods.Items[i])] = append(on[nodeOf(&pods.Items[i])], w.looks(&pods.Items[i]).text)
	}
	all := map[string]string{}
	for i := range nodes.Items {
		name := nodes.Items[i].Name
		slices.Sort(on[name])
		all[name] = strings.Join(append([]string{w.looks(&nodes.Items[i]).text, w.failures[name]}, on[name]...), "\n")
	}
	return all
}

// phase is where a pod is in its life.
type phase int

const (
	pending phase = iota // no node has it
	bound                // a node has it, which has not started it
	running
	ready
	ended
	terminating
)

func phaseOf(pod *corev1.Pod) phase {
	isReady := slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
	switch {
	case pod.DeletionTimestamp != nil:
		return terminating
	case pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed:
		return ended
	case isReady:
		return ready
	case pod.Status.Phase == corev1.PodRunning:
		return running
	case pod.Spec.NodeName != "":
		return bound
	}
	return pending
}

// in returns the pods in one of some phases.
func (w *world) in(phases ...phase) []*corev1.Pod {
	w.Helper()
	return w.pods(func(pod *corev1.Pod) bool { return slices.Contains(phases, phaseOf(pod)) })
}

// kubelet lets something happen to a pod, or to a few.
func (w *world) kubelet() {
	w.Helper()
	all := w.pods(func(*corev1.Pod) bool { return true })
	if len(all) == 0 {
		return
	}
	n := 1
	if w.chance(3) {
		n = 1 + w.IntN(len(all))
	}
	how := w.how()
	for _, i := range w.Perm(len(all))[:n] {
		w.advance(all[i], how)
	}
}

// everything lets all pods become ready that can, and go that are to.
func (w *world) everything() {
	w.Helper()
	for _, pod := range w.in(pending, terminating) {
		w.advance(pod, exit{})
	}
	for _, pod := range w.in(bound, running) {
		w.ready(pod, true)
	}
}

// advance takes a pod one step further.
func (w *world) advance(pod *corev1.Pod, how exit) {
	w.Helper()
	switch phaseOf(pod) {
	case pending:
		w.bind(pod)
	case bound:
		switch {
		case w.chance(6):
			w.end(pod, how)
		case w.chance(3):
			w.ready(pod, false)
		default:
			w.ready(pod, true)
		}
	case running:
		if w.chance(3) {
			w.end(pod, how)
		} else {
			w.ready(pod, true)
		}
	case ready:
		if w.chance(4) {
			w.ready(pod, false)
		} else {
			w.end(pod, how)
		}
	case terminating:
		if w.chance(2) && pod.Status.Phase != corev1.PodFailed && pod.Status.Phase != corev1.PodSucceeded && pod.Spec.NodeName != "" {
			w.end(pod, how)
		}
		w.gone(pod)
	case ended:
	}
}

func (w *world) bind(pod *corev1.Pod) {
	w.Helper()
	node := cmp.Or(nodeOf(pod), "n1") // two pods must not differ more than necessary: which one goes first is often left to chance
	w.do("bind "+pod.Name+" to "+node, w.api.CoreV1().Pods(namespace).Bind(w.Context(), &corev1.Binding{
		ObjectMeta: metav1.ObjectMeta{Name: pod.Name}, Target: corev1.ObjectReference{Kind: "Node", Name: node},
	}, metav1.CreateOptions{}))
}

// status writes the status of a pod, as its kubelet.
func (w *world) status(what string, pod *corev1.Pod, change func(*corev1.PodStatus)) {
	w.Helper()
	now, err := w.api.CoreV1().Pods(namespace).Get(w.Context(), pod.Name, metav1.GetOptions{})
	if err == nil {
		change(&now.Status)
		_, err = w.api.CoreV1().Pods(namespace).UpdateStatus(w.Context(), now, metav1.UpdateOptions{})
	}
	w.do(what+" "+pod.Name, err)
}

// condition sets a condition, whose time is that of its last change.
func condition(s *corev1.PodStatus, kind corev1.PodConditionType, status corev1.ConditionStatus, reason string) {
	i := slices.IndexFunc(s.Conditions, func(c corev1.PodCondition) bool { return c.Type == kind })
	if i < 0 {
		s.Conditions = append(s.Conditions, corev1.PodCondition{Type: kind})
		i = len(s.Conditions) - 1
	}
	if s.Conditions[i].Status != status {
		s.Conditions[i].LastTransitionTime = metav1.Now()
	}
	s.Conditions[i].Status, s.Conditions[i].Reason = status, reason
}

func (w *world) ready(pod *corev1.Pod, is bool) {
	w.Helper()
	what, status := "unready", corev1.ConditionFalse
	if is {
		what, status = "ready", corev1.ConditionTrue
	}
	w.status(what, pod, func(s *corev1.PodStatus) {
		now := metav1.Now()
		s.Phase = corev1.PodRunning
		if s.StartTime == nil {
			s.StartTime = &now
		}
		condition(s, corev1.PodReady, status, "")
		condition(s, corev1.ContainersReady, status, "")
		s.ContainerStatuses = nil
		for _, c := range pod.Spec.Containers {
			s.ContainerStatuses = append(s.ContainerStatuses, corev1.ContainerStatus{
				Name: c.Name, Ready: is, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: now}},
			})
		}
	})
}

// exit is how containers end.
type exit struct {
	code      int32
	disrupted bool
}

// how chooses for all containers that end at an instant: which of them a controller quotes is left to chance.
func (w *world) how() exit { return exit{pick[int32](w, 0, 0, 1, 42, 137), w.chance(5)} }

// ends lets some pods end whose containers run.
func (w *world) ends() {
	w.Helper()
	how := w.how()
	for _, pod := range w.in(running, ready) {
		if w.chance(2) {
			w.end(pod, how)
		}
	}
}

// end ends a pod's containers.
func (w *world) end(pod *corev1.Pod, how exit) {
	w.Helper()
	code, disrupted := how.code, how.disrupted
	if w.notes["alike"] > 0 {
		code = 0 // a node on which pods have failed is not like others
	}
	phase, reason := corev1.PodSucceeded, "Completed"
	if code != 0 {
		phase, reason = corev1.PodFailed, "Error"
	}
	if w.contest.nodes && code != 0 { // the longer it waits that deletes them
		w.failures[nodeOf(pod)] += fmt.Sprint("failed after ", time.Since(w.began), "\n")
	}
	w.status(fmt.Sprintf("exit with %d (disrupted: %v)", code, disrupted), pod, func(s *corev1.PodStatus) {
		now := metav1.Now()
		s.Phase = phase
		if s.StartTime == nil {
			s.StartTime = &now
		}
		condition(s, corev1.PodReady, corev1.ConditionFalse, "PodCompleted")
		if disrupted && code != 0 {
			condition(s, corev1.DisruptionTarget, corev1.ConditionTrue, "TerminationByKubelet")
		}
		s.ContainerStatuses = nil
		for _, c := range pod.Spec.Containers {
			s.ContainerStatuses = append(s.ContainerStatuses, corev1.ContainerStatus{Name: c.Name, State: corev1.ContainerState{
				Terminated: &corev1.ContainerStateTerminated{ExitCode: code, Reason: reason, StartedAt: *s.StartTime, FinishedAt: now},
			}})
		}
	})
}

// gone removes a pod for good, but for its finalizers.
func (w *world) gone(pod *corev1.Pod) {
	w.Helper()
	w.do("remove "+pod.Name, w.api.CoreV1().Pods(namespace).Delete(w.Context(), pod.Name, metav1.DeleteOptions{GracePeriodSeconds: new(int64)}))
}

// deletePod is what a user does.
func (w *world) deletePod() {
	w.Helper()
	if all := w.in(pending, bound, running, ready, ended); len(all) > 0 {
		pod := pick(w, all...)
		w.do("delete "+pod.Name, w.api.CoreV1().Pods(namespace).Delete(w.Context(), pod.Name, metav1.DeleteOptions{}))
	}
}

// nudge changes an annotation of all objects of a kind, so that their controller looks at them.
func (w *world) nudge(kind schema.GroupVersionResource) {
	w.Helper()
	list, err := w.objects.Resource(kind).Namespace(namespace).List(w.Context(), metav1.ListOptions{})
	w.must(err)
	for _, obj := range list.Items {
		w.notes["nudges"]++
		patch := fmt.Sprintf(`{"metadata":{"annotations":{"nudge":"%d"}}}`, w.notes["nudges"])
		_, err := w.objects.Resource(kind).Namespace(namespace).Patch(w.Context(), obj.GetName(), types.MergePatchType, []byte(patch), metav1.PatchOptions{})
		w.must(err)
		synctest.Wait()
	}
}

// relabel takes a label that a controller selects by from a pod, or gives it back.
func (w *world) relabel(key string) {
	w.Helper()
	all := w.pods(func(pod *corev1.Pod) bool { return pod.Labels[key] != "" || pod.Labels["had"] != "" })
	if len(all) == 0 {
		return
	}
	pod := pick(w, all...)
	labels := map[string]any{key: nil, "had": pod.Labels[key]}
	if had := pod.Labels["had"]; had != "" {
		labels = map[string]any{key: had, "had": nil}
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"labels": labels}})
	w.must(err)
	_, err = w.api.CoreV1().Pods(namespace).Patch(w.Context(), pod.Name, types.MergePatchType, patch, metav1.PatchOptions{})
	w.do(fmt.Sprint("label ", pod.Name, " ", string(patch)), err)
}

// template is that of pods with a label.
func (w *world) template(labels map[string]string) corev1.PodTemplateSpec {
	return corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: labels},
		Spec: corev1.PodSpec{
			Containers: []corev1.Container{{Name: "c", Image: pick(w, "image:1", "image:2")}},
		},
	}
}

// refusing makes requests of a method to a resource fail with a status.
func refusing(method, resource string, status metav1.Status) func(*http.Request) (*http.Response, error) {
	return func(r *http.Request) (*http.Response, error) {
		if r.Method != method || !slices.Contains(strings.Split(r.URL.Path, "/"), resource) {
			return nil, nil
		}
		status.TypeMeta = metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}
		status.Status = metav1.StatusFailure
		return answer(r, int(status.Code), status)
	}
}

// answer makes an answer in JSON.
func answer(r *http.Request, code int, of any) (*http.Response, error) {
	body, err := json.Marshal(of)
	if err != nil {
		return nil, err
	}
	return &http.Response{
		StatusCode: code, Status: http.StatusText(code), Request: r, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(strings.NewReader(string(body))), ContentLength: int64(len(body)),
	}, nil
}

// trouble makes what a controller writes fail for a while.
func (w *world) trouble(resource string) {
	w.Helper()
	w.faults.set(refusing(http.MethodPost, resource, metav1.Status{Code: http.StatusInternalServerError, Reason: metav1.StatusReasonInternalError, Message: "trouble"}))
	w.do("creating "+resource+" fails", nil)
	if w.contest.settle != nil {
		w.contest.settle(w) // else whether one waiting to try again does so in time is left to chance
	}
	time.Sleep(time.Duration(1+w.IntN(5)) * time.Second)
	w.faults.set(nil)
	w.do("creating "+resource+" works", nil)
	time.Sleep(12 * time.Second) // that the controller tries again
}
