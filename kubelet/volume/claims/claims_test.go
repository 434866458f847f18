package claims_test

import (
	"context"
	"errors"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/keelson-dev/keelson/client"
	"github.com/keelson-dev/keelson/kubelet/volume/claims"
)

// server answers with one claim and one volume.
type server struct {
	claim *corev1.PersistentVolumeClaim
	pv    *corev1.PersistentVolume
	asked []client.Target
}

func (s *server) Get(_ context.Context, t client.Target) (runtime.Object, error) {
	s.asked = append(s.asked, t)
	switch {
	case t.Resource.Resource == "persistentvolumeclaims" && s.claim != nil && t.Name == s.claim.Name && t.Namespace == s.claim.Namespace:
		return s.claim, nil
	case t.Resource.Resource == "persistentvolumes" && s.pv != nil && t.Name == s.pv.Name && t.Namespace == "":
		return s.pv, nil
	}
	return nil, apierrors.NewNotFound(t.Resource.GroupResource(), t.Name)
}

// bound is a claim bound to a volume, both fine.
func bound(name string) *server {
	return &server{
		claim: &corev1.PersistentVolumeClaim{
			ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: "claim-uid"},
			Spec:       corev1.PersistentVolumeClaimSpec{VolumeName: "pv"},
			Status:     corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimBound},
		},
		pv: &corev1.PersistentVolume{
			ObjectMeta: metav1.ObjectMeta{Name: "pv"},
			Spec:       corev1.PersistentVolumeSpec{ClaimRef: &corev1.ObjectReference{UID: "claim-uid"}},
		},
	}
}

func claiming(mounted, mapped bool) *corev1.Pod {
	c := corev1.Container{Name: "c"}
	if mounted {
		c.VolumeMounts = []corev1.VolumeMount{{Name: "v", MountPath: "/v"}}
	}
	if mapped {
		c.VolumeDevices = []corev1.VolumeDevice{{Name: "v", DevicePath: "/dev/v"}}
	}
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "web", UID: "pod-uid"}, Spec: corev1.PodSpec{
		Containers: []corev1.Container{c},
		Volumes: []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data", ReadOnly: true},
		}}},
	}}
}

func TestResolve(t *testing.T) {
	now := metav1.NewTime(time.Unix(1, 0))
	block := corev1.PersistentVolumeBlock
	for name, tt := range map[string]struct {
		change         func(*server)
		mapped, nobody bool
		want           string
	}{
		"bound":    {change: func(*server) {}},
		"missing":  {change: func(s *server) { s.claim = nil }, want: `error processing PVC ns/data: failed to fetch PVC from API server: persistentvolumeclaims "data" not found`},
		"pending":  {change: func(s *server) { s.claim.Status.Phase = corev1.ClaimPending }, want: "error processing PVC ns/data: PVC is not bound"},
		"lost":     {change: func(s *server) { s.claim.Status.Phase = corev1.ClaimLost }, want: "error processing PVC ns/data: PVC is not bound"},
		"nameless": {change: func(s *server) { s.claim.Spec.VolumeName = "" }, want: "error processing PVC ns/data: PVC has empty pvc.Spec.VolumeName"},
		"deleted":  {change: func(s *server) { s.claim.DeletionTimestamp = &now }, want: "error processing PVC ns/data: PVC is being deleted"},
		"protected": {change: func(s *server) {
			s.claim.DeletionTimestamp, s.claim.Finalizers = &now, []string{"kubernetes.io/pvc-protection"}
		}},
		"no volume":   {change: func(s *server) { s.pv = nil }, want: `error processing PVC ns/data: failed to fetch PV pv from API server: persistentvolumes "pv" not found`},
		"unclaimed":   {change: func(s *server) { s.pv.Spec.ClaimRef = nil }, want: "error processing PVC ns/data: found PV object pv but it has a nil pv.Spec.ClaimRef indicating it is not yet bound to the claim"},
		"other claim": {change: func(s *server) { s.pv.Spec.ClaimRef.UID = "other" }, want: "error processing PVC ns/data: found PV object pv but its pv.Spec.ClaimRef.UID other does not point to claim.UID claim-uid"},
		"a device, mounted": {change: func(s *server) { s.pv.Spec.VolumeMode = &block },
			want: "volume v has volumeMode Block, but is specified in volumeMounts"},
		"files as a device": {change: func(*server) {}, nobody: true, mapped: true, want: "volume v has volumeMode Filesystem, but is specified in volumeDevices"},
		"a device":          {change: func(s *server) { s.pv.Spec.VolumeMode = &block }, nobody: true, mapped: true},
	} {
		t.Run(name, func(t *testing.T) {
			s := bound("data")
			tt.change(s)
			pod := claiming(!tt.nobody, tt.mapped)
			m, err := claims.Resolve(t.Context(), claims.ReaderOf(s), pod, &pod.Spec.Volumes[0])
			if got := text(err); got != tt.want {
				t.Fatalf("got  %s\nwant %s", got, tt.want)
			}
			if err != nil {
				return
			}
			if m.Claim != s.claim || m.Persistent != s.pv || !m.ReadOnly || m.Name() != "pv" || m.Block() != tt.mapped {
				t.Errorf("%+v", m)
			}
		})
	}
}

func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// TestEphemeral: the claim of an ephemeral volume must belong to the pod, whatever its state.
func TestEphemeral(t *testing.T) {
	pod := claiming(true, false)
	pod.Spec.Volumes[0].VolumeSource = corev1.VolumeSource{Ephemeral: &corev1.EphemeralVolumeSource{}}
	s := bound("web-v")
	_, err := claims.Resolve(t.Context(), claims.ReaderOf(s), pod, &pod.Spec.Volumes[0])
	if want := "PVC ns/web-v was not created for pod ns/web (pod is not owner)"; text(err) != want {
		t.Errorf("got %v, want %s", err, want)
	}
	if len(s.asked) != 1 {
		t.Errorf("a stranger's volume was read: %v", s.asked)
	}
	s.claim.OwnerReferences = []metav1.OwnerReference{{UID: pod.UID, Controller: new(true)}}
	m, err := claims.Resolve(t.Context(), claims.ReaderOf(s), pod, &pod.Spec.Volumes[0])
	if err != nil || m.ReadOnly || m.Name() != "pv" {
		t.Errorf("%+v, %v", m, err)
	}
}

// TestPlain: a volume without a claim is itself.
func TestPlain(t *testing.T) {
	pod := claiming(true, false)
	pod.Spec.Volumes[0].VolumeSource = corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}
	m, err := claims.Resolve(t.Context(), nil, pod, &pod.Spec.Volumes[0])
	if err != nil || m.Name() != "v" || m.Persistent != nil || m.Exclusive() || m.Block() || m.Options() != nil {
		t.Errorf("%+v, %v", m, err)
	}
	if err := claims.CheckNode(m, nil); err != nil {
		t.Error(err)
	}
}

func TestNode(t *testing.T) {
	m := claims.Mount{Persistent: &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pv"}}}
	on := func(names ...string) *corev1.VolumeNodeAffinity {
		return &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
			MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "kubernetes.io/hostname", Operator: corev1.NodeSelectorOpIn, Values: names}},
		}}}}
	}
	for name, tt := range map[string]struct {
		affinity *corev1.VolumeNodeAffinity
		want     string
	}{
		"anywhere":           {nil, ""},
		"anywhere, in words": {&corev1.VolumeNodeAffinity{}, ""},
		"here":               {on("a", "b"), ""},
		"nowhere": {
			&corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "k", Operator: "Near"}}}}}},
			`MountVolume.NodeAffinity check failed for volume "pv" : nodeSelectorTerms[0].matchExpressions[0].operator: Unsupported value: "Near": supported values: "In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"`,
		},
		"elsewhere": {on("c"), `MountVolume.NodeAffinity check failed for volume "pv" : no matching NodeSelectorTerms`},
	} {
		t.Run(name, func(t *testing.T) {
			m.Persistent.Spec.NodeAffinity = tt.affinity
			err := claims.CheckNode(m, map[string]string{"kubernetes.io/hostname": "b"})
			if text(err) != tt.want {
				t.Errorf("got %v, want %s", err, tt.want)
			}
			if failed := (*claims.MountError)(nil); err != nil && (!errors.As(err, &failed) || failed.Volume != "pv") {
				t.Errorf("%T", err)
			}
		})
	}
}

func TestErrors(t *testing.T) {
	err := &claims.UnprocessedError{Unmounted: []string{"a", "b"}, Unprocessed: []string{"b"}, Errs: []error{errors.New("one"), errors.New("two")}}
	if want := "Unable to attach or mount volumes: unmounted volumes=[a b], unattached volumes=[], failed to process volumes=[b]: one; two"; err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
	if err.RetryAfter() != 10*time.Second || !errors.Is(err, err.Errs[1]) {
		t.Error("the errors or the pause")
	}
	if err := (&claims.MountError{Err: err.Errs[0]}); !errors.Is(err, err.Err) {
		t.Error("the error of a mount is lost")
	}
	if err := (&claims.MountError{Volume: "v", Err: errors.New("why")}); err.Error() != `MountVolume.SetUp failed for volume "v" : why` {
		t.Error(err)
	}
}

// TestUsed: a volume is used by whichever container mounts it or has it as a device.
func TestUsed(t *testing.T) {
	mount, device := []corev1.VolumeMount{{Name: "x"}, {Name: "v"}}, []corev1.VolumeDevice{{Name: "x"}, {Name: "v"}}
	for name, tt := range map[string]struct {
		spec corev1.PodSpec
		want bool
	}{
		"by nobody":             {corev1.PodSpec{Containers: []corev1.Container{{VolumeMounts: mount[:1], VolumeDevices: device[:1]}}}, false},
		"mounted":               {corev1.PodSpec{Containers: []corev1.Container{{VolumeMounts: mount}, {}}}, true},
		"mapped":                {corev1.PodSpec{Containers: []corev1.Container{{VolumeDevices: device}, {}}}, true},
		"mounted initially":     {corev1.PodSpec{InitContainers: []corev1.Container{{VolumeMounts: mount}}, Containers: []corev1.Container{{}}}, true},
		"mapped initially":      {corev1.PodSpec{InitContainers: []corev1.Container{{VolumeDevices: device}}, Containers: []corev1.Container{{}}}, true},
		"mounted by a debugger": {corev1.PodSpec{EphemeralContainers: []corev1.EphemeralContainer{{EphemeralContainerCommon: corev1.EphemeralContainerCommon{VolumeMounts: mount}}}}, true},
	} {
		if got := claims.Used(&corev1.Pod{Spec: tt.spec}, "v"); got != tt.want {
			t.Errorf("%s: used: %v", name, got)
		}
	}
}

func TestExclusive(t *testing.T) {
	m := claims.Mount{Persistent: &corev1.PersistentVolume{}}
	modes := []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOncePod, corev1.ReadWriteOnce}
	for n, want := range []bool{false, true, false} {
		m.Persistent.Spec.AccessModes = modes[:n]
		if m.Exclusive() != want {
			t.Errorf("%v: exclusive %v", modes[:n], m.Exclusive())
		}
	}
}
