// Package revisions keeps the history of owners of pods, DaemonSets and StatefulSets, in ControllerRevisions: each holds
// a template that the owner once had.
//
// New, Data, Hash, Sort, Next, FindEqual, Oldest and Excess are pure; Create, SetNumber and Delete write. Errors are
// those of the client. All functions are safe for concurrent use; they do not modify the revisions passed in, except
// that Sort reorders them.
package revisions

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/rand"

	"github.com/keelson-dev/keelson/controllers/ownership"
	"github.com/keelson-dev/keelson/informer"
)

// HashLabel holds the hash of a revision's data.
const HashLabel = "controller.kubernetes.io/hash"

// Kind returns the kind of ControllerRevisions.
func Kind() ownership.Kind {
	return ownership.Kind{GroupVersionKind: appsv1.SchemeGroupVersion.WithKind("ControllerRevision"), Resource: "controllerrevisions"}
}

// List returns the revisions that the owner controls and the orphans in its namespace, as far as it selects them, in
// order. The informer needs ownership.AddIndex. The owner may adopt the orphans with ownership.Claim.
func List(in *informer.Informer[*appsv1.ControllerRevision], owner ownership.Owner) []*appsv1.ControllerRevision {
	all := append(ownership.ByOwner(in, owner.Kind.Kind, owner.Object), ownership.Orphans(in, owner.Object.GetNamespace())...)
	all = slices.DeleteFunc(all, func(r *appsv1.ControllerRevision) bool {
		return !owner.Selector.Matches(labels.Set(r.Labels))
	})
	Sort(all)
	return all
}

// Sort sorts revisions by number, then by age, then by name.
func Sort(all []*appsv1.ControllerRevision) {
	slices.SortStableFunc(all, func(a, b *appsv1.ControllerRevision) int {
		return cmp.Or(
			cmp.Compare(a.Revision, b.Revision),
			a.CreationTimestamp.Compare(b.CreationTimestamp.Time),
			cmp.Compare(a.Name, b.Name),
		)
	})
}

// Next returns the number after those of sorted revisions; the first is 1.
func Next(sorted []*appsv1.ControllerRevision) int64 {
	if len(sorted) == 0 {
		return 1
	}
	return sorted[len(sorted)-1].Revision + 1
}

// Data returns what a revision holds of its owner: a strategic merge patch that replaces the owner's template.
func Data(template *corev1.PodTemplateSpec) ([]byte, error) {
	encoded, err := json.Marshal(template)
	if err != nil {
		return nil, err
	}
	var fields map[string]any // sorts them, as in revisions that upstream has stored
	if err := json.Unmarshal(encoded, &fields); err != nil {
		return nil, err
	}
	fields["$patch"] = "replace"
	return json.Marshal(map[string]any{"spec": map[string]any{"template": fields}})
}

// Hash returns the hash of a revision's data. The collision count changes it when the resulting name is taken.
func Hash(data []byte, collisions int32) string {
	hasher := fnv.New32()
	hasher.Write(data)
	hasher.Write(strconv.AppendInt(nil, int64(collisions), 10))
	return rand.SafeEncodeString(fmt.Sprint(hasher.Sum32()))
}

// Name returns the name of the owner's revision with that hash. Owner's names longer than 223 bytes are cut.
func Name(owner, hash string) string { return owner[:min(len(owner), 223)] + "-" + hash }

// New returns the revision with that data and number, labeled as the owner's template.
func New(owner metav1.Object, kind ownership.Kind, template *corev1.PodTemplateSpec, data []byte, number int64) *appsv1.ControllerRevision {
	labels := map[string]string{}
	maps.Copy(labels, template.Labels)
	annotations := map[string]string{}
	maps.Copy(annotations, owner.GetAnnotations())
	return &appsv1.ControllerRevision{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: owner.GetNamespace(), Labels: labels, Annotations: annotations,
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(owner, kind.GroupVersionKind)},
		},
		Data:     runtime.RawExtension{Raw: data},
		Revision: number,
	}
}

// FindEqual returns the revisions that hold that data.
func FindEqual(all []*appsv1.ControllerRevision, data []byte) []*appsv1.ControllerRevision {
	var equal []*appsv1.ControllerRevision
	for _, r := range all {
		if bytes.Equal(r.Data.Raw, data) {
			equal = append(equal, r)
		}
	}
	return equal
}

// Oldest returns the first n of sorted revisions that are not in use, or as many as there are.
func Oldest(sorted []*appsv1.ControllerRevision, n int, used func(*appsv1.ControllerRevision) bool) []*appsv1.ControllerRevision {
	unused := unused(sorted, used)
	return unused[:max(0, min(n, len(unused)))]
}

// Excess returns the oldest of sorted revisions that are not in use, so that limit of those remain. A negative limit is
// none.
func Excess(sorted []*appsv1.ControllerRevision, limit int, used func(*appsv1.ControllerRevision) bool) []*appsv1.ControllerRevision {
	unused := unused(sorted, used)
	if limit < 0 {
		return nil
	}
	return unused[:max(0, len(unused)-limit)]
}

func unused(all []*appsv1.ControllerRevision, used func(*appsv1.ControllerRevision) bool) []*appsv1.ControllerRevision {
	return slices.DeleteFunc(slices.Clone(all), used)
}
