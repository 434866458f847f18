package deployment

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"maps"
	"math"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/utils/dump"
)

// hashLabel carries the hash of its template on a ReplicaSet and its pods.
const hashLabel = appsv1.DefaultDeploymentUniqueLabelKey

// replicas is how many pods the Deployment asks for; 1 when it does not say.
func replicas(d *appsv1.Deployment) int32 {
	if d.Spec.Replicas == nil {
		return 1
	}
	return *d.Spec.Replicas
}

// size is how many pods the set asks for; 1 when it does not say.
func size(set *appsv1.ReplicaSet) int32 {
	if set.Spec.Replicas == nil {
		return 1
	}
	return *set.Spec.Replicas
}

// sets are the ReplicaSets of a Deployment: current has its present template and may be nil, old
// are all others, oldest first.
type sets struct {
	current *appsv1.ReplicaSet
	old     []*appsv1.ReplicaSet
}

// sortSets tells current from old. Of several sets with the present template the oldest is
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

// all returns old sets, then the current one if there is one.
func (s sets) all() []*appsv1.ReplicaSet {
	if s.current == nil {
		return s.old
	}
	return append(slices.Clone(s.old), s.current)
}

// byAge puts older sets first.
func byAge(a, b *appsv1.ReplicaSet) int {
	return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
}

// active returns the sets that ask for pods.
func active(all []*appsv1.ReplicaSet) []*appsv1.ReplicaSet {
	return slices.DeleteFunc(slices.Clone(all), func(set *appsv1.ReplicaSet) bool { return size(set) <= 0 })
}

// sum adds up a figure of the sets.
func sum(all []*appsv1.ReplicaSet, figure func(*appsv1.ReplicaSet) int32) int32 {
	var total int32
	for _, set := range all {
		total += figure(set)
	}
	return total
}

func available(set *appsv1.ReplicaSet) int32 { return set.Status.AvailableReplicas }

// sameTemplate compares pod templates without regard to the hash label, which the template of
// a Deployment lacks and which changes when the API gets new fields.
func sameTemplate(a, b *corev1.PodTemplateSpec) bool {
	x, y := a.DeepCopy(), b.DeepCopy()
	delete(x.Labels, hashLabel)
	delete(y.Labels, hashLabel)
	return equality.Semantic.DeepEqual(x, y)
}

// templateHash is the value of hashLabel, the same as upstream's for the same template and
// version of the API. The collision count moves it on when the name it gives is taken.
func templateHash(template *corev1.PodTemplateSpec, collisions *int32) string {
	hasher := fnv.New32a()
	fmt.Fprint(hasher, dump.ForHash(*template))
	if collisions != nil {
		var count [8]byte
		binary.LittleEndian.PutUint32(count[:], uint32(*collisions))
		hasher.Write(count[:])
	}
	return rand.SafeEncodeString(fmt.Sprint(hasher.Sum32()))
}

// setName is the Deployment's name and the hash, the former cut to fit a DNS subdomain.
func setName(deployment, hash string) string {
	const longest = 253
	room := longest - len("-") - len(hash) // which is short
	return deployment[:min(len(deployment), room)] + "-" + hash
}

// makeSet returns the ReplicaSet for the Deployment's present template, of no size yet.
func makeSet(d *appsv1.Deployment) *appsv1.ReplicaSet {
	hash := templateHash(&d.Spec.Template, d.Status.CollisionCount)
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

// fenceposts resolves maxSurge, rounded up, and maxUnavailable, rounded down, of a rolling
// update; both are 0 for any other strategy. They are not both 0, lest the rollout never move.
func fenceposts(d *appsv1.Deployment) (surge, unavailable int32, err error) {
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

// maxSurge is how many pods more than asked for a rolling update may have.
func maxSurge(d *appsv1.Deployment) int32 {
	surge, _, _ := fenceposts(d) // 0 when it makes no sense, which validation does not let in
	return surge
}

// maxUnavailable is how many pods less than asked for a rolling update may have available.
func maxUnavailable(d *appsv1.Deployment) int32 {
	_, unavailable, _ := fenceposts(d) // 0 when it makes no sense
	return min(unavailable, replicas(d))
}

// hasDeadline tells whether progress of the Deployment is watched; the largest number means no.
func hasDeadline(d *appsv1.Deployment) bool {
	return d.Spec.ProgressDeadlineSeconds != nil && *d.Spec.ProgressDeadlineSeconds != math.MaxInt32
}

// complete tells whether all pods are of the present template and available, and no others are
// left, by that status.
func complete(d *appsv1.Deployment, status *appsv1.DeploymentStatus) bool {
	want := replicas(d)
	return status.UpdatedReplicas == want && status.Replicas == want && status.AvailableReplicas == want &&
		status.ObservedGeneration >= d.Generation
}
