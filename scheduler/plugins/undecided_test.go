package plugins_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/keelson-dev/keelson/scheduler"
	"github.com/keelson-dev/keelson/scheduler/plugins"
)

// undecided returns pods that require something undecided, and the messages about them.
func undecided() map[string]struct {
	pod  *corev1.Pod
	want string
} {
	named := func(f func(*corev1.PodSpec)) *corev1.Pod {
		p := edit(pod(), f)
		p.Namespace, p.Name = "ns", "p"
		return p
	}
	type row = struct {
		pod  *corev1.Pod
		want string
	}
	return map[string]row{
		"a resource claim": {named(func(s *corev1.PodSpec) {
			s.ResourceClaims = []corev1.PodResourceClaim{{Name: "c", ResourceClaimName: ptr.To("gpu")}}
		}), `pod requires resourceclaim "gpu", which this scheduler does not support`},
		"a template of one": {named(func(s *corev1.PodSpec) {
			s.ResourceClaims = []corev1.PodResourceClaim{{Name: "c", ResourceClaimTemplateName: ptr.To("gpu")}}
		}), `pod requires a resourceclaim for "c", which this scheduler does not support`},
	}
}

func TestUndecided(t *testing.T) {
	small := scheduler.NewNodeInfo(node("n", "pods", "10"))
	tests := map[string]expect{
		"nothing of it": {pod(), small, nil},
		"other volumes": {edit(pod(), func(s *corev1.PodSpec) {
			s.Volumes = []corev1.Volume{{VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}}
		}), small, nil},
	}
	for name, tt := range undecided() {
		tests[name] = expect{tt.pod, small, never(tt.want)}
	}
	check(t, plugins.Undecided{}, tests)
}

// The default profile refuses the pod as a whole, and no event causes a retry.
func TestUndecidedInProfile(t *testing.T) {
	profile := scheduler.Profile{Plugins: plugins.Default()}
	seen := map[string]string{}
	for name, tt := range undecided() {
		t.Run(name, func(t *testing.T) {
			d := profile.Schedule(tt.pod, scheduler.NewSnapshot([]*corev1.Node{node("a", "pods", "9"), node("b", "pods", "9")}, nil))
			if want := "0/2 nodes are available: " + tt.want + "."; d.Err == nil || d.Err.Error() != want {
				t.Errorf("got %v, want %s", d.Err, want)
			}
			if profile.MayHelp(tt.pod, []string{"Undecided"}, scheduler.Event{Kind: scheduler.NodeAdded, Node: node("c", "pods", "9")}) {
				t.Error("a new node causes a retry")
			}
			if (plugins.Undecided{}).MayHelp(tt.pod, scheduler.Event{Kind: scheduler.PodUpdated}) {
				t.Error("a change of the pod has it tried again")
			}
		})
		signature := signatureOf(t, plugins.Undecided{}, tt.pod)
		if other := seen[signature]; other != "" && other != tt.want {
			t.Errorf("those of %q and %q have one signature", tt.want, other)
		}
		seen[signature] = tt.want
	}
}
