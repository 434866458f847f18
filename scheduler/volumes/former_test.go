package volumes_test

import (
	"strings"
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keelson-dev/keelson/scheduler/volumes"
)

// migrated returns what node "n" says where drivers have replaced these plugins.
func migrated(plugins string) *storagev1.CSINode {
	n := csiNode(nil)
	n.Annotations = map[string]string{corev1.MigratedPluginsAnnotationKey: plugins}
	return n
}

// TestFormerPlugins: a volume of a plugin that a driver has replaced on a node is where the driver's would be.
func TestFormerPlugins(t *testing.T) {
	zoned := from("d", ebs("vol-1"))
	zoned.Spec.NodeAffinity = &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
		MatchExpressions: []corev1.NodeSelectorRequirement{{Key: corev1.LabelTopologyZone, Operator: corev1.NodeSelectorOpIn, Values: []string{"z"}}},
	}}}}
	invalid := zoned.DeepCopy()
	invalid.Spec.AWSElasticBlockStore.VolumeID = "aws://zone/disk"
	for name, tt := range map[string]struct {
		volume *corev1.PersistentVolume
		csi    *storagev1.CSINode
		label  string // which says that the node is in zone "z"
		want   string
	}{
		"not replaced":             {zoned, migrated("kubernetes.io/gce-pd"), corev1.LabelTopologyZone, ""},
		"not replaced, elsewhere":  {zoned, migrated(""), "zone", volumes.NodeConflict},
		"replaced":                 {zoned, migrated("kubernetes.io/gce-pd,kubernetes.io/aws-ebs"), "topology.ebs.csi.aws.com/zone", ""},
		"replaced, elsewhere":      {zoned, migrated("kubernetes.io/aws-ebs"), "zone", volumes.NodeConflict},
		"replaced, and invalid":    {invalid, migrated("kubernetes.io/aws-ebs"), corev1.LabelTopologyZone, "could not translate pv: "},
		"not replaced and invalid": {invalid, migrated(""), corev1.LabelTopologyZone, ""},
	} {
		t.Run(name, func(t *testing.T) {
			run(t, func(t *testing.T, s *server, v *volumes.Volumes) {
				s.nodes.Put(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", Labels: map[string]string{tt.label: "z"}}})
				synctest.Wait()
				if got := reasons(t, s, v, pod("a", "x"), "n"); !strings.HasPrefix(got, tt.want) || tt.want == "" && got != "" {
					t.Errorf("bound: got %q, want %q", got, tt.want)
				}
				// The same holds for a volume that is made while Bind waits.
				s.volumes.Put(disk("other", "n"))
				reserve(t, v, pod("a", "y"), "n")
				done := bindLater(t.Context(), v, pod("a", "y"), "n")
				s.bind("y", "d")
				bound := returned(done)
				switch {
				case tt.want == "":
					want(t, "done", bound)
				case strings.HasPrefix(tt.want, "could not"):
					want(t, "binding volumes: failed to translate pv to csi: could not translate pv: ", bound[:min(len(bound), 72)])
				default:
					want(t, `binding volumes: pv "d" node affinity doesn't match node "n": no matching NodeSelectorTerms`, bound)
				}
			}, with(of("d", ""), claim("y", "made"), tt.volume, tt.csi))
		})
	}
}

// TestGoneWhileReserved: a volume that goes, and is made again, can be had again.
func TestGoneWhileReserved(t *testing.T) {
	run(t, func(t *testing.T, s *server, v *volumes.Volumes) {
		undo := reserve(t, v, pod("a", "x"), "n")
		s.volumes.Delete("", "d")
		synctest.Wait()
		want(t, volumes.BindConflict, reasons(t, s, v, pod("b", "y"), "n"))
		s.volumes.Put(disk("d", "n"))
		synctest.Wait()
		want(t, "", reasons(t, s, v, pod("b", "y"), "n"))
		undo()
	}, with(claim("x", "local"), claim("y", "local"), disk("d", "n")))
}

// TestNotClaims: volumes without claims neither wait nor are bound.
func TestNotClaims(t *testing.T) {
	run(t, func(t *testing.T, s *server, v *volumes.Volumes) {
		p := pod("a", "x")
		p.Spec.Volumes = append([]corev1.Volume{{Name: "tmp", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}}, p.Spec.Volumes...)
		reserve(t, v, p, "n")
		bindLater(t.Context(), v, p, "n")
		want(t, "d for ns/x uid-x yes", s.wrote())
		if !v.Bound(inline(corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}})) {
			t.Error("a pod without claims has some to bind")
		}
	}, with(claim("x", "local"), disk("d", "n")))
}

// TestToBeMade: a claim for which a volume is to be made on a node gets none that exists.
func TestToBeMade(t *testing.T) {
	x, d := claim("x", "made"), disk("d", "n")
	x.Annotations, d.Spec.StorageClassName = map[string]string{selected: "n"}, "made"
	run(t, func(t *testing.T, s *server, v *volumes.Volumes) {
		reserve(t, v, pod("a", "x"), "n")
		bindLater(t.Context(), v, pod("a", "x"), "n")
		want(t, "", s.wrote())
		want(t, "", reasons(t, s, v, pod("b", "y"), "n"))
		reserve(t, v, pod("b", "y"), "n")
		bindLater(t.Context(), v, pod("b", "y"), "n")
		want(t, "d for ns/y uid-y yes", s.wrote())
	}, with(x, claim("y", "made"), d))
}
