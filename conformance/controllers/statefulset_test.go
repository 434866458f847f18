package controllers_test

import (
	"context"
	"fmt"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/kubernetes/pkg/controller/statefulset"
)

// TestStatefulSet: stateful sets that grow, shrink, are rolled out and back, whose pods fail and whose claims go.
func TestStatefulSet(t *testing.T) {
	c := &contest{
		names: []string{"statefulset-controller"},
		theirs: func(ctx context.Context, u *theirs) (func(context.Context), error) {
			core, apps := u.shared.Core().V1(), u.shared.Apps().V1()
			c := statefulset.NewStatefulSetController(ctx, core.Pods(), apps.StatefulSets(), core.PersistentVolumeClaims(), apps.ControllerRevisions(), u.client("statefulset-controller"))
			return func(ctx context.Context) { c.Run(ctx, 5) }, nil
		},
		step: func(w *world) {
			before := w.strangers()
			statefulSetStep(w)
			if w.strangers() < before {
				w.nudgeSets()
			}
		},
		uncounted: []string{"SuccessfulDelete"},
		written: append(resources(appsv1.SchemeGroupVersion, "statefulsets", "controllerrevisions"),
			resources(corev1.SchemeGroupVersion, "pods", "persistentvolumeclaims")...),
		pauses: []int{8, 11, 15, 35, 80, 400},
		settle: (*world).nudgeSets,
		// For a parallel set, upstream's asks its cache whether the owners of a claim are right just after it has written
		// that claim. If the cache says no, it updates the pod, too.
		doubtful: func(w *world, e *corev1.Event) bool {
			_, owns := w.data.Load(e.InvolvedObject.UID)
			return owns && e.Reason == "SuccessfulUpdate"
		},
		alike: func(obj map[string]any) {
			if meta := obj["metadata"].(map[string]any); obj["kind"] == "PersistentVolumeClaim" && meta["deletionTimestamp"] != nil {
				meta["deletionTimestamp"] = "set" // by the garbage collector, some time after its owner was
			}
		},
	}
	c.run(t)
}

// nudgeSets lets the controller look at all sets, twice: to create a claim, and to set its owners. Upstream's does not do
// that when claims have changed, nor when another's pod has gone whose name it needs.
func (w *world) nudgeSets() {
	w.Helper()
	for range 2 {
		w.nudge(appsv1.SchemeGroupVersion.WithResource("statefulsets"))
	}
}

// strangers counts the pods that no controller has.
func (w *world) strangers() int {
	w.Helper()
	return len(w.pods(func(pod *corev1.Pod) bool { return metav1.GetControllerOf(pod) == nil }))
}

func statefulSetStep(w *world) {
	list, err := w.api.AppsV1().StatefulSets(namespace).List(w.Context(), metav1.ListOptions{})
	w.must(err)
	switch n := w.IntN(100); {
	case n < 8 && len(list.Items) < 3, len(list.Items) == 0:
		w.createStatefulSet()
	case n < 30:
		w.updateStatefulSet(pick(w, list.Items...))
	case n < 33:
		w.deleteStatefulSet(pick(w, list.Items...).Name)
	case n < 38:
		w.deletePod()
	case n < 41:
		w.relabel("set")
	case n < 43:
		w.trouble(pick(w, "pods", "persistentvolumeclaims"))
	case n < 45:
		w.squat(pick(w, list.Items...))
	case n < 49:
		w.deleteClaim()
	case n < 70:
		w.everything()
	default:
		w.kubelet()
	}
}

// deleteStatefulSet does not orphan several revisions: if one that is adopted is not the last, upstream's may make that
// the last before its cache shows the adoption, fails, and deletes them all.
func (w *world) deleteStatefulSet(name string) {
	w.Helper()
	policy := w.background()
	revisions, err := w.api.AppsV1().ControllerRevisions(namespace).List(w.Context(), metav1.ListOptions{LabelSelector: "set=" + name})
	w.must(err)
	if len(revisions.Items) > 1 {
		policy = metav1.DeletePropagationBackground
	}
	w.do(fmt.Sprint("delete set ", name, " ", policy), w.api.AppsV1().StatefulSets(namespace).Delete(w.Context(), name, metav1.DeleteOptions{PropagationPolicy: &policy}))
}

func (w *world) createStatefulSet() {
	w.Helper()
	name := fmt.Sprint("set", w.IntN(3)) // sets come back, and find pods and claims
	if w.notes["claims "+name] == 0 {
		w.notes["claims "+name] = 1 + w.IntN(2)
	}
	labels := map[string]string{"set": name}
	set := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: appsv1.StatefulSetSpec{
		Replicas: new(int32(w.IntN(5))), ServiceName: name, Selector: &metav1.LabelSelector{MatchLabels: labels}, Template: w.template(labels),
		PodManagementPolicy: pick(w, appsv1.OrderedReadyPodManagement, appsv1.ParallelPodManagement), UpdateStrategy: w.statefulSetStrategy(),
	}}
	if w.chance(3) {
		set.Spec.MinReadySeconds = pick[int32](w, 0, 3)
	}
	if w.chance(4) {
		set.Spec.Ordinals = &appsv1.StatefulSetOrdinals{Start: int32(w.IntN(4))}
	}
	if w.chance(3) {
		set.Spec.RevisionHistoryLimit = new(int32(w.IntN(3)))
	}
	if w.notes["claims "+name] > 1 {
		set.Spec.VolumeClaimTemplates = []corev1.PersistentVolumeClaim{{
			ObjectMeta: metav1.ObjectMeta{Name: "data", Labels: map[string]string{"of": name}},
			Spec: corev1.PersistentVolumeClaimSpec{
				AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
				Resources:   corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{"storage": resource.MustParse("1Gi")}},
			},
		}}
		set.Spec.PersistentVolumeClaimRetentionPolicy = w.retention()
	}
	made, err := w.api.AppsV1().StatefulSets(namespace).Create(w.Context(), set, metav1.CreateOptions{})
	w.owns(made, err)
	w.do(fmt.Sprintf("create set %s %s", name, text(set.Spec)), err)
}

// owns notes that a parallel set owns claims, or has.
func (w *world) owns(set *appsv1.StatefulSet, err error) {
	if err != nil || len(set.Spec.VolumeClaimTemplates) == 0 || set.Spec.PodManagementPolicy != appsv1.ParallelPodManagement {
		return
	}
	const retain = appsv1.RetainPersistentVolumeClaimRetentionPolicyType
	if p := set.Spec.PersistentVolumeClaimRetentionPolicy; p.WhenDeleted != retain || p.WhenScaled != retain {
		w.data.Store(set.UID, true)
	}
}

func (w *world) retention() *appsv1.StatefulSetPersistentVolumeClaimRetentionPolicy {
	policies := []appsv1.PersistentVolumeClaimRetentionPolicyType{appsv1.RetainPersistentVolumeClaimRetentionPolicyType, appsv1.DeletePersistentVolumeClaimRetentionPolicyType}
	return &appsv1.StatefulSetPersistentVolumeClaimRetentionPolicy{WhenDeleted: pick(w, policies...), WhenScaled: pick(w, policies...)}
}

func (w *world) statefulSetStrategy() appsv1.StatefulSetUpdateStrategy {
	if w.chance(4) {
		return appsv1.StatefulSetUpdateStrategy{Type: appsv1.OnDeleteStatefulSetStrategyType}
	}
	rolling := &appsv1.RollingUpdateStatefulSetStrategy{}
	if w.chance(3) {
		rolling.Partition = new(int32(w.IntN(5)))
	}
	if w.chance(3) {
		rolling.MaxUnavailable = pick(w, new(intstr.FromInt32(2)), new(intstr.FromString("50%")))
	}
	return appsv1.StatefulSetUpdateStrategy{Type: appsv1.RollingUpdateStatefulSetStrategyType, RollingUpdate: rolling}
}

func (w *world) updateStatefulSet(set appsv1.StatefulSet) {
	w.Helper()
	switch w.IntN(8) {
	case 0, 1:
		set.Spec.Replicas = new(int32(w.IntN(5)))
	case 2, 3, 4:
		set.Spec.Template.Spec.Containers[0].Image = pick(w, "image:1", "image:2", "image:3")
	case 5:
		set.Spec.UpdateStrategy = w.statefulSetStrategy()
	case 6:
		set.Spec.MinReadySeconds = pick[int32](w, 0, 3)
	case 7:
		set.Spec.PersistentVolumeClaimRetentionPolicy = w.retention()
	}
	made, err := w.api.AppsV1().StatefulSets(namespace).Update(w.Context(), &set, metav1.UpdateOptions{})
	w.owns(made, err)
	w.do(fmt.Sprintf("update set %s %s", set.Name, text(set.Spec)), err)
}

// squat makes a pod that has the name of one of a set's, and perhaps its labels.
func (w *world) squat(set appsv1.StatefulSet) {
	w.Helper()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint(set.Name, "-", w.IntN(5))}, Spec: set.Spec.Template.Spec}
	if w.chance(2) {
		pod.Labels = set.Spec.Template.Labels
	}
	_, err := w.api.CoreV1().Pods(namespace).Create(w.Context(), pod, metav1.CreateOptions{})
	w.do(fmt.Sprint("create ", pod.Name, pod.Labels), err)
}

func (w *world) deleteClaim() {
	w.Helper()
	list, err := w.api.CoreV1().PersistentVolumeClaims(namespace).List(w.Context(), metav1.ListOptions{})
	w.must(err)
	if len(list.Items) == 0 {
		return
	}
	claim := pick(w, list.Items...)
	w.do("delete claim "+claim.Name, w.api.CoreV1().PersistentVolumeClaims(namespace).Delete(w.Context(), claim.Name, metav1.DeleteOptions{}))
	w.nudgeSets()
	now, err := w.api.CoreV1().PersistentVolumeClaims(namespace).Get(w.Context(), claim.Name, metav1.GetOptions{})
	if err == nil { // as the protection controller does
		now.Finalizers = nil
		_, err = w.api.CoreV1().PersistentVolumeClaims(namespace).Update(w.Context(), now, metav1.UpdateOptions{})
	}
	w.do("release claim "+claim.Name, err)
	w.nudgeSets()
}
