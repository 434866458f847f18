package simulated_test

import (
	"context"
	"errors"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/kubelet"
	"github.com/keelson-dev/keelson/kubelet/volume/claims"
	"github.com/keelson-dev/keelson/kubelet/volume/simulated"
)

// server has claims by their names, each bound to a volume of its name.
type server struct {
	modes map[string]corev1.PersistentVolumeAccessMode
	nodes []string
	reads int
}

func (s *server) Claim(_ context.Context, namespace, name string) (*corev1.PersistentVolumeClaim, error) {
	s.reads++
	if _, ok := s.modes[name]; !ok {
		return nil, apierrors.NewNotFound(corev1.Resource("persistentvolumeclaims"), name)
	}
	return &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID(name)},
		Spec:       corev1.PersistentVolumeClaimSpec{VolumeName: "pv-" + name}, Status: corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimBound},
	}, nil
}

func (s *server) Volume(_ context.Context, name string) (*corev1.PersistentVolume, error) {
	claim := name[len("pv-"):]
	pv := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.PersistentVolumeSpec{
		AccessModes: []corev1.PersistentVolumeAccessMode{s.modes[claim]}, ClaimRef: &corev1.ObjectReference{UID: types.UID(claim)},
	}}
	if s.nodes != nil {
		pv.Spec.NodeAffinity = &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
			MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "name", Operator: corev1.NodeSelectorOpIn, Values: s.nodes}},
		}}}}
	}
	return pv, nil
}

// pod mounts one volume per claim, one without a claim, and has one that nobody uses.
func pod(name string, of ...string) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID(name)}, Spec: corev1.PodSpec{
		Containers: []corev1.Container{{Name: "c", VolumeMounts: []corev1.VolumeMount{{Name: "plain", MountPath: "/plain"}}}},
		Volumes: []corev1.Volume{
			{Name: "plain", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}},
			{Name: "unused", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "unused"}}},
		},
	}}
	for _, claim := range of {
		p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{Name: claim, VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim},
		}})
		p.Spec.Containers[0].VolumeMounts = append(p.Spec.Containers[0].VolumeMounts, corev1.VolumeMount{Name: claim, MountPath: "/" + claim})
	}
	return p
}

func expect(t *testing.T, err error, want string) {
	t.Helper()
	got := ""
	if err != nil {
		got = err.Error()
	}
	if got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestLife(t *testing.T) {
	s := &server{modes: map[string]corev1.PersistentVolumeAccessMode{"b": corev1.ReadWriteOnce}}
	v := simulated.New(s, simulated.Options{})
	p := pod("web", "b", "a")
	const waiting = "Unable to attach or mount volumes: unmounted volumes=[a], unattached volumes=[], failed to process volumes=[a]: " +
		`error processing PVC ns/a: failed to fetch PVC from API server: persistentvolumeclaims "a" not found`
	expect(t, v.Prepare(t.Context(), p), waiting)
	if got := v.Mounted("web"); len(got) != 1 || got[0].Persistent.Name != "pv-b" {
		t.Errorf("it has %v", got)
	}
	s.modes["a"] = corev1.ReadWriteOnce
	expect(t, v.Prepare(t.Context(), p), "")
	if got := v.Mounted("web"); len(got) != 2 || got[0].Volume.Name != "a" {
		t.Errorf("it has %v", got)
	}
	delete(s.modes, "a")
	reads := s.reads
	expect(t, v.Prepare(t.Context(), p), "")
	if s.reads != reads {
		t.Error("what the pod has was looked for again")
	}
	if mounts, err := v.Mounts(t.Context(), kubelet.MountRequest{}); mounts != nil || err != nil || !v.NextRefresh("web").IsZero() {
		t.Error(mounts, err)
	}
	for _, live := range []bool{true, false} {
		gone, err := v.Orphans(func(types.UID) bool { return live })
		if err != nil || len(gone) == 1 == live {
			t.Errorf("live %v: %v, %v", live, gone, err)
		}
	}
	if err := v.Release(t.Context(), "web"); err != nil || len(v.Mounted("web")) > 0 {
		t.Error(err, v.Mounted("web"))
	}
}

// TestScript: a scripted failure keeps the pod waiting, whatever the kind of volume.
func TestScript(t *testing.T) {
	s := &server{modes: map[string]corev1.PersistentVolumeAccessMode{"a": corev1.ReadWriteOnce}}
	var calls []string
	err := errors.New("no route to host")
	v := simulated.New(s, simulated.Options{Mount: func(_ context.Context, m claims.Mount) error {
		calls = append(calls, m.Name())
		if m.Persistent == nil {
			return nil
		}
		return err
	}})
	p := pod("web", "a")
	expect(t, v.Prepare(t.Context(), p), `MountVolume.SetUp failed for volume "pv-a" : no route to host`)
	err = nil
	expect(t, v.Prepare(t.Context(), p), "")
	expect(t, v.Prepare(t.Context(), p), "")
	if len(calls) != 3 || calls[0] != "plain" || calls[1] != "pv-a" || calls[2] != "pv-a" {
		t.Errorf("mounted %v", calls)
	}
}

// TestExclusive: a volume of one pod only is kept from others, whatever other volumes these have.
func TestExclusive(t *testing.T) {
	s := &server{modes: map[string]corev1.PersistentVolumeAccessMode{"a": corev1.ReadWriteOncePod, "b": corev1.ReadWriteOncePod}}
	v := simulated.New(s, simulated.Options{Mount: func(context.Context, claims.Mount) error { return nil }})
	expect(t, v.Prepare(t.Context(), pod("plain")), "")
	expect(t, v.Prepare(t.Context(), pod("one", "a")), "")
	expect(t, v.Prepare(t.Context(), pod("two", "b")), "")
	if err := v.Prepare(t.Context(), pod("three", "a")); !errors.Is(err, claims.ErrInUse) {
		t.Errorf("got %v", err)
	}
	expect(t, v.Release(t.Context(), "one"), "")
	expect(t, v.Prepare(t.Context(), pod("three", "a")), "")
}

func TestOnOneNode(t *testing.T) {
	s := &server{modes: map[string]corev1.PersistentVolumeAccessMode{"a": corev1.ReadWriteOnce}, nodes: []string{"here"}}
	expect(t, simulated.New(s, simulated.Options{}).Prepare(t.Context(), pod("web", "a")), `MountVolume.NodeAffinity check failed for volume "pv-a" : no matching NodeSelectorTerms`)
	expect(t, simulated.New(s, simulated.Options{Labels: func() map[string]string { return map[string]string{"name": "here"} }}).Prepare(t.Context(), pod("web", "a")), "")
}

func TestInOnePod(t *testing.T) {
	s := &server{modes: map[string]corev1.PersistentVolumeAccessMode{"one": corev1.ReadWriteOncePod, "many": corev1.ReadWriteOnce}}
	v := simulated.New(s, simulated.Options{})
	expect(t, v.Prepare(t.Context(), pod("first", "one", "many")), "")
	expect(t, v.Prepare(t.Context(), pod("second", "many")), "")
	expect(t, v.Prepare(t.Context(), pod("third", "one")),
		`MountVolume.SetUp failed for volume "pv-one" : volume uses the ReadWriteOncePod access mode and is already in use by another pod`)
	if err := v.Release(t.Context(), "first"); err != nil {
		t.Fatal(err)
	}
	expect(t, v.Prepare(t.Context(), pod("third", "one")), "")
}

// TestInOrder: claims that are missing and pods that are gone are listed in order.
func TestInOrder(t *testing.T) {
	names := []string{"e", "b", "d", "a", "c", "f"}
	s := &server{modes: map[string]corev1.PersistentVolumeAccessMode{}}
	v := simulated.New(s, simulated.Options{})
	var lost *claims.UnprocessedError
	if err := v.Prepare(t.Context(), pod("web", names...)); !errors.As(err, &lost) || !slices.IsSorted(lost.Unmounted) || !slices.IsSorted(lost.Unprocessed) || len(lost.Unprocessed) != len(names) {
		t.Errorf("got %v", err)
	}
	s.modes["x"] = corev1.ReadWriteOnce
	for _, name := range names {
		expect(t, v.Prepare(t.Context(), pod(name, "x")), "")
	}
	if gone, err := v.Orphans(func(types.UID) bool { return false }); err != nil || !slices.IsSorted(gone) || len(gone) != len(names) {
		t.Errorf("gone are %v, %v", gone, err)
	}
}

// TestTwiceInOnePod: a pod may have the volume that nobody else may have more than once.
func TestTwiceInOnePod(t *testing.T) {
	v := simulated.New(&server{modes: map[string]corev1.PersistentVolumeAccessMode{"a": corev1.ReadWriteOncePod}}, simulated.Options{})
	p := pod("web", "a", "again")
	p.Spec.Volumes[3].PersistentVolumeClaim.ClaimName = "a"
	expect(t, v.Prepare(t.Context(), p), "")
	if got := len(v.Mounted("web")); got != 2 {
		t.Errorf("it has %d volumes", got)
	}
}
