package deployment

import (
	"cmp"
	"maps"
	"math"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/keelson-dev/keelson/controllers/internal/pods"
)

// hashLabel holds the hash of the template, on a ReplicaSet and its pods.
const hashLabel = appsv1.DefaultDeploymentUniqueLabelKey

// replicas is the desired number of pods of the Deployment; 1 if unset.
func replicas(d *appsv1.Deployment) int32 {
	if d.Spec.Replicas == nil {
		return 1
	}
	return *d.Spec.Replicas
}

// size is the desired number of pods of the set; 1 if unset.
func size(set *appsv1.ReplicaSet) int32 {
	if set.Spec.Replicas == nil {
		return 1
	}
	return *set.Spec.Replicas
}

// sets are the ReplicaSets of a Deployment: current has its current template and may be nil, old are all others, oldest
// first.
type sets struct {
	current *appsv1.ReplicaSet
	old     []*appsv1.ReplicaSet
}

// sortSets separates the current set from the old ones. If several sets have the current template, the oldest is
// current.
func sortSets(d *appsv1.Deployment, all []*appsv1.ReplicaSet) sets {
	var out sets
	for _, set := range slices.SortedStableFunc(slices.Values(all), byAge) {
		if out.current == nil && sameTemplate(&d.Spec.Template, &set.Spec.Template) {
			out.current = set
			continue
		}
		out.old = append(out.old, set)
	}
	return out
}

// all returns the old sets, then the current one if there is one.
func (s sets) all() []*appsv1.ReplicaSet {
	if s.current == nil {
		return s.old
	}
	return append(slices.Clone(s.old), s.current)
}

// byAge sorts older sets first.
func byAge(a, b *appsv1.ReplicaSet) int {
	return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
}

// active returns the sets whose size is above 0.
func active(all []*appsv1.ReplicaSet) []*appsv1.ReplicaSet {
	return slices.DeleteFunc(slices.Clone(all), func(set *appsv1.ReplicaSet) bool { return size(set) <= 0 })
}

// sum adds up a number over the sets.
func sum(all []*appsv1.ReplicaSet, figure func(*appsv1.ReplicaSet) int32) int32 {
	var total int32
	for _, set := range all {
		total += figure(set)
	}
	return total
}

func available(set *appsv1.ReplicaSet) int32 { return set.Status.AvailableReplicas }

// sameTemplate compares pod templates without the hash label, which the template of a Deployment lacks and which
// changes when the API gets new fields.
func sameTemplate(a, b *corev1.PodTemplateSpec) bool {
	x, y := a.DeepCopy(), b.DeepCopy()
	delete(x.Labels, hashLabel)
	delete(y.Labels, hashLabel)
	return equality.Semantic.DeepEqual(x, y)
}

// setName joins the Deployment's name and the hash, cutting the former to fit a DNS subdomain.
func setName(deployment, hash string) string {
	const longest = 253
	room := longest - len("-") - len(hash) // which is short
	return deployment[:min(len(deployment), room)] + "-" + hash
}

// makeSet returns the ReplicaSet for the Deployment's current template, with size 0.
func makeSet(d *appsv1.Deployment) *appsv1.ReplicaSet {
	hash := pods.TemplateHash(&d.Spec.Template, d.Status.CollisionCount)
	template := d.Spec.Template.DeepCopy()
	template.Labels = withLabel(template.Labels, hash)
	selector := d.Spec.Selector.DeepCopy()
	selector.MatchLabels = withLabel(selector.MatchLabels, hash)
	return &appsv1.ReplicaSet{
		ObjectMeta: metav1.ObjectMeta{
			Name:            setName(d.Name, hash),
			Namespace:       d.Namespace,
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(d, kind().GroupVersionKind)},
			Labels:          maps.Clone(template.Labels),
		},
		Spec: appsv1.ReplicaSetSpec{
			Replicas:        new(int32),
			MinReadySeconds: d.Spec.MinReadySeconds,
			Selector:        selector,
			Template:        *template,
		},
	}
}

func withLabel(labels map[string]string, hash string) map[string]string {
	out := map[string]string{}
	maps.Copy(out, labels)
	out[hashLabel] = hash
	return out
}

// surgeAndUnavailable resolves maxSurge, rounded up, and maxUnavailable, rounded down, of a rolling update; for any other
// strategy both are 0. In a rolling update they are never both 0: the rollout could not proceed.
func surgeAndUnavailable(d *appsv1.Deployment) (surge, unavailable int32, err error) {
	if d.Spec.Strategy.Type != appsv1.RollingUpdateDeploymentStrategyType {
		return 0, 0, nil
	}
	var rolling appsv1.RollingUpdateDeployment
	if d.Spec.Strategy.RollingUpdate != nil {
		rolling = *d.Spec.Strategy.RollingUpdate
	}
	none := intstr.FromInt32(0)
	up, err := intstr.GetScaledValueFromIntOrPercent(intstr.ValueOrDefault(rolling.MaxSurge, none), int(replicas(d)), true)
	if err != nil {
		return 0, 0, err
	}
	down, err := intstr.GetScaledValueFromIntOrPercent(intstr.ValueOrDefault(rolling.MaxUnavailable, none), int(replicas(d)), false)
	if err != nil {
		return 0, 0, err
	}
	if up == 0 && down == 0 {
		down = 1
	}
	return int32(up), int32(down), nil
}

// maxSurge is how many pods a rolling update may have above the desired number.
func maxSurge(d *appsv1.Deployment) int32 {
	surge, _, _ := surgeAndUnavailable(d) // 0 if it is invalid, which validation does not admit
	return surge
}

// maxUnavailable is how many pods below the desired number a rolling update may have available.
func maxUnavailable(d *appsv1.Deployment) int32 {
	_, unavailable, _ := surgeAndUnavailable(d) // 0 if it is invalid
	return min(unavailable, replicas(d))
}

// hasDeadline reports whether the Deployment has a progress deadline; the maximum value means none.
func hasDeadline(d *appsv1.Deployment) bool {
	return d.Spec.ProgressDeadlineSeconds != nil && *d.Spec.ProgressDeadlineSeconds != math.MaxInt32
}

// complete reports whether, by that status, all pods have the current template and are available, and no others are
// left.
func complete(d *appsv1.Deployment, status *appsv1.DeploymentStatus) bool {
	want := replicas(d)
	return status.UpdatedReplicas == want && status.Replicas == want && status.AvailableReplicas == want &&
		status.ObservedGeneration >= d.Generation
}
