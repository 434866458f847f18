package pods_test

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/keelson-dev/keelson/controllers/internal/pods"
	"github.com/keelson-dev/keelson/informer"
	"github.com/keelson-dev/keelson/informer/memory"
)

// TestUsingClaim: the pods of a claim are those of its namespace that have it as a volume.
func TestUsingClaim(t *testing.T) {
	in := informer.New[*corev1.Pod](memory.New[*corev1.Pod](), informer.Options{})
	pods.IndexByClaim(in)
	pods.IndexByClaim(in)
	add := func(namespace, name string, sources ...corev1.VolumeSource) {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
		for _, source := range sources {
			p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{Name: "v", VolumeSource: source})
		}
		in.Put(p)
	}
	claim := func(name string) corev1.VolumeSource {
		return corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: name}}
	}
	add("a", "one", claim("data"), claim("logs"))
	add("a", "two", claim("data"), claim("data"))
	add("a", "own", corev1.VolumeSource{Ephemeral: &corev1.EphemeralVolumeSource{}})
	add("a", "none", corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}})
	add("b", "three", claim("data"))
	for of, want := range map[[2]string][]string{
		{"a", "data"}: {"one", "two"}, {"a", "logs"}: {"one"}, {"b", "data"}: {"three"}, {"a", "own-v"}: {"own"},
		{"b", "logs"}: nil, {"a", ""}: nil, {"", "data"}: nil,
	} {
		var got []string
		for _, p := range pods.UsingClaim(in, of[0], of[1]) {
			got = append(got, p.Name)
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: got %q, want %q", of, got, want)
		}
	}
}

// TestDoneWithVolumes: a pod needs its volumes until it has ended, or is being deleted and nothing runs any more.
func TestDoneWithVolumes(t *testing.T) {
	running := corev1.ContainerStatus{State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}
	waiting := corev1.ContainerStatus{State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{}}}
	ended := corev1.ContainerStatus{State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{}}}
	for name, tt := range map[string]struct {
		phase    corev1.PodPhase
		going    bool
		statuses []corev1.ContainerStatus
		want     bool
	}{
		"running":                   {corev1.PodRunning, false, []corev1.ContainerStatus{running}, false},
		"ended, and not seen so":    {corev1.PodRunning, false, []corev1.ContainerStatus{ended}, false},
		"succeeded":                 {corev1.PodSucceeded, false, []corev1.ContainerStatus{ended}, true},
		"failed":                    {corev1.PodFailed, false, nil, true},
		"going, running":            {corev1.PodRunning, true, []corev1.ContainerStatus{ended, running}, false},
		"going, ended":              {corev1.PodRunning, true, []corev1.ContainerStatus{ended, waiting}, true},
		"going, nobody knows":       {corev1.PodRunning, true, []corev1.ContainerStatus{{}}, false},
		"going, before it has run":  {corev1.PodPending, true, nil, true},
		"waiting":                   {corev1.PodPending, false, []corev1.ContainerStatus{waiting}, false},
		"failed, and still running": {corev1.PodFailed, true, []corev1.ContainerStatus{running}, true},
	} {
		p := &corev1.Pod{Status: corev1.PodStatus{Phase: tt.phase, ContainerStatuses: tt.statuses}}
		if tt.going {
			p.DeletionTimestamp = ptr.To(metav1.Now())
		}
		if got := pods.DoneWithVolumes(p); got != tt.want {
			t.Errorf("%s: done is %t", name, got)
		}
	}
}
