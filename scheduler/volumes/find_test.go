package volumes_test

import (
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/keelson-dev/keelson/scheduler/volumes"
)

// TestHosts: a volume is found on every node that can reach it, however its terms say that.
func TestHosts(t *testing.T) {
	host := func(operator corev1.NodeSelectorOperator, values ...string) corev1.NodeSelectorTerm {
		return corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: corev1.LabelHostname, Operator: operator, Values: values}}}
	}
	for name, tt := range map[string]struct {
		terms []corev1.NodeSelectorTerm
		n, m  string
	}{
		"one host":         {[]corev1.NodeSelectorTerm{host(corev1.NodeSelectorOpIn, "n")}, "", volumes.BindConflict},
		"two hosts":        {[]corev1.NodeSelectorTerm{host(corev1.NodeSelectorOpIn, "n", "m", "n")}, "", ""},
		"two terms":        {[]corev1.NodeSelectorTerm{host(corev1.NodeSelectorOpIn, "n"), host(corev1.NodeSelectorOpIn, "m")}, "", ""},
		"all but one":      {[]corev1.NodeSelectorTerm{host(corev1.NodeSelectorOpNotIn, "n")}, volumes.BindConflict, ""},
		"any host":         {[]corev1.NodeSelectorTerm{host(corev1.NodeSelectorOpExists)}, "", ""},
		"no term":          {nil, volumes.BindConflict, volumes.BindConflict},
		"both of a term's": {[]corev1.NodeSelectorTerm{{MatchExpressions: append(host(corev1.NodeSelectorOpIn, "n").MatchExpressions, host(corev1.NodeSelectorOpIn, "m").MatchExpressions...)}}, volumes.BindConflict, volumes.BindConflict},
	} {
		t.Run(name, func(t *testing.T) {
			d := disk("d", "")
			d.Spec.NodeAffinity.Required.NodeSelectorTerms = tt.terms
			run(t, func(t *testing.T, s *server, v *volumes.Volumes) {
				want(t, tt.n, reasons(t, s, v, pod("a", "x"), "n"))
				want(t, tt.m, reasons(t, s, v, pod("a", "x"), "m"))
			}, with(claim("x", "local"), d))
		})
	}
}

// TestScoreOfNothing: storage whose size is not known, for a volume of no size, counts as full.
func TestScoreOfNothing(t *testing.T) {
	x := claim("x", "made")
	x.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("0")}
	run(t, func(t *testing.T, s *server, v *volumes.Volumes) {
		claims, err := v.Of(pod("a", "x"))
		if err != nil {
			t.Fatal(err)
		}
		n, _ := s.nodes.Get("", "n")
		p, reasons, err := claims.Find(n)
		if err != nil || len(reasons) > 0 {
			t.Fatal(reasons, err)
		}
		if score := p.Score(func(used int64) int64 { return used + 7 }); score != 107 {
			t.Errorf("score %d", score)
		}
	}, with(x, &storagev1.CSIDriver{ObjectMeta: metav1.ObjectMeta{Name: "disk.example.com"}, Spec: storagev1.CSIDriverSpec{StorageCapacity: ptr.To(true)}},
		&storagev1.CSIStorageCapacity{
			ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "c"}, StorageClassName: "made", NodeTopology: &metav1.LabelSelector{},
			MaximumVolumeSize: ptr.To(resource.MustParse("1Gi")),
		}))
}

// TestEphemeral: the claims of ephemeral volumes are bound like others, if they are the pod's.
func TestEphemeral(t *testing.T) {
	p := inline(corev1.VolumeSource{Ephemeral: &corev1.EphemeralVolumeSource{}})
	own := claim("a-v", "local")
	own.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(p, corev1.SchemeGroupVersion.WithKind("Pod"))}
	run(t, func(t *testing.T, s *server, v *volumes.Volumes) {
		if v.Bound(p) {
			t.Error("bound before")
		}
		reserve(t, v, p, "n")
		bindLater(t.Context(), v, p, "n")
		want(t, "d for ns/a-v uid-a-v yes", s.wrote())
	}, with(own, disk("d", "n")))
	run(t, func(t *testing.T, s *server, v *volumes.Volumes) {
		want(t, "PVC ns/a-v was not created for pod ns/a (pod is not owner)", reasons(t, s, v, p, "n"))
	}, with(claim("a-v", "local"), disk("d", "n")))
}

// TestBindOnce: a second call does nothing while the first waits.
func TestBindOnce(t *testing.T) {
	run(t, func(t *testing.T, s *server, v *volumes.Volumes) {
		p := pod("a", "x")
		reserve(t, v, p, "n")
		first := bindLater(t.Context(), v, p, "n")
		want(t, "waits", returned(first))
		want(t, "done", returned(bindLater(t.Context(), v, p, "n")))
		if v.Reserved(p) {
			t.Error("there is still something to bind")
		}
		s.bind("x", "d")
		want(t, "done", returned(first))
	}, with(claim("x", "local"), disk("d", "n")))
}

// TestGoneBeforeBind: what has gone cannot be written.
func TestGoneBeforeBind(t *testing.T) {
	run(t, func(t *testing.T, s *server, v *volumes.Volumes) {
		reserve(t, v, pod("a", "x"), "n")
		reserve(t, v, pod("b", "y"), "n")
		s.claims.Delete("ns", "x")
		s.volumes.Delete("", "d")
		synctest.Wait()
		want(t, `persistentvolumeclaims "x" not found`, returned(bindLater(t.Context(), v, pod("a", "x"), "n")))
		want(t, `persistentvolumes "d" not found`, returned(bindLater(t.Context(), v, pod("b", "y"), "n")))
	}, with(claim("x", "made"), claim("y", "local"), disk("d", "n")))
}
