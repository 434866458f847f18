package daemonset

import (
	"reflect"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/controllers"
)

// The pure parts, for tables.
var (
	Tolerations = tolerations
	OnNode      = onNode
	NodeOf      = nodeOf
)

// On is placement.on.
func On(template *corev1.PodTemplateSpec, node *corev1.Node) (run, stay bool) {
	return placementOf(template).on(node)
}

// View is a view with what the tests pass to it.
type View struct {
	Set   *appsv1.DaemonSet
	Nodes []*corev1.Node
	Pods  []*corev1.Pod
	Hash  string
	Now   time.Time
}

func (v View) view() (view, byNode) { return newView(v.Set, v.Nodes, v.Hash, v.Now), group(v.Pods) }

// Manage is view.manage.
func (v View) Manage(mayDelete func(node string) (time.Duration, bool)) (create, remove []string, retry time.Duration) {
	known, there := v.view()
	p := known.manage(there, mayDelete)
	return p.create, p.remove, p.retry
}

// Roll is view.roll.
func (v View) Roll() (create, remove []string, err error) {
	known, there := v.view()
	p, err := known.roll(there)
	return p.create, p.remove, err
}

// Status is view.status.
func (v View) Status() appsv1.DaemonSetStatus {
	known, there := v.view()
	return known.status(there)
}

// Backoff is a backoff.
type Backoff struct{ b *backoff }

// NewBackoff returns a Backoff.
func NewBackoff() Backoff { return Backoff{newBackoff()} }

// Delete is backoff.delete for a generation on a node.
func (b Backoff) Delete(generation int64, node string, now time.Time) (time.Duration, bool) {
	return b.b.delete(failing{"uid", generation, node}, now)
}

// Len returns how many nodes are remembered.
func (b Backoff) Len() int { return len(b.b.nodes) }

// Kept returns of how many objects the controller remembers something, by what it is.
func (c *Controller) Kept() map[string]int {
	all := map[string]int{}
	for what, of := range map[string]reflect.Value{
		"expected": reflect.ValueOf(c.seen.expected).Elem().FieldByName("owners"), "sets": reflect.ValueOf(c.seen.sets).Elem().FieldByName("written"),
		"pods": reflect.ValueOf(c.seen.pods).Elem().FieldByName("written"), "revisions": reflect.ValueOf(c.seen.revisions).Elem().FieldByName("written"),
	} {
		if n := of.Len(); n > 0 {
			all[what] = n
		}
	}
	return all
}

// Remember has the controller remember something of a set, a pod and a revision, as if it had just written them.
func (c *Controller) Remember(set *appsv1.DaemonSet, pod *corev1.Pod, revision *appsv1.ControllerRevision) {
	c.seen.sets.Wrote(set, set.UID)
	c.seen.pods.Wrote(pod, set.UID)
	c.seen.revisions.Wrote(revision, set.UID)
	c.seen.expected.Creations(controllers.KeyOf(set), 1)
}
